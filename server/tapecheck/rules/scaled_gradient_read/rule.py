"""TAPE501, scaled-gradient-read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tapecheck.rules.facts import Facts
from tapecheck.rules.finding import Finding, Label, Severity
from tapecheck.rules.gradients import gradients_of
from tapecheck.rules.reading import Reading, Run
from tapecheck.rules.rule import Rule
from tapecheck.rules.words import MAX_LABELS, called_from, headline
from tapecheck.tape import Fact, GradientCleared, GradientRead, GradientSet, LeafEscape, Scaled, Span, Unscaled, both


class ScaledGradientRead(Rule):
    """Gradients are clipped or read while they are still multiplied by the scale of a GradScaler."""

    code = "TAPE501"
    name = "scaled-gradient-read"
    severity = "warning"
    severities = ("warning", "info")
    of_absence = True
    summary = "Gradients are clipped or read before the GradScaler has unscaled them"

    def judge(self, readings: Sequence[Reading]) -> list[Finding]:
        told: dict[Span, list[tuple[Reading, _Read]]] = {}
        plain: set[Span] = set()
        for reading in readings:
            if any(isinstance(event, Scaled) for _, event in reading.scalings):
                for read in _reads(reading):
                    if read.scaled is None:
                        plain.add(read.event.at.span)
                    else:
                        told.setdefault(read.event.at.span, []).append((reading, read))
        findings = []
        for span, reads in told.items():
            reading, read = next(((r, x) for r, x in reads if x.fact == "yes"), reads[0])
            mine = [other for of, other in reads if of is reading]
            findings.append(self._finding(reading, read, mine, sure=read.fact == "yes" and span not in plain))
        return findings

    def _finding(self, reading: Reading, read: _Read, reads: Sequence[_Read], sure: bool) -> Finding:
        assert read.scaled is not None
        run, at = read.scaled, read.event.at
        clips = read.event.kind == "limit"
        changed = clips or read.event.kind == "add"
        severity: Severity = "warning" if changed else "info"
        done, what = ("clipped", "clip") if clips else ("changed", "change") if changed else ("read", "read")
        form = f"gradients are still scaled when they are {done} (missing `unscale_`)"
        names = list(dict.fromkeys(reading.ledger.leaves[each.event.of].name for each in reads))
        labels = [Label(run.at.span, "this backward fills `.grad` with the gradients times the scale", "built")]
        labels += called_from(reading, at, at)
        named = [name for name in names if name]
        return Finding(
            self.code, self.name, severity, at.span,
            headline(form if sure else f"possible {what} of scaled gradients (missing `unscale_`)"),
            "call `scaler.unscale_(optimizer)` before this, once a step",
            tuple(labels), sure,
            facts=Facts(parameters=tuple(named[:MAX_LABELS])),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Read:
    """Something that hangs on how large a leaf's gradient is.

    `scaled` is the backward that filled it with a scaled one, None where it is as it should be, `fact` whether the
    scaler is known to be switched on.
    """

    event: GradientRead
    scaled: Run | None
    fact: Fact = "yes"


class _Scales:
    """The gradients of leaves that are multiplied by the scale, as the events of a tape make them so."""

    def __init__(self, reading: Reading) -> None:
        self._leaves = reading.ledger.leaves
        self._products = {event.node: event.enabled for _, event in reading.scalings if isinstance(event, Scaled)}
        self.filled: dict[int, tuple[Run, Fact]] = {}
        """Of each such leaf the backward that filled its gradient, and whether the scaler is known to be on."""

    def feed(self, moment: object) -> None:
        """Take in the next event."""
        if isinstance(moment, Run):
            self._walked(moment)
        elif isinstance(moment, (GradientCleared, GradientSet)):
            self.filled.pop(moment.leaf, None)
        elif isinstance(moment, Unscaled):
            for leaf in list(self.filled) if moment.leaves is None else moment.leaves:
                self.filled.pop(leaf, None)

    def _walked(self, run: Run) -> None:
        walked, wanted = run.traversal.executed, run.backward.inputs
        facts = [both(walked[node], enabled) for node, enabled in self._products.items() if node in walked]
        for number, fact in walked.items():
            if number not in self._leaves or (wanted is not None and number not in wanted):
                continue
            if not facts:
                # Added to a gradient that is scaled, it is neither the one nor the other.
                self.filled.pop(number, None)
            elif number not in self.filled:
                self.filled[number] = run, both(fact, "yes" if "yes" in facts else "may")


def _reads(reading: Reading) -> Iterable[_Read]:
    """Yield what reads the gradients of leaves by their size, in order."""
    gradients = gradients_of(reading)
    # Without optimizers, or where one may have more than is known, any leaf may be stepped.
    stepped = gradients.steppable if gradients.listed and gradients.steppable else reading.ledger.leaves
    scales = _Scales(reading)
    handed: set[int] = set()
    moments: list[tuple[int, object]] = [*reading.gradient_events, *reading.scalings]
    moments += [(run.position, run) for run in reading.runs if run.backward.accumulates]
    for _, moment in sorted(moments, key=lambda entry: entry[0]):
        scales.feed(moment)
        if isinstance(moment, LeafEscape):
            # Told once of each leaf: what unknown code does to scaled gradients it does in every iteration.
            handed |= {leaf for leaf in moment.leaves or scales.filled if leaf in scales.filled}
        elif isinstance(moment, GradientRead) and moment.how and moment.of in reading.ledger.leaves:
            # What no step uses `unscale_` passes over as well.
            if moment.of in stepped and moment.of not in handed:
                scaled = scales.filled.get(moment.of)
                yield _Read(moment, *scaled) if scaled is not None else _Read(moment, None)
