"""TAPE501, scaled-gradient-read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tapecheck.rules.facts import Facts
from tapecheck.rules.finding import Finding, Label, Severity
from tapecheck.rules.gradients import Gradients, Identity, gradients_of, identities
from tapecheck.rules.path import undisputed
from tapecheck.rules.reading import Reading, Run
from tapecheck.rules.rule import Rule
from tapecheck.rules.words import MAX_LABELS, called_from, headline
from tapecheck.tape import (
    Decision,
    Fact,
    GradientCleared,
    GradientRead,
    GradientSet,
    LeafEscape,
    Rescaled,
    Scaled,
    Site,
    Span,
    Step,
    Unscaled,
    both,
)


class ScaledGradientRead(Rule):
    """Gradients are clipped, read or stepped while they are still multiplied by the scale of a GradScaler."""

    code = "TAPE501"
    name = "scaled-gradient-read"
    severity = "warning"
    severities = ("warning", "info")
    of_absence = True
    summary = "Gradients are clipped, read or stepped before the GradScaler has unscaled them"

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
        return findings + [self._of_step(found) for found in _scaled_steps(readings)]

    def _of_step(self, found: _ScaledStep) -> Finding:
        """Return the finding of an optimizer that steps by itself what the scaler has not unscaled."""
        reading, step = found.reading, found.step
        named = [name for leaf in found.leaves if (name := reading.ledger.leaves[leaf].name)]
        call = f"{step.call}()" if step.call else "step()"
        owner = step.call.rpartition(".")[0] or "optimizer"
        labels = [Label(found.run.at.span, _FILLS, "built"), *called_from(reading, step.at, step.at)]
        sure = not any(isinstance(event, Rescaled) for _, event in reading.scalings)
        form = "`{}` uses gradients that are still scaled" if sure else "possible step of scaled gradients, `{}`"
        return Finding(
            self.code, self.name, self.severity, step.at.span, headline([form], call),
            f"call `scaler.step({owner})` in its place: it unscales them, and skips a step of infinite ones",
            tuple(labels), sure,
            facts=Facts(parameters=tuple(named[:MAX_LABELS])), notes=() if sure else (_CHOSEN,),
        )  # fmt: skip

    def _finding(self, reading: Reading, read: _Read, reads: Sequence[_Read], sure: bool) -> Finding:
        assert read.scaled is not None
        run, at = read.scaled, read.event.at
        clips = read.event.kind == "limit"
        changed = clips or read.event.kind == "add"
        severity: Severity = "warning" if changed else "info"
        done, what = ("clipped", "clip") if clips else ("changed", "change") if changed else ("read", "read")
        form = f"gradients are still scaled when they are {done} (missing `unscale_`)"
        names = list(dict.fromkeys(reading.ledger.leaves[each.event.of].name for each in reads))
        labels = [Label(run.at.span, _FILLS, "built")]
        labels += called_from(reading, at, at)
        named = [name for name in names if name]
        return Finding(
            self.code, self.name, severity, at.span,
            headline(form if sure else f"possible {what} of scaled gradients (missing `unscale_`)"),
            "call `scaler.unscale_(optimizer)` before this, once a step",
            tuple(labels), sure,
            facts=Facts(parameters=tuple(named[:MAX_LABELS])), notes=() if sure else (_why_unsure(read),),
        )  # fmt: skip


def _why_unsure(read: _Read) -> str:
    if read.fact != "yes":
        return "the scaler may be switched off: its `enabled` is not known"
    return "on another way through the program they are unscaled here"


_FILLS = "this backward fills `.grad` with the gradients times the scale"


_CHOSEN = "assumes that the learning rate does not make up for the scale, which the program has chosen"


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
        self.plain: set[int] = set()
        """The leaves whose gradient has no scale, or that may have none."""

    def feed(self, moment: object) -> None:
        """Take in the next event."""
        if isinstance(moment, Run):
            self._walked(moment)
        elif isinstance(moment, GradientCleared):
            self.filled.pop(moment.leaf, None)
            self.plain.discard(moment.leaf)
        elif isinstance(moment, GradientSet):
            self._freed(moment.leaf)
        elif isinstance(moment, Unscaled):
            for leaf in list(self.filled) if moment.leaves is None else moment.leaves:
                self._freed(leaf)

    def _freed(self, leaf: int) -> None:
        self.filled.pop(leaf, None)
        self.plain.add(leaf)

    def _walked(self, run: Run) -> None:
        walked, wanted = run.executed, run.backward.inputs
        facts = [both(walked[node], enabled) for node, enabled in self._products.items() if node in walked]
        for number, fact in walked.items():
            if number not in self._leaves or (wanted is not None and number not in wanted):
                continue
            if not facts:
                # Added to a gradient that is scaled, it is neither the one nor the other.
                self._freed(number)
            elif number not in self.filled:
                self.filled[number] = run, both(fact, "yes" if "yes" in facts else "may")


def _reads(reading: Reading) -> Iterable[_Read]:
    """Yield what reads the gradients of leaves by their size, in order."""
    gradients = gradients_of(reading)
    # Without optimizers, or where one may have more than is known, any leaf may be stepped.
    stepped = gradients.steppable if gradients.listed and gradients.steppable else reading.ledger.leaves
    scales = _Scales(reading)
    handed: set[int] = set()
    for _, moment in _moments(reading):
        scales.feed(moment)
        if isinstance(moment, LeafEscape):
            # Told once of each leaf: what unknown code does to scaled gradients it does in every iteration.
            handed |= {leaf for leaf in moment.leaves or scales.filled if leaf in scales.filled}
        elif isinstance(moment, GradientRead) and moment.how and moment.of in reading.ledger.leaves:
            # What no step uses `unscale_` passes over as well.
            if moment.of in stepped and moment.of not in handed:
                scaled = scales.filled.get(moment.of)
                yield _Read(moment, *scaled) if scaled is not None else _Read(moment, None)


def _moments(reading: Reading) -> list[tuple[int, object]]:
    """Return what happens to gradients, and the steps, in order with their positions."""
    moments: list[tuple[int, object]] = [*reading.gradient_events, *reading.scalings, *reading.steps]
    moments += [(run.position, run) for run in reading.runs if run.backward.accumulates]
    return sorted(moments, key=lambda entry: entry[0])


@dataclass(frozen=True, slots=True)
class _ScaledStep:
    """A step that uses scaled gradients of some leaves, and the backward that filled them."""

    reading: Reading
    step: Step
    run: Run
    leaves: tuple[int, ...]


def _scaled_steps(readings: Sequence[Reading]) -> Iterator[_ScaledStep]:
    """Yield the steps that use scaled gradients on every path that comes to them.

    Where something unscales the gradients of any of the parameters on some path, this one may be a mixture of modes.
    Where anything but the scaler may divide by the scale, whether it does is not known.
    """
    scaled = any(isinstance(event, Scaled) for reading in readings for _, event in reading.scalings)
    if not scaled or any(map(_may_be_rescaled, readings)):
        return
    unscaled = set().union(*map(_unscaled, readings))
    for one in undisputed(shown for reading in readings for shown in _steps_shown(reading)).values():
        if unscaled.isdisjoint(identities(one.reading, one.leaves)) and not _in_a_mode(one):
            yield one


def _unscaled(reading: Reading) -> set[Identity]:
    """Return the leaves whose gradients the program unscales."""
    leaves = reading.ledger.leaves
    events = (event for _, event in reading.scalings if isinstance(event, Unscaled))
    return set().union(*(identities(reading, leaves if one.leaves is None else one.leaves) for one in events))


def _steps_shown(reading: Reading) -> Iterator[tuple[Span, _ScaledStep | None]]:
    """Yield the steps of a tape that use scaled gradients, and with None those that may use others, by their places."""
    gradients, scales = gradients_of(reading), _Scales(reading)
    for position, moment in _moments(reading):
        scales.feed(moment)
        if isinstance(moment, Step):
            scaled = _scaled_in(gradients, scales, moment, position)
            if scaled is None:
                yield moment.at.span, None
            elif scaled:
                yield moment.at.span, _ScaledStep(reading, moment, scales.filled[scaled[0]][0], scaled)


def _may_be_rescaled(reading: Reading) -> bool:
    """Return whether something else may divide by the scale.

    So may a hook of a node that the program looks at, and what a backward starts from that is not the product itself.
    """
    if any(isinstance(event, Rescaled) and not event.chosen for _, event in reading.scalings):
        return True
    products = {event.node for _, event in reading.scalings if isinstance(event, Scaled)}
    scaled = [run for run in reading.runs if not products.isdisjoint(run.executed)]
    return any(
        not run.executed.keys().isdisjoint(reading.looked_at)
        or any(root.node not in products for root in run.backward.roots)
        for run in scaled
    )


def _in_a_mode(one: _ScaledStep) -> bool:
    """Return whether an undecided condition decides whether the gradients are scaled, and not about the step."""
    nodes = one.run.executed
    scaled = [event.at for _, event in one.reading.scalings if isinstance(event, Scaled) and event.node in nodes]
    return any(
        any(_decides(decision, at) for at in (one.run.at, *scaled)) and not _decides(decision, one.step.at)
        for _, decision in one.reading.decisions
    )


def _decides(decision: Decision, at: Site) -> bool:
    """Return whether a place, or a call that leads to it, is in the statement that a condition decides about."""
    first = decision.at.span
    last = max(first.end_line, decision.end_line)
    return any(frame.file == first.file and first.line <= frame.line <= last for frame in (at.span, *at.stack))


def _scaled_in(gradients: Gradients, scales: _Scales, step: Step, position: int) -> tuple[int, ...] | None:
    """Return the leaves whose scaled gradients a step uses; None where it may use one without a scale."""
    leaves = set(gradients.params_at(step.optimizer, position))
    scaled = sorted(leaves & scales.filled.keys())
    if leaves & scales.plain or any(gradients.unseen(leaf) or scales.filled[leaf][1] != "yes" for leaf in scaled):
        return None
    return tuple(scaled)
