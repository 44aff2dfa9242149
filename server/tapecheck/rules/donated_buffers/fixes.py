"""Whether a compiled backward retains its graph, its first walk decides: a backend without one has no such rule."""

from __future__ import annotations

from tapecheck.fixes.candidate import Strategy
from tapecheck.fixes.strategies.compiled import compile_eagerly

STRATEGIES: tuple[Strategy, ...] = (compile_eagerly,)
"""What is proposed, preferred first."""
