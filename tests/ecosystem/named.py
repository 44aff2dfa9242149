"""What things are called says nothing of what they do: the same programs with telling names, as in `programs`."""

from __future__ import annotations

from tests.ecosystem.programs import Program

_FED = """\
def train(rec, loader):
    model = nn.Linear(3, 1)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in loader:
        loss = model(x).pow(2).mean()
        opt.zero_grad()
        loss.backward(retain_graph=True)
        rec.{name}(loss)
        opt.step()
"""
_FEEDS = """\
class Recorder:
    def {name}(self, loss):
        loss.backward()

train(Recorder(), [torch.randn(2, 3)] * 3)
"""
_SHOWN = """\
{made}

def train(loader):
    {bar}
    model = nn.Linear(3, 1)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in {over}:
        loss = model(x).pow(2).mean()
        opt.zero_grad()
        loss.backward(retain_graph=True)  # TAPE301
        {shown}
        opt.step()
"""

NAMED = {
    f"what was handed in is given the loss by `{name}`": Program(_FED.format(name=name), _FEEDS.format(name=name))
    for name in ("write", "log", "info", "add_scalar", "print", "debug", "log_metrics", "feed")
}
NAMED |= {
    "an argument that is called like a library": Program(
        _FED.format(name="log").replace("rec", "wandb"), _FEEDS.format(name="log")
    ),
    "a library that takes numbers down, by its path": Program(
        _SHOWN.format(
            made="import logging", bar="log = logging.getLogger(__name__)", over="loader", shown="log.info('%s', loss)"
        )
    ),
    "a bar around a loader, by its path": Program(
        _SHOWN.format(
            made="from tqdm import tqdm", bar="bar = tqdm(loader)", over="bar", shown="bar.set_postfix(loss=loss)"
        )
    ),
    "a base class of another module may register what a list holds": Program(
        """\
from helpers import BaseModule

class Net(BaseModule):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(3, 3)]
        self.out = nn.Linear(3, 1)

    def forward(self, x):
        return self.out(self.layers[0](x))

net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for i in range(5):
    loss = net(torch.randn(2, 3)).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        "assert len(list(net.parameters())) == 4\n",
    ),
}

POSSIBLE = {
    "an engine that was handed in may keep the graph": Program(
        """\
def train(engine, loader):
    model = nn.Linear(3, 1)
    for x in loader:
        loss = model(x).pow(2).mean()
        engine.backward(loss)
        grads = torch.autograd.grad(loss, list(model.parameters()))  # TAPE101
""",
        """\
class Engine:
    def backward(self, loss):
        loss.backward(retain_graph=True)

train(Engine(), [torch.randn(2, 3)] * 3)
""",
    ),
}
"""What is said with a doubt alone."""
