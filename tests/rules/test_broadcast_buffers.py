"""Buffers that DistributedDataParallel writes at each forward, as torch up to 2.8 does: what an earlier forward saved
is stale. Each outcome was measured with torch 2.8 in two processes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.fixes import fixes_for
from tapecheck.source import read_source
from tests.fixes.support import fixed

PROGRAM = """\
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
model = DistributedDataParallel(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    first = model(torch.randn(6, 4)).mean()
    second = model(torch.randn(6, 4)).mean()
    optimizer.zero_grad()
    (first - second).backward()
    optimizer.step()
"""
LINE = 14
SECOND = "    second = model(torch.randn(6, 4)).mean()\n"


def found(folder: Path, text: str, version: str = "2.8") -> list[tuple[str, int]]:
    (folder / "tapecheck.toml").write_text(f'torch-version = "{version}"\n')
    program = folder / "train.py"
    program.write_text(text)
    return [(each.code, each.span.line) for each in check(read_source(str(program))).findings]


def test_two_forwards_before_one_backward(tmp_path: Path) -> None:
    assert found(tmp_path, PROGRAM) == [("TAPE102", LINE)]
    assert found(tmp_path, PROGRAM, "2.13") == []


@pytest.mark.parametrize(
    ("old", "new", "raises"),
    [
        ("(net)", "(net, broadcast_buffers=False)", False),
        ("nn.BatchNorm1d(8)", "nn.LayerNorm(8)", False),
        ("optimizer =", "model.eval()\noptimizer =", True),
        (SECOND, f"    with torch.no_grad():\n    {SECOND}", True),
        (SECOND, f"    with model.no_sync():\n    {SECOND}", True),
        # A forward that does not reduce leaves the buffers alone at the next one.
        ("    first = ", "    with model.no_sync():\n        first = ", False),
        (SECOND, "    second = net(torch.randn(6, 4)).mean()\n", False),
    ],
)
def test_what_decides_it(tmp_path: Path, old: str, new: str, raises: bool) -> None:
    assert old in PROGRAM
    codes = [code for code, _ in found(tmp_path, PROGRAM.replace(old, new))]
    assert ("TAPE102" in codes) is raises


def test_the_fix_leaves_the_buffers_alone(tmp_path: Path) -> None:
    found(tmp_path, PROGRAM)
    report = check(read_source(str(tmp_path / "train.py")))
    (finding,) = report.findings
    fix = next(each for each in fixes_for(report, finding) if "broadcast_buffers=False" in each.title)
    assert found(tmp_path, fixed(PROGRAM, fix)) == []


def test_a_report_about_stylegan2(tmp_path: Path) -> None:
    text = (Path(__file__).parents[1] / "wrapped" / "programs" / "issue_stylegan_buffers.py").read_text()
    line = next(number for number, each in enumerate(text.splitlines(), 1) if "d_loss.backward()" in each)
    assert found(tmp_path, text) == [("TAPE102", line)]
    repaired = text.replace("nn.Linear(8, 1)))", "nn.Linear(8, 1)), broadcast_buffers=False)")
    assert found(tmp_path, repaired) == []
