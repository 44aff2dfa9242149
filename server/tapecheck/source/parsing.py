"""Python's parser, one thread at a time.

Python 3.11 counts the depth of the trees that all threads build in one place: where the garbage collector lets another
thread parse in between, `ast.parse` raises SystemError ("AST constructor recursion depth mismatch"). The parser holds
the interpreter's lock anyway, so nobody waits longer for ours.
"""

from __future__ import annotations

import ast
import os
import threading

_parsing = threading.RLock()
if hasattr(os, "register_at_fork"):
    # A process that is forked while another thread parses would find the lock taken for ever.
    os.register_at_fork(before=_parsing.acquire, after_in_parent=_parsing.release, after_in_child=_parsing.release)


def parse(text: str) -> ast.Module:
    """Return the tree of a program; raises what `ast.parse` raises for the text."""
    with _parsing:
        return ast.parse(text)


def parse_expression(text: str) -> ast.expr:
    """Return the tree of an expression; raises what `ast.parse` raises for the text."""
    with _parsing:
        return ast.parse(text, mode="eval").body
