"""Whether the ranks of a run had the same gradients at their steps: what DistributedDataParallel is there for."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from tapecheck.rules.finding import Evidence, Finding, Label
from tapecheck.rules.gradient_not_reduced.rule import GradientNotReduced
from tapecheck.tape import Backward, Leaf, Measure, Named, Span, Step, Tape
from tapecheck.tape.ranks import STEP

_DIGEST = "step-digest"
_APART = "gradient-digest"
_VALUE = "parameter-digest"


class _Digest(NamedTuple):
    """A measure of the recorder's that is compared between ranks; the first of its numbers is that of an optimizer."""

    kind: str
    numbers: list[int]
    value: float


@dataclass(slots=True)
class _Compared:
    """The gradients that the steps of some optimizers used, as the ranks have them; optimizers, steps and parameters by
    their numbers within a rank.
    """

    digests: dict[tuple[int, int], set[float]] = field(default_factory=dict)
    """By optimizer and step: the digests of all gradients."""
    apart: dict[tuple[int, int, int], set[float]] = field(default_factory=dict)
    """By step, optimizer and place of a parameter: those of its gradient."""
    named: dict[tuple[int, int, int], str] = field(default_factory=dict)
    values: dict[tuple[int, int], dict[int, list[float]]] = field(default_factory=dict)
    """By optimizer and place of a parameter that is to be the same in all processes, and by the number of a look: what
    it was. The first looks are before the compared steps, the last one is in the end.
    """

    def add(self, digest: _Digest, names: Mapping[int, str]) -> None:
        """Add what one rank has measured; `names` are those of its leaves."""
        number, second, *about = digest.numbers
        if digest.kind == _DIGEST:
            self.digests.setdefault((number, second), set()).add(digest.value)
        elif digest.kind == _VALUE:
            self.values.setdefault((number, about[0]), {}).setdefault(second, []).append(digest.value)
        else:
            self.apart.setdefault((second, number, about[0]), set()).add(digest.value)
            self.named.setdefault((second, number, about[0]), names.get(about[1], ""))

    def stays_apart(self, step: int, optimizer: int, place: int, ranks: int) -> bool:
        """Return whether a parameter was another on each of so many ranks whenever it was looked at after a step."""
        later = [values for look, values in self.values.get((optimizer, place), {}).items() if look > step]
        return bool(later) and all(len(values) == ranks and len(set(values)) > 1 for values in later)

    def evidence(self, verdict: Literal["confirmed", "found-by-run"], ranks: int) -> Evidence | None:
        """Return what differed at the steps; None where nothing did."""
        found = sum(len(values) > 1 for values in self.digests.values())
        if not found:
            return None
        first = next((where for where, values in sorted(self.apart.items()) if len(values) > 1), None)
        measured: dict[str, int | str] = {"steps": len(self.digests), "differing": found, "of_ranks": ranks}
        detail = f"the gradients of the ranks differed at {found} of {len(self.digests)} compared steps"
        if first is not None and (name := self.named[first]):
            detail, measured["parameter"] = f"{detail}, that of `{name}` first", name
        return Evidence(verdict, detail, None, measured)


def differing(finding: Finding, ranks: Mapping[int, Tape]) -> Evidence | None:
    """Return confirmed where ranks used different gradients at the step of a finding.

    That they were the same shows nothing: all ranks may have had the same data.
    """
    compared = _Compared()
    for tape in ranks.values():
        optimizers, names = _stepped(finding, tape), _names(tape)
        for digest in _digests(tape):
            if digest.numbers[0] in optimizers:
                compared.add(digest, names)
    return compared.evidence("confirmed", len(ranks))


def drifted(ranks: Mapping[int, Tape], told: Collection[tuple[str, int]]) -> Iterator[Finding]:
    """Yield a finding for each optimizer whose parameters DistributedDataParallel is to keep the same, and which stayed
    others on each rank after a step with different gradients. Steps on the lines `told`, of their files, are left out.

    Parameters that are the same again were averaged by the program itself, now and then.
    """
    tapes = [*ranks.values()]
    by_optimizer: dict[int, _Compared] = {}
    for tape in tapes:
        names = _names(tape)
        for digest in _digests(tape):
            by_optimizer.setdefault(digest.numbers[0], _Compared()).add(digest, names)
    for number, compared in sorted(by_optimizer.items()):
        steps = sorted(
            step
            for (step, _, place), values in compared.apart.items()
            if len(values) > 1 and compared.stays_apart(step, number, place, len(tapes))
        )
        evidence = compared.evidence("found-by-run", len(tapes)) if steps else None
        walked = _before(tapes[0], number, steps[0]) if steps else None
        if evidence is not None and walked is not None and place_of(walked[1].at.span) not in told:
            yield _found(*walked, evidence)


def _digests(tape: Tape) -> Iterator[_Digest]:
    for event in tape.events:
        if isinstance(event, Measure):
            kind, *numbers = event.name.split(":")
            if kind in (_DIGEST, _APART, _VALUE):
                yield _Digest(kind, [*map(int, numbers)], event.value)


def place_of(span: Span) -> tuple[str, int]:
    """Return a line with the name of its file: a run may call that by another path."""
    return Path(span.file).name, span.line


def _before(tape: Tape, optimizer: int, compared: int) -> tuple[Backward, Step] | None:
    """Return a step of an optimizer, by its number among those compared, and the last backward before it."""
    found: list[tuple[Backward, Step]] = []
    backward: Backward | None = None
    for event in tape.events:
        if isinstance(event, Backward):
            backward = event
        elif isinstance(event, Step) and event.optimizer % STEP == optimizer and backward is not None:
            found.append((backward, event))
    return found[min(compared, len(found) - 1)] if found else None


def _found(backward: Backward, step: Step, evidence: Evidence) -> Finding:
    rule = GradientNotReduced
    return Finding(
        rule.code, rule.name, rule.severity, backward.at.span, "the processes step with different gradients",
        "before each step, run the last forward and backward through the wrapped model and outside `no_sync`, and wrap "
        "it once all its parameters are there",
        (Label(step.at.span, "this step uses them: the processes drift apart", "step"),), certain=False,
        evidence=evidence, notes=("the parameters differ between the processes from then on",),
    )  # fmt: skip


def _names(tape: Tape) -> dict[int, str]:
    """Return the names of leaves, as their own rank numbers them."""
    names: dict[int, str] = {}
    for event in tape.events:
        if isinstance(event, Leaf):
            names[event.id % STEP] = event.name
        elif isinstance(event, Named):
            names[event.leaf % STEP] = event.name
    return names


def _stepped(finding: Finding, tape: Tape) -> set[int]:
    """Return the optimizers, as their own rank numbers them, that stepped where the finding has the step."""
    lines = {label.span.line for label in finding.labels if label.role == "step"}
    return {event.optimizer % STEP for event in tape.events if isinstance(event, Step) and event.at.line in lines}
