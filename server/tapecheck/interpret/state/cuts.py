"""Sets of cuts: the places where a value lost its graph."""

from __future__ import annotations

from tapecheck.interpret import limits
from tapecheck.interpret.values import Tensor, Unknown, Value


def merge_cuts(*groups: tuple[int, ...]) -> tuple[int, ...]:
    """Return the union of cuts, newest kept where there are too many."""
    filled = [group for group in groups if group]
    if len(filled) < 2:
        return filled[0] if filled else ()
    merged = dict.fromkeys(cut for group in filled for cut in group)
    if len(merged) > limits.MAX_CUTS:
        return tuple(sorted(merged)[-limits.MAX_CUTS :])
    return tuple(merged)


def cuts_of(*values: Value) -> tuple[int, ...]:
    """Return the cuts that tensors and unknown numbers came through."""
    groups = [value.cuts for value in values if isinstance(value, (Tensor, Unknown)) and value.cuts]
    return merge_cuts(*groups) if groups else ()
