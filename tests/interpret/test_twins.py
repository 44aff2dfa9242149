"""Modules that have their `_parameters`, `_buffers`, `_modules` and hooks in common, or no longer.

A twin made by hand or by `copy.copy` has the very dicts of its source until it is given others. Programs are put
together out of how the twin is made, what is stored by which of the two and how, and whose forward is run. torch runs
each of them first.
"""

from __future__ import annotations

import itertools
import random

import pytest

from tapecheck.check import check
from tapecheck.source import from_text
from tests.interpret.truth import raises_here

pytest.importorskip("torch")

PROGRAM = """\
import copy
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.weight = nn.Linear(4, 4), nn.Parameter(torch.ones(4))
        self.register_buffer("scale", torch.ones(4))

    def forward(self, x):
        return self.first(x) * self.weight * self.scale


def free(value):
    return nn.Parameter(torch.ones(4)) if isinstance(value, nn.Parameter) else value


net = Net()
handle = net.register_forward_hook(lambda module, inputs, output: output{end})
net.requires_grad_(False)
{made}
{other}, {same} = net, twin
{stored}
for _ in range(2):
    {used}(torch.ones(3, 4)).sum().backward()
"""
BARE = "twin = net.__new__(type(net))\n"
MADE = (
    "twin = copy.copy(net)",
    BARE + "twin.__dict__ = net.__dict__.copy()",
    BARE + "twin.__dict__ = net.__dict__",
    BARE + "twin.__dict__.update(vars(net))",
    BARE + "given = dict(vars(net))\ntwin.__dict__ = given",
    BARE + "twin.__dict__ = {**net.__dict__}",
    BARE + "for name, value in net.__dict__.items():\n    twin.__dict__[name] = value",
    BARE + "twin.__dict__.update(net.__dict__, _parameters=net._parameters.copy())",
    BARE + "given = net.__dict__.copy()\ngiven['_modules'] = dict(given['_modules'])\ntwin.__dict__ = given",
)
PIECEMEAL = (BARE + "for name, value in vars(net).items():\n    setattr(twin, name, value)",)
"""Hooks do not come along where the dry run sees a dict taken apart: what a module with some does is then not told."""
STORED = (
    "one.weight = nn.Parameter(torch.ones(4))",
    "one._parameters['weight'] = nn.Parameter(torch.ones(4))",
    "vars(one)['_parameters']['weight'] = nn.Parameter(torch.ones(4))",
    "one.register_parameter('weight', nn.Parameter(torch.ones(4)))",
    "one._parameters = {name: free(value) for name, value in one._parameters.items()}",
    "one._parameters = one._parameters.copy()\none.weight = nn.Parameter(torch.ones(4))",
    "given = dict(one._parameters)\none._parameters = given\ngiven['weight'] = nn.Parameter(torch.ones(4))",
    "one.__dict__['_parameters'] = {'weight': nn.Parameter(torch.ones(4))}",
    "one.first = nn.Linear(4, 4)",
    "one._modules = one._modules.copy()\none._modules['first'] = nn.Linear(4, 4)",
    "one._modules.update(first=nn.Linear(4, 4))",
    "one.first.requires_grad_()",
    "one.scale = torch.ones(4, requires_grad=True)",
    "one._buffers = {}\none.register_buffer('scale', torch.ones(4, requires_grad=True))",
    "one.requires_grad_()",
    "one.requires_grad_()\nhandle.remove()",
    "one.weight = nn.Parameter(torch.ones(4))\none.register_forward_hook(lambda *given: given[2].detach())",
)
ENDS = ("", "", ".detach()")
ROLES = [*itertools.product((("one", "two"), ("two", "one")), ("net", "twin"))]
EVERY = [*itertools.product((*MADE, *PIECEMEAL), STORED, ENDS, ROLES)]


@pytest.mark.parametrize("seed", range(20))
def test_what_one_registers_the_other_has(seed: int) -> None:
    for made, stored, end, (names, used) in random.Random(f"twins {seed}").sample(EVERY, 6):
        other, same = names
        text = PROGRAM.format(made=made, stored=stored, end=end, other=other, same=same, used=used)
        found = [one for one in check(from_text(text, "program.py")).findings if one.severity == "error"]
        hooked = bool(end) or "hook(" in stored
        wrong = raises_here(text)
        assert bool(found) == wrong or (wrong and hooked and made in PIECEMEAL), f"{text}\n{found}"
        assert all(one.code == "TAPE103" and one.certain for one in found), f"{text}\n{found}"
