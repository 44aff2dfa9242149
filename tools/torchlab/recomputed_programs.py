"""Programs that ask what checkpoints and saved-tensor hooks change. Needs no torch: `wrappers` runs them.

Each is compared with itself without them. `{checkpoint}` stands for the options of `checkpoint`.
"""

from __future__ import annotations

_HEAD = """\
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
"""
_CELL = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.cell = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))

    def forward(self, x):
        return checkpoint(self.cell, self.first(x), {checkpoint})


"""
_BODY = _CELL + "model = Net()\nx = torch.randn(3, 4)\n"
REENTRANT = ("use_reentrant=True", "use_reentrant=False")
CHECKPOINT = {
    "one backward": _BODY + "model(x).mean().backward()\n",
    "two calls of one model, one backward": _BODY + "(model(x) + model(x * 2)).mean().backward()\n",
    "two backwards with `retain_graph=True`": _BODY
    + "y = model(x)\ny.mean().backward(retain_graph=True)\ny.pow(2).mean().backward()\n",
    "a second backward without it": _BODY + "y = model(x)\ny.mean().backward()\ny.pow(2).mean().backward()\n",
    "an input that needs no gradient": _BODY.replace("self.first(x)", "x") + "model(x).mean().backward()\n",
    "`autograd.grad` by the parameters": _BODY
    + "gradients = torch.autograd.grad(model(x).mean(), list(model.parameters()))\n"
    "for parameter, gradient in zip(model.parameters(), gradients):\n    parameter.grad = gradient\n",
    "`autograd.grad` by the input": _BODY
    + "x.requires_grad_()\n(gradient,) = torch.autograd.grad(model(x).mean(), x)\n"
    "model(x + gradient).mean().backward()\n",
    "`backward(inputs=...)`": _BODY + "model(x).mean().backward(inputs=list(model.parameters()))\n",
    "a gradient penalty": _BODY
    + "x.requires_grad_()\n(gradient,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)\n"
    "gradient.pow(2).mean().backward()\n",
    "`backward(create_graph=True)`, then a backward of the gradients": _BODY
    + "model(x).pow(2).mean().backward(create_graph=True)\n"
    "sum(p.grad.pow(2).sum() for p in model.parameters()).backward()\n",
    "checkpoints in a checkpoint": _BODY.replace(
        "checkpoint(self.cell, self.first(x), {checkpoint})",
        "checkpoint(self.outer, self.first(x), {checkpoint})\n\n"
        "    def outer(self, x):\n        return checkpoint(self.cell, x, {checkpoint}).sin()",
    )
    + "model(x).mean().backward()\n",
    "the same, two backwards with `retain_graph=True`": _BODY.replace(
        "checkpoint(self.cell, self.first(x), {checkpoint})",
        "checkpoint(self.outer, self.first(x), {checkpoint})\n\n"
        "    def outer(self, x):\n        return checkpoint(self.cell, x, {checkpoint}).sin()",
    )
    + "y = model(x)\ny.mean().backward(retain_graph=True)\ny.pow(2).mean().backward()\n",
    "a step of the optimizer between the forward and the backward": _BODY
    + "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\nfirst, second = model(x).mean(), model(x * 2).mean()\n"
    "first.backward()\noptimizer.step()\nsecond.backward()\n",
    "its input changed in place before the backward": _CELL.replace("self.first(x)", "self.first(x).sin()")
    .replace("return checkpoint(", "self.kept = self.first(x).exp() * 1.5\n        return checkpoint(")
    .replace("self.first(x).sin()", "self.kept")
    + "model = Net()\ny = model(torch.randn(3, 4))\nwith torch.no_grad():\n    model.kept.mul_(2)\n"
    "y.mean().backward()\n",
    "its output changed in place before the backward": _BODY + "y = model(x)\ny.mul_(2)\ny.mean().backward()\n",
    "the region changes its input in place": _BODY.replace(
        "checkpoint(self.cell, self.first(x), {checkpoint})",
        "checkpoint(self.doubled, self.first(x).sin(), {checkpoint})\n\n"
        "    def doubled(self, x):\n        return self.cell(x.mul_(2))",
    )
    + "model(x).mean().backward()\n",
    "dropout in the region": _BODY.replace("nn.Tanh()", "nn.Dropout(0.5)") + "model(x).mean().backward()\n",
    "dropout, `preserve_rng_state=False`": _BODY.replace("nn.Tanh()", "nn.Dropout(0.5)").replace(
        "{checkpoint}", "{checkpoint}, preserve_rng_state=False"
    )
    + "model(x).mean().backward()\n",
    "BatchNorm in the region": _BODY.replace("nn.Tanh()", "nn.BatchNorm1d(4)") + "model(x).mean().backward()\n",
    "a list that the region appends to": _BODY.replace(
        "checkpoint(self.cell, self.first(x), {checkpoint})",
        "checkpoint(self.noted, self.first(x), {checkpoint})\n\n"
        "    def noted(self, x):\n        y = self.cell(x)\n        self.notes.append(y.mean())\n        return y",
    ).replace("model = Net()", "model = Net()\nmodel.notes = []")
    + "y = model(x)\n(y.mean() + sum(model.notes)).backward()\n",
    "a tensor that the region leaves on `self` in the loss": _BODY.replace(
        "checkpoint(self.cell, self.first(x), {checkpoint})",
        "checkpoint(self.noted, self.first(x), {checkpoint})\n\n"
        "    def noted(self, x):\n        y = self.cell(x)\n        self.extra = y.pow(2).mean()\n        return y",
    )
    + "y = model(x)\n(y.mean() + model.extra).backward()\n",
    "`model.eval()` between the forward and the backward": _BODY.replace("nn.Tanh()", "nn.Dropout(0.5)")
    + "y = model(x)\nmodel.eval()\ny.mean().backward()\n",
    "a loop that leaves the region early": _BODY.replace(
        "checkpoint(self.cell, self.first(x), {checkpoint})",
        "checkpoint(self.some, self.first(x), {checkpoint})\n\n    calls = 0\n\n"
        "    def some(self, x):\n        self.calls += 1\n        for _ in range(self.calls):\n"
        "            x = self.cell(x).tanh()\n        return x",
    )
    + "model(x).mean().backward()\n",
    "the same, with early stop switched off": _BODY.replace(
        "checkpoint(self.cell, self.first(x), {checkpoint})",
        "checkpoint(self.some, self.first(x), {checkpoint})\n\n    calls = 0\n\n"
        "    def some(self, x):\n        self.calls += 1\n        for _ in range(self.calls):\n"
        "            x = self.cell(x).tanh()\n        return x",
    )
    + "with torch.utils.checkpoint.set_checkpoint_early_stop(False):\n    y = model(x)\ny.mean().backward()\n",
    "under `no_grad`, then a backward": _BODY
    + "with torch.no_grad():\n    y = model(x)\nmodel(x + y).mean().backward()\n",
    "a parameter as the argument of the region": _BODY.replace(
        "checkpoint(self.cell, self.first(x), {checkpoint})",
        "checkpoint(torch.nn.functional.linear, x, self.first.weight, self.first.bias, {checkpoint})",
    )
    + "model(x).mean().backward()\n",
    "a keyword argument that needs a gradient": _BODY.replace(
        "checkpoint(self.cell, self.first(x), {checkpoint})",
        "checkpoint(self.named, x, h=self.first(x), {checkpoint})\n\n"
        "    def named(self, x, h):\n        return self.cell(x + h)",
    )
    + "model(x).mean().backward()\n",
    "an output of the region that is detached in it": _BODY.replace(
        "checkpoint(self.cell, self.first(x), {checkpoint})",
        "checkpoint(self.both, self.first(x), {checkpoint})[0]\n\n"
        "    def both(self, x):\n        y = self.cell(x)\n        return y, y.detach()",
    )
    + "model(x).mean().backward()\n",
    "`functional_call` of a model with a checkpoint": _BODY
    + "torch.func.functional_call(model, dict(model.named_parameters()), (x,)).mean().backward()\n",
    "`torch.func.grad` of a model with a checkpoint": _BODY
    + "def loss(parameters):\n    return torch.func.functional_call(model, parameters, (x,)).mean()\n\n\n"
    "gradients = torch.func.grad(loss)(dict(model.named_parameters()))\n"
    "for name, parameter in model.named_parameters():\n    parameter.grad = gradients[name]\n",
    "`vmap` of a model with a checkpoint": _BODY + "torch.vmap(model)(x).mean().backward()\n",
    "a compiled model with a checkpoint": _BODY.replace(
        "model = Net()", "net = Net()\nmodel = torch.compile(net, backend='aot_eager')"
    )
    + "model(x).mean().backward()\n",
}
"""Programs with a checkpointed region, by what they do."""

_OFFLOADED = """\
class Doubles(torch.autograd.graph.saved_tensors_hooks):
    def __init__(self):
        super().__init__(lambda tensor: tensor.double(), lambda packed: packed.float())


model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
x = torch.randn(3, 4)
"""
HOOKS = ("torch.autograd.graph.save_on_cpu()", "Doubles()", "torch.autograd.graph.saved_tensors_hooks(hand, hand)")
OFFLOAD = {
    "one backward": "with {hooks}:\n    y = model(x)\ny.mean().backward()\n",
    "two backwards with `retain_graph=True`": "with {hooks}:\n    y = model(x)\n"
    "y.mean().backward(retain_graph=True)\ny.pow(2).mean().backward()\n",
    "a second backward without it": "with {hooks}:\n    y = model(x)\n"
    "y.mean().backward()\ny.pow(2).mean().backward()\n",
    "a gradient penalty": "x.requires_grad_()\nwith {hooks}:\n    y = model(x)\n"
    "(gradient,) = torch.autograd.grad(y.sum(), x, create_graph=True)\ngradient.pow(2).mean().backward()\n",
    "a step of the optimizer between the forward and the backward": "optimizer = torch.optim.SGD(\n"
    "    model.parameters(), lr=0.1\n)\n"
    "with {hooks}:\n    first, second = model(x).mean(), model(x * 2).mean()\n"
    "first.backward()\noptimizer.step()\nsecond.backward()\n",
    "the input changed in place before the backward": "with {hooks}:\n    y = model(x)\n"
    "x.mul_(2)\ny.mean().backward()\n",
    "what `exp` saved changed in place": "with {hooks}:\n    y = model(x).exp()\n    z = y * 2\n"
    "y.mul_(2)\nz.mean().backward()\n",
    "the same, with a graph of the gradient": "with {hooks}:\n    y = model(x).exp()\n    z = y * 2\ny.mul_(2)\n"
    "z.mean().backward(create_graph=True)\n",
    "a weight changed in place under `no_grad`": "with {hooks}:\n    y = model(x)\nwith torch.no_grad():\n"
    "    model[2].weight.mul_(2)\ny.mean().backward()\n",
}
"""Programs whose forward runs under saved-tensor hooks, by what they do."""
PACKED = "def hand(tensor):\n    return tensor\n\n\n"


def checkpoint_program(text: str, options: str) -> str:
    """Return a whole program of `CHECKPOINT` with options of `checkpoint`."""
    return _HEAD + text.replace("{checkpoint}", options)


def offload_program(text: str, hooks: str) -> str:
    """Return a whole program of `OFFLOAD` with the context that its forward runs under."""
    return _HEAD + PACKED + _OFFLOADED + text.replace("{hooks}", hooks)
