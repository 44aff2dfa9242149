"""A fix is tried in the part of the program that its finding is about, where the rest has nothing to do with it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tapecheck import check as checking
from tapecheck.check import Memory, Report
from tapecheck.fixes import Effort, Fix, fixes_for
from tapecheck.fixes import part as parts
from tapecheck.source import Source, from_text

PROGRAM = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*[nn.Linear(4, 4) for _ in range(12)])

    def forward(self, x):
        return self.layers(x)


def first():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    history = []
    for step in range(100):
        loss = model(torch.randn(2, 4)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(loss)
    return model


def second():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(100):
        loss = model(torch.randn(2, 4)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        optimizer.step()


def third():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    hidden = torch.zeros(2, 4)
    for step in range(100):
        hidden = model(hidden)
        loss = hidden.pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main():
    first()
    second()
    third()


if __name__ == "__main__":
    main()
"""
EXPECTED = {"TAPE201", "TAPE301", "TAPE101"}


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that are checked."""
    texts: list[str] = []
    check: Callable[..., Report] = checking.check

    def spy(source: Source, **given: object) -> Report:
        texts.append(source.text)
        return check(source, **given)

    monkeypatch.setattr(checking, "check", spy)
    return texts


def fixed(text: str) -> tuple[dict[str, list[Fix]], int, int]:
    """Return the fixes of a program by the codes of what it finds, the work of its check and that of its fixes."""
    memory = Memory()
    report = checking.check(from_text(text, "train.py"), memory=memory)
    effort = Effort()
    before = effort.left
    found = {one.code: fixes_for(report, one, memory=memory, effort=effort) for one in report.findings}
    return found, report.interpretation.work, before - effort.left


def test_fixes_are_those_that_the_whole_program_is_tried_for(monkeypatch: pytest.MonkeyPatch) -> None:
    found, work, spent = fixed(PROGRAM)
    assert found.keys() == EXPECTED and all(found.values())
    monkeypatch.setattr(parts, "LEAST_EVENTS", 1 << 30)
    whole, _, more = fixed(PROGRAM)
    assert found == whole
    # Each of the three is about a third of the program, and is checked once before it is edited.
    assert spent < 3 * work < more


def test_the_rest_of_the_program_is_left_out(tried: list[str]) -> None:
    fixed(PROGRAM)
    assert tried.pop(0) == PROGRAM
    for text in tried:
        lines = text.split("\n")
        assert len(lines) >= PROGRAM.count("\n")
        assert sum(f"def {name}():" in text for name in ("first", "second", "third")) == 1
        assert "    pass   " in lines and "class Net(nn.Module):" in lines


@pytest.mark.parametrize(
    "before, after",
    [
        # One model for all: what one loop does to it the others meet.
        ("    model = Net()\n", "    model = NET\n"),
        # What one leaves is what the next one goes on with.
        ("    first()\n    second()\n    third()\n", "    first(); second(); third()\n"),
        ("    first()\n", "    exec('first()')\n"),
    ],
)
def test_a_program_that_cannot_be_parted_is_tried_as_a_whole(tried: list[str], before: str, after: str) -> None:
    text = PROGRAM.replace(before, after).replace("def first", "NET = Net()\n\n\ndef first")
    fixed(text)
    assert len(tried) > 1
    assert all(" third()" in one and "def second" in one for one in tried)


def test_a_change_of_what_others_call_is_tried_in_the_whole_program(tried: list[str]) -> None:
    helper = "def kept(loss, history):\n    history.append(loss)\n\n\ndef first"
    text = PROGRAM.replace("        history.append(loss)\n", "        kept(loss, history)\n").replace(
        "def first", helper
    )
    text = text.replace("    for step", "    history = []\n    kept(1.0, history)\n    for step")
    found, _, _ = fixed(text)
    assert found["TAPE201"]
    edited = [one for one in tried if "history.append(loss)\n" not in one]
    assert edited and all("def second" in one for one in edited)


def test_a_part_that_shows_something_else_is_not_used(monkeypatch: pytest.MonkeyPatch, tried: list[str]) -> None:
    monkeypatch.setattr(parts, "_says_the_same", lambda alone, report: False)
    found, _, _ = fixed(PROGRAM)
    assert all(found.values())
    assert any("def second" in one and one != PROGRAM and "def third" in one for one in tried)


def test_names_that_are_read_later_keep_their_statement(tried: list[str]) -> None:
    text = PROGRAM.replace("    first()\n", "    model = first()\n").replace(
        "    third()\n", "    third()\n    print(model)\n"
    )
    fixed(text)
    assert all("model = first()" in one for one in tried)
