"""Gradients that are cleared too early, or clipped at the wrong time: do it at another time, or make the step."""

from __future__ import annotations

from tapecheck.fixes.candidate import Strategy
from tapecheck.fixes.strategies.gradients import clear_at_another_time, clip_in_between, make_the_step

STRATEGIES: tuple[Strategy, ...] = (clear_at_another_time, clip_in_between, make_the_step)
"""What is proposed, preferred first."""
