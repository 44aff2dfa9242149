"""Hooks: code of the program that torch calls with values and gradients, where no line of the text shows it."""

from __future__ import annotations

import re

from tapecheck.fixes.candidate import Context
from tapecheck.fixes.overloaded import texts

_REGISTERING = re.compile(r"\bregister_(?:\w+_)?(?:pre)?hook\b|\bsaved_tensors_hooks\b")
"""What registers a hook with a tensor, a module, a node, an optimizer, or for what is saved."""


def registers_hook(context: Context) -> bool:
    """Return whether a file of the program may register a hook."""
    return any(_REGISTERING.search(text) for text in texts(context.report))
