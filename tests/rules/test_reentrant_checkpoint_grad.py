"""TAPE606: gradients by chosen tensors that go through reentrant checkpoints."""

from __future__ import annotations

import pytest

from tapecheck.check import check
from tapecheck.fixes import fixes_for
from tapecheck.source import from_text
from tests.fixes.support import fixed

PROGRAM = """\
import sys

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

stem, body, head = nn.Linear(4, 4), nn.Linear(4, 8), nn.Linear(8, 1)
x = torch.randn(2, 4, requires_grad=True)
hidden = checkpoint(body, stem(x), use_reentrant=True)
loss = head(hidden).mean()
gradients = torch.autograd.grad(loss, [x, stem.weight])
"""
LINE = 11


def codes(text: str) -> list[tuple[str, int, bool]]:
    return [(each.code, each.span.line, each.certain) for each in check(from_text(text, "train.py")).findings]


def test_it_is_reported_where_it_raises() -> None:
    assert codes(PROGRAM) == [("TAPE606", LINE, True)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("use_reentrant=True", "use_reentrant=False"),
        ("torch.autograd.grad(loss, [x, stem.weight])", "loss.backward()"),
        ("[x, stem.weight]", "[head.weight]"),
        ("[x, stem.weight]", "hidden"),
        ("[x, stem.weight])", "[*body.parameters(), *head.parameters()], allow_unused=True)"),
        ("torch.autograd.grad(loss, [x, stem.weight])", "loss.backward(inputs=[body.weight, head.weight])"),
        ("checkpoint(body, stem(x), use_reentrant=True)", "body(stem(x))"),
        ("use_reentrant=True", "use_reentrant=len(sys.argv) > 1"),
    ],
)
def test_what_runs_is_not(old: str, new: str) -> None:
    assert old in PROGRAM
    assert codes(PROGRAM.replace(old, new)) == []


def test_the_fix_takes_the_other_kind() -> None:
    report = check(from_text(PROGRAM, "train.py"))
    (finding,) = report.findings
    (fix,) = [each for each in fixes_for(report, finding) if "use_reentrant=False" in each.title]
    assert codes(fixed(PROGRAM, fix)) == []
