"""A term whose graph is cut: take the cut out."""

from __future__ import annotations

from tapecheck.fixes.candidate import Strategy
from tapecheck.fixes.strategies.cuts import remove_cut
from tapecheck.fixes.strategies.differentiable import stay_in_torch

STRATEGIES: tuple[Strategy, ...] = (
    remove_cut,
    stay_in_torch,
)
"""What is proposed, preferred first."""
