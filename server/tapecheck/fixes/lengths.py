"""Whether a loop has an iteration each time it is entered: what is added up in it is a tensor behind it only then."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Sequence

from tapecheck.fixes.code import Code, dotted, last_part
from tapecheck.fixes.ops import op_called
from tapecheck.source.nodes import ADDS_SEVERAL, STORES, last_name, of_kind

_SAME_LENGTH = frozenset(f"builtins.{name}" for name in ("enumerate", "list", "reversed", "sorted", "tuple", "zip"))
_OF_DICTS = frozenset(("items", "keys", "values"))
_IN_PIECES = frozenset(("chunk", "split", "tensor_split"))
"""Ops of torch that give one tensor at least, even of one that has no elements."""
_SHRINKING = frozenset(("clear", "pop", "popitem", "popleft", "remove"))
_GIVING = (ast.Assign, ast.AnnAssign, ast.AugAssign)
_MOST_NAMES = 4
"""Names followed from the loop to what they are given."""


def is_entered_with_some(code: Code, loop: ast.For) -> bool:
    """Return whether a loop that had iterations once has some each time that the program comes to it."""
    if code.function(loop) is code.tree and not code.loops(loop):
        return not _is_chosen(code, loop.iter, _MOST_NAMES)
    return _has_some(code, loop.iter, _MOST_NAMES)


def _fills(code: Code, name: str) -> list[tuple[ast.AST, ast.expr | None]]:
    """Return where a container gets what is in it, with the values that are given it there, if these are several."""
    fills: list[tuple[ast.AST, ast.expr | None]] = [
        (store, store.value) for store in code.stores(code.tree, name) if isinstance(store, _GIVING)
    ]
    fills += [
        (node, node.args[-1] if node.args and node.func.attr in ADDS_SEVERAL else None)
        for node in of_kind(code.tree, ast.Call)
        if isinstance(node.func, ast.Attribute) and node.func.attr in STORES and dotted(node.func.value) == name
    ]
    # What starts empty is filled by what comes later.
    return [(node, given) for node, given in fills if not _is_empty(given)]


def _is_chosen(code: Code, values: ast.expr, names: int) -> bool:
    """Return whether a condition stands in front of each of some values: in other data none of them may be there."""
    if isinstance(values, (ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)):
        return any(one.ifs or _is_chosen(code, one.iter, names) for one in values.generators)
    if isinstance(values, ast.Call):
        if code.path(values.func) == "builtins.filter":
            return True
        parts = [values.func.value] if isinstance(values.func, ast.Attribute) else values.args
        return any(_is_chosen(code, one, names) for one in parts)
    name = dotted(values)
    return name is not None and names > 0 and _is_filled_by_choice(code, name, code.statement(values), names - 1)


def _is_filled_by_choice(code: Code, name: str, home: ast.stmt | None, names: int) -> bool:
    """Return whether all that fills what a statement reads by a name does so on a condition, or with chosen values."""
    fills = _fills(code, name)
    places = [node for node, _ in fills]
    return bool(fills) and all(
        (home is not None and _on_condition(code, node, home, places))
        or (given is not None and _is_chosen(code, given, names))
        or any(_is_chosen(code, loop.iter, names) for loop in code.loops(node) if isinstance(loop, ast.For))
        for node, given in fills
    )


def _is_empty(values: ast.expr | None) -> bool:
    if isinstance(values, (ast.List, ast.Tuple, ast.Set)):
        return not values.elts
    if isinstance(values, ast.Dict):
        return not values.keys
    return isinstance(values, ast.Call) and not values.args and not isinstance(values.func, ast.Attribute)


def _on_condition(code: Code, node: ast.AST, home: ast.stmt, places: Sequence[ast.AST]) -> bool:
    """Return whether it depends on a condition that one of some places is run before the program comes to a statement,
    and not only which of them.
    """
    around = set(map(id, code.parents(home)))
    inner: ast.AST = node
    for outer in code.parents(node):
        if id(outer) in around:
            return False
        sides = (outer.body, outer.orelse) if isinstance(outer, ast.If) else ()
        either = sides and all(any(code.inside(one, part) for one in places for part in side) for side in sides)
        if isinstance(outer, (ast.If, ast.IfExp, ast.Match, ast.Try)) and not either:
            return True
        if isinstance(outer, (ast.For, ast.While)) and _is_left_before(outer, inner):
            return True
        inner = outer
    return False


def _is_left_before(loop: ast.For | ast.While, child: ast.AST) -> bool:
    """Return whether a round may end before it comes to one of the statements of its loop."""
    before = itertools.takewhile(lambda statement: statement is not child, loop.body)
    return any(isinstance(one, (ast.Continue, ast.Break)) for part in before for one in of_kind(part, ast.stmt))


def _has_some(code: Code, values: ast.expr, names: int) -> bool:
    """Return whether the text shows that values are one or more, wherever they are gone over."""
    if isinstance(values, (ast.List, ast.Tuple, ast.Set)):
        return any(not isinstance(one, ast.Starred) for one in values.elts)
    if isinstance(values, ast.Dict):
        return any(key is not None for key in values.keys)
    if isinstance(values, (ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)):
        return all(not one.ifs and _has_some(code, one.iter, names) for one in values.generators)
    if isinstance(values, ast.Call):
        return _call_has_some(code, values, names)
    return names > 0 and _is_filled(code, values, names - 1)


def _call_has_some(code: Code, call: ast.Call, names: int) -> bool:
    path = code.path(call.func)
    if path == "builtins.range":
        numbers = [number for one in call.args if (number := _number(code, one)) is not None]
        return len(numbers) == len(call.args) and len(range(*numbers)) > 0
    if isinstance(call.func, ast.Attribute) and call.func.attr in _OF_DICTS and not call.args:
        return _has_some(code, call.func.value, names)
    op = op_called(code, call)
    if op is not None and op.name in _IN_PIECES:
        return True
    layers = path.startswith("torch.nn.") and path.endswith(("ModuleList", "ModuleDict", "ParameterList"))
    kept = path in _SAME_LENGTH or layers
    return kept and bool(call.args) and all(_has_some(code, one, names) for one in call.args)


def _is_filled(code: Code, values: ast.expr, names: int) -> bool:
    """Return whether a name or attribute is only ever given one or more values, and none is taken out."""
    name = dotted(values)
    scope = code.owner(values) if isinstance(values, ast.Attribute) else code.function(values)
    stores = code.stores(scope or code.tree, name) if name is not None else []
    if not stores and isinstance(values, ast.Name):
        stores = code.stores(code.tree, values.id)
    given = [_given_alone(one) for one in stores]
    if not given or not all(one is not None and _has_some(code, one, names) for one in given):
        return False
    return last_part(values) not in map(last_part, _shrunk(code))


def _shrunk(code: Code) -> list[ast.expr]:
    """Return what something is taken out of anywhere, or that is deleted."""
    shrunk = [node.value for node in of_kind(code.tree, ast.Attribute) if node.attr in _SHRINKING]
    gone = [part for node in of_kind(code.tree, ast.Delete) for part in of_kind(node, ast.expr) if last_name(part)]
    return [*shrunk, *gone]


def _given_alone(store: ast.stmt) -> ast.expr | None:
    """Return what a statement gives one name or attribute, and no other."""
    match store:
        case ast.Assign(targets=[ast.Name() | ast.Attribute() | ast.Subscript()], value=value):
            return value
        case ast.AnnAssign(value=value):
            return value
    return None


def _number(code: Code, value: ast.expr) -> int | None:
    """Return a number that stands in the text, or that a name is given once."""
    if isinstance(value, ast.Name):
        stores = code.stores(code.tree, value.id)
        only = stores[0] if len(stores) == 1 else None
        value = only.value if isinstance(only, ast.Assign) else value
    return value.value if isinstance(value, ast.Constant) and type(value.value) is int else None
