"""Whether a program does something with gradients itself: a run does not see who reads `.grad`."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from tapecheck.source import SourceError, read_source

_CLEARING = ("zero_", "detach_", "requires_grad_")
_HOOKS = ("register_hook", "register_post_accumulate_grad_hook", "register_multi_grad_hook", "get_gradient_edge")


def reads_gradients(files: Iterable[str]) -> bool:
    """Return whether one of some files reads a gradient or hooks into it, which is more than to clear it or to ask
    whether there is one; also where a file cannot be read.
    """
    return any(_reads(file) for file in files)


def _reads(file: str) -> bool:
    try:
        tree = read_source(file).tree
    except SourceError:
        return True
    passed = {id(part) for node in ast.walk(tree) for part in _passed(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and id(node) not in passed:
            if node.attr in ("grad", "_grad") and not _is_module(node.value):
                return True
            if node.attr in _HOOKS:
                return True
        elif isinstance(node, ast.Constant) and node.value == "grad":
            # `getattr(parameter, "grad")`
            return True
    return False


def _passed(node: ast.AST) -> Iterable[ast.AST]:
    """Yield the gradients in an expression that only asks for one, or clears it."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], (ast.Is, ast.IsNot)):
        yield node.left
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CLEARING:
        value = node.func.value
        yield value
        if isinstance(value, ast.Attribute) and value.attr == "data":
            yield value.value


def _is_module(value: ast.expr) -> bool:
    """Return whether `.grad` of it is `torch.autograd.grad` or `torch.func.grad`."""
    name = value.attr if isinstance(value, ast.Attribute) else getattr(value, "id", "")
    return name in ("autograd", "func", "functorch")
