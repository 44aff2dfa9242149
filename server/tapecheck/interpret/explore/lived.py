"""What an entry is started with: an object that may have lived for a while, and what outlives the call.

A constructor is the first thing that happens to an object, not the last: an attribute that other methods count up,
fill or set anew may have become something else by the time that a method is called. So an entry is started with what
each attribute may have become: a counter is any number, a list has elements nobody knows, and a flag that only a
default has set may be the other way round.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tapecheck.interpret import limits
from tapecheck.interpret.values import (
    Class,
    Default,
    Dict,
    Instance,
    List,
    Set,
    Unknown,
    Value,
    behaviour,
    function_of,
    only,
)
from tapecheck.interpret.values.vocabulary import STARTS
from tapecheck.source import Source
from tapecheck.source.nodes import STORES, id_of, last_name, of_kind, taken_apart, walk
from tapecheck.source.notes import Notes, placeless

_MAKERS = ("__init__", "__new__", "__post_init__")


@dataclass(slots=True)
class _Uses:
    """What one method does to the attributes of its object.

    `added` and `changed` are those it counts up and sets anew, `filled` containers that it puts something into,
    `tested` those that a condition of it names, `wanted` those that it reads before it sets them.
    """

    added: set[str] = field(default_factory=set)
    changed: set[str] = field(default_factory=set)
    filled: set[str] = field(default_factory=set)
    tested: set[str] = field(default_factory=set)
    wanted: set[str] = field(default_factory=set)
    starts: bool = False


def lived(owner: Instance, source: Source | None = None) -> None:
    """Join the attributes of an object, and of those it refers to, with what they may have become since it was made.

    Args:
        owner: the object, as its constructor left it.
        source: the file that its class stands in; flags that nobody in it gives a value are taken as undecided.
    """
    seen: set[int] = set()
    stack = [owner]
    while stack and len(seen) < limits.MOST_LIVED:
        current = stack.pop()
        if id(current) in seen or current.cls is None:
            continue
        seen.add(id(current))
        _join(current, current.cls)
        stack += only(current.attrs.values(), Instance)
    if owner.cls is not None and source is not None and owner.cls.name not in called_names(source):
        _open_flags(owner, owner.cls)


def outlives(owner: Instance, called: set[int], entry: ast.AST) -> list[Value]:
    """Return what an object keeps that a later call of one of its methods may run a backward through.

    Args:
        owner: the object whose method was the entry.
        called: the functions that ran, by the id of their node: others call them, and not somebody from outside.
        entry: the entry's own node.
    """
    if owner.cls is None:
        return []
    wanted: set[str] = set()
    for method, uses in _methods(owner.cls):
        if uses.starts and (method is entry or id(method) not in called):
            wanted |= uses.wanted
    return [owner.attrs[name] for name in sorted(wanted) if name in owner.attrs]


def _join(owner: Instance, cls: Class) -> None:
    total = _Uses()
    for _, uses in _methods(cls):
        total.added |= uses.added
        total.changed |= uses.changed
        total.filled |= uses.filled
    # A container is made to be filled: where no method of the class does it, somebody else does.
    empty = {name for name, value in owner.attrs.items() if isinstance(value, (List, Dict, Set)) and not value.items}
    for name in total.added | total.changed | total.filled | empty:
        value = owner.attrs.get(name)
        if name not in owner.attrs:
            value = cls.held(name) if cls.defines(name) else Unknown(name)
            if not isinstance(value, (bool, int, float, str, Unknown)) or cls.defines("__getattr__"):
                continue
        owner.attrs[name] = behaviour(value).become(name, changed=name in total.changed)


def called_names(source: Source) -> frozenset[str]:
    """Return what a module calls by name: which of its classes it makes objects of is among it."""
    return source.notes.of(source.tree, _names_of, source.notes).called


def changed_globals(source: Source) -> frozenset[str]:
    """Return the globals of a module that its functions set anew."""
    return source.notes.of(source.tree, _names_of, source.notes).globals


@dataclass(frozen=True, slots=True)
class _Names:
    """What a module or a statement of it calls by name, and the globals that functions in it set anew."""

    called: frozenset[str]
    globals: frozenset[str]


def _names_of(tree: ast.Module, notes: Notes) -> _Names:
    # Statements outlive their tree where a text is edited.
    parts = [notes.of(statement, _names_in) for statement in tree.body]
    return _Names(
        frozenset().union(*(part.called for part in parts)), frozenset().union(*(part.globals for part in parts))
    )


@placeless
def _names_in(statement: ast.stmt) -> _Names:
    called: set[str] = set()
    changed: set[str] = set()
    for node in walk(statement):
        match node:
            case ast.Call(func=function):
                called.add(last_name(function))
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                said = {name for part in of_kind(node, ast.Global) for name in part.names}
                if said:
                    changed |= said & {part.id for part in of_kind(node, ast.Name) if isinstance(part.ctx, ast.Store)}
    return _Names(frozenset(called - {""}), frozenset(changed))


def lived_globals(variables: dict[str, Value], source: Source) -> dict[str, Value]:
    """Join the globals that functions of a module set anew with what they may have become; return what they were."""
    before = {name: variables[name] for name in changed_globals(source) if name in variables}
    plain = {name: value for name, value in before.items() if isinstance(value, (bool, int, float, str))}
    variables.update({name: behaviour(value).become(name, changed=True) for name, value in plain.items()})
    return {**plain}


def _open_flags(owner: Instance, cls: Class) -> None:
    """Leave the flags open that the constructor was not given: their defaults are likelier.

    What it would have assigned under the other answer is an attribute that nobody knows.
    """
    tested = {name for _, uses in _methods(cls) for name in uses.tested}
    for maker, _ in _functions(cls):
        if maker.name != "__init__":
            continue
        flags = _flags(maker)
        opened: set[str] = set()
        for name, given in _copied(maker) if flags else ():
            default = flags.get(given)
            if default is not None and name in tested and owner.attrs.get(name) is default:
                flag = Unknown.plain(name)
                flag.default = Default(likely=default)
                owner.attrs[name] = flag
                opened |= {name, given}
        for statement in of_kind(maker, ast.If) if opened else ():
            if not opened.isdisjoint(_mentioned(statement.test)):
                for part in of_kind(statement, ast.Assign):
                    for name in filter(None, map(_own, part.targets)):
                        owner.attrs.setdefault(name, Unknown.named(name))


def _flags(maker: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, bool]:
    """Return the parameters of a constructor that are True or False by default."""
    parameters = [*maker.args.posonlyargs, *maker.args.args]
    pairs = [*zip(parameters[::-1], maker.args.defaults[::-1]), *zip(maker.args.kwonlyargs, maker.args.kw_defaults)]
    return {
        parameter.arg: default.value
        for parameter, default in pairs
        if isinstance(default, ast.Constant) and isinstance(default.value, bool)
    }


def _copied(maker: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the attributes of its object that a constructor gives the value of a name, each with that name."""
    for statement in of_kind(maker, ast.Assign):
        if given := id_of(statement.value):
            yield from ((name, given) for name in map(_own, statement.targets) if name is not None)


def _mentioned(test: ast.expr) -> set[str]:
    """Return the names and attributes that a test asks."""
    return set(map(last_name, walk(test))) - {""}


def _functions(cls: Class) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, Notes]]:
    """Yield the functions that a class and those it is made from define, with the notes of their files."""
    for base in cls.mro():
        for value in base.namespace.values():
            function = function_of(value)
            if function is not None and not isinstance(function.node, ast.Lambda):
                yield function.node, function.module.notes


def _methods(cls: Class) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, _Uses]]:
    """Yield the methods of a class but its constructors, with what they do to their object."""
    return ((node, notes.of(node, _survey)) for node, notes in _functions(cls) if node.name not in _MAKERS)


def _own(node: ast.AST) -> str | None:
    """Return the attribute of the method's own object that an expression names."""
    match node:
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return name
    return None


def _survey(method: ast.FunctionDef | ast.AsyncFunctionDef) -> _Uses:
    uses = _Uses()
    nodes = list(walk(method))
    for node in nodes:
        match node:
            case ast.Attribute(attr=name) | ast.keyword(arg=name):
                uses.starts = uses.starts or name in STARTS
            case ast.AugAssign(target=target):
                own = _owned([target])
                uses.wanted |= own
                (uses.added if _counts_up(node) else uses.changed).update(own)
                uses.filled |= _within(target)
            case ast.Assign() | ast.AnnAssign() | ast.For() | ast.With():
                stored_to = _targets(node)
                uses.changed |= _owned(stored_to)
                uses.filled = uses.filled.union(*map(_within, stored_to))
            case ast.Call(func=ast.Attribute(value=filled, attr=name)) if name in STORES:
                uses.filled |= _owned([filled]) or _within(filled)
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
                uses.tested |= _owned(walk(test))
    uses.wanted |= _read_first(nodes)
    return uses


def _owned(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the attributes of the method's own object that some expressions name."""
    return {own for node in nodes if (own := _own(node)) is not None}


def _read_first(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the attributes of the method's own object that the text reads before it stores them."""
    first: dict[str, tuple[tuple[int, int], bool]] = {}
    for node in nodes:
        match node:
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ctx):
                # What stands on the right of `self.x = self.x + 1` is read first.
                stored = isinstance(ctx, ast.Store)
                use = ((node.lineno, node.col_offset + (10_000 if stored else 0)), stored)
                first[name] = min(first.get(name, use), use)
    return {name for name, (_, stored) in first.items() if not stored}


def _counts_up(node: ast.AugAssign) -> bool:
    match node:
        case ast.AugAssign(op=ast.Add(), value=ast.Constant()):
            return True
    return False


def _targets(node: ast.AST) -> list[ast.expr]:
    found: list[ast.expr] = []
    match node:
        case ast.Assign(targets=targets):
            found += targets
        case ast.AnnAssign(target=target, value=ast.expr()) | ast.For(target=target):
            found.append(target)
        case ast.With(items=items):
            found += [item.optional_vars for item in items if item.optional_vars is not None]
    return taken_apart(found)


def _within(node: ast.AST) -> set[str]:
    """Return the attribute whose items an expression names: `self.rows[i]`, `self.users[name][key]`."""
    inside = False
    while isinstance(node, ast.Subscript):
        node, inside = node.value, True
    name = _own(node)
    return {name} if inside and name is not None else set()


__all__ = ["called_names", "changed_globals", "lived", "lived_globals", "outlives"]
