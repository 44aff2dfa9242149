"""Room for the dry run in its process while it works: deep calls within calls, and many objects before a collection."""

from __future__ import annotations

import gc
import sys
import threading

from tapecheck.interpret import limits


class _Headroom:
    """Python's own limits for the whole process, raised while some thread of it interprets.

    The first to enter sets it, the last to leave puts it back as it was.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._limit = 0
        self._thresholds = (0, 0, 0)
        self._garbage = 0

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._limit = sys.getrecursionlimit()
                self._thresholds = gc.get_threshold()
                sys.setrecursionlimit(max(self._limit, limits.PYTHON_DEPTH))
                gc.set_threshold(max(self._thresholds[0], limits.OBJECTS_BETWEEN_COLLECTIONS), *self._thresholds[1:])

    def __exit__(self, *raised: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                sys.setrecursionlimit(self._limit)
                gc.set_threshold(*self._thresholds)

    def leave_behind(self, work: int) -> None:
        """Note an analysis of so many units of work: it leaves circles behind, which only a collection frees."""
        with self._lock:
            self._garbage += work

    def collect(self) -> None:
        """Collect what analyses have left behind, if that is much."""
        with self._lock:
            much = self._garbage > limits.WORK_BETWEEN_COLLECTIONS
            self._garbage = 0 if much else self._garbage
        if much:
            gc.collect()


HEADROOM = _Headroom()
"""Entered by `interpret`, and around it by who works on with its tapes."""
