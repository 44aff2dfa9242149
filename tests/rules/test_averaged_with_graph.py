"""TAPE607: gradients with graphs that DistributedDataParallel is to average."""

from __future__ import annotations

import pytest

from tapecheck.check import check
from tapecheck.fixes import fixes_for
from tapecheck.source import from_text
from tests.fixes.support import fixed

PROGRAM = """\
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    loss = model(torch.randn(6, 4)).pow(2).mean()
    loss.backward(create_graph=True)
    optimizer.step()
"""
LINE = 15


def codes(text: str) -> list[tuple[str, int, bool]]:
    return [(each.code, each.span.line, each.certain) for each in check(from_text(text, "train.py")).findings]


def test_it_is_reported_where_it_raises() -> None:
    assert codes(PROGRAM) == [("TAPE607", LINE, True)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("create_graph=True", "retain_graph=False"),
        ("model = DistributedDataParallel(model)\n", ""),
        ("loss = model(", "loss = model.module("),
        # One gradient alone is copied into a bucket that is still a constant.
        ("nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))", "nn.Linear(4, 1, bias=False)"),
        # The gradients are constants.
        ("nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))", "nn.Linear(4, 1)"),
        ("loss.backward(create_graph=True)", "torch.autograd.grad(loss, list(model.parameters()), create_graph=True)"),
        ("create_graph=True", "create_graph=True, inputs=[model.module[0].weight]"),
    ],
)
def test_what_runs_is_not(old: str, new: str) -> None:
    assert old in PROGRAM
    text = PROGRAM.replace(old, new)
    if "nn.Linear(4, 1)" in new:
        text = text.replace(".pow(2).mean()", ".mean()")
    assert "TAPE607" not in [code for code, _, _ in codes(text)]


def test_nothing_is_reported_under_no_sync() -> None:
    local = "    with model.no_sync():\n        model(torch.randn(6, 4)).pow(2).mean().backward(create_graph=True)\n"
    text = PROGRAM.replace("    loss = model", local + "    loss = model").replace(
        "loss.backward(create_graph=True)", "loss.backward()"
    )
    assert codes(text) == []


def test_it_is_possible_where_a_flag_decides() -> None:
    wrapped = "if len(sys.argv) > 1:\n    model = DistributedDataParallel(model)"
    text = PROGRAM.replace("model = DistributedDataParallel(model)", wrapped)
    assert codes(text) == [("TAPE607", LINE + 1, False)]


def test_the_flag_is_dropped_where_nothing_needs_it() -> None:
    report = check(from_text(PROGRAM, "train.py"))
    (finding,) = report.findings
    (fix,) = fixes_for(report, finding)
    assert fix.applicability == "safe"
    assert codes(fixed(PROGRAM, fix)) == []


def test_it_is_possible_where_the_first_buckets_are_small() -> None:
    text = PROGRAM.replace(
        "DistributedDataParallel(model)", "DistributedDataParallel(model, find_unused_parameters=True)"
    )
    assert codes(text) == [("TAPE607", LINE, False)]
