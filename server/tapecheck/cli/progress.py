"""How far long work has come, on a terminal, and gone without a trace once it is done."""

from __future__ import annotations

import os
import sys
import time
from types import TracebackType

from tapecheck.report.excerpt import printable, width

_FIRST = 1.0
"""Seconds before anything is shown: short work says nothing of itself."""
_AGAIN = 0.1


class Progress:
    """Shows `12/340 checked: path` on standard error where that is a terminal."""

    def __init__(self, total: int, done: str, *, hidden: bool = False) -> None:
        self.total = total
        self.done = done
        self.count = 0
        self._shown = False
        self._next = time.monotonic() + _FIRST
        self._wanted = not hidden and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def step(self, name: str) -> None:
        """Count one more, and show it unless something was shown just now."""
        self.count += 1
        now = time.monotonic()
        if not self._wanted or now < self._next:
            return
        self._next = now + _AGAIN
        self._shown = True
        row = f"{self.count}/{self.total} {self.done}: {printable(name)}"
        try:
            # Some terminals do not know their size and say 0.
            columns = os.get_terminal_size(sys.stderr.fileno()).columns or 80
        except OSError:
            columns = 80
        while width(row) >= columns and len(row) > 1:
            row = row[: len(row) - max(1, width(row) - columns + 1)]
        print(f"\r\x1b[K{row}", end="", file=sys.stderr, flush=True)
