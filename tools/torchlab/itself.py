"""Which ops give back the very tensor that they are given: ``python -m tools.torchlab.itself``.

Writes ``itself.json``. `ops` has, for an op and the numbers that it is given beside the tensor, with how many
dimensions a tensor comes back as it is, one of real numbers and one of complex ones; where it does not, `copied` are
the ops that make memory of their own. `beside` are ops that give a tensor back for what another one, or some sizes,
are. Needs torch.
"""

from __future__ import annotations

import functools
import itertools
import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import torch

from tapecheck import torchfacts
from tapecheck.torchfacts import load

STORED = Path(torchfacts.__file__).with_name("itself.json")
SIZES = ((), (3,), (3, 3), (2, 3, 3), (1, 2, 3, 3))
"""The sizes of the tensors that are tried, by their number of dimensions."""
TYPES = {"real": torch.float32, "complex": torch.complex64}
NUMBERS = (-1, 0, 1, 2)
"""The numbers that ops are given beside a tensor, one or two of them by their names."""
_BESIDE: tuple[Callable[[torch.Tensor], object], ...] = (lambda x: x, lambda x: tuple(x.shape))


def _called(name: str) -> Iterator[Callable[..., object]]:
    """Yield what an op is called by, as a function and as a method or an attribute of tensors."""
    for owner in (torch, torch.Tensor):
        try:
            found = functools.reduce(getattr, name.split("."), owner)
        except AttributeError:
            continue
        yield found if callable(found) else functools.partial(_attribute, name)


def _attribute(name: str, tensor: torch.Tensor) -> object:
    return getattr(tensor, name)


def _made(function: Callable[..., object], tensor: torch.Tensor, /, *more: object, **named: int) -> list[torch.Tensor]:
    """Return the tensors that a call gives; none where it does not take what it is given."""
    try:
        made = function(tensor, *more, **named)
    except Exception:  # whatever torch raises of arguments that an op does not take
        return []
    return [one for one in (made if isinstance(made, (tuple, list)) else [made]) if isinstance(one, torch.Tensor)]


def _share(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors begin in the same place of memory."""
    try:
        return bool(one.data_ptr() == other.data_ptr())
    except RuntimeError:  # sparse tensors and their like have no such place
        return False


def _ways(name: str) -> Iterator[dict[str, int]]:
    """Yield the numbers that an op is called with beside a tensor."""
    yield {}
    fact = load().op(name)
    if fact is None or fact.aliasing.view == "no":
        return
    params = [one for one in fact.params[1:3] if not one.startswith("*")]
    for count in range(1, len(params) + 1):
        for chosen in itertools.combinations(params, count):
            for numbers in itertools.product(NUMBERS, repeat=count):
                yield dict(zip(chosen, numbers))


def _kept(name: str, named: Mapping[str, int]) -> tuple[dict[str, list[int]], dict[str, list[int]], bool]:
    """Return the dimensions of tensors that come back and of others, by type, and whether any of these is a copy."""
    back: dict[str, list[int]] = {}
    others: dict[str, list[int]] = {}
    copied = False
    for function in itertools.islice(_called(name), 1):
        for (kind, dtype), (rank, size) in itertools.product(TYPES.items(), enumerate(SIZES)):
            tensor = torch.ones(size, dtype=dtype)
            for made in _made(function, tensor, **named)[:1]:
                (back if made is tensor else others).setdefault(kind, []).append(rank)
                copied |= not _share(made, tensor)
    return back, others, copied


def _names() -> list[str]:
    """Return the ops that are tried: those that change a tensor give it back, and what draws numbers is told how."""
    facts = load()
    kept = [name for name in facts.op_names() if (fact := facts.op(name)) is not None and not fact.writing.inplace_flag]
    return [name for name in kept if name.endswith("__") or not name.endswith("_")]


def measure() -> dict[str, object]:
    """Return what ``itself.json`` holds."""
    ops: dict[str, dict[str, dict[str, list[int]]]] = {}
    copying, beside = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in _names():
            copied = sometimes = False
            tables = {}
            for named in _ways(name):
                back, others, anew = _kept(name, named)
                copied |= anew
                sometimes |= bool(back and others)
                tables[", ".join(f"{key}={value}" for key, value in named.items())] = back
            if sometimes:
                ops[name] = {key: back for key, back in tables.items() if back or not key}
                copying += [name] if copied else []
            elif any(map(functools.partial(_comes_back_beside, name), itertools.product(SIZES, _BESIDE))):
                beside.append(name)
    return {"torch": torch.__version__.split("+")[0], "ops": ops, "copied": copying, "beside": beside}


def _comes_back_beside(name: str, given: tuple[tuple[int, ...], Callable[[torch.Tensor], object]]) -> bool:
    """Return whether an op gives back a tensor of some sizes that another argument is made from: no fact says so."""
    fact, (size, other) = load().op(name), given
    if fact is None or fact.writing.mutates or fact.aliasing.returns_input != "no":
        return False
    tensor = torch.ones(size)
    made = [one for function in _called(name) for one in _made(function, tensor, other(tensor))]
    return any(one is tensor for one in made)


if __name__ == "__main__":
    STORED.write_text(json.dumps(measure(), sort_keys=True) + "\n", encoding="utf-8")
