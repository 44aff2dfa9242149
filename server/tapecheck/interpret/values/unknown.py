"""What nobody can know."""

from __future__ import annotations

from enum import Enum
from typing import Any

from tapecheck.interpret.values.base import BaseValue, Value
from tapecheck.interpret.values.tensor import Mark, Storage, Tensor
from tapecheck.interpret.values.vocabulary import PLAIN_NAMES


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
    TEXT = "text"
    MISSING = "missing"
    """What a class has under a name that it does not define."""
    NOT_IMPLEMENTED = "NotImplemented"
    """Python's constant of that name."""


COUNTED = (Kind.NUMBER, Kind.WHOLE, Kind.SCALE)
"""The kinds of numbers."""
_DATA = frozenset((Kind.PLAIN, *COUNTED, Kind.TEXT))


class Unknown(BaseValue):
    """A value nobody can know.

    `name` is for people; `kind` says what is known of its type. `node` is set where it may carry a graph (the
    result of an unknown call on tensors). `concrete` is set once the dry run has settled on a value for it (a loop
    bound). `leaf` stands for the parameters of an unknown model, which is trained as one opaque differentiable
    module. `data` says that it is data: no graph; `assumed` that this is so because loaders give data, and it was
    iterated out of something that was handed in. `owner` and `attr` say which attribute of which unknown value it
    is; `certain` whether it surely carries the graph of `node`. `parts` is what it was worked out from: the name of
    an operation and its operands. For the result of a test `compared` says what was compared with what; `bounds` is
    what tests have shown of a number. `key` is its expression and `unresolved` that it follows from nothing, as of
    how many settlings. `returned` says that it came out of a call that was given values, so that what is in it need
    not be data. `length` is what `len` of it gave, `likely` what a flag is by default and `usual` the default itself,
    in a tuple. `within` is what the program made itself and it is a part of: a model out of a library, what was in a
    saved file. `holds` are the leaves that the unknown code which made it was given, `made` the graphs that calls of
    it and of its methods gave, each with what was called. `part_of` is what it was taken out of by an index or a loop.
    """

    __slots__ = (
        "assumed", "attr", "attrs", "bounds", "certain", "compared", "concrete", "cuts", "data", "holds", "items",
        "key", "kind", "leaf", "length", "likely", "made", "name", "negated", "node", "oldest", "owner", "part_of",
        "parts", "returned", "storage", "trained", "truth", "unresolved", "usual", "within",
    )  # fmt: skip

    def __init__(
        self, name: str = "", node: int | None = None, cuts: tuple[int, ...] = (), kind: Kind = Kind.ANY
    ) -> None:
        self.name = name
        self.node = node
        self.cuts = cuts
        self.kind = kind
        self.oldest: int | None = None
        self.attrs: dict[str, Value] | None = None
        self.items: dict[Any, Value] | None = None
        self.truth: bool | None = None
        self.parts: tuple[Any, ...] | None = None
        self.compared: tuple[str, Unknown, Value] | None = None
        self.bounds: tuple[float, float] | None = None
        self.negated: Unknown | None = None
        self.concrete: Value = None
        self.leaf: Tensor | None = None
        self.trained = False
        self.storage: Storage | None = None
        self.length: Unknown | None = None
        self.data = kind in _DATA
        self.assumed = False
        self.certain = True
        self.owner: Unknown | None = None
        self.attr = ""
        self.key: tuple[int, tuple[Any, ...]] | None = None
        self.unresolved = -1
        self.returned = False
        self.likely: bool | None = None
        self.usual: tuple[Value] | None = None
        self.within: Unknown | None = None
        self.holds: tuple[int, ...] = ()
        self.made: list[tuple[Unknown, int]] | None = None
        self.part_of: Unknown | None = None

    @classmethod
    def number(cls, cuts: tuple[int, ...] = ()) -> Unknown:
        """Return a number nobody can know."""
        return cls("number", None, cuts, Kind.NUMBER)

    @classmethod
    def whole(cls, name: str) -> Unknown:
        """Return a whole number nobody can know."""
        return cls(name, None, (), Kind.WHOLE)

    @classmethod
    def text(cls) -> Unknown:
        """Return a text nobody can know."""
        return cls("text", None, (), Kind.TEXT)

    @classmethod
    def plain(cls, name: str, cuts: tuple[int, ...] = ()) -> Unknown:
        """Return something that is no tensor."""
        return cls(name, None, cuts, Kind.PLAIN)

    @classmethod
    def named(cls, name: str) -> Unknown:
        """Return what a program has under a name, of which nothing else is known."""
        return cls(name, None, (), Kind.PLAIN if name in PLAIN_NAMES else Kind.ANY)

    def __repr__(self) -> str:
        return f"<unknown {self.name}>"


def taken_for_data(value: Tensor | Unknown) -> bool:
    """Return whether a value has no graph only because what is iterated is taken for data."""
    if isinstance(value, Unknown):
        return value.assumed and value.concrete is None
    return value.extra is not None and Mark.TAKEN_FOR_DATA in value.extra


def concrete(value: Value) -> Value:
    """Return the value settled on for an unknown, or the value itself."""
    if isinstance(value, Unknown) and value.concrete is not None:
        return value.concrete
    return value
