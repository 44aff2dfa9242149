"""Tapecheck: a borrow checker for PyTorch's autograd graph."""

from __future__ import annotations

__version__ = "0.1.0"
