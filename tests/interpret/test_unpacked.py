"""A call that unpacks a dict whose keys nobody knows: what is called gets what the dict holds."""

from __future__ import annotations

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

PROGRAM = """\
import torch
import torch.nn.functional as F
from torch import nn
from hidden import batches, model, Trainer

w, trainer = torch.ones(3, requires_grad=True), Trainer()

class Loss(nn.Module):
    def forward(self, input, target):
        return (input - target).pow(2).mean()

class Plain:
    def __call__(self, input, target=None):
        return input.exp().sum()

def scaled(input, *, target):
    return (input * target).sum()

def all_of(**named):
    return sum(value.sum() for value in named.values())

def passes_on(**named):
    return scaled(**named)

criterion, plain = Loss(), Plain()
for batch in batches:
    out = {{}}
    for k, v in batch.items():
        out[k] = v * w
    loss = {called}
    loss.backward()
"""
CALLED = {
    "a function": "scaled(**out)",
    "a function of keywords": "all_of(**out)",
    "a function that passes them on": "passes_on(**out)",
    "a module": "criterion(**out)",
    "an object": "plain(**out)",
    "a lambda": "(lambda input, target: (input + target).sum())(**out)",
    "one of torch": "F.mse_loss(**out)",
    "a hidden function": "model(**out).sum()",
    "a method of a hidden class": "trainer.loss(**out)",
    "a part of a hidden object": "trainer.model.net(**out).mean()",
    "beside another keyword": "scaled(input=w, **out)",
    "dict()": "all_of(**dict(out))",
}


def _codes(called: str) -> list[str]:
    return [one.code for one in check(from_text(PROGRAM.format(called=called), "program.py")).findings]


@pytest.mark.parametrize("called", CALLED)
def test_what_a_call_unpacks_is_not_kept_for_nothing(called: str) -> None:
    assert _codes(CALLED[called]) == []


@pytest.mark.parametrize("called", ["w.exp().sum()", "scaled(input=w, target=w)", "all_of(**{'input': w * 2})"])
def test_what_no_call_gets_is_told(called: str) -> None:
    assert _codes(called) == ["TAPE201"]
