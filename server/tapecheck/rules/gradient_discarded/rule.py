"""TAPE404, gradient-discarded."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tapecheck.rules.finding import Finding, Label
from tapecheck.rules.gradient_discarded.facts import GradientDiscardedFacts
from tapecheck.rules.gradients import Gradients, Moment, gradients_of, looked_at, name_of
from tapecheck.rules.reading import LoopRun, Reading, Run, remembered
from tapecheck.rules.rule import Rule
from tapecheck.rules.words import backward_form, called_from, headline, line, parameters_text
from tapecheck.tape import GradientRead, GradientSet, Site, Span, Step


class GradientDiscarded(Rule):
    """The gradients of a whole backward are cleared before anything uses them, or clipped when that is of no use."""

    code = "TAPE404"
    name = "gradient-discarded"
    severity = "warning"
    of_absence = True
    needs = frozenset(("base", "effect", "name", "result", "value"))
    summary = "The gradients of a whole backward are cleared before anything uses them"

    def judge(self, readings: Sequence[Reading]) -> list[Finding]:
        stories: dict[Span, _Story] = {}
        used: set[Span] = set()
        behind: set[Span] = set()
        # A way that clears nothing can show that the gradients are used, not that they are lost.
        readings = sorted(readings, key=lambda one: not one.cleared)
        for reading in readings:
            for place, found in _fates(reading).items() if reading.cleared or stories else ():
                if found.discarded and found.discarded >= found.used and not found.unknown:
                    stories.setdefault(place, found)
                elif found.used or found.unknown:
                    # On this way the gradients are used: what else there is hangs on a condition.
                    used.add(place)
                elif found.behind:
                    behind.add(place)
        # A loop that is run once shows nothing of what its other rounds clear.
        used |= {place for place in behind if place in stories and not stories[place].in_rounds}
        told = [self._finding(story) for place, story in stories.items() if place not in used]
        for words, around, events in (
            (_LATE, _around, (GradientRead, GradientSet)),
            (_EARLY, _empty_at, (GradientRead,)),
        ):
            told += [self._clipped(clip, words) for clip in _clips_in_vain(readings, around, events)]
        return told

    def _finding(self, story: _Story) -> Finding:
        reading, run, cleared = story.reading, story.run, story.cleared
        assert reading is not None and run is not None and cleared is not None
        home = run.at.span
        form, names = backward_form(run.backward)
        message = headline(
            [f"the gradients of {form} are cleared before any step", f"{form}: cleared before any step"], *names
        )
        labels = [Label(cleared.at.span, "cleared here, and nothing has used them", "changed")]
        if story.step is not None and story.step.at.span != cleared.at.span:
            had = "this step has those of the last round alone" if story.in_rounds else "this step does not have them"
            labels.append(Label(story.step.at.span, had, "step"))
        labels += called_from(reading, run.at, run.at)
        leaves = [name_of(reading, leaf) for leaf in sorted(story.leaves)]
        shown = parameters_text(leaves)
        of = f" of {shown}" if shown else ""
        note = f"the gradients{of} are computed in vain: {line(cleared.at.span, home)} clears them"
        if story.used:
            # How often, the first iterations alone do not say.
            note += " more often than a step uses them"
        elif story.in_rounds:
            note += " in each round of the loop, and the step behind the loop has those of the last one alone"
        advice = "clear first, then run the backward, then step; or leave the backward out"
        if story.used or story.in_rounds or _in_order(story):
            advice = "clear where the step is made, not before each backward: what several backwards give adds up"
        if not story.leaves & gradients_of(reading).steppable.keys():
            advice = "give these parameters to an optimizer, none has them; or leave the backward out"
        return Finding(
            self.code, self.name, self.severity, home, message, advice,
            tuple(labels),
            facts=GradientDiscardedFacts(parameters=tuple(leaves), cleared=cleared.at.span),
            notes=(note,),
        )  # fmt: skip

    def _clipped(self, clip: _Clip, words: _Words) -> Finding:
        """Return the finding about a clip of gradients that is of no use."""
        labels = [
            Label(moment.at.span, said, role) for moment, (said, role) in zip(clip.around, words.labels, strict=True)
        ]
        return Finding(
            self.code, self.name, self.severity, clip.at.span, words.headline, "clip between the backward and the step",
            (*labels, *called_from(clip.reading, clip.at, clip.at)),
            facts=GradientDiscardedFacts(parameters=(name_of(clip.reading, clip.leaf),)),
        )  # fmt: skip


def _in_order(story: _Story) -> bool:
    """Return whether a later iteration clears, each of which has its backward before its step: only that not every
    iteration makes a step.
    """
    reading, run, cleared, step = story.reading, story.run, story.cleared, story.step
    if reading is None or run is None or cleared is None or step is None:
        return False
    later = dict(cleared.at.iteration)
    return any(later.get(loop, index) > index for loop, index in run.at.iteration) and any(
        other.at.span == run.at.span and other.position < position and other.at.iteration == made.at.iteration
        for position, made in reading.steps
        if made.at.span == step.at.span
        for other in reading.runs
    )


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
    found: dict[Span, _Clip] = {}
    useful: set[Span] = set()
    for reading in readings:
        for position, event in reading.gradient_events if reading.steps and (reading.cleared or found) else ():
            if not isinstance(event, (GradientRead, GradientSet)) or not isinstance(event, events):
                continue
            if event.kind != "limit":
                continue
            leaf = event.of if isinstance(event, GradientRead) else event.leaf
            # The program has what the clip returns.
            between = around(gradients_of(reading), leaf, position) if event.alone else None
            if between is None:
                useful.add(event.at.span)
            elif between:
                found.setdefault(event.at.span, _Clip(reading, event.at, leaf, between))
    return [clip for place, clip in found.items() if place not in useful]


def _empty_at(gradients: Gradients, leaf: int, position: int) -> _Around:
    """Return what has cleared a gradient that is empty at a position and the backward that a step uses afterwards;
    nothing where it never was anything or where nothing comes of it, None where it may be something.
    """
    if gradients.unseen(leaf) or leaf in gradients.handed or leaf not in gradients.steppable:
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
    if gradients.unseen(leaf) or leaf in gradients.handed or leaf not in gradients.steppable:
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
_Fate = Literal["discarded", "used", "left", "unknown"]


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
    reading: Reading | None = None
    run: Run | None = None
    cleared: Moment | None = None
    step: Step | None = None
    leaves: set[int] = field(default_factory=set)


@remembered
def _fates(reading: Reading) -> dict[Span, _Story]:
    found: dict[Span, _Story] = {}
    if not reading.steps:
        return found
    gradients = gradients_of(reading)
    starved = _starved(gradients)
    for run in reading.runs:
        # What a later iteration counts need not be known any more, and how often it clears neither.
        if not run.backward.accumulates or (run.at.iteration and run.at.iteration[-1][1] > _COUNTED):
            continue
        story = found.setdefault(run.at.span, _Story())
        fate, cleared, leaves = _fate(reading, gradients, run, starved)
        if fate == "discarded":
            story.discarded += 1
            story.in_rounds += cleared is not None and _in_rounds(reading, run, cleared.position)
            if story.run is None and cleared is not None:
                story.reading, story.run, story.cleared, story.leaves = reading, run, cleared, leaves
                story.step = _next_step(reading, gradients, cleared, leaves)
        elif fate == "used" and _is_used_behind(reading, gradients, run):
            story.behind += 1
        elif fate == "used":
            story.used += 1
        elif fate == "unknown":
            story.unknown += 1
    for story in found.values():
        if not story.in_rounds and story.discarded:
            story.used, story.behind = story.used + story.behind, 0
    return found


def _loop_of(reading: Reading, run: Run) -> LoopRun | None:
    """Return the loop whose rounds a backward is run in, where no condition that nobody knows may end it earlier."""
    loop = reading.loops.get(run.at.iteration[-1][0]) if run.at.iteration else None
    if loop is None or loop.end is None:
        return None
    asked = any(loop.start < position < loop.end for position, _ in reading.decisions)
    return loop if not asked and any(position > loop.end for position, _ in reading.steps) else None


def _in_rounds(reading: Reading, run: Run, cleared: int) -> bool:
    """Return whether gradients are cleared by the next round of the loop that they were computed in."""
    loop = _loop_of(reading, run)
    return loop is not None and loop.end is not None and run.position < cleared < loop.end


def _is_used_behind(reading: Reading, gradients: Gradients, run: Run) -> bool:
    """Return whether only a step behind the loop uses gradients that each of its rounds computes."""
    loop = _loop_of(reading, run)
    if loop is None or loop.end is None or any(loop.start < position < loop.end for position, _ in reading.steps):
        return False
    leaves = [number for number in run.traversal.executed if number in gradients.steppable]
    after = [next((moment for moment in gradients.after(leaf, run.position)), None) for leaf in leaves]
    return bool(after) and all(
        moment is not None and moment.kind == "stepped" and moment.position > loop.end for moment in after
    )


def _fate(reading: Reading, gradients: Gradients, run: Run, starved: set[int]) -> tuple[_Fate, Moment | None, set[int]]:
    """Return what becomes of the gradients of a backward, with the first clearing and the leaves that it clears."""
    if run.failed or any(fact != "yes" for fact in run.traversal.executed.values()):
        return "unknown", None, set()
    cleared: dict[int, Moment] = {}
    unowned: dict[int, Moment | None] = {}
    for number in [number for number in run.traversal.executed if number in reading.ledger.leaves]:
        fate, moment = _fate_of(gradients, run, number)
        if fate != "discarded":
            return fate, None, set()
        if number not in gradients.steppable:
            # Parameters that no optimizer has, and the program clears them as if one had.
            if gradients.listed and reading.ledger.leaves[number].parameter:
                unowned[number] = moment
        elif moment is not None:
            cleared[number] = moment
    last = max((moment.position for moment in cleared.values()), default=run.position)
    if not cleared and None in unowned.values():
        return "left", None, set()
    cleared = cleared or {leaf: moment for leaf, moment in unowned.items() if moment is not None}
    if cleared and _reads_inside(gradients, run):
        return "used", None, set()
    # The step of parameters that no backward reaches: what is wrong there is told by TAPE402.
    starving = any(run.position < position < last and step.optimizer in starved for position, step in reading.steps)
    if not cleared or starving:
        return "unknown", None, set()
    return "discarded", min(cleared.values(), key=lambda moment: moment.position), set(cleared)


def _fate_of(gradients: Gradients, run: Run, leaf: int) -> tuple[_Fate, Moment | None]:
    """Return what becomes of the gradient of a leaf after a backward, with what clears it, if anything does."""
    if gradients.unseen(leaf) or leaf in gradients.handed:
        return "unknown", None
    if leaf not in gradients.steppable:
        moments = list(gradients.after(leaf, run.position))
        cleared = next((moment for moment in moments if moment.kind == "cleared"), None)
        return ("used", None) if looked_at(moments) else ("discarded", cleared)
    first = next((moment for moment in gradients.after(leaf, run.position) if moment.kind != "added"), None)
    if first is None:
        return "left", None
    return ("discarded", first) if first.kind == "cleared" else ("used", None)


def _reads_inside(gradients: Gradients, run: Run) -> bool:
    """Return whether the program reads the gradient of an intermediate value of a backward after it."""
    return any(
        node in run.traversal.executed and any(run.position <= position for position in positions)
        for node, positions in gradients.nodes_read.items()
    )


def _starved(gradients: Gradients) -> set[int]:
    """Return the optimizers that have a parameter to which no backward adds anything."""
    return {
        optimizer
        for leaf, optimizers in gradients.steppable.items()
        if not any(moment.kind == "added" for moment in gradients.moments(leaf))
        for optimizer in optimizers
    }


def _next_step(reading: Reading, gradients: Gradients, cleared: Moment, leaves: set[int]) -> Step | None:
    """Return the first step after the clearing that has the leaves."""
    for position, step in reading.steps:
        if position > cleared.position and leaves & set(gradients.params_at(step.optimizer, position)):
            return step
    return None
