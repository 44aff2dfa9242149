"""Small programs that ask what a wrapper changes. Needs no torch: `wrappers` runs them.

Each is run in two processes with batches of their own. `{options}` stands for options of DistributedDataParallel,
`{backend}` for the backend of torch.compile.
"""

from __future__ import annotations

from dataclasses import dataclass

HEAD = """\
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

dist.init_process_group("gloo")
"""
_PLAIN = """\
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
model = DistributedDataParallel(net{options})
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(dist.get_rank())


def batch():
    return torch.randn(6, 4)


"""
_HEADS = """\
class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 3)
        self.b = nn.Linear(4, 3)
        self.c = nn.Linear(4, 3)

    def forward(self, x, names="ab"):
        return tuple(getattr(self, name)(x) for name in names)


heads = Heads()
{frozen}model = DistributedDataParallel(heads{{options}})
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(dist.get_rank())


def batch():
    return torch.randn(6, 4)


"""
_SETUPS = {
    "plain": _PLAIN,
    "heads": _HEADS.format(frozen=""),
    "frozen": _HEADS.format(frozen="heads.c.requires_grad_(False)\n"),
    "buffers": _PLAIN.replace("nn.Tanh()", "nn.BatchNorm1d(8)"),
}


@dataclass(frozen=True, slots=True)
class Question:
    """A training step, of which a wrapper may change the outcome; `setup` names the model."""

    title: str
    step: str
    setup: str = "plain"
    before: str = ""
    steps: int = 3

    def program(self, options: str = "") -> str:
        """Return the whole program with options of DistributedDataParallel, such as `static_graph=True`."""
        given = f", {options}" if options else ""
        body = "\n".join(f"    {line}" if line else "" for line in self.step.splitlines())
        loop = f"for step in range({self.steps}):\n    optimizer.zero_grad()\n{body}\n    optimizer.step()\n"
        return HEAD + _SETUPS[self.setup].format(options=given) + self.before + loop


OPTIONS = ("", "find_unused_parameters=True", "static_graph=True")
DDP = (
    Question("one forward, one backward", "model(batch()).mean().backward()"),
    Question(
        "two backwards after one forward",
        "y = model(batch())\ny.mean().backward(retain_graph=True)\ny.pow(2).mean().backward()",
    ),
    Question(
        "two forwards, one backward of the sum",
        "a = model(batch())\nb = model(batch())\n(a.mean() + b.mean()).backward()",
    ),
    Question(
        "the same, with BatchNorm",
        "a = model(batch())\nb = model(batch())\n(a.mean() + b.mean()).backward()",
        "buffers",
    ),
    Question(
        "two forwards, then a backward of each",
        "a = model(batch())\nb = model(batch())\na.mean().backward()\nb.mean().backward()",
    ),
    Question("forward and backward, twice", "model(batch()).mean().backward()\nmodel(batch()).mean().backward()"),
    Question("the model inside is called: `model.module(x)`", "model.module(batch()).mean().backward()"),
    Question("the model inside is called by its old name", "net(batch()).mean().backward()"),
    Question(
        "the layers inside are called one by one",
        "hidden = model.module[1](model.module[0](batch()))\nmodel.module[2](hidden).mean().backward()",
    ),
    Question("`model.forward(x)`", "model.forward(batch()).mean().backward()"),
    Question(
        "wrapped step, then one of `model.module`",
        "model(batch()).mean().backward()\nmodel.module(batch()).mean().backward()",
    ),
    Question(
        "step of `model.module`, then a wrapped one",
        "model.module(batch()).mean().backward()\nmodel(batch()).mean().backward()",
    ),
    Question("both in one loss", "loss = model.module(batch()).mean() + model(batch()).mean()\nloss.backward()"),
    Question(
        "a penalty on a weight beside the output",
        "y = model(batch())\n(y.mean() + model.module[2].weight.pow(2).sum()).backward()",
    ),
    Question("everything under `no_sync`", "with model.no_sync():\n    model(batch()).mean().backward()"),
    Question(
        "`no_sync` for all but the last",
        "with model.no_sync():\n    model(batch()).mean().backward()\nmodel(batch()).mean().backward()",
    ),
    Question(
        "`no_sync` for the last alone",
        "model(batch()).mean().backward()\nwith model.no_sync():\n    model(batch()).mean().backward()",
    ),
    Question(
        "`no_sync` around the backward alone",
        "loss = model(batch()).mean()\nwith model.no_sync():\n    loss.backward()",
    ),
    Question(
        "`no_sync` around the forward alone",
        "with model.no_sync():\n    loss = model(batch()).mean()\nloss.backward()",
    ),
    Question(
        "`all_reduce` by hand",
        "model.module(batch()).mean().backward()\nfor parameter in model.parameters():\n"
        "    dist.all_reduce(parameter.grad)",
    ),
    Question(
        "`autograd.grad` in place of a backward",
        "gradients = torch.autograd.grad(model(batch()).mean(), list(model.parameters()))\n"
        "for parameter, gradient in zip(model.parameters(), gradients):\n    parameter.grad = gradient",
    ),
    Question(
        "a gradient penalty beside the loss",
        "x = batch().requires_grad_()\ny = model(x)\n"
        "(gradient,) = torch.autograd.grad(y.sum(), x, create_graph=True)\n"
        "(y.mean() + gradient.pow(2).sum()).backward()",
    ),
    Question("a parameter that no forward uses", "a, b = model(batch())\n(a.mean() + b.mean()).backward()", "heads"),
    Question(
        "an output that the loss does not use",
        'a, b, c = model(batch(), "abc")\n(a.mean() + b.mean()).backward()',
        "heads",
    ),
    Question(
        "a loss for each output, walked apart",
        'a, b, c = model(batch(), "abc")\n(a.mean() + b.mean()).backward()\nc.mean().backward()',
        "heads",
    ),
    Question(
        "a forward and backward for each part",
        'a, b = model(batch())\n(a.mean() + b.mean()).backward()\n(c,) = model(batch(), "c")\nc.mean().backward()',
        "heads",
    ),
    Question(
        "an unused layer that was frozen before wrapping",
        "a, b = model(batch())\n(a.mean() + b.mean()).backward()",
        "frozen",
    ),
    Question(
        "an unused layer that was frozen after wrapping",
        "a, b = model(batch())\n(a.mean() + b.mean()).backward()",
        "heads",
        "heads.c.requires_grad_(False)\n",
    ),
    Question(
        "an evaluation under `no_grad` between forward and backward",
        "loss = model(batch()).mean()\nwith torch.no_grad():\n    model(batch())\nloss.backward()",
    ),
)
"""Training steps under DistributedDataParallel."""

_COMPILED = """\
import torch
from torch import nn

torch.manual_seed(0)
"""
COMPILE = {
    "one backward of both outputs": """\
layer = nn.Linear(4, 4)
call = torch.compile(lambda x: (torch.tanh(layer(x)), torch.sigmoid(layer(x)) * 2), backend="{backend}")
a, b = call(torch.randn(3, 4))
(a.sum() + b.sum()).backward()
""",
    "a backward of each of two outputs": """\
layer = nn.Linear(4, 4)
call = torch.compile(lambda x: (torch.tanh(layer(x)), torch.sigmoid(layer(x)) * 2), backend="{backend}")
a, b = call(torch.randn(3, 4))
a.sum().backward()
b.sum().backward()
""",
    "the same, the first with `retain_graph=True`": """\
layer = nn.Linear(4, 4)
call = torch.compile(lambda x: (torch.tanh(layer(x)), torch.sigmoid(layer(x)) * 2), backend="{backend}")
a, b = call(torch.randn(3, 4))
a.sum().backward(retain_graph=True)
b.sum().backward()
""",
    "a call for each backward": """\
layer = nn.Linear(4, 4)
call = torch.compile(lambda x: (torch.tanh(layer(x)), torch.sigmoid(layer(x)) * 2), backend="{backend}")
a, _ = call(torch.randn(3, 4))
_, b = call(torch.randn(3, 4))
a.sum().backward()
b.sum().backward()
""",
    "two backwards of one output, with `retain_graph=True`": """\
model = torch.compile(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)), backend="{backend}")
loss = model(torch.randn(3, 4)).sum()
loss.backward(retain_graph=True)
loss.backward()
""",
    "a gradient penalty": """\
model = torch.compile(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)), backend="{backend}")
x = torch.randn(3, 4, requires_grad=True)
(gradient,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
gradient.pow(2).sum().backward()
""",
    "a gradient with a graph that nothing walks": """\
model = torch.compile(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)), backend="{backend}")
x = torch.randn(3, 4, requires_grad=True)
loss = model(x).sum()
(gradient,) = torch.autograd.grad(loss, x, create_graph=True)
loss.backward()
""",
    "a gradient penalty through `_orig_mod`": """\
model = torch.compile(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)), backend="{backend}")
x = torch.randn(3, 4, requires_grad=True)
(gradient,) = torch.autograd.grad(model._orig_mod(x).sum(), x, create_graph=True)
(model(torch.randn(3, 4)).sum() + gradient.pow(2).sum()).backward()
""",
    "a backward of each of two outputs, with a graph break between": """\
layer = nn.Linear(4, 4)


def both(x):
    first = torch.tanh(layer(x))
    print("between")
    return first, torch.sigmoid(layer(x)) * 2


call = torch.compile(both, backend="{backend}")
a, b = call(torch.randn(3, 4))
a.sum().backward()
b.sum().backward()
""",
}
"""Programs with a compiled function, by what they do."""
BACKENDS = ("eager", "aot_eager", "inductor")


def compiled_program(text: str, backend: str) -> str:
    """Return a whole program of `COMPILE` with a backend."""
    return _COMPILED + text.replace("{backend}", backend)
