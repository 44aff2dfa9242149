"""What PyTorch raises: at a backward, or told once of a place, where it is certain if each path that comes there shows
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from tapecheck.rules.reading import Reading, Run, Why
from tapecheck.tape import Span

Shown = TypeVar("Shown")


def failing(readings: Sequence[Reading], kind: type[Why]) -> Iterator[tuple[Reading, Run, Why]]:
    """Yield the backwards that certainly raise for a reason of a kind."""
    for reading in readings:
        yield from ((reading, run, why) for run in reading.runs if (why := run.fails(kind)) is not None)


def at_each_place(
    readings: Sequence[Reading],
    found: Sequence[tuple[Reading, Span, Shown]],
    comes_to: Callable[[Reading, Span], bool],
) -> Iterator[tuple[Reading, Shown, bool]]:
    """Yield what was found first at each place, with its path and whether it is certain: no path that shows nothing of
    the kind comes to the place. `comes_to` says which paths come there in the way in which it raises.
    """
    raising = {id(reading) for reading, _, _ in found}
    told: set[Span] = set()
    for reading, span, shown in found:
        if span not in told:
            told.add(span)
            yield reading, shown, not any(comes_to(each, span) for each in readings if id(each) not in raising)
