"""Modules that a program clones by hand: made without a constructor, given another's `__dict__`, other parameters.

MAML's clones keep the graph to the parameters that they were made from. Each program is run under torch first.
"""

from __future__ import annotations

import itertools

import pytest

from tapecheck.check import check
from tapecheck.source import from_text
from tests.interpret.truth import raises_here

pytest.importorskip("torch")

PROGRAM = """\
import copy
import torch
from torch import nn


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 1)

    def forward(self, x):
        return self.second(self.first(x).tanh())


class Row(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


def clone_of(module):
    cls = type(module)
    clone = {made}
    {given}
    clone._parameters = {copied}
    clone._modules = clone._modules.copy()
    for name in clone._parameters:
        if module._parameters[name] is not None:
            clone._parameters[name] = module._parameters[name].clone()
    for name in clone._modules:
        clone._modules[name] = clone_of(module._modules[name])
    return clone


def adapted(module, steps):
    for name in module._parameters:
        module._parameters[name] = module._parameters[name] - next(steps)
    for name in module._modules:
        module._modules[name] = adapted(module._modules[name], steps)
    return module


model = {model}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.ones(3, 4)
for _ in range(2):
    learner = clone_of(model)
    loss = learner(x).pow(2).mean()
    gradients = torch.autograd.grad(loss, list(learner.parameters()), {options})
    learner = adapted(learner, iter(gradients))
    second = learner(x).pow(2).mean()
    optimizer.zero_grad()
    {end}
    optimizer.step()
"""
MADE = ("module.__new__(cls)", "cls.__new__(cls)", "object.__new__(module.__class__)", "copy.copy(module)")
GIVEN = (
    ("clone.__dict__ = module.__dict__.copy()", "clone._parameters.copy()"),
    ("clone.__dict__.update(module.__dict__)", "dict(module._parameters)"),
    ("clone.__dict__ = dict(vars(module))", "clone._parameters.copy()"),
    ("clone.__dict__ = {**module.__dict__}", "dict(module._parameters)"),
)
MODELS = ("Own()", "Row()", "nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))", "nn.Linear(4, 1)")
ENDS = (
    ("create_graph=True", "second.backward()"),
    ("retain_graph=False", "second.backward()"),
    ("retain_graph=True", "(loss + second).backward()"),
    ("create_graph=True", "second.backward(); loss.backward()"),
    ("retain_graph=False", "(loss + second).backward()"),
)


@pytest.mark.parametrize(("model", "made"), [*itertools.product(MODELS, MADE)])
def test_a_clone_has_the_graph_of_what_it_was_made_from(model: str, made: str) -> None:
    for (given, copied), (options, end) in itertools.product(GIVEN, ENDS):
        text = PROGRAM.format(made=made, given=given, copied=copied, model=model, options=options, end=end)
        found = [one for one in check(from_text(text, "program.py")).findings if one.severity == "error"]
        assert bool(found) == raises_here(text), f"{text}\n{found}"
        assert all(one.code == "TAPE101" for one in found), text


LATE = """\
import torch
from torch import nn
layer = {made}
{given}
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for _ in range(2):
    loss = layer(torch.ones(2, 4)).pow(2).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
{end}
"""


@pytest.mark.parametrize("end", ["print(loss.item())", "loss.backward()", "layer(torch.ones(1, 4)).sum().backward()"])
@pytest.mark.parametrize(
    ("made", "given"),
    [
        ("nn.Linear.__new__(nn.Linear)", "layer.__init__(4, 1)"),
        ("object.__new__(nn.Linear)", "nn.Linear.__init__(layer, 4, 1)"),
        ("nn.Linear(2, 2)", "layer.__init__(4, 1)"),
        ("nn.Sequential.__new__(nn.Sequential)", "layer.__init__(nn.Linear(4, 1), nn.ReLU())"),
        ("nn.GRU.__new__(nn.GRU)", "layer.__init__(4, 1)\nlayer, gru = nn.Linear(4, 1), layer"),
    ],
)
def test_a_constructor_that_is_called_late(made: str, given: str, end: str) -> None:
    text = LATE.format(made=made, given=given, end=end)
    found = [one.code for one in check(from_text(text, "program.py")).findings if one.severity == "error"]
    assert found == (["TAPE101"] if raises_here(text) else []), text
