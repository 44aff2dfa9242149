"""Who else reads a value that gets its graph back: what is no op of torch may refuse it, or show it otherwise."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Sequence
from itertools import chain

from tapecheck.fixes.candidate import Context
from tapecheck.fixes.code import Code, dotted, targets, walk
from tapecheck.fixes.noticed import REFUSING, asks_for_graphs, fills, refuses_graphs
from tapecheck.fixes.ops import op_called
from tapecheck.fixes.story import frames
from tapecheck.source.nodes import given_to, method_called, of_kind
from tapecheck.tape import Node, Span

_TAKING = frozenset(f"builtins.{name}" for name in ("bool", "float", "int", "len"))


def only_torch_reads(context: Context, spans: Iterable[Span], *, shown: bool) -> bool:
    """Return whether what is computed at some places, and from it in their functions, is read by torch's ops alone.

    `shown` says that it is printed as before where it has a graph: a number that becomes a tensor is not.
    """
    code = context.code
    spots = [spot for span in spans if (spot := code.expression_at(span)) is not None]
    if asks_for_graphs(context):
        return False
    refusing = refuses_graphs(context)
    native = {place for one in context.events(Node) for place in frames(one.at)}
    inside = set(chain.from_iterable(of_kind(spot, ast.expr) for spot in spots))
    for function in dict.fromkeys(map(code.function, spots)):
        _, *nodes = walk(function)
        holds = Holding(inside, nodes)
        if refusing and any(_leaves(node, holds) for node in nodes):
            return False
        if not all(_reads_as_torch(code, node, holds, native, shown=shown) for node in nodes if node not in inside):
            return False
    return True


def _reads_as_torch(code: Code, node: ast.AST, holds: Holding, native: set[Span], *, shown: bool) -> bool:
    """Return whether what a node does with the values is done by torch's ops, if it does anything with them."""
    if isinstance(node, ast.Call) and any(map(holds, _used_by(node))):
        return _takes(code, node, native, shown=shown)
    return shown or not any(map(holds, _read_as_numbers(node)))


class Holding:
    """Says which nodes of a function hold one of some values, or what is computed from them."""

    def __init__(self, values: Collection[ast.AST], nodes: Sequence[ast.AST]) -> None:
        self._values = values
        self._names: set[str] = set()
        # Twice: a loop hands a value on to lines above the one that stores it.
        for node in (*nodes, *nodes):
            if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and node.value is not None:
                if self(node.value):
                    self._names |= {name for part in targets(node) if (name := dotted(part)) is not None}

    def __call__(self, node: ast.AST) -> bool:
        return any(part in self._values or self._named(part) for part in ast.walk(node))

    def _named(self, part: ast.AST) -> bool:
        return isinstance(part, (ast.Name, ast.Attribute)) and dotted(part) in self._names


def _used_by(call: ast.Call) -> list[ast.expr]:
    """Return what a call is given, and what its method is called on."""
    return [*given_to(call), *([call.func.value] if isinstance(call.func, ast.Attribute) else [])]


def _leaves(node: ast.AST, holds: Holding) -> bool:
    """Return whether other functions get a value: it is given back, or stored in an object or container."""
    if isinstance(node, (ast.Return, ast.Yield)):
        return node.value is not None and holds(node.value)
    stored = isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and node.value is not None
    return stored and any(not isinstance(part, ast.Name) for part in targets(node)) and holds(node)


def _read_as_numbers(node: ast.AST) -> list[ast.expr]:
    """Return the parts of a node that a tensor does not stand for as a number does: indices, keys, elements."""
    match node:
        case ast.Subscript(slice=index):
            return [index]
        case ast.Dict(keys=keys, values=values):
            return [part for part in (*keys, *values) if part is not None]
        case ast.List(elts=parts, ctx=ast.Load()) | ast.Tuple(elts=parts, ctx=ast.Load()) | ast.Set(elts=parts):
            return parts
        case ast.Compare(ops=operators) if any(
            isinstance(one, (ast.In, ast.Is, ast.IsNot, ast.NotIn)) for one in operators
        ):
            return [node.left, *node.comparators]
    return []


def _takes(code: Code, call: ast.Call, native: set[Span], *, shown: bool) -> bool:
    path = code.path(call.func)
    if fills(call):
        return False
    if path == "builtins.print":
        return shown or all(isinstance(part, (ast.JoinedStr, ast.Constant)) for part in call.args)
    name = method_called(call)
    if name == "backward" or path in _TAKING or code.span(call) in native:
        return True
    return op_called(code, call, whole=True) is not None and name not in REFUSING
