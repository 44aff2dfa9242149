"""Names of functions and methods by what they do to graphs, where nothing but the name is known."""

from __future__ import annotations

STARTS = frozenset((
    "autograd", "backward", "create_graph", "grad", "manual_backward", "requires_grad", "requires_grad_",
    "retain_graph",
))  # fmt: skip
"""Names that a function which starts a backward, or sees to one, uses."""

TOUCHES = STARTS | frozenset((
    "append", "clear", "data", "detach", "detach_", "eval", "extend", "grad", "item", "no_grad", "step", "train",
    "zero_grad",
))  # fmt: skip
"""Names of what changes a graph, keeps one, or looks at a gradient."""

ANY_LAYER = "torch.nn.AnyLayer"
"""What a class of torch.nn is called whose name nobody knows: one with parameters if it is given sizes."""

ANY_NAME = "getattr"
"""What an attribute is called whose name nobody knows: any that its object has."""
