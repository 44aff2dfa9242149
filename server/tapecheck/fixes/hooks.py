"""Code of the program that torch runs during a backward, where no line of the text shows it: hooks, checkpoints."""

from __future__ import annotations

import re

from tapecheck.fixes.candidate import Context

_REGISTERING = re.compile(r"\bregister_(?:\w+_)?(?:pre)?hook\b|\bsaved_tensors_hooks\b")
"""What registers a hook with a tensor, a module, a node, an optimizer, or for what is saved."""
_COMPUTING_AGAIN = re.compile(
    r"\btorch\.utils\.checkpoint\b|\btorch\.utils\s+import\s*(?:\([^)]*|[^\n]*)\bcheckpoint\b|\butils\.checkpoint\b"
)


def registers_hook(context: Context) -> bool:
    """Return whether a file of the program may register a hook."""
    return any(_REGISTERING.search(text) for text in context.report.texts)


def runs_in_backward(context: Context) -> bool:
    """Return whether a file of the program has code that a backward may run: a hook, or what a checkpoint computes
    again.
    """
    return registers_hook(context) or any(_COMPUTING_AGAIN.search(text) for text in context.report.texts)
