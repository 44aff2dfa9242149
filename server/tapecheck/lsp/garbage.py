"""When the server collects garbage: behind each analysis and not within it.

Python collects after so many new objects, wherever that happens to be; with the tapes of some files in memory a full
collection takes as long as several analyses. What an analysis leaves behind is young, and found quickly.
"""

from __future__ import annotations

import asyncio
import gc

THRESHOLDS = 500_000, 10, 50
"""Python's own while the server runs: for what makes many objects and is no analysis."""

SOON, IDLE = 0.002, 3.0
"""Seconds after an analysis before what is young is collected (its diagnostics go first), and before all is."""

FULL_AFTER = 30
"""Analyses between two full collections."""


def hold() -> None:
    """Set the process up: what is there by now stays, and collections that nobody asks for become rare."""
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


class Garbage:
    """Collects after analyses, all of it while nobody types."""

    def __init__(self) -> None:
        self._idle: asyncio.TimerHandle | None = None
        self._since_full = 0

    def made(self) -> None:
        """Note that an analysis is done; called in the event loop."""
        loop = asyncio.get_running_loop()
        loop.call_later(SOON, gc.collect, 1)
        self._since_full += 1
        self.put_off()
        if self._since_full >= FULL_AFTER:
            self._idle = loop.call_later(IDLE, self._collect_all)

    def closed(self) -> None:
        """Collect behind the analysis of a file that is not open: nobody types, and the next one wants its memory."""
        self._since_full += 1
        if self._since_full < FULL_AFTER:
            gc.collect(1)
        else:
            self._since_full = 0
            gc.collect()

    def put_off(self) -> None:
        """Note that somebody is typing."""
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def _collect_all(self) -> None:
        self._idle = None
        self._since_full = 0
        gc.collect()
