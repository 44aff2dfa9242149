"""Internal errors of the dry run: each costs the path or the start it happens in, and nothing else."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Fault:
    """An internal error, and what was being analysed.

    `start` is the function that was started, empty for the module. `file` and `line` are the last place of the user's
    code that an event was recorded at. `error` names the exception and the line of Tapecheck that raised it.
    """

    start: str
    file: str
    line: int
    error: str

    @property
    def message(self) -> str:
        """Return the sentence for people, without the place."""
        what = f"`{self.start}`" if self.start else "the module level"
        return f"internal error while analysing {what}: {self.error}; the rest of the file was checked"


def note(error: Exception, start: str, file: str, line: int) -> Fault:
    """Return what is reported of an internal error."""
    return Fault(start, file, line, described(error))


def described(error: Exception) -> str:
    """Return an exception in one line: its type, its message and where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}: {error}{place}"
