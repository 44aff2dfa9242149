"""TAPE602: parameters that a backward does not come to, and forwards of which the dry run sees a part."""

from __future__ import annotations

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

PROGRAM = """\
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range({count})])

    def forward(self, x):
        x = self.first(x)
{body}
        return x


dist.init_process_group("gloo")
model = DistributedDataParallel(Net())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for step in range(3):
        optimizer.zero_grad()
        model(torch.randn(2, 4)).mean().backward()
        optimizer.step()
"""
USED = {
    "for layer": "        for layer in self.layers:\n            x = layer(x)",
    "for index": "        for i in range({count}):\n            x = self.layers[i](x)",
    "for length": "        for i in range(len(self.layers)):\n            x = self.layers[i](x)",
    "enumerate": "        for i, layer in enumerate(self.layers):\n            x = layer(x) + i",
    "zip": "        for a, b in zip(self.layers[::2], self.layers[1::2]):\n            x = b(a(x))",
    "while": "        i = 0\n        while i < {count}:\n            x = self.layers[i](x)\n            i += 1",
    "comprehension": "        x = sum([layer(x) for layer in self.layers])",
    "generator": "        x = sum(layer(x) for layer in self.layers)",
    "stack": "        x = torch.stack([self.layers[i](x) for i in range({count})]).sum(0)",
    "map": "        x = sum(map(lambda layer: layer(x), self.layers))",
    "unrolled": "        x = nn.Sequential(*self.layers)(x)",
}


def codes(count: int, body: str) -> list[str]:
    text = PROGRAM.format(count=count, body=body.replace("{count}", str(count)))
    return [finding.code for finding in check(from_text(text, "train.py")).findings]


@pytest.mark.parametrize("count", [2, 12, 70, 300])
@pytest.mark.parametrize("name", USED)
def test_layers_that_a_loop_uses_are_used(name: str, count: int) -> None:
    assert "TAPE602" not in codes(count, USED[name])


def test_a_layer_beside_the_list_is_reported() -> None:
    body = "        x = self.layers[0](x.detach())\n        for layer in self.layers:\n            x = layer(x)"
    assert "TAPE602" in codes(4, body)


HEADS = """\
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return torch.tanh(self.left(x)), self.right(x)


dist.init_process_group("gloo")
model = DistributedDataParallel({model})
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    left, right = model(torch.randn(2, 4))
    left.mean().backward()
    optimizer.step()
"""


def test_what_another_output_of_a_compiled_call_uses_is_given_zeros() -> None:
    def told(model: str) -> list[str]:
        return [each.code for each in check(from_text(HEADS.format(model=model), "train.py")).findings]

    assert told("Heads()") == ["TAPE602"]
    assert told('torch.compile(Heads(), backend="aot_eager")') == []
    assert told('torch.compile(Heads(), backend="eager")') == ["TAPE602"]


def test_an_exception_that_comes_later_hides_nothing() -> None:
    text = HEADS.format(model="Heads()") + "torch.zeros(2).mean().backward()\n"
    assert "TAPE602" in [each.code for each in check(from_text(text, "train.py")).findings]
