"""Two backwards through one compiled call: one on the sum of the losses, or a backend that compiles no backward."""

from __future__ import annotations

from tapecheck.fixes.candidate import Strategy
from tapecheck.fixes.strategies.compiled import compile_eagerly
from tapecheck.rules.backward_twice.fixes import sum_losses

STRATEGIES: tuple[Strategy, ...] = (sum_losses, compile_eagerly)
"""What is proposed, preferred first."""
