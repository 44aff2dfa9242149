"""Recorded runs: a script is executed under the probe, and what happened is held against what was predicted.

`run` executes a script in the interpreter of the user's choice and returns the tape. `judge` decides for each finding
whether the run confirmed it. `confirm` does both for one file. Only here is user code ever executed.

The module can be called: `with tapecheck.record() as tape:` records a block of the program it stands in.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING

from tapecheck.record.evidence import confirm, judge
from tapecheck.record.run import InterpreterError, Output, Progress, RunError, RunRequest, RunResult, run

__all__ = ["InterpreterError", "Output", "Progress", "RunError", "RunRequest", "RunResult", "confirm", "judge", "run"]

if TYPE_CHECKING:
    from tapecheck.record.inside import Recording


class _Callable(ModuleType):
    def __call__(self, save: str | os.PathLike[str] | None = None) -> Recording:
        """Record a block or, as a decorator, the calls of a function; `save` is a file to keep the tape in."""
        from tapecheck.record.inside import Recording

        return Recording(save)


sys.modules[__name__].__class__ = _Callable
