"""Programs that ask what FSDP2 and tensor parallelism change. Needs no torch: `wrappers` runs them.

Each is run in two processes and compared with itself without sharding, its gradients averaged before each step.
"""

from __future__ import annotations

from dataclasses import dataclass

_HEAD = """\
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.utils.checkpoint import checkpoint

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
"""
_BATCH = """\
torch.manual_seed(dist.get_rank())


def batch():
    return torch.randn(6, 4)


"""
_PLAIN = """\
from torch.distributed.fsdp import fully_shard

net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
for layer in net[0], net[2]:
    fully_shard(layer, mesh=mesh{options})
model = fully_shard(net, mesh=mesh{options})
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
_HEADS = """\
from torch.distributed.fsdp import fully_shard


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)
        self.c = nn.Linear(4, 4)

    def forward(self, x, names="ab"):
        return tuple(getattr(self, name)(x) for name in names)

    def loss(self, x):
        return sum(each.mean() for each in self(x))

    def encode(self, x):
        return self.a(x)


net = Heads()
for layer in net.children():
    fully_shard(layer, mesh=mesh{options})
model = fully_shard(net, mesh=mesh{options})
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
_EACH = "for layer in net.children():\n    fully_shard(layer, mesh=mesh{options})\n"
_SPLIT = """\
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
model = parallelize_module(net, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
torch.manual_seed(1)


def batch():
    return torch.randn(6, 4)


"""
_SETUPS = {
    "plain": _PLAIN + _BATCH,
    "whole": _PLAIN.replace("for layer in net[0], net[2]:\n    fully_shard(layer, mesh=mesh{options})\n", "") + _BATCH,
    "heads": _HEADS + _BATCH,
    "heads in one": _HEADS.replace(_EACH, "") + _BATCH,
    "registered": _HEADS.replace(_EACH, "").replace(
        "optimizer = ", 'torch.distributed.fsdp.register_fsdp_forward_method(model, "encode")\noptimizer = '
    )
    + _BATCH,
    "frozen": _HEADS.replace("for layer in net.children", "net.c.requires_grad_(False)\nfor layer in net.children")
    + _BATCH,
    "optimizer first": _PLAIN.replace(
        "for layer", "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\nfor layer"
    ).rpartition("optimizer = ")[0]
    + _BATCH,
    "checkpointed": _PLAIN.replace(
        "net = ",
        "class Again(nn.Linear):\n    def forward(self, x):\n"
        "        return checkpoint(super().forward, x, use_reentrant={reentrant})\n\n\nnet = ",
    ).replace("nn.Linear(8, 2)", "Again(8, 2)")
    + _BATCH,
    "split": _SPLIT,
}


@dataclass(frozen=True, slots=True)
class Sharded:
    """A training step, of which sharding may change the outcome; `setup` names the model."""

    title: str
    step: str
    setup: str = "plain"
    before: str = ""

    def program(self, options: str = "") -> str:
        """Return the whole program with options of `fully_shard`, such as `reshard_after_forward=False`."""
        setup, _, reentrant = self.setup.partition(" reentrant=")
        text = _SETUPS[setup].replace("{options}", f", {options}" if options else "")
        body = "\n".join(f"    {line}" if line else "" for line in self.step.splitlines())
        loop = f"for step in range(3):\n    optimizer.zero_grad()\n{body}\n    optimizer.step()\n"
        return _HEAD + text.replace("{reentrant}", reentrant) + self.before + loop


_SAME = "model(batch()).mean().backward()"
RESHARD = ("", "reshard_after_forward=False")
FSDP = (
    Sharded("one forward, one backward", _SAME),
    Sharded(
        "two backwards after one forward",
        "y = model(batch())\ny.mean().backward(retain_graph=True)\ny.pow(2).mean().backward()",
    ),
    Sharded(
        "two forwards, one backward of the sum",
        "a = model(batch())\nb = model(batch())\n(a.mean() + b.mean()).backward()",
    ),
    Sharded(
        "two forwards, then a backward of each",
        "a = model(batch())\nb = model(batch())\na.mean().backward()\nb.mean().backward()",
    ),
    Sharded("forward and backward, twice", f"{_SAME}\n{_SAME}"),
    Sharded("`model.forward(x)`", "model.forward(batch()).mean().backward()"),
    Sharded(
        "`model.forward(x)`, where no layer is sharded by itself", "model.forward(batch()).mean().backward()", "whole"
    ),
    Sharded("the layers are called one by one", "model[2](model[1](model[0](batch()))).mean().backward()"),
    Sharded(
        "the layers are called one by one, where none is sharded by itself",
        "model[2](model[1](model[0](batch()))).mean().backward()",
        "whole",
    ),
    Sharded("a layer is called by itself before the model", f"model[0](batch()).mean().backward()\n{_SAME}"),
    Sharded("a layer is called by itself after the model", f"{_SAME}\nmodel[0](batch()).mean().backward()"),
    Sharded("a method of the model that calls the model", "model.loss(batch()).backward()", "heads"),
    Sharded("a method of the model that calls a layer", "model.encode(batch()).mean().backward()", "heads"),
    Sharded(
        "a method that calls a layer, where none is sharded by itself",
        "model.encode(batch()).mean().backward()",
        "heads in one",
    ),
    Sharded("the same, after `register_fsdp_forward_method`", "model.encode(batch()).mean().backward()", "registered"),
    Sharded(
        "a penalty on a weight beside the output",
        "y = model(batch())\n(y.mean() + net[2].weight.pow(2).sum()).backward()",
    ),
    Sharded(
        "a penalty on a weight beside the output, where no layer is sharded by itself",
        "y = model(batch())\n(y.mean() + net[2].weight.pow(2).sum()).backward()",
        "whole",
    ),
    Sharded(
        "a penalty on a weight that is walked apart",
        f"{_SAME}\nnet[2].weight.pow(2).sum().backward()",
    ),
    Sharded(
        "a penalty on `weight.full_tensor()` beside the output",
        "y = model(batch())\n(y.mean() + net[2].weight.full_tensor().pow(2).sum()).backward()",
    ),
    Sharded("`set_requires_gradient_sync(False)` throughout", f"model.set_requires_gradient_sync(False)\n{_SAME}"),
    Sharded(
        "`set_requires_gradient_sync(False)` for all but the last",
        f"model.set_requires_gradient_sync(False)\n{_SAME}\nmodel.set_requires_gradient_sync(True)\n{_SAME}",
    ),
    Sharded(
        "`set_requires_gradient_sync(False)` for the last alone",
        f"model.set_requires_gradient_sync(True)\n{_SAME}\nmodel.set_requires_gradient_sync(False)\n{_SAME}",
    ),
    Sharded(
        "`set_requires_gradient_sync(False)` around the forward alone",
        "model.set_requires_gradient_sync(False)\nloss = model(batch()).mean()\n"
        "model.set_requires_gradient_sync(True)\nloss.backward()",
    ),
    Sharded(
        "`autograd.grad` in place of a backward",
        "gradients = torch.autograd.grad(model(batch()).mean(), list(model.parameters()))\n"
        "for parameter, gradient in zip(model.parameters(), gradients):\n    parameter.grad = gradient",
    ),
    Sharded(
        "a gradient penalty beside the loss",
        "x = batch().requires_grad_()\ny = model(x)\n"
        "(gradient,) = torch.autograd.grad(y.sum(), x, create_graph=True)\n"
        "(y.mean() + gradient.pow(2).sum()).backward()",
    ),
    Sharded(
        "a gradient by the input, then a backward",
        "x = batch().requires_grad_()\nloss = model(x).mean()\n"
        "torch.autograd.grad(loss, x, retain_graph=True)\nloss.backward()",
    ),
    Sharded("`backward(inputs=...)`", "model(batch()).mean().backward(inputs=list(model.parameters()))"),
    Sharded("a parameter that no forward uses", "a, b = model(batch())\n(a.mean() + b.mean()).backward()", "heads"),
    Sharded(
        "an output that the loss does not use",
        'a, b, c = model(batch(), "abc")\n(a.mean() + b.mean()).backward()',
        "heads",
    ),
    Sharded(
        "a loss for each output, walked apart",
        'a, b, c = model(batch(), "abc")\n(a.mean() + b.mean()).backward()\nc.mean().backward()',
        "heads",
    ),
    Sharded("a frozen layer", 'a, b, c = model(batch(), "abc")\n(a.mean() + b.mean()).backward()', "frozen"),
    Sharded("gradients clipped before the step", f"{_SAME}\nnn.utils.clip_grad_norm_(model.parameters(), 0.1)"),
    Sharded(
        "gradients clipped by the norm of the local shards",
        f"{_SAME}\nnorm = sum(p.grad.to_local().pow(2).sum() for p in model.parameters()).sqrt()\n"
        "for parameter in model.parameters():\n    parameter.grad.mul_(0.1 / norm)",
    ),
    Sharded(
        "gradients clipped between two backwards",
        f"{_SAME}\nnn.utils.clip_grad_value_(model.parameters(), 0.01)\n{_SAME}",
    ),
    Sharded(
        "gradients read under `set_requires_gradient_sync(False)`",
        f"model.set_requires_gradient_sync(False)\n{_SAME}\nnorm = sum(p.grad.norm() for p in model.parameters())\n"
        f"model.set_requires_gradient_sync(True)\n{_SAME}",
    ),
    Sharded(
        "`zero_grad` after a backward without sync",
        f"model.set_requires_gradient_sync(False)\n{_SAME}\noptimizer.zero_grad()\n"
        f"model.set_requires_gradient_sync(True)\n{_SAME}",
    ),
    Sharded("an optimizer that was made before `fully_shard`", _SAME, "optimizer first"),
    Sharded("a reentrant checkpoint", _SAME, "checkpointed reentrant=True"),
    Sharded("a checkpoint, `use_reentrant=False`", _SAME, "checkpointed reentrant=False"),
    Sharded(
        "`save_on_cpu` around the forward",
        "with torch.autograd.graph.save_on_cpu():\n    y = model(batch())\ny.mean().backward()",
    ),
    Sharded(
        "an evaluation under `no_grad` between forward and backward",
        "loss = model(batch()).mean()\nwith torch.no_grad():\n    model(batch())\nloss.backward()",
    ),
    Sharded(
        "an evaluation under `no_grad` between the backward and the step",
        f"{_SAME}\nwith torch.no_grad():\n    model(batch())",
    ),
    Sharded(
        "the same evaluation, where no layer is sharded by itself",
        f"{_SAME}\nwith torch.no_grad():\n    model(batch())",
        "whole",
    ),
    Sharded(
        "the same evaluation, with `model.reshard()` after it",
        f"{_SAME}\nwith torch.no_grad():\n    model(batch())\nmodel.reshard()",
        "whole",
    ),
    Sharded(
        "an evaluation under `no_grad` after the step, where no layer is sharded by itself",
        f"with torch.no_grad():\n    model(batch())\n{_SAME}",
        "whole",
    ),
    Sharded(
        "an optimizer's step between the forward and the backward",
        "first, second = model(batch()).mean(), model(batch()).mean()\nfirst.backward()\noptimizer.step()\n"
        "second.backward()",
    ),
    Sharded(
        "`functional_call` of the model",
        "parameters = dict(model.named_parameters())\n"
        "torch.func.functional_call(model, parameters, (batch(),)).mean().backward()",
    ),
    Sharded("`vmap` of the model", "torch.vmap(model)(batch()).mean().backward()"),
)
"""Training steps under `fully_shard`."""

TENSOR = (
    Sharded("one forward, one backward", _SAME, "split"),
    Sharded(
        "two backwards after one forward",
        "y = model(batch())\ny.mean().backward(retain_graph=True)\ny.pow(2).mean().backward()",
        "split",
    ),
    Sharded(
        "a second backward without `retain_graph`",
        "y = model(batch())\ny.mean().backward()\ny.pow(2).mean().backward()",
        "split",
    ),
    Sharded(
        "two forwards, then a backward of each",
        "a = model(batch())\nb = model(batch())\na.mean().backward()\nb.mean().backward()",
        "split",
    ),
    Sharded("the layers are called one by one", "model[2](model[1](model[0](batch()))).mean().backward()", "split"),
    Sharded("`model.forward(x)`", "model.forward(batch()).mean().backward()", "split"),
    Sharded(
        "`autograd.grad` in place of a backward",
        "gradients = torch.autograd.grad(model(batch()).mean(), list(model.parameters()))\n"
        "for parameter, gradient in zip(model.parameters(), gradients):\n    parameter.grad = gradient",
        "split",
    ),
    Sharded(
        "a gradient penalty beside the loss",
        "x = batch().requires_grad_()\ny = model(x)\n"
        "(gradient,) = torch.autograd.grad(y.sum(), x, create_graph=True)\n"
        "(y.mean() + gradient.pow(2).sum()).backward()",
        "split",
    ),
    Sharded(
        "a penalty on a weight beside the output",
        "y = model(batch())\n(y.mean() + net[2].weight.pow(2).sum()).backward()",
        "split",
    ),
    Sharded(
        "a penalty on `weight.full_tensor()` beside the output",
        "y = model(batch())\n(y.mean() + net[2].weight.full_tensor().pow(2).sum()).backward()",
        "split",
    ),
    Sharded(
        "a penalty on `weight.to_local()` beside the output",
        "y = model(batch())\n(y.mean() + net[2].weight.to_local().pow(2).sum()).backward()",
        "split",
    ),
    Sharded(
        "gradients clipped before the step", f"{_SAME}\nnn.utils.clip_grad_norm_(model.parameters(), 0.1)", "split"
    ),
    Sharded(
        "an optimizer's step between the forward and the backward",
        "first, second = model(batch()).mean(), model(batch()).mean()\nfirst.backward()\noptimizer.step()\n"
        "second.backward()",
        "split",
    ),
    Sharded(
        "`save_on_cpu` around the forward",
        "with torch.autograd.graph.save_on_cpu():\n    y = model(batch())\ny.mean().backward()",
        "split",
    ),
)
"""Training steps of a model whose layers are split by `parallelize_module`."""
