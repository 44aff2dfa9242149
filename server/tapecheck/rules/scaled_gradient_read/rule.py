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


def _reads(reading: Reading) -> Iterable[_Read]:
    """Yield what reads the gradients of leaves by their size, in order."""
    products = {event.node: event.enabled for _, event in reading.scalings if isinstance(event, Scaled)}
    leaves = reading.ledger.leaves
    gradients = gradients_of(reading)
    state: dict[int, tuple[Run, Fact]] = {}
    handed: set[int] = set()
    moments: list[tuple[int, object]] = [*reading.gradient_events, *reading.scalings]
    moments += [(run.position, run) for run in reading.runs if run.backward.accumulates]
    for _, moment in sorted(moments, key=lambda entry: entry[0]):
        if isinstance(moment, Run):
            walked = moment.traversal.executed
            facts = [both(walked[node], enabled) for node, enabled in products.items() if node in walked]
            wanted = moment.backward.inputs
            for number, fact in moment.traversal.executed.items():
                if number not in leaves or (wanted is not None and number not in wanted):
                    continue
                if not facts:
                    # Added to a gradient that is scaled, it is neither the one nor the other.
                    state.pop(number, None)
                elif number not in state:
                    state[number] = moment, both(fact, "yes" if "yes" in facts else "may")
        elif isinstance(moment, (GradientCleared, GradientSet)):
            state.pop(moment.leaf, None)
        elif isinstance(moment, LeafEscape):
            # Told once of each leaf: what unknown code does to scaled gradients it does in every iteration.
            handed |= {leaf for leaf in moment.leaves or state if leaf in state}
        elif isinstance(moment, Unscaled):
            for leaf in list(state) if moment.leaves is None else moment.leaves:
                state.pop(leaf, None)
        elif isinstance(moment, GradientRead) and moment.how and moment.of in leaves and moment.of not in handed:
            if gradients.listed and gradients.steppable and moment.of not in gradients.steppable:
                # No step uses it, whatever its size: `unscale_` passes it over as well.
                continue
            scaled = state.get(moment.of)
            yield _Read(moment, *scaled) if scaled is not None else _Read(moment, None)
