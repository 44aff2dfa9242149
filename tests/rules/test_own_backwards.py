"""What the `backward` of a program's own Function does beside computing gradients; torch judges each program."""

from __future__ import annotations

import itertools

import pytest

from tapecheck.check import check
from tapecheck.source import from_text
from tests.interpret.truth import raises_here

torch = pytest.importorskip("torch")

DOES = {
    "nothing": "pass",
    "sets a gradient": "ctx.kept.grad = g.clone()",
    "sets one of the input": "ctx.x.grad = g",
    "of what it saved": "ctx.saved_tensors[0].grad = g",
    "switches on": "bank.requires_grad_()",
    "switches on by name": "on = bank.requires_grad_()",
    "switches on by attribute": "bank.requires_grad = True",
    "switches off": "w.requires_grad_(False)",
    "by a helper": "helper(ctx.kept, g)",
    "changes": "ctx.kept.add_(1)",
    "changes the input": "ctx.x.data.add_(1)",
    "collects": "seen.append(g)",
    "says": "print(g.shape)",
    "under a condition": "if ctx.needs_input_grad[0]:\n            ctx.kept.grad = g",
    "under a condition of data": "if g.sum() > 1000:\n            ctx.kept.grad = g",
    "adds up": "ctx.kept.grad = g if ctx.kept.grad is None else ctx.kept.grad + g",
}
THEN = {
    "the bank's": "bank.grad.zero_()",
    "the input's": "h.grad.zero_()",
    "walked": "(bank * 2).sum().backward()",
    "changed": "w.add_(1)",
    "again": "F.apply(w * 2, bank).sum().backward()\nbank.grad.zero_()",
    "collected": "seen[0].sum().backward()",
}
LAYERS = {
    "function": "y = F.apply(h, bank)",
    "module": "class M(torch.nn.Module):\n    def forward(self, x):\n        return F.apply(x, bank)\ny = M()(h)",
    "several": "y = sum(F.apply(h, bank) for _ in range(2))",
}


def _program(does: str, then: str, layer: str) -> str:
    return f"""\
import torch


def helper(kept, g):
    kept.grad = g * 2


class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, kept):
        ctx.x, ctx.kept = x, kept
        ctx.save_for_backward(kept)
        return x * 2

    @staticmethod
    def backward(ctx, g):
        {DOES[does]}
        return g * 2, None


w = torch.ones(3, requires_grad=True)
bank = torch.zeros(3)
seen = []
h = w * 2
{LAYERS[layer]}
y.sum().backward()
{THEN[then]}
"""


@pytest.mark.parametrize(("does", "layer"), [*itertools.product(DOES, LAYERS)])
def test_a_certain_error_is_raised(does: str, layer: str, capsys: pytest.CaptureFixture[str]) -> None:
    for then in THEN:
        program = _program(does, then, layer)
        found = check(from_text(program, "run.py")).findings
        sure = [one.code for one in found if one.certain and one.severity == "error"]
        assert not sure or raises_here(program), (then, sure)


@pytest.mark.parametrize("does", ["nothing", "says", "changes", "collects"])
@pytest.mark.parametrize("then", ["the bank's", "the input's", "walked", "changed"])
def test_what_raises_is_told_all_the_same(does: str, then: str, capsys: pytest.CaptureFixture[str]) -> None:
    program = _program(does, then, "function")
    assert raises_here(program)
    assert [one for one in check(from_text(program, "run.py")).findings if one.severity == "error"]
