"""What is kept once, for a while, or of one forward pass alone, as in `programs`; the levels stand in `LEVELS`."""

from __future__ import annotations

from tests.ecosystem.programs import Program

_WINDOW = """\
import argparse
cell, head = nn.LSTMCell(3, 5), nn.Linear(5, 1)
optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()])

def run(stream, k2):
    state, pending = None, []
    for t, x in enumerate(stream):
        state = cell(x, state)
        pending.append(head(state[0]).pow(2).mean())
        if {full}:
            loss = torch.stack(pending).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            state = tuple(s.detach() for s in state)
            pending.clear()

parser = argparse.ArgumentParser()
parser.add_argument("--k2", type=int, default=4)
run([torch.randn(2, 3) for _ in range(17)], parser.parse_args().k2)
"""

WINDOWS = {
    f"a window whose length is an argument: {full}": Program(_WINDOW.format(full=full))
    for full in ("len(pending) == k2", "len(pending) >= k2", "k2 <= len(pending)", "not len(pending) < k2")
}
WINDOWS["a window in an attribute, of a length that was handed in"] = Program(
    """\
class Agent:
    def __init__(self, core, size):
        self.core, self.size, self.losses = core, size, []
        self.optimizer = torch.optim.SGD(core.parameters(), lr=0.1)

    def run(self, stream):
        state = torch.zeros(1, 4)
        for x in stream:
            state = self.core(x, state)
            self.losses.append(state.pow(2).mean())
            if len(self.losses) >= self.size:
                self.optimizer.zero_grad()
                torch.stack(self.losses).sum().backward()
                self.optimizer.step()
                state = state.detach()
                self.losses.clear()
""",
    "Agent(nn.GRUCell(3, 4), 3).run([torch.randn(1, 3)] * 8)\n",
)

_AVERAGE = """\
class Average(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("params", torch.tensor([0.07, -1.0]))

    def forward(self, x):
        {asked}
        out = torch.exp(x / self.params[0].item())
        if {test}:
            self.params[1] = {kept}{said}
        return out / 2

model, average = nn.Linear(4, 4), Average()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(5):
    loss = average(model(torch.randn(5, 4))).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

GUARDED = {
    "kept once, as long as the stored value is a mark": Program(
        _AVERAGE.format(asked="z = self.params[1].item()", test="z < 0", kept="out.mean() * 10", said="")
    ),
    "kept once, where the stored value itself is asked": Program(
        _AVERAGE.format(asked="pass", test="self.params[1] < 0", kept="out.mean() * 10", said="")
    ),
    "kept once, where its number is asked": Program(
        _AVERAGE.format(asked="pass", test="float(self.params[1]) == -1", kept="out.mean() * 10", said="")
    ),
    "kept wherever the data are so": Program(
        _AVERAGE.format(asked="z = x.mean().item()", test="z < 0", kept="out.mean() * 10", said="  # TAPE201")
    ),
}

_ROLLOUT = """\
import sys

class Buffer:
    def __init__(self):
        self.log_probs, self.rewards = [], []

    def size(self):
        return len(self.rewards)

policy, buffer = nn.Linear(4, 2), Buffer()
optimizer = torch.optim.Adam(policy.parameters())

def act():
    buffer.log_probs.append(torch.log_softmax(policy(torch.randn(1, 4)), dim=-1)[:, 0]){said}

def update():
    loss = -(torch.cat(buffer.log_probs) * torch.tensor(buffer.rewards)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    del buffer.log_probs[:], buffer.rewards[:]

for epoch in range(100):
    total = 0
    for step in range(50):
        act()
        buffer.rewards.append(1.0)
        if {full}:
            update()
        if len(sys.argv) > step:
            break
{after}
"""
GUARDED |= {
    f"an update in an inner loop, for {full}": Program(_ROLLOUT.format(full=full, said="", after=""))
    for full in ("buffer.size() == 64", "buffer.size() >= 30", "not buffer.size() < 41", "64 == len(buffer.rewards)")
}
GUARDED["an update in an inner loop, and a rollout without one"] = Program(
    _ROLLOUT.format(
        full="buffer.size() == 64",
        said="  # TAPE201",
        after="for epoch in range(10):\n    for step in range(5):\n        act()",
    )
)

_EPISODE = """\
import gym

policy = nn.Linear(4, 2)
optimizer = torch.optim.Adam(policy.parameters())

class Agent:
    def __init__(self):
        self.env = gym.make("CartPole-v1")

    def learn(self, logits):
        loss = logits.log_softmax(1).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    def play(self):
        logits = torch.empty(0, 2)
        while True:
            logits = torch.cat((logits, policy(torch.randn(1, 4))), dim=0){said}
            {ask}
            {out}

agent = Agent()
for _ in range(10):
    {use}
"""
_ASKED = {
    "a step": "state, reward, done, _ = self.env.step(0)\n            if done:",
    "another step": "done = self.env.step(0)[2]\n            if not done:\n                pass\n            else:",
    "one of two": "done, over = self.env.step(0)[2:]\n            if done or over:",
}
_OUT = {
    "learns on the way out": ("    self.learn(logits)\n                break", "agent.play()", ""),
    "hands out what is learned from": ("    return logits", "agent.learn(agent.play())", ""),
    "hands out a part of it": (
        "    total = logits.sum(0, keepdim=True)\n                return total",
        "agent.learn(agent.play())",
        "",
    ),
    "learns nothing": ("    seen = len(logits)\n                return seen", "agent.play()", "  # TAPE201"),
}
GUARDED |= {
    f"an endless loop that {out} and asks {asked}": Program(
        _EPISODE.format(ask=_ASKED[asked], out=_OUT[out][0], use=_OUT[out][1], said=_OUT[out][2])
    )
    for asked in _ASKED
    for out in _OUT
    if out != "learns nothing" or asked == "another step"
}

GUARDED |= {
    f"{name}, over {endless}": Program(
        "import itertools\n" + program.text.replace("while True:", f"for _ in {endless}:"), program.run
    )
    for name, program in GUARDED.items()
    if name.startswith("an endless loop") and name.endswith("a step")
    for endless in ("itertools.count()", "itertools.repeat(None)", "enumerate(itertools.cycle([1, 2]))")
}

GUARDED["an endless loop that is left for what it was not asked to do"] = Program(
    """\
def go(stream, last):
    while True:
        loss = net(next(stream)).sum()
        if not last:
            loss.backward()
        if loss.item() > 3 and last:
            loss.backward()
            break

net = nn.Linear(3, 1)
""",
    """\
go((torch.ones(2, 3) * 100 * i * net.weight.detach().sign() for i in range(9)), True)
""",
)

_EPOCHS = """\
import gym

policy, optimizer = nn.Linear(4, 2), None
optimizer = torch.optim.Adam(policy.parameters())
env = gym.make("CartPole-v1")

def play(episode):
    env.reset()
    {count}
    return policy(torch.randn(1, 4)), episode

def run(size=64):
    episode, kept = 0, torch.empty(0, 2)
    for _ in range(300):
        logits, episode = play(episode)
        kept = torch.cat((kept, logits), dim=0)
        if episode >= size:
            episode = 0
            loss = kept.log_softmax(1).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            kept = torch.empty(0, 2)

run()
"""
GUARDED |= {
    f"a count that a call gives back: {count}": Program(_EPOCHS.format(count=count))
    for count in (
        "episode += 1",
        "episode = episode + 2",
    )
}

_HAND = """\
class Mask(nn.Module):
    def __init__(self):
        super().__init__()
        self.network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))

    def update(self, minibatches, opt):
        total = 0
        gradients = [[] for _ in self.network.parameters()]
        {before}
        for x, y in minibatches:
            loss = {loss}
            k += len(x)
            total += loss  # TAPE201
            for grads, g in zip(gradients, torch.autograd.grad(loss, self.network.parameters(), retain_graph=True)):
                grads.append(g)
        opt.zero_grad()
        for p, grads in zip(self.network.parameters(), gradients):
            p.grad = torch.stack(grads).mean(0)
        opt.step()
        return (total / len(minibatches)).item()
"""
_GHOST = """\
import numpy as np

def total(opfun, X, y, optimizer, ghost=4):
    obj = torch.tensor(0, dtype=torch.float)
    n = X.shape[0]
    optimizer.zero_grad()
    for idx in np.array_split(np.arange(n), max(int(n / ghost), 1)):
        loss = F.cross_entropy(opfun(X[idx]), torch.from_numpy(y[idx]).long()){scaled}
        loss.backward()
        obj += loss  # TAPE201
    return obj
"""

LEVELS = {
    "losses of parts of one forward pass": ("info", _HAND.format(
        before="logits, k = self.network(torch.cat([x for x, y in minibatches])), 0",
        loss="F.cross_entropy(logits[k : k + len(x)], y)",
    )),
    "losses of a forward pass each": ("warning", _HAND.format(
        before="k = 0", loss="F.cross_entropy(self.network(x), y)"
    )),
    "losses of an unknown function, after their backward": ("info", _GHOST.format(scaled="")),
    "losses of an unknown function, scaled, after their backward": ("info", _GHOST.format(scaled=" * (len(idx) / n)")),
    "losses of an unknown function without a backward": (
        "warning", _GHOST.format(scaled="").replace("        loss.backward()\n", "")
        .replace("    return obj", "    obj.backward()\n    optimizer.step()").replace("  # TAPE201", "")
    ),
}  # fmt: skip
