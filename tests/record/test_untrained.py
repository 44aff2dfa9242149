"""Parameters that an optimizer steps in vain are told, where no finding tells of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from tapecheck.record import RunResult
from tapecheck.record.untrained import untrained

PROGRAM = """
    import torch
    from torch import nn

    online, target = nn.Linear(3, 2), nn.Linear(3, 2)
    optimizer = torch.optim.Adam({given}.parameters())
    for step in range(4):
        with torch.no_grad():
            wanted = target(torch.randn(5, 3))
        loss = (online(torch.randn(5, 3)) - wanted).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def test_an_optimizer_that_was_given_other_parameters(record: Callable[..., RunResult]) -> None:
    tape = record(PROGRAM.format(given="target")).tape
    said = untrained(tape)
    assert said == "`target.weight`, `target.bias` never had a gradient in 4 steps of an optimizer that has them"
    assert untrained(tape, {"target.weight", "target.bias"}) == ""
    early = dataclasses.replace(tape.events[-1], how="stopped")  # type: ignore[type-var]
    assert untrained(dataclasses.replace(tape, events=[*tape.events[:-1], early])) == ""


def test_nothing_is_said_where_all_are_trained(record: Callable[..., RunResult]) -> None:
    assert untrained(record(PROGRAM.format(given="online")).tape) == ""
