"""What Python's own values do: numbers, texts, None, tuples and slices."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Hashable, Iterable
from types import EllipsisType
from typing import ClassVar

from tapecheck.interpret import limits
from tapecheck.interpret.values.base import (
    CONSTANTS,
    BaseValue,
    Deferred,
    Identity,
    Interpreter,
    NotPlain,
    Signal,
    Stream,
    Value,
    all_equal,
    among,
    behaviour,
    key_within,
    of_python,
    plain,
)
from tapecheck.interpret.values.sequence import (
    SEQUENCE_TYPES,
    List,
    known_slice,
    like_last,
    numbered_parts,
    parts_of_slice,
)
from tapecheck.interpret.values.unknown import Unknown, composed


@of_python(object)
class PythonValue(BaseValue):
    """One of Python's own values."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value

    def itself(self) -> Value:
        return self.value

    def as_key(self, left: list[int]) -> Hashable:
        return ("?", Identity(self.value))

    def expression(self) -> tuple[Hashable, ...]:
        return ("?", id(self.value))


@of_python(*CONSTANTS)
class Constant(PythonValue):
    """A constant."""

    __slots__ = ()

    value: int | float | complex | str | bytes | EllipsisType | None

    plain_key: ClassVar[bool] = True
    is_fixed: ClassVar[bool] = True
    is_callable: ClassVar[bool | None] = False
    type_names: ClassVar[tuple[str, ...] | None] = ()

    def type_of(self) -> BaseValue | str:
        return "types.NoneType" if self.value is None else f"builtins.{type(self.value).__name__}"

    def is_a(self, name: str) -> bool | None:
        names = _TYPE_NAMES.get(type(self.value), ())
        return True if name.rpartition(".")[2] in names else BaseValue.is_a(self, name)

    def has_attribute(self, machine: Interpreter, name: str, node: ast.AST) -> bool | None:
        return hasattr(self.value, name)

    def kind_as_index(self) -> str:
        return "none" if self.value is None else "ellipsis" if self.value is ... else "int"

    def as_python(self, depth: int) -> object:
        return self.value

    def known_truth(self, machine: Interpreter) -> bool | None:
        return bool(self.value)

    def is_same(self, other: BaseValue) -> bool | Deferred | None:
        if not isinstance(other, Constant):
            return Deferred.TO_OTHER
        return type(self.value) is type(other.value) and bool(self.value == other.value)

    def as_key(self, left: list[int]) -> Hashable:
        return self.value

    def expression(self) -> tuple[Hashable, ...]:
        return ("=", self.value)


_TYPE_NAMES: dict[type, tuple[str, ...]] = {
    bool: ("bool", "int", "Number", "Integral", "Real"), int: ("int", "Number", "Integral", "Real", "Rational"),
    float: ("float", "Number", "Real"), complex: ("complex", "Number"), type(None): ("NoneType",),
    str: ("str", *SEQUENCE_TYPES, "Container"), bytes: ("bytes", *SEQUENCE_TYPES, "Container"),
}  # fmt: skip


@of_python(int, complex)
class Number(Constant):
    """A number."""

    __slots__ = ()

    value: int | float | complex

    def unary(self, machine: Interpreter, op: str, node: ast.AST) -> Value:
        try:
            return _UNARY[op](self.value)
        except TypeError:
            return Unknown("invert")

    def become(self, name: str, *, changed: bool) -> Value:
        if isinstance(self.value, complex):
            return self.value
        number = Unknown.number()
        if not changed and self.value >= 0:
            number.shown = number.shown._replace(bounds=(self.value, math.inf))
        return number


_UNARY: dict[str, Callable[..., Value]] = {"USub": operator.neg, "UAdd": operator.pos, "Invert": operator.invert}


@of_python(bool)
class Boolean(Number):
    """A boolean."""

    __slots__ = ()

    value: bool

    def become(self, name: str, *, changed: bool) -> Value:
        return Unknown.plain(name)


@of_python(type(None))
class Nothing(Constant):
    """None."""

    __slots__ = ()

    value: None

    def become(self, name: str, *, changed: bool) -> Value:
        return Unknown(name)


@of_python(float)
class Real(Number):
    """A number that need be no whole one."""

    __slots__ = ()

    value: float

    def as_key(self, left: list[int]) -> Hashable:
        return ("?", "nan") if math.isnan(self.value) else self.value


@of_python(bytes)
class Bytes(Constant):
    """Bytes."""

    __slots__ = ()

    value: bytes

    def size(self, machine: Interpreter, node: ast.AST) -> Value:
        return len(self.value)


@of_python(str)
class Text(Constant):
    """A text."""

    __slots__ = ()

    value: str

    def become(self, name: str, *, changed: bool) -> Value:
        return Unknown.text()

    def item_at(self, machine: Interpreter, index: Value, node: ast.AST) -> Value:
        if not isinstance(index, (int, slice)):
            return Unknown("item")
        try:
            return self.value[index]
        except (IndexError, TypeError):
            return Unknown.text()

    def stream(self, machine: Interpreter, node: ast.AST) -> Stream:
        value = self.value
        return Stream(lambda: len(value), lambda index: value[index])

    def known_items(self, machine: Interpreter, node: ast.AST) -> list[Value] | None:
        return list(self.value) if len(self.value) <= limits.MAX_ITEMS else None

    def size(self, machine: Interpreter, node: ast.AST) -> Value:
        return len(self.value)

    def contains(self, machine: Interpreter, item: Value) -> bool | None:
        return item in self.value if isinstance(item, str) else None


@of_python(tuple)
class Tuple(PythonValue):
    """A tuple, also a named one."""

    __slots__ = ()

    value: tuple[Value, ...]

    is_container: ClassVar[bool] = True
    has_members = True

    def is_whole(self) -> bool:
        return True

    def known_count(self) -> int | None:
        return len(self.value)

    def children(self) -> Iterable[Value]:
        return self.value

    def named_parts(self, path: str) -> Iterable[tuple[str, Value]]:
        return numbered_parts(path, self.value)

    def is_inert(self) -> bool:
        return all(behaviour(item).is_inert() for item in self.value)

    type_path: ClassVar[str] = "builtins.tuple"
    type_names: ClassVar[tuple[str, ...] | None] = ("tuple", *SEQUENCE_TYPES, "Container")

    def mapped(self, each: Callable[[Value], Value], born: int) -> Value | None:
        return tuple([each(item) for item in self.value])

    def as_python(self, depth: int) -> object:
        if depth <= 0 or type(self.value) is not tuple:
            raise NotPlain
        return tuple(plain(item, depth - 1) for item in self.value)

    is_callable: ClassVar[bool | None] = False

    def has_attribute(self, machine: Interpreter, name: str, node: ast.AST) -> bool | None:
        return hasattr((), name)

    def item_at(self, machine: Interpreter, index: Value, node: ast.AST) -> Value:
        items = self.value
        if isinstance(index, int):
            if -len(items) <= index < len(items):
                return items[index]
            if machine.expects("IndexError"):
                raise Signal("IndexError")
            return items[-1] if items and index < 0 else like_last(items)
        return machine.library.chosen(index, [*enumerate(items)], node) if items else Unknown("item")

    def part(self, machine: Interpreter, index: slice, node: ast.AST) -> Value:
        parts = parts_of_slice(index)
        known = known_slice(parts)
        return List([*self.value]).part(machine, index, node) if known is None else tuple(self.value[known])

    def stream(self, machine: Interpreter, node: ast.AST) -> Stream:
        items = self.value
        return Stream(lambda: len(items), lambda index: items[index], held=True)

    def known_items(self, machine: Interpreter, node: ast.AST) -> list[Value] | None:
        return list(self.value) if len(self.value) <= limits.MOST_KEPT else None

    def size(self, machine: Interpreter, node: ast.AST) -> Value:
        return len(self.value)

    def contains(self, machine: Interpreter, item: Value) -> bool | None:
        return among(machine, self.value, item, False)

    def known_truth(self, machine: Interpreter) -> bool | None:
        return bool(self.value)

    def equals(self, other: BaseValue, machine: Interpreter | None) -> bool | Deferred | None:
        return all_equal(self.value, other.value, machine) if isinstance(other, Tuple) else Deferred.TO_OTHER

    def as_key(self, left: list[int]) -> Hashable:
        return tuple(key_within(item, left) for item in self.value)

    def expression(self) -> tuple[Hashable, ...]:
        if len(self.value) > limits.MOST_NAMED:
            return ("?", id(self.value))
        return composed("()", self.value, self.value)


@of_python(list)
class Several(BaseValue):
    """Several values that the dry run handles together."""

    __slots__ = ("value",)

    def __init__(self, value: list[Value]) -> None:
        self.value = value

    is_container: ClassVar[bool] = True

    def children(self) -> Iterable[Value]:
        return self.value


@of_python(slice)
class Slice(PythonValue):
    """A slice."""

    __slots__ = ()

    value: slice

    type_names: ClassVar[tuple[str, ...] | None] = ("slice",)

    def kind_as_index(self) -> str:
        return "slice"

    def as_python(self, depth: int) -> object:
        if depth <= 0:
            raise NotPlain
        return slice(*(plain(part) for part in (self.value.start, self.value.stop, self.value.step)))
