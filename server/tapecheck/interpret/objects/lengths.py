"""Lengths that are worked out from others: whether one grows with those, or stays as short however long they are.

That a loop goes round at least twice is taken for granted of what nobody knows the length of, and so of what is as many
less a few, or a part of as many. `xs[len(xs) - 1:]` has one element, however many `xs` has.
"""

from __future__ import annotations

import contextlib
import math
import operator
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType

from tapecheck.interpret import limits
from tapecheck.interpret.objects.arithmetic import OPERATIONS, Unclear
from tapecheck.interpret.values import Kind, Unknown, Value, concrete, is_number, is_open

MANY = max(limits.OTHER_LENGTHS)
_TRIED = range(MANY, MANY + limits.LENGTHS_TRIED)


def _part(count: int, start: int | None, stop: int | None, step: int | None) -> int:
    return len(range(count)[start:stop:step])


_WORKED_OUT: dict[str, Callable[..., float]] = {
    **OPERATIONS, "RShift": operator.rshift, "unary USub": operator.neg, "unary UAdd": operator.pos, "part": _part,
    "rounds": lambda start, stop, step: len(range(start, stop, step)),
    "split": lambda count, size: max(1, -(-count // size)),
    "chunk": lambda count, chunks: max(1, -(-count // max(1, -(-count // chunks)))),
}  # fmt: skip
"""What is worked out again, by the name of the operation."""
_ERRORS = (ArithmeticError, TypeError, ValueError, RecursionError, Unclear)


def _worked_out_by(value: Unknown) -> Callable[..., float] | None:
    """Return what works a number out again; None where there is none for its operation."""
    return _WORKED_OUT.get(value.origin.operation or "")


class _Formula:
    """What works a number out anew for other lengths. Each part is read once, and worked out once each time, though
    `xs = xs[:len(xs) // 2]` asks for one twice.
    """

    __slots__ = ("_constants", "_given", "_result", "_steps")

    def __init__(self, value: Value, given: Collection[int]) -> None:
        """Read the number; `given` are the lengths that are told each time, by identity. Raises `Unclear`."""
        self._constants: list[Value] = []
        self._given: dict[int, int] = {}
        self._steps: list[tuple[Callable[..., float], tuple[int, ...]]] = []
        places: dict[int, int] = {}
        order: list[tuple[Unknown, Callable[..., float]]] = []
        leaves: dict[int, Value] = {}
        _read(value, given, order, leaves)
        for at, leaf in leaves.items():
            places[at] = len(self._constants)
            if at in given:
                self._given[at] = len(self._constants)
            self._constants.append(leaf)
        for made, call in order:
            self._steps.append((call, tuple([places[id(part)] for part in made.origin.operands])))
            places[id(made)] = len(self._constants) + len(self._steps) - 1
        self._result = places[id(value)]

    def __call__(self, given: Mapping[int, int]) -> Value:
        """Work the number out; raises `Unclear`, or what Python raises."""
        values = [*self._constants]
        for at, place in self._given.items():
            values[place] = given[at]
        return _result(values, self._steps, self._result)

    def counts(self, tried: Iterable[int]) -> Mapping[int, int]:
        """Return how many elements there are, as it says, for each count that all the given lengths are told to have;
        nothing for those of which it cannot be told.
        """
        given = frozenset(self._given.values())
        constants = tuple([(type(one), one) for one in self._constants])
        return _counts(tuple(tried), constants, given, tuple(self._steps), self._result)


def _result(values: list[Value], steps: Iterable[tuple[Callable[..., float], tuple[int, ...]]], place: int) -> Value:
    """Add to values what each step makes of them, and return the one at a place."""
    for call, parts in steps:
        found: Value = call(*[values[part] for part in parts])
        if isinstance(found, int) and found.bit_length() > limits.MAX_BITS:
            raise Unclear
        values.append(found)
    return values[place]


@lru_cache(limits.FORMULAS_KEPT)
def _counts(
    tried: tuple[int, ...],
    constants: tuple[tuple[type, Value], ...],
    given: frozenset[int],
    steps: tuple[tuple[Callable[..., float], tuple[int, ...]], ...],
    place: int,
) -> Mapping[int, int]:
    """What `_Formula.counts` returns: a program asks for the same few lengths at each of its loops, again and again."""
    found: dict[int, int] = {}
    for one in tried:
        values = [one if number in given else constant for number, (_, constant) in enumerate(constants)]
        with contextlib.suppress(*_ERRORS):
            count = _count(_result(values, steps, place))
            if count is not None:
                found[one] = count
    return MappingProxyType(found)


def _read(
    value: Value, given: Collection[int], order: list[tuple[Unknown, Callable[..., float]]], leaves: dict[int, Value]
) -> None:
    """Add what a number is worked out from, each after its own parts, and what is not worked out itself."""
    done = set[int]()
    stack = [(value, False)]
    while stack:
        one, is_read = stack.pop()
        if id(one) in done or id(one) in leaves:
            continue
        if id(one) in given:
            leaves[id(one)] = None
        elif not is_open(one):
            known = concrete(one)
            if not (known is None or is_number(known)):
                raise Unclear
            leaves[id(one)] = known
        elif (call := _worked_out_by(one)) is None:
            raise Unclear
        elif is_read:
            done.add(id(one))
            order.append((one, call))
        else:
            stack.append((one, True))
            stack += [(part, False) for part in one.origin.operands]


def worked_out(value: Value, given: Mapping[int, int] | None = None) -> Value:
    """Return what a number comes to where the lengths that it is worked out from are as `given`, by identity, or were
    settled on; raise `Unclear` where it cannot be told.
    """
    given = given or {}
    return _Formula(value, given)(given)


def count_of(value: Value, given: Mapping[int, int] | None = None) -> int | None:
    """Return how many elements a length comes to; None where it cannot be told."""
    try:
        return _count(worked_out(value, given))
    except _ERRORS:
        return None


def _count(found: Value) -> int | None:
    return max(0, math.ceil(found)) if isinstance(found, (int, float)) else None


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
        if not is_open(one) or id(one) in seen:
            continue
        seen.add(id(one))
        if _worked_out_by(one) is not None:
            queue += one.origin.operands
        else:
            found[id(one)] = one
    return found


def by_count(length: Value, *counted: Unknown) -> Mapping[int, int]:
    """Return how many elements there are, as a length says, for some counts of what it is worked out from."""
    bounds = [one.shown.bounds for one in counted if one.shown.bounds is not None]
    low, high = max([0, *(one[0] for one in bounds)]), min([math.inf, *(one[1] for one in bounds)])
    tried = [one for one in (limits.LOOP_BOUND, limits.BATCHES_BOUND, *_TRIED) if low <= one <= high]
    told = [*map(id, counted)]
    try:
        formula = _Formula(length, told)
    except _ERRORS:
        return {}
    return formula.counts(tried)


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
    if not is_open(value) or id(value) in seen:
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
    if source.origin.operation is None:
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
