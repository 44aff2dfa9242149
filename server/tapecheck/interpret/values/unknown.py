"""What nobody can know."""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Hashable, Iterable, MutableMapping
from enum import Enum
from typing import ClassVar, Literal, NamedTuple, TypeGuard, TypeVar, cast

from tapecheck.interpret import limits
from tapecheck.interpret.values.base import (
    MORE,
    MORE_KEYWORDS,
    NO_DEFAULT,
    NUMBERS,
    Args,
    BaseValue,
    Decides,
    Default,
    Deferred,
    Interpreter,
    Kwargs,
    NotPlain,
    Stream,
    Value,
    behaviour,
    hashable,
    is_constant,
    only,
    plain,
)
from tapecheck.interpret.values.tensor import Storage, Tensor
from tapecheck.tape import Fact, Setting, either

Key = TypeVar("Key", bound=Hashable)


class Kind(Enum):
    """What is known of the type of an unknown value."""

    # Enum's own is worked out from the name, each time.
    __hash__ = object.__hash__

    ANY = "any"
    """Anything: a tensor, a model, a container."""
    PLAIN = "plain"
    """No tensor, and nothing with a tensor in it."""
    NUMBER = "number"
    SCALE = "scale"
    """What the losses of a gradient scaler are multiplied by."""
    WHOLE = "whole"
    """A whole number: a length, an index."""
    SIZES = "sizes"
    """The sizes of a tensor: a whole number for each dimension."""
    TEXT = "text"
    MISSING = "missing"
    """What a class has under a name that it does not define."""
    NOT_IMPLEMENTED = "NotImplemented"
    """Python's constant of that name."""
    UNDECIDED = "undecided"
    """No tensor; what the program itself decides and the dry run does not work out, as the exact type of a tensor."""


COUNTED = (Kind.NUMBER, Kind.WHOLE, Kind.SCALE)
"""The kinds of numbers."""
_DATA = frozenset((Kind.PLAIN, Kind.UNDECIDED, *COUNTED, Kind.SIZES, Kind.TEXT))


_SIGNS = {"USub": "-", "UAdd": "+", "Invert": "~"}


class Whole(NamedTuple):
    """What an unknown is a part of: the attribute `attr` of `owner`, or what an index or a loop took out of `source`.

    `within` is what the program made itself and it is in: a model out of a library, what was in a saved file.
    """

    owner: Unknown | None = None
    attr: str = ""
    source: Unknown | None = None
    within: Unknown | None = None


class Question(NamedTuple):
    """What an unknown tests: the comparison `compared` of an unknown with a constant, or the opposite of `negated`."""

    compared: tuple[str, Unknown, Value] | None = None
    negated: Unknown | None = None


NO_QUESTION = Question()


class Origin(NamedTuple):
    """What an unknown was worked out from.

    `operation` is the name of an operation, if any, and `operands` are what that was given. `drawn` is what a function
    or operation of Python's own was given that made it, where that has no name here; the unknown `counts` where it says
    how many there are of what it hangs on. `asks` is what it tests, `called` the code, not visible, that gave it.
    """

    operation: str | None = None
    operands: tuple[Value, ...] = ()
    drawn: tuple[Value, ...] = ()
    counts: bool = False
    asks: Question = NO_QUESTION
    called: Value = None


class Memo(NamedTuple):
    """What was worked out of an unknown, for as long as nothing else is settled: `at` is `Settlings.count` then.

    `key` is its expression; it is `unresolved` where no constant follows from what its operands were settled on.
    `origins`, what it is worked out from, by id, hold whatever is settled.
    """

    at: int = -1
    key: tuple[Hashable, ...] | None = None
    unresolved: bool = False
    origins: dict[int, Unknown] | None = None


class Kept(NamedTuple):
    """What the unknown code behind a value may keep: the `leaves` that it was given when it made the value, and the
    `graphs` that calls of it and of its methods gave, each with what was called. Whoever has what a library made of
    some `values` can come to these by it. `walked` is how many backwards had run when it made the value. `unseen` are
    those that were called and gave what may have a graph that is not on the tape. `leaf` stands for the parameters of
    a model that is not visible, which is trained as one opaque differentiable module; `models` says that it holds
    such, since what a loop took out of it was told to train or to evaluate.
    """

    leaves: tuple[int, ...] = ()
    graphs: tuple[tuple[Unknown, int], ...] = ()
    values: tuple[Value, ...] = ()
    walked: int = 0
    unseen: tuple[Unknown, ...] = ()
    leaf: Tensor | None = None
    models: bool = False


class Asked(NamedTuple):
    """What an unknown was asked for, and gives again: attributes, items, and what `len` of it gave. `drawn` are the
    elements that a loop took out of it last.
    """

    attrs: dict[str, Value] | None = None
    items: dict[Hashable, Value] | None = None
    length: Unknown | None = None
    drawn: dict[int, Value] | None = None


class Shown(NamedTuple):
    """What tests have shown of an unknown: whether it is true, and the numbers that it lies between."""

    truth: bool | None = None
    bounds: tuple[float, float] | None = None

    def nonzero(self) -> bool | None:
        """Return whether the bounds leave zero out; None where they let it be zero or another number."""
        if self.bounds is None:
            return None
        low, high = self.bounds
        if low == high == 0:
            return False
        return None if low <= 0 <= high else True


class Trust(NamedTuple):
    """What is known, or taken for granted, of the graph that an unknown may carry.

    It is `certain` that it carries the graph of its node, where it has one. `data` says that it has none: `assumed`
    because loaders give data, and it was iterated out of something that was handed in. What was `returned` came out of
    a call that was given values, so that what is in it need not be data.
    """

    data: bool = False
    assumed: bool = False
    returned: bool = False
    certain: bool = True

    def of_element(self, *, node: bool, certain: bool) -> Trust:
        """Return what holds of an element, where this holds of what is iterated; it is data if that has no `node`."""
        data = not node and not self.returned
        assumed = data and (self.assumed or not self.data)
        known = ELEMENT_OF_LOADER if assumed else TRUSTED_AS_DATA
        return known if data and certain else Trust(data, assumed, self.returned, certain)


NO_WHOLE = Whole()
NOTHING_KEPT = Kept()
NO_ORIGIN = Origin()
NO_MEMO = Memo()
NOTHING_SHOWN = Shown()
NOTHING_ASKED = Asked()
NOTHING_TRUSTED = Trust()
TRUSTED_AS_DATA = Trust(data=True)
ELEMENT_OF_LOADER = Trust(data=True, assumed=True)


class Unknown(BaseValue):
    """A value nobody can know.

    `name` is for people; `kind` says what is known of its type. `node` is set where it may carry a graph (the
    result of an unknown call on tensors), `trust` says what is known of that. `concrete` is set once the dry run has
    settled on a value for it (a loop bound). `shown` is what tests have shown, `asked` what it was asked for. `origin`
    says what it was worked out from, `memo` what was worked out of it, `part_of` what it is a part of, `default` what
    it is by default, `kept` what the code behind it may keep.
    """

    __slots__ = (
        "asked", "concrete", "cuts", "default", "kept", "kind", "memo", "name", "node", "oldest", "origin", "part_of",
        "shown", "storage", "trust",
    )  # fmt: skip

    can_hold: ClassVar[bool] = True
    decides: ClassVar[Decides] = Decides.UNKNOWN

    # What is asked of tensors and is known of no other value.
    constant_terms: ClassVar[tuple[int, ...]] = ()
    is_leaf: ClassVar[bool] = False
    parameter: ClassVar[bool] = False
    extra: ClassVar[None] = None
    given: ClassVar[None] = None
    changed: ClassVar[None] = None
    rank: ClassVar[None] = None

    def borne(self) -> Fact | Literal["open"]:
        """Return whether it carries a graph; "open" where it may have one that no node stands for."""
        if self.node is not None:
            return "yes" if self.trust.certain else "may"
        return "no" if self.trust.data or self.concrete is not None else "open"

    def may_be_tensor(self) -> bool:
        """Return whether it is none of the kinds of values that are certainly no tensor."""
        return self.concrete is None and self.kind not in _DATA

    def requires(self) -> Fact:
        borne = self.borne()
        return "may" if borne == "open" else borne

    def __init__(
        self, name: str = "", node: int | None = None, cuts: tuple[int, ...] = (), kind: Kind = Kind.ANY
    ) -> None:
        self.name = name
        self.node = node
        self.cuts = cuts
        self.kind = kind
        self.oldest: int | None = None
        self.concrete: Value = None
        self.storage: Storage | None = None
        self.trust = TRUSTED_AS_DATA if kind in _DATA else NOTHING_TRUSTED
        self.part_of = NO_WHOLE
        self.origin = NO_ORIGIN
        self.memo = NO_MEMO
        self.shown = NOTHING_SHOWN
        self.asked = NOTHING_ASKED
        self.default = NO_DEFAULT
        self.kept = NOTHING_KEPT

    def stands_at(self, built: Tensor) -> None:
        """Note that it may have the graph that was built for it."""
        self.node, self.oldest = built.node, built.oldest
        self.trust = self.trust._replace(certain=False)

    def take_for_data(self) -> None:
        """Note that it has no graph."""
        self.trust = TRUSTED_AS_DATA if self.trust is NOTHING_TRUSTED else self.trust._replace(data=True)

    def not_negative(self) -> None:
        """Note that it is a length, where nothing more is known of it."""
        if self.shown.bounds is None:
            self.shown = self.shown._replace(bounds=(0, math.inf))

    def surely_carries(self) -> None:
        """Note that it has a graph if it may have one: a backward of it did not raise."""
        self.trust = self.trust._replace(certain=self.trust.certain or self.node is not None)

    def taken_for_data(self) -> bool:
        """Whether it has no graph only because what is iterated is taken for data."""
        return self.trust.assumed and self.concrete is None

    def anew(self) -> Unknown:
        """Return an unknown like this one of which nothing has been asked or shown yet, without its graph."""
        made = Unknown(self.name, None, self.cuts, self.kind)
        made.trust = Trust(self.trust.data, self.trust.assumed)
        return made

    @classmethod
    def number(cls, cuts: tuple[int, ...] = ()) -> Unknown:
        """Return a number nobody can know."""
        return cls("number", None, cuts, Kind.NUMBER)

    @classmethod
    def whole(cls, name: str) -> Unknown:
        """Return a whole number nobody can know."""
        return cls(name, None, (), Kind.WHOLE)

    @classmethod
    def hanging_on(cls, name: str, kind: Kind, *values: Value) -> Unknown:
        """Return what nobody can know, and hangs on some values."""
        made = cls(name, None, (), kind)
        drawn = tuple(value for value in values if value is not None)
        made.origin = Origin(drawn=drawn, counts=kind in COUNTED)
        return made

    @classmethod
    def text(cls) -> Unknown:
        """Return a text nobody can know."""
        return cls("text", None, (), Kind.TEXT)

    @classmethod
    def plain(cls, name: str, cuts: tuple[int, ...] = ()) -> Unknown:
        """Return something that is no tensor."""
        return cls(name, None, cuts, Kind.PLAIN)

    @classmethod
    def undecided(cls, name: str) -> Unknown:
        """Return what the program itself decides and the dry run does not work out; it is no tensor."""
        return cls(name, None, (), Kind.UNDECIDED)

    @classmethod
    def named(cls, name: str) -> Unknown:
        """Return what a program has under a name, of which nothing else is known."""
        return cls(name, None, (), Kind.ANY)

    def __repr__(self) -> str:
        return f"<unknown {self.name}>"

    # -- what is asked of it: the same question gets the same answer ----------------------------------------

    def attributes(self) -> dict[str, Value]:
        """Return the attributes that it was asked for or given, to be added to."""
        if self.asked.attrs is None:
            self.asked = self.asked._replace(attrs={})
        return cast("dict[str, Value]", self.asked.attrs)

    def elements(self) -> dict[Hashable, Value]:
        """Return the items that it was asked for or given, to be added to."""
        if self.asked.items is None:
            self.asked = self.asked._replace(items={})
        return cast("dict[Hashable, Value]", self.asked.items)

    def part_named(self, name: str) -> Value:
        """Return an attribute: asked twice it is the same unknown. It shares the owner's graph."""
        attrs = self.attributes()
        if name not in attrs:
            within = self.part_of.within
            is_values = name == "data" or name.startswith("state_dict(")
            if is_values and within is not None and within.kept.leaf is not None:
                # Of a model's parameters it is the values alone: what is done to them records nothing.
                within = None
            attrs[name] = self._part(f"{self.name}.{name}" if self.name else name, Whole(self, name, None, within))
        return attrs[name]

    def given_anew(self, name: str) -> Unknown:
        """Return what a method gives that may give something else each time. It shares the owner's graph."""
        return self._part(f"{self.name}.{name}()", Whole(self, f"{name}()", None, self.part_of.within))

    def by_name(self) -> Unknown:
        """Return what has the attributes of this value as its items, `vars(value)`: a change of one is one of both."""
        made = self._part(f"vars({self.name})", Whole(None, "", self, self.part_of.within))
        made.asked = Asked(items=cast("dict[Hashable, Value]", self.attributes()))
        return made

    def part_at(self, index: Value) -> Value:
        """Return an item; the same for the same constant index."""
        key = hashable(index)
        items = self.elements()
        if key not in items:
            child = self._part(f"{self.name}[...]", Whole(None, "", self, self.part_of.within))
            if self.kind is Kind.SIZES:
                child.kind = Kind.SIZES if isinstance(index, slice) else _kind_of_size(index)
            if isinstance(index, slice):
                part = child.asked_length()
                part.origin = Origin("part", (self.asked_length(), index.start, index.stop, index.step))
                if (most := _most_of(index)) is not None:
                    part.shown = part.shown._replace(bounds=(0, most))
            if not is_constant(index):
                return child
            items[key] = child
        return items[key]

    def _part(self, name: str, of: Whole) -> Unknown:
        part = Unknown(name, self.node, self.cuts)
        part.part_of, part.oldest = of, self.oldest
        part.trust = self.trust
        return part

    def _drawn(self, name: str, *, certain: bool = True) -> Unknown:
        """Return an element: what is iterated directly is taken for data, where nothing says otherwise."""
        element = Unknown(name, self.node, self.cuts)
        element.oldest = self.oldest
        element.trust = self.trust.of_element(node=self.node is not None, certain=certain)
        element.part_of = Whole(None, "", self, self.part_of.within)
        if self.kind is Kind.SIZES:
            element.kind = Kind.WHOLE
        return element

    def shifted(self) -> tuple[Unknown, int, int] | None:
        """Return the unknown that an int was added to to make this one, its sign and the int; None of any other."""
        if self.origin.operation not in ("Add", "Sub") or len(self.origin.operands) != 2:
            return None
        left, right = self.origin.operands
        sign = 1 if self.origin.operation == "Add" else -1
        if isinstance(left, Unknown) and type(right) is int:
            return left, 1, sign * right
        return (right, sign, left) if isinstance(right, Unknown) and type(left) is int else None

    def asked_length(self) -> Unknown:
        """Return the length, the same whenever it is asked for."""
        length = self.asked.length
        if length is None:
            length = Unknown(f"len({self.name})", None, self.cuts, Kind.WHOLE)
            length.origin = Origin("len", (self,))
            self.asked = self.asked._replace(length=length)
        return length

    def turned(self, answer: bool) -> tuple[Value, bool]:
        test = self
        while test.origin.asks.negated is not None:
            test, answer = test.origin.asks.negated, not answer
        return test, answer

    def by_default(self) -> bool | None:
        test = self.origin.asks.negated or self
        known = any(behaviour(part).default.usual is not None for part in (test, *test.origin.operands))
        return self.default.likely if known else None

    def given_as(self, answer: bool) -> Setting | None:
        if self.origin.asks.negated is not None:
            return self.origin.asks.negated.given_as(not answer)
        kind, option, constant = self.origin.asks.compared or ("", self, None)
        flag = option.default.flag
        if not flag or kind not in ("", "Eq", "NotEq", "Is", "IsNot"):
            return None
        equal = answer == (kind in ("Eq", "Is"))
        if kind and type(constant) in (str, int, float):
            return Setting(flag, str(constant), equal)
        given = not equal if kind else answer
        return Setting(flag) if given and constant is None else None

    # -- what it does as a value ----------------------------------------------------------------------------

    keyed: ClassVar[bool] = True
    vague: ClassVar[bool] = True

    def is_a(self, name: str) -> bool | None:
        short = name.rpartition(".")[2]
        if self.kind is Kind.TEXT and name:
            return short in ("str", "Sequence", "Iterable", "object")
        if self.kind in COUNTED and short in ("str", "Tensor", "list", "tuple", "dict", "NoneType"):
            return False
        return None

    def is_of(self, cls: BaseValue) -> bool | None:
        return None

    def get_attribute(self, machine: Interpreter, name: str, node: ast.AST) -> Value:
        if name == "__dict__" and self.trust.data:
            return self.by_name()
        value: Value = machine.library.unknown_attribute(self, name, node)
        return self._given_back(machine, value, node)

    def _apart(self, machine: Interpreter, part: Value, node: ast.AST) -> Value:
        """Return an item or element, with a graph of its own where this has one."""
        if self.node is not None and isinstance(part, Unknown):
            machine.library.given_apart(self, part, node)
        return part

    def _given_back(self, machine: Interpreter, value: Value, node: ast.AST) -> Value:
        """Return what is read out of it: where that was stored, the code behind it is trusted to have kept it."""
        if not (type(value) is Unknown and (value.part_of.owner is self or value.part_of.source is self)):
            machine.library.trusted_store(self, value, node)
        return value

    def set_attribute(self, machine: Interpreter, name: str, value: Value, node: ast.AST) -> None:
        self.attributes()[name] = value
        machine.escape(value, node, self.name)

    def read_by(self, machine: Interpreter, receiver: Value, node: ast.AST) -> Value:
        if behaviour(receiver).is_object:
            machine.library.hidden_descriptor(self, receiver, node)
        return self

    def sets(self, machine: Interpreter, owner: Value, value: Value, node: ast.AST) -> bool:
        machine.library.hidden_descriptor(self, owner, node)
        machine.library.trusted_store(self, value, node)
        return False

    def called(self, machine: Interpreter, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        return machine.library.call_unknown(self, args, kwargs, node)

    def entered(self, machine: Interpreter, node: ast.AST) -> Value:
        machine.library.trusted_context(self, node)
        return self.part_named("__enter__()")

    def as_python(self, depth: int) -> object:
        if self.concrete is None:
            raise NotPlain
        return plain(self.concrete, depth)

    def itself(self) -> Value:
        return self if self.concrete is None else self.concrete

    def as_index(self, machine: Interpreter, node: ast.AST) -> Value:
        return self if self.concrete is None else self.concrete

    def reached(self) -> Iterable[Value]:
        return self.kept.values if self.kept.leaf is None else (self.kept.leaf, *self.kept.values)

    def kind_as_index(self) -> str:
        if self.node is not None:
            return "tensor"
        return "int" if self.kind in COUNTED else "unknown"

    def get_item(self, machine: Interpreter, index: Value, node: ast.AST) -> Value:
        if self.concrete is not None:
            return behaviour(self.concrete).get_item(machine, index, node)
        return BaseValue.get_item(self, machine, index, node)

    def item_at(self, machine: Interpreter, index: Value, node: ast.AST) -> Value:
        part = self.part_at(index)
        if not isinstance(index, tuple):
            # Only a tensor is indexed by several.
            part = self._apart(machine, part, node)
        if self.part_of.within is not None and self.trust.data and isinstance(index, str) and isinstance(part, Unknown):
            # What was saved under a key may require grad, as it did when it was saved.
            part.trust = part.trust._replace(data=False)
        return self._given_back(machine, part, node)

    def set_item(self, machine: Interpreter, index: Value, value: Value, node: ast.AST) -> None:
        self.elements()[hashable(index)] = value
        if may_carry(value):
            # An array holds what was cut off its graph as well as a tensor does.
            self.cuts = merge_cuts(self.cuts, value.cuts)
            self.trust = self.trust._replace(data=self.trust.data and value.requires() == "no")
        machine.escape(value, node, self.name)

    def stream(self, machine: Interpreter, node: ast.AST) -> Stream:
        size = self.asked_length()
        if self.shown.truth is False and size.concrete is None:
            settle_on(size, 0)
        at_most = size.shown.bounds is not None and size.concrete is None and self.shown.truth is None
        if machine.guessed(size, node) and self.shown.truth is None:
            self.shown = self.shown._replace(truth=True)
        # Models are the same ones however often they are gone through; of data nobody knows.
        fresh = (self.asked.drawn or {}) if self.kept.models else {}
        self.asked = self.asked._replace(drawn=fresh)

        def item(index: int) -> Value:
            if index not in fresh:
                made = fresh[index] = self._drawn(f"{self.name}[{index}]", certain=self.trust.certain)
                self._apart(machine, made, node)
            return fresh[index]

        one_way = self.concrete is None and not self.asked.items
        return Stream(lambda: if_asked(size), item, one_way=one_way, count=size, settled=at_most)

    def rest(self) -> int:
        return NUMBERS if of_numbers(self) else 0

    def unknown_counts(self) -> Iterable[Value]:
        return (self,)

    def known_items(self, machine: Interpreter, node: ast.AST) -> list[Value] | None:
        return None if self.concrete is None else behaviour(self.concrete).known_items(machine, node)

    def guessed_items(self, machine: Interpreter, count: int, node: ast.AST) -> list[Value]:
        return [self._apart(machine, self.part_at(index), node) for index in range(count)]

    def next_item(self, machine: Interpreter, default: Args, node: ast.AST) -> Value:
        return self._apart(machine, self._drawn(f"next({self.name})"), node)

    def size(self, machine: Interpreter, node: ast.AST) -> Value:
        asked = self.asked_length()
        if not machine.library.only_shown(node):
            asked.not_negative()
        if asked.concrete is None and self.shown.truth is False:
            settle_on(asked, 0)
        return asked.itself()

    def known_truth(self, machine: Interpreter) -> bool | None:
        return machine.known_truth(self)

    def unary(self, machine: Interpreter, op: str, node: ast.AST) -> Value:
        name = f"{_SIGNS[op]}{self.name}" if op in _SIGNS and self.name.isidentifier() else ""
        result = Unknown(name, self.node, self.cuts, self.kind if self.kind in COUNTED else Kind.ANY)
        result.oldest = self.oldest
        result.trust = self.trust
        result.origin = Origin(f"unary {op}", (self,))
        return result

    def equals(self, other: BaseValue, machine: Interpreter | None) -> bool | Deferred | None:
        return True if self is other else None

    def is_same(self, other: BaseValue) -> bool | Deferred | None:
        return False if other.itself() is None and self.node is not None and self.trust.certain else None

    def as_key(self, left: list[int]) -> Hashable:
        return BaseValue.as_key(self, left) if self.concrete is None else behaviour(self.concrete).as_key(left)

    def expression(self) -> tuple[Hashable, ...]:
        if self.concrete is not None:
            return ("=", hashable(self.concrete))
        operation, operands = self.origin.operation, self.origin.operands
        if operation is None:
            return ("?", id(self))
        if self.memo.key is not None and self.memo.at == Settlings.count:
            return self.memo.key
        key = composed(operation, operands, self)
        if all(map(_steady, operands)):
            self.remember(key=key)
        return key

    def remember(self, *, key: tuple[Hashable, ...] | None = None, unresolved: bool = False) -> None:
        """Keep what was worked out of it until something is settled."""
        known = self.memo if self.memo.at == Settlings.count else NO_MEMO
        self.memo = Memo(Settlings.count, key or known.key, unresolved or known.unresolved, self.memo.origins)


def _most_of(part: slice) -> int | None:
    """Return how many elements a slice takes at most, None where that hangs on how many there are."""
    start, stop = part.start, part.stop
    if part.step is not None and not (type(part.step) is int and part.step > 0):
        return None
    first = 0 if start is None else start
    if type(first) is not int or not (stop is None or type(stop) is int):
        return None
    if stop is None:
        return -first if first < 0 else None
    return max(stop - first, 0) if (first < 0) == (stop < 0) else None


def _kind_of_size(index: Value) -> Kind:
    """Return what is known of an item of a tensor's sizes: an unknown index may be a slice."""
    whole = isinstance(index, int) or (isinstance(index, Unknown) and index.kind in COUNTED)
    return Kind.WHOLE if whole else Kind.ANY


def of_numbers(value: Value) -> bool:
    """Whether a value is a number or text, or is made of such alone, and stays that."""
    if isinstance(value, tuple):
        return all(map(of_numbers, value))
    if not isinstance(value, Unknown):
        return is_constant(value)
    if value.concrete is not None:
        return of_numbers(value.concrete)
    if value.node is not None or not value.trust.data or value.kept != NOTHING_KEPT:
        return False
    stored = [
        one
        for one in (value.asked.items or {}).values()
        if not (isinstance(one, Unknown) and one.part_of.source is value)
    ]
    if not all(map(of_numbers, stored)):
        return False
    # The elements of a list of numbers, or of an array.
    source = value.part_of.source
    return value.kind in _DATA or (source is not None and of_numbers(source))


def with_numbers(rest: int, items: Iterable[Value]) -> int:
    """Return what nobody knows of elements, where further ones are numbers if all of these are; there has to be one."""
    items = list(items) if rest & NUMBERS else ()
    return rest | MORE if rest & NUMBERS and not (items and all(map(of_numbers, items))) else rest


def requires_any(values: Iterable[Tensor | Unknown]) -> Fact:
    """Whether any of some values carries a graph, or is a leaf that requires grad."""
    found: Fact = "no"
    for value in values:
        found = either(found, value.requires())
    return found


def is_open(value: Value) -> TypeGuard[Unknown]:
    """Whether nobody knows a value, and nothing has been settled on for it."""
    return isinstance(value, Unknown) and value.concrete is None


def merge_cuts(*groups: tuple[int, ...]) -> tuple[int, ...]:
    """Return the union of cuts, newest kept where there are too many."""
    filled = [group for group in groups if group]
    if len(filled) < 2:
        return filled[0] if filled else ()
    merged = dict.fromkeys(cut for group in filled for cut in group)
    if len(merged) > limits.MAX_CUTS:
        return tuple(sorted(merged)[-limits.MAX_CUTS :])
    return tuple(merged)


_numbers = itertools.count(1)


def may_carry(value: Value) -> TypeGuard[Tensor | Unknown]:
    """Whether a value may carry a graph itself: a tensor, or what nobody knows."""
    return isinstance(value, (Tensor, Unknown))


def drawn_from(result: Value, given: Iterable[Value]) -> Value:
    """Return a result, with what it hangs on noted where nobody knows what it is."""
    if type(result) is Unknown and result.origin.operation is None and not result.origin.drawn:
        result.origin = result.origin._replace(drawn=tuple(given))
    return result


def node_of(value: Value) -> int | None:
    """Return the node of a graph, or the leaf, that a value is; None where it is none."""
    return value.node if isinstance(value, (Tensor, Unknown)) else None


def on_graph(value: Value) -> TypeGuard[Tensor | Unknown]:
    """Whether a value is a node of a graph, or may be one."""
    return node_of(value) is not None


def declines(value: Value) -> bool:
    """Whether a value is NotImplemented, by which a method leaves an operator to the other operand."""
    return isinstance(value, Unknown) and value.kind is Kind.NOT_IMPLEMENTED


def is_missing(value: Value) -> bool:
    """Whether a value says that a class does not define what was looked up in it."""
    return isinstance(value, Unknown) and value.kind is Kind.MISSING


class Settlings:
    """The number of the last time that an unknown was settled on a constant, in any run and thread.

    Keys from before it may no longer hold. No number comes twice: one that threads set back is one with no keys.
    """

    count = 0


def settle_on(value: Unknown, constant: Value) -> None:
    """Let an unknown stand for a constant from now on, and what it was computed from by adding an int for that one."""
    value.concrete = constant
    Settlings.count = next(_numbers)
    if type(constant) is int and (made := value.shifted()) is not None and made[0].concrete is None:
        settle_on(made[0], (constant - made[2]) * made[1])


def expression(value: Value) -> tuple[Hashable, ...]:
    """Return what a value is worked out from, as a key: the same expression of the same unknowns is the same value."""
    return behaviour(value).expression()


def composed(what: Hashable, parts: Iterable[Value], value: Value) -> tuple[Hashable, ...]:
    """Return the key of what is worked out from parts, with its size; that of the value itself where it gets too large.

    The same part may be in it many times: `k + k`, over and over.
    """
    keys = [expression(part) for part in parts]
    size = 1 + sum(key[1] if len(key) > 2 and isinstance(key[1], int) else 1 for key in keys)
    return (what, size, *keys) if size <= limits.LARGEST_KEY else ("?", id(value))


def _steady(part: Value) -> bool:
    """Whether the key of a value stays as it is until something is settled on: a list can change at any time."""
    if isinstance(part, Unknown):
        if part.concrete is not None or part.origin.operation is None:
            return True
        return part.memo.key is not None and part.memo.at == Settlings.count
    return is_constant(part)


def bound_length(value: Unknown, times: int = limits.LOOP_BOUND) -> int:
    """Settle on a length for an unknown iterable or number, one that fits what is known of it."""
    if isinstance(value.concrete, int):
        return value.concrete
    if value.shown.truth is False:
        times = 0
    elif value.shown.bounds is not None:
        low, high = value.shown.bounds
        times = math.ceil(max(min(times, high), low, 0)) if max(min(times, high), low) < limits.MOST_SETTLED else times
    if value.concrete is None:
        settle_on(value, times)
    return times


def if_asked(length: Unknown) -> int | None:
    """Return the length that was settled on: whoever has asked for it reckons with it, the loop has to end there."""
    size = length.concrete
    return size if isinstance(size, int) and (size != limits.LOOP_BOUND or length.shown.bounds is not None) else None


def passed_on(kwargs: Kwargs) -> Value:
    """Return what a call passes on, `f(**options)`, of which nobody knows what is in it; None where it has no such."""
    more = kwargs.get(MORE_KEYWORDS)
    return None if isinstance(more, Unknown) and more.name == MORE_KEYWORDS else more


def under_other_keys(more: Value) -> tuple[Value, ...]:
    """Return the dicts that a call unpacks whose keys nobody knows, by what stands for the keywords not seen."""
    return next((one.kept.values for one in only((more,), Unknown) if one.name == MORE_KEYWORDS), ())


def unpacked(more: Value) -> Kwargs:
    """Return these dicts as keywords, for a call of what is not visible: it gets what they hold."""
    return {f"{MORE_KEYWORDS}{number}": held for number, held in enumerate(under_other_keys(more))}


def passed_as(machine: Interpreter, more: Value, name: str, node: ast.AST) -> Value:
    """Return what a parameter gets of keywords that are not seen: any of what dicts have under keys nobody knows."""
    held = [value for each in under_other_keys(more) for value in behaviour(each).children()]
    entries: list[tuple[Hashable, Value]] = [*enumerate(held)]
    return machine.library.chosen(Unknown.plain("key"), entries, node, by_name=True) if entries else Unknown.named(name)


def perhaps_given(machine: Interpreter, options: Value, name: Hashable, otherwise: Value, node: ast.AST) -> Value:
    """Return what a constant may be in whose place options may give something else, which nobody knows."""
    if not is_constant(otherwise) or not isinstance(name, str):
        return otherwise
    given = behaviour(options).item_at(machine, name, node)
    if isinstance(given, Unknown) and given.default.usual is None:
        given.default = Default(bool(otherwise), (otherwise,), "")
    return given


def perhaps_overwritten(machine: Interpreter, held: MutableMapping[Key, Value], options: Value, node: ast.AST) -> None:
    """Note that options, of which nobody knows what is in them, may have been stored over constants."""
    for name, value in [(name, value) for name, value in held.items() if isinstance(name, str)]:
        made = perhaps_given(machine, options, name, value, node)
        if made is not value:
            held[name] = made
