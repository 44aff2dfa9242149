"""A program with a trace function of its own: what ran under it is unknown, and is not called not reached."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.record import RunRequest, confirm, judge, run
from tapecheck.source import read_source
from tests.record.harness import QUIET

PROGRAM = """\
import sys
import torch

def mine(frame, event, arg):
    return mine

net = torch.nn.Linear(4, 1)
losses = []
def train():
    for step in range(12):
        loss = net(torch.randn(8, 4)).pow(2).mean()
        loss.backward()
        losses.append(loss)
{before}
train()
{after}
"""
ALONE = {
    "its own": ("sys.settrace(mine)", ""),
    "its own, taken away": ("sys.settrace(mine)", "sys.settrace(None)"),
    "what was there before": ("old = sys.gettrace(); sys.settrace(mine)", "sys.settrace(old)"),
    "none": ("sys.settrace(None)", ""),
}


@pytest.mark.skipif(hasattr(sys, "monitoring"), reason="other trace functions do not disturb sys.monitoring")
@pytest.mark.parametrize("kind", [*ALONE, "nothing"])
def test_what_ran_under_another_trace_function_is_unknown(kind: str, tmp_path: Path, python: str) -> None:
    script = tmp_path / "train.py"
    before, after = ALONE.get(kind, ("", ""))
    script.write_text(PROGRAM.format(before=before, after=after))
    (found,) = check(read_source(str(script))).findings
    request = RunRequest(str(script), python=python, cwd=str(tmp_path), env=QUIET)
    _, (judged, *_) = confirm(str(script), request, [found])
    verdict = judged.evidence.verdict if judged.evidence is not None else "inconclusive"
    assert verdict == ("confirmed" if kind == "nothing" else "inconclusive")
    assert any("another trace function" in note for note in judged.notes) == (kind != "nothing")


RUNNER = """\
import sys
import torch

def mine(frame, event, arg):
    return mine

text = open(sys.argv[1]).read()
sys.settrace(mine)
exec(compile(text, sys.argv[1], "exec"), {"__name__": "__main__"})
"""
UNDER = {
    "twice": (
        "TAPE101",
        """\
import torch
net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh())
loss = net(torch.randn(8, 4)).pow(2).mean()
def again():
    for step in range(2):
        loss.backward()  # here
again()
""",
    ),
    "kept": (
        "TAPE201",
        PROGRAM.format(before="", after="").replace("losses.append(loss)", "losses.append(loss)  # here"),
    ),
    "used": (
        "TAPE403",
        """\
import torch
net = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(6):
    loss = net(torch.randn(8, 4)).pow(2).mean()
    loss.backward()  # here
    optimizer.step()
""",
    ),
}


@pytest.mark.parametrize("kind", UNDER)
def test_what_another_tracer_runs_is_told_at_its_own_lines(kind: str, tmp_path: Path, python: str) -> None:
    code, text = UNDER[kind]
    runner, script = tmp_path / "tool" / "runner.py", tmp_path / "project" / "train.py"
    for path, content in ((runner, RUNNER), (script, text)):
        path.parent.mkdir()
        path.write_text(content)
    found = list(check(read_source(str(script))).findings)
    here = next(number for number, line in enumerate(text.splitlines(), 1) if "# here" in line)
    watch = {(str(script), one.span.line) for one in found}
    request = RunRequest(
        str(runner), (str(script),), python=python, cwd=str(script.parent), watch=watch, own=(str(script),), env=QUIET
    )
    judged = judge(found, run(request).tape, directory=str(script.parent))
    places = {(one.code, Path(one.span.file).name, one.span.line) for one in judged}
    assert places == {(code, "train.py", here)}, judged
    refuted = [one for one in judged if one.evidence is not None and one.evidence.verdict in ("refuted", "not-reached")]
    assert not refuted
