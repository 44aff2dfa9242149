"""Programs whose models, losses and callables come from somewhere else, in the format of `programs`."""

from __future__ import annotations

from tests.ecosystem.programs import Program

UNKNOWN_GRAPHS = {
    "the outputs of a model that was handed in, one after the other": Program(
        """\
def train(model, loader, opt):
    for x, y in loader:
        loss = 0
        for out in model(x):
            loss += F.cross_entropy(out, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        """\
class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleList([nn.Linear(4, 3), nn.Linear(4, 3)])

    def forward(self, x):
        return [head(x) for head in self.heads]

heads = Heads()
train(heads, [(torch.randn(2, 4), torch.tensor([0, 2]))] * 3, torch.optim.SGD(heads.parameters(), lr=0.1))
""",
    ),
    "a sum over the critics that were handed in": Program(
        """\
class Agent:
    def __init__(self, critic, optimizer):
        self.critic = critic
        self.optimizer = optimizer

    def update(self, states, actions, targets):
        loss = 0.5 * sum(F.mse_loss(q, targets) for q in self.critic(states, actions))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        least = torch.cat(self.critic(states, actions), dim=1).min(1).values
        (-least.mean()).backward()
""",
        """\
class Twin(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(3, 1), nn.Linear(3, 1)

    def forward(self, s, a):
        x = torch.cat([s, a], 1)
        return self.one(x), self.two(x)

twin = Twin()
agent = Agent(twin, torch.optim.SGD(twin.parameters(), lr=0.1))
agent.update(torch.randn(4, 2), torch.randn(4, 1), torch.randn(4, 1))
""",
    ),
    "outputs zipped with their targets, and looked up by number": Program(
        """\
def deep_supervision(net, image, masks, weights):
    outputs = net(image)
    loss = torch.zeros(())
    for weight, (out, mask) in zip(weights, zip(outputs, masks)):
        loss = loss + weight * F.mse_loss(out, mask)
    loss.backward()
    final = outputs[-1].detach()
    again = torch.zeros(())
    for i, part in enumerate(net(image)):
        again = again + part.mean() / (i + 1)
    again.backward()
    return final
""",
        """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x):
        h = self.a(x)
        return [h, self.b(h)]

x = torch.randn(2, 3)
deep_supervision(Net(), x, [x, x], [1.0, 0.5])
""",
    ),
    "parameters of a model handed in frozen": Program(
        """\
def update_average(target, source, beta):
    target.requires_grad_(False)
    with_names = dict(source.named_parameters())
    for name, p in target.named_parameters():
        p.copy_(beta * p + (1 - beta) * with_names[name].detach())


def soft_update(target, source, tau):
    for p, q in zip(target.parameters(), source.parameters()):
        p.mul_(1 - tau).add_(tau * q.detach())


class Momentum:
    def __init__(self, online, target):
        self.online, self.target = online, target
        for p in self.target.parameters():
            p.requires_grad = False

    def step(self, m):
        for p, q in zip(self.online.parameters(), self.target.parameters()):
            q.mul_(m).add_(p.detach(), alpha=1 - m)
""",
        """\
source, target = nn.Linear(2, 2), nn.Linear(2, 2)
update_average(target, source, 0.9)
soft_update(target, source, 0.1)
Momentum(source, target).step(0.9)
""",
    ),
    "a step by hand on a model that was handed in and has been backwarded": Program(
        """\
def fit(model, x, y, lr):
    for _ in range(10):
        loss = F.mse_loss(model(x), y)
        loss.backward()
        for p in model.parameters():
            p -= lr * p.grad  # TAPE104  # raises
            p.grad = None
""",
        """\
fit(nn.Linear(3, 1), torch.randn(4, 3), torch.randn(4, 1), 0.1)
""",
    ),
    "a loss that gets its terms under conditions on data": Program(
        """\
net = nn.Linear(4, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.1)


def train(batches):
    for x, y in batches:
        out = net(x)
        loss = torch.zeros(())
        for c in range(3):
            mask = y == c
            if mask.any():
                loss = loss + F.cross_entropy(out[mask], y[mask])
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        """\
train([(torch.randn(5, 4), torch.tensor([0, 1, 1, 2, 0]))] * 3)
""",
    ),
    "layers by the words of a file": Program(
        """\
def read(name):
    return [line.strip() for line in open(name)]


def build(definitions):
    layers = nn.ModuleList([nn.Linear(2, 2) for _ in definitions])
    x, outs = torch.randn(1, 2), []
    for kind, layer in zip(definitions, layers):
        if kind in ["conv", "up"]:
            x = layer(x)
        elif kind == "yolo":
            outs.append(layer(x))
    loss = torch.zeros(1)
    for out in outs:
        loss = loss + out.mean()
    loss.backward()


def main(name):
    build(read(name))
""",
        """\
build(["conv", "yolo"])
""",
    ),
    "a flag of the command line that freezes everything": Program(
        """\
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--freeze", action="store_true")
args = parser.parse_args()
model = nn.Linear(3, 1)
if args.freeze:
    for p in model.parameters():
        p.requires_grad = False
loss = model(torch.randn(2, 3)).mean()
loss.backward()  # TAPE103
""",
    ),
    "a target that was handed in may be what is trained": Program(
        """\
def train(model, batch, target):
    out = model(batch).detach()
    loss = F.mse_loss(out, target)
    loss.backward()
""",
        """\
train(nn.Linear(2, 1), torch.randn(3, 2), torch.randn(3, 1, requires_grad=True))
""",
    ),
}
