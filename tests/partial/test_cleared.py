"""Gradients that have a graph, while code that is not visible has their leaves: it may clear a gradient.

Torch runs each program with hidden code that clears, and with hidden code that does nothing. What is certain is so with
both.
"""

from __future__ import annotations

from typing import Any

import pytest

from tapecheck.check import check
from tapecheck.source import from_text
from tests.partial.unseen import runs

torch = pytest.importorskip("torch")

HEAD = """\
import torch
import hidden
from torch import nn

torch.manual_seed(0)
model = nn.Linear(2, 2)
images = torch.randn(4, 2, requires_grad=True)
optimizer = torch.optim.SGD([images], lr=0.1)
{made}
for step in range(3):
    {before}
    loss = model(images).pow(2).mean()
    loss.backward(create_graph=True)
    looked = sum({of}.grad.pow(2).sum() for {of} in model.parameters())
    {between}
    optimizer.zero_grad()
    looked.backward()
    optimizer.step()
"""
MADE = {
    "method": ("owner = hidden.Owner(model.parameters())", "owner.zero_grad()"),
    "method of another name": ("owner = hidden.Owner(model.parameters())", "owner.turn()"),
    "of a list": ("owner = hidden.Owner(list(model.parameters()))", "owner.turn()"),
    "of groups": ('owner = hidden.Owner([{"params": model.parameters(), "lr": 0.1}])', "owner.zero_grad()"),
    "of the model": ("owner = hidden.Owner(model)", "owner.turn()"),
    "called": ("owner = hidden.Owner(model)", "owner()"),
    "kept in a dict": ('owners = {"one": hidden.Owner(model)}', 'owners["one"].turn()'),
    "part": ("owner = hidden.Owner(model)", "owner.inner.turn()"),
    "function of the model": ("pass", "hidden.turn(model)"),
    "function of parameters": ("pass", "hidden.turn(model.parameters())"),
    "function of names": ("pass", "hidden.turn(dict(model.named_parameters()))"),
    "each parameter": ("pass", "[hidden.turn([one]) for one in model.parameters()]"),
}


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, torch.nn.Module):
        return list(value.parameters())
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [leaf for one in value.values() for leaf in _leaves(one)]
    return [leaf for one in value for leaf in _leaves(one)] if hasattr(value, "__iter__") else []


def fails(text: str, *, clears: bool) -> bool:
    """Return whether torch refuses a program whose hidden code clears what it was given, or does nothing."""

    def turn(value: Any) -> None:
        for leaf in _leaves(value) if clears else ():
            leaf.grad = None

    class Owner:
        def __init__(self, value: Any) -> None:
            self.leaves = _leaves(value)
            self.inner = self

        def turn(self) -> None:
            turn(self.leaves)

        zero_grad = __call__ = turn

    return not runs(text, turn=turn, Owner=Owner)


@pytest.mark.parametrize("place", ["before", "between"])
@pytest.mark.parametrize("way", MADE)
def test_a_gradient_that_hidden_code_may_clear_proves_nothing(way: str, place: str) -> None:
    made, turned = MADE[way]
    text = HEAD.format(made=made, of="each", **{"before": "pass", "between": "pass", place: turned})
    assert fails(text, clears=False)
    assert not fails(text, clears=True) or place == "between"
    found = [one for one in check(from_text(text, "run.py")).findings if one.severity == "error"]
    assert not found


@pytest.mark.parametrize("made", ["pass", "owner = hidden.Owner(model)"])
def test_a_gradient_that_nothing_may_clear_is_walked_again(made: str) -> None:
    text = HEAD.format(made=made, of="each", before="pass", between="pass")
    assert fails(text, clears=True)
    (found,) = [one for one in check(from_text(text, "run.py")).findings if one.severity == "error"]
    assert (found.code, found.span.line) == ("TAPE101", 17)
    assert found.certain == (made == "pass")
