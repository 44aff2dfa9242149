"""TAPE406, checkpoint-without-gradient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tapecheck.rules.facts import Facts
from tapecheck.rules.finding import Finding, Label
from tapecheck.rules.gradients import Identity, identity, optimizers_of
from tapecheck.rules.reading import Reading, Run, covered, grouped, with_sources
from tapecheck.rules.rule import Rule
from tapecheck.rules.words import called_from, in_full, listed
from tapecheck.tape import Cut, Span


class CheckpointWithoutGradient(Rule):
    """Reentrant checkpointing of inputs without grad drops the gradients of the parameters inside."""

    code = "TAPE406"
    name = "checkpoint-without-gradient"
    severity = "warning"
    of_absence = True
    summary = "Reentrant checkpointing of inputs without grad: parameters inside get no gradient"

    def judge(self, readings: Sequence[Reading]) -> list[Finding]:
        if not any(cut.how == "checkpoint" for reading in readings for cut in reading.ledger.cuts.values()):
            return []
        trained = [(reading, _trained(reading)) for reading in readings]
        told: dict[Span, Finding] = {}
        for reading, own in trained:
            if not reading.complete:
                continue
            others = [(other, there) for other, there in trained if other is not reading]
            here = own.union(*(there for other, there in others if not _of_another_mode(reading, other)))
            anywhere = here.union(*(there for _, there in others))
            for span, lost in _lost(reading, here).items():
                certain = not any(_named(reading, leaf) in anywhere for leaf in lost.leaves)
                told.setdefault(span, self._finding(reading, lost, certain))
        return list(told.values())

    def _finding(self, reading: Reading, lost: _Lost, certain: bool) -> Finding:
        home = lost.cut.at
        names = list(dict.fromkeys(reading.ledger.leaves[leaf].name for leaf in sorted(lost.leaves)))
        named = [name for name in names if name]
        what = f"{{}} {'gets' if len(lost.leaves) == 1 else 'get'} no gradient: reentrant checkpoint"
        message = "reentrant checkpoint of inputs without grad: no gradient"
        message = listed([f"{what}, input without grad", what], named, reading.leaf_names) if named else message
        if not certain:
            message = "possible loss of gradients: reentrant checkpoint, input without grad"
        labels = [Label(lost.run.at.span, "this backward does not come to what is checkpointed", "path")]
        labels += called_from(reading, home, home)
        return Finding(
            self.code, self.name, self.severity, home.span, message,
            "pass `use_reentrant=False` to the checkpoint", tuple(labels), certain,
            facts=Facts(parameters=tuple(names), optimizers=optimizers_of(reading, lost.leaves)),
            notes=tuple(in_full(message, named)),
        )  # fmt: skip


@dataclass(slots=True)
class _Lost:
    """A reentrant checkpoint whose result went as a constant into the graph of a backward, and the parameters
    inside that no backward comes to.
    """

    cut: Cut
    run: Run
    leaves: set[int] = field(default_factory=set)


def _trained(reading: Reading) -> set[tuple[str, Identity]]:
    """Return the leaves that get, or may get, a gradient, or are set in another way."""
    reached = set().union(*(run.executed for run in reading.runs), reading.given)
    given = reading.below(node for _, escape in reading.escapes for node in escape.nodes)
    return {_named(reading, number) for number in (reached | given) & reading.ledger.leaves.keys()}


def _of_another_mode(reading: Reading, other: Reading) -> bool:
    """Return whether two ways differ in a condition that each answers once and for all: a program that is started with
    or without checkpoints, and not one that uses them in some iterations.
    """
    mine, theirs = _asked_once(reading), _asked_once(other)
    return any(span in theirs and theirs[span] != taken for span, taken in mine.items())


def _asked_once(reading: Reading) -> dict[Span, bool]:
    asked = grouped((decision.at.span, decision.taken) for _, decision in reading.decisions)
    return {span: taken[0] for span, taken in asked.items() if len(taken) == 1}


def _named(reading: Reading, leaf: int) -> tuple[str, Identity]:
    """Return what is the same parameter in several tapes: layers that one line makes differ in their names."""
    event = reading.ledger.leaves[leaf]
    return event.name, identity(reading, event)


def _checkpoints(reading: Reading, constants: Sequence[int]) -> list[Cut]:
    """Return the checkpoints whose results went as constants into a graph, and into what those have computed."""
    found = dict[int, Cut]()
    queue = list(constants)
    for number in queue:
        for cut in with_sources(reading, [number]).values():
            if cut.how == "checkpoint" and cut.id not in found:
                found[cut.id] = cut
                queue += reading.cuts_into(reading.below(cut.nodes))
    return list(found.values())


def _meant(reading: Reading) -> set[int]:
    """Return the parameters that are to be trained: what no optimizer has is not, where it is known what they have."""
    parameters = {number for number, leaf in reading.ledger.leaves.items() if leaf.parameter}
    stepping = reading.optimizers.keys() & {step.optimizer for _, step in reading.steps}
    optimizers = [reading.optimizers[number] for number in stepping]
    if not optimizers or any(optimizer.complete != "yes" for optimizer in optimizers):
        return parameters
    return parameters & {leaf for optimizer in optimizers for leaf in optimizer.params}


def _lost(reading: Reading, trained: set[tuple[str, Identity]]) -> dict[Span, _Lost]:
    """Return what checkpoints keep from the backwards of a tape, by the place of the call."""
    meant = {number for number in _meant(reading) if _named(reading, number) not in trained}
    found: dict[Span, _Lost] = {}
    for run, (_, constants) in zip(reading.runs, reading.constants, strict=True):
        if not run.backward.accumulates or run.problem is not None:
            continue
        for cut in _checkpoints(reading, sorted(constants)):
            if leaves := covered(reading, cut) & meant:
                found.setdefault(cut.at.span, _Lost(cut, run)).leaves |= leaves
    return found
