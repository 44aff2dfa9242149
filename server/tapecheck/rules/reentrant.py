"""The backwards that reentrant checkpoints run within another one, and in which order parameters get gradients in them.

Measured on torch 2.13: a backward goes through its nodes from the last one that was built to the first, and gives a
parameter its gradient after the first-built node that uses it. A reentrant checkpoint runs a whole backward of its own
in place of its node. DistributedDataParallel has averaged once the backward ends in which the last parameter became
ready: what a later one adds is left as it is, while a gradient that comes before that end raises.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from tapecheck.rules.reading import Reading, Run, search
from tapecheck.tape import Node
from tapecheck.tape.ledger import UNKNOWN_SOURCE


def checkpoints_walked(reading: Reading, run: Run) -> list[Node]:
    """Return the nodes of reentrant checkpoints that a backward certainly walks."""
    nodes = reading.ledger.nodes
    walked = (nodes[number] for number in run.surely if number in nodes)
    return [node for node in walked if node.recomputes and node.linked == "yes"]


def once_each(checkpoints: list[Node]) -> list[Node]:
    """Return each checkpoint by one of its outputs."""
    outputs = {(node.id, node.inputs[1:]) for node in checkpoints}
    # A checkpoint's outputs have neighbouring numbers; a checkpoint within one has another's as its result.
    return [
        node for node in checkpoints if (node.id - 1, node.inputs[1:]) not in outputs or node.id - 1 in node.inputs[:1]
    ]


def inside(reading: Reading, checkpoint: Node) -> frozenset[int]:
    """Return what the backward of a reentrant checkpoint walks by itself."""
    inputs = frozenset(checkpoint.inputs[1:])
    return outside(reading, [each for each in checkpoint.inputs[:1] if each not in inputs], inputs)[0]


def outside(reading: Reading, nodes: Iterable[int], ends: frozenset[int] = frozenset()) -> tuple[frozenset[int], bool]:
    """Return what is reachable from nodes, not into reentrant checkpoints, and whether all of it is known."""
    known = reading.ledger.nodes

    def onward(number: int) -> Iterable[int]:
        within = number in known and known[number].recomputes
        return (source for source in reading.sources(number)[within:] if source not in ends)

    reached = frozenset(search((node for node in nodes if node not in ends), onward))
    return reached, not any(is_opaque(known[number]) for number in reading.graph_nodes(reached))


def is_opaque(node: Node) -> bool:
    """Whether a node may lead to anything."""
    return node.graph_of is not None or node.linked != "yes" or node.op == UNKNOWN_SOURCE


@dataclass(slots=True)
class Order:
    """A backward with reentrant checkpoints, gone through in the order of the engine.

    `leaves` are the parameters that are waited for, `ready` and `maybe` those that are ready, surely or perhaps.
    `twice` are those that get a gradient again before all is averaged, which raises, `late` those that get one after.
    """

    reading: Reading
    run: Run
    leaves: frozenset[int]
    checkpoints: Collection[Node]
    ready: set[int]
    maybe: set[int]
    twice: set[int] = field(default_factory=set)
    late: set[int] = field(default_factory=set)
    averaged: bool = False
    unsure: bool = False

    def play(self) -> None:
        """Go through the backward."""
        self._backward(outside(self.reading, self.run.backward.root_nodes)[0])

    @property
    def _over(self) -> bool:
        return bool(self.twice) or self.unsure

    def _backward(self, reached: frozenset[int]) -> None:
        """Go through one backward, or one that runs within it."""
        known = self.reading.ledger.nodes
        within = {node.id: node for node in self.checkpoints if node.id in reached}
        nodes = sorted((number for number in reached if number in known), reverse=True)
        used_first = self._used_first(nodes, reached)
        for number in nodes:
            if number in within and not self._over:
                self._backward(inside(self.reading, within[number]))
            for leaf in used_first.get(number, ()):
                self._give(leaf, sure=number in self.run.surely and leaf in self.run.surely)
            if self._over:
                return
        if self.leaves <= self.ready:
            self.averaged = True
        elif self.leaves <= self.ready | self.maybe:
            self.unsure = True

    def _used_first(self, nodes: Iterable[int], reached: frozenset[int]) -> dict[int, list[int]]:
        """Return the leaves that get their gradient from each of some nodes, which come in the order of a backward."""
        known = self.reading.ledger.nodes
        first_use = {
            leaf: number for number in nodes for leaf in known[number].inputs[known[number].recomputes :]
            if leaf in self.leaves and leaf in reached
        }  # fmt: skip
        used_first: dict[int, list[int]] = {}
        for leaf, number in first_use.items():
            used_first.setdefault(number, []).append(leaf)
        return used_first

    def _give(self, leaf: int, sure: bool) -> None:
        """Give a parameter its gradient."""
        if self.averaged:
            self.late.update((leaf,) if sure else ())
        elif not sure:
            self.maybe.add(leaf)
        elif leaf in self.ready:
            self.twice.add(leaf)
        elif leaf in self.maybe:
            self.unsure = True
        else:
            self.ready.add(leaf)
