"""What CUDA graphs overwrite is cloned where it is kept: which value that is, the program says."""

from __future__ import annotations

from tapecheck.fixes.candidate import Strategy

STRATEGIES: tuple[Strategy, ...] = ()
"""None."""
