"""No number is greater than infinity; whether it is less is asked of a loss that may be nan, or of a limit."""

from __future__ import annotations

import itertools

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
INFINITIES = ("float('inf')", "math.inf", "torch.inf", "np.inf")
NUMBERS = ("loss", "loss.item()", "model.seen", "float(batch.max())")
SIGNS = ("<", "<=", ">", ">=")


@pytest.mark.parametrize("limit", [*INFINITIES, "sys.maxsize", "10**6"])
def test_no_number_is_greater(limit: str) -> None:
    for number, sign, negative, swapped in itertools.product(NUMBERS, SIGNS, (False, True), (False, True)):
        far = "-model.limit" if negative else "model.limit"
        test = f"{far} {sign} {number}" if swapped else f"{number} {sign} {far}"
        never = limit in INFINITIES and sign == (">" if negative is swapped else "<")
        found = check(from_text(PROGRAM.format(limit=limit, test=test), "p.py")).findings
        assert [finding.code for finding in found] == ["TAPE101"] * (not never), test


@pytest.mark.parametrize("test", ["not {} < {}", "not {} <= {}", "not -{1} < {0}", "not ({0} > -{1} and {0} < {1})"])
def test_a_number_may_be_no_number(test: str) -> None:
    """`retain_graph=True` is needed where a loss that is nan is differentiated once more."""
    for number, limit in itertools.product(("loss", "loss.item()"), ("float('inf')", "model.limit", "sys.maxsize")):
        program = PROGRAM.format(limit="math.inf", test=test.format(number, limit))
        program = program.replace("loss.backward()", "loss.backward(retain_graph=True)", 1)
        found = check(from_text(program, "p.py")).findings
        assert "TAPE301" not in [one.code for one in found], program


def test_a_limit_may_be_set() -> None:
    given = "import argparse\nparser = argparse.ArgumentParser()\n"
    given += "parser.add_argument('--limit', type=float, default=math.inf)\nlimit = parser.parse_args().limit\n"
    hidden = "from settings import limit\n"
    for settings, far in ((given, "math.inf"), (hidden, "sys.maxsize")):
        program = PROGRAM.format(limit="None", test=f"limit < {far}").replace("class Model", f"{settings}\nclass Model")
        assert [(one.code, one.certain) for one in check(from_text(program, "p.py")).findings] == [("TAPE101", False)]
