"""TAPE606, reentrant-checkpoint-grad."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tapecheck.rules.finding import Finding, Label
from tapecheck.rules.raising import at_each_place
from tapecheck.rules.reading import Reading, Run
from tapecheck.rules.reentrant import checkpoints_walked
from tapecheck.rules.reentrant_checkpoint_grad.facts import ReentrantCheckpointGradFacts
from tapecheck.rules.rule import Rule
from tapecheck.rules.words import MAX_LABELS, called_from, headline
from tapecheck.tape import Node


@dataclass(frozen=True, slots=True)
class _Through:
    """A gradient by chosen tensors that certainly goes through reentrant checkpoints."""

    run: Run
    checkpoints: list[Node]


class ReentrantCheckpointGrad(Rule):
    """`autograd.grad`, or a backward with `inputs`, goes through a reentrant checkpoint: it raises."""

    code = "TAPE606"
    name = "reentrant-checkpoint-grad"
    severity = "error"
    summary = "`autograd.grad` or `backward(inputs=...)` goes through a reentrant checkpoint, which refuses it"
    raises = True

    def judge(self, readings: Sequence[Reading]) -> list[Finding]:
        found = [(reading, each.run.at.span, each) for reading in readings for each in _through(reading)]
        return [self._finding(*each) for each in at_each_place(readings, found, Reading.walks_at)]

    def _finding(self, reading: Reading, each: _Through, certain: bool) -> Finding:
        at = each.run.at
        call = "`backward(inputs=...)`" if each.run.backward.accumulates else "`autograd.grad`"
        form = f"{call} through a reentrant checkpoint, which refuses it"
        spans = tuple(dict.fromkeys(node.at.span for node in each.checkpoints))
        labels = [Label(span, "this checkpoint is reentrant", "built") for span in spans[:MAX_LABELS]]
        labels += called_from(reading, at, at)
        return Finding(
            self.code, self.name, self.severity, at.span, headline(form if certain else f"possible {form}"),
            "pass `use_reentrant=False` to the checkpoint, or call `.backward()` without `inputs`",
            tuple(labels), certain, facts=ReentrantCheckpointGradFacts(checkpoints=spans),
        )  # fmt: skip


def _through(reading: Reading) -> Iterator[_Through]:
    for run in reading.runs:
        if run.failed or (run.backward.accumulates and run.backward.inputs is None):
            continue
        # What a gradient is asked for is not walked any further.
        ends = set(run.backward.inputs or ())
        checkpoints = [
            node
            for node in checkpoints_walked(reading, run)
            # A gradient of what is inside alone does not come through it: the engine leaves the region out.
            if node.id not in ends and not ends.isdisjoint(reading.below(node.inputs[1:]))
        ]
        if checkpoints:
            yield _Through(run, checkpoints)
