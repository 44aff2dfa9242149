"""Loops over the parts of a model, one of which is not visible: what they do to a part is done to each that is."""

from __future__ import annotations

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

MODEL = """\
import itertools
import torch
from torch import nn
from hidden import feature


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.feature = feature()
        self.body = nn.Sequential(*[nn.Linear(4, 4) for _ in range(4)])
        self.head = nn.Linear(4, 16)

    def forward(self, x):
        made = self.feature(x)
        RESET
        value = 0.5 * self.head(made).mean(0).view(4, 4)
        for weight in self.body.parameters():
            if weight.fast is None:
                weight.fast = weight - value
            else:
                weight.fast = weight.fast - value
        for layer in self.body:
            x = x @ layer.weight.fast
        return x


net = Net()
for one in net.body:
    one.weight.fast = one.bias.fast = None
for _ in range(3):
    loss = net(torch.rand(3, 4)).pow(2).sum()
    loss.backward()
"""
ALL = [
    "for w in self.parameters(): w.fast = None",
    "for _, w in self.named_parameters(): w.fast = None",
    "for _, w in enumerate(self.parameters()): w.fast = None",
    "[setattr(w, 'fast', None) for w in self.parameters()]",
    "for w in list(self.parameters()): w.fast = None",
    "for w in reversed(list(self.parameters())): w.fast = None",
    "for w in filter(lambda p: p.requires_grad, self.parameters()): w.fast = None",
    "for w in [p for p in self.parameters() if p.requires_grad]: w.fast = None",
    "for w in dict(self.named_parameters()).values(): w.fast = None",
    "for w, _ in zip(self.parameters(), itertools.count()): w.fast = None",
    "for w in [*self.feature.parameters(), *self.body.parameters()]: w.fast = None",
    "for w in itertools.chain(self.feature.parameters(), self.body.parameters()): w.fast = None",
    "for w in itertools.chain(*[m.parameters() for m in self.children()]): w.fast = None",
    "for w in list(self.feature.parameters()) + list(self.body.parameters()): w.fast = None",
    "all = list(self.parameters())\n        for i in range(len(all)): all[i].fast = None",
    "for m in self.children():\n            for w in m.parameters(): w.fast = None",
    "for m in self.modules():\n            if isinstance(m, nn.Linear): m.weight.fast = m.bias.fast = None",
]


def told(text: str) -> list[str]:
    return [one.code for one in check(from_text(text, "train.py")).findings]


@pytest.mark.parametrize("reset", ALL)
@pytest.mark.parametrize("part", ["feature()", "nn.Linear(4, 4)"])
def test_what_is_done_to_every_part(reset: str, part: str) -> None:
    assert told(MODEL.replace("RESET", reset).replace("feature()", part, 1)) == []


@pytest.mark.parametrize("part", ["feature()", "nn.Linear(4, 4)"])
def test_what_is_done_to_none(part: str) -> None:
    assert told(MODEL.replace("RESET", "").replace("feature()", part, 1)) == ["TAPE101"]
