"""What a gradient of an unused input raises: the engine walks first, and says of what is unused only then."""

from __future__ import annotations

from itertools import product

import pytest

from tests.differential.compare import predict
from tests.differential.truth import Truth

HEAD = """\
import torch
w, other = (torch.ones(3, requires_grad=True) for _ in range(2))
y = w.exp()
loss = (y * y).sum()
"""
BEFORE = {
    "nothing": "",
    "freed": "loss.backward()",
    "retained": "loss.backward(retain_graph=True)",
    "freed by a gradient": "torch.autograd.grad(loss, [w])",
    "freed by one that failed": ("try:\n    torch.autograd.grad(loss, [other, w])\nexcept RuntimeError:\n    pass"),
    "freed above alone": "torch.autograd.grad(loss, [y])",
    "changed": "y.data.zero_(); y.detach().zero_()",
    "no graph": "loss = loss.detach()",
}
INPUTS = ("[w]", "[other]", "[w, other]", "[other, w]", "[y, other]", "[other, y]")
OPTIONS = ("", ", allow_unused=True", ", create_graph=True")


@pytest.mark.parametrize("before", BEFORE)
def test_what_a_walk_meets_is_raised_before_what_is_unused(before: str) -> None:
    pytest.importorskip("torch")
    with Truth() as asked:
        for inputs, options in product(INPUTS, OPTIONS):
            text = HEAD + BEFORE[before] + f"\ntorch.autograd.grad(loss, {inputs}{options})\nloss.backward()\n"
            outcome, verdict = asked.run(text), predict(text)
            assert (verdict.kind, verdict.line) == (outcome.kind, outcome.line), text
