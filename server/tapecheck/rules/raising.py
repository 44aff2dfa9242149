"""What PyTorch raises at a place: told once, and certain where each path that comes there shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from tapecheck.rules.reading import Reading
from tapecheck.tape import Span

Shown = TypeVar("Shown")


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
