"""What CUDA graphs overwrite: a copy of it, or compiled code without CUDA graphs."""

from __future__ import annotations

from tapecheck.fixes.candidate import Strategy
from tapecheck.fixes.strategies.compiled import compile_without_graphs, result_copied

STRATEGIES: tuple[Strategy, ...] = (result_copied, compile_without_graphs)
"""What is proposed, preferred first."""
