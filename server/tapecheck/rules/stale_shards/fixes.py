"""A forward that uses parameters from before a step: where to move it is the program's own choice."""

from __future__ import annotations

from tapecheck.fixes.candidate import Strategy

STRATEGIES: tuple[Strategy, ...] = ()
"""None."""
