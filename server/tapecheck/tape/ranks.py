"""The tape of a program that ran in several processes: the parts of its ranks, one after the other."""

from __future__ import annotations

from tapecheck.tape.events import End, Measure
from tapecheck.tape.tape import Tape

RANK = "rank"
"""The name of the measure with which the part of a rank begins on a merged tape."""

STEP = 1 << 48
"""By how much the numbers of one rank's nodes, loops, calls, ... are moved for the next one's."""


def parts(tape: Tape) -> dict[int, Tape]:
    """Return the tapes of the ranks of a merged tape; nothing for a tape of one process."""
    found: dict[int, Tape] = {}
    part: Tape | None = None
    for event in tape.events:
        if isinstance(event, Measure) and event.name == RANK:
            part = found[int(event.value)] = Tape(tape.producer)
        elif part is not None:
            part.events.append(event)
            if isinstance(event, End):
                part = None
    return found
