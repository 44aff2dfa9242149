"""What a change in place, or a look at a gradient, does with the values: read off the name that a tape has for it."""

from __future__ import annotations

from typing import Literal

ChangeKind = Literal["limit", "scale", "add", "clear", "part", "statement", "other"]
"""Values are limited to a range, multiplied, added to or cleared; a part of them is written; a statement changes
them by an op that is not known; any other op does.
"""

_OPS: dict[ChangeKind, tuple[str, ...]] = {
    "limit": (
        "clamp", "clamp_", "clamp_max_", "clamp_min_", "clip", "clip_", "clip_grad", "clip_grad_norm_",
        "clip_grad_value_", "nan_to_num_",
    ),
    "scale": ("div_", "divide_", "mul_", "multiply_", "true_divide_"),
    "add": ("add_", "sub_"),
    "clear": ("zero_", "zero_grad"),
}  # fmt: skip
BROADCAST = "broadcast_buffers"
"""What DistributedDataParallel does to the buffers of a model at a forward."""
_KINDS = {op: kind for kind, ops in _OPS.items() for op in ops}

SHAPING: frozenset[ChangeKind] = frozenset(["limit", "scale", "add"])
"""Changes that leave in a gradient what was in it."""
_FILLS = frozenset((
    "bernoulli_", "cauchy_", "exponential_", "fill_", "geometric_", "log_normal_", "normal_", "random_", "uniform_",
    "zero_",
))  # fmt: skip


def fills(how: str) -> bool:
    """Return whether a change writes constants or random numbers, as `torch.nn.init` does: nothing of other tensors."""
    return how.startswith("init.") or how in _FILLS


def change_kind(how: str) -> ChangeKind:
    """Return the kind of a change from what a tape calls it: an op ("mul_", "data.clamp_"), or words."""
    parts = how.split(".")
    if "setitem" in parts or "[" in how:
        return "part"
    return "statement" if " " in how else _KINDS.get(parts[-1], "other")
