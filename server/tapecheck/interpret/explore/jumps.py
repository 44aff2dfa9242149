"""How a block of code may be left before its end."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Literal

from tapecheck.source.nodes import children

Jump = Literal["break", "continue", "return", "value", "raise", "yield"]
"""A way out of a block: "value" is a return with one."""
Jumps = frozenset[Jump]
LEAVING: Jumps = frozenset(("break", "continue", "return", "value"))
"""The jumps that leave out what stands behind them."""
_LOOPS = frozenset((ast.For, ast.While, ast.AsyncFor))
_DEFINITIONS = frozenset((ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda))
_JUMPS: dict[type[ast.AST], Jump] = {
    ast.Raise: "raise", ast.Yield: "yield", ast.YieldFrom: "yield", ast.Await: "yield",
}  # fmt: skip
_OF_LOOPS: dict[type[ast.AST], Jump] = {ast.Break: "break", ast.Continue: "continue"}
"""The jumps that lead no further than the loop around them."""
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
"""The fields of a node that hold statements, or what holds some."""


def jumps_of(nodes: Iterable[ast.AST], *, suspends: bool = True) -> Jumps:
    """Return how a block may be left before its end.

    `suspends` says that the file has a `yield` or an `await`, which may stand within any expression.
    """
    found: set[Jump] = set()
    stack: list[tuple[ast.AST, bool]] = [(node, False) for node in nodes]
    while stack:
        node, loops = stack.pop()
        kind = type(node)
        if kind in _DEFINITIONS:
            continue
        if kind is ast.Return:
            found.add("return" if node.value is None else "value")  # type: ignore[attr-defined]
        elif kind in _JUMPS:
            found.add(_JUMPS[kind])
        elif kind in _OF_LOOPS and not loops:
            found.add(_OF_LOOPS[kind])
        inner = loops or kind in _LOOPS
        stack.extend((child, inner) for child in (children(node) if suspends else _in_blocks(node)))
    return frozenset(found)


def _in_blocks(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements, handlers and cases that a statement holds."""
    for name in _BLOCKS:
        block = getattr(node, name, None)
        if block.__class__ is list:
            yield from block
