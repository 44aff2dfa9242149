"""The tape: the record of what a program does to autograd graphs.

`events` is the vocabulary, `ledger` says what PyTorch's engine does with it, `store` keeps it as JSON lines.
Standard library only: every other room may import this one, this one imports none.
"""

from __future__ import annotations

from tapecheck.tape.events import (
    LEFT_OVER,
    Backward,
    Bind,
    Cut,
    Decision,
    End,
    Escape,
    Event,
    Fact,
    GradientCleared,
    Hold,
    InPlace,
    Iteration,
    Leaf,
    Loop,
    LoopEnd,
    Measure,
    Node,
    Optimizer,
    Raised,
    Root,
    Saved,
    Site,
    Span,
    Step,
    Tape,
    both,
    either,
)
from tapecheck.tape.ledger import Ledger, Problem, Traversal
from tapecheck.tape.store import TapeError, read_tape, write_tape

__all__ = [
    "LEFT_OVER",
    "Backward",
    "Bind",
    "Cut",
    "Decision",
    "End",
    "Escape",
    "Event",
    "Fact",
    "GradientCleared",
    "Hold",
    "InPlace",
    "Iteration",
    "Leaf",
    "Ledger",
    "Loop",
    "LoopEnd",
    "Measure",
    "Node",
    "Optimizer",
    "Problem",
    "Raised",
    "Root",
    "Saved",
    "Site",
    "Span",
    "Step",
    "Tape",
    "TapeError",
    "Traversal",
    "both",
    "either",
    "read_tape",
    "write_tape",
]
