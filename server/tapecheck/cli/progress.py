"""How far long work has come: one changing line on a terminal, else a line of its own every so often.

A process that passes it on (`tapecheck mcp`) has it as JSON, behind a mark that nothing else prints.
"""

from __future__ import annotations

import json
import os
import sys
import time
from types import TracebackType

from tapecheck.agents import MARK, PROGRESS_EVERY
from tapecheck.report.excerpt import printable, width

_FIRST = 1.0
"""Seconds before anything is shown: short work says nothing of itself."""
_AGAIN = 0.1
_LINE_AFTER = 15.0
"""Seconds between lines where there is no terminal: a log shows that the work goes on, and is not flooded."""


class PassedOn:
    """Writes how far work has come for the process that has started this one, where that wants it."""

    def __init__(self) -> None:
        self._mark = os.environ.get(MARK, "")
        self._next = time.monotonic() + PROGRESS_EVERY
        self._last = 0

    def __bool__(self) -> bool:
        return bool(self._mark)

    def tell(self, done: int, total: int | None, words: str) -> None:
        """Say that `done` of `total` are done, unless something was said just now or no more are done by now."""
        now = time.monotonic()
        if self._mark and now >= self._next and done > self._last:
            self._next, self._last = now + PROGRESS_EVERY, done
            # One write, which no other thread's can come into.
            sys.stderr.write(f"{self._mark}{json.dumps([done, total, words])}\n")
            sys.stderr.flush()


class Progress:
    """Shows `12/340 checked: path` on standard error, in place where that is a terminal."""

    def __init__(self, total: int, done: str, *, hidden: bool = False) -> None:
        self.total = total
        self.done = done
        self.count = 0
        self._shown = False
        self._passed_on = PassedOn()
        self._wanted = not hidden
        self._in_place = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._next = time.monotonic() + (_FIRST if self._in_place else _LINE_AFTER)

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
        if self._passed_on:
            self._passed_on.tell(self.count, self.total, f"{self.done}: {printable(name)}")
            return
        now = time.monotonic()
        if not self._wanted or now < self._next:
            return
        row = f"{self.count}/{self.total} {self.done}: {printable(name)}"
        if not self._in_place:
            self._next = now + _LINE_AFTER
            print(row, file=sys.stderr, flush=True)
            return
        self._next = now + _AGAIN
        self._shown = True
        try:
            # Some terminals do not know their size and say 0.
            columns = os.get_terminal_size(sys.stderr.fileno()).columns or 80
        except OSError:
            columns = 80
        while width(row) >= columns and len(row) > 1:
            row = row[: len(row) - max(1, width(row) - columns + 1)]
        print(f"\r\x1b[K{row}", end="", file=sys.stderr, flush=True)
