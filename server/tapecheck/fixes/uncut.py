"""Who else reads a value that gets its graph back: what is no op of torch may refuse it, or show it otherwise."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from tapecheck.fixes.candidate import Context
from tapecheck.fixes.code import Code, dotted, root_name, targets, walk
from tapecheck.fixes.noticed import REFUSING, asks_for_graphs, fills, refuses_graphs
from tapecheck.fixes.ops import op_called
from tapecheck.fixes.story import frames
from tapecheck.source.nodes import attr_of, given_to, of_kind
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
    native = {
        place for tape in context.tapes for one in tape.events if isinstance(one, Node) for place in frames(one.at)
    }
    for function in {id(one): one for one in map(code.function, spots)}.values():
        nodes = [node for node in walk(function) if node is not function]
        inside = {id(part) for spot in spots for part in of_kind(spot, ast.expr)}
        names = _names(code, spots, nodes)
        for node in nodes:
            if refusing and _leaves(node, inside, names):
                return False
            if (
                not shown
                and id(node) not in inside
                and any(_holds(part, inside, names) for part in _read_as_numbers(node))
            ):
                return False
            if not isinstance(node, ast.Call) or id(node) in inside:
                continue
            given = [*given_to(node), *([node.func.value] if isinstance(node.func, ast.Attribute) else [])]
            if any(_holds(part, inside, names) for part in given) and not _takes(code, node, native, shown=shown):
                return False
    return True


def _leaves(node: ast.AST, inside: set[int], names: set[str]) -> bool:
    """Return whether other functions get a value: it is given back, or stored in an object or container."""
    if isinstance(node, (ast.Return, ast.Yield)):
        return node.value is not None and _holds(node.value, inside, names)
    stored = isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and node.value is not None
    return stored and any(not isinstance(part, ast.Name) for part in targets(node)) and _holds(node, inside, names)


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


def _names(code: Code, spots: list[ast.expr], nodes: list[ast.AST]) -> set[str]:
    """Return the names of what some expressions give, and of what is computed from it."""
    inside = {id(part) for spot in spots for part in of_kind(spot, ast.Call)} | {id(spot) for spot in spots}
    names: set[str] = set()
    # Twice: a loop hands a value on to lines above the one that stores it.
    for node in (*nodes, *nodes):
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and node.value is not None:
            if _holds(node.value, inside, names):
                names |= {name for part in targets(node) if (name := dotted(part) or root_name(part)) is not None}
    return names


def _holds(node: ast.AST, inside: set[int], names: set[str]) -> bool:
    return any(
        id(part) in inside or (isinstance(part, (ast.Name, ast.Attribute)) and dotted(part) in names)
        for part in ast.walk(node)
    )


def _takes(code: Code, call: ast.Call, native: set[Span], *, shown: bool) -> bool:
    path = code.path(call.func)
    if fills(call):
        return False
    if path == "builtins.print":
        return shown or all(isinstance(part, (ast.JoinedStr, ast.Constant)) for part in call.args)
    if path in _TAKING or code.index.span(code.source.path, code.start(call), code.end(call)) in native:
        return True
    name = attr_of(call.func)
    if name == "backward":
        return True
    return op_called(code, call, whole=True) is not None and name not in REFUSING
