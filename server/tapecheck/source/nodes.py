"""The nodes of a syntax tree, listed once for each top-level statement: these outlive the tree where text is edited."""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Iterator

_WITHOUT = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)
_FIELDS: dict[type[ast.AST], tuple[str, ...]] = {
    kind: tuple(name for name in kind._fields if name not in ("ctx", "op", "ops", "kind", "type_comment"))
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
}


def nodes_of(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the nodes of a module but operators and contexts, statement by statement, outer ones before inner ones."""
    for statement in tree.body:
        yield statement
        yield from nodes_in(statement)


def nodes_in(statement: ast.stmt) -> tuple[ast.AST, ...]:
    """Return the nodes in a top-level statement, itself left out."""
    known: tuple[ast.AST, ...] | None = getattr(statement, "_tapecheck_nodes", None)
    if known is None:
        found: list[ast.AST] = [statement]
        for node in found:
            for name in _FIELDS[type(node)]:
                child = getattr(node, name, None)
                if child.__class__ is list:
                    found += [item for item in child if isinstance(item, ast.AST) and not isinstance(item, _WITHOUT)]
                elif isinstance(child, ast.AST):
                    found.append(child)
        # Without itself: what a node refers to shall not refer to the node.
        known = statement._tapecheck_nodes = tuple(found[1:])  # type: ignore[attr-defined]
    return known


def first_line(statement: ast.stmt) -> int:
    """Return the number of the line on which a statement begins, with its decorators."""
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(one.lineno for one in decorators)])


def statements_at(tree: ast.Module, first: int, last: int) -> list[ast.stmt]:
    """Return the top-level statements that have some of the lines from `first` to `last`."""
    body = tree.body
    index = bisect_right(body, last, key=first_line)
    found: list[ast.stmt] = []
    while index > 0 and (body[index - 1].end_lineno or 0) >= first:
        index -= 1
        found.append(body[index])
    return found[::-1]
