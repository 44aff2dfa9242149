"""What earlier entries of the loops did: a loop entered again from the same place runs fewer iterations."""

from __future__ import annotations

from typing import TypeAlias

from tapecheck.tape import Span

LoopKey: TypeAlias = tuple[int, tuple[Span, ...]]
"""A loop by the id of its node and the calls that led to it."""
Row: TypeAlias = tuple[object, ...]
"""An event without what differs between two iterations that do the same: its kind, then its details."""


class LoopHistory:
    """The earlier entries of loops."""

    def __init__(self) -> None:
        self.entered: dict[LoopKey, int] = {}
        """How often each loop was entered."""
        self.work: dict[LoopKey, int] = {}
        """The work that earlier entries of each loop took."""
        self.folded: dict[int, tuple[int, bool]] = {}
        """By the number of a loop that came to repeat itself: its first repeated iteration, and whether no earlier
        entry had shown it."""
        self.compared: dict[LoopKey, list[int]] = {}
        """Hashes of the numbers that a loop compared, up to the end of each iteration."""
        self.shown: dict[LoopKey, list[Row]] = {}
        """What each iteration of a loop that repeats itself does."""

    def enter(self, key: LoopKey) -> int:
        """Note that a loop is entered; return how often it was by now."""
        self.entered[key] = entered = self.entered.get(key, 0) + 1
        return entered

    def work_of(self, key: LoopKey) -> int:
        """Return the work that earlier entries of a loop took."""
        return self.work.get(key, 0)

    def leave(self, key: LoopKey, work: int) -> None:
        """Note the work that an entry of a loop took."""
        self.work[key] = self.work.get(key, 0) + work
