"""What keeps the graph of every iteration: the line marked `# kept` stores or carries it, and no other."""

from __future__ import annotations

import pytest

from tapecheck.check import check
from tapecheck.source import from_text
from tests.interpret.truth import full

PROGRAMS = {
    "written into a buffer": """
class Center(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)
        self.register_buffer("mean", torch.zeros(3))
    def forward(self, x):
        h = self.fc(x)
        out = h - self.mean.detach()
        self.mean.mul_(0.9).add_(h.mean(0))  # kept
        return out
net = Center()
for step in range(10):
    net(torch.randn(6, 4)).pow(2).mean().backward()
""",
    "written into a slice": """
bank = torch.zeros(8, 3)
net = nn.Linear(4, 3)
for step in range(10):
    f = net(torch.randn(2, 4))
    f.pow(2).mean().backward()
    at = step % 4 * 2
    bank[at : at + 2] = f  # kept
""",
    "added in place to a total": """
total = torch.zeros(())
w = torch.randn(3, requires_grad=True)
for step in range(10):
    loss = w.pow(2).sum()
    loss.backward()
    total.add_(loss)  # kept
""",
    "parameters that an update stored, cut by the next iteration": """
class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)
        self.scale = nn.Parameter(torch.ones(3))
    def forward(self, x):
        return self.fc(x) * self.scale
def update(module, done):
    for kind in (module._parameters, module._buffers):
        for name in kind:
            p = kind[name]
            if p in done:
                kind[name] = done[p]
            elif p is not None and hasattr(p, "update") and p.update is not None:
                kind[name] = done[p] = p + p.update
    for name in module._modules:
        module._modules[name] = update(module._modules[name], done)
    return module
net = Scaled()
for step in range(10):
    for p in net.parameters():
        p.detach_().requires_grad_()
    own = list(net.parameters())
    for p, g in zip(own, torch.autograd.grad(net(torch.randn(2, 4)).sum(), own)):
        p.update = -0.1 * g
    net = update(net, {})
""",
    "a dict whose keys are tensors": """
seen = {}
for step in range(10):
    key = torch.zeros(2)
    w = torch.randn(3, requires_grad=True)
    if key in seen:  # a tensor is found by its identity alone: never
        seen[key].backward()
    seen = {key: w.pow(2).sum()}
    seen[key].backward()
""",
    "linked objects": """
class Record:
    def __init__(self, value, before):
        self.value, self.before = value, before
tail = None
net = nn.Linear(4, 3)
for step in range(10):
    loss = net(torch.randn(2, 4)).pow(2).mean()
    loss.backward()
    tail = Record(loss, tail)  # kept
""",
    "lists made anew from their old selves": """
history = {}
net = nn.Linear(4, 3)
for step in range(10):
    loss = net(torch.randn(2, 4)).pow(2).mean()
    loss.backward()
    history = {key: history.get(key, []) + [value] for key, value in {"loss": loss}.items()}  # kept
""",
    "the last record refers to no other": """
class Record:
    def __init__(self, value, before):
        self.value, self.before = value, before
tail = None
net = nn.Linear(4, 3)
for step in range(10):
    loss = net(torch.randn(2, 4)).pow(2).mean()
    loss.backward()
    tail = Record(loss, None)
""",
    "linked numbers": """
class Record:
    def __init__(self, value, before):
        self.value, self.before = value, before
tail = None
net = nn.Linear(4, 3)
for step in range(10):
    loss = net(torch.randn(2, 4)).pow(2).mean()
    loss.backward()
    tail = Record(loss.item(), tail)
""",
    "a buffer written anew from a constant": """
bank = torch.zeros(8, 3)
net = nn.Linear(4, 3)
for step in range(10):
    f = net(torch.randn(2, 4))
    (f @ bank.t()).pow(2).mean().backward()
    bank[step % 8] = f.detach()[0]
""",
    "a list cut back by del": """
recent = []
net = nn.Linear(4, 3)
for step in range(10):
    loss = net(torch.randn(2, 4)).pow(2).mean()
    loss.backward()
    recent.append(loss)
    del recent[:-3]
""",
    "a list replaced by its own end": """
recent = []
net = nn.Linear(4, 3)
for step in range(10):
    loss = net(torch.randn(2, 4)).pow(2).mean()
    loss.backward()
    recent.append(loss)
    recent[:] = recent[-3:]
""",
    "a list cut back before the loop only": """
recent = [0.0] * 5
del recent[:-3]
net = nn.Linear(4, 3)
for step in range(10):
    loss = net(torch.randn(2, 4)).pow(2).mean()
    loss.backward()
    recent.append(loss)  # kept
""",
    "one element deleted of two that come": """
recent = []
net = nn.Linear(4, 3)
for step in range(10):
    loss = net(torch.randn(2, 4)).pow(2).mean()
    loss.backward()
    recent.append(loss)
    recent.append(loss)  # kept
    del recent[-1:]
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_line_that_keeps_is_told(name: str) -> None:
    text = full(PROGRAMS[name])
    marked = [number for number, line in enumerate(text.splitlines(), 1) if line.endswith("# kept")]
    found = [(one.code, one.span.line) for one in check(from_text(text, "program.py")).findings]
    assert found == [("TAPE201", line) for line in marked]


HOMES = {
    "an object": "class Box:\n    pass\nhome = Box()\n",
    "a module": "class Box(nn.Module):\n    pass\nhome = Box()\n",
    "a layer": "home = nn.Linear(2, 2)\n",
    "a layer within": "whole = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))\nhome = whole[1]\n",
    "a copy": "import copy\nhome = copy.deepcopy(nn.BatchNorm1d(2))\n",
    "a container": "home = nn.Sequential(nn.Linear(2, 2))\n",
}
STORED = {
    "added up": ("home.total = 0", "home.total = home.total + loss"),
    "added to": ("home.total = torch.zeros(())", "home.total += loss"),
    "in a list": ("home.all = []", "home.all.append(loss)"),
    "in a list, later": ("home.all = 0\nhome.all = list()", "home.all.append(loss)"),
    "in a buffer": ("home.register_buffer('total', torch.zeros(()))", "home.total = home.total + loss"),
    "into a buffer": ("home.register_buffer('total', torch.zeros(()))", "home.total += loss"),
    "under a name": ("home.total = 0", "setattr(home, 'total', home.total + loss)"),
    "in its dict": ("home.__dict__['total'] = 0", "home.__dict__['total'] = home.__dict__['total'] + loss"),
}
LOOP = """
import torch
from torch import nn
net = nn.Linear(2, 1)
other = nn.Conv2d(1, 1, 1)
HOME
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(100):
    loss = net(torch.randn(4, 2)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    BESIDE
    AGAIN
"""
BESIDE = ("", "other.first = step", "other.first = loss.item()", "other.first = other.second = torch.ones(2)")


@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("home", HOMES)
def test_what_is_kept_is_found_in_whatever_holds_it(home: str, stored: str, beside: str) -> None:
    if "buffer" in stored and home == "an object":
        return
    first, again = STORED[stored]
    program = (
        LOOP.replace("HOME\n", HOMES[home] + first + "\n").replace("BESIDE", beside or "pass").replace("AGAIN", again)
    )
    assert "TAPE201" in {finding.code for finding in check(from_text(program, "kept.py")).findings}
