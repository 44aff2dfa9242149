"""When a run ends before its program does: after so many iterations or backward calls, or some time."""

from __future__ import annotations

import time
from typing import Callable, NamedTuple

from .lines import RunningLoop


class Limits(NamedTuple):
    """When to end the run: iterations of one training loop, backward calls, seconds, bytes of tape; 0 is no limit."""

    iterations: int = 0
    backwards: int = 0
    seconds: float = 0.0
    tape_bytes: int = 0


class Bounds:
    """The limits of one recorded run, and its clock."""

    def __init__(self, limits: Limits, stop: Callable[[str], object], backwards: Callable[[], int]) -> None:
        self.limits = limits
        self._stop = stop
        self._backwards = backwards
        # Whether every backward may be the last.
        self.any = bool(limits.backwards or limits.seconds)
        self.began = self.checked = time.monotonic()

    def check(self) -> None:
        limits = self.limits
        self.checked = time.monotonic()
        if limits.backwards and self._backwards() >= limits.backwards:
            self._stop("after %d backward calls" % self._backwards())
        if limits.seconds and self.checked - self.began > limits.seconds:
            self._stop("after %g seconds" % limits.seconds)

    def iterated(self, loop: RunningLoop, count: int) -> None:
        """End the program where a training loop has gone round often enough."""
        if self.limits.iterations and count >= self.limits.iterations:
            self._stop("after %d iterations of the loop on line %d" % (count, loop.text.first))
