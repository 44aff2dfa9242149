"""How much looking may cost. Work is counted, so that a program is looked at alike on every machine.

A unit of work is about what a microsecond did where the costs were measured. A share of the program's own work comes
on top, which is counted, too: by the graph nodes that it built. The clock is a safety valve alone, far beyond what the
counted work takes; whoever is stopped by it says so on the tape.
"""

from __future__ import annotations

import os
import time

NODE = 5
"""Walking a node and asking for what it saved."""
WRITTEN_NODE = 50
"""Describing a node that the tape does not have yet."""
WRITTEN_CALL = 500
"""A backward call on the tape, without its nodes."""
LOOKUP = 2
"""Following a reference from one of the program's values to another."""
OBJECTS_A_UNIT = 8
"""So many of the objects that the collector knows are gone over in one unit."""
_SHARE = 0.25
"""Units for each graph node that the program built: building and walking one takes at least some 25 of them."""
_VALVE_SECONDS = 60.0


def _rate() -> float:
    """Return how fast the clock goes: tests show that verdicts do not hang on it."""
    try:
        return float(os.environ.get("TAPECHECK_CLOCK_RATE", "1"))
    except ValueError:
        return 1.0


_RATE = _rate()


def cpu_seconds() -> float:
    """Return the CPU time of this process."""
    return time.process_time() * _RATE


def seconds() -> float:
    """Return the time of a clock that only goes forward."""
    return time.perf_counter() * _RATE


class Effort:
    """Counted work of one kind: `base` units, and a share of the program's work, may be `spent`.

    `stopped` says that the clock ended it before the units were spent.
    """

    __slots__ = ("base", "seconds", "spent", "stopped")

    def __init__(self, base: int) -> None:
        self.base = base
        self.spent = 0
        self.seconds = 0.0
        self.stopped = False

    def left(self, built: int, part: float = 1.0) -> bool:
        """Return whether work is left after the program has built so many nodes, with a part of `base` only."""
        if self.spent > self.base * part + _SHARE * max(built, 0):
            return False
        if self.seconds > _VALVE_SECONDS:
            self.stopped = True
            return False
        return True

    def took(self, units: int, since: float) -> None:
        """Count work that was begun at a CPU time."""
        self.spent += units
        self.seconds += cpu_seconds() - since
