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
_CELL = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.cell = nn.Linear(4, 4)

    def forward(self, x, times={times}):
        hidden = self.first(x)
        for _ in range(times):
            hidden = checkpoint(self.cell, hidden, use_reentrant={reentrant}).tanh()
        return hidden


model = DistributedDataParallel(Net(){{options}})
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(dist.get_rank())


def batch():
    return torch.randn(6, 4)


"""
_SETUPS = {
    "plain": _PLAIN,
    "heads": _HEADS.format(frozen=""),
    "frozen": _HEADS.format(frozen="heads.c.requires_grad_(False)\n"),
    "trunk": _HEADS.format(frozen="")
    .replace("self.c = nn.Linear(4, 3)", "self.c = nn.Linear(4, 4)")
    .replace("return tuple(", "x = self.c(x).tanh()\n        return tuple("),
    "beside": _HEADS.format(frozen="heads.scale = nn.Parameter(torch.ones(3))\n"),
    "reentrant": _CELL.format(times=1, reentrant=True),
    "reentrant twice": _CELL.format(times=2, reentrant=True),
    "reentrant twice first": _CELL.format(times=2, reentrant=True)
    .replace("hidden = self.first(x)", "hidden = x.requires_grad_()")
    .replace("return hidden", "return self.first(hidden)"),
    "checkpoint twice": _CELL.format(times=2, reentrant=False),
    "buffers": _PLAIN.replace("nn.Tanh()", "nn.BatchNorm1d(8)"),
    "compiled inside": _PLAIN.replace(
        "DistributedDataParallel(net", 'DistributedDataParallel(torch.compile(net, backend="aot_eager")'
    ),
    "compiled around": _PLAIN.replace(
        "optimizer =", 'wrapper, model = model, torch.compile(model, backend="aot_eager")\noptimizer ='
    ),
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
        return HEAD + _SETUPS[self.setup].format(options=given) + self.before.replace("{options}", given) + loop


OPTIONS = (
    "", "find_unused_parameters=True", "static_graph=True", "gradient_as_bucket_view=True", "broadcast_buffers=False",
)  # fmt: skip
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
        "two forwards with BatchNorm, one backward of the sum",
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
    Question("`backward(create_graph=True)`", "model(batch()).mean().backward(create_graph=True)"),
    Question(
        "`backward(create_graph=True)` under `no_sync`, then one without",
        "with model.no_sync():\n    model(batch()).pow(2).mean().backward(create_graph=True)\n"
        "model(batch()).pow(2).mean().backward()",
    ),
    Question(
        "`backward(create_graph=True)` of `model.module`", "model.module(batch()).mean().backward(create_graph=True)"
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
        "a loss for each of two heads on one trunk, walked apart",
        "a, b = model(batch())\na.mean().backward(retain_graph=True)\nb.mean().backward()",
        "trunk",
    ),
    Question(
        "a forward for each head, one backward of the sum",
        '(a,) = model(batch(), "a")\n(b,) = model(batch(), "b")\n(a.mean() + b.mean()).backward()',
        "trunk",
    ),
    Question(
        "a forward for each head, then a backward of each",
        '(a,) = model(batch(), "a")\n(b,) = model(batch(), "b")\na.mean().backward()\nb.mean().backward()',
        "trunk",
    ),
    Question(
        "an output times zero in the loss",
        'a, b, c = model(batch(), "abc")\n(a.mean() + b.mean() + 0 * c.mean()).backward()',
        "heads",
    ),
    Question(
        "a parameter that the loss uses, but not the forward",
        'a, b, c = model(batch(), "abc")\n(a.mean() + b.mean() + c.mean() + model.module.scale.sum()).backward()',
        "beside",
    ),
    Question("a reentrant checkpoint", "model(batch()).mean().backward()", "reentrant"),
    Question("a layer in two reentrant checkpoints", "model(batch()).mean().backward()", "reentrant twice"),
    Question(
        "the same, where all other layers come after it", "model(batch()).mean().backward()", "reentrant twice first"
    ),
    Question(
        "a reentrant checkpoint, two forwards, one backward",
        "a = model(batch())\nb = model(batch())\n(a.mean() + b.mean()).backward()",
        "reentrant",
    ),
    Question(
        "a layer in two checkpoints, `use_reentrant=False`", "model(batch()).mean().backward()", "checkpoint twice"
    ),
    Question(
        "`functional_call` of the wrapper",
        "parameters = dict(model.named_parameters())\n"
        "torch.func.functional_call(model, parameters, (batch(),)).mean().backward()",
    ),
    Question(
        "`functional_call` of `model.module`",
        "parameters = dict(model.module.named_parameters())\n"
        "torch.func.functional_call(model.module, parameters, (batch(),)).mean().backward()",
    ),
    Question(
        "`torch.func.grad` of the wrapper, its gradients set by hand",
        "x = batch()\n\n\ndef loss(parameters):\n"
        "    return torch.func.functional_call(model, parameters, (x,)).mean()\n\n\n"
        "gradients = torch.func.grad(loss)(dict(model.named_parameters()))\n"
        "for name, parameter in model.named_parameters():\n    parameter.grad = gradients[name]",
    ),
    Question("`vmap` of the wrapper", "torch.vmap(model)(batch()).mean().backward()"),
    Question("a compiled model in the wrapper", "model(batch()).mean().backward()", "compiled inside"),
    Question(
        "a compiled model in it, two backwards after one forward",
        "y = model(batch())\ny.mean().backward(retain_graph=True)\ny.pow(2).mean().backward(retain_graph=True)",
        "compiled inside",
    ),
    Question("the model before it was compiled and wrapped", "net(batch()).mean().backward()", "compiled inside"),
    Question("the wrapper compiled", "model(batch()).mean().backward()", "compiled around"),
    Question(
        "the wrapper compiled, two backwards after one forward",
        "y = model(batch())\ny.mean().backward(retain_graph=True)\ny.pow(2).mean().backward(retain_graph=True)",
        "compiled around",
    ),
    Question(
        "the model inside, `model._orig_mod.module(x)`",
        "model._orig_mod.module(batch()).mean().backward()",
        "compiled around",
    ),
    Question(
        "`save_on_cpu` around the forward",
        "with torch.autograd.graph.save_on_cpu():\n    y = model(batch())\ny.mean().backward()",
    ),
    Question(
        "gradients clipped before the step",
        "model(batch()).mean().backward()\nnn.utils.clip_grad_norm_(model.parameters(), 0.5)",
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
        "a frozen layer that is unfrozen after wrapping",
        "a, b, c = model(batch(), 'abc')\n(a + b + c).pow(2).mean().backward()",
        "frozen",
        "heads.c.requires_grad_(True)\n",
    ),
    Question(
        "the same, where `model.module` is wrapped once more",
        "a, b, c = model(batch(), 'abc')\n(a + b + c).pow(2).mean().backward()",
        "frozen",
        "heads.c.requires_grad_(True)\nmodel = DistributedDataParallel(model.module{options})\n",
    ),
    Question(
        "a layer that is added after wrapping",
        "a, b, c, d = model(batch(), 'abcd')\n(a + b + c + d).pow(2).mean().backward()",
        "heads",
        "heads.d = nn.Linear(4, 3)\noptimizer.add_param_group({'params': heads.d.parameters()})\n",
    ),
    Question(
        "a parameter that is replaced after wrapping",
        "a, b, c = model(batch(), 'abc')\n(a + b + c).pow(2).mean().backward()",
        "heads",
        "heads.c.weight = nn.Parameter(heads.c.weight.detach().clone())\n"
        "optimizer.add_param_group({'params': [heads.c.weight]})\n",
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
    "the same, after a step whose backwards retained nothing": """\
layer = nn.Linear(4, 4)
call = torch.compile(lambda x: (torch.tanh(layer(x)), torch.sigmoid(layer(x)) * 2), backend="{backend}")
a, b = call(torch.randn(3, 4))
(a.sum() + b.sum()).backward()
a, b = call(torch.randn(3, 4))
a.sum().backward(retain_graph=True)
b.sum().backward()
""",
    "the same, after a step that retained as well": """\
layer = nn.Linear(4, 4)
call = torch.compile(lambda x: (torch.tanh(layer(x)), torch.sigmoid(layer(x)) * 2), backend="{backend}")
for step in range(2):
    a, b = call(torch.randn(3, 4))
    a.sum().backward(retain_graph=True)
    b.sum().backward()
""",
    "two outputs of a compiled VAE, the first with `retain_graph=True`": """\
class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(6, 8), nn.ReLU())
        self.mean = nn.Linear(8, 3)
        self.log_variance = nn.Linear(8, 3)
        self.decoder = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 6))

    def forward(self, x, noise):
        hidden = self.encoder(x)
        mean, log_variance = self.mean(hidden), self.log_variance(hidden)
        return self.decoder(mean + noise * (0.5 * log_variance).exp()), mean, log_variance


model = torch.compile(VAE(), backend="{backend}")
for step in range(2):
    x = torch.randn(3, 6)
    output, mean, log_variance = model(x, torch.randn(3, 3))
    (output - x).pow(2).mean().backward(retain_graph=True)
    (mean.pow(2) + log_variance.exp() - log_variance).mean().backward()
""",
    "a backward of each of two outputs, after `model.compile()`": """\
class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return torch.tanh(self.left(x)), self.right(x)


model = nn.Sequential(Heads())
model.compile(backend="{backend}")
a, b = model(torch.randn(3, 4))
a.sum().backward()
b.sum().backward()
""",
    "a gradient penalty after `compile()` of layers of torch.nn alone": """\
model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
model.compile(backend="{backend}")
x = torch.randn(3, 4, requires_grad=True)
(gradient,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
gradient.pow(2).sum().backward()
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
    "the same, after a step without it": """\
model = torch.compile(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)), backend="{backend}")
model(torch.randn(3, 4)).sum().backward()
loss = model(torch.randn(3, 4)).sum()
loss.backward(retain_graph=True)
loss.backward()
""",
    "an optimizer's step between the forward and the backward": """\
model = torch.compile(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)), backend="{backend}")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
first, second = model(torch.randn(3, 4)).sum(), model(torch.randn(3, 4)).sum()
first.backward()
optimizer.step()
second.backward()
""",
    "the input changed in place before the backward": """\
layer = nn.Linear(4, 4)
call = torch.compile(lambda x: torch.tanh(layer(x)), backend="{backend}")
x = torch.randn(3, 4)
y = call(x)
x.mul_(2)
y.sum().backward()
""",
    "a bias changed in place before the backward": """\
layer = nn.Linear(4, 4)
call = torch.compile(lambda x: torch.tanh(layer(x)), backend="{backend}")
y = call(torch.randn(3, 4))
with torch.no_grad():
    layer.bias.mul_(2)
y.sum().backward()
""",
    "an output changed in place before the backward": """\
layer = nn.Linear(4, 4)
call = torch.compile(lambda x: torch.tanh(layer(x)), backend="{backend}")
y = call(torch.randn(3, 4))
y.mul_(2)
y.sum().backward()
""",
    "`save_on_cpu` around a compiled call": """\
model = torch.compile(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)), backend="{backend}")
with torch.autograd.graph.save_on_cpu():
    y = model(torch.randn(3, 4))
y.sum().backward()
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
    "a gradient by the input, then a backward": """\
model = torch.compile(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)), backend="{backend}")
x = torch.randn(3, 4, requires_grad=True)
loss = model(x).sum()
torch.autograd.grad(loss, x, retain_graph=True)
loss.backward()
""",
    "`functional_call` of a compiled model": """\
model = torch.compile(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)), backend="{backend}")
torch.func.functional_call(model, dict(model.named_parameters()), (torch.randn(3, 4),)).sum().backward()
""",
    "`vmap` of a compiled model": """\
model = torch.compile(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)), backend="{backend}")
torch.vmap(model)(torch.randn(3, 4)).sum().backward()
""",
    "`torch.func.grad` of a compiled function": """\
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
call = torch.compile(lambda x: model(x).sum(), backend="{backend}")
gradient = torch.func.grad(call)(torch.randn(3, 4))
(model(gradient).sum() + call(gradient)).backward()
""",
    "a penalty over `torch.func.grad` of a compiled function": """\
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
call = torch.compile(lambda x: model(x).sum(), backend="{backend}")
torch.func.grad(call)(torch.randn(3, 4)).pow(2).sum().backward()
""",
    "a penalty over `torch.func.grad` that is compiled": """\
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
slope = torch.compile(torch.func.grad(lambda x: model(x).sum()), backend="{backend}")
slope(torch.randn(3, 4)).pow(2).sum().backward()
""",
    "a penalty over `autograd.grad` in the compiled function": """\
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


def penalty(x):
    (gradient,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
    return gradient.pow(2).sum()


torch.compile(penalty, backend="{backend}")(torch.randn(3, 4, requires_grad=True)).backward()
""",
    "`vmap` of `torch.func.grad` that is compiled": """\
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


def loss(parameters, x):
    return torch.func.functional_call(model, parameters, (x,)).sum()


each = torch.compile(torch.vmap(torch.func.grad(loss), in_dims=(None, 0)), backend="{backend}")
gradients = each(dict(model.named_parameters()), torch.randn(3, 4))
for name, parameter in model.named_parameters():
    parameter.grad = gradients[name].mean(0).detach()
""",
    "a Jacobian of a compiled model": """\
model = torch.compile(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)), backend="{backend}")
matrix = torch.autograd.functional.jacobian(model, torch.randn(4), create_graph=True)
(matrix.detach().sum() * model(torch.randn(4)).sum()).backward()
""",
    "a penalty on a Jacobian of a compiled model": """\
model = torch.compile(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)), backend="{backend}")
torch.autograd.functional.jacobian(model, torch.randn(4), create_graph=True).pow(2).sum().backward()
""",
    "a backward inside the compiled function": """\
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


def step(x):
    model(x).sum().backward()


torch.compile(step, backend="{backend}")(torch.randn(3, 4))
""",
    "an output of an earlier call walked after the next call": """\
model = torch.compile(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)), backend="{backend}")
first = model(torch.randn(3, 4)).sum()
second = model(torch.randn(3, 4)).sum()
second.backward()
first.backward()
""",
    "a detached state handed from call to call": """\
model = torch.compile(nn.GRUCell(4, 4), backend="{backend}")
state = torch.zeros(3, 4)
for step in range(3):
    state = model(torch.randn(3, 4), state.detach())
    state.sum().backward()
""",
    "a state handed from call to call with its graph": """\
model = torch.compile(nn.GRUCell(4, 4), backend="{backend}")
state = torch.zeros(3, 4)
for step in range(3):
    state = model(torch.randn(3, 4), state)
    state.sum().backward()
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
