"""TAPE604, compiled-double-backward."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tapecheck.rules.finding import Finding, Label
from tapecheck.rules.raising import at_each_place
from tapecheck.rules.reading import Reading, Run
from tapecheck.rules.rule import Rule
from tapecheck.rules.words import called_from, headline
from tapecheck.tape import Donated, WrapperCall
from tapecheck.tape.ledger import GRADIENT

_RESIZED = 'compiled for inputs of several sizes, it may refuse the first gradient already ("donated buffers")'
_RETAINED = (
    'its backward was compiled for a walk that frees the graph: the first gradient may be refused ("donated buffers")'
)


_OF_FUNCTIONS = ("jacobian", "vjp")
"""The ops of the nodes that stand for what torch.autograd.functional computes of a function."""


@dataclass(frozen=True, slots=True)
class Double:
    """A backward through the gradients that an earlier one, `first`, took of a compiled call with a graph."""

    run: Run
    first: Run
    call: WrapperCall

    @property
    def earlier(self) -> bool:
        """Whether the first gradient may be refused already."""
        return self.call.resized or isinstance(self.first.problem, Donated)


class CompiledDoubleBackward(Rule):
    """A backward goes through the backward of a compiled function, which has no graph of its own."""

    code = "TAPE604"
    name = "compiled-double-backward"
    severity = "error"
    summary = "A second derivative is taken through a compiled function, which torch.compile does not support"
    raises = True

    def judge(self, readings: Sequence[Reading]) -> list[Finding]:
        found = [(reading, double.run.at.span, double) for reading in readings for double in doubles(reading)]
        return [
            self._finding(reading, double, certain and not double.earlier)
            for reading, double, certain in at_each_place(readings, found, Reading.walks_at)
        ]

    def _finding(self, reading: Reading, double: Double, certain: bool) -> Finding:
        at = double.run.at
        roots = [root.name for root in double.run.backward.roots if root.name][:1]
        of = " from `{}`" if roots else ""
        form = f"double backward{of} through a compiled call, which has none"
        labels = [
            Label(double.call.at.span, "this call is compiled", "built"),
            Label(double.first.at.span, "its gradient is taken here with `create_graph=True`", "path"),
            *called_from(reading, at, at),
        ]
        return Finding(
            self.code, self.name, self.severity, at.span, headline(form if certain else f"possible {form}", *roots),
            "take this gradient through the model before it is compiled, or compile it with `backend=\"eager\"`",
            tuple(label for label in labels if label.span != at.span), certain,
            notes=((_RESIZED if double.call.resized else _RETAINED),) if double.earlier else (),
        )  # fmt: skip


def doubles(reading: Reading) -> Iterator[Double]:
    """Yield the first gradient through a compiled call that a later backward goes through."""
    regions = reading.ledger.regions
    taken = (run for run in reading.runs if run.backward.create == "yes" and not run.hindered)
    for first in taken if regions else ():
        walked = regions.keys() & first.surely
        call = next((one for one in (regions[node].call for node in walked) if one.whole == "yes"), None)
        if call is None:
            continue
        built = _gradients(reading, first, walked)
        later = (run for run in reading.runs if run.position > first.position)
        if run := next((run for run in later if not built.isdisjoint(run.surely)), None):
            yield Double(run, first, call)
            return


def _gradients(reading: Reading, run: Run, walked: set[int]) -> set[int]:
    """Return the nodes of the gradients that a backward computes of some others."""
    nodes = reading.ledger.nodes
    end = next((other.position for other in reading.runs if other.position > run.position), len(reading.tape.events))
    between = (nodes[number] for number in reading.nodes_between(run.position, end))
    made = [node for node in between if node.op in (GRADIENT, *_OF_FUNCTIONS) and node.at.span == run.at.span]
    # One that is taken within the call is part of what is compiled; one of a function is of all that it computes.
    within = reading.ledger.regions
    return {
        node.id
        for node in made
        if walked.intersection(node.inputs) or node.id in within or (node.op != GRADIENT and node.linked == "yes")
    }
