"""Solvers of torchdiffeq: their solution hangs on the function's parameters and on the initial state."""

from __future__ import annotations

import sys
import types

import pytest

from tapecheck.check import check
from tapecheck.source import from_text
from tests.cases import under_torch

PROGRAM = """\
import torch
from torch import nn
from torchdiffeq import odeint

class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))
    def forward(self, t, y):
        return self.net(y)

field = Field()
optimizer = torch.optim.SGD(field.parameters(), lr=0.1)
state = torch.randn(4, 2)
for step in range(3):
    path = odeint(field, state, torch.linspace(0, 1, 5))
    optimizer.zero_grad()
    path[-1].pow(2).mean().backward()
    optimizer.step()
    state = path[-1]
"""
CUT = PROGRAM.replace("state = path[-1]", "state = path[-1].detach()")


def euler(func, y0, t):  # type: ignore[no-untyped-def]
    """A solver as torchdiffeq's fixed steps are: operations of torch alone."""
    import torch

    states = [y0]
    for before, after in zip(t[:-1], t[1:]):
        states.append(states[-1] + (after - before) * func(before, states[-1]))
    return torch.stack(states)


@pytest.mark.parametrize(("program", "codes"), [(PROGRAM, ["TAPE101"]), (CUT, [])], ids=["carried", "cut"])
def test_a_solution_that_is_carried_on_keeps_its_graph(program: str, codes: list[str]) -> None:
    assert [finding.code for finding in check(from_text(program, "train.py")).findings] == codes


@pytest.mark.skipif(not under_torch.has_torch(), reason="torch is not installed")
def test_torch_raises_where_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("torchdiffeq")
    module.odeint = euler  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torchdiffeq", module)
    exec(CUT, {})
    with pytest.raises(RuntimeError, match="second time"):
        exec(PROGRAM, {})


def test_an_unknown_function_makes_an_unknown_solution() -> None:
    text = PROGRAM.replace("field = Field()", "import fields\nfield = fields.make()")
    assert check(from_text(text, "train.py")).findings == []
