"""Files that are imported late, on one rank alone or not at all: told of them is what is certain."""

from __future__ import annotations

from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.record import RunRequest, judge, run
from tapecheck.record.evidence import lines_of
from tapecheck.record.ranks import merge
from tapecheck.source import read_source
from tapecheck.tape import Tape
from tests.record.harness import QUIET

MAIN = """
import importlib, os, shutil, subprocess, sys
import torch
from torch import nn

net = nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
history = []
for step in range(6):
    loss = net(torch.randn(8, 4)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    {late}
"""
LATER = """
import torch

def note(history, loss):
    history.append(loss.item())


def unused(net):
    total = 0.0
    for _ in range(6):
        loss = net(torch.randn(8, 4)).pow(2).mean()
        loss.backward()
        total += loss
    return total
"""
LEAK = 13
ELSEWHERE = "import later, time\nwhile time.process_time() < 1.5: pass"


def _verdicts(tmp_path: Path, python: str, late: str, *arguments: str) -> tuple[list[str], Tape]:
    (tmp_path / "main.py").write_text(MAIN.format(late=late).lstrip("\n"))
    (tmp_path / "later.py").write_text(LATER)
    findings = check(read_source(str(tmp_path / "later.py"))).findings
    assert [one.span.line for one in findings if one.code == "TAPE201"] == [LEAK]
    request = RunRequest("main.py", arguments, python, str(tmp_path), QUIET, watch=lines_of(findings))
    tape = run(request).tape
    return _said(tmp_path, tape), tape


def _said(tmp_path: Path, tape: Tape) -> list[str]:
    findings = check(read_source(str(tmp_path / "later.py"))).findings
    judged = judge([one for one in findings if one.code == "TAPE201"], tape, directory=str(tmp_path))
    return [
        f"{one.evidence.verdict}: {one.evidence.detail}" if one.evidence is not None else one.notes[-1]
        for one in judged
        if one.code == "TAPE201"
    ]


@pytest.mark.parametrize(
    ("late", "said"),
    [
        ("pass", "not-reached: later.py was not loaded"),
        ("if step > 9: import later", "not-reached: later.py was not loaded"),
        ("if step == 3: import later", "not-reached: line 13 did not run"),
        ("if step == 3: __import__('later').unused(net)", "confirmed"),
        ("if step == 3: exec(open('later.py').read())", "nothing of later.py was recorded"),
        (f"if step == 3: subprocess.run([sys.executable, '-c', {ELSEWHERE!r}])", "nothing of later.py was recorded"),
    ],
)
def test_what_was_not_loaded_did_not_run(late: str, said: str, tmp_path: Path, python: str) -> None:
    (told,), _ = _verdicts(tmp_path, python, late)
    assert told.startswith(said)


def test_a_copy_of_a_file_is_not_it(tmp_path: Path, python: str) -> None:
    other = "if step == 3: os.makedirs('run'); shutil.copy('later.py', 'run'); sys.path.insert(0, 'run'); import later"
    (told,), _ = _verdicts(tmp_path, python, other)
    assert told.startswith("nothing of later.py was recorded")


def test_one_rank_that_loads_a_file_speaks_for_both(tmp_path: Path, python: str) -> None:
    late = "if step == 3 and sys.argv[1] == '0': importlib.import_module('later').unused(net)"
    tapes = {rank: _verdicts(tmp_path, python, late, str(rank))[1] for rank in range(2)}
    (told,) = _said(tmp_path, merge(tapes))
    assert told.startswith("confirmed: on rank 0 of 2") and told.endswith("not reached on rank 1")
