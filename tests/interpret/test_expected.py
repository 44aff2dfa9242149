"""Exceptions that guesses lead to: raised where the program catches such a one, gone on past where it does not."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from textwrap import dedent, indent

import pytest

from tapecheck.check import check
from tapecheck.source import from_text
from tests.interpret.truth import torch_raises_at

CAUSES: Mapping[str, tuple[str, str]] = {
    # What holds for the folder that the program runs in, and the exception of a dry run that has guessed otherwise.
    "a count of files": ("assert len(list(folder.glob('*'))) == 1", "AssertionError"),
    "a count that is looked at": (
        "names = list(folder.iterdir())\nif len(names) != 1:\n    raise LookupError(names)",
        "LookupError",
    ),
    "an error of the program's own": (
        "names = [name for name in folder.iterdir()]\nif len(names) > 1:\n    raise Refused(names)",
        "Refused",
    ),
}
OTHERS = ("KeyboardInterrupt", "torch.cuda.OutOfMemoryError", "ZeroDivisionError", "(SystemExit, UnicodeError)")
CATCHING = {
    "AssertionError": ("AssertionError", "Exception", "(OSError, AssertionError)", "BaseException"),
    "LookupError": ("LookupError", "Exception", "(LookupError, OSError)"),
    "Refused": ("Refused", "RuntimeError", "(OSError, RuntimeError)"),
}
PROGRAM = """
import pathlib
import tempfile
import torch


class Refused(RuntimeError):
    pass


folder = pathlib.Path(tempfile.mkdtemp())
(folder / "a.txt").write_text("")
w = torch.ones(3, requires_grad=True)


def train():
{cause}
    loss = w.exp().sum()
    loss.backward()
    loss.backward()


{run}
"""


def written(cause: str, *caught: str) -> str:
    """Return a program that trains in blocks that catch exceptions, the innermost first."""
    run = "train()"
    for one in caught:
        block = "with contextlib.suppress({}):\n{}" if one.startswith("suppress ") else None
        if block is not None:
            run = "import contextlib\n" + block.format(one.removeprefix("suppress "), indent(run, "    "))
        else:
            run = f"try:\n{indent(run, '    ')}\nexcept {one}:\n    print('stopped')"
    return dedent(PROGRAM).format(cause=indent(cause, "    "), run=run)


def told(text: str) -> list[str]:
    return [finding.code for finding in check(from_text(text, "program.py")).findings]


AROUND = [
    *((one,) for one in (*OTHERS, "suppress KeyError", "suppress FileNotFoundError, KeyError")),
    *itertools.permutations(OTHERS[:3], 2),
]


@pytest.mark.parametrize("cause", CAUSES)
@pytest.mark.parametrize("around", AROUND, ids=" in ".join)
def test_what_catches_other_exceptions_hides_nothing(cause: str, around: tuple[str, ...]) -> None:
    assert told(written(CAUSES[cause][0], *around)) == told(written(CAUSES[cause][0])) == ["TAPE101"]


def test_torch_raises_in_all_of_them() -> None:
    texts = {f"{cause}, {around}": written(CAUSES[cause][0], *around) for cause in CAUSES for around in [(), *AROUND]}
    assert all("backward through the graph a second time" in message for _, message in torch_raises_at(texts).values())


@pytest.mark.parametrize(
    ("cause", "caught"), [(cause, one) for cause, (_, kind) in CAUSES.items() for one in CATCHING[kind]]
)
def test_what_is_caught_leads_to_its_handler(cause: str, caught: str) -> None:
    """The handler's mistake is one that only an exception leads to."""
    text = written(CAUSES[cause][0], caught).replace("print('stopped')", "(w * w).sum().backward(); w.mul_(2)")
    assert "TAPE104" in told(text)
