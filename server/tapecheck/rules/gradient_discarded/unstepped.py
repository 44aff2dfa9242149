"""Gradients that are clipped and cleared in a program whose optimizer never steps: a part of TAPE404."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tapecheck.rules.gradients import Gradients, Moment, gradients_of
from tapecheck.rules.reading import Reading, Run
from tapecheck.tape import Optimizer, Span


@dataclass(frozen=True, slots=True)
class Unstepped:
    """A backward in each round of a loop, whose gradients are limited for a step that never comes, and cleared."""

    reading: Reading
    run: Run
    clipped: Moment
    cleared: Moment
    optimizer: Optimizer
    leaves: set[int]
    owner: str
    """What the program calls the optimizer where it clears; empty where that is not known, or there are several."""


def unstepped(readings: Sequence[Reading]) -> list[Unstepped]:
    """Return the backwards whose gradients no step uses, of programs that are seen to their end on every way.

    Where nothing limits the gradients, somebody may measure how long a backward takes.
    """
    if any(reading.steps for reading in readings):
        return []
    found: dict[Span, Unstepped] = {}
    used: set[Span] = set()
    for reading in readings:
        gradients = gradients_of(reading)
        told = not reading.tape.started and reading.complete and gradients.listed and not gradients.all_escaped
        for run in reading.runs:
            if not run.backward.accumulates:
                continue
            lost = _lost(reading, run) if told else None
            if lost is not None:
                found.setdefault(run.at.span, lost)
            elif _is_used(gradients, run):
                used.add(run.at.span)
    return [one for span, one in found.items() if span not in used]


def _lost(reading: Reading, run: Run) -> Unstepped | None:
    """Return a backward in a loop all of whose gradients are limited and then cleared."""
    gradients = gradients_of(reading)
    leaves = [leaf for leaf in run.executed if leaf in reading.ledger.leaves]
    if run.failed or not run.at.iteration or not leaves or any(fact != "yes" for fact in run.executed.values()):
        return None
    clips, clears = [], []
    for leaf in leaves:
        if leaf not in gradients.steppable or not gradients.only_added_to(leaf):
            return None
        moments = [*_until_cleared(gradients, leaf, run.position)]
        between = moments[:-1]
        if not between or moments[-1].kind != "cleared" or not all(map(_only_clips, between)):
            return None
        clips.append(between[0])
        clears.append(moments[-1])
    first = min(clears, key=lambda moment: moment.position)
    numbers = set().union(*(gradients.steppable[leaf] for leaf in leaves))
    owner = first.call.rpartition(".")[0] if len(numbers) == 1 else ""
    return Unstepped(reading, run, clips[0], first, reading.optimizers[min(numbers)], set(leaves), owner)


def _only_clips(moment: Moment) -> bool:
    """Return whether a gradient is clipped and nothing else: who takes the norm that this returns measures."""
    return moment.change == "limit" and moment.alone


def _until_cleared(gradients: Gradients, leaf: int, position: int) -> Iterator[Moment]:
    """Yield what happens to a gradient behind a backward until it is cleared; what others add is no use of it."""
    for moment in gradients.after(leaf, position):
        if moment.kind != "added":
            yield moment
        if moment.kind == "cleared":
            return


def _is_used(gradients: Gradients, run: Run) -> bool:
    """Return whether a gradient of a backward is looked at otherwise, or goes to code that nobody can look into."""
    for leaf in run.executed:
        if leaf in gradients.steppable and not gradients.only_added_to(leaf):
            return True
        moments = _until_cleared(gradients, leaf, run.position)
        if not all(one.kind == "cleared" or _only_clips(one) for one in moments):
            return True
    return False
