"""Whether a compiled backward retains its graph, its first walk decides: what is meant, the program says."""

from __future__ import annotations

from tapecheck.fixes.candidate import Strategy

STRATEGIES: tuple[Strategy, ...] = ()
"""None."""
