"""The dry run: source code in, tapes out. The user's code is read, never imported or executed."""

from __future__ import annotations

from tapecheck.interpret import limits
from tapecheck.interpret.explore import faults
from tapecheck.interpret.explore.headroom import HEADROOM
from tapecheck.interpret.explore.memory import Group, Starts
from tapecheck.interpret.explore.program import interpret
from tapecheck.interpret.explore.results import Condition, CutShort, Explored, Interpretation, Outcome
from tapecheck.interpret.explore.training import Reach, reach_of, trainers_of
from tapecheck.interpret.explore.wanted import Claim
from tapecheck.interpret.state import Cancelled

__all__ = [
    "HEADROOM",
    "Cancelled",
    "Claim",
    "Condition",
    "CutShort",
    "Explored",
    "Group",
    "Interpretation",
    "Outcome",
    "Reach",
    "Starts",
    "faults",
    "interpret",
    "limits",
    "reach_of",
    "trainers_of",
]
