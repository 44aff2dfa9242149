"""What stands between two places of a block, where a fix moves something from one to the other, or does without it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence

from tapecheck.check import reach_in
from tapecheck.fixes.candidate import Context
from tapecheck.fixes.code import Code
from tapecheck.fixes.hooks import registers_hook, runs_in_backward
from tapecheck.fixes.story import Collision
from tapecheck.fixes.visible import may_be_given
from tapecheck.source.nodes import expression_of, id_of, method_called, of_kind
from tapecheck.tape import InPlace

_OWN_BACKWARD = re.compile(
    r"\bclass\s+\w+\s*\([^)]*\bFunction\b|@staticmethod\b[^\n]*\n(?:\s*@[^\n]*\n)*\s*def\s+backward\b"
)
_SPEAKING = "grad"
_HARMLESS = frozenset((
    "enable_grad", "grad_fn", "is_grad_enabled", "no_grad", "requires_grad", "requires_grad_", "set_grad_enabled",
    "zero_grad",
))  # fmt: skip
"""Names of torch's with that word that read no gradient."""
_LEAVING = (ast.Assert, ast.Break, ast.Continue, ast.Delete, ast.Raise, ast.Return, ast.Try, ast.Yield, ast.YieldFrom)


def gradients_unseen(context: Context, statements: Iterable[ast.stmt], *, stepped: bool = False) -> bool:
    """Return whether some statements, and all that they may call, come to their end and read no gradients.

    With `stepped` they may call optimizers: which ones do is on the tapes.
    """
    for statement in statements:
        if any(isinstance(node, _LEAVING) for node in ast.walk(statement)):
            return False
        reach = reach_in(context.report, statement)
        if any(_speaks(node, stepped) for body in reach.bodies for node in ast.walk(body)):
            return False
        if may_be_given(context, statement, reach.opaque):
            return False
    return True


def _speaks(node: ast.AST, stepped: bool) -> bool:
    """Return whether a node is a name by which gradients, or values past autograd, are read or changed."""
    if isinstance(node, ast.Attribute):
        return _is_speaking(node.attr) or node.attr in ("data", "deepcopy") or (node.attr == "step" and not stepped)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return _is_speaking(node.func.id) or node.func.id == "deepcopy"
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value.isidentifier() and _is_speaking(node.value)
    return False


def _is_speaking(name: str) -> bool:
    return _SPEAKING in name and name not in _HARMLESS


def reads_gradients(context: Context) -> bool:
    """Return whether a file that has a part in the finding reads a gradient, or asks torch for a norm of all."""
    return any(_speaks(node, True) for code in context.files for node in ast.walk(code.tree))


def names_gradients(context: Context) -> bool:
    """Return whether a file that has a part in the finding asks for attributes by names that it works out."""
    return any(id_of(node) in ("getattr", "vars") for code in context.files for node in ast.walk(code.tree))


def hides_uses(context: Context) -> bool:
    """Return whether a file that has a part in the finding may walk, or look into, a graph where the text does not show
    it: in a hook, in text that it executes, through a weak reference, by what a node has saved.
    """
    return registers_hook(context) or any(_hides(code, node) for code in context.files for node in ast.walk(code.tree))


def _hides(code: Code, node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr.startswith("_saved_")
    if isinstance(node, ast.Import):
        return any(alias.name == "weakref" for alias in node.names)
    if isinstance(node, ast.Call):
        return code.path(node.func) in ("builtins.eval", "builtins.exec")
    return isinstance(node, ast.ImportFrom) and node.module == "weakref"


def changes_nothing(collision: Collision) -> bool:
    """Return whether nothing is changed in place between two backwards, but by optimizers."""
    return not any(isinstance(event, InPlace) and event.optimizer is None for event in collision.between())


def gradients_add_up(context: Context) -> bool:
    """Return whether the gradient of a sum is the sum of the gradients, and who gets it does nothing else with it: no
    hook, and no backward of the program's own, is in its files.
    """
    return not runs_in_backward(context) and not any(_OWN_BACKWARD.search(text) for text in context.report.texts)


def only_backward(statements: Sequence[ast.stmt]) -> bool:
    """Return whether statements do nothing but clear gradients and run backwards of values that have a name."""
    return all(
        method_called(expression_of(one)) in ("backward", "zero_grad") and len(of_kind(one, ast.Call)) == 1
        for one in statements
    )


def statements_between(context: Context, collision: Collision) -> list[ast.stmt] | None:
    """Return what stands between the first and the second backward in the block that both run in; None without one."""
    code, first = context.code, collision.first
    for one in code.statements(first.at) if first is not None else ():
        for other in code.statements(collision.second.at):
            pair = code.same_block(one, other) if code.function(one) is code.function(other) else None
            if pair is not None and pair[0] is not pair[1]:
                return code.between(*pair)
    return None
