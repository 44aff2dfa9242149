"""TAPE106, array-of-graph."""

from __future__ import annotations

from collections.abc import Sequence

from tapecheck.rules.array_of_graph.facts import ArrayOfGraphFacts
from tapecheck.rules.finding import Finding, Label
from tapecheck.rules.raising import at_each_place
from tapecheck.rules.reading import Reading
from tapecheck.rules.rule import Rule
from tapecheck.rules.words import called_from, headline, possible
from tapecheck.tape import Hold, Raised, Span

HEADLINE = "NumPy is given a tensor that requires grad"
"""What is said where the tensor has no name."""
MESSAGE = "Can't call numpy() on Tensor that requires grad"
"""What PyTorch says."""


class ArrayOfGraph(Rule):
    """NumPy gets no array of a tensor that requires grad, while autograd records."""

    code = "TAPE106"
    name = "array-of-graph"
    severity = "error"
    recorded = True
    raises = True
    summary = "NumPy is given a tensor that requires grad: PyTorch makes no array of it"

    def judge(self, readings: Sequence[Reading]) -> list[Finding]:
        found = [
            (reading, raised.at.span, raised)
            for reading in readings
            # Whoever calls a function may do so under `torch.no_grad()`.
            if not reading.tape.started
            for raised in reading.raised
            if MESSAGE in raised.message and not raised.caught and raised.node is not None
        ]
        told = at_each_place(readings, found, _comes_to)
        return [self._finding(reading, raised, certain) for reading, raised, certain in told]

    def _finding(self, reading: Reading, raised: Raised, certain: bool) -> Finding:
        assert raised.node is not None
        home, made = raised.at.span, reading.site(raised.node)
        bound = reading.binds.get(raised.node, ())
        leaf = reading.ledger.leaves.get(raised.node)
        name = leaf.name if leaf is not None else bound[-1][1].name if bound else ""
        labels = []
        if made is not None and made.span.line != home.line:
            what = "is made here, and requires grad" if leaf is not None else "gets its graph here"
            labels.append(Label(made.span, f"`{name}` {what}" if name else f"the tensor {what}", "built"))
        labels += _stored(reading, raised.node, home)
        labels += called_from(reading, raised.at, raised.at)
        said = headline(["NumPy is given `{}`, which requires grad", "NumPy is given `{}`: it requires grad"], name)
        said = said if name else HEADLINE
        return Finding(
            self.code, self.name, self.severity, home, said if certain else possible(said),
            "`.detach()` what is only looked at; compute a loss in torch: an array has no graph",
            tuple(labels), certain,
            facts=ArrayOfGraphFacts(tensor=name),
        )  # fmt: skip


def _comes_to(reading: Reading, place: Span) -> bool:
    """Return whether a way comes to a place at which another one raises: without a graph, it goes on there."""
    return (place.file, place.line) in reading.lines


def _stored(reading: Reading, node: int, home: Span) -> list[Label]:
    """Return where the program has put a tensor that it makes an array of with others, if it did so in a loop."""
    stored = (event for event in reading.tape.events if isinstance(event, Hold) and node in event.nodes)
    first = next(stored, None)
    if first is None or first.at.span.line == home.line:
        return []
    return [Label(first.at.span, f"`{first.holder}` gets it here", "kept")]
