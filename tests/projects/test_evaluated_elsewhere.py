"""TAPE302 where a model is handed to a function of another file: who calls it decides, as far as that is seen."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tapecheck.cli.across import to_their_files
from tapecheck.cli.checking import CheckOptions, check_file
from tapecheck.interpret import limits

_FUNCTION = """
import torch


def evaluate(model, loader):
    model.eval()
    hits = 0
    for x, y in loader:
        hits += (model(x).argmax(1) == y).sum().item()
    return hits
"""
_CLASS = """
import torch


class Evaluator:
    def __init__(self, loader):
        self.loader = loader

    def evaluate(self, model):
        model.train(False)
        hits = 0
        for x, y in self.loader:
            hits += (model(x).data.max(1)[1] == y).sum().item()
        return hits

    def train(self):
        self.model.zero_grad()
        self.loss().backward()
"""
_LIBRARIES = {"function": (_FUNCTION, "evaluate(model, data)"), "method": (_CLASS, "Evaluator(data).evaluate(model)")}
_MAIN = """
import torch
from torch import nn
from evaluation import *
from helpers import quiet

model = nn.Linear(4, 3)
{frozen}
data = [(torch.randn(5, 4), torch.randint(0, 3, (5,))) for _ in range(4)]
optimizer = torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1)
{long}


def score():
    return {call}


{run}
"""
_HELPERS = """
import contextlib
import torch


@contextlib.contextmanager
def quiet():
    with torch.no_grad():
        yield
"""
_RUNS = {
    "recorded": "print(score())",
    "often": "for epoch in range(2):\n    print(score())",
    "off": "with torch.no_grad():\n    print(score())",
    "quiet": "with quiet():\n    print(score())",
    "decorated": "@torch.inference_mode()\ndef main():\n    print(score())\n\n\nmain()",
    "switched": "torch.set_grad_enabled(False)\nprint(score())",
    "handed": "print([run() for run in [score]])",
}
_RECORDED = ("recorded", "often")
_LONG = "\n".join(f"size_{number} = torch.ones({number + 1}).sum()" for number in range(300))


def _found(folder: Path, library: str, run: str, *, frozen: bool = False, long: bool = False) -> dict[str, bool]:
    """Return the places of TAPE302, and whether it is certain there."""
    text, call = _LIBRARIES[library]
    off = "model.requires_grad_(False)" if frozen else ""
    files = {
        "pyproject.toml": "", "evaluation.py": text, "helpers.py": _HELPERS,
        "main.py": _MAIN.format(call=call, run=_RUNS[run], frozen=off, long=_LONG if long else ""),
    }  # fmt: skip
    for name, one in files.items():
        (folder / name).write_text(one)
    wanted = CheckOptions(fixes=False)
    checked = [check_file(str(one), wanted) for one in sorted(folder.glob("*.py"))]
    assert any(file.incomplete for file in checked) is long
    to_their_files(checked, rules=wanted.rules, projects=wanted.projects)
    findings = [one for file in checked for one in file.findings if one.code == "TAPE302"]
    return {Path(one.span.file).name: one.certain for one in findings}


@pytest.fixture
def less_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the work limit be reached in the main program before it evaluates."""
    for name in ("RUN_BUDGET", "TURNED_BUDGET"):
        monkeypatch.setattr(limits, name, 1500)


@pytest.mark.parametrize(("library", "run"), [*itertools.product(_LIBRARIES, _RUNS)])
def test_the_program_that_calls_decides(library: str, run: str, tmp_path: Path) -> None:
    expected = {"evaluation.py": True} if run in (*_RECORDED, "handed") else {}
    assert _found(tmp_path, library, run) == expected


@pytest.mark.parametrize(("library", "run"), [*itertools.product(_LIBRARIES, _RUNS)])
def test_a_frozen_model_is_no_finding_where_the_call_is_run(library: str, run: str, tmp_path: Path) -> None:
    assert _found(tmp_path, library, run, frozen=True) == {}


@pytest.mark.usefixtures("less_work")
@pytest.mark.parametrize(("library", "run"), [*itertools.product(_LIBRARIES, _RUNS)])
def test_where_the_work_ends_before_the_call_its_text_decides(library: str, run: str, tmp_path: Path) -> None:
    assert _found(tmp_path, library, run, long=True) == ({"evaluation.py": False} if run in _RECORDED else {})
