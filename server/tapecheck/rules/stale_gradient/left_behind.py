"""Gradients that are handed from one parameter to another once, and that the next backward does not add to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tapecheck.rules.finding import Finding, Label
from tapecheck.rules.gradients import Gradients, Moment, gradients_of, name_of
from tapecheck.rules.path import undisputed
from tapecheck.rules.reading import Reading
from tapecheck.rules.stale_gradient.facts import StaleGradientFacts
from tapecheck.rules.words import called_from, line, parameters_text, possible, when
from tapecheck.tape import GradientSet, Site, Span


@dataclass(slots=True)
class _Story:
    """A hand-over of gradients that were used twice: `used` and `again` are the steps, `cleared` is where the parameter
    that they came from lost them, and `added` the backward that gave it new ones.
    """

    reading: Reading
    handed: GradientSet
    used: Moment
    again: Moment
    cleared: Moment
    added: Moment
    leaves: list[int] = field(default_factory=list)


def left_behind(readings: Sequence[Reading], code: str, name: str) -> list[Finding]:
    """Return a finding for each place that hands a gradient over which the steps after it use again and again."""
    stories = undisputed(found for reading in readings for found in _stories(reading).items()).values()
    between = ((story, story.used.position, story.again.position) for story in stories)
    return [_finding(story, code, name) for story, *steps in between if not story.reading.untried_between(*steps)]


def _handed(reading: Reading) -> list[tuple[int, GradientSet]]:
    """Return where parameters are handed the gradients of others as they are."""
    events = ((at, event) for at, event in reading.gradient_events if isinstance(event, GradientSet))
    return [(at, event) for at, event in events if event.source is not None and not event.how]


def _stories(reading: Reading) -> dict[Span, _Story | None]:
    """Return the hand-overs of a tape, by place: with None those whose gradient is replaced in time."""
    found: dict[Span, _Story | None] = {}
    handed = _handed(reading)
    if not handed:
        return found
    gradients, again = gradients_of(reading), {at for at, _ in handed}
    replaced: set[Span] = set()
    for position, event in handed:
        if event.leaf not in gradients.steppable:
            continue
        steps, following = _steps_with(gradients, event.leaf, position)
        if following is not None and (following.kind in ("cleared", "read") or following.position in again):
            # It is another one every so many steps, or somebody may write to it.
            replaced.add(event.at.span)
        told = _used_again(gradients, position, event, steps) if steps and not _goes_on(reading, steps[-1].at) else None
        story = found.setdefault(event.at.span, None)
        if told is not None:
            story = story or _Story(reading, event, *told)
            story.leaves.append(event.leaf)
            found[event.at.span] = story
    return {place: story if place not in replaced else None for place, story in found.items()}


def _goes_on(reading: Reading, step: Site) -> bool:
    """Return whether a loop around a step was cut short in which something is done every so many iterations."""
    loops = (reading.loops[loop] for loop, _ in step.iteration if loop in reading.loops)
    return any(loop.periodic and loop.more != "no" for loop in loops)


def _used_again(
    gradients: Gradients, position: int, handed: GradientSet, steps: Sequence[Moment]
) -> tuple[Moment, Moment, Moment, Moment] | None:
    """Return the first of the steps that use a gradient, the one that uses it again, where the parameter that it came
    from lost it before that, and the backward that gave it a new one; None where there is no such step.
    """
    assert handed.source is not None
    if min(map(gradients.unseen_since, (handed.leaf, handed.source))) < position or len(steps) < 2:
        return None
    theirs = [one for one in gradients.after(handed.source, position) if one.kind in ("cleared", "added", "set")]
    if [one.kind for one in theirs[:2]] != ["cleared", "added"]:
        return None
    cleared, added, *_ = theirs
    if not cleared.to_none or added.fact != "yes" or cleared.position < steps[0].position:
        return None
    again = next((step for step in steps if step.position > added.position), None)
    return (steps[0], again, cleared, added) if again is not None else None


def _steps_with(gradients: Gradients, leaf: int, position: int) -> tuple[list[Moment], Moment | None]:
    """Return the steps that use the gradient which a leaf has from a position on, and what happens to it then."""
    steps: list[Moment] = []
    for moment in gradients.after(leaf, position):
        if moment.kind != "stepped":
            return steps, moment
        steps.append(moment)
    return steps, None


def _finding(story: _Story, code: str, name: str) -> Finding:
    reading, handed = story.reading, story.handed
    home = handed.at.span
    mine = [name_of(reading, leaf) for leaf in story.leaves]
    shown = parameters_text(mine) or "these parameters"
    message = "steps use this gradient again and again: it is handed over once"
    again = when(story.used.at, story.again.at)
    cleared = story.cleared.at.span
    labels = [
        Label(story.again.at.span, f"this step uses what it has used{again}", "step"),
        Label(cleared, "the parameters that the gradients came from get rid of them here", "path"),
        Label(story.added.at.span, "these gradients are new tensors, which no step uses", "path"),
        *called_from(reading, handed.at, handed.at),
    ]
    note = (
        f"{shown} keep the gradients of one backward: clearing with `set_to_none=True`, the default since torch 2.0, "
    )
    note += "makes the next backward write to new tensors"
    certain = reading.by_default(handed.at)
    return Finding(
        code, name, "warning", home, message if certain else possible(message),
        "hand the gradients over after each backward, whether or not there are any from before; or keep the tensors "
        f"that both share on {line(cleared, home)}: `zero_grad(set_to_none=False)`",
        tuple(labels), certain,
        facts=StaleGradientFacts(parameters=tuple(mine), unlisted=True, dropped=cleared),
        notes=(note,),
    )  # fmt: skip
