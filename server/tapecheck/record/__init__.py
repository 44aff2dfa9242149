"""Recorded runs: a script is executed under the probe, and what happened is held against what was predicted.

`run` executes a script in the interpreter of the user's choice and gives the tape. `judge` says of each finding
whether the run confirmed it. `confirm` does both for one file. Only here is user code ever executed.
"""

from __future__ import annotations

from tapecheck.record.evidence import confirm, judge
from tapecheck.record.run import Output, Progress, RunError, RunRequest, RunResult, run

__all__ = ["Output", "Progress", "RunError", "RunRequest", "RunResult", "confirm", "judge", "run"]
