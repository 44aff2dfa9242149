"""Two backwards through one compiled call: one on the sum of the losses."""

from __future__ import annotations

from tapecheck.fixes.candidate import Strategy
from tapecheck.rules.backward_twice.fixes import sum_losses

STRATEGIES: tuple[Strategy, ...] = (sum_losses,)
"""What is proposed, preferred first."""
