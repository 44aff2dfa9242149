"""What a program counts or measures does not come to infinity, nor to `sys.maxsize`: no way leads past such a test."""

from __future__ import annotations

import itertools
import operator

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

PROGRAM = """\
import math
import sys
import numpy as np
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, limit={limit}):
        super().__init__()
        self.layer = nn.Linear(3, 1)
        self.limit = limit
        self.register_buffer("seen", torch.tensor(0))

model = Model()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step, batch in enumerate(torch.load("batches.pt")):
    loss = model.layer(batch).mean()
    model.seen += 1
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if {test}:
        loss.backward()
"""
LIMITS = ("float('inf')", "math.inf", "torch.inf", "np.inf", "sys.maxsize")
NUMBERS = ("loss", "loss.item()", "model.seen", "float(batch.max())", "len(batch)")
ORDERS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


@pytest.mark.parametrize("limit", LIMITS)
def test_no_number_comes_to_it(limit: str) -> None:
    for number, (sign, order), negative, swapped in itertools.product(NUMBERS, ORDERS.items(), "+-", (False, True)):
        far = "model.limit" if negative == "+" else "-model.limit"
        test = f"{far} {sign} {number}" if swapped else f"{number} {sign} {far}"
        bound = float(f"{negative}inf")
        taken = order(bound, 1) if swapped else order(1, bound)
        found = check(from_text(PROGRAM.format(limit=limit, test=test), "p.py")).findings
        assert [finding.code for finding in found] == ["TAPE101"] * taken, test


def test_the_first_number_is_less_than_the_best_at_the_start() -> None:
    program = """\
import torch
from torch import nn
model = nn.Linear(3, 1)
best, kept = float("inf"), model(torch.ones(2, 3)).mean()
kept.backward()
for step in range(5):
    loss = model(torch.randn(2, 3)).mean()
    if {number} < best:
        best, kept = {number}, model(torch.ones(2, 3)).mean()
kept.backward()
"""
    for number in ("loss", "loss.item()", "loss.detach()", "float(loss)"):
        found = check(from_text(program.format(number=number), "p.py")).findings
        assert "TAPE101" not in [finding.code for finding in found], number


def test_a_number_that_may_come_may_be_passed() -> None:
    found = check(from_text(PROGRAM.format(limit="10**6", test="model.seen > model.limit"), "p.py")).findings
    assert [finding.code for finding in found] == ["TAPE101"]
