"""Names of functions and methods by what they do to graphs, where nothing but the name is known."""

from __future__ import annotations

STARTS = frozenset((
    "autograd", "backward", "create_graph", "grad", "manual_backward", "requires_grad", "requires_grad_",
    "retain_graph",
))  # fmt: skip
"""Names that a function which starts a backward, or sees to one, uses."""

TOUCHES = STARTS | frozenset((
    "append", "clear", "data", "detach", "detach_", "eval", "extend", "item", "no_grad", "step", "train", "zero_grad",
))  # fmt: skip
"""Names of what changes a graph, or what keeps one."""

RECORDING = frozenset((
    "add_data", "add_figure", "add_histogram", "add_image", "add_images", "add_scalar", "add_scalars", "add_text",
    "add_video", "debug", "error", "info", "log", "log_dict", "log_metric", "log_metrics", "log_scalar", "logkv",
    "logkv_mean", "print", "record_mean", "set_description", "set_postfix", "set_postfix_str", "warning", "write",
))  # fmt: skip
"""Methods of writers, loggers and progress bars: they take numbers down, no backward starts from what they got."""

LOGGING_CALLS = RECORDING | frozenset((
    "close", "critical", "exit", "flush", "format", "imshow", "join", "makedirs", "mkdir", "plot", "quit", "save",
    "savefig", "show", "warn",
))  # fmt: skip
"""Calls that only tell, show or store: nothing of a graph hangs on whether they are made."""

ANY_LAYER = "torch.nn.AnyLayer"
"""What a class of torch.nn is called whose name nobody knows: one with parameters if it is given sizes."""
