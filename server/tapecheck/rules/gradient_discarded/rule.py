"""TAPE404, gradient-discarded."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Literal

from tapecheck.rules.certainty import rest_on
from tapecheck.rules.finding import Finding, Label
from tapecheck.rules.gradient_discarded.facts import GradientDiscardedFacts
from tapecheck.rules.gradient_discarded.unstepped import Unstepped, unstepped
from tapecheck.rules.gradients import (
    Gradients,
    Moment,
    gradients_of,
    has_graphs_alone,
    lists_parameters,
    looked_at,
    name_of,
)
from tapecheck.rules.path import undisputed
from tapecheck.rules.reading import LoopRun, Reading, Run, remembered
from tapecheck.rules.rule import Rule
from tapecheck.rules.words import backward_form, called_from, headline, line, parameters_text
from tapecheck.tape import Assumed, Assumption, GradientRead, GradientSet, Site, Span, Step


class GradientDiscarded(Rule):
    """The gradients of a whole backward are cleared before anything uses them, or clipped when that is of no use."""

    code = "TAPE404"
    name = "gradient-discarded"
    severity = "warning"
    of_absence = True
    needs = frozenset(("base", "effect", "gradient", "name"))
    summary = "The gradients of a whole backward are cleared before anything uses them"

    def judge(self, readings: Sequence[Reading]) -> list[Finding]:
        # A way that clears nothing can show that the gradients are used, not that they are lost.
        readings = sorted(readings, key=lambda one: not one.cleared)
        told = [
            _resting(self._finding(*found), found[1].reading, found[1].leaves) for found in _lost_gradients(readings)
        ]
        told += [self._clipped(clip, _LATE) for clip in _clips_in_vain(readings, _around, (GradientRead, GradientSet))]
        told += [self._clipped(clip, _EARLY) for clip in _clips_in_vain(readings, _empty_at, (GradientRead,))]
        return told + [_resting(self._unstepped(one), one.reading, one.leaves) for one in unstepped(readings)]

    def spares(self, finding: Finding, reading: Reading, event: Assumed, position: int) -> bool:
        return has_graphs_alone(reading, event) or lists_parameters(reading, event)

    def _finding(self, story: _Story, lost: _Lost) -> Finding:
        reading, run, cleared, step = lost.reading, lost.run, lost.cleared, lost.step
        home = run.at.span
        form, names = backward_form(run.backward)
        message = headline(
            [f"the gradients of {form} are cleared before any step", f"{form}: cleared before any step"], *names
        )
        labels = [Label(cleared.at.span, "cleared here, and nothing has used them", "changed")]
        if step is not None and step.at.span != cleared.at.span:
            had = "this step has those of the last round alone" if story.in_rounds else "this step does not have them"
            labels.append(Label(step.at.span, had, "step"))
        labels += called_from(reading, run.at, run.at)
        leaves = [name_of(reading, leaf) for leaf in sorted(lost.leaves)]
        shown = parameters_text(leaves)
        of = f" of {shown}" if shown else ""
        note = f"the gradients{of} are computed in vain: {line(cleared.at.span, home)} clears them"
        if story.used:
            # How often, the first iterations alone do not say.
            note += " more often than a step uses them"
        elif story.in_rounds:
            note += " in each round of the loop, and the step behind the loop has those of the last one alone"
        advice = "clear first, then run the backward, then step; or leave the backward out"
        if story.used or story.in_rounds or _in_order(lost):
            advice = "clear where the step is made, not before each backward: what several backwards give adds up"
        if gradients_of(reading).steppable.keys().isdisjoint(lost.leaves):
            advice = "give these parameters to an optimizer, none has them; or leave the backward out"
        return Finding(
            self.code, self.name, self.severity, home, message, advice,
            tuple(labels),
            facts=GradientDiscardedFacts(parameters=tuple(leaves), cleared=cleared.at.span),
            notes=(note,),
        )  # fmt: skip

    def _unstepped(self, one: Unstepped) -> Finding:
        """Return the finding about a backward that no step follows."""
        reading, run, optimizer = one.reading, one.run, one.optimizer
        home = run.at.span
        form, names = backward_form(run.backward)
        message = headline([f"no step uses the gradients of {form}", f"{form}: no step uses its gradients"], *names)
        labels = [
            Label(one.clipped.at.span, "clipped here, for a step that never comes", "path"),
            Label(one.cleared.at.span, "cleared here, and nothing has used them", "changed"),
            Label(optimizer.at.span, f"`{optimizer.name}` is made here and makes no step", "step"),
        ]
        leaves = [name_of(reading, leaf) for leaf in sorted(one.leaves)]
        step = f"{one.owner}.step()" if one.owner else ""
        call = f"`{step}`" if step else f"`step()` of `{optimizer.name}`"
        return Finding(
            self.code, self.name, self.severity, home, message,
            f"call {call} before the gradients are cleared",
            (*labels, *called_from(reading, run.at, run.at)),
            facts=GradientDiscardedFacts(
                parameters=tuple(leaves), cleared=one.cleared.at.span,
                stepless=True, clipped=one.clipped.at.span, step=step,
            ),
            notes=(f"{parameters_text(leaves) or 'the parameters'} keep the values that they were made with",),
        )  # fmt: skip

    def _clipped(self, clip: _Clip, words: _Words) -> Finding:
        """Return the finding about a clip of gradients that is of no use."""
        labels = [
            Label(moment.at.span, said, role) for moment, (said, role) in zip(clip.around, words.labels, strict=True)
        ]
        finding = Finding(
            self.code, self.name, self.severity, clip.at.span, words.headline, "clip between the backward and the step",
            (*labels, *called_from(clip.reading, clip.at, clip.at)),
            facts=GradientDiscardedFacts(parameters=(name_of(clip.reading, clip.leaf),)),
        )  # fmt: skip
        return _resting(finding, clip.reading, (clip.leaf,))


def _resting(finding: Finding, reading: Reading, leaves: Collection[int]) -> Finding:
    """Return a finding, a possible one where hidden code was given what leads to some of its leaves."""
    gradients = gradients_of(reading)
    given = next(filter(None, map(gradients.led_to, sorted(leaves))), None)
    if given is not None:
        rest_on(finding, Assumption("effect", given[1].at.span, f"`{given[1].to}` leaves what it is given as it is"))
    return finding


def _lost_gradients(readings: Sequence[Reading]) -> list[tuple[_Story, _Lost]]:
    """Return the calls whose gradients are cleared before anything uses them, on each way that shows what becomes of
    them.
    """
    stories: dict[Span, tuple[_Story, _Lost]] = {}
    used: set[Span] = set()
    behind: set[Span] = set()
    for reading in readings:
        for place, found in _fates(reading).items() if reading.cleared or stories else ():
            if found.lost is not None and found.discarded >= found.used and not found.unknown:
                stories.setdefault(place, (found, found.lost))
            elif found.used or found.unknown:
                # On this way the gradients are used: what else there is hangs on a condition.
                used.add(place)
            elif found.behind:
                behind.add(place)
    # A loop that is run once shows nothing of what its other rounds clear.
    used |= {place for place in behind & stories.keys() if not stories[place][0].in_rounds}
    return [found for place, found in stories.items() if place not in used]


def _in_order(lost: _Lost) -> bool:
    """Return whether a later iteration clears, each of which has its backward before its step: only that not every
    iteration makes a step.
    """
    reading, run, later = lost.reading, lost.run, dict(lost.cleared.at.iteration)
    if lost.step is None or not any(later.get(loop, index) > index for loop, index in run.at.iteration):
        return False
    steps = [(at, step.at.iteration) for at, step in reading.steps if step.at.span == lost.step.at.span]
    runs = [(other.position, other.at.iteration) for other in reading.runs_by_site[run.at.span]]
    return any(before < at and there == here for at, here in steps for before, there in runs)


@dataclass(frozen=True, slots=True)
class _Words:
    """What is said of a clip, and of the moments around it, each with its role."""

    headline: str
    labels: tuple[tuple[str, Literal["step", "changed", "path"]], ...]


_LATE = _Words(
    "gradients are clipped after the step: nothing uses what that changes",
    (
        ("this step has used the gradients as they were", "step"),
        ("cleared here, and no step has used what was clipped", "changed"),
    ),
)
_EARLY = _Words(
    "gradients are clipped before the backward: there are none to clip",
    (
        ("cleared here, and nothing has added to them since", "changed"),
        ("the gradients that the step uses come from here", "path"),
    ),
)

_Around = tuple[Moment, Moment] | tuple[()] | None
"""What comes before and after a clip that is of no use; nothing where that does not show, None where it may be used."""


@dataclass(frozen=True, slots=True)
class _Clip:
    """A clip of the gradient of a leaf that is of no use, and what comes before and after it."""

    reading: Reading
    at: Site
    leaf: int
    around: tuple[Moment, Moment]


def _clips_in_vain(
    readings: Sequence[Reading], around: Callable[[Gradients, int, int], _Around], events: tuple[type, ...]
) -> list[_Clip]:
    """Return the clips that are of no use on any way, by what is around them."""
    if not any(reading.cleared for reading in readings):
        return []
    return list(undisputed(shown for reading in readings for shown in _clips(reading, around, events)).values())


def _clips(
    reading: Reading, around: Callable[[Gradients, int, int], _Around], events: tuple[type, ...]
) -> Iterator[tuple[Span, _Clip | None]]:
    """Yield the clips of a tape that are of no use, and with None those that may be of some, by their places."""
    for position, event in reading.gradient_events if reading.steps else ():
        if not isinstance(event, (GradientRead, GradientSet)) or not isinstance(event, events) or event.kind != "limit":
            continue
        leaf = event.of if isinstance(event, GradientRead) else event.leaf
        # The program has what the clip returns.
        between = around(gradients_of(reading), leaf, position) if event.alone else None
        if between != ():
            yield event.at.span, _Clip(reading, event.at, leaf, between) if between else None


def _empty_at(gradients: Gradients, leaf: int, position: int) -> _Around:
    """Return what has cleared a gradient that is empty at a position and the backward that a step uses afterwards;
    nothing where it never was anything or where nothing comes of it, None where it may be something.
    """
    if not gradients.followed(leaf) or leaf not in gradients.steppable:
        return None
    moments = [moment for moment in gradients.moments(leaf) if moment.kind != "read"]
    index = bisect_left(moments, position, key=lambda moment: moment.position)
    if not index:
        return ()
    if moments[index - 1].kind != "cleared":
        return None
    kinds = [(moment.kind, moment.fact) for moment in moments[index : index + 2]]
    return (moments[index - 1], moments[index]) if kinds == [("added", "yes"), ("stepped", "yes")] else ()


def _around(gradients: Gradients, leaf: int, position: int) -> _Around:
    """Return the step before a position and the clearing after it, where there is nothing else between backward and
    backward; nothing where there is no gradient or no clearing, None where what is there at the position may be used.
    """
    if not gradients.only_added_to(leaf) or leaf not in gradients.steppable:
        return None
    moments = gradients.moments(leaf)
    index = bisect_left(moments, position, key=lambda moment: moment.position)
    start = next((n for n in reversed(range(index)) if moments[n].kind == "cleared" and moments[n].to_none), -1) + 1
    end = next((n for n in range(index, len(moments)) if moments[n].kind == "cleared"), len(moments))
    # Whoever took the tensor before the clip has it still, and sees what the clip makes of it.
    if _taken(moments[start:end]):
        return None
    before = next(filter(_acts, reversed(moments[:index])), None)
    if before is None or before.kind == "cleared":
        return ()
    after = next(filter(_acts, moments[index:]), None)
    if before.kind != "stepped" or (after is not None and after.kind != "cleared"):
        return None
    return (before, after) if after is not None else ()


def _acts(moment: Moment) -> bool:
    """Whether a moment is more than a look at the gradient or a clip of it."""
    return moment.kind != "read" and not moment.shapes


def _taken(moments: Sequence[Moment]) -> bool:
    """Return whether the program takes a gradient for anything but the changes in place that leave it in its place."""
    reads: list[Moment] = []
    for moment in moments:
        if moment.kind == "read" and not (moment.alone and moment.change == "limit"):
            reads.append(moment)
        elif moment.kind == "set":
            # What a change in place is called on is read for it: once, in its own words.
            if not (moment.shapes and moment.alone):
                return True
            if reads and _inside(reads[-1].at, moment.at):
                reads.pop()
    return bool(reads)


def _inside(read: Site, change: Site) -> bool:
    """Return whether a place is part of an expression, in the same call and iteration."""
    same = (read.stack, read.iteration) == (change.stack, change.iteration)
    return same and change.span.holds(read.span)


_COUNTED = 3
"""Iterations of a loop that are looked at: these begin as the program does."""
_Fate = Literal["used", "left", "unknown"]


@dataclass(frozen=True, slots=True)
class _Lost:
    """A backward whose gradients are cleared, `cleared` being the first to clear some of the leaves, and the step after
    it that has them.
    """

    reading: Reading
    run: Run
    cleared: Moment
    leaves: set[int]
    step: Step | None


@dataclass(slots=True)
class _Story:
    """What became of the gradients of one call in one tape, run for run.

    `in_rounds` are those of the discarded ones that the next round of the same loop clears, `behind` those of the last
    round, which a step behind the loop uses.
    """

    discarded: int = 0
    used: int = 0
    in_rounds: int = 0
    behind: int = 0
    unknown: int = 0
    lost: _Lost | None = None
    """The first of the discarded ones."""

    def add(self, reading: Reading, run: Run, fate: _Fate | _Lost) -> None:
        """Count what has become of the gradients of a run."""
        if isinstance(fate, _Lost):
            self.discarded += 1
            self.in_rounds += _in_rounds(reading, run, fate.cleared.position)
            self.lost = self.lost or fate
        elif fate == "used" and _is_used_behind(reading, run):
            self.behind += 1
        else:
            self.used += fate == "used"
            self.unknown += fate == "unknown"


@remembered
def _fates(reading: Reading) -> dict[Span, _Story]:
    # What a later iteration counts need not be known any more, and how often it clears neither.
    early = (run for run in reading.runs if not run.at.iteration or run.at.iteration[-1][1] <= _COUNTED)
    found: dict[Span, _Story] = {}
    for run in early if reading.steps else ():
        if run.backward.accumulates:
            found.setdefault(run.at.span, _Story()).add(reading, run, _fate(reading, run))
    for story in found.values():
        if not story.in_rounds and story.discarded:
            story.used, story.behind = story.used + story.behind, 0
    return found


def _loop_of(reading: Reading, run: Run) -> LoopRun | None:
    """Return the loop whose rounds a backward is run in, where no condition that nobody knows may end it earlier."""
    loop = reading.loops.get(run.at.iteration[-1][0]) if run.at.iteration else None
    if loop is None or loop.end is None:
        return None
    asked = any(loop.holds(position) for position, _ in reading.decisions)
    return loop if not asked and any(position > loop.end for position, _ in reading.steps) else None


def _in_rounds(reading: Reading, run: Run, cleared: int) -> bool:
    """Return whether gradients are cleared by the next round of the loop that they were computed in."""
    loop = _loop_of(reading, run)
    return loop is not None and loop.holds(cleared) and run.position < cleared


def _is_used_behind(reading: Reading, run: Run) -> bool:
    """Return whether only a step behind the loop uses gradients that each of its rounds computes."""
    loop, gradients = _loop_of(reading, run), gradients_of(reading)
    if loop is None or any(loop.holds(position) for position, _ in reading.steps):
        return False
    leaves = [number for number in run.executed if number in gradients.steppable]
    after = [next(gradients.after(leaf, run.position), None) for leaf in leaves]
    return bool(after) and all(
        moment is not None and moment.kind == "stepped" and not loop.holds(moment.position) for moment in after
    )


def _fate(reading: Reading, run: Run) -> _Fate | _Lost:
    """Return what becomes of the gradients of a backward."""
    if run.failed or any(fact != "yes" for fact in run.executed.values()):
        return "unknown"
    fates = {leaf: _fate_of(reading, run, leaf) for leaf in run.executed if leaf in reading.ledger.leaves}
    kept = next((fate for fate, _ in fates.values() if fate != "discarded"), None)
    if kept is not None:
        return kept
    lost = _cleared(reading, {leaf: moment for leaf, (_, moment) in fates.items()})
    if lost is None:
        return "left"
    if lost and _reads_inside(reading, run):
        return "used"
    if not lost or _steps_starved(reading, run, lost):
        return "unknown"
    first = min(lost.values(), key=lambda moment: moment.position)
    return _Lost(reading, run, first, set(lost), _next_step(reading, first, lost))


def _cleared(reading: Reading, cleared: Mapping[int, Moment | None]) -> dict[int, Moment] | None:
    """Return by leaves what clears the gradients of those that optimizers have, else of the parameters that none has,
    which the program clears as if one had; None where it leaves some of these.
    """
    lost = {leaf: moment for leaf, moment in cleared.items() if moment is not None}
    unowned = cleared.keys() - gradients_of(reading).steppable
    if owned := {leaf: lost[leaf] for leaf in lost if leaf not in unowned}:
        return owned
    parameters = _parameters(reading, unowned)
    return {leaf: lost[leaf] for leaf in parameters} if parameters <= lost.keys() else None


def _parameters(reading: Reading, leaves: Set[int]) -> set[int]:
    """Return the parameters among some leaves, none where it is not known what optimizers have."""
    known = reading.ledger.leaves
    return {leaf for leaf in leaves if known[leaf].parameter} if gradients_of(reading).listed else set()


def _steps_starved(reading: Reading, run: Run, lost: Mapping[int, Moment]) -> bool:
    """Return whether an optimizer steps parameters that no backward reaches between a backward and where the last of
    its gradients that optimizers have are cleared: what is wrong there is told by TAPE402.
    """
    owned = gradients_of(reading).steppable.keys() & lost.keys()
    last = max((lost[leaf].position for leaf in owned), default=run.position)
    between = {step.optimizer for position, step in reading.steps if run.position < position < last}
    return not between.isdisjoint(_starved(reading))


def _fate_of(reading: Reading, run: Run, leaf: int) -> tuple[_Fate | Literal["discarded"], Moment | None]:
    """Return what becomes of the gradient of a leaf after a backward, with what clears it, if anything does.

    Code that has a loss alone may add to the gradient, which the same line then clears.
    """
    gradients = gradients_of(reading)
    if not gradients.only_added_to(leaf):
        return "unknown", None
    if leaf not in gradients.steppable:
        moments = list(gradients.after(leaf, run.position))
        cleared = next((moment for moment in moments if moment.kind == "cleared"), None)
        return ("used", None) if looked_at(moments) else ("discarded", cleared)
    later = [moment for moment in gradients.after(leaf, run.position) if moment.kind != "added"]
    index = next((n for n, moment in enumerate(later) if moment.kind in ("stepped", "cleared")), len(later))
    if _taken(later[:index]):
        return "used", None
    if index == len(later):
        # Clipped, it is there still: for whom, nobody knows.
        return ("used" if later else "left"), None
    return ("discarded", later[index]) if later[index].kind == "cleared" else ("used", None)


def _reads_inside(reading: Reading, run: Run) -> bool:
    """Return whether the program reads the gradient of an intermediate value of a backward after it."""
    return any(
        node in run.executed and any(run.position <= position for position in positions)
        for node, positions in gradients_of(reading).nodes_read.items()
    )


@remembered
def _starved(reading: Reading) -> set[int]:
    """Return the optimizers that have a parameter to which no backward adds anything."""
    gradients = gradients_of(reading)
    idle = (owners for leaf, owners in gradients.steppable.items() if not gradients.happens(leaf, "added"))
    return set().union(*idle)


def _next_step(reading: Reading, cleared: Moment, leaves: Collection[int]) -> Step | None:
    """Return the first step after the clearing that has any of the leaves."""
    gradients = gradients_of(reading)
    later = ((position, step) for position, step in reading.steps if position > cleared.position)
    has = (step for at, step in later if not set(gradients.params_at(step.optimizer, at)).isdisjoint(leaves))
    return next(has, None)
