"""A term whose graph is cut: take the cut out. One of what no optimizer has: hand that over."""

from __future__ import annotations

from tapecheck.fixes.candidate import Strategy
from tapecheck.fixes.strategies.cuts import remove_cut
from tapecheck.fixes.strategies.differentiable import stay_in_torch
from tapecheck.rules.untrained_parameter.fixes import hand_over

STRATEGIES: tuple[Strategy, ...] = (
    remove_cut,
    stay_in_torch,
    hand_over,
)
"""What is proposed, preferred first."""
