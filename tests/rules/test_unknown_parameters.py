"""What stands for all parameters of an unknown model, or an unknown graph, is told by a field and not by its name."""

from __future__ import annotations

from typing import Any

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
