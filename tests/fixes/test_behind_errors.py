"""What shows only once a second derivative has its `create_graph`: it was there before, and keeps no fix back."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tapecheck.fixes import fixes_for
from tests.cases import under_torch
from tests.fixes.support import finding_of, fixed, report_of, run_texts

BEHIND = """\
import torch
from torch import nn
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
def curvature(x):
    u = net(x)
    {first}
    {second}
    return second
{before}
losses = []
for _ in range(3):
    x = torch.randn(6, 2, requires_grad=True)
    loss = curvature(x).pow(2).mean() + net(x).mean()
    optimizer.zero_grad()
    loss.backward({retain})
    optimizer.step()
    losses.append(loss{kept})
{after}
"""
FIRST = (
    "first = torch.autograd.grad(u.sum(), x, retain_graph=True)[0]",
    "first, = torch.autograd.grad(u, x, grad_outputs=torch.ones_like(u))",
)
SECOND = (
    "second, = torch.autograd.grad(first.sum(), x, create_graph=True)",
    "second = torch.autograd.grad(first.pow(2).sum(), x, create_graph=True)[0]",
)
OTHERS = {
    "retain_graph": {"retain": "retain_graph=True"},
    "a kept loss": {"kept": ""},
    "validation": {"after": "total = 0.0\nfor _ in range(3):\n    total += net(torch.randn(6, 2)).mean().item()"},
    "nothing": {},
}


@pytest.mark.skipif(not under_torch.has_torch(), reason="torch is not installed")
@pytest.mark.parametrize("other", OTHERS)
def test_what_the_missing_create_graph_has_hidden_is_no_doing_of_the_fix(other: str, tmp_path: Path) -> None:
    mended: list[str] = []
    for first, second in product(FIRST, SECOND):
        given = {"before": "", "retain": "", "kept": ".item()", "after": "", **OTHERS[other]}
        text = BEHIND.format(first=first, second=second, **given)
        report = report_of(text)
        fixes = fixes_for(report, finding_of(report, "TAPE401"))
        assert fixes, text
        mended += [fixed(text, fix) for fix in fixes]
    for text, now in zip(mended, run_texts(mended, tmp_path), strict=True):
        assert now["exception"] is None, f"{text}\n{now['message']}"
