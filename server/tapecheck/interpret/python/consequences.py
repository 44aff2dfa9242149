"""What follows for an undecided test from the tests that were answered before it.

`mode == "c"` cannot hold where `mode in ("a", "b")` does, nor `n % 2 == 1` where `n % 2 == 0` does. That is found by
trying: for what nobody knows a set of examples is made from the constants that the tests name, and an answer that fits
none of those which fit the answers given so far is none. Whatever the examples cannot settle stays undecided.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from tapecheck.interpret import limits
from tapecheck.interpret.engine import Engine
from tapecheck.interpret.objects.arithmetic import OPERATIONS, Unclear
from tapecheck.interpret.objects.unknowns import types_in
from tapecheck.interpret.state import World
from tapecheck.interpret.state.knowledge import Fact
from tapecheck.interpret.values import (
    COUNTED,
    Class,
    Kind,
    Unknown,
    Value,
    behaviour,
    expression,
    is_constant,
    is_number,
    known_elements,
    only,
)

_ERRORS = (TypeError, ValueError, ArithmeticError, AttributeError, IndexError, LookupError)


_Formula: TypeAlias = Callable[[dict[int, object]], object]
"""What an expression comes to, worked out from an example of each unknown in it."""


_Type: TypeAlias = "str | Class | Unknown"
"""A class that a test names: one of the user's, the dotted path of another, or what nobody knows."""


class _Kind:
    """An example of an object of some classes and of no others."""

    def __init__(self, kinds: frozenset[_Type]) -> None:
        self.kinds = kinds


_BUILT_IN: dict[str, type] = {
    f"builtins.{kind.__name__}": kind
    for kind in (bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset)
}
_TENSOR = frozenset(["Tensor", "Parameter"])
_CALLS: dict[str, Callable[..., object]] = {
    **OPERATIONS, "len": len, "isnan": math.isnan, "isinf": math.isinf, "isfinite": math.isfinite, "sqrt": math.sqrt,
    "test In": lambda item, container: item in container,
}  # fmt: skip
_ARITHMETIC = frozenset(("Add", "Sub", "Mult", "Div", "FloorDiv", "Mod", "Pow"))
_TEXT = frozenset(("startswith", "endswith", "lower", "upper", "strip", "isdigit"))


def consequence(machine: Engine, value: Unknown) -> bool | None:
    """Return the only answer to a test that fits those given before; None where both do, or it is unknown."""
    world = machine.world
    if not world.knowledge.facts and value.origin.operation is None:
        return None
    known = world.knowledge.consequences.get(id(value))
    if known is not None and known[0] == len(world.knowledge.facts):
        return known[1]
    try:
        answer = _deduced(world, value)
    except (Unclear, *_ERRORS):
        answer = None
    # The value is kept, so that its id stays its own.
    world.knowledge.consequences[id(value)] = (len(world.knowledge.facts), answer, value)
    return answer


def _deduced(world: World, value: Unknown) -> bool | None:
    atoms = _atoms(value)
    if not atoms:
        # All that it hangs on has been settled on.
        return bool(_formula(value)({})) if value.origin.operation is not None else None
    own = tuple(atoms)
    facts = _about(world.knowledge.facts_about, atoms)
    if not 0 < len(facts) <= limits.MOST_ANSWERED or len(atoms) > limits.MOST_UNKNOWNS:
        return None
    return _tried(world, value, facts, own, atoms)


def answered(machine: Engine, value: Unknown, answer: bool) -> None:
    """Note the answer to a test."""
    try:
        atoms = _atoms(value)
    except Unclear:
        return
    fact = (value, answer, atoms)
    machine.world.knowledge.facts.append(fact)
    for atom in atoms:
        machine.world.knowledge.facts_about.setdefault(atom, []).append(fact)


def _about(facts: dict[int, list[Fact]], atoms: dict[int, Unknown]) -> list[Fact]:
    """Return the answered tests that speak of some unknowns, or of ones that these depend on; extends `atoms`.

    Stops as soon as they are more than are looked at.
    """
    chosen: dict[int, Fact] = {}
    open_atoms = list(atoms)
    while open_atoms and len(chosen) <= limits.MOST_ANSWERED and len(atoms) <= limits.MOST_UNKNOWNS:
        for fact in facts.get(open_atoms.pop(), ()):
            if id(fact) in chosen:
                continue
            chosen[id(fact)] = fact
            if len(chosen) > limits.MOST_ANSWERED:
                break
            open_atoms += fact[2].keys() - atoms.keys()
            atoms.update(fact[2])
    return list(chosen.values())


def _tried(
    world: World, value: Unknown, facts: list[Fact], own: Iterable[int], atoms: dict[int, Unknown]
) -> bool | None:
    """Return the only answer that some examples of the unknowns give; `own` are those that the test itself is about."""
    tests = [value, *(fact for fact, _, _ in facts)]
    size = _size(tests, limits.MOST_WORKED_OUT)
    if size >= limits.MOST_WORKED_OUT:
        return None
    key = _alike(tests, facts, own, atoms) if size <= limits.MOST_COMPARED_PARTS else None
    known = _TRIALS.get(key) if key is not None else None
    if known is None:
        known = _try_out(tests, size, facts, own, atoms)
        if key is not None:
            if len(_TRIALS) >= limits.MOST_TRIALS_KEPT:
                _TRIALS.clear()
            _TRIALS[key] = known
    parts, answer = known
    if parts is not None:
        world.budget.spend(parts // limits.PARTS_A_UNIT)
    return answer


_TRIALS: dict[tuple[object, ...], tuple[int | None, bool | None]] = {}
"""What trials have come to, by what tells them apart: a way through a program asks much of what others have asked."""


def _try_out(
    tests: list[Unknown], size: int, facts: list[Fact], own: Iterable[int], atoms: dict[int, Unknown]
) -> tuple[int | None, bool | None]:
    """Return how many parts of expressions a trial works out, None where it is none, and the only answer that it gives;
    `size` is the number of parts of all its tests.
    """
    parts: int | None = None
    try:
        constants = _Constants(tests)
        examples = {atom: constants.examples(unknown) for atom, unknown in atoms.items()}
        trials = math.prod(map(len, examples.values()))
        # A minimum of a minimum of ..., as a search for the best of many makes it, is as long as the search.
        if trials > limits.MOST_TRIALS or trials * size > limits.MOST_WORKED_OUT:
            return None, None
        parts = trials * size
        test = _formula(tests[0])
        if len(_answers(test, {atom: examples[atom] for atom in own}, ())) < 2:
            # Examples that never give one of the answers, whatever came before, are too poor to say anything.
            return parts, None
        joint = [(_formula(fact[0]), fact[1]) for fact in facts if not _narrows(fact, examples)]
        together = _answers(test, examples, joint)
        return parts, together.pop() if len(together) == 1 else None
    except (Unclear, *_ERRORS):
        return parts, None


def _alike(
    tests: list[Unknown], facts: list[Fact], own: Iterable[int], atoms: dict[int, Unknown]
) -> tuple[object, ...] | None:
    """Return what tells a trial from others: its tests with a number for each unknown; None where more tells it."""
    numbers = {atom: number for number, atom in enumerate(atoms)}
    told: list[object] = [(unknown.kind, unknown.shown.bounds) for unknown in atoms.values()]
    told.append(tuple([numbers[atom] for atom in own]))
    told += [(answer, *[numbers[atom] for atom in about]) for _, answer, about in facts]
    for test in tests:
        if not _tells(test, numbers, told):
            return None
    return tuple(told)


def _tells(value: Value, numbers: dict[int, int], told: list[object]) -> bool:
    """Add what tells an expression from others; returns whether that is all."""
    if (elements := known_elements(value)) is not None:
        told.append(("elements", len(elements)))
        return all(_tells(element, numbers, told) for element in elements)
    if not isinstance(value, Unknown):
        told.append((type(value), value))
        # Which layers torch has hangs on its version.
        return isinstance(value, _PLAIN) and not (isinstance(value, str) and value.startswith("torch.nn."))
    if value.concrete is not None:
        told.append("concrete")
        if not _tells(value.concrete, numbers, told):
            return False
    name, operands = value.origin.operation, value.origin.operands
    if name is None:
        told.append(numbers.get(id(value)))
        return True
    told.append((name, len(operands), None if name in _WORKED_OUT else numbers.get(hash(expression(value)))))
    return all(_tells(part, numbers, told) for part in operands)


_PLAIN = (int, float, complex, str, bytes, type(None))
_WORKED_OUT = frozenset(("test Is", *_TEXT, *_CALLS))


def _answers(test: _Formula, examples: dict[int, list[object]], joint: Sequence[tuple[_Formula, bool]]) -> set[bool]:
    """Return what a test comes to for the choices of examples that it can be worked out for, and that fit the answers
    of the `joint` tests.
    """
    found: set[bool] = set()
    for chosen in itertools.product(*examples.values()):
        given = dict(zip(examples, chosen))
        try:
            answer = bool(test(given))
            if answer in found or any(bool(other(given)) != expected for other, expected in joint):
                continue
        except _ERRORS:
            continue
        found.add(answer)
        if len(found) == 2:
            break
    return found


def _narrows(fact: Fact, examples: dict[int, list[object]]) -> bool:
    """Leave only those examples of an unknown that fit an answered test of it alone; returns whether it is one."""
    if len(fact[2]) != 1:
        return False
    (atom,) = fact[2]
    test = _formula(fact[0])
    fitting = []
    for example in examples[atom]:
        try:
            if bool(test({atom: example})) == fact[1]:
                fitting.append(example)
        except KeyError:
            # What it is about has been settled on otherwise since.
            return False
        except _ERRORS:
            continue
    examples[atom] = fitting
    return True


def _size(values: Iterable[Value], most: int) -> int:
    """Return the parts of expressions, each as often as it is worked out; counted up to a bound."""
    found = 0
    stack = list(values)
    while stack and found < most:
        found += 1
        current = stack.pop()
        if isinstance(current, Unknown):
            stack.extend(current.origin.operands)
        else:
            stack.extend(known_elements(current) or ())
    return found


def _atoms(value: Value) -> dict[int, Unknown]:
    """Return the unknowns that a test is about in the end, by id."""
    found: dict[int, Unknown] = {}
    opened: set[int] = set()
    stack = [value]
    while stack:
        if len(found) > limits.MANY_ORIGINS:
            # Far more than examples are tried of.
            raise Unclear
        current = stack.pop()
        if isinstance(current, Unknown):
            name, operands = current.origin.operation, current.origin.operands
            if name is None:
                # What follows from a part that a test has settled on is found from that part's own parts.
                if current.concrete is None:
                    found[id(current)] = current
            elif name == "test Is" and types_in(operands[1]) is not None:
                stack.append(operands[0])
            elif name in _WORKED_OUT:
                if id(current) not in opened:
                    opened.add(id(current))
                    stack.extend(operands)
            else:
                # The same expression of the same unknowns is one value, so it can stand for itself.
                found[hash(expression(current))] = current
        elif (elements := known_elements(current)) is not None:
            if not behaviour(current).is_whole():
                raise Unclear
            stack.extend(elements)
        elif not is_constant(current):
            raise Unclear
    return found


def _formula(value: Value) -> _Formula:
    """Return what works an expression out for examples of the unknowns in it: many are tried, and read it once."""
    if (elements := known_elements(value)) is not None:
        items = [_formula(item) for item in elements]
        return lambda given: tuple([item(given) for item in items])
    if not isinstance(value, Unknown):
        return lambda given: value
    name, operands = value.origin.operation, value.origin.operands
    if name is None:
        return _example(id(value)) if value.concrete is None else lambda given: value.concrete
    if name == "test Is":
        return _identity(*operands)
    if name in _TEXT:
        return _text_method(name, [_formula(part) for part in operands])
    call = _CALLS.get(name)
    if call is None:
        return _example(hash(expression(value)))
    if len(operands) == 2:
        left, right = map(_formula, operands)
        return lambda given: call(left(given), right(given))
    given_to = [_formula(part) for part in operands]
    return lambda given: call(*[part(given) for part in given_to])


def _example(atom: int) -> _Formula:
    return lambda given: given[atom]


def _identity(one: Value, other: Value) -> _Formula:
    """Return what works out `one is other`, or whether it is an instance of the types that stand there instead."""
    left = _formula(one)
    if (named := types_in(other)) is not None:
        kinds = _types(named)
        return lambda given: _is_instance(left(given), kinds)
    right = _formula(other)

    def same(given: dict[int, object]) -> bool:
        found = left(given)
        return not isinstance(found, _Kind) and bool(found == right(given))

    return same


def _text_method(name: str, parts: list[_Formula]) -> _Formula:
    def call(given: dict[int, object]) -> object:
        values = [part(given) for part in parts]
        if not isinstance(values[0], str):
            raise TypeError(name)
        return getattr(values[0], name)(*values[1:])

    return call


def _types(kinds: tuple[Value, ...]) -> tuple[_Type, ...]:
    """Return the classes that a test of `isinstance` names."""
    return tuple(kind for kind in kinds if isinstance(kind, (str, Class, Unknown)))


def _is_instance(example: object, kinds: tuple[_Type, ...]) -> bool:
    if isinstance(example, _Kind):
        return not example.kinds.isdisjoint(kinds)
    return any(name in _BUILT_IN and isinstance(example, _BUILT_IN[name]) for name in only(kinds, str))


class _Constants:
    """The constants that tests name, and examples made from them."""

    def __init__(self, tests: Iterable[Unknown]) -> None:
        self.numbers: set[float] = {0, 1, 2, 3}
        self.combined = False
        self.divided = False
        self.searched: set[object] = set()
        self.texts: set[str] = {""}
        self.others: list[object] = [None, True, False]
        self.kinds: list[_Type] = []
        self.lengths = False
        for test in tests:
            self._collect(test)
        named = self.numbers - {0, 1}
        if self.divided:
            largest = max(abs(number) for number in named)
            if largest > limits.LARGEST_DIVISOR:
                raise Unclear
            self.numbers |= set(range(2 * int(largest)))
        elif self.combined and len(named) <= limits.MOST_COMBINED:
            self.numbers |= {
                made for a in named for b in named for made in (a + b, a * b) if abs(made) < limits.LARGEST_COMBINED
            }

    def _collect(self, value: Value) -> None:
        if isinstance(value, Unknown):
            self._collect(value.concrete)
            if value.origin.operation is not None:
                self._collect_operands(value.origin.operation, value.origin.operands)
        elif is_number(value):
            self.numbers.add(value)
        elif isinstance(value, str):
            self.texts.add(value)
        for item in known_elements(value) or ():
            self._collect(item)

    def _collect_operands(self, name: str, operands: tuple[Value, ...]) -> None:
        """Collect from an operation and its operands."""
        self.combined = self.combined or name in _ARITHMETIC
        self.divided = self.divided or name in ("Mod", "FloorDiv")
        self.lengths = self.lengths or name == "len"
        if name == "test In" and is_constant(operands[0]):
            self.searched.add(operands[0])
        if name == "test Is" and isinstance(operands[1], tuple):
            self.kinds += [kind for kind in _types(operands[1][1:]) if kind not in self.kinds]
            operands = operands[:1]
        for part in operands:
            self._collect(part)

    def examples(self, atom: Unknown) -> list[object]:
        """Values that an unknown may have."""
        numbers = list(dict.fromkeys(self._numbers(atom.kind is Kind.WHOLE)))
        if atom.shown.bounds is not None:
            low, high = atom.shown.bounds
            numbers = [number for number in numbers if low <= number <= high]
        if atom.kind in COUNTED:
            found: list[object] = [*numbers]
        else:
            found = [*numbers, *dict.fromkeys(self._texts()), *self.others, *self._kinds(), *self._containers()]
            if self.lengths:
                found += [range(int(number)) for number in self._numbers(True) if 0 < number < limits.LONGEST_EXAMPLE]
        if len(found) > limits.MOST_EXAMPLES:
            raise Unclear
        return found

    def _numbers(self, whole: bool) -> Iterator[float]:
        for number in sorted(self.numbers):
            yield from (number, number - 1, number + 1, -number)
            if not whole:
                yield from (number + 0.5, -number - 1, -number - 0.5)
        if not whole:
            yield from (math.inf, -math.inf)

    def _texts(self) -> Iterator[str]:
        """Each text alone, as a part of another, and with each of the others in it."""
        for text in sorted(self.texts):
            yield from (text, f"{text}~", f"~{text}", text.upper())
        if len(self.texts) > limits.MOST_TEXTS:
            raise Unclear
        for one, other in itertools.permutations(sorted(self.texts - {""}), 2):
            yield from (one + other, f"{one}~{other}")

    def _containers(self) -> Iterator[tuple[object, ...]]:
        """Containers that hold some of what was looked for and not the rest."""
        wanted = list(self.searched)
        if len(wanted) > limits.MOST_TEXTS:
            raise Unclear
        for count in range(len(wanted) + 1 if wanted else 0):
            yield from itertools.combinations(wanted, count)

    def _kinds(self) -> Iterator[_Kind]:
        """Objects of each class alone, of none, and of two classes where one may be made from the other."""
        if not self.kinds:
            return
        yield _Kind(frozenset())
        for kind in self.kinds:
            yield _Kind(frozenset([kind, *_bases(kind, self.kinds)]))
        for one, other in itertools.combinations(self.kinds, 2):
            if not _exclusive(one, other):
                yield _Kind(frozenset([one, other, *_bases(one, self.kinds), *_bases(other, self.kinds)]))


def _bases(kind: _Type, kinds: Iterable[_Type]) -> list[_Type]:
    """Return those of some classes that a class is surely made from."""
    if isinstance(kind, Class):
        own = {*kind.mro(), *kind.library_bases()}
        return [other for other in kinds if other in own]
    mine = _BUILT_IN.get(kind) if isinstance(kind, str) else None
    if mine is None:
        return []
    return [
        other for other in kinds
        if isinstance(other, str) and (theirs := _BUILT_IN.get(other)) is not None and issubclass(mine, theirs)
    ]  # fmt: skip


def _exclusive(one: _Type, other: _Type) -> bool:
    """Whether no object can be of both classes, except where one is made from the other and that is known."""
    if isinstance(one, Unknown) or isinstance(other, Unknown):
        return False
    if isinstance(one, Class):
        return not one.opaque and not other.opaque if isinstance(other, Class) else _apart_from(one, other)
    if isinstance(other, Class):
        return _apart_from(other, one)
    names = {_short(one), _short(other)}
    return names != _TENSOR and all(_stands_alone(path) for path in (one, other))


def _apart_from(cls: Class, path: str) -> bool:
    """Whether no object of a user's class is one of a built-in class, or a tensor."""
    return not cls.opaque and not cls.library_bases() and _is_plain(path)


def _stands_alone(path: str) -> bool:
    """Whether only its own bases share objects with a class: built-in classes, tensors and torch's layers."""
    return _is_plain(path) or (path.startswith("torch.nn.") and _is_layer(_short(path)))


def _is_plain(path: str) -> bool:
    return path in _BUILT_IN or _short(path) in _TENSOR


def _short(path: str) -> str:
    return path.rsplit(".", 1)[-1]


def _is_layer(name: str) -> bool:
    from tapecheck.torchfacts import load

    return not name.startswith("Lazy") and load().module(name) is not None
