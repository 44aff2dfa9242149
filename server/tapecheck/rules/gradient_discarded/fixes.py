"""Gradients that are cleared too early: clear them at another time."""

from __future__ import annotations

from tapecheck.fixes.candidate import Strategy
from tapecheck.fixes.strategies.gradients import clear_at_another_time

STRATEGIES: tuple[Strategy, ...] = (clear_at_another_time,)
"""What is proposed, preferred first."""
