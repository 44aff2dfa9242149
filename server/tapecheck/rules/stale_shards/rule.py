"""TAPE609, stale-shards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tapecheck.rules.facts import Facts
from tapecheck.rules.finding import Finding, Label
from tapecheck.rules.gradients import gradients_of
from tapecheck.rules.reading import Reading
from tapecheck.rules.rule import Rule
from tapecheck.rules.words import MAX_LABELS, called_from, headline
from tapecheck.tape import Span, StaleShards, Wrapper


class StaleShard(Rule):
    """A forward under FSDP2 uses parameters as they were before a step: an earlier forward has kept them gathered."""

    code = "TAPE609"
    name = "stale-shards"
    severity = "warning"
    summary = "A forward under FSDP2 uses parameters as they were before the optimizer's step"

    def judge(self, readings: Sequence[Reading]) -> list[Finding]:
        found = [(reading, *each) for reading in readings for each in _stale(reading)]
        shown: dict[Span, set[int]] = {}
        for reading, event, _ in found:
            shown.setdefault(event.since.span, set()).add(id(reading))
        findings: dict[Span, Finding] = {}
        for reading, event, leaves in found:
            span = event.since.span
            certain = all(id(other) in shown[span] for other in readings if other.builds_at(span) or other.steps)
            findings.setdefault(span, self._finding(reading, event, leaves, certain))
        return list(findings.values())

    def _finding(self, reading: Reading, event: StaleShards, leaves: list[int], certain: bool) -> Finding:
        at = event.since
        names = [name for leaf in leaves if (name := reading.ledger.leaves[leaf].name)][:MAX_LABELS]
        form = "the next step misses {}, which this forward keeps gathered".format("`{}`" if names else "parameters")
        labels = [
            Label(event.step.span, "this step changes the shards", "step"),
            Label(event.at.span, "this forward uses what was gathered before it", "path"),
        ]
        labels += [
            Label(each.at.span, "sharded here", "built")
            for _, each in reading.wrappers
            if isinstance(each, Wrapper) and each.leaves == event.leaves
        ][:1]
        labels += called_from(reading, at, at)
        return Finding(
            self.code, self.name, self.severity, at.span,
            headline(form if certain else "possible forward with parameters from before a step", *names[:1]),
            "run it after the step or before the forward of the backward, call `.reshard()` on the model behind it, or "
            "give `reshard_after_forward=True` to its `fully_shard`",
            tuple(label for label in labels if label.span != at.span), certain,
            facts=Facts(parameters=tuple(names)),
        )  # fmt: skip


def _stale(reading: Reading) -> Iterator[tuple[StaleShards, list[int]]]:
    """Yield the forwards that use parameters from before a step, with those that the step surely changes."""
    for position, event in reading.shards:
        if not isinstance(event, StaleShards):
            continue
        steps = [(at, step) for at, step in reading.steps if at < position and step.at.span == event.step.span]
        if not steps:
            continue
        at, step = steps[-1]
        changed = set(event.leaves) & set(gradients_of(reading).params_at(step.optimizer, at))
        if changed:
            yield event, sorted(changed)
