"""Programs part of which is not visible: what rests on it is never said for sure, in the format of `programs`.

Each with relatives: the same mistake, or one beside it, that stays visible and is found.
"""

from __future__ import annotations

from tests.ecosystem.programs import Program

_CLEARED = """\
from helpers import {name}

model = nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
rounds = {name}({given}, every=4)
for step in range(10):
    loss = model(torch.randn(8, 4)).pow(2).mean()
    loss.backward()
    opt.step()
    rounds.advance()
"""
_CLEARS = "assert model.weight.grad is None or step % 4\n"

CALLS = {
    "a helper of another module clears gradients, whatever it is called": Program(
        _CLEARED.format(name="accumulate_scheduler", given="opt"), _CLEARS
    ),
    "a counter of another module has the model and clears its gradients": Program(
        _CLEARED.format(name="count_rounds", given="model"), _CLEARS
    ),
    "a logger that was handed in has the model and clears its gradients": Program(
        """\
def fit(logger, loader):
    model = nn.Linear(4, 1)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    logger.log(model)
    for x in loader:
        loss = model(x).pow(2).mean()
        loss.backward()
        opt.step()
        logger.write()
    return model
""",
        """\
class Logger:
    def log(self, model):
        self.model = model

    def write(self):
        self.model.zero_grad()

assert fit(Logger(), [torch.randn(8, 4)] * 3).weight.grad is None
""",
    ),
    "a scheduler of torch has the optimizer for its learning rates": Program(
        """\
model = nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.LambdaLR(opt, lambda step: 0.9 ** step)
for step in range(10):
    loss = model(torch.randn(8, 4)).pow(2).mean()
    loss.backward()  # TAPE403
    opt.step()
    scheduler.step()
"""
    ),
    "a library is known by its path to look at a model only": Program(
        """\
import logging

model = nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
logging.info("%s", model)
for step in range(10):
    loss = model(torch.randn(8, 4)).pow(2).mean()
    loss.backward()  # TAPE403
    opt.step()
"""
    ),
}

_OVERRIDDEN = """\
class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.vars = nn.ParameterList()
        self.w = nn.Parameter(torch.randn(3, 8))
        self.vars.append(self.w)

    def forward(self, x, the_vars=None):
        return F.linear(x, (self.vars if the_vars is None else the_vars)[0])

    def parameters(self):
        return self.vars

encoder, base = nn.Sequential(nn.Linear(4, 8), nn.Tanh()), Base()
x, y = torch.randn(5, 4), torch.randint(0, 3, (5,))
embedding = encoder(x)
grad = torch.autograd.grad(F.cross_entropy(base(embedding), y), base.parameters())
fast = list(map(lambda p: p[1] - 0.1 * p[0], zip(grad, base.parameters())))
for step in range(3):
    loss = F.cross_entropy(base(embedding, fast), y)
    grad = torch.autograd.grad(loss, fast)
    fast = list(map(lambda p: p[1] - 0.1 * p[0], zip(grad, fast)))
F.cross_entropy(base(embedding, fast), y).backward()
"""

_CONFIGURED = """\
class Learner(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config, self.weights = config, nn.ParameterList()
        for name, sizes in config:
            if name == "conv":
                w = nn.Parameter(torch.empty(*sizes))
                nn.init.kaiming_normal_(w)
                self.weights.extend([w, nn.Parameter(torch.zeros(sizes[0]))])
            elif name == "linear":
                w = nn.Parameter(torch.empty(*sizes))
                nn.init.kaiming_normal_(w)
                self.weights.extend([w, nn.Parameter(torch.zeros(sizes[0]))])
            elif name not in ("relu", "flatten"):
                raise NotImplementedError

    def forward(self, x, weights=None):
        weights = self.weights if weights is None else weights
        place = 0
        for name, sizes in self.config:
            if name == "conv":
                x = F.conv2d(x, weights[place], weights[place + 1])
                place += 2
            elif name == "linear":
                x = F.linear(x, weights[place], weights[place + 1])
                place += 2
            elif name == "relu":
                x = F.relu(x)
            else:
                x = x.flatten(1)
        return x

    def parameters(self):
        return self.weights

class Tuning:
    def __init__(self, args, config):
        self.learner, self.steps, self.rate = Learner(config), args.steps, args.rate

    def tune(self, x, y):
        fast = None
        for _ in range(self.steps):
            loss = F.cross_entropy(self.learner(x, fast), y)
            grads = torch.autograd.grad(loss, self.learner.parameters())
            fast = list(map(lambda p, g: p - self.rate * g, self.learner.parameters(), grads))
"""
INPUTS = {
    "weights that a configuration lists, differentiated in each step": Program(
        _CONFIGURED,
        "import argparse\n"
        "options = argparse.Namespace(steps=3, rate=0.1)\n"
        "layers = [('conv', (4, 1, 3, 3)), ('relu', ()), ('flatten', ()), ('linear', (2, 144))]\n"
        "Tuning(options, layers).tune(torch.randn(5, 1, 8, 8), torch.randint(0, 2, (5,)))\n",
    ),
    "gradients with respect to an overridden `parameters`": Program(_OVERRIDDEN),
    "the overridden `parameters` has those of the encoder, too": Program(
        _OVERRIDDEN.replace("return self.vars", "return nn.ParameterList([*self.vars, *encoder.parameters()])").replace(
            "    grad = torch.autograd.grad(loss, fast)\n",
            "    grad = torch.autograd.grad(loss, [fast[0], *encoder.parameters()])  # TAPE101 raises\n",
        )
    ),
    "gradients with respect to weights that were handed in": Program(
        """\
encoder = nn.Sequential(nn.Linear(4, 8), nn.Tanh())

def adapt(weights, x, y):
    embedding = encoder(x)
    for step in range(3):
        loss = F.mse_loss(F.linear(embedding, weights[0]), y)
        weights = [w - 0.1 * g for w, g in zip(weights, torch.autograd.grad(loss, weights))]
    loss = F.mse_loss(F.linear(embedding, weights[0]), y)
    loss.backward()
""",
        "adapt([torch.randn(2, 8, requires_grad=True)], torch.randn(3, 4), torch.randn(3, 2))\n",
    ),
    "one loss twice, with respect to weights that were handed in": Program(
        """\
encoder = nn.Sequential(nn.Linear(4, 8), nn.Tanh())

def adapt(weights, x, y):
    loss = F.mse_loss(F.linear(encoder(x), weights[0]), y)
    first = torch.autograd.grad(loss, weights)
    second = torch.autograd.grad(loss, weights)  # TAPE101 raises
    return first, second
""",
        "adapt([torch.randn(2, 8, requires_grad=True)], torch.randn(3, 4), torch.randn(3, 2))\n",
    ),
    "an encoder's graph is walked by the inputs that are named": Program(
        """\
encoder, head = nn.Sequential(nn.Linear(4, 8), nn.Tanh()), nn.Linear(8, 2)
embedding = encoder(torch.randn(3, 4))
for step in range(2):
    loss = head(embedding).pow(2).mean()
    head.zero_grad()
    loss.backward(inputs=head.parameters())
    torch.autograd.backward(head(embedding).sum(), inputs=list(head.parameters()))
head(embedding).pow(2).mean().backward()
"""
    ),
    "an encoder's graph is walked twice by its inputs": Program(
        """\
encoder, head = nn.Sequential(nn.Linear(4, 8), nn.Tanh()), nn.Linear(8, 2)
embedding = encoder(torch.randn(3, 4))
for step in range(2):
    loss = head(embedding).pow(2).mean()
    loss.backward(inputs=list(encoder.parameters()))  # TAPE101 raises
"""
    ),
}

_LOSSES = """\
class Weighting:
    def __init__(self, main):
        self.main = main

    def gradients(self, losses, shared):
        others = torch.stack(tuple(l for i, l in enumerate(losses) if i != self.main))
        grad = torch.autograd.grad(losses[self.main], shared, retain_graph=True)
        for loss in others:
            more = torch.autograd.grad(loss, shared, retain_graph=True)
            grad = tuple(g + m for g, m in zip(grad, more))
        return grad
"""
_CALLED = """\
w = torch.randn(3, requires_grad=True)
assert Weighting(0).gradients([(w * k).pow(2).sum() for k in (1, 2, 3)], [w])[0].abs().sum() > 0
"""

_TEMPERATURE = """\
import sys

net = nn.Linear(4, 2)

class Agent:
    def __init__(self):
        self.log_alpha = torch.zeros(1, requires_grad=True)
        self.opt = torch.optim.Adam([self.log_alpha])

    def load(self):
        {load}

    def train(self, x):
        alpha_loss = -(self.log_alpha * (net(x).log_softmax(1).detach() + 0.5)).mean()
        self.opt.zero_grad()
        alpha_loss.backward()
        self.opt.step()

agent = Agent()
if len(sys.argv) > 100:
    agent.load()
for _ in range(10):
    agent.train(torch.randn(3, 4))
"""
LOSSES = {
    **{
        f"a parameter that may have been saved as one: {load}": Program(_TEMPERATURE.format(load=load))
        for load in (
            "self.log_alpha = torch.load('x.pt')['log_alpha']",
            "state = torch.load('x.pt')\n        self.log_alpha = state['agent']['log_alpha']",
        )
    },
    "the losses of a caller, stacked": Program(_LOSSES, _CALLED),
    "the losses of a caller, weighted and summed": Program(
        """\
def step(losses, weights, opt):
    weights = torch.tensor(weights)
    total = torch.zeros(())
    for loss, weight in zip(losses, weights):
        total = total + weight * loss
    opt.zero_grad()
    total.backward()
    opt.step()
""",
        """\
w = torch.randn(3, requires_grad=True)
step([(w * k).pow(2).sum() for k in (1, 2)], [0.5, 0.5], torch.optim.SGD([w], lr=0.1))
""",
    ),
    "the losses of a caller, in a comprehension": Program(
        """\
def step(losses, scale):
    torch.cat([(loss / scale).reshape(1) for loss in losses]).mean().backward()
""",
        "w = torch.randn(3, requires_grad=True)\nstep([(w * k).pow(2).sum() for k in (1, 2)], 2.0)\n",
    ),
    "the losses of a caller, as numbers": Program(
        _LOSSES.replace("loss in others", "loss in others.detach()").replace(
            "retain_graph=True)\n            grad", "retain_graph=True)  # TAPE103 raises\n            grad"
        ),
        _CALLED,
    ),
    "a frozen model on what a loader gives": Program(
        """\
def train(loader, opt):
    model = nn.Linear(4, 2).requires_grad_(False)
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()  # TAPE103 raises
        opt.step()
""",
        """\
w = torch.randn(3, requires_grad=True)
train([(torch.randn(3, 4), torch.tensor([0, 1, 1]))], torch.optim.SGD([w], lr=0.1))
""",
    ),
}

_PER_NODE = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.GRUCell(4, 8), nn.Linear(8, 1)
        self.start = torch.zeros(1, 8)
        self.memory = {{}}

    def loss(self, events):
        loss = 0
        for src, dst, x in events:
            before = torch.cat([self.memory.get(int(src), self.start), self.memory.get(int(dst), self.start)])
            new = self.cell(torch.cat([x, x]), before)
            loss = loss + self.head(new).pow(2).mean()
            for i, node in enumerate((src, dst)):
                self.memory[int(node)] = new[i : i + 1]
        return loss

    def forget(self):
        {forget}

def train(stream):
    net = Net()
    opt = torch.optim.Adam(net.parameters())
    for events in stream:
        loss = net.loss(events)
        opt.zero_grad()
        loss.backward(){found}
        opt.step()
        net.forget()
"""
_EVENTS = """\
nodes = [0, 1, 2, 1, 0, 2]
train([[(a, b, torch.randn(1, 4)) for a, b in zip(nodes, nodes[k:])] for k in (1, 2, 3)])
"""


def _forgetting(forget: str, found: str = "") -> Program:
    text = _PER_NODE.format(forget=forget.replace("\n", "\n        "), found=found)
    return Program(text, _EVENTS)


PER_NODE = {
    "each entry of a memory is replaced, by its key": _forgetting(
        "for node in list(self.memory):\n    self.memory[node] = self.memory[node].detach()"
    ),
    "each entry of a memory is replaced, as it comes": _forgetting(
        "for node, state in self.memory.items():\n    self.memory[node] = state.clone().detach()"
    ),
    "each entry of a memory is detached in place": _forgetting(
        "for node in self.memory:\n    self.memory[node] = self.memory[node].clone()\n    self.memory[node].detach_()"
    ),
    "each entry of a memory is cut under no_grad": _forgetting(
        "with torch.no_grad():\n    for node in sorted(self.memory):\n"
        "        self.memory[node] = self.memory[node] * 1.0"
    ),
    "each entry of a memory is detached for nothing": _forgetting(
        "for node in list(self.memory):\n    self.memory[node].detach()  # TAPE408", "  # TAPE101 raises"
    ),
    "one entry of a memory is replaced": _forgetting(
        "for node in list(self.memory)[:1]:\n    self.memory[node] = self.memory[node].detach()",
        "  # TAPE101 raises",
    ),
}

_SAVED = """\
import math, sys

model0 = torch.load(sys.argv[1], weights_only=False) if len(sys.argv) > 1 else nn.Conv2d(3, 4, 3)
model = nn.DataParallel(model0)
optimizer = torch.optim.Adam(model0.parameters())
for m in model.modules():
    if isinstance(m, nn.Conv2d):
        n = m.kernel_size[0] * m.kernel_size[1] * m.out_channels
        {written}
for step in range(2):
    loss = model(torch.randn(2, 3, 8, 8)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

WRITTEN = {
    f"values of an unknown model's parameters are set: {written}": Program(_SAVED.format(written=written))
    for written in (
        "m.weight.data.normal_(0, math.sqrt(2.0 / n))",
        "m.weight.data.copy_(m.weight.data * math.sqrt(2.0 / n))",
        "nn.init.normal_(m.weight, 0, math.sqrt(2.0 / n))",
        "m.load_state_dict({'weight': m.weight * n, 'bias': m.bias})",
    )
}
WRITTEN["a part of an unknown model is run in a loop"] = Program(
    _SAVED.format(written="print(m(torch.randn(2, 3, 8, 8)).sum().item())").replace(
        "for m in model.modules():", "for m in model.modules():  # TAPE302"
    )
)
