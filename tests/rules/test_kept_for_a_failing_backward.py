"""TAPE201 beside TAPE103: what the steps of one computation keep is for the backward behind them, which has lost it."""

from __future__ import annotations

from itertools import product

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

PROGRAM = """\
import torch
from torch import nn
import torch.nn.functional as F
torch.manual_seed(0)
cell, head = nn.GRUCell(3, 5), nn.Linear(5, 2)
optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.1)
seen = []
def unrolled(xs, ys):
    h = torch.zeros(4, 5)
    {begin}
    for x, y in zip(xs, ys):
        h = cell(x, h)
        out = head(h)
        {step}
    return {end}
for _ in range(3):
    xs, ys = torch.randn(6, 4, 3), torch.randint(0, 2, (6, 4))
    {enclosing}
    optimizer.zero_grad()
    {backward}
    optimizer.step()
"""
# How the losses of the steps come together; the first three of each lose their graphs, the last one does not.
TOGETHER = {
    "tensor of a list": ("losses = []", "losses.append(F.cross_entropy(out, y))", "torch.tensor(losses).mean()"),
    "numbers": ("total = 0.0", "total += F.cross_entropy(out, y).item()", "torch.tensor(total)"),
    "detached": ("losses = []", "losses.append(F.cross_entropy(out, y))", "torch.stack(losses).mean().detach()"),
    "whole": ("losses = []", "losses.append(F.cross_entropy(out, y))", "torch.stack(losses).mean()"),
}
KEPT = {
    "carried": "",
    "in a list": "; states.append(h)",
}


def program(together: str, kept: str, **others: str) -> str:
    begin, step, end = TOGETHER[together]
    begin += "; states, outs = [], []" if KEPT[kept] else ""
    given = {"enclosing": "loss = unrolled(xs, ys)", "backward": "loss.backward()", **others}
    return PROGRAM.format(begin=begin, step=step + KEPT[kept], end=end, **given)


def codes(text: str) -> list[str]:
    return sorted(finding.code for finding in check(from_text(text, "train.py")).findings)


@pytest.mark.parametrize(("together", "kept"), list(product(list(TOGETHER)[:3], KEPT)))
def test_the_cut_alone_is_told(together: str, kept: str) -> None:
    text = program(together, kept)
    assert codes(text) == ["TAPE103"], text
    with pytest.raises(RuntimeError, match="does not require grad"):
        exec(text, {})


@pytest.mark.parametrize("kept", list(KEPT))
def test_nothing_is_told_once_that_is_mended(kept: str) -> None:
    text = program("whole", kept)
    assert codes(text) == []
    exec(text, {})


@pytest.mark.parametrize("together", list(TOGETHER)[:3])
def test_what_no_backward_is_for_is_told_all_the_same(together: str) -> None:
    """The loop validates: the state of its steps keeps their graphs for nothing."""
    text = program(together, "carried", backward="F.cross_entropy(head(cell(xs[0])), ys[0]).backward()")
    assert "TAPE201" in codes(text), text
    exec(text, {})


def test_a_loop_around_the_backward_keeps_graphs_of_other_values() -> None:
    """What each round of training keeps beside the loss is a leak before and after."""
    swallowed = "try:\n        loss.backward()\n    except RuntimeError:\n        pass"
    text = program("tensor of a list", "carried", enclosing="loss = unrolled(xs, ys); seen.append(head(cell(xs[0])))",
                   backward=swallowed)  # fmt: skip
    assert "TAPE201" in codes(text), text
    exec(text, {})
