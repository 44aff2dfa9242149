"""What a loop over a list tells to evaluate is a model for whoever goes through the list next."""

from __future__ import annotations

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

PROGRAM = """
import torch
import torch.nn.functional as F


def validate(models, loader):
    {told}
    losses = []
    for x, y in loader:
        {context}
        {out}
        losses.append(F.mse_loss(out, y))
    print(torch.stack(losses).mean().item())
"""
TOLD = ("for m in models: m.eval()", "[m.eval() for m in models]", "for i, m in enumerate(models): m.eval()")
OUT = ("out = sum(m(x) for m in models)", "out = torch.stack([m(x) for m in models]).mean(0)")


def _found(told: str, out: str, context: str = "") -> list[tuple[str, bool]]:
    text = PROGRAM.format(told=told, context=context, out=out)
    return [(one.code, one.certain) for one in check(from_text(text, "validate.py")).findings]


@pytest.mark.parametrize("told", TOLD)
@pytest.mark.parametrize("out", OUT)
def test_a_graph_of_each_batch_is_kept(told: str, out: str) -> None:
    assert _found(told, out) == [("TAPE201", False)]


@pytest.mark.parametrize("out", OUT)
def test_nothing_is_told_to_evaluate(out: str) -> None:
    assert _found("", out) == []


@pytest.mark.parametrize("told", TOLD)
@pytest.mark.parametrize("out", OUT)
def test_nothing_is_recorded(told: str, out: str) -> None:
    assert _found(told, out, "torch.set_grad_enabled(False)") == []
