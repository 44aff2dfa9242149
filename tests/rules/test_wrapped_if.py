"""Models that are wrapped where a condition says so: what follows is found, and is possible."""

from __future__ import annotations

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

PROGRAM = """\
import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

parser = argparse.ArgumentParser()
parser.add_argument("--distributed", action="store_true")
parser.add_argument("--world-size", type=int, default=1)
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.unused = nn.Linear(4, 1), nn.Linear(4, 1)

    def forward(self, x):
        return self.used(x), self.unused(x)


def spread(model):
    return DDP(model)


model = Net()
{wrap}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    first, second = model(torch.randn(6, 4))
    {step}
    optimizer.step()
"""
GUARDS = {
    "a flag": "if args.distributed:\n    model = DDP(model)",
    "a number": "if args.world_size > 1:\n    model = DDP(model)",
    "the environment": 'if int(os.environ.get("WORLD_SIZE", 1)) > 1:\n    model = DDP(model)',
    "what was asked before": (
        "ddp = args.distributed\nif ddp:\n    rank = dist.get_rank()\nelse:\n    rank = 0\n"
        "if ddp:\n    model = DDP(model)"
    ),
    "the devices": "if torch.cuda.device_count() > 1:\n    model = DDP(model)",
    "a function": "if args.distributed:\n    model = spread(model)",
    "the other side": (
        "if not args.distributed:\n    pass\nelse:\n    model = nn.parallel.DistributedDataParallel(model)"
    ),
}
STEPS = {
    "TAPE601": "(first + second).mean().backward(retain_graph=True)\n    (first * second).mean().backward()",
    "TAPE602": "first.pow(2).mean().backward()",
    "TAPE607": "(first + second).pow(2).mean().backward(create_graph=True)",
}


def codes(text: str) -> list[tuple[str, bool]]:
    return [(each.code, each.certain) for each in check(from_text(text, "train.py")).findings]


@pytest.mark.parametrize("code", STEPS)
@pytest.mark.parametrize("guard", GUARDS)
def test_what_only_a_wrapped_model_does_is_possible(code: str, guard: str) -> None:
    assert (code, False) in codes(PROGRAM.format(wrap=GUARDS[guard], step=STEPS[code]))


@pytest.mark.parametrize("code", STEPS)
def test_it_is_certain_without_a_condition(code: str) -> None:
    assert (code, True) in codes(PROGRAM.format(wrap="model = DDP(model)", step=STEPS[code]))


@pytest.mark.parametrize("guard", GUARDS)
def test_what_is_right_either_way_is_right(guard: str) -> None:
    assert codes(PROGRAM.format(wrap=GUARDS[guard], step="(first + second).mean().backward()")) == []


def test_a_model_may_be_compiled() -> None:
    wrap = 'if args.compile:\n    model = torch.compile(model, backend="aot_eager")'
    assert codes(PROGRAM.format(wrap=wrap, step="first.mean().backward()\n    second.mean().backward()")) == [
        ("TAPE603", False)
    ]
