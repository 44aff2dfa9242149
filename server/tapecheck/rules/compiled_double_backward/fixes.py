"""A double backward through a compiled call: where to compile instead is the program's own choice."""

from __future__ import annotations

from tapecheck.fixes.candidate import Strategy

STRATEGIES: tuple[Strategy, ...] = ()
"""None."""
