"""Gradients with graphs that are to be averaged: do without the graphs."""

from __future__ import annotations

from tapecheck.fixes.candidate import Strategy
from tapecheck.rules.create_graph_cycle.fixes import drop_create

STRATEGIES: tuple[Strategy, ...] = (drop_create,)
"""What is proposed, preferred first."""
