"""Whether gradients had been unscaled where a line reads them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.record import RunResult, judge
from tapecheck.source import from_text

PROGRAM = """\
import torch
from torch import nn

model = nn.Linear(6, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=512.0)
for step in range(4):
    loss = model(torch.randn(3, 6)).pow(2).mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    pass
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
"""
LINE = 12


@pytest.mark.parametrize(
    ("old", "new", "verdict", "said"),
    [
        ("pass", "pass", "confirmed", "the scaler had a scale of 512, and had not unscaled"),
        ("pass", "scaler.unscale_(optimizer)", "refuted", "the gradients had been unscaled"),
        ("init_scale=512.0", "enabled=False", "refuted", "or the scaler was off"),
    ],
)
def test_the_scaler_is_asked_where_the_line_runs(
    record: Callable[..., RunResult], tmp_path: Path, old: str, new: str, verdict: str, said: str
) -> None:
    (finding,) = [each for each in check(from_text(PROGRAM, "script.py")).findings if each.code == "TAPE501"]
    assert finding.span.line == LINE
    result = record(PROGRAM.replace(old, new), watch={(str(tmp_path / "script.py"), LINE)})
    judged = judge([finding], result.tape, directory=str(tmp_path))
    evidence = next(each.evidence for each in judged if each.code == "TAPE501")
    assert evidence is not None and evidence.verdict == verdict and said in evidence.detail


def test_a_step_without_the_scaler_is_confirmed(record: Callable[..., RunResult], tmp_path: Path) -> None:
    program = PROGRAM.replace(", init_scale=512.0", "")
    lines = [line for line in program.splitlines() if "clip" not in line and "update" not in line]
    text = "\n".join(lines).replace("scaler.step(optimizer)", "optimizer.step()") + "\n"
    (finding,) = [each for each in check(from_text(text, "script.py")).findings if each.code == "TAPE501"]
    result = record(text, watch={(str(tmp_path / "script.py"), finding.span.line)})
    (judged,) = [each for each in judge([finding], result.tape, directory=str(tmp_path)) if each.code == "TAPE501"]
    assert judged.evidence is not None and judged.evidence.verdict == "confirmed"
    assert judged.evidence.detail.startswith("the scaler had a scale of 65,536, and had not unscaled this optimizer's")
