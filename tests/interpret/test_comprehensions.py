"""What takes in the elements of a generator keeps what they keep."""

from __future__ import annotations

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

STEPS = """\
import torch
from torch import nn


def steps(model, optimizer, count):
    for step in range(count):
        loss = model(torch.randn(4, 3)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield step, loss{taken}


model = nn.Linear(3, 2)
history = {call}
print(len(history))
"""
GIVEN = "steps(model, torch.optim.SGD(model.parameters(), lr=0.1), 6)"


@pytest.mark.parametrize(
    "call",
    [
        "list({})",
        "tuple({})",
        "dict({})",
        "dict({}, first=1)",
        "sorted({}, key=lambda pair: pair[0])",
        "[loss for _, loss in {}]",
        "{{step: loss for step, loss in {}}}",
    ],
)
def test_what_is_made_of_a_generator_s_losses_keeps_their_graphs(call: str) -> None:
    text = STEPS.format(call=call.format(GIVEN), taken="")
    assert [(one.code, one.span.line) for one in check(from_text(text, "train.py")).findings] == [("TAPE201", 15)]
    text = STEPS.format(call=call.format(GIVEN), taken=".item()")
    assert check(from_text(text, "train.py")).findings == []
