"""Figures of the code: how many ways go through functions, how many fields classes have, what types are asked for."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.imports import ROOT

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def nodes(folder: str = "") -> Iterator[tuple[Path, ast.AST]]:
    """Yield every node of the modules below a folder of the package, with the file that it is in."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(parsed(path)):
            yield path, node


def functions(folder: str = "") -> Iterator[tuple[str, int]]:
    """Yield every function and method, those within others too: where it is, and its complexity."""
    for path, node in nodes(folder):
        if isinstance(node, Function):
            yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", complexity(node)


def complexity(function: Function) -> int:
    """Return the cyclomatic complexity as radon counts it: one, and one for each further way.

    Further ways come of branches, loops, handlers, conditional expressions, operands of `and` and `or`, comprehensions
    and their conditions, assertions and cases. What is in a nested function or class is not counted.
    """
    return 1 + sum(map(_ways, _own(function)))


def _own(function: Function) -> Iterator[ast.AST]:
    queue: list[ast.AST] = list(function.body)
    for node in queue:
        if not isinstance(node, (Function, ast.ClassDef)):
            yield node
            queue += ast.iter_child_nodes(node)


def _ways(node: ast.AST) -> int:
    match node:
        case ast.If() | ast.IfExp() | ast.Assert() | ast.ExceptHandler() | ast.match_case():
            return 1
        case ast.For(orelse=orelse) | ast.AsyncFor(orelse=orelse) | ast.While(orelse=orelse):
            return 1 + bool(orelse)
        case ast.BoolOp(values=values):
            return len(values) - 1
        case ast.comprehension(ifs=ifs):
            return 1 + len(ifs)
        case _:
            return 0


def classes(folder: str = "") -> Iterator[tuple[str, int]]:
    """Yield every class: where it is, and how many fields its objects have."""
    for path, node in nodes(folder):
        if isinstance(node, ast.ClassDef):
            yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", len(fields(node))


def fields(cls: ast.ClassDef) -> set[str]:
    """Return the names of what each object of a class has for itself."""
    found: set[str] = set()
    for node in cls.body:
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=kind) if "ClassVar" not in ast.unparse(kind):
                found.add(name)
            case ast.Assign(targets=[ast.Name(id="__slots__")], value=value):
                found |= {one.value for one in ast.walk(value) if isinstance(one, ast.Constant)}
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                found |= set(_stored(node))
    return found - {"__weakref__", "__dict__"}


def _stored(method: Function) -> Iterator[str]:
    for node in ast.walk(method):
        match node:
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                yield name


def asked(folder: str) -> Counter[str]:
    """Return how many calls of `isinstance` ask for the kind of a node of the text, and how many for another type."""
    found: Counter[str] = Counter()
    for _, node in nodes(folder):
        match node:
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, kinds]):
                found["syntax" if "ast." in ast.unparse(kinds) else "values"] += 1
    return found


def anything(folder: str = "") -> int:
    """Return how often the text says `Any`, but for imports."""
    return sum(isinstance(node, ast.Name) and node.id == "Any" for _, node in nodes(folder))
