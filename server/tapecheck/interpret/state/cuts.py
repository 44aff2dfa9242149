"""Sets of cuts: the places where a value lost its graph."""

from __future__ import annotations

from tapecheck.interpret.values import Value, may_carry
from tapecheck.interpret.values.unknown import merge_cuts


def cuts_of(*values: Value) -> tuple[int, ...]:
    """Return the cuts that tensors and unknown numbers came through."""
    groups = [value.cuts for value in values if may_carry(value) and value.cuts]
    return merge_cuts(*groups) if groups else ()


__all__ = ["cuts_of", "merge_cuts"]
