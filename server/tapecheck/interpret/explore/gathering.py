"""Loops that gather data: nothing outside of them can tell that they went round, but what a tensor is made of.

A loop that reads a file into a list, of which a tensor is made, builds no graph and decides nothing. Its text says so:
where anything else reads a name of it, where it calls more than built-in functions and methods of its own values, or
where it stores an attribute, something may hang on it.
"""

from __future__ import annotations

import ast
import builtins
from collections import Counter
from collections.abc import Container, Iterator
from dataclasses import dataclass

from tapecheck.interpret.explore.liveness import Names
from tapecheck.interpret.explore.numbers import dotted
from tapecheck.source.nodes import id_of, of_kind, walk
from tapecheck.source.notes import Notes, placeless

_CALLED = frozenset((
    "abs", "all", "any", "bool", "chr", "dict", "enumerate", "float", "int", "len", "list", "max", "min", "ord",
    "print", "range", "repr", "reversed", "round", "set", "sorted", "str", "sum", "tuple", "zip",
))  # fmt: skip
"""The built-in functions that a loop may call: they change nothing that they are given, if that is no iterator."""
_OTHERS = frozenset(dir(builtins)) - _CALLED
_TELLING_NOTHING = frozenset(("print", "torch.as_tensor", "torch.tensor"))
"""What is given a list tells nobody whether it is empty, but by the size of a tensor, which nobody knows."""
_ASKING = frozenset(("dir", "eval", "exec", "globals", "locals", "vars"))
"""What finds names that stand nowhere in the text."""
_STATEMENTS = frozenset((
    ast.AnnAssign, ast.Assign, ast.AugAssign, ast.Break, ast.Continue, ast.Expr, ast.For, ast.If, ast.Pass, ast.While,
))  # fmt: skip
"""What such a loop consists of."""
_TAKING_IN = frozenset(("dict", "list", "set", "sorted", "tuple"))


@dataclass(frozen=True, slots=True)
class _Work:
    """The names that a loop works with, those of which it may change what they have, those of these that it fills."""

    names: Names
    changed: Names
    filled: Names


@dataclass(frozen=True, slots=True)
class _Asked:
    """The names that a function reads, by line, but for what tells nothing of them; those of one new container each;
    and by id the expressions of whose values nobody is told anything.
    """

    read: frozenset[tuple[str, int]]
    made: Names
    untold: frozenset[int]


def takes_in(call: ast.Call) -> bool:
    """Whether a call makes a container of all elements of an iterable."""
    return id_of(call.func) in _TAKING_IN


def gathers(loop: ast.AST, home: ast.AST, notes: Notes) -> Names | None:
    """Return the names that a loop of a function, or the module, works with, or an expression that takes in elements;
    None where it may do more than gather.
    """
    work, asked = notes.of(loop, _of_loop), notes.of(home, _asked)
    if work is None or asked is None:
        return None
    match loop:
        case ast.expr() if id(loop) not in asked.untold:
            return None
    first = getattr(loop, "lineno", 0)
    last = getattr(loop, "end_lineno", None) or first
    outside = {name for name, line in asked.read if not first <= line <= last}
    return work.names if outside.isdisjoint(work.changed) and work.filled <= asked.made else None


@placeless
def _of_loop(loop: ast.AST) -> _Work | None:
    """Return what a loop works with, None where it may do more than store names and fill containers."""
    parts = walk(loop)
    if getattr(loop, "orelse", ()) or any(map(_may_do_more, parts)):
        return None
    read: set[str] = set()
    stored: set[str] = set()
    filled: set[str] = set()
    passed: set[str] = set()
    for part in parts:
        match part:
            case ast.Name(id=name, ctx=ast.Load()):
                read.add(name)
            case ast.Name(id=name):
                stored.add(name)
            case ast.Attribute(value=ast.Name(id=name)) | ast.Subscript(value=ast.Name(id=name), ctx=ast.Store()):
                # A method of it may change it.
                filled.add(name)
            case ast.For(iter=over) | ast.comprehension(iter=over):
                # An iterator stands somewhere else afterwards.
                passed.update(one.id for one in of_kind(over, ast.Name))
    if not _OTHERS.isdisjoint(read - stored):
        return None
    filled -= stored
    return _Work(frozenset(read | stored), frozenset(stored | filled | (passed - _CALLED)), frozenset(filled))


def _may_do_more(part: ast.AST) -> bool:
    """Whether a part of a loop, by its kind, may do more than store names, fill containers and ask built-ins."""
    match part:
        case ast.Await() | ast.Lambda() | ast.Yield() | ast.YieldFrom() | ast.Starred():
            return True
        case ast.Attribute(value=ast.Name() | ast.Call() | ast.Constant() | ast.Subscript(), ctx=ast.Load()):
            return False
        case ast.Call(func=ast.Name(id=name)):
            return name not in _CALLED
        case ast.Call(func=ast.Attribute()) | ast.Subscript(value=ast.Name()) | ast.Subscript(ctx=ast.Load()):
            return False
        case ast.Attribute() | ast.Call() | ast.Subscript():
            return True
        case ast.stmt():
            return type(part) not in _STATEMENTS
    return False


def _asked(home: ast.AST) -> _Asked | None:
    """Return what a function asks; None where it shares its names with others, or they may be read in other ways."""
    read: set[tuple[str, int]] = set()
    bound: Counter[str] = Counter()
    made: set[str] = set()
    shown: set[int] = set()
    for part in walk(home):
        match part:
            case ast.Global() | ast.Nonlocal():
                return None
            case ast.Call(func=called, args=[given, *_]) if dotted(called) in _TELLING_NOTHING:
                shown.update(map(id, _parts_of(given)))
            case ast.Name(id=name, ctx=ast.Load()) if id(part) not in shown:
                read.add((name, part.lineno))
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
                bound[name] += 1
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict() | ast.List() | ast.Set()):
                made.add(name)
    if not _ASKING.isdisjoint(name for name, _ in read):
        return None
    once = {name for name, times in bound.items() if times == 1}
    shown.update(_kept_untold(home, once - {name for name, _ in read}))
    return _Asked(frozenset(read), frozenset(made & once), frozenset(shown))


def _kept_untold(home: ast.AST, names: Container[str]) -> Iterator[int]:
    """Yield the ids of what a function assigns to some names, and of what gathers the elements of that."""
    for one in of_kind(home, ast.Assign):
        match one.targets:
            case [ast.Name(id=name)] if name in names:
                yield from map(id, _parts_of(one.value))


def _parts_of(value: ast.expr) -> Iterator[ast.expr]:
    """Yield an expression, and what gathers the elements of the containers that it makes."""
    yield value
    match value:
        case ast.ListComp(elt=element) | ast.SetComp(elt=element) | ast.GeneratorExp(elt=element):
            yield from _parts_of(element)
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            for element in elements:
                yield from _parts_of(element)
        case ast.Call(args=[given, *_]) if takes_in(value):
            yield from _parts_of(given)
