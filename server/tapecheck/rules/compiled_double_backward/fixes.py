"""A double backward through a compiled call: compile it with a backend whose backward has a graph."""

from __future__ import annotations

from tapecheck.fixes.candidate import Strategy
from tapecheck.fixes.strategies.compiled import compile_eagerly

STRATEGIES: tuple[Strategy, ...] = (compile_eagerly,)
"""What is proposed, preferred first."""
