"""Loaders that give samples which require grad: whether they are leaves is what torch says (TAPE105, TAPE104)."""

from __future__ import annotations

import itertools

import pytest

from tapecheck.check import check
from tapecheck.source import from_text
from tests.interpret.truth import raises_here

torch = pytest.importorskip("torch")

LOADERS = {
    "single": "DataLoader(data, batch_size=None)",
    "single by place": "DataLoader(data, None)",
    "worked out": "DataLoader(data, batch_size=None if data else 2)",
    "first": "DataLoader(data, batch_size=1, collate_fn=lambda batch: batch[0])",
    "listed": "DataLoader(data, batch_size=2, collate_fn=list)",
    "as they come": "DataLoader(data, batch_size=2, collate_fn=lambda batch: batch)",
    "stacked": "DataLoader(data, batch_size=2, collate_fn=torch.stack)",
    "converted": "DataLoader(data, batch_size=None, collate_fn=lambda sample: sample * 1)",
    "batched": "DataLoader(data, batch_size=2)",
    "the data": "[data[0], data[1]]",
}
SAMPLES = {
    "leaf": "self.rows[i % 4]",
    "made": "torch.ones(3, requires_grad=True)",
    "switched on": "torch.ones(3).requires_grad_()",
    "computed": "self.rows[i % 4] * 2",
    "plain": "torch.ones(3)",
    "held": "self.rows[i % 4].detach()",
}
USED = {
    "gradient": "if one.requires_grad:\n        (one * one).sum().backward()\n        one.grad.zero_()",
    "walked": "(one * one).sum().backward()",
    "changed": "one.add_(1)",
}


def _program(loader: str, sample: str, used: str) -> str:
    return f"""\
import torch
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    def __init__(self):
        self.rows = [torch.ones(3, requires_grad=True) for _ in range(4)]

    def __len__(self):
        return 4

    def __getitem__(self, i):
        return {SAMPLES[sample]}


data = Rows()
for batch in {LOADERS[loader]}:
    one = batch[0] if isinstance(batch, list) else batch
    {USED[used]}
"""


@pytest.mark.parametrize(("loader", "sample"), [*itertools.product(LOADERS, SAMPLES)])
def test_a_certain_error_is_raised(loader: str, sample: str) -> None:
    for used in USED:
        program = _program(loader, sample, used)
        found = check(from_text(program, "run.py")).findings
        sure = [one.code for one in found if one.certain and one.severity == "error"]
        assert not sure or raises_here(program), (used, sure)


@pytest.mark.parametrize("loader", ["single", "first", "converted", "batched", "the data"])
@pytest.mark.parametrize("sample", ["leaf", "computed"])
def test_what_raises_is_told(loader: str, sample: str) -> None:
    for used in ("gradient", "changed"):
        program = _program(loader, sample, used)
        found = [one for one in check(from_text(program, "run.py")).findings if one.severity == "error"]
        assert bool(found) == raises_here(program), used
