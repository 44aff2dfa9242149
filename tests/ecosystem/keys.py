"""Programs that store and read under keys nobody knows, in the format of `programs`."""

from __future__ import annotations

from tests.ecosystem.programs import Program

KEYS = {
    "a table whose cells are filled one after the other": Program(
        """\
class Align(nn.Module):
    def forward(self, x, y):
        D = (x[:, None] - y[None]).pow(2).sum(-1)
        n, m = D.shape
        R = [[torch.tensor(1e4) for _ in range(m + 1)] for _ in range(n + 1)]
        R[0][0] = torch.tensor(0.0)
        for i in range(1, n + 1):
            for j in range(1, m + 1):
                best = torch.minimum(torch.minimum(R[i - 1][j], R[i][j - 1]), R[i - 1][j - 1])
                R[i][j] = D[i - 1, j - 1] + best
        return R[n][m]


model, align = nn.Linear(2, 2), Align()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    loss = align(model(torch.randn(3, 2)), torch.randn(4, 2))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    ),
    "the state of each user is carried without detach": Program(
        """\
cell, states = nn.GRUCell(3, 4), {}
optimizer = torch.optim.SGD(cell.parameters(), lr=0.1)


def train(events):
    for user, x in events:
        h = states.get(user, torch.zeros(1, 4))
        h = cell(x, h)
        loss = h.pow(2).mean()
        optimizer.zero_grad()
        loss.backward()  # TAPE101  # raises
        optimizer.step()
        states[user] = h
""",
        "train([(i % 2, torch.randn(1, 3)) for i in range(6)])\n",
    ),
    "the state of each user is detached where it is kept": Program(
        """\
cell, states = nn.GRUCell(3, 4), {}
optimizer = torch.optim.SGD(cell.parameters(), lr=0.1)


def train(events):
    for user, x in events:
        h = states.get(user, torch.zeros(1, 4))
        h = cell(x, h)
        loss = h.pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        states[user] = h.detach()
""",
        "train([(i % 2, torch.randn(1, 3)) for i in range(6)])\n",
    ),
    "memories in a defaultdict": Program(
        """\
from collections import defaultdict


class Memory(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRUCell(3, 4)
        self.nodes = defaultdict(lambda: torch.zeros(4))

    def forward(self, ids, x):
        before = torch.stack([self.nodes[i] for i in ids])
        after = self.rnn(x, before)
        for i, row in zip(ids, after):
            self.nodes[i] = row
        return after


def main(batches):
    memory = Memory()
    optimizer = torch.optim.SGD(memory.parameters(), lr=0.1)
    for ids, x in batches:
        loss = memory(ids, x).mean()
        optimizer.zero_grad()
        loss.backward()  # TAPE101  # raises
        optimizer.step()
""",
        "main([([0, 1], torch.randn(2, 3))] * 3)\n",
    ),
    "a bank of features by the numbers of a batch": Program(
        """\
class Bank:
    def __init__(self):
        self.features = {}

    def update(self, ids, feats):
        for i, f in zip(ids.tolist(), feats):
            if i in self.features:
                self.features[i] = F.normalize(0.5 * self.features[i].detach() + 0.5 * f, dim=0)
            else:
                self.features[i] = f.detach()


net, bank = nn.Linear(4, 3), Bank()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


def train(loader):
    for ids, x in loader:
        z = net(x)
        loss = z.pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        bank.update(ids, z.detach())
""",
        "train([(torch.arange(3), torch.randn(3, 4))] * 3)\n",
    ),
    "a dict that is filled by zip": Program(
        """\
cell, states = nn.GRUCell(3, 4), {}
optimizer = torch.optim.SGD(cell.parameters(), lr=0.1)


def train(batches):
    for ids, x in batches:
        h = torch.stack([states.get(i, torch.zeros(4)) for i in ids])
        h = cell(x, h)
        optimizer.zero_grad()
        h.mean().backward()  # TAPE101  # raises
        optimizer.step()
        states.update(zip(ids, h))  # TAPE201
""",
        "train([([1, 2], torch.randn(2, 3))] * 3)\n",
    ),
    "a dict in a dict": Program(
        """\
net, kept = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)), {}
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


def train(batches):
    for task, x in batches:
        out = net(x).mean()
        if task in kept:
            out = out + kept[task]["last"]
        optimizer.zero_grad()
        out.backward()  # TAPE101  # raises
        optimizer.step()
        kept.setdefault(task, {})["last"] = out


def clean(batches):
    for task, x in batches:
        out = net(x).mean()
        if task in kept:
            out = out + kept[task]["last"].item()
        optimizer.zero_grad()
        out.backward()
        optimizer.step()
        kept.setdefault(task, {})["last"] = out.detach()
""",
        'clean([("a", torch.randn(2, 3)), ("b", torch.randn(2, 3))] * 3)\n'
        'train([("a", torch.randn(2, 3)), ("b", torch.randn(2, 3))] * 3)\n',
    ),
    "losses looked up by the name of a head": Program(
        """\
heads = nn.ModuleDict({"age": nn.Linear(4, 1), "size": nn.Linear(4, 1)})
optimizer = torch.optim.SGD(heads.parameters(), lr=0.1)


def train(batches):
    for name, x, y in batches:
        losses = {key: F.mse_loss(head(x), y) for key, head in heads.items()}
        total = torch.zeros(())
        total = total + losses[name]
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
""",
        'train([("age", torch.randn(2, 4), torch.randn(2, 1))] * 3)\n',
    ),
}
