"""Which expressions are numbers, and which names a piece of code leaves nothing but numbers in."""

from __future__ import annotations

import ast
import enum
from collections.abc import Iterable, Iterator

from tapecheck.interpret.objects.syntax import is_array
from tapecheck.source.nodes import attr_of, children, of_kind, walk

_NUMBERS = frozenset(("float", "int", "len", "str", "bool", "round", "repr", "format", "time", "perf_counter"))
_TAKEN_OUT = frozenset((
    "detach", "dim", "format", "item", "join", "nelement", "numel", "numpy", "shape", "size", "tolist",
))  # fmt: skip


def is_number(node: ast.expr) -> bool:
    """Whether an expression is provably a number, a text or a value outside of any graph."""
    if isinstance(node, (ast.Constant, ast.JoinedStr, ast.Compare)):
        return True
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Not) or is_number(node.operand)
    if isinstance(node, ast.BinOp):
        return is_number(node.left) and is_number(node.right)
    if isinstance(node, ast.Call):
        function = node.func
        if isinstance(function, ast.Name):
            return function.id in _NUMBERS
        return attr_of(function) in _TAKEN_OUT
    if isinstance(node, ast.Subscript):
        return is_number(node.value)
    if isinstance(node, (ast.Tuple, ast.List)):
        return all(map(is_number, node.elts))
    return attr_of(node) == "shape"


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
    elif isinstance(node, ast.Assign) and all(isinstance(target, ast.Name) for target in node.targets):
        _store_anywhere(node.value, plain)
        # What the name held before is gone.
        plain.update((target.id, _left_by(node.value)) for target in node.targets if isinstance(target, ast.Name))
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
    for target in targets:
        if isinstance(target, ast.Name):
            plain[target.id] = min(known, plain.get(target.id, _Left.UNKNOWABLE))
    return [target for target in targets if not isinstance(target, ast.Name)]


def calls_left(nodes: Iterable[ast.stmt]) -> dict[str, list[ast.expr]]:
    """Return the names and attributes of names that code leaves results of calls in, each with what it calls for them.

    Names that it may leave anything else in are left out.
    """
    called: dict[str, list[ast.expr]] = {}
    others: set[str] = set()
    parts = [part for node in nodes for part in walk(node)]
    assigned: set[ast.expr] = set()
    for node in parts:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            for target in (part for one in node.targets for part in _flat(one)):
                assigned.add(target)
                called.setdefault(dotted(target), []).append(node.value.func)
    for node in parts:
        match node:
            case ast.Name(ctx=ast.Store() | ast.Del()) | ast.Attribute(ctx=ast.Store() | ast.Del()):
                others |= {dotted(node)} if node not in assigned else set()
            case ast.alias(name=name, asname=asname):
                others.add(asname or name.partition(".")[0])
            case ast.ExceptHandler(name=name) | ast.MatchAs(name=name) | ast.MatchStar(name=name):
                others.add(name or "")
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                others.add(name)
    return {name: functions for name, functions in called.items() if name and name not in others}


def _flat(target: ast.expr) -> Iterator[ast.expr]:
    """Yield the single targets of an assignment."""
    if isinstance(target, (ast.Tuple, ast.List)):
        for part in target.elts:
            yield from _flat(part)
    else:
        yield target.value if isinstance(target, ast.Starred) else target


def dotted(node: ast.AST) -> str:
    """Return a name, or an attribute of one ("self.h"); empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return ""


def _left_by(value: ast.expr | None) -> _Left:
    """Return what a name is left with that a value is stored under."""
    if value is None:
        return _Left.ANYTHING
    if is_array(value):
        return _Left.UNKNOWABLE
    return _Left.NUMBER if is_number(value) else _Left.ANYTHING
