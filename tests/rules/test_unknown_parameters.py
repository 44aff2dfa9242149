"""What stands for all parameters of an unknown model, or an unknown graph, is told by a field and not by its name."""

from __future__ import annotations

from typing import Any

import pytest

from tapecheck.check import check
from tapecheck.rules import Reading
from tapecheck.source import from_text
from tapecheck.tape import Leaf, Node


def test_a_parameter_may_be_called_parameters(build: Any) -> None:
    weight = build.leaf(1, name="net.all parameters")
    node = build.node(2, weight, op="graph of it")
    reading = Reading(build.tape)
    assert reading.of_parameters == {node}
    assert not reading.ledger.leads_anywhere(node)


def test_what_stands_for_the_unknown_says_so() -> None:
    program = (
        "import torch\nfrom somewhere import make\n"
        "net = make()\noptimizer = torch.optim.SGD(net.parameters(), 0.1)\n"
        "loss = net(torch.ones(2)).sum()\nloss.backward()\noptimizer.step()\n"
    )
    events = [event for tape in check(from_text(program, "train.py")).interpretation.tapes for event in tape.events]
    assert {leaf.name for leaf in events if isinstance(leaf, Leaf) and leaf.many} == {"somewhere.make() parameters"}
    graphs = [node for node in events if isinstance(node, Node) and node.graph_of]
    assert all(node.op == f"graph of {node.graph_of}" for node in graphs)


SAVED = """\
import numpy
import torch
from torch import nn


class Prior:
    def __init__(self, sigma):
        self.sigma, self.shift = sigma, -numpy.log(sigma)

    def loglike(self, x):
        return self.shift - 0.5 * (x / self.sigma) ** 2


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.part = nn.Linear(3, 3), PART

    def forward(self, x):
        return self.layer(x)


net = Net()
torch.save(net, "net.pt")
net = torch.load("net.pt", weights_only=False).eval()
total = torch.zeros(3)
for i in range(20):
    total += net.part.METHOD(torch.rand(3))
print(total)
"""


@pytest.mark.parametrize(
    ("part", "method", "told"),
    [
        ("Prior(0.1)", "loglike", []),
        ("nn.Linear(3, 3)", "forward", ["TAPE201"]),
        ("[nn.Linear(3, 3)]", "f", ["TAPE201"]),
    ],
)
def test_a_part_of_a_loaded_model_has_parameters_unless_the_program_makes_it_without(
    part: str, method: str, told: list[str]
) -> None:
    program = SAVED.replace("PART", part).replace("METHOD", method)
    assert [finding.code for finding in check(from_text(program, "train.py")).findings] == told
