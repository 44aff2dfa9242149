"""Programs that ask what Accelerate and Lightning Fabric change, which wrap in the user's place. `wrappers` runs them.

Each is run in two processes, as torchrun starts them.
"""

from __future__ import annotations

from dataclasses import dataclass

_NET = """\
import torch
import torch.distributed as dist
from torch import nn
{imports}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 8)
        self.head = nn.Linear(8, 1)
        self.other = nn.Linear(8, 1){requires}

    def forward(self, x):
        return self.head(torch.tanh(self.body(x)))

    def loss(self, x):
        return self(x).mean()

    def training_step(self, x):
        return self(x).mean()


net = Net()
raw = torch.optim.SGD(net.parameters(), lr=0.1)
{setup}
torch.manual_seed(dist.get_rank())


def batch():
    return torch.randn(6, 4)


for step in range(4):
"""
_ACCELERATE = "from accelerate import Accelerator\nfrom accelerate.utils import DistributedDataParallelKwargs"
_PREPARED = """\
accelerator = Accelerator(cpu=True{options})
model, optimizer = accelerator.prepare(net, raw)"""
_FABRIC = """\
fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp")
fabric.launch()
model, optimizer = fabric.setup(net, raw)"""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A training step with a framework that wraps the model; `options` are the Accelerator's."""

    title: str
    step: str
    options: str = ""
    fabric: bool = False
    unused: bool = False
    clears: bool = True

    def program(self) -> str:
        """Return the whole program."""
        head = _NET.format(
            imports="from lightning.fabric import Fabric" if self.fabric else _ACCELERATE,
            requires="" if self.unused else ".requires_grad_(False)",
            setup=_FABRIC if self.fabric else _PREPARED.format(options=f", {self.options}" if self.options else ""),
        )
        body = "".join(f"    {line}\n" if line else "\n" for line in self.step.splitlines())
        return head + ("    optimizer.zero_grad()\n" + body + "    optimizer.step()\n" if self.clears else body)


_BACKWARD = "accelerator.backward(model(batch()).mean())"
ACCELERATE = (
    Prepared("one forward, one backward", _BACKWARD),
    Prepared("`loss.backward()`", "model(batch()).mean().backward()"),
    Prepared(
        "two backwards after one forward",
        "y = model(batch())\naccelerator.backward(y.mean(), retain_graph=True)\naccelerator.backward(y.pow(2).mean())",
    ),
    Prepared(
        "`accelerator.unwrap_model(model)(x)`", "accelerator.backward(accelerator.unwrap_model(model)(batch()).mean())"
    ),
    Prepared(
        "a method of the unwrapped model that gives the loss",
        "accelerator.backward(accelerator.unwrap_model(model).loss(batch()))",
    ),
    Prepared("the model inside is called by its old name", "accelerator.backward(net(batch()).mean())"),
    Prepared(
        "the optimizer that was given to `prepare` steps", f"{_BACKWARD}\nraw.step()\nraw.zero_grad()", clears=False
    ),
    Prepared(
        "`accelerator.accumulate(model)`",
        f"with accelerator.accumulate(model):\n    {_BACKWARD}\n    optimizer.step()\n    optimizer.zero_grad()",
        "gradient_accumulation_steps=2",
        clears=False,
    ),
    Prepared(
        "the same, where the optimizer that was given to `prepare` steps",
        f"with accelerator.accumulate(model):\n    {_BACKWARD}\n    raw.step()\n    raw.zero_grad()",
        "gradient_accumulation_steps=2",
        clears=False,
    ),
    Prepared(
        "`accelerator.no_sync(model)` for all but the last",
        f"with accelerator.no_sync(model):\n    {_BACKWARD}\n{_BACKWARD}",
    ),
    Prepared("everything under `accelerator.no_sync(model)`", f"with accelerator.no_sync(model):\n    {_BACKWARD}"),
    Prepared("a parameter that no forward uses", _BACKWARD, unused=True),
    Prepared(
        "the same, with `DistributedDataParallelKwargs(find_unused_parameters=True)`",
        _BACKWARD,
        "kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=True)]",
        unused=True,
    ),
    Prepared(
        "`autograd.grad` in place of a backward",
        "parameters = [p for p in model.parameters() if p.requires_grad]\n"
        "for parameter, gradient in zip(parameters, torch.autograd.grad(model(batch()).mean(), parameters)):\n"
        "    parameter.grad = gradient",
    ),
    Prepared("gradients clipped before the step", f"{_BACKWARD}\naccelerator.clip_grad_norm_(model.parameters(), 0.1)"),
    Prepared(
        "an evaluation of the unwrapped model",
        f"with torch.no_grad():\n    accelerator.unwrap_model(model)(batch())\n{_BACKWARD}",
    ),
)
"""Training steps with `accelerate.Accelerator`."""
_FABRICATED = "fabric.backward(model(batch()).mean())"
FABRIC = (
    Prepared("one forward, one backward", _FABRICATED, fabric=True),
    Prepared(
        "two backwards after one forward",
        "y = model(batch())\nfabric.backward(y.mean(), retain_graph=True)\nfabric.backward(y.pow(2).mean())",
        fabric=True,
    ),
    Prepared("`model.module(x)`", "fabric.backward(model.module(batch()).mean())", fabric=True),
    Prepared("a method of the model that calls the model", "fabric.backward(model.loss(batch()))", fabric=True),
    Prepared("`model.training_step(x)`", "fabric.backward(model.training_step(batch()))", fabric=True),
    Prepared(
        "a method after `model.mark_forward_method`",
        'model.mark_forward_method("loss")\nfabric.backward(model.loss(batch()))',
        fabric=True,
    ),
    Prepared("a layer of the model", "fabric.backward(model.body(batch()).mean())", fabric=True),
    Prepared("the model inside is called by its old name", "fabric.backward(net(batch()).mean())", fabric=True),
    Prepared(
        "`fabric.no_backward_sync(model)` for all but the last",
        f"with fabric.no_backward_sync(model):\n    {_FABRICATED}\n{_FABRICATED}",
        fabric=True,
    ),
    Prepared(
        "everything under `fabric.no_backward_sync(model)`",
        f"with fabric.no_backward_sync(model):\n    {_FABRICATED}",
        fabric=True,
    ),
    Prepared("a parameter that no forward uses", _FABRICATED, fabric=True, unused=True),
)
"""Training steps with `lightning.Fabric`."""
