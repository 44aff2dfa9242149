"""Which expressions are numbers, and which names a piece of code leaves nothing but numbers in."""

from __future__ import annotations

import ast
import enum
from collections.abc import Iterable

from tapecheck.interpret.objects.syntax import is_array
from tapecheck.source.nodes import children, id_of, of_kind, taken_apart, walk

_NUMBERS = frozenset(("float", "int", "len", "str", "bool", "round", "repr", "format", "time", "perf_counter"))
_TAKEN_OUT = frozenset((
    "detach", "dim", "format", "item", "join", "nelement", "numel", "numpy", "shape", "size", "tolist",
))  # fmt: skip


def is_number(node: ast.expr) -> bool:
    """Whether an expression is provably a number, a text or a value outside of any graph."""
    if type(node) is ast.Name:
        # The most frequent by far.
        return False
    match node:
        case ast.Constant() | ast.JoinedStr() | ast.Compare() | ast.UnaryOp(op=ast.Not()) | ast.Attribute(attr="shape"):
            return True
        case ast.UnaryOp(operand=inner) | ast.Subscript(value=inner):
            return is_number(inner)
        case ast.BinOp(left=left, right=right):
            return is_number(left) and is_number(right)
        case ast.Call(func=ast.Name(id=name)):
            return name in _NUMBERS
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in _TAKEN_OUT
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return all(map(is_number, parts))
    return False


def all_numbers(args: list[ast.expr]) -> bool:
    """Whether a call is given numbers and nothing else."""
    return bool(args) and all(map(is_number, args))


class _Left(enum.IntEnum):
    """What a piece of code leaves in a name."""

    ANYTHING = 0
    NUMBER = 1
    UNKNOWABLE = 2
    """A number that nobody can know."""


def stored_plain(nodes: Iterable[ast.AST]) -> tuple[frozenset[str], frozenset[str]]:
    """The names that a piece of code leaves nothing but numbers, texts and arrays in; those that nobody can know."""
    plain: dict[str, _Left] = {}
    for node in nodes:
        _store_plain(node, plain)
    return (
        frozenset(name for name, known in plain.items() if known),
        frozenset(name for name, known in plain.items() if known is _Left.UNKNOWABLE),
    )


def _store_plain(node: ast.AST, plain: dict[str, _Left]) -> None:
    """Note what a statement of a block leaves in names."""
    if isinstance(node, (ast.With, ast.AsyncWith)):
        for item in node.items:
            _store_anywhere(item, plain)
        for statement in node.body:
            _store_plain(statement, plain)
    elif isinstance(node, ast.Assign) and all(map(id_of, node.targets)):
        _store_anywhere(node.value, plain)
        # What the name held before is gone.
        plain.update((id_of(target), _left_by(node.value)) for target in node.targets)
    else:
        _store_anywhere(node, plain)


def _store_anywhere(node: ast.AST, plain: dict[str, _Left]) -> None:
    """Note what code that may be run or not leaves in names."""
    stack = [node]
    while stack:
        node = stack.pop()
        bound: list[ast.expr] = []
        match node:
            case ast.Assign(targets=targets, value=value):
                bound = _store_value(targets, value, plain)
            case ast.AnnAssign() | ast.AugAssign() | ast.NamedExpr():
                bound = _store_value([node.target], node.value, plain)
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                plain.setdefault(name, _Left.ANYTHING)
            case ast.For(target=target) | ast.AsyncFor(target=target) | ast.comprehension(target=target):
                bound = [target]
            case ast.withitem(optional_vars=ast.expr() as target):
                bound = [target]
        plain.update((one.id, _Left.ANYTHING) for part in bound for one in of_kind(part, ast.Name))
        stack.extend(children(node))


def _store_value(targets: list[ast.expr], value: ast.expr | None, plain: dict[str, _Left]) -> list[ast.expr]:
    """Note what a value leaves in the names that it is given; return the other targets."""
    known = _left_by(value)
    for name in filter(None, map(id_of, targets)):
        plain[name] = min(known, plain.get(name, _Left.UNKNOWABLE))
    return [target for target in targets if not id_of(target)]


def calls_left(nodes: Iterable[ast.stmt]) -> dict[str, list[ast.expr]]:
    """Return the names and attributes of names that code leaves results of calls in, each with what it calls for them.

    Names that it may leave anything else in are left out.
    """
    called: dict[str, list[ast.expr]] = {}
    parts = [part for node in nodes for part in walk(node)]
    assigned: set[ast.AST] = set()
    for node in parts:
        match node:
            case ast.Assign(targets=targets, value=ast.Call(func=function)):
                for target in taken_apart(targets):
                    assigned.add(target)
                    called.setdefault(dotted(target), []).append(function)
    others = {_bound_by(node) for node in parts if node not in assigned}
    return {name: functions for name, functions in called.items() if name and name not in others}


def _bound_by(node: ast.AST) -> str:
    """Return the name, or attribute of one, that a node of the text binds or deletes; empty where it does neither."""
    match node:
        case ast.Name(ctx=ast.Store() | ast.Del()) | ast.Attribute(ctx=ast.Store() | ast.Del()):
            return dotted(node)
        case ast.alias(name=name, asname=asname):
            return asname or name.partition(".")[0]
        case ast.ExceptHandler(name=name) | ast.MatchAs(name=name) | ast.MatchStar(name=name):
            return name or ""
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return name
    return ""


def dotted(node: ast.AST) -> str:
    """Return a name, or an attribute of one ("self.h"); empty for anything else."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id=owner), attr=name):
            return f"{owner}.{name}"
    return ""


def _left_by(value: ast.expr | None) -> _Left:
    """Return what a name is left with that a value is stored under."""
    if value is None:
        return _Left.ANYTHING
    if is_array(value):
        return _Left.UNKNOWABLE
    return _Left.NUMBER if is_number(value) else _Left.ANYTHING
