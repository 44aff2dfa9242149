"""`exec` and `eval`: text that the program writes out is run where it stands, any other is code that is not visible."""

from __future__ import annotations

import ast
from typing import Literal

from tapecheck.interpret.engine import Engine
from tapecheck.interpret.objects.namespaces import Names
from tapecheck.interpret.values import (
    Args,
    Env,
    Kwargs,
    Unknown,
    Value,
    known_text,
    perhaps_overwritten,
    positional,
)

_STRAIGHT = frozenset((
    ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Delete, ast.Import, ast.ImportFrom, ast.Assert, ast.Pass,
))  # fmt: skip
"""Statements that run one after the other: a condition in a text would have no place of its own."""


def execute(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Run what a text says in the names that there are; what is not seen may store over any name of the module."""
    env, body = m.envs[-1], _written(args, kwargs, "exec", node)
    if isinstance(body, ast.Module) and all(type(one) in _STRAIGHT for one in body.body):
        # What a function's text binds, the function does not have.
        for _ in m.block(body.body, env if env is env.globals else Env(env, env.globals)):
            pass
        return None
    if env is env.globals:
        perhaps_overwritten(m, Names(env), Unknown.plain("exec"), node)
    m.world.assumptions.note("effect", "`exec` changes nothing that there is", node)
    return None


def evaluate(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return what an expression comes to that is given as text."""
    written = _written(args, kwargs, "eval", node)
    if isinstance(written, ast.Expression):
        return m.eval(written.body, m.envs[-1])
    if m.world.position.is_discarded(node):
        m.world.assumptions.note("effect", "`eval` changes nothing that there is", node)
    else:
        m.world.assumptions.note("result", "`eval` computes what it returns, and does no more", node)
    return m.call(Unknown("eval"), args, kwargs, node)


def _written(args: Args, kwargs: Kwargs, mode: Literal["exec", "eval"], node: ast.AST) -> ast.AST | None:
    """Return what a known text says, all of it in the place of a call; None where it is none, or has its own names."""
    text = known_text(positional(args, 0))
    if text is None or len(args) > 1 or kwargs:
        return None
    try:
        tree = ast.parse(text.strip() if mode == "eval" else text, mode=mode)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    for part in ast.walk(tree):
        if "lineno" in part._attributes:
            ast.copy_location(part, node)
    return tree
