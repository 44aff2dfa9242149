"""Conditions that the work limit has left untried: those that may clear a gradient silence TAPE403, no others.

Programs are put together out of a place in a training loop and of what a condition there does. torch runs each with the
condition and without: where the two end with other weights, the condition clears, and nothing may be said.
"""

from __future__ import annotations

import itertools
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.interpret import limits
from tapecheck.source import from_text

DEFINITIONS = """\
import sys
import torch
import near
from near import tidy as clean, Keeper, note

net = torch.nn.Linear(1, 1, bias=False)
opt = torch.optim.SGD(net.parameters(), lr=1.0)
rates = torch.optim.lr_scheduler.ConstantLR(opt, factor=1.0)
keeper = Keeper(opt)
total = 0.0
count = 0
table = {"clear": opt.zero_grad, "say": note}

def wipe():
    far()

def far():
    for p in net.parameters():
        p.grad = None

def look(value):
    return note(value) or value

def keep(value):
    if value is None:
        raise ValueError(note(value))
    return keeper.keep(value) or value
"""
NEAR = """\
import deep

def tidy(optimizer):
    deep.tidy(optimizer)

def note(value):
    return deep.note(value)

class Keeper:
    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.seen = []

    def finish(self):
        self.done()

    def done(self):
        self.optimizer.zero_grad()

    def keep(self, value):
        self.seen.append(value)
"""
IMPLICIT = """\
class Cleaner:
    def __init__(self, optimizer):
        self.optimizer = optimizer

    def __call__(self):
        self.optimizer.zero_grad()

class Clean(Cleaner):
    def __enter__(self):
        return self

    def __exit__(self, *given):
        self.optimizer.zero_grad()

cleaner = Cleaner(opt)
"""
DEEP = """\
def tidy(optimizer):
    optimizer.zero_grad()

def note(value):
    return None if value is None else str(value)
"""
CLEARING = [
    "opt.zero_grad()",
    "net.zero_grad()",
    "wipe()",
    "clean(opt)",
    "near.tidy(opt)",
    "keeper.finish()",
    "keeper.optimizer.zero_grad()",
    "with Clean(opt): pass",
    "cleaner()",
    "action = opt.zero_grad; action()",
    "(lambda: opt.zero_grad())()",
    "table['clear']()",
    "torch._foreach_zero_([p.grad for p in net.parameters()])",
    "getattr(opt, 'zero_grad')()",
]
HIDDEN = ["hidden.reset(opt)", "hidden.Trainer(net).clear()", "hidden.model(keeper)"]
HIDDEN_CODE = """\
def reset(given):
    given.zero_grad()

def model(given):
    given.finish()

class Trainer:
    def __init__(self, net):
        self.net = net

    def clear(self):
        self.net.zero_grad()
"""
"""What hidden code may be: the dry run does not see it."""
KEEPING = [
    "raise ValueError(loss)",
    "total = total + loss",
    "loss = loss * 1",
    "keeper.keep(loss)",
    "note(loss); extra = net(x)",
    "count = look(loss)",
    "total = keep(loss)",
    "rates.step(); extra = look(net(x))",
    "break",
    "continue",
]
BEFORE, AFTER = "        loss.backward()\n{0}        opt.step()\n", "        loss.backward()\n        opt.step()\n{0}"


def program(side: str, place: str, *, behind: str = "") -> str:
    asked = f"        if x.sum() + len(sys.argv) > 6:\n            {side}\n"
    loop = "    for x in batches:\n        loss = net(x).sum()\n" + place.format(asked)
    hidden = "import hidden\n" if "hidden" in side else ""
    imported = IMPLICIT if side in ("cleaner()", "with Clean(opt): pass") else hidden
    names = "    global total, count\n"
    rounds = f"for epoch in range(2):\n    train([torch.ones(1)] * 3)\n{behind}"
    return f"{DEFINITIONS}{imported}\ndef train(batches):\n{names}{loop}\n{rounds}"


def files(folder: Path, text: str) -> Path:
    for name, content in {"near.py": NEAR, "deep.py": DEEP, "main.py": text}.items():
        (folder / name).write_text(content)
    return folder / "main.py"


def ended(path: Path, arguments: int, monkeypatch: pytest.MonkeyPatch) -> float | None:
    """Return the weight that a program ends with under torch, None where it fails."""
    import torch

    torch.manual_seed(0)
    for name in ("near", "deep"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    hidden = types.ModuleType("hidden")
    exec(HIDDEN_CODE, hidden.__dict__)
    monkeypatch.setitem(sys.modules, "hidden", hidden)
    monkeypatch.syspath_prepend(str(path.parent))
    monkeypatch.setattr(sys, "argv", ["main.py"] * arguments)
    names: dict[str, object] = {"__name__": "__main__"}
    try:
        exec(compile(path.read_text(), str(path), "exec"), names)
    except ValueError:
        return None
    weight = names["net"].weight  # type: ignore[attr-defined]
    return float(weight.detach())


def told(path: Path) -> tuple[list[bool], int]:
    """Return how certain each TAPE403 of a program is, and how many conditions were left untried."""
    report = check(from_text(path.read_text(), str(path)))
    untried = max((len(tape.untried) for tape in report.interpretation.tapes), default=0)
    return [one.certain for one in report.findings if one.code == "TAPE403"], untried


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("FURTHER_WORK", "FURTHER_TIMES", "PROBE_TIMES"):
        monkeypatch.setattr(limits, name, 0)
    yield


FORMS = [
    *((side, place, "") for side, place in itertools.product([*CLEARING, *HIDDEN, *KEEPING], (BEFORE, AFTER))),
    *(("break", AFTER, behind) for behind in ("    wipe()\n", "    look(None)\n")),
]


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("form", FORMS, ids=" ".join)
def test_what_may_clear_is_silent_and_what_cannot_is_told(
    form: tuple[str, str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    side, place, behind = form
    path = files(tmp_path, program(side, place, behind=behind))
    clearing = side in CLEARING or side in HIDDEN or "wipe" in behind
    if side in CLEARING or side in HIDDEN:
        assert ended(path, 1, monkeypatch) != ended(path, 9, monkeypatch), "it clears nothing"
    elif not {"break", "continue"}.intersection(side.split()) and "raise" not in side:
        assert ended(path, 1, monkeypatch) == ended(path, 9, monkeypatch), "it clears"
    assert len(told(path)[0]) == (0 if clearing else 1)


@pytest.mark.usefixtures("no_work")
def test_most_conditions_are_left_untried_here(tmp_path: Path) -> None:
    """Else the others would show little."""
    counts = {side: told(files(tmp_path, program(side, BEFORE)))[1] for side in KEEPING}
    assert sum(map(bool, counts.values())) > len(counts) / 2, counts


@pytest.mark.usefixtures("no_work")
def test_one_that_may_clear_is_enough(tmp_path: Path) -> None:
    second = "        opt.step()\n        if x.sum() + len(sys.argv) > 7:\n            {}\n"
    for one, other in itertools.permutations(["total = total + loss", "keeper.finish()"]):
        text = program(one, BEFORE).replace("        opt.step()\n", second.format(other))
        assert told(files(tmp_path, text))[0] == []
