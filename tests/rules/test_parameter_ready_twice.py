"""TAPE605: gradients that are ready twice while DistributedDataParallel waits for others."""

from __future__ import annotations

import pytest

from tapecheck.check import check
from tapecheck.interpret import limits
from tapecheck.source import from_text

PROGRAM = """\
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(24)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).tanh().exp().log1p()
        return x


model = DistributedDataParallel(Stack())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    for part in range(2):
        model.require_backward_grad_sync = part == 0
        model(torch.randn(6, 4)).mean().backward()
    optimizer.step()
"""


def test_layers_that_the_work_limit_left_out_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LOOP_WORK", 300)
    assert "TAPE605" not in {each.code for each in check(from_text(PROGRAM, "train.py")).findings}


TASKS = """\
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")


class Tasks(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.heads = nn.ModuleList([nn.Linear(4, 1) for _ in range(2)])

    def forward(self, x):
        for layer in self.layers{used}:
            x = layer(x).tanh()
        return [head(x) for head in self.heads]


model = DistributedDataParallel(Tasks())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(2):
    optimizer.zero_grad()
    first, second = model(torch.randn(6, 4))
    {walked}
    optimizer.step()
"""
EACH = "first.mean().backward(retain_graph=True)\n    second.mean().backward()"


@pytest.mark.parametrize(
    ("used", "walked", "told"),
    [
        ("", EACH, True),
        ("[:2]", EACH, True),
        ("[1:]", "first.mean().backward(retain_graph=True)\n    first.sum().backward()", True),
        ("", "(first.mean() + second.mean()).backward()", False),
    ],
)
def test_layers_of_a_list_that_a_forward_leaves_out_are_waited_for(used: str, walked: str, told: bool) -> None:
    """Outcomes by two processes under torch: it raises where it is told."""
    found = check(from_text(TASKS.format(used=used, walked=walked), "train.py")).findings
    assert [one.certain for one in found if one.code == "TAPE605"] == [True] * told
