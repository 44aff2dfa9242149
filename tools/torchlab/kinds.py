"""Which ops give whole numbers where they get whole numbers: ``python -m tools.torchlab.kinds``.

Writes ``kinds.json``: `whole` are the ops that do, `filled` those among them that do so whatever number is given beside
them, `always` those that give whole numbers whatever they get. Needs torch.
"""

from __future__ import annotations

import functools
import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from tapecheck import torchfacts
from tapecheck.torchfacts import load

STORED = Path(torchfacts.__file__).with_name("kinds.json")
ROW, SQUARE, CHOSEN = torch.tensor([1, 2, 3]), torch.tensor([[1, 2], [3, 4]]), torch.tensor([True, False, True])
PLACES = torch.tensor([0, 1, 2])
GIVEN: tuple[tuple[object, ...], ...] = (
    (ROW,), (SQUARE,), (ROW, ROW), (SQUARE, SQUARE), (ROW, 1), (SQUARE, 1), (ROW, 1, 0), (SQUARE, 0, 1),
    ([ROW, ROW],), (CHOSEN, ROW, ROW), (ROW, CHOSEN, ROW), (ROW, CHOSEN, 1), (ROW, CHOSEN), (ROW, 0, PLACES, 1),
    (ROW, 0, PLACES, ROW), (ROW, 0, PLACES), (ROW, [1, 1]), (ROW, (3,)), (ROW, 3, 0), (ROW, 0, 0, 1), (ROW, 0, 1, 1),
    (SQUARE, (0, 1)), (ROW, (1, 1), "constant", 1),
)  # fmt: skip
"""What the ops are tried with, the first that each takes counts."""


def _called(name: str) -> Iterator[Callable[..., object]]:
    for owner in (torch, torch.Tensor):
        try:
            yield functools.reduce(getattr, name.split("."), owner)
        except AttributeError:
            continue


def _is_whole(function: Callable[..., object], given: tuple[object, ...]) -> bool | None:
    """Return whether a function gives whole numbers for some arguments; None where it does not take them."""
    try:
        made = function(*given)
    except Exception:  # whatever torch raises of arguments that an op does not take
        return None
    made = made[0] if isinstance(made, (tuple, list)) and made else made
    if not isinstance(made, torch.Tensor):
        return None
    return not made.is_floating_point() and not made.is_complex()


def _first(name: str, tried: tuple[tuple[object, ...], ...]) -> bool | None:
    answers = (_is_whole(function, given) for given in tried for function in _called(name))
    return next((answer for answer in answers if answer is not None), None)


def _with_fraction(given: tuple[object, ...]) -> tuple[object, ...]:
    return (*given[:-1], 1.5)


def _of_fractions(given: tuple[object, ...]) -> tuple[object, ...]:
    """Return the same arguments with tensors that hold fractions, but for those that choose elements."""
    return tuple(_fractions(one) for one in given)


def _fractions(given: object) -> object:
    if isinstance(given, list):
        return list(map(_fractions, given))
    chooses = given is CHOSEN or given is PLACES
    return given.float() if isinstance(given, torch.Tensor) and not chooses else given


def measure() -> dict[str, object]:
    """Return what ``kinds.json`` holds."""
    names = [name for name in load().op_names() if name.endswith("__") or not name.endswith("_")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = sorted(name for name in names if _first(name, GIVEN))
        fractions = tuple(_with_fraction(given) for given in GIVEN if type(given[-1]) is int)
        filled = sorted(name for name in whole if _first(name, fractions))
        always = sorted(name for name in names if _first(name, tuple(map(_of_fractions, GIVEN))))
    return {"torch": torch.__version__.split("+")[0], "whole": whole, "filled": filled, "always": always}


if __name__ == "__main__":
    STORED.write_text(json.dumps(measure(), indent=1, sort_keys=True) + "\n", encoding="utf-8")
