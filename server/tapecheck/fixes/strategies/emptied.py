"""Empties an object that keeps graphs of an earlier backward, by the method that its class has for that."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise

from tapecheck.fixes.candidate import Candidate, Context
from tapecheck.fixes.code import Function, stored_pairs
from tapecheck.fixes.story import Collision, frames
from tapecheck.fixes.strategies.carried import after_backward
from tapecheck.source.modules import SOURCES
from tapecheck.source.nodes import is_docstring, last_line, name_called, of_kind
from tapecheck.tape import Span

_EMPTY = frozenset({"deque", "dict", "list", "set"})
"""Functions that, called without arguments, make a container without elements."""


def empty_by_method(context: Context) -> Iterator[Candidate]:
    """Call what empties all lists of a buffer at once, after the backward that has learned from them."""
    code = context.code
    proposed: set[str] = set()
    for collision in context.collisions:
        first = collision.first
        # The functions that lead to the first backward, innermost first.
        for function in dict.fromkeys(map(code.function, code.statements(first.at))) if first is not None else ():
            last = after_backward(code, first, function) if first is not None else None
            for call in _calls(context, collision, function) if last is not None else ():
                change = code.insert_after(last, [call]) if last is not None and call not in proposed else None
                proposed.add(call)
                if change is not None:
                    yield Candidate(
                        f"Empty `{call.rpartition('.')[0]}` after the backward: `{call}`",
                        "Each backward learns from the values stored since the one before; older ones are dropped.",
                        [change],
                    )


def _calls(context: Context, collision: Collision, function: Function) -> Iterator[str]:
    """Yield the calls that empty an object which a function reads values of the earlier graph from."""
    code = context.code
    for node, source in collision.crossings():
        for inner, outer in pairwise(frames(node.at)):
            call = code.expression_at(outer)
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and code.function(call) is function:
                owner = _class_around(context, inner)
                for name in _emptying(owner) if owner is not None else ():
                    yield f"{code.segment(call.func.value)}.{name}()"
        kept = {hold.holder.rpartition(".")[2] for hold in collision.holders.get(source, ()) if "." in hold.holder}
        for read in of_kind(function, ast.Attribute):
            if read.attr in kept:
                for owner in _classes(context):
                    for name in _emptying(owner, read.attr) if code.owner(read) is not owner else ():
                        yield f"{code.segment(read.value)}.{name}()"


def _classes(context: Context) -> Iterator[ast.ClassDef]:
    for code in context.codes.values():
        yield from (node for node in code.source.nodes() if isinstance(node, ast.ClassDef))


def _class_around(context: Context, span: Span) -> ast.ClassDef | None:
    """Return the innermost class of the user's whose text a place is in."""
    known = context.codes.get(span.file)
    source = known.source if known is not None else SOURCES.get(span.file)
    classes = (node for node in (source.nodes() if source is not None else ()) if isinstance(node, ast.ClassDef))
    around = (node for node in classes if node.lineno <= span.line <= last_line(node))
    return max(around, key=lambda node: node.lineno, default=None)


def _emptying(owner: ast.ClassDef, attribute: str = "") -> Iterator[str]:
    """Yield the methods of a class that empty all its containers, among them an attribute, and do nothing else."""
    emptied = {
        method: [_emptied(statement) for statement in method.body if not is_docstring(statement)]
        for method in owner.body
        if isinstance(method, ast.FunctionDef)
    }
    containers = {name for parts in emptied.values() for part in parts for name in part or ()}
    for method, parts in emptied.items():
        whole = bool(containers) and _all_of(parts) == containers
        if whole and (not attribute or attribute in containers) and _is_plain(method):
            yield method.name


def _all_of(parts: list[set[str] | None]) -> set[str] | None:
    """Return what all of some parts make empty; None where one does something else."""
    return {name for part in parts for name in part or ()} if None not in parts else None


def _is_plain(method: ast.FunctionDef) -> bool:
    """Return whether a method is called by its name, as it is, with its object alone."""
    given = method.args
    more = (given.vararg, given.kwarg, *given.kwonlyargs, *given.posonlyargs, *method.decorator_list)
    return len(given.args) == 1 and not any(more) and not method.name.startswith("__")


def _emptied(statement: ast.stmt) -> set[str] | None:
    """Return the attributes that a statement makes empty; None for one that does something else."""
    match statement:
        case ast.Assign(targets=stored, value=value):
            return _all_of([_emptied_by(target, value) for target in stored])
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=container, attr="clear"), args=[])):
            return _attribute(container)
        case ast.Delete(targets=gone):
            return _all_of([_cut_out(one) for one in gone])
    return None


def _cut_out(target: ast.expr) -> set[str] | None:
    """Return the attribute whose elements are all deleted: `del self.kept[:]`."""
    match target:
        case ast.Subscript(value=container, slice=ast.Slice(lower=None, upper=None, step=None)):
            return _attribute(container)
    return None


def _emptied_by(target: ast.expr, value: ast.expr) -> set[str] | None:
    pairs = stored_pairs(target, value)
    if pairs != [(target, value)]:
        return _all_of([_emptied_by(*pair) for pair in pairs])
    if isinstance(value, ast.Constant):
        return set() if _attribute(target) is not None else None
    return _attribute(target) if _without_elements(value) else None


def _without_elements(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        return name_called(value) in _EMPTY and not value.args
    return (isinstance(value, ast.List) and not value.elts) or (isinstance(value, ast.Dict) and not value.keys)


def _attribute(node: ast.expr) -> set[str] | None:
    """Return the name of an attribute of the method's own object."""
    return {node.attr} if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) else None
