"""A class that a program makes of dict or list is told as what it is made of, wherever a library is given one.

Programs are put together out of where a container of layers, parameters or losses goes and of a mistake; the findings
are those of the same program with a plain one.
"""

from __future__ import annotations

import itertools

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

PROGRAM = """\
from collections import OrderedDict

import torch
from torch import nn

{kind}

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        {made}

    def forward(self, x):
        {run}

net = Net()
{optimizer}
for i in range(10):
    {clear}
    loss = net(torch.ones(3, 2)).sum()
    loss.backward()
    opt.step()
"""
MAPPINGS = [
    "class Kept(dict):\n    pass",
    "class Kept(OrderedDict):\n    pass",
    "class Kept(dict):\n    def __getattr__(self, key):\n        return self[key]\n    __setattr__ = dict.__setitem__",
    "class Base(dict):\n    tag = 1\nclass Kept(Base):\n    def __init__(self, *a):\n        super().__init__(*a)",
]
SEQUENCES = [
    "class Kept(list):\n    pass",
    "class Kept(list):\n    def first(self):\n        return self[0]",
    "class Base(list):\n    pass\nclass Kept(Base):\n    def __init__(self, given):\n        super().__init__(given)",
]
LAYER = "{{'a': nn.Linear(2, 1)}}"
OF_DICTS = {
    "ModuleDict": (f"kept = {{0}}({LAYER}); self.parts = nn.ModuleDict(kept)", "return self.parts['a'](x)"),
    "shared": (f"self.kept = {{0}}({LAYER}); self.parts = nn.ModuleDict(self.kept)", "return self.kept['a'](x)"),
    "update": (f"self.parts = nn.ModuleDict(); self.parts.update({{0}}({LAYER}))", "return self.parts['a'](x)"),
    "Sequential": ("self.parts = nn.Sequential({0}(OrderedDict(a=nn.Linear(2, 1))))", "return self.parts(x)"),
    "ParameterDict": (
        "self.parts = nn.ParameterDict({0}({{'a': nn.Parameter(torch.ones(2))}}))", "return x * self.parts['a']",
    ),
    "values": (f"kept = {{0}}({LAYER}); self.parts = nn.ModuleList(kept.values())", "return self.parts[0](x)"),
    "keywords": ("self.a = nn.Linear(**{0}({{'in_features': 2, 'out_features': 1}}))", "return self.a(x)"),
    "plain": (f"self.parts = {{0}}({LAYER}); self.b = nn.Linear(1, 1)", "return self.b(self.parts['a'](x))"),
}  # fmt: skip
OF_LISTS = {
    "ModuleList": ("self.parts = nn.ModuleList({0}([nn.Linear(2, 1)]))", "return self.parts[0](x)"),
    "extend": ("self.parts = nn.ModuleList(); self.parts.extend({0}([nn.Linear(2, 1)]))", "return self.parts[0](x)"),
    "Sequential": ("self.parts = nn.Sequential(*{0}([nn.Linear(2, 1)]))", "return self.parts(x)"),
    "ParameterList": ("self.parts = nn.ParameterList({0}([nn.Parameter(torch.ones(2))]))", "return x * self.parts[0]"),
    "plain": ("self.parts = {0}([nn.Linear(2, 1)]); self.b = nn.Linear(1, 1)", "return self.b(self.parts[0](x))"),
}
OPTIMIZERS = [
    "opt = torch.optim.SGD(net.parameters(), lr=0.1)",
    "opt = torch.optim.SGD([Kept({{'params': net.parameters()}})], lr=0.1)",
    "opt = torch.optim.SGD(net.kept['a'].parameters(), lr=0.1)",
    "opt = torch.optim.SGD(Kept([*net.parameters()]), lr=0.1)",
]
CLEARS = ["opt.zero_grad()", "net.zero_grad()", "pass"]
EVERY = [
    (kind, plain, name, optimizer, clear)
    for kinds, plain, places in ((MAPPINGS, "dict", OF_DICTS), (SEQUENCES, "list", OF_LISTS))
    for kind, name, optimizer, clear in itertools.product(kinds, places, OPTIMIZERS, CLEARS)
    if ("{{" in optimizer) <= (plain == "dict")
    and ("[*" in optimizer) <= (plain == "list")
    and ("kept" in optimizer) <= (name == "shared")
]


def told(kind: str, places: tuple[str, str], optimizer: str, clear: str) -> list[tuple[str, int, str, bool]]:
    made, run = places
    text = PROGRAM.format(kind=kind, made=made.format("Kept"), run=run, optimizer=optimizer.format(), clear=clear)
    return sorted(
        (one.code, one.span.line, one.message, one.certain) for one in check(from_text(text, "t.py")).findings
    )


@pytest.mark.parametrize(("kind", "plain", "name", "optimizer", "clear"), EVERY)
def test_a_class_of_its_own_is_what_it_is_made_of(kind: str, plain: str, name: str, optimizer: str, clear: str) -> None:
    places = (OF_DICTS if plain == "dict" else OF_LISTS)[name]
    without = f"Kept = {plain}" + "\n" * kind.count("\n")
    assert told(kind, places, optimizer, clear) == told(without, places, optimizer, clear)
