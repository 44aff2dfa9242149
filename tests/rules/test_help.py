"""Help that is followed to the letter leads to a program that runs, not to the next error."""

from __future__ import annotations

from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.source import from_text
from tests.cases import under_torch

IMAGE = """\
import torch
from torch import nn

net = nn.Conv2d(3, 8, 3, padding=1).requires_grad_(False)
target = net(torch.rand(1, 3, 8, 8))
img = torch.rand(1, 3, 8, 8, requires_grad=True)
optimizer = torch.optim.Adam([img], lr=0.05)
for step in range(5):
    optimizer.zero_grad()
    loss = (net(img) - target).pow(2).mean()
    loss.backward()
    optimizer.step()
    img = img.clamp(0, 1)
print(loss.item() < 1)
"""
SHARED = """\
import torch
from torch import nn

generator, critic = nn.Linear(4, 2), nn.Linear(2, 1)
g_optimizer = torch.optim.Adam(generator.parameters())
c_optimizer = torch.optim.Adam(critic.parameters())
for step in range(3):
    fake = generator(torch.randn(8, 4)).detach()
    c_loss = critic(fake).mean() - critic(torch.randn(8, 2)).mean()
    c_optimizer.zero_grad()
    c_loss.backward()
    c_optimizer.step()
    g_loss = -critic(fake).mean()
    g_optimizer.zero_grad()
    g_loss.backward()
    g_optimizer.step()
"""
REPLAY = """\
import random

import torch
from torch import nn

net = nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
memory = []
for step in range(40):
    x = torch.randn(4)
    memory.append(net(x).max())
    if step > 16:
        loss = sum(random.sample(memory, 8))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
RUNNING = """\
import torch
from torch import nn

net = nn.Linear(3, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
mean, spread = torch.zeros(4), torch.ones(4)
for step in range(3):
    out = net(torch.randn(8, 3))
    mean = 0.9 * mean + 0.1 * out.mean(0)
    spread = 0.9 * spread + 0.1 * out.pow(2).mean(0)
    loss = ((out - mean) / spread).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
FILLED = """\
import torch

weight = torch.ones(3, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
for step in range(3):
    y = weight * torch.randn(3)
    loss = (y * y).sum()
    y.fill_(0.0)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
# Program, finding, what its help says, and what doing that comes to.
CASES = {
    "a leaf that is computed anew": (
        IMAGE, "TAPE101", "write the new value into it under `torch.no_grad()`, `img.copy_(...)`",
        [("    img = img.clamp(0, 1)\n", "    with torch.no_grad():\n        img.copy_(img.clamp(0, 1))\n")],
    ),
    "and the in-place form": (
        IMAGE, "TAPE101", "or the in-place form of what changes it",
        [("    img = img.clamp(0, 1)\n", "    with torch.no_grad():\n        img.clamp_(0, 1)\n")],
    ),
    "one cut value in two losses": (
        SHARED, "TAPE402", "`.detach()` the value only for the losses that are not to train them",
        [(".detach()", ""), ("critic(fake).mean() - ", "critic(fake.detach()).mean() - ")],
    ),
    "two values that are carried": (
        RUNNING, "TAPE101", "`mean = mean.detach()` and `spread = spread.detach()` before they are used again",
        [("    optimizer.step()\n", "    optimizer.step()\n    mean = mean.detach()\n    spread = spread.detach()\n")],
    ),
    "an operation that only exists in place": (
        FILLED, "TAPE102", "make the change after the backward, or `.clone()` `y` first and change the copy",
        [("    y.fill_(0.0)\n", "    y = y.clone()\n    y.fill_(0.0)\n")],
    ),
    "values of which a part is used again": (
        REPLAY, "TAPE101", "store what they are computed from and compute them anew for each backward",
        [("net(x).max()", "x"), ("sum(random", "sum(net(one).max() for one in random")],
    ),
}  # fmt: skip


def mended(name: str) -> str:
    text, _, _, edits = CASES[name]
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize("name", CASES)
def test_help_says_what_mends(name: str) -> None:
    text, code, said, _ = CASES[name]
    (finding,) = (one for one in check(from_text(text, "train.py")).findings if one.code == code)
    assert said in finding.help
    assert [one.code for one in check(from_text(mended(name), "train.py")).findings] == []


@pytest.mark.skipif(not under_torch.has_torch(), reason="torch is not installed")
def test_what_help_says_runs_under_torch(tmp_path: Path) -> None:
    requests = []
    for number, name in enumerate(CASES):
        (tmp_path / f"{number}.py").write_text(mended(name))
        requests.append({"path": tmp_path / f"{number}.py"})
    for name, outcome in zip(CASES, under_torch.run_all(requests), strict=True):
        assert outcome["exception"] is None, (name, outcome["message"])
        assert len(set(outcome["steps"])) == len(outcome["steps"]) > 1, name


RECURRENT = """\
import torch
from torch import nn

cell, start = nn.RNNCell(3, 4), nn.Parameter(torch.zeros(2, 4))
optimizer = torch.optim.SGD([*cell.parameters(), start], lr=0.1)
state = start
for step in range(4):
    state = cell(torch.randn(2, 3), state)
    optimizer.zero_grad()
    state.pow(2).mean().backward()
    optimizer.step()
"""


def test_a_learned_first_state_is_no_such_leaf() -> None:
    (finding,) = (one for one in check(from_text(RECURRENT, "train.py")).findings if one.code == "TAPE101")
    assert finding.help.startswith("cut the graph between iterations")


@pytest.mark.parametrize("stepped", [True, False])
def test_a_sum_that_has_the_loss_in_it_is_not_added_to_it(stepped: bool) -> None:
    text = f"""\
import torch
from torch import nn

net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
total = 0
for _ in range(3):
    loss = net(torch.randn(5, 3)).pow(2).mean()
    total = total + loss
    loss.backward()
    {"optimizer.step()" if stepped else "pass"}
total.backward()
"""
    finding = next(one for one in check(from_text(text, "train.py")).findings if one.code == "TAPE101")
    advice = "call backward for one of the two: `loss` is a part of `total`"
    retain = "; or pass `retain_graph=True` to the backward on line 10"
    assert finding.help == (advice if stepped else f"{advice}{retain}")


STATEFUL = """\
import torch
from torch import nn


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(3, 4)
        self.h = None

    def forward(self, x):
        self.h = self.cell(x, self.h)
        return self.h


agent = Agent()
for x in torch.randn(5, 2, 3):
    agent(x).pow(2).mean().backward()
"""
PLAIN = """\
import torch
from torch import nn

cell = nn.GRUCell(3, 4)
for epoch in range(2):
    h = None
    for x in torch.randn(5, 2, 3):
        h = cell(x, h)
        h.pow(2).mean().backward()
"""


def test_the_loop_that_carries_a_graph_is_told_where_it_is_a_question() -> None:
    for text, where in ((STATEFUL, " of the loop on line 17"), (PLAIN, " of the loop on line 7")):
        [finding] = check(from_text(text, "train.py")).findings
        assert finding.code == "TAPE101" and finding.help.startswith(f"cut the graph between iterations{where}, `")
    one = PLAIN.replace("for epoch in range(2):\n    h", "h").replace("\n    ", "\n")
    [finding] = check(from_text(one, "train.py")).findings
    assert finding.help.startswith("cut the graph between iterations, `h = h.detach()`")


TWO_FAKES = """\
import torch
from torch import nn

g_ab, g_ba = nn.Sequential(nn.Linear(4, 4), nn.Tanh()), nn.Sequential(nn.Linear(4, 4), nn.Tanh())
d_a, d_b = nn.Linear(4, 1), nn.Linear(4, 1)
g_opt = torch.optim.Adam([*g_ab.parameters(), *g_ba.parameters()])
d_opt = torch.optim.Adam([*d_a.parameters(), *d_b.parameters()])
for step in range(4):
    fake_b, fake_a = g_ab(torch.randn(8, 4)), g_ba(torch.randn(8, 4))
    g_loss = -d_a(fake_a).mean() - d_b(fake_b).mean()
    g_opt.zero_grad()
    g_loss.backward()
    g_opt.step()
    d_loss = d_a(fake_a).mean() + d_b(fake_b).mean()
    d_opt.zero_grad()
    d_loss.backward()
    d_opt.step()
"""
RUNNING_TOTAL = """\
import torch
from torch import nn

net, total = nn.Sequential(nn.Linear(4, 4), nn.Tanh()), None
for step in range(4):
    weights = net(torch.randn(3, 4) if total is None else torch.randn(3, 4) - total)
    total = weights if total is None else total + weights
    weights.pow(2).sum().backward()
"""
ACCUMULATED = """\
import torch
from torch import nn

net = nn.Linear(4, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(8):
    opt.zero_grad()
    net(torch.randn(3, 4)).pow(2).sum().backward()
    if (step + 1) % 4 == 0:
        opt.step()
"""
BY_OPTION = ACCUMULATED.replace("% 4", "% args.every").replace(
    "import torch\n",
    "import argparse\nimport torch\nparser = argparse.ArgumentParser()\n"
    "parser.add_argument('--every', type=int, default=4)\nargs = parser.parse_args()\n",
    1,
)
CUT = """\
import torch
w = torch.nn.Parameter(torch.randn(3, 1))
head = torch.nn.Linear(1, 1)
opt = torch.optim.SGD([w, *head.parameters()], lr=0.1)
for step in range(4):
    opt.zero_grad()
    head(torch.randn(8, 3) @ w.detach()).sum().backward()
    opt.step()
"""
KEPT = """\
import torch
from torch import nn

net, kept = nn.Linear(4, 1), []
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for episode in range(3):
    for t in range(5):
        value = net(torch.randn(4)).exp()
        kept.append(value)
    loss = torch.stack(kept)[:5].sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
REMEMBERED = """\
import torch
from torch import nn

policy, memory = nn.Linear(4, 2), []
opt = torch.optim.Adam(policy.parameters())
for episode in range(20):
    for t in range(10):
        logp = torch.log_softmax(policy(torch.randn(4)), -1)[0]
        memory.append((logp, t))
    loss = -sum(logp * reward for logp, reward in memory)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


@pytest.mark.parametrize(
    ("text", "code", "said", "unsaid"),
    [
        # The name of what comes out of a container that was never emptied carries nothing.
        (REMEMBERED, "TAPE101", "`memory.clear()`", "logp = logp.detach()"),
        (
            REMEMBERED.replace("for logp, reward in memory", "for logp, reward in memory[:10]"),
            "TAPE101",
            "`memory",
            "logp =",
        ),
        (KEPT, "TAPE101", "`kept.clear()`", "value = value.detach()"),
        (BY_OPTION, "TAPE404", "clear where the step is made", "clear first"),
        (CUT, "TAPE402", "if it is not to be trained, leave it out of the optimizer", "they are"),
        (TWO_FAKES, "TAPE101", "give this loss `fake_a.detach()` and `fake_b.detach()`", "add the losses"),
        # What is stored in the first iteration has another name, and in the others has not.
        (RUNNING_TOTAL, "TAPE101", "`total", "weights.detach()"),
        (ACCUMULATED, "TAPE404", "clear where the step is made", "clear first"),
    ],
)
def test_the_help_is_what_the_fix_does(text: str, code: str, said: str, unsaid: str) -> None:
    [finding] = check(from_text(text, "train.py")).findings
    assert finding.code == code and said in finding.help and unsaid not in finding.help
