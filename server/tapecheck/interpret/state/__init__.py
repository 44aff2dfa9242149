"""The state of one path through a program, in a few objects with one job each: see `World`."""

from tapecheck.interpret.state.budget import Budget, Cancelled, Exhausted
from tapecheck.interpret.state.calls import Calls
from tapecheck.interpret.state.choices import Asked, Choices, Flag, Place, Policy
from tapecheck.interpret.state.comparisons import Comparisons, Count, Growth, Guard
from tapecheck.interpret.state.compiling import Order, SizedCode, Sizes
from tapecheck.interpret.state.cuts import cuts_of, merge_cuts
from tapecheck.interpret.state.graph import GraphBuilder
from tapecheck.interpret.state.history import LoopHistory, LoopKey, Row
from tapecheck.interpret.state.knowledge import Knowledge
from tapecheck.interpret.state.loops import Loops
from tapecheck.interpret.state.modes import Modes
from tapecheck.interpret.state.position import Frame, Guarded, Position, Risk
from tapecheck.interpret.state.world import World
from tapecheck.interpret.state.writer import TapeWriter

__all__ = [
    "Asked",
    "Budget",
    "Calls",
    "Cancelled",
    "Choices",
    "Comparisons",
    "Count",
    "Exhausted",
    "Flag",
    "Frame",
    "GraphBuilder",
    "Growth",
    "Guard",
    "Guarded",
    "Knowledge",
    "LoopHistory",
    "LoopKey",
    "Loops",
    "Modes",
    "Order",
    "Place",
    "Policy",
    "Position",
    "Risk",
    "Row",
    "SizedCode",
    "Sizes",
    "TapeWriter",
    "World",
    "cuts_of",
    "merge_cuts",
]
