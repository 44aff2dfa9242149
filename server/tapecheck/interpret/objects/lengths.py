"""Lengths that are worked out from others: whether one grows with those, or stays as short however long they are.

That a loop goes round at least twice is taken for granted of what nobody knows the length of, and so of what is as many
less a few, or a part of as many. `xs[len(xs) - 1:]` has one element, however many `xs` has.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping

from tapecheck.interpret import limits
from tapecheck.interpret.values import Kind, Unknown, Value, concrete, is_number

MANY = max(limits.OTHER_LENGTHS)
_TRIED = range(MANY, MANY + limits.LENGTHS_TRIED)


class Unclear(Exception):
    """A length is worked out in a way that cannot be gone through again."""


def _power(base: float, exponent: float) -> float:
    if abs(exponent) >= limits.MAX_TRIED_EXPONENT:
        raise Unclear
    power: float = base**exponent
    return power


def _part(count: int, start: int | None, stop: int | None, step: int | None) -> int:
    return len(range(count)[start:stop:step])


_WORKED_OUT: dict[Value, Callable[..., float]] = {
    "Add": operator.add, "Sub": operator.sub, "Mult": operator.mul, "Div": operator.truediv,
    "FloorDiv": operator.floordiv, "Mod": operator.mod, "Pow": _power, "RShift": operator.rshift,
    "BitAnd": operator.and_, "BitOr": operator.or_, "BitXor": operator.xor, "unary USub": operator.neg,
    "unary UAdd": operator.pos, "abs": abs, "min": min, "max": max, "int": int, "float": float, "round": round,
    "ceil": math.ceil, "floor": math.floor, "test Gt": operator.gt, "test Lt": operator.lt, "test Eq": operator.eq,
    "part": _part, "rounds": lambda start, stop, step: len(range(start, stop, step)),
    "split": lambda count, size: max(1, -(-count // size)),
    "chunk": lambda count, chunks: max(1, -(-count // max(1, -(-count // chunks)))),
}  # fmt: skip
"""What is worked out again, by the name of the operation."""
_ERRORS = (ArithmeticError, TypeError, ValueError, RecursionError, Unclear)


def _worked_out_by(value: Unknown) -> Callable[..., float] | None:
    """Return what works a number out again; None where there is none for its operation."""
    operation = value.origin.operation
    return _WORKED_OUT.get(operation) if isinstance(operation, str) else None


def worked_out(value: Value, given: Mapping[int, int] | None = None) -> Value:
    """Return what a number comes to where the lengths that it is worked out from are as `given`, by identity, or were
    settled on; raise `Unclear` where it cannot be told.
    """
    return _worked_out(value, dict(given or {}))


def _worked_out(value: Value, known: dict[int, Value]) -> Value:
    """Return the same: each number is worked out once, though `xs = xs[:len(xs) // 2]` asks for one twice each time."""
    if isinstance(value, Unknown) and value.concrete is None:
        if id(value) in known:
            return known[id(value)]
        call = _worked_out_by(value)
        if call is None:
            raise Unclear
        found: Value = call(*[_worked_out(part, known) for part in value.origin.operands])
        if isinstance(found, int) and found.bit_length() > limits.MAX_BITS:
            raise Unclear
        known[id(value)] = found
        return found
    value = concrete(value)
    if not (value is None or is_number(value)):
        raise Unclear
    return value


def count_of(value: Value, given: Mapping[int, int] | None = None) -> int | None:
    """Return how many elements a length comes to; None where it cannot be told."""
    try:
        found = worked_out(value, given)
        return max(0, math.ceil(found)) if isinstance(found, (int, float)) else None
    except _ERRORS:
        return None


def whole(value: Value) -> int | None:
    """Return the whole number that a bound comes to; None where it cannot be told, or is none."""
    try:
        found = worked_out(value)
    except _ERRORS:
        return None
    return int(found) if isinstance(found, (int, float)) and math.isfinite(found) and found == int(found) else None


def sources(value: Value) -> dict[int, Unknown]:
    """Return the unknowns that a length is worked out from, by identity: itself, where it is not."""
    found: dict[int, Unknown] = {}
    queue, seen = [value], set[int]()
    for one in queue:
        if not isinstance(one, Unknown) or one.concrete is not None or id(one) in seen:
            continue
        seen.add(id(one))
        if _worked_out_by(one) is not None:
            queue += one.origin.operands
        else:
            found[id(one)] = one
    return found


def by_count(length: Value, *counted: Unknown) -> dict[int, int]:
    """Return how many elements there are, as a length says, for some counts of what it is worked out from."""
    bounds = [one.shown.bounds for one in counted if one.shown.bounds is not None]
    low, high = max([0, *(one[0] for one in bounds)]), min([math.inf, *(one[1] for one in bounds)])
    tried = [one for one in (limits.LOOP_BOUND, limits.BATCHES_BOUND, *_TRIED) if low <= one <= high]
    found = {one: count_of(length, dict.fromkeys(map(id, counted), one)) for one in tried}
    return {one: count for one, count in found.items() if count is not None}


def least(counts: Mapping[int, int]) -> int:
    """Return how many elements there are at least, of what is as long as `by_count` says, where it hangs on many."""
    return min((count for at, count in counts.items() if at >= MANY), default=limits.SURE_ITERATIONS)


def goes_round(counts: Mapping[int, int]) -> bool:
    """Whether a loop over so many elements goes round as often as is taken for granted, for some count."""
    return max(counts.values()) >= limits.SURE_ITERATIONS


def stays_short(value: Value, seen: set[int] | None = None) -> bool:
    """Whether code that is not followed makes a length of others, or one of those stays short: it may be any number,
    and need not grow with them.
    """
    seen = set() if seen is None else seen
    if not isinstance(value, Unknown) or value.concrete is not None or id(value) in seen:
        return False
    seen.add(id(value))
    if any(_is_short(source, seen) for source in sources(value).values()):
        return True
    found = sources(value)
    if id(value) in found:
        return False
    if len(found) > 1 and not all(map(hangs_on_length, found.values())):
        return False
    # Two lengths may be equal.
    return least(by_count(value, *found.values())) < limits.SURE_ITERATIONS


def _is_short(source: Unknown, seen: set[int]) -> bool:
    """Whether something that is worked out from nothing may hang on a length all the same."""
    if source.origin.counts:
        return any(stays_short(one, seen) for one in source.origin.drawn)
    if source.origin.parts is None:
        return any(hangs_on_length(one) for one in source.origin.drawn)
    if source.origin.operation == "len":
        return isinstance(whole := source.origin.operands[0], Unknown) and whole.trust.data and hangs_on_length(whole)
    return any(hangs_on_length(one) for one in source.origin.operands)


def hangs_on_length(value: Value) -> bool:
    """Whether a value is worked out from how long something is."""
    queue, seen = [value], set[int]()
    for one in queue:
        if isinstance(one, tuple):
            queue += one
        if not isinstance(one, Unknown) or id(one) in seen:
            continue
        seen.add(id(one))
        if one.origin.counts or one.kind is Kind.SIZES or one.origin.operation == "len":
            return True
        queue += (*one.origin.drawn, *one.origin.operands, one.part_of.owner, one.part_of.source)
    return False
