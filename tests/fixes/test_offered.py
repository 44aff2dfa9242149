"""What is offered runs: a fix that torch or Python would refuse is none."""

from __future__ import annotations

import pytest

from tapecheck.fixes import fixes_for
from tests.fixes.support import report_of

REPLACED = """\
import torch
from torch import nn

net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    loss = net(torch.ones(2, 3)).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
    net.weight = nn.Parameter({value})
"""


@pytest.mark.parametrize(
    ("value", "fills"),
    [
        ("net.weight / net.weight.norm()", True),
        ("net.weight.clamp(-1, 1)", True),
        ("torch.cat([net.weight.detach(), torch.zeros(1, 3)])", False),
        ("net.weight.repeat(2, 1)", False),
        ("net.weight[:1]", False),
    ],
)
def test_a_parameter_is_filled_in_place_where_it_keeps_its_shape(value: str, fills: bool) -> None:
    report = report_of(REPLACED.format(value=value), "program.py")
    [finding] = report.findings
    titles = [fix.title for fix in fixes_for(report, finding)]
    assert finding.code == "TAPE405" and ("Change `net.weight` in place: `copy_`" in titles) is fills


STATE = """\
import torch
from dataclasses import dataclass
from torch import nn

cell, head = nn.GRUCell(3, 4), nn.Linear(4, 1)


{decorator}class State:
{body}

def step(x, state):
    return State(cell(x, state.h))


state = State(torch.zeros(2, 4))
for _ in range(3):
    state = step(torch.randn(2, 3), state)
    head(state.h).pow(2).mean().backward()
"""
PLAIN = """\
    def __init__(self, h):
        self._h = h

    @property
    def h(self):
        return self._h
"""


@pytest.mark.parametrize(
    ("decorator", "body"),
    [("", PLAIN), ("@dataclass(frozen=True)\n", "    h: torch.Tensor\n")],
    ids=["plain", "frozen"],
)
def test_nothing_but_a_dataclass_is_replaced(decorator: str, body: str) -> None:
    text = STATE.format(decorator=decorator, body=body)
    if not decorator:
        text = text.replace("from dataclasses import dataclass\n", "")
    report = report_of(text, "program.py")
    [finding] = report.findings
    written = [edit.content for fix in fixes_for(report, finding) for edit in fix.edits]
    assert finding.code == "TAPE101"
    assert decorator or not any("replace(" in one for one in written)
