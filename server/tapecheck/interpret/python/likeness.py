"""When two calls of a function are alike: what is known of the values that each is given is the same.

Which value it is counts where an answered test was about it, or where it is code. Names do not count; whoever needs
them finds them beside.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeGuard

from tapecheck.interpret import limits
from tapecheck.interpret.objects.unknowns import origins
from tapecheck.interpret.state.knowledge import Fact
from tapecheck.interpret.values import (
    INERT,
    NO_DEFAULT,
    NO_ORIGIN,
    Bound,
    ByKind,
    Class,
    Dict,
    Function,
    Instance,
    Kind,
    Lib,
    List,
    Mark,
    Module,
    Native,
    Set,
    Tensor,
    Unknown,
    Value,
)

_ORDERED = ("Eq", "Lt", "Gt")
_ITEM = re.compile(r"\[\d+\]")
_AS_MADE = (None, None, True, False)
"""The graph of an unknown that nothing was done with, and whether a call gave it."""


class Unlike(Exception):
    """A call hangs on more, or does more, than a summary can tell."""


Shape = tuple[int, str | Mark, Unknown]
"""A shape that a call has asked a tensor for: the place of the tensor, and the shape under its key."""
Test = tuple[Unknown, str, float, bool]
"""An assert about a number of a shape: the number, what it was compared with and how, and the answer."""


class Given:
    """What a call is given: `tokens` are the same for calls that are alike, the rest is what differs between them.

    `settled` are the unknowns that answered tests were about: what a test of them comes to hangs on which they are.
    """

    def __init__(self, settled: dict[int, Unknown]) -> None:
        self.settled = settled
        self.tokens: list[object] = []
        """A number, text or flag is two: its class and itself."""
        self.names: list[str] = []
        """What tensors and unknowns are called, the places in a list left out."""
        self.answered: list[int] = []
        """The unknowns that answered tests were about, by id."""
        self.tensors: list[Tensor] = []
        self.unknowns: list[Unknown] = []
        self.known: dict[int, int] = {}
        self._values: list[Value] = []
        """The values that are numbered: their ids stay their own."""
        self.left_out: list[tuple[int, Hashable, int]] = []
        """Parts of unknowns that nothing is known of: whose they are, under which key, and their ids."""
        self._parts_of: dict[int, dict[Hashable, Value]] = {}
        self._indices: set[int] = set()
        """Unknowns, by id, that a list was indexed with: another one may stand for another element."""
        self.held: list[Value] = []
        """What tokens tell by its id, which stays its own as long as it is held."""
        self.own = self.own_tokens = 0
        """How many of the numbered values, and of the tokens, belong to the module; the arguments come after them."""

    def add(self, value: Value) -> None:
        kind = type(value)
        tokens = self.tokens
        if kind in INERT:
            tokens += (kind, value)
            return
        number = self.known.get(id(value))
        if number is not None:
            tokens.append(number)
            return
        number = self.known[id(value)] = len(self.known)
        self._values.append(value)
        if number > limits.MOST_SUMMED_UP:
            raise Unlike
        take_in = _KINDS.get(kind)
        if take_in is None:
            raise Unlike
        take_in(self, value)

    def value(self, number: int) -> Value:
        """Return the value that has a number: what stands for another call's of that number, where calls are alike."""
        return self._values[number]

    def module(self, receiver: Instance) -> None:
        """Add the module whose forward is called, before its arguments."""
        self.add(receiver)
        self.own, self.own_tokens = len(self.known), len(self.tokens)

    def argument(self, value: Value) -> None:
        """Add an argument; raises `Unlike` for one that the call could fill, or set attributes of."""
        if type(value) in (Instance, List, Dict) and id(value) not in self.known:
            raise Unlike
        if type(value) is tuple:
            self.tokens.append(("given", len(value)))
            for item in value:
                self.argument(item)
        else:
            self.add(value)

    def _tuple(self, value: tuple[Value, ...]) -> None:
        self.tokens.append(("tuple", len(value)))
        for item in value:
            self.add(item)

    def _list(self, value: List) -> None:
        self.tokens.append(("list", value.kind, value.more, value.bound, value.cut, len(value.items)))
        for item in value.items:
            self.add(item)
        for place, index in value.asked.values() if value.asked else ():
            self.tokens.append(("index", place, id(index)))
            self.held.append(index)
            self._indices.update(map(id, origins(index)))

    def _dict(self, value: Dict) -> None:
        self.tokens.append(("dict", value.more, len(value.items)))
        for key, item in value.items.items():
            if type(key) not in INERT:
                raise Unlike
            self.tokens.append(key)
            self.add(item)

    def _set(self, value: Set) -> None:
        if hasattr(value, "sized"):
            # What was shown of how many elements it has may answer a test.
            raise Unlike
        self.tokens.append(("set", value.kind, value.more, len(value.items)))
        for item in value.items:
            self.add(item)

    def _library(self, value: Lib) -> None:
        self.tokens.append(("lib", value.path))

    def _code(self, value: Function | Class | Module | Native) -> None:
        self.held.append(value)
        self.tokens.append(("the", id(value)))

    def _bound(self, value: Bound) -> None:
        self.tokens.append(("bound",))
        self.add(value.function)
        self.add(value.receiver)

    def _tensor(self, value: Tensor) -> None:
        if value.given or value.hooks or value.retains_grad or value.items is not None:
            raise Unlike
        self.tensors.append(value)
        self.tokens.append((
            "tensor", value.graph, value.node is None, value.is_leaf, value.parameter, value.dtype, value.rank,
            _whose(value), len(value.cuts), len(value.constant_terms), value.oldest is None,
        ))  # fmt: skip
        self.names.append("" if value.parameter else _ITEM.sub("[]", value.name))
        if value.extra:
            self._worked_out(value.extra)
        length = value.length
        if type(length) is Unknown and not self.fresh(length):
            self.add(length)
        else:
            self.tokens.append((type(length), length) if type(length) in INERT else type(length))
        if value.base is None:
            self.tokens.append(None)
        else:
            self.add(value.base)

    def _unknown(self, value: Unknown) -> None:
        if value.kept.leaf is not None:
            raise Unlike
        self.unknowns.append(value)
        self.held.append(value)
        concrete = value.concrete
        if type(concrete) not in INERT:
            raise Unlike
        self.names.append(_ITEM.sub("[]", value.name))
        settled = self.is_settled(value)
        if settled:
            self.answered.append(id(value))
        self.tokens.append((
            "unknown", settled, value.kind, value.trust, value.shown, value.default.likely, type(concrete), concrete,
            len(value.cuts), value.storage is None, value.origin.asks.negated is None, value.node is None,
            # What an operation has made of hidden values runs none of their code.
            value.origin.operation is None,
        ))  # fmt: skip
        parts = parts_of(value)
        self._parts_of[id(value)] = dict(parts)
        for key, part in parts:
            if id(part) not in self.known and self.fresh(part, value):
                self._leave_out(self.known[id(value)], key, part)
            else:
                self.tokens.append(key if type(key) in INERT else type(key))
                self.add(part)
        self.tokens.append("known")

    def is_settled(self, value: Unknown) -> bool:
        """Whether an answered test was about an unknown, or about what it is worked out from."""
        if value.origin.operation is None:
            return id(value) in self.settled
        return any(id(one) in self.settled for one in origins(value))

    def fresh(self, value: Value, whole: Unknown | None = None) -> TypeGuard[Unknown]:
        """Whether nothing has become known of a part of an unknown since it was made."""
        return self._unmarked(value) and (
            (value.node, value.oldest, value.trust.certain, value.trust.returned)
            == (
                (whole.node, whole.oldest, whole.trust.certain, whole.trust.returned) if whole is not None else _AS_MADE
            )
        )

    def _unmarked(self, value: Value) -> TypeGuard[Unknown]:
        """Whether no test was about a value, and nothing was made of it that outlives the expression."""
        return (
            type(value) is Unknown
            and value.storage is None and value.kept.leaf is None
            and value.concrete is None and value.shown.bounds is None and value.default == NO_DEFAULT
            and value.origin.asks.negated is None and not self.is_settled(value)
            and all(self.fresh(part, value) for _, part in parts_of(value))
        )  # fmt: skip

    def _leave_out(self, whole: int, key: Hashable, part: Value) -> None:
        self.left_out.append((whole, key, id(part)))
        for inner, item in parts_of(part) if isinstance(part, Unknown) else ():
            self._leave_out(whole, (key, inner), item)

    def close(self) -> None:
        """Add, once all is added, which of it is a part of something else, and which stands for elements of lists."""
        self.tokens += [("part", self.known[part], *of) for *of, part in self.left_out if part in self.known]
        self.tokens += [("index", self.known[one], one) for one in sorted(self._indices & self.known.keys())]

    def holds_the_same(self, after: Given) -> bool:
        """Whether the module, looked through once more, holds the very values that it held."""
        return list(self.known)[: self.own] == list(after.known) and self.tokens[: self.own_tokens] == after.tokens

    def learnt(
        self, facts: Sequence[Fact], settled: Sequence[int], needed: Mapping[int, Unknown]
    ) -> tuple[list[Shape], list[Test]]:
        """Return what has become known of what was given: shapes of tensors, and the asserts that speak of these.

        `facts` are the tests that were answered since, `settled` are what they were about, by id, and `needed` the
        shapes and numbers that are to be made again, by id. Raises `Unlike` where more has become known.
        """
        for whole in self.unknowns:
            self._same_parts(whole)
        shapes = self._shapes_asked(needed.keys())
        made = {id(one): one for *_, shape in shapes for one in _like(shape)}
        for one in needed.values():
            if id(one) not in made:
                self._was_made_within(one)
        tests = self._tests(facts, made)
        told = {id(one) for tested, *_ in tests for one in origins(tested)}
        if any(one not in told and (one in made or self.known.get(one, -1) >= self.own) for one in settled):
            raise Unlike
        return shapes, tests

    def _shapes_asked(self, needed: AbstractSet[int]) -> list[Shape]:
        """Return the shapes of tensors of which something has become known, or a number is needed."""
        shapes: list[Shape] = []
        for number, tensor in enumerate(self.tensors):
            if self._is_new(tensor.length):
                raise Unlike
            for key, shape in (tensor.extra or {}).items():
                if type(shape) is Unknown and (self._is_new(shape) or _has_part(shape, needed)):
                    shapes.append((number, key, shape))
        return shapes

    def _was_made_within(self, number: Unknown) -> None:
        """Raise `Unlike` unless a number is that of a shape of a tensor that the call has made itself."""
        top = whole_of(number)
        given = {id(one) for tensor in self.tensors for one in (tensor.extra or {}).values()}
        if top.kind is not Kind.SIZES or top.origin != NO_ORIGIN or id(top) in given:
            raise Unlike
        parts = {id(one) for one in _like(top)}
        left_out = {part for *_, part in self.left_out}
        if id(number) not in parts or not parts.isdisjoint(self.known) or not parts.isdisjoint(left_out):
            raise Unlike
        if not parts.isdisjoint(self.settled):
            raise Unlike

    def _is_new(self, value: Value) -> TypeGuard[Unknown]:
        """Whether something has become known of an unknown that was not there before."""
        return type(value) is Unknown and id(value) not in self.known and not self.fresh(value)

    def _same_parts(self, whole: Unknown) -> None:
        before = self._parts_of[id(whole)]
        for key, part in parts_of(whole):
            old = key in before
            if old and part is not before[key]:
                raise Unlike
            if id(part) in self.known or (old and type(part) is not Unknown) or self.fresh(part, whole):
                continue
            # It may be older than the graph of its whole.
            if not (old and self._unmarked(part) and part.node is None):
                raise Unlike

    def _tests(self, facts: Sequence[Fact], made: dict[int, Unknown]) -> list[Test]:
        """Return the asserts about numbers of shapes that the call has asked for."""
        tests: list[Test] = []
        for value, answer, _ in facts:
            kind, tested, constant = value.origin.asks.compared or ("", value, None)
            if id(tested) in made and isinstance(constant, (int, float)) and kind in _ORDERED:
                tests.append((tested, kind, constant, answer))
            elif any(id(one) in made or self.known.get(id(one), -1) >= self.own for one in origins(value)):
                # What is said of the module itself alone is told by what is known of it afterwards.
                raise Unlike
        told = {id(tested) for tested, *_ in tests}
        if any(
            (one.shown.bounds is not None or one.concrete is not None) and id(one) not in told for one in made.values()
        ):
            raise Unlike
        return tests

    def _worked_out(self, extra: Mapping[str | Mark, Value]) -> None:
        """Add what stands for the shape of a tensor and the like, where something is known of it."""
        for name, item in extra.items():
            kind = type(item)
            if name is Mark.FROZEN_LEAF:
                # Which leaf it was is told by its number.
                self.tokens.append(name)
            elif name is Mark.DATA_OF:
                self.tokens.append(name)
                self.add(item)
            elif kind is Tensor:
                # It belongs to another tensor.
                raise Unlike
            elif kind is not Unknown:
                self.tokens.append((name, kind, item if kind in INERT else None))
            elif not self.fresh(item):
                self.tokens.append(name)
                self.add(item)

    def _object(self, value: Instance) -> None:
        if value.hooks or value.inner is not None or value.state is not None or value.args is not None:
            raise Unlike
        layer = value.layer
        if value.cls is None and layer is None:
            raise Unlike
        self.held.append(value.cls)
        cls = id(value.cls) if value.cls is not None else value.lib
        self.tokens.append(("object", cls, len(value.attrs), value.open))
        if layer is not None:
            if layer.parametrized:
                raise Unlike
            kinds = None if layer.kinds is None else (tuple(layer.kinds[0]), tuple(layer.kinds[1].items()))
            self.tokens.append(
                (layer.container, layer.more, layer.wrapped, layer.fact is None, kinds, tuple(layer.given))
            )
            for item in layer.given.values():
                self.add(item)
        tokens = self.tokens
        for name, item in value.attrs.items():
            tokens.append(name)
            kind = type(item)
            # Most attributes are numbers and flags: this is asked of every module of a model at every call.
            if kind in INERT:
                tokens += (kind, item)
            else:
                self.add(item)


_KINDS: ByKind[Given, [], None] = ByKind()
_KINDS.register(Given._tensor, Tensor)
_KINDS.register(Given._unknown, Unknown)
_KINDS.register(Given._object, Instance)
_KINDS.register(Given._tuple, tuple)
_KINDS.register(Given._list, List)
_KINDS.register(Given._dict, Dict)
_KINDS.register(Given._set, Set)
_KINDS.register(Given._library, Lib)
_KINDS.register(Given._code, Function)
_KINDS.register(Given._code, Class)
_KINDS.register(Given._code, Module)
_KINDS.register(Given._code, Native)
_KINDS.register(Given._bound, Bound)


def parts_of(value: Unknown) -> list[tuple[Hashable, Value]]:
    """Return what the program has asked an unknown for, with what it asked by."""
    parts: list[tuple[Hashable, Value]] = [] if value.asked.length is None else [("len()", value.asked.length)]
    if value.asked.attrs:
        parts += value.asked.attrs.items()
    if value.asked.items:
        parts += value.asked.items.items()
    return parts


def _like(value: Value, whole: Unknown | None = None) -> Iterator[Unknown]:
    """Yield a shape and its numbers; raises `Unlike` where none that are like them can be made."""
    if (
        type(value) is not Unknown
        or value.node is not None or value.storage is not None or value.kept.leaf is not None
        or value.default != NO_DEFAULT or value.origin.asks.negated is not None
        or (value.origin.operation is not None and value.origin[:2] != ("len", (whole,)))
    ):  # fmt: skip
        raise Unlike
    yield value
    for _, part in parts_of(value):
        yield from _like(part, value)


def _has_part(value: Unknown, wanted: AbstractSet[int]) -> bool:
    """Whether an unknown is one of some, by id, or has one of them as a part."""
    parts = [part for _, part in parts_of(value) if type(part) is Unknown] if wanted else []
    return id(value) in wanted or any(_has_part(part, wanted) for part in parts)


def whole_of(part: Unknown) -> Unknown:
    """Return what a number of a shape is a part of in the end."""
    whole = part
    while (around := whole.part_of.owner or whole.part_of.source) is not None:
        whole = around
    return whole


def _whose(value: Tensor) -> str:
    if value.of_leaf is None:
        return ""
    return "own" if value.of_leaf == value.node else "another's"


__all__ = ["Given", "Shape", "Test", "Unlike", "parts_of", "whole_of"]
