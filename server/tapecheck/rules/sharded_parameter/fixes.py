"""Parameters in shards: how the program is to come to the whole ones is its own choice."""

from __future__ import annotations

from tapecheck.fixes.candidate import Strategy

STRATEGIES: tuple[Strategy, ...] = ()
"""None."""
