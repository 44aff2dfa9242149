"""Programs whose objects have lived for a while when a method is called, in the format of `programs`."""

from __future__ import annotations

from tests.ecosystem.programs import Program

AGENT = """\
def feed(agent):
    for _ in range(64):
        agent.store(torch.randn(4).tolist())
"""
GROWN = {
    "a memory that must fill up first": Program(
        """\
class Agent:
    def __init__(self):
        self.memory = []
        self.net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
        self.opt = torch.optim.Adam(self.net.parameters())

    def store(self, t):
        self.memory.append(t)

    def learn(self):
        if len(self.memory) < 32:
            return
        q = self.net(torch.tensor(self.memory, dtype=torch.float)).mean()
        self.opt.zero_grad()
        q.backward()
        (q * 2).backward()  # TAPE101  # raises
        self.opt.step()
""",
        AGENT + "agent = Agent()\nfeed(agent)\nagent.learn()\n",
    ),
    "a memory of its own class, with a counter": Program(
        """\
import random


class Replay:
    def __init__(self, size):
        self.size, self.count = size, 0
        self.rows = [None] * size

    def push(self, row):
        self.rows[self.count % self.size] = row
        self.count += 1

    def sample(self, n):
        return random.sample(self.rows[: min(self.count, self.size)], n)


class Agent:
    def __init__(self, batch_size=8):
        self.memory = Replay(100)
        self.batch_size = batch_size
        self.net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
        self.opt = torch.optim.Adam(self.net.parameters())

    def store(self, t):
        self.memory.push(t)

    def learn(self):
        if self.memory.count < self.batch_size:
            return None
        q = self.net(torch.tensor(self.memory.sample(self.batch_size))).mean()
        self.opt.zero_grad()
        q.backward()
        q.pow(2).backward()  # TAPE101  # raises
        self.opt.step()
        return q.item()
""",
        AGENT + "agent = Agent()\nfeed(agent)\nagent.learn()\n",
    ),
    "steps that are counted before the learning starts": Program(
        """\
class Learner:
    def __init__(self, warmup=1000):
        self.steps, self.warmup = 0, warmup
        self.net = nn.Linear(4, 1)
        self.opt = torch.optim.Adam(self.net.parameters())

    def step(self, x):
        self.steps += 1
        if self.steps < self.warmup:
            return
        loss = self.net(x).mean()
        self.opt.zero_grad()
        loss.detach().backward()  # TAPE103  # raises
        self.opt.step()
""",
        """\
learner = Learner()
for _ in range(1001):
    learner.step(torch.randn(2, 4))
""",
    ),
    "a flag that another method sets": Program(
        """\
class Finetuner:
    def __init__(self):
        self.net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
        self.frozen = False

    def freeze(self):
        self.frozen = True

    def step(self, x):
        loss = self.net(x).mean()
        loss.backward(retain_graph=True)
        if self.frozen:
            loss.pow(2).backward()
""",
        """\
tuner = Finetuner()
tuner.freeze()
tuner.step(torch.randn(2, 4))
""",
    ),
    "log probabilities that another method collects": Program(
        """\
class Reinforce:
    def __init__(self):
        self.policy = nn.Linear(4, 2)
        self.opt = torch.optim.Adam(self.policy.parameters())
        self.log_probs, self.rewards = [], []

    def act(self, state):
        choice = torch.distributions.Categorical(logits=self.policy(state))
        action = choice.sample()
        self.log_probs.append(choice.log_prob(action))
        return action.item()

    def finish(self):
        loss = torch.zeros(())
        for log_prob, reward in zip(self.log_probs, self.rewards):
            loss = loss - log_prob * reward
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        del self.log_probs[:], self.rewards[:]
""",
        """\
agent = Reinforce()
for _ in range(2):
    for _ in range(3):
        agent.act(torch.randn(4))
        agent.rewards.append(1.0)
    agent.finish()
""",
    ),
    "a network that another method builds": Program(
        """\
class Estimator:
    def __init__(self):
        self.net = None
        self.opt = None

    def build(self, width):
        self.net = nn.Linear(width, 1)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def fit(self, x, y):
        if self.net is None:
            self.build(x.shape[1])
        for _ in range(3):
            loss = F.mse_loss(self.net(x), y)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
""",
        """\
estimator = Estimator()
estimator.fit(torch.randn(4, 3), torch.randn(4, 1))
estimator.fit(torch.randn(4, 3), torch.randn(4, 1))
""",
    ),
    "a target network that is set up at the first call": Program(
        """\
import copy


class Byol:
    def __init__(self):
        self.online = nn.Linear(3, 3)
        self.target = None
        self.opt = torch.optim.SGD(self.online.parameters(), lr=0.1)

    def loss(self, x):
        if self.target is None:
            self.target = copy.deepcopy(self.online)
            for p in self.target.parameters():
                p.requires_grad = False
        return F.mse_loss(self.online(x), self.target(x))

    def step(self, x):
        loss = self.loss(x)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        for p, q in zip(self.online.parameters(), self.target.parameters()):
            q.mul_(0.9).add_(p.detach(), alpha=0.1)
""",
        """\
byol = Byol()
for _ in range(3):
    byol.step(torch.randn(2, 3))
""",
    ),
    "a running value that is detached where it is kept": Program(
        """\
class Meter:
    def __init__(self):
        self.value, self.count = None, 0

    def update(self, loss):
        loss = loss.detach()
        self.value = loss if self.value is None else 0.9 * self.value + 0.1 * loss
        self.count += 1


class Trainer:
    def __init__(self):
        self.net, self.meter = nn.Linear(3, 1), Meter()
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def fit(self, batches):
        for x in batches:
            loss = self.net(x).pow(2).mean()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            self.meter.update(loss)
""",
        """\
Trainer().fit(torch.randn(4, 2, 3))
""",
    ),
}
GLOBALS = {
    "a counter that is a global": Program(
        """\
step = 0
net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))


def train(x):
    global step
    step += 1
    if step < 1000:
        return
    q = net(x).mean()
    q.backward()
    (q * 2).backward()  # TAPE101  # raises
""",
        """\
for _ in range(1001):
    train(torch.randn(3, 4))
""",
    ),
    "a flag that is a global": Program(
        """\
frozen = False
net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))


def freeze():
    global frozen
    frozen = True


def step(x):
    loss = net(x).mean()
    loss.backward(retain_graph=True)
    if frozen:
        loss.pow(2).backward()
""",
        """\
freeze()
step(torch.randn(2, 4))
""",
    ),
}
COUNTED = {
    "a counter of the loop itself": Program(
        """\
net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
opt = torch.optim.Adam(net.parameters())
step = 0
while step < 2000:
    step += 1
    if step > 1000:
        q = net(torch.randn(3, 4)).mean()
        opt.zero_grad()
        q.backward()
        (q * 2).backward()  # TAPE101  # raises
        opt.step()
""",
    ),
    "a counter in an object, with continue": Program(
        """\
class Loop:
    def __init__(self, loader):
        self.loader, self.step = loader, 0
        self.net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))

    def run(self):
        for x in self.loader:
            self.step += 1
            if self.step < 1000:
                continue
            q = self.net(x).mean()
            q.backward()
            q.pow(2).backward()  # TAPE101  # raises


def main(loader):
    Loop(loader).run()
""",
        "main(torch.randn(1100, 2, 4))\n",
    ),
    "every five hundredth step": Program(
        """\
net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
opt = torch.optim.Adam(net.parameters())
for i in range(1, 2000):
    if i % 500 == 0:
        q = net(torch.randn(3, 4)).mean()
        opt.zero_grad()
        q.backward()
        (q * 2).backward()  # TAPE101  # raises
        opt.step()
""",
    ),
    "a buffer that the loop fills": Program(
        """\
import collections
import random

net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
memory = collections.deque(maxlen=500)
for step in range(1200):
    memory.append(torch.randn(4))
    if len(memory) > 256:
        q = net(torch.stack(random.sample(memory, 8))).mean()
        q.backward()
        q.pow(2).backward()  # TAPE101  # raises
""",
    ),
    "the loss changes after the warm-up": Program(
        """\
net = nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(300):
    loss = net(torch.randn(3, 4)).pow(2).mean()
    if epoch >= 100:
        loss = loss + net.weight.abs().sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if epoch % 50 == 49:
        print(epoch, loss.item())
""",
    ),
    "a state that is cut every hundred steps": Program(
        """\
rnn = nn.GRUCell(3, 4)
opt = torch.optim.SGD(rnn.parameters(), lr=0.1)
state, total = torch.zeros(1, 4), torch.zeros(())
for t in range(1, 401):
    state = rnn(torch.randn(1, 3), state)
    total = total + state.pow(2).mean()
    if t % 100 == 0:
        opt.zero_grad()
        total.backward()
        opt.step()
        state, total = state.detach(), torch.zeros(())
""",
    ),
    "a state that is not cut every hundred steps": Program(
        """\
rnn = nn.GRUCell(3, 4)
opt = torch.optim.SGD(rnn.parameters(), lr=0.1)
state, total = torch.zeros(1, 4), torch.zeros(())
for t in range(1, 401):
    state = rnn(torch.randn(1, 3), state)
    total = total + state.pow(2).mean()
    if t % 100 == 0:
        opt.zero_grad()
        total.backward()  # TAPE101  # raises
        opt.step()
        total = torch.zeros(())
""",
    ),
    "batches that are passed over by their number": Program(
        """\
net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
def f(loader):
    for i, x in enumerate(loader):
        if i < 100:
            continue
        q = net(torch.randn(3, 4)).mean()
        q.backward()
        (q * 2).backward()  # TAPE101  # raises
""",
        """\
f(torch.randn(150, 4))
""",
    ),
    "a buffer of its own class that the loop fills": Program(
        """\
net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
class Buffer:
    def __init__(self):
        self.rows = []

    def add(self, row):
        self.rows.append(row)

    def __len__(self):
        return len(self.rows)


buf = Buffer()
for step in range(10000):
    buf.add(torch.randn(4))
    if len(buf) < 64:
        continue
    if step % 4 == 0:
        q = net(torch.randn(3, 4)).mean()
        q.backward()
        (q * 2).backward()  # TAPE101  # raises
""",
    ),
    "frames counted in an endless loop": Program(
        """\
net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
frame = 0
while True:
    frame += 1
    if frame < 1000:
        continue
    if frame > 5000:
        break
    else:
        q = net(torch.randn(3, 4)).mean()
        q.backward()
        (q * 2).backward()  # TAPE101  # raises
""",
    ),
    "steps counted over episodes": Program(
        """\
net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
total = 0
for episode in range(100):
    for t in range(200):
        total += 1
        if total < 500:
            continue
        q = net(torch.randn(3, 4)).mean()
        q.backward()
        (q * 2).backward()  # TAPE101  # raises
""",
    ),
    "a loss kept every hundredth step": Program(
        """\
net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
losses = []
for i in range(5000):
    loss = net(torch.randn(3, 4)).pow(2).mean()
    net.zero_grad()
    loss.backward()
    if (i + 1) % 100 == 0:
        losses.append(loss)  # TAPE201
""",
    ),
    "a memory of NumPy rows with a counter": Program(
        """\
import numpy as np


class Memory:
    def __init__(self, size):
        self.states, self.count, self.size = np.zeros((size, 4), dtype=np.float32), 0, size

    def store(self, state):
        self.states[self.count % self.size] = state
        self.count += 1

    def sample(self, n):
        return self.states[np.random.choice(min(self.count, self.size), n)]


class Agent:
    def __init__(self):
        self.net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
        self.memory, self.opt = Memory(100), torch.optim.Adam(self.net.parameters())

    def store(self, state):
        self.memory.store(state)

    def learn(self, n=32):
        if self.memory.count < n:
            return
        q = self.net(torch.tensor(self.memory.sample(n))).mean()
        self.opt.zero_grad()
        q.backward()
        self.opt.step()
        (q * 2).backward()  # TAPE101  # raises
""",
        AGENT + "agent = Agent()\nfeed(agent)\nagent.learn()\n",
    ),
}
