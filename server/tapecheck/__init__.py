"""Tapecheck: a borrow checker for PyTorch's autograd graph."""

from __future__ import annotations

from tapecheck.version import __version__

__all__ = ["__version__"]


def __getattr__(name: str) -> object:
    """`tapecheck.record` is there once it is asked for: the rest needs none of it."""
    if name == "record":
        import importlib

        return importlib.import_module("tapecheck.record")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
