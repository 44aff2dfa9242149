"""The dry run: source code in, tapes out. The user's code is read, never imported or executed."""

from __future__ import annotations

from tapecheck.interpret.explore.memory import Group, Starts
from tapecheck.interpret.explore.paths import ROOM, Condition, Explored, Interpretation, Part, interpret
from tapecheck.interpret.world import Cancelled

__all__ = ["ROOM", "Cancelled", "Condition", "Explored", "Group", "Interpretation", "Part", "Starts", "interpret"]
