"""A program with a trace function of its own: what ran under it is unknown, and is not called not reached."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.record import RunRequest, confirm
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
