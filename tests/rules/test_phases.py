"""Gradients that are cleared and stepped with every so many batches (TAPE404): in step with each other, or not."""

from __future__ import annotations

import itertools

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

torch = pytest.importorskip("torch")

_PROGRAM = """\
import torch
from torch import nn

def clear(optimizer):
    optimizer.zero_grad()

model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = [(torch.ones(4, 3), torch.zeros(4, 1)) for _ in range({count})]
used, waiting = 0, 0
for step, (x, y) in enumerate({data}):
    if step % {period} == {clears}:
        {clear}
    loss = (model(x) - y).square().mean()
    loss.backward()
    if step % {period} == {steps}:
        optimizer.step()
"""
_DATA = ["data", "torch.utils.data.DataLoader(hidden.data, 4)", "hidden.loader", "zip(data, hidden.more)"]
_CLEARS = ["optimizer.zero_grad()", "model.zero_grad()", "clear(optimizer)"]


def _told(text: str) -> bool:
    found = check(from_text(text, "run.py")).findings
    assert {one.code for one in found} <= {"TAPE404"}
    return bool(found)


def _lost(period: int, clears: int, steps: int) -> tuple[int, int]:
    """Return how many of the backwards of three periods torch uses in a step and clears without one."""
    weight = torch.nn.Parameter(torch.zeros(3 * period))
    waiting: set[int] = set()
    used, lost = set[int](), set[int]()
    for step in range(3 * period):
        if step % period == clears:
            weight.grad = None
            lost |= waiting - used
            waiting = set()
        weight[step].backward()
        waiting = set(weight.grad.nonzero().flatten().tolist())  # type: ignore[union-attr]
        if step % period == steps:
            used |= waiting
    return len(used), len(lost)


@pytest.mark.parametrize("period", [2, 3, 4, 6, 8, 16])
@pytest.mark.parametrize("data", _DATA)
def test_the_phases_of_clearing_and_stepping_decide(data: str, period: int) -> None:
    wrong = []
    phases = itertools.product({0, period // 2, period - 1}, repeat=2)
    for (clears, steps), clear in itertools.product(phases, _CLEARS):
        used, lost = _lost(period, clears, steps)
        text = _PROGRAM.format(data=data, period=period, clears=clears, steps=steps, clear=clear, count=3 * period)
        told = _told(("import hidden\n" if "hidden" in data else "") + text)
        if (told and not lost) or (not told and clears == steps and lost >= used):
            wrong.append((clears, steps, clear, told))
    assert wrong == []
