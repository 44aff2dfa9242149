"""A value that a decorator remembers, `cached_property` or `lru_cache`: compute it each time it is asked for."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tapecheck.fixes.candidate import Candidate, Context
from tapecheck.fixes.code import Code, dotted
from tapecheck.fixes.edit import Change
from tapecheck.source.nodes import of_kind

_REMEMBERING = frozenset({"cache", "cached_property", "lru_cache"})


def compute_each_time(context: Context) -> Iterator[Candidate]:
    """Take the decorator away that keeps the graph of the first call for all later ones."""
    code = context.code
    done: set[ast.expr] = set()
    for collision in context.collisions:
        for number in sorted(collision.spoiled):
            for function in map(code.function, code.statements(collision.ledger.nodes[number].at)):
                if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    continue
                for decorator in function.decorator_list:
                    called = dotted(decorator.func if isinstance(decorator, ast.Call) else decorator) or ""
                    name = called.rsplit(".", 1)[-1]
                    if name not in _REMEMBERING or decorator in done:
                        continue
                    done.add(decorator)
                    yield Candidate(
                        f"Compute `{function.name}` each time: `@{called}` keeps the graph of the first call",
                        "Every backward has a graph of its own, and what the value is computed from goes on learning. "
                        "Check what else the function does: it runs at each call, with the parameters of then.",
                        [*_without(code, decorator, name), *_unused_import(code, called)],
                        group="remembered",
                    )


def _without(code: Code, decorator: ast.expr, name: str) -> list[Change]:
    if name == "cached_property":
        return [code.replace(decorator, "property")]
    first = code.index.offset(decorator.lineno, 1)
    last = code.index.offset((decorator.end_lineno or decorator.lineno) + 1, 1)
    return [Change(first, last, "")]


def _unused_import(code: Code, called: str) -> list[Change]:
    """Return what takes away `from functools import cached_property`, where nothing else uses the name."""
    uses = [node for node in of_kind(code.tree, ast.Name) if node.id == called]
    if len(uses) != 1:
        return []
    for statement in code.tree.body:
        if isinstance(statement, ast.ImportFrom) and [one.asname or one.name for one in statement.names] == [called]:
            change = code.delete(statement)
            return [change] if change is not None else []
    return []
