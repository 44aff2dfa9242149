"""Unknown values: what is asked of one is remembered, so that the same question gets the same answer."""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Hashable, Iterable, Iterator
from typing import Any

from tapecheck.interpret import limits
from tapecheck.interpret.engine import Engine
from tapecheck.interpret.objects.equality import hashable
from tapecheck.interpret.state import World
from tapecheck.interpret.values import CONSTANTS, Kind, List, Unknown, Value

_DRAWN = "drawn by chance"
"""The mark of a tensor, and the operation of an unknown, that chance has made."""


def attribute_of_unknown(owner: Unknown, name: str) -> Value:
    """Return an attribute of an unknown value: asked twice it is the same unknown. It shares the owner's graph."""
    if owner.attrs is None:
        owner.attrs = {}
    if name not in owner.attrs:
        child = Unknown(f"{owner.name}.{name}" if owner.name else name, owner.node, owner.cuts)
        child.oldest = owner.oldest
        child.data, child.assumed = owner.data, owner.assumed
        child.certain, child.returned, child.within = owner.certain, owner.returned, owner.within
        child.owner, child.attr = owner, name
        if name == "data" and owner.within is not None and owner.within.leaf is not None:
            # Of a model's parameter it is the values alone: what is done to them records nothing.
            child.within = None
        owner.attrs[name] = child
    return owner.attrs[name]


def length_of_unknown(owner: Unknown) -> Unknown:
    """Return the length of an unknown value, the same whenever it is asked for."""
    if owner.length is None:
        owner.length = Unknown(f"len({owner.name})", None, owner.cuts, Kind.WHOLE)
        owner.length.parts = ("len", owner)
    return owner.length


def length_of_parts(owner: List) -> Unknown | None:
    """Return how many parts a call made of a value, an unknown number; None of any other list, or where it grew."""
    if not owner.more or not owner.alike or owner.alike != len(owner.items):
        return None
    if owner.length is None:
        owner.length = Unknown.whole("len")
    length: Unknown = owner.length
    return length


def item_of_unknown(owner: Unknown, index: Value) -> Value:
    """Return an item of an unknown value; the same for the same constant index."""
    key = hashable(index)
    if owner.items is None:
        owner.items = {}
    if key not in owner.items:
        child = Unknown(f"{owner.name}[...]", owner.node, owner.cuts)
        child.oldest = owner.oldest
        child.data, child.assumed = owner.data, owner.assumed
        child.certain, child.returned, child.within = owner.certain, owner.returned, owner.within
        child.part_of = owner
        if not isinstance(index, CONSTANTS):
            return child
        owner.items[key] = child
    return owner.items[key]


def place_of_unknown(owner: Value, index: Value) -> int:
    """Return the place of a list that an unknown index stands for: its own as long as there are any.

    Two indices that nobody knows are two elements rather than one that is asked for again.
    """
    if not isinstance(owner, List) or not isinstance(index, Unknown):
        return 0
    if owner.asked is None:
        owner.asked = {}
    # The index is kept, so that its id stays its own.
    return owner.asked.setdefault(expression(index), (len(owner.asked), index))[0]


_numbers = itertools.count(1)


class _Settlings:
    """The number of the last time that an unknown was settled on a constant, in any run and thread.

    Keys from before it may no longer hold. No number comes twice: one that threads set back is one with no keys.
    """

    count = 0


def settle_on(value: Unknown, constant: Value) -> None:
    """Let an unknown stand for a constant from now on, and what it was computed from by adding an int for that one."""
    value.concrete = constant
    _Settlings.count = next(_numbers)
    parts = value.parts
    if parts is None or len(parts) != 3 or parts[0] not in ("Add", "Sub") or type(constant) is not int:
        return
    left, right = parts[1:]
    if isinstance(left, Unknown) and left.concrete is None and type(right) is int:
        settle_on(left, constant - right if parts[0] == "Add" else constant + right)
    elif isinstance(right, Unknown) and right.concrete is None and type(left) is int:
        settle_on(right, constant - left if parts[0] == "Add" else left - constant)


def expression(value: Value) -> tuple[Any, ...]:
    """Return what a value is worked out from, as a key: the same expression of the same unknowns is the same value."""
    if isinstance(value, Unknown):
        if value.concrete is not None:
            return ("=", hashable(value.concrete))
        if value.parts is not None:
            known = value.key
            if known is not None and known[0] == _Settlings.count:
                return known[1]
            key = _composed(value.parts[0], value.parts[1:], value)
            if all(map(_steady, value.parts[1:])):
                value.key = (_Settlings.count, key)
            return key
        return ("?", id(value))
    if isinstance(value, CONSTANTS):
        return ("=", value)
    if isinstance(value, (tuple, List)) and not getattr(value, "more", False):
        items = value if isinstance(value, tuple) else value.items
        if len(items) <= limits.MOST_NAMED:
            return _composed("()", items, value)
    return ("?", id(value))


def _composed(what: Any, parts: Iterable[Value], value: Value) -> tuple[Any, ...]:
    """Return the key of what is worked out from parts, with its size; that of the value itself where it gets too large.

    The same part may be in it many times: `k + k`, over and over.
    """
    keys = [expression(part) for part in parts]
    size = 1 + sum(key[1] if len(key) > 2 else 1 for key in keys)
    return (what, size, *keys) if size <= limits.LARGEST_KEY else ("?", id(value))


def _steady(part: Value) -> bool:
    """Whether the key of a value stays as it is until something is settled on: a list can change at any time."""
    if isinstance(part, Unknown):
        if part.concrete is not None or part.parts is None:
            return True
        return part.key is not None and part.key[0] == _Settlings.count
    return isinstance(part, CONSTANTS)


def derived(kind: Kind, name: str, what: str, *parts: Value) -> Unknown:
    """Return an unknown that is worked out from other values: `what` says how."""
    result = Unknown(name, None, (), kind)
    result.parts = (what, *parts)
    result.data = True
    return result


def remembered(world: World, key: Hashable, name: str, kind: Kind = Kind.PLAIN) -> Unknown:
    """Return the unknown that stands for something outside the program, the same whenever it is asked for."""
    value = world.knowledge.known.get(key)
    if value is None:
        value = world.knowledge.known[key] = Unknown(name, None, (), kind)
    return value


def drawn(value: Unknown) -> None:
    """Note that a value is drawn by chance: drawn again it may be the same, however often that is."""
    value.parts = (_DRAWN, Unknown())


def is_drawn(value: Value) -> bool:
    """Return whether a value is drawn by chance, or worked out from one that is."""
    return any(one.parts is not None and one.parts[0] == _DRAWN for one in origins(value))


def origins(value: Value) -> Iterator[Unknown]:
    """Yield the unknowns that a value is worked out from, itself included.

    Each comes once: `k + k`, many times over, has few parts and very many ways to them.
    """
    queue, seen = [value], {id(value)}
    for part in queue:
        parts: tuple[Value, ...] = part if isinstance(part, tuple) else ()
        if isinstance(part, Unknown):
            yield part
            parts = part.parts[1:] if part.parts is not None else ()
        fresh = [one for one in parts if isinstance(one, (Unknown, tuple)) and id(one) not in seen]
        seen.update(map(id, fresh))
        queue += fresh


def usually(value: Unknown, default: Value) -> None:
    """Note what an unknown setting is where nobody has set it: tests of it come out so, as likely as not."""
    if value.usual is None:
        value.usual, value.likely = (default,), bool(default)


def settled(value: Unknown, answer: bool) -> None:
    """Note how a test came out: what is known of the unknown that was tested from now on."""
    if value.compared is None:
        return
    kind, owner, constant = value.compared
    if kind in ("Eq", "Is"):
        if answer and constant is None:
            # None is false and carries no graph, whatever would have been there otherwise.
            owner.node, owner.oldest, owner.returned, owner.data, owner.truth = None, None, False, True, False
        elif answer and owner.concrete is None:
            settle_on(owner, constant)
    elif isinstance(constant, (int, float)):
        low, high = owner.bounds or (-math.inf, math.inf)
        whole = owner.kind is Kind.WHOLE
        if (kind == "Gt") == answer:
            low = max(low, _next(constant, 1, whole) if kind == "Gt" else constant)
        else:
            high = min(high, constant if kind == "Gt" else _next(constant, -1, whole))
        owner.bounds = (low, high)


def _next(constant: float, direction: int, whole: bool) -> float:
    """Return the number that follows a constant in a direction."""
    return constant + direction if whole else math.nextafter(constant, direction * math.inf)


def decided(kind: str, owner: Unknown, constant: Value) -> bool | None:
    """Return the answer of a test that follows from what earlier tests of the same unknown came out as."""
    bounds = _bounds_of(owner)
    if bounds is None or not isinstance(constant, (int, float)):
        return None
    low, high = bounds
    if kind == "Gt":
        return True if low > constant else (False if high <= constant else None)
    if kind == "Lt":
        return True if high < constant else (False if low >= constant else None)
    return False if kind == "Eq" and not low <= constant <= high else None


def _bounds_of(value: Unknown) -> tuple[float, float] | None:
    """Return what is known of a number, or follows for it from the one that an int was added to."""
    if value.bounds is not None or value.parts is None or len(value.parts) != 3 or value.parts[0] not in ("Add", "Sub"):
        return value.bounds
    left, right = value.parts[1:]
    if isinstance(left, Unknown) and type(right) is int:
        bounds, shift = _bounds_of(left), right if value.parts[0] == "Add" else -right
    elif isinstance(right, Unknown) and type(left) is int and value.parts[0] == "Add":
        bounds, shift = _bounds_of(right), left
    else:
        return None
    return None if bounds is None else (bounds[0] + shift, bounds[1] + shift)


def bound_length(value: Unknown, times: int = limits.LOOP_BOUND) -> int:
    """Settle on a length for an unknown iterable or number, one that fits what is known of it."""
    if isinstance(value.concrete, int):
        return value.concrete
    if value.truth is False:
        times = 0
    elif value.bounds is not None:
        low, high = value.bounds
        times = math.ceil(max(min(times, high), low, 0)) if max(min(times, high), low) < limits.MOST_SETTLED else times
    if value.concrete is None:
        settle_on(value, times)
    return times


def resolved(machine: Engine, value: Value, node: ast.AST) -> Value:
    """Return the constant that an unknown has been settled on, or that follows from what its parts were settled on."""
    if not isinstance(value, Unknown):
        return value
    if value.concrete is None and value.parts is not None and len(value.parts) == 3:
        if value.unresolved == _Settlings.count:
            return value
        kind = getattr(ast, value.parts[0], None)
        left, right = (resolved(machine, part, node) for part in value.parts[1:])
        if kind is not None and isinstance(left, CONSTANTS) and isinstance(right, CONSTANTS):
            result = machine.binary(kind(), left, right, node)
            if isinstance(result, CONSTANTS):
                settle_on(value, result)
        if value.concrete is None:
            value.unresolved = _Settlings.count
    return value if value.concrete is None else value.concrete
