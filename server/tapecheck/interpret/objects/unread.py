"""Assignments that give a variable a new value which nothing reads: what it named before stays as it is.

Only what is sure from the text counts: the element of a loop, or what a function is given, stored anew in one name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from tapecheck.interpret.objects.syntax import free_names
from tapecheck.source.nodes import children, id_of, taken_apart, walk

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_SCOPES = (*_FUNCTIONS, ast.ClassDef)
_LOOPS = (ast.For, ast.AsyncFor)
_NAMESPACES = frozenset(("eval", "exec", "globals", "locals", "vars"))
"""Functions of Python's that reach a variable without naming it."""


def unread(tree: ast.Module) -> frozenset[ast.AST]:
    """Return the assignments of a file after which nothing reads the value that they give a variable."""
    found: set[ast.AST] = set()
    for scope in (tree, *(node for node in walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))):
        found.update(_Scope(scope).unread())
    return frozenset(found)


class _Scope:
    """The code of a function or a module, without that of the functions in it."""

    def __init__(self, home: ast.Module | ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._home = home
        self._own = [*_own(home.body)]
        inner = [node for node in self._own if isinstance(node, _SCOPES)]
        self._shared = {name for node in inner for name in free_names(node)}
        for node in self._own:
            if isinstance(node, (ast.Global, ast.Nonlocal)):
                self._shared.update(node.names)

    def unread(self) -> Iterator[ast.AST]:
        if any(isinstance(node, ast.Call) and id_of(node.func) in _NAMESPACES for node in self._own):
            return
        for loop in self._own:
            if isinstance(loop, _LOOPS):
                names = {id_of(target) for target in taken_apart([loop.target])} - self._shared
                yield from self._last_in(loop.body, names, [loop])
        if not isinstance(self._home, ast.Module):
            given = self._home.args
            names = {one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)} - self._shared
            yield from self._last_in(self._home.body, names, [])

    def _last_in(self, body: list[ast.stmt], names: set[str], around: list[ast.AST]) -> Iterator[ast.AST]:
        """Yield the assignments of names to themselves in a block, outside of further loops, that nothing reads."""
        for node in _own(body, *_LOOPS, ast.While):
            name = _stored_anew(node)
            if name in names and not any(self._reads(name, node, around)):
                yield node

    def _reads(self, name: str, assignment: ast.AST, around: list[ast.AST]) -> Iterator[ast.AST]:
        """Yield what may read the value that an assignment gives a name: all that does not come before it for sure."""
        inside = {part for loop in around for part in _own(loop.body)} if around else None  # type: ignore[attr-defined]
        end = (assignment.end_lineno, assignment.end_col_offset)  # type: ignore[attr-defined]
        elsewhere = {part for part in self._bound_anew(name) if inside is None or part not in inside}
        for part in self._own:
            if _is_read(part, name) and part not in elsewhere:
                before = (part.lineno, part.col_offset) < end  # type: ignore[attr-defined]
                if not before or (inside is not None and part not in inside):
                    yield part

    def _bound_anew(self, name: str) -> set[ast.AST]:
        """Return what stands in loops and comprehensions that give a name values of their own."""
        found: set[ast.AST] = set()
        for node in self._own:
            if isinstance(node, _LOOPS) and name in map(id_of, taken_apart([node.target])):
                found.update(_own(node.body))
            elif isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
                targets = [each.target for each in node.generators]
                if name in map(id_of, taken_apart(targets)):
                    found.update(walk(node))
        return found


def _own(body: Iterable[ast.AST], *without: type[ast.AST]) -> Iterator[ast.AST]:
    """Yield what stands in some statements, but not what stands in functions, classes and nodes of other kinds."""
    waiting = [*body]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, _SCOPES):
            # Decorators, defaults and bases are worked out around it.
            waiting += [part for part in children(node) if part not in _inside(node)]
        elif not isinstance(node, without):
            waiting += children(node)


def _inside(scope: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef) -> list[ast.AST]:
    return list(scope.body) if isinstance(scope.body, list) else [scope.body]


def _stored_anew(node: ast.AST) -> str:
    """Return the name that an assignment gives a value which is computed of its old one; empty for anything else."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.BinOp() | ast.Call() as value):
            return name if any(_is_read(part, name) for part in walk(value)) else ""
    return ""


def _is_read(node: ast.AST, name: str) -> bool:
    """Return whether a node reads a variable, or changes it in place."""
    match node:
        case ast.Name(id=found, ctx=ast.Load()) | ast.AugAssign(target=ast.Name(id=found)):
            return found == name
    return False
