"""One mistake is told once, by what is true of it: holders with two names, replaced parameters, cleared gradients."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.cases.recorded import record_all

KEPT = """
from collections import defaultdict
import torch
from torch import nn

net = nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
STATS = {made}

class Log:
    def __init__(self, store):
        self.store = store

    def add(self, value):
        {add}

log = Log(STATS)
for step in range(9):
    loss = net(torch.randn(8, 4)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    log.add(loss)
"""
TRAINED = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.body(x).relu())

net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
{before}
for step in range(6):
    loss = net(torch.randn(8, 4)).pow(2).mean()
    {clear}
    loss.backward()
    {after}
    optimizer.step()
"""
ROLLOUT = """
import torch
from torch import nn

net, head = nn.RNNCell(4, 6), nn.Linear(6, 2)
optimizer = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.1)
for update in range(3):
    state, outs, values = torch.zeros(3, 6), [], []
    for step in range(6):
        state = net(torch.randn(3, 4), state)
        outs.append(head(state))
        values.append(state.exp())
        {changed}
    loss = {loss}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
TWO_BACKWARDS = """
import torch
from torch import nn

net = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
past = [(None, torch.ones(4, 4, requires_grad=True) * 1)]
for step in range(8):
    before = past[-1][1].detach().requires_grad_()
    now = net(before) * before
    past = [past[-1], (before, now)]
    if step % {every} == 0:
        {first}
        {second}
        optimizer.step()
"""
LEAKS = [
    KEPT.format(made=made, add=add)
    for made, add in (
        ("defaultdict(list)", 'self.store["loss"].append(value)'),
        ('{"loss": []}', 'self.store["loss"].append(value)'),
        ("defaultdict(float)", 'self.store["loss"] += value'),
        ("defaultdict(lambda: defaultdict(list))", 'self.store["train"]["loss"].append(value)'),
        ("[]", "self.store.append(value)"),
    )
]
REPLACED = [
    TRAINED.format(before=before, clear="optimizer.zero_grad()", after="pass")
    for before in (
        "net.head = nn.Linear(8, 2)",
        "net.head = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2))",
        "net.body.weight = nn.Parameter(torch.randn(8, 4))",
        "for name in ('body', 'head'): setattr(net, name, nn.Linear(*{'body': (4, 8), 'head': (8, 3)}[name]))",
    )
]
FAILING = [
    ROLLOUT.format(changed=changed, loss=loss)
    for changed in ("state.mul_(0.5)", "values[-1].add_(1.0)")
    for loss in (
        "torch.stack(outs).mean() + torch.stack(values).mean()",
        "sum(o.mean() + v.sum() for o, v in zip(outs, values))",
    )
]
CLEARED = [
    TRAINED.format(before="pass", clear="pass", after=after)
    for after in (
        "optimizer.zero_grad()",
        "nn.utils.clip_grad_norm_(net.parameters(), 1.0); optimizer.zero_grad()",
        "norm = net.body.weight.grad.norm().item(); optimizer.zero_grad()",
        "net.head.zero_grad(); net.body.zero_grad(); total = nn.utils.clip_grad_norm_(net.parameters(), 1.0)",
    )
]

STALE = [
    TWO_BACKWARDS.format(first=first, second=second, every=every)
    for first, second, every in (
        ("now.mean().backward()", "(net(before) - 1).pow(2).mean().backward()", 1),
        ("now.mean().backward()", "(net(before) - 1).pow(2).mean().backward()", 2),
        ("now.mean().backward()", "past[-2][1].backward(before.grad)", 2),
        ("now.mean().backward()", "for other in past[:-1][-1:]: other[1].backward(before.grad)", 2),
    )
]
"""Two backward calls, one after the other, add to gradients that a step has used."""

COMPILED = [
    f"""
    import torch
    from torch import nn

    class Heads(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Linear(3, 3)

        def forward(self, x):
            h = self.body(x)
            return h.sum(), h.pow(2).sum()

    net = Heads()
    {made}
    for step in range(2):
        losses = fast(torch.randn(2, 3))
        {walked}
    """
    for made in (
        "fast = torch.compile(net, backend='aot_eager')", "fast = torch.compile(lambda x: net(x), backend='aot_eager')",
    )
    for walked in (
        "for loss in losses: loss.backward()", "losses[0].backward(); losses[1].backward()",
        "torch.autograd.grad(losses[0], net.body.weight); losses[1].backward()",
    )
]  # fmt: skip
"""A graph that is compiled and walked twice: two rules speak of the exception."""


def test_one_mistake_is_told_once(tmp_path: Path) -> None:
    programs = [*((text, "TAPE201") for text in LEAKS), *((text, "TAPE405") for text in REPLACED)]
    programs += [(text, "TAPE403") for text in STALE]
    programs += [(text, "TAPE404") for text in CLEARED] + [(text, "TAPE102") for text in FAILING]
    programs += [(text, "TAPE603") for text in COMPILED]
    paths = [tmp_path / f"p{number}.py" for number in range(len(programs))]
    for path, (text, _) in zip(paths, programs, strict=True):
        # Gradients of zeros, which chance makes of weights that have grown, add nothing that a run could see.
        seeded = textwrap.dedent(text).lstrip("\n").replace("import torch\n", "import torch; torch.manual_seed(0)\n", 1)
        path.write_text(seeded)
    told = {}
    for (text, code), item in zip(programs, record_all(paths), strict=True):
        positive = [
            one.code for one in item.findings
            if one.evidence is not None and one.evidence.verdict in ("confirmed", "found-by-run")
        ]  # fmt: skip
        if positive != [code]:
            told[text] = positive
        if code == "TAPE405":
            (finding,) = [one for one in item.findings if one.code == code]
            assert any("probably what was there before" in note for note in finding.notes), text
    assert told == {}
