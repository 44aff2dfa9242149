"""TAPE103 where a loop leaves a graph to the one value whose number the code was told, and cuts off the others."""

from __future__ import annotations

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

LEARNER = """
import torch
from torch import nn


class Learner(nn.Module):
    def __init__(self):
        super().__init__()
        self.agents = nn.ModuleList([nn.Linear(4, 2) for _ in range(3)])
        self.opts = [torch.optim.SGD(agent.parameters(), lr=0.1) for agent in self.agents]

    def update(self, x, number):
        outs = []
{loop}
        loss = torch.cat(outs, -1).sum()
        self.opts[number].zero_grad()
        loss.backward()
        self.opts[number].step()
"""
CHOOSING = {
    "comprehension": "outs = [o if i == {n} else o.detach() for i, o in enumerate([a(x) for a in self.agents])]",
    "append": """
for i, agent in enumerate(self.agents):
    o = agent(x)
    outs.append(o if {n} == i else o.detach())""",
    "unequal": """
for i in range(3):
    o = self.agents[i](x)
    if i != {n}:
        o = o.detach()
    outs.append(o)""",
    "continue": """
for i, agent in enumerate(self.agents):
    if i == {n}:
        outs.append(agent(x))
        continue
    with torch.no_grad():
        outs.append(agent(x))""",
}
CUTTING = {
    "one flag": """
for i, agent in enumerate(self.agents):
    o = agent(x)
    outs.append(o if number == 1 else o.detach())""",
    "from one on": """
for i, agent in enumerate(self.agents):
    o = agent(x)
    outs.append(o if i > number else o.detach())""",
    "all": """
for i, agent in enumerate(self.agents):
    o = agent(x)
    outs.append(o.detach() if i == number else o.detach())""",
}


def _codes(loop: str) -> list[str]:
    indented = "\n".join(" " * 8 + line for line in loop.strip().splitlines())
    return [one.code for one in check(from_text(LEARNER.format(loop=indented), "learner.py")).findings]


@pytest.mark.parametrize("form", CHOOSING)
@pytest.mark.parametrize("number", ["number", "self.number"])
def test_the_one_that_is_chosen_is_there(form: str, number: str) -> None:
    loop = CHOOSING[form].format(n=number)
    assert "TAPE103" not in _codes(loop if number == "number" else f"self.number = number\n{loop.strip()}")


@pytest.mark.parametrize("form", CUTTING)
def test_what_cuts_all_is_told(form: str) -> None:
    assert "TAPE103" in _codes(CUTTING[form])
