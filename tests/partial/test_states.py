"""States of parameters that are kept under names which are not known.

Torch runs each program: those that detach what they keep run to their end, the others walk an earlier graph again.
"""

from __future__ import annotations

import itertools

import pytest

from tapecheck.check import check
from tapecheck.source import from_text
from tests.partial.unseen import runs

torch = pytest.importorskip("torch")

PROGRAM = """\
import torch
import hidden
from torch import nn

torch.manual_seed(0)
net = hidden.build()
images = torch.randn(4, 2, requires_grad=True)
optimizer = torch.optim.SGD([images], lr=0.1)
states = {{}}
for name, p in {named}:
    {begin}
for step in range(4):
    grads = torch.autograd.grad(net(images).pow(2).mean(), list(net.parameters()), create_graph=True)
    looked = 0
    for (name, p), g in zip({named}, grads):
        {keep}
        looked = looked + {read}.pow(2).sum()
    optimizer.zero_grad()
    looked.backward()
    optimizer.step()
"""
NAMED = {
    "names": "net.named_parameters()",
    "numbers": "zip(hidden.numbers(), net.parameters())",
    "pairs": "[((n, 0), p) for n, p in net.named_parameters()]",
}
RIGHT = {
    "detached in place": "states[name].detach_(); states[name] = 0.9 * states[name] + g",
    "detached": "states[name] = 0.9 * states[name].detach() + g",
    "detached before": "old = states[name].detach(); states[name] = 0.9 * old + g",
    "got": "states[name] = 0.9 * states.get(name).detach() + g",
    "taken out": "states[name] = 0.9 * states.pop(name).detach() + g",
    "updated": "states.update({name: 0.9 * states[name].detach() + g})",
    "data": "states[name] = 0.9 * states[name].data + g",
    "new": "states[name] = g * 2",
    "guarded": "if name in states: states[name] = 0.9 * states[name].detach() + g",
}
WRONG = {
    "stored": "states[name] = 0.9 * states[name] + g",
    "read before": "old = states[name]; states[name] = 0.9 * old + g",
    "got": "states[name] = 0.9 * states.get(name) + g",
    "added": "states[name] += g",
}
BEGIN = {"zeros": "states[name] = torch.zeros(p.shape)", "alike": "states[name] = torch.zeros_like(p)"}


def runs_here(text: str) -> bool:
    """Return whether a program with its hidden code runs to its end."""
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2))
    return runs(text, build=lambda: net, numbers=lambda: iter(range(9)))


def told(text: str) -> set[tuple[str, bool]]:
    found = check(from_text(text, "run.py")).findings
    return {(one.code, one.certain) for one in found if one.code in ("TAPE101", "TAPE102", "TAPE201")}


@pytest.mark.parametrize("way, named, begin", [*itertools.product(RIGHT, NAMED, BEGIN)])
def test_a_state_that_is_detached_is_walked_once(way: str, named: str, begin: str) -> None:
    text = PROGRAM.format(named=NAMED[named], begin=BEGIN[begin], keep=RIGHT[way], read="states[name]")
    assert runs_here(text)
    # The names may be others in each round, for all that is known: what is kept would grow, then.
    assert told(text) <= {("TAPE201", False)}


@pytest.mark.parametrize("way, begin", [*itertools.product(WRONG, BEGIN)])
def test_a_state_that_is_not_detached_is_walked_again(way: str, begin: str) -> None:
    text = PROGRAM.format(named=NAMED["names"], begin=BEGIN[begin], keep=WRONG[way], read="states[name]")
    assert not runs_here(text)
    assert {code for code, _ in told(text)} & {"TAPE101", "TAPE102"}


def test_what_is_read_under_a_name_is_stored_over() -> None:
    text = """\
import torch
from models import build
net = build()
states = {name: torch.zeros(p.shape) for name, p in net.named_parameters()}
for step in range(30):
    net(torch.randn(4, 2)).pow(2).mean().backward(create_graph=True)
    total = 0
    for name, p in net.named_parameters():
        states[name].detach_()
        states[name] = 0.9 * states[name] + p.grad
        total = total + states[name].sum()
    net.zero_grad()
    total.backward()
"""
    assert not told(text)
