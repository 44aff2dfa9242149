"""TAPE607, averaged-with-graph."""

from __future__ import annotations

from collections.abc import Sequence

from tapecheck.rules.facts import Facts
from tapecheck.rules.finding import Finding, Label
from tapecheck.rules.raising import at_each_place
from tapecheck.rules.reading import Reading
from tapecheck.rules.reduction import WithGraph, reductions_of, wrapped_here
from tapecheck.rules.rule import Rule
from tapecheck.rules.words import MAX_LABELS, called_from


class AveragedWithGraph(Rule):
    """A backward with `create_graph=True` gives DistributedDataParallel gradients with graphs to average: it raises."""

    code = "TAPE607"
    name = "averaged-with-graph"
    severity = "error"
    summary = "DistributedDataParallel raises: `backward(create_graph=True)` gives it gradients with graphs to average"
    raises = True

    def judge(self, readings: Sequence[Reading]) -> list[Finding]:
        found = [
            (reading, each.run.at.span, each) for reading in readings for each in reductions_of(reading).with_graph
        ]
        return [self._finding(*each) for each in at_each_place(readings, found, Reading.walks_at)]

    def _finding(self, reading: Reading, each: WithGraph, certain: bool) -> Finding:
        at, certain = each.run.at, certain and each.wrapper.several == "yes"
        # Where parameters may be unused the first buckets are small: what lies in one of its own does not raise.
        certain = certain and each.wrapper.unused == "no"
        form = "DDP cannot average gradients with a graph: `create_graph=True` raises"
        names = [reading.ledger.leaves[leaf].name for leaf in each.leaves]
        return Finding(
            self.code, self.name, self.severity, at.span,
            form if certain else "possible refusal of DDP to average gradients with a graph",
            "drop `create_graph=True`, or take the gradients with `torch.autograd.grad(…, create_graph=True)` and "
            "average them with `torch.distributed.all_reduce`",
            (Label(each.wrapper.at.span, wrapped_here(each.wrapper), "built"), *called_from(reading, at, at)), certain,
            facts=Facts(parameters=tuple([name for name in names if name][:MAX_LABELS])),
        )  # fmt: skip
