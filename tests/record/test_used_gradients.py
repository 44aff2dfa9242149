"""A run compares the gradients that a step has used with those of the next one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tapecheck.record import RunResult
from tapecheck.record.evidence import judge

PROGRAM = """
    import torch
    from torch import nn

    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        {before}
        loss = model(torch.randn(5, 3)).pow(2).mean()
        loss.backward()
        optimizer.step()
        {after}
"""


def measures(result: RunResult) -> list[Any]:
    return [event for event in result.tape.events if getattr(event, "name", "").startswith("stale-gradient")]


def test_each_parameter_is_told_once_with_the_backward(record: Callable[..., RunResult]) -> None:
    found = measures(record(PROGRAM.format(before="", after="")))
    assert len(found) == 4
    assert {event.at.line for event in found} == {9}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("optimizer.zero_grad()", ""),
        ("", "optimizer.zero_grad(set_to_none=False)"),
        ("", "[p.grad.mul_(0.5) for p in model.parameters()]"),
    ],
)
def test_what_is_cleared_or_scaled_is_not_used_twice(record: Callable[..., RunResult], before: str, after: str) -> None:
    assert measures(record(PROGRAM.format(before=before, after=after))) == []


def test_the_run_finds_it_by_itself(record: Callable[..., RunResult]) -> None:
    result = record(PROGRAM.format(before="", after=""))
    found = judge([], result.tape)
    assert [(finding.code, finding.span.line) for finding in found] == [("TAPE403", 9)]
    assert found[0].evidence is not None and found[0].evidence.verdict == "found-by-run"
