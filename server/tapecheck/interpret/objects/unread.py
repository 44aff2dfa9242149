"""Assignments that give a variable a new value which nothing reads: what it named before stays as it is.

Only what is sure from the text counts: the element of a loop, or what a function is given, stored anew in one name.
And expressions that do nothing but compute, and statements that are there to see what happens as they run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from tapecheck.interpret.engine import Engine
from tapecheck.interpret.objects.syntax import free_names
from tapecheck.interpret.values import (
    NO_MODEL,
    Lib,
    Native,
    Tensor,
    Value,
    attrs_of,
    behaviour,
    only_tensors,
    user_class,
)
from tapecheck.source.nodes import children, id_of, last_name, taken_apart, walk

_NAMESPACES = frozenset(("eval", "exec", "globals", "locals", "vars"))
"""Functions of Python's that reach a variable without naming it."""
_SCOPES = frozenset((ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef))
_LOOPS = frozenset((ast.For, ast.AsyncFor, ast.While))


def unread(tree: ast.Module) -> frozenset[ast.AST]:
    """Return the assignments of a file after which nothing reads the value that they give a variable."""
    found = set(_Scope(tree.body, ()).unread())
    for node in walk(tree):
        match node:
            case ast.FunctionDef(args=given, body=body) | ast.AsyncFunctionDef(args=given, body=body):
                names = [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
                found.update(_Scope(body, names).unread())
    return frozenset(found)


class _Scope:
    """The code of a function or a module, without that of the functions in it; `given` is what it is called with."""

    def __init__(self, body: list[ast.stmt], given: Iterable[str]) -> None:
        self._body = body
        self._given = set(given)
        self._own = [*_own(body)]
        self._shared: set[str] = set()
        self._bound: list[tuple[set[str], set[ast.AST]]] = []
        """The names that loops and comprehensions give values of their own, with what stands in each."""
        self._loops: list[tuple[set[str], list[ast.stmt]]] = []
        for node in self._own:
            match node:
                case ast.Global(names=shared) | ast.Nonlocal(names=shared):
                    self._shared.update(shared)
                case ast.For(target=target, body=inner) | ast.AsyncFor(target=target, body=inner):
                    names = set(map(id_of, taken_apart([target])))
                    self._loops.append((names, inner))
                    self._bound.append((names, set(_own(inner))))
                case (
                    ast.ListComp(generators=parts)
                    | ast.SetComp(generators=parts)
                    | ast.GeneratorExp(generators=parts)
                    | ast.DictComp(generators=parts)
                ):
                    self._bound.append((set(map(id_of, taken_apart([each.target for each in parts]))), set(walk(node))))
            if type(node) in _SCOPES:
                self._shared |= free_names(node)

    def unread(self) -> Iterator[ast.AST]:
        if any(id_of(getattr(node, "func", None)) in _NAMESPACES for node in self._own):
            return
        for names, body in self._loops:
            yield from self._last_in(body, names - self._shared, set(_own(body)))
        yield from self._last_in(self._body, self._given - self._shared, None)

    def _last_in(self, body: list[ast.stmt], names: set[str], loop: set[ast.AST] | None) -> Iterator[ast.AST]:
        """Yield the assignments of names to themselves in a block, outside of further loops, that nothing reads."""
        for node in _own(body, _LOOPS):
            name = _stored_anew(node)
            if name in names and not any(self._reads(name, _end(node), loop)):
                yield node

    def _reads(self, name: str, end: tuple[int, int], loop: set[ast.AST] | None) -> Iterator[ast.AST]:
        """Yield what may read the value that an assignment gives a name: all that does not come before it for sure."""
        inside = loop or set()
        anew = {part for names, parts in self._bound if name in names for part in parts} - inside
        for part in self._own:
            if _is_read(part, name) and part not in anew:
                behind = (getattr(part, "lineno", 0), getattr(part, "col_offset", 0)) >= end
                if behind or (loop is not None and part not in inside):
                    yield part


def _end(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "end_lineno", 0), getattr(node, "end_col_offset", 0)


def _own(body: Iterable[ast.AST], without: frozenset[type[ast.AST]] = frozenset()) -> Iterator[ast.AST]:
    """Yield what stands in some statements, but not what stands in functions, classes and nodes of other kinds."""
    waiting = [*body]
    while waiting:
        node = waiting.pop()
        yield node
        if type(node) in _SCOPES:
            # Decorators, defaults and bases are worked out around it.
            inner = _body_of(node)
            waiting += [part for part in children(node) if part not in inner]
        elif type(node) not in without:
            waiting += children(node)


def _body_of(scope: ast.AST) -> list[ast.AST]:
    match scope:
        case ast.Lambda(body=value):
            return [value]
    return list(getattr(scope, "body", []))


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


def computes(machine: Engine, node: ast.AST) -> bool:
    """Return whether an expression does no more than to compute a value: it runs no code of the program's, or that is
    not visible, and changes no tensor.
    """
    for part in walk(node):
        match part:
            case ast.NamedExpr() | ast.Await() | ast.Yield() | ast.YieldFrom():
                return False
            case ast.BinOp(left=left, right=right):
                if user_class(_found(machine, left)) is not None or user_class(_found(machine, right)) is not None:
                    return False
            case ast.Call(func=called, keywords=keywords):
                if last_name(called).endswith("_") or any(one.arg == "out" for one in keywords):
                    return False
                if not _is_of_a_library(machine, getattr(called, "value", called)):
                    return False
    return True


def _is_of_a_library(machine: Engine, node: ast.expr) -> bool:
    """Return whether what an expression names has methods, or can be called, without code of the program's."""
    match node:
        case ast.BinOp() | ast.UnaryOp() | ast.Constant():
            return True
        case ast.Call(func=inner):
            return _is_of_a_library(machine, inner)
        case ast.Name() | ast.Attribute() | ast.Subscript():
            value = _found(machine, node)
            return value is NO_MODEL or type(value) in (Tensor, Lib, Native)
    return False


def _found(machine: Engine, node: ast.expr) -> Value:
    """Return what a name or an attribute stands for, which is not computed for that; `NO_MODEL` of Python's own."""
    match node:
        case ast.Name(id=name):
            scope = machine.envs[-1].scope_of(name)
            return NO_MODEL if scope is None else scope.vars[name]
        case ast.Attribute(value=inner, attr=attr):
            owner = _found(machine, inner)
            attrs = attrs_of(owner)
            return attrs.get(attr) if attrs else owner
        case ast.Subscript(value=inner):
            owner = _found(machine, inner)
            if not behaviour(owner).is_container:
                return owner
            return next((one for one in behaviour(owner).children() if not only_tensors([one])), NO_MODEL)
    return None


def tries(tree: ast.Module) -> dict[ast.AST, bool]:
    """Return the expressions that are all that a `try` with handlers or a `with` is about, with whether it is a `with`:
    what is of interest is whether they raise, how long they take, or who takes note of them.
    """
    found: dict[ast.AST, bool] = {}
    for node in walk(tree):
        match node:
            case ast.With(body=body) | ast.AsyncWith(body=body) | ast.Try(body=body, handlers=[_, *_]):
                found.update(dict.fromkeys(_lone(body), hasattr(node, "items")))
    return found


def _lone(body: list[ast.stmt]) -> list[ast.AST]:
    """Return the expressions of a block that are all that is in it, in loops or not."""
    found: list[ast.AST] = []
    for statement in body:
        match statement:
            case ast.Expr(value=value):
                found.append(value)
            case ast.For(body=inner, orelse=[]):
                lone = _lone(inner)
                if not lone:
                    return []
                found += lone
            case _:
                return []
    return found
