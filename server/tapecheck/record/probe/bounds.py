"""When a run ends before its program does: after so many iterations or backward calls, or some time."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from .lines import RunningLoop


class Limits(NamedTuple):
    """When to end the run: iterations of one training loop, backward calls, seconds, bytes of tape; 0 is no limit."""

    iterations: int = 0
    backwards: int = 0
    seconds: float = 0.0
    tape_bytes: int = 0


class Bounds:
    """The limits of one recorded run, and its clock."""

    def __init__(self, recorder: Any, limits: Limits) -> None:
        self.recorder = recorder
        self.limits = limits
        # Whether every backward may be the last.
        self.any = bool(limits.backwards or limits.seconds)
        self.began = self.checked = time.monotonic()

    def check(self) -> None:
        recorder = self.recorder
        limits = self.limits
        self.checked = time.monotonic()
        if limits.backwards and recorder.walks.count >= limits.backwards:
            recorder.stop_program("after %d backward calls" % recorder.walks.count)
        if limits.seconds and self.checked - self.began > limits.seconds:
            recorder.stop_program("after %g seconds" % limits.seconds)

    def iterated(self, loop: RunningLoop, count: int) -> None:
        """End the program where a training loop has gone round often enough."""
        if self.limits.iterations and count >= self.limits.iterations:
            self.recorder.stop_program("after %d iterations of the loop on line %d" % (count, loop.text.first))
