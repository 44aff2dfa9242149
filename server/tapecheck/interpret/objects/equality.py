"""Identity, equality and membership of values, three-valued; and values as the keys of dicts."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from typing import Any

from tapecheck.interpret import limits
from tapecheck.interpret.engine import Engine
from tapecheck.interpret.values import (
    CONSTANTS,
    Class,
    Dict,
    Function,
    Generator,
    Instance,
    Lib,
    List,
    Mark,
    Module,
    Queue,
    Range,
    Set,
    Stream,
    Tensor,
    Unknown,
    Value,
    View,
    concrete,
)

_TENSOR = ("torch.autograd.Variable", "torch.autograd.variable.Variable")


def _named(value: Lib) -> str:
    """Programs that ask whether something is a Variable were written when each tensor with a graph was one."""
    return "torch.Tensor" if value.path in _TENSOR else value.path


def identical(left: Value, right: Value) -> bool | None:
    left, right = concrete(left), concrete(right)
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        if left is right:
            return True
        value, other = (left, right) if isinstance(left, Unknown) else (right, left)
        return False if other is None and value.node is not None and value.certain else None
    if isinstance(left, CONSTANTS) and isinstance(right, CONSTANTS):
        return left is right or (type(left) is type(right) and left == right)
    if isinstance(left, Lib) and isinstance(right, Lib):
        return _named(left) == _named(right)
    return left is right


def equal(left: Value, right: Value, machine: Engine | None = None) -> bool | None:
    """Equality of two values; None where nobody knows. `machine` runs the program's own `__eq__`."""
    left, right = concrete(left), concrete(right)
    if isinstance(left, CONSTANTS) and isinstance(right, CONSTANTS):
        return bool(left == right)
    left, right = _as_container(left), _as_container(right)
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return True if left is right else None
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        return None
    if isinstance(left, tuple) and isinstance(right, tuple):
        return _all_equal(left, right, machine)
    if isinstance(left, Dict) and isinstance(right, Dict):
        if left is right:
            return True
        if left.more or right.more or unsure_keys(left) or unsure_keys(right):
            return None
        if left.items.keys() != right.items.keys():
            return False
        return _all_equal(list(left.items.values()), [right.items[key] for key in left.items], machine)
    if isinstance(left, View) and left.kind == "keys":
        left = Set(left.items, left.more)
    if isinstance(right, View) and right.kind == "keys":
        right = Set(right.items, right.more)
    if isinstance(left, Set) and isinstance(right, Set):
        if left is right:
            return True
        if left.more or right.more or unsure_items(left) or unsure_items(right):
            return None
        return {hashable(item) for item in left.items} == {hashable(item) for item in right.items}
    if isinstance(left, List) and isinstance(right, List):
        if left is right or isinstance(left, Queue) or isinstance(right, Queue):
            return left is right
        return None if left.more or right.more else _all_equal(left.items, right.items, machine)
    if isinstance(left, Range) and isinstance(right, Range):
        return left == right
    if isinstance(left, Lib) and isinstance(right, Lib):
        return _named(left) == _named(right)
    if isinstance(left, Lib) or isinstance(right, Lib):
        # A constant of a library, perhaps.
        return None
    for owner, other in ((left, right), (right, left)):
        if isinstance(owner, Instance) and owner.cls is not None and owner.cls.defines("__eq__"):
            if machine is None:
                return None
            method = machine.find_method(owner, "__eq__")
            return machine.known_truth(machine.call(method, [other], {}, owner.cls.node))
    if isinstance(left, Instance) and isinstance(right, Instance) and left is not right:
        if left.cls is not None and left.cls is right.cls and left.cls.kind == "dataclass":
            if left.cls.options.get("eq") is False:
                return False
            names = [field.name for field in left.cls.fields or () if field.compare]
            unknown = Unknown("field")
            return _all_equal(
                [left.attrs.get(name, unknown) for name in names],
                [right.attrs.get(name, unknown) for name in names],
                machine,
            )
        return False if left.cls is not None and right.cls is not None and not left.cls.opaque else None
    return left is right


def _as_container(value: Value) -> Value:
    """Return what an object made from dict, list or set is compared as, where its class has no `__eq__` of its own."""
    if isinstance(value, Instance) and value.inner is not None and not (value.cls and value.cls.defines("__eq__")):
        return value.inner
    return value


def _all_equal(left: Sequence[Value], right: Sequence[Value], machine: Engine | None) -> bool | None:
    if len(left) != len(right):
        return False
    results = [True if a is b else equal(a, b, machine) for a, b in zip(left, right)]
    if False in results:
        return False
    return None if None in results else True


def unsure_items(container: Set) -> bool:
    """Whether nobody knows which elements of a set are the same."""
    return any(isinstance(item, Unknown) and item.concrete is None for item in container.items)


def contains(machine: Engine, container: Value, item: Value) -> bool | None:
    item = concrete(item)
    if isinstance(container, Range) and isinstance(item, int):
        return item in range(container.start, container.stop, container.step)
    if isinstance(container, str):
        return item in container if isinstance(item, str) else None
    if isinstance(container, Dict):
        key = hashable(item)
        if isinstance(item, (CONSTANTS, Tensor, Instance)):
            if key in container.items:
                return True
            return None if container.more or unsure_keys(container) else False
        return key in container.items or None
    if isinstance(container, Instance):
        method = machine.find_method(container, "__contains__")
        if method is not None and container.cls is not None:
            return machine.known_truth(machine.call(method, [item], {}, container.cls.node))
        inner = container.inner
        if inner is not None:
            return contains(machine, inner, item)
        if container.module:
            at = container.cls.node if container.cls is not None else ast.Pass()
            known = machine.library.object_attribute(container, "__contains__", at)
            return machine.known_truth(machine.call(known, [item], {}, at)) if known is not None else None
    if isinstance(container, (Instance, Generator, Stream, Class)):
        return _reached(machine, container, item)
    items = container if isinstance(container, tuple) else getattr(container, "items", None)
    if not isinstance(items, (tuple, list)):
        return None
    if isinstance(item, Unknown):
        if any(candidate is item for candidate in items):
            return True
        return None if items or getattr(container, "more", False) else False
    unsure = bool(getattr(container, "more", False))
    for candidate in items:
        candidate = concrete(candidate)
        if isinstance(candidate, CONSTANTS) and isinstance(item, CONSTANTS):
            if candidate == item:
                return True
        elif candidate is item:
            return True
        else:
            same = equal(candidate, item, machine)
            if same:
                return True
            unsure = unsure or same is None
    return None if unsure else False


def _reached(machine: Engine, container: Value, item: Value) -> bool | None:
    """Whether going over an iterable comes to an element: an iterator is used up as far as that."""
    if isinstance(container, Class) and container.members is None:
        return None
    stream = machine.stream(container, container.cls.node if isinstance(container, Instance) and container.cls else
                            ast.Pass())  # fmt: skip
    if stream.length() is None and not isinstance(container, Instance):
        return None
    for _ in range(limits.MAX_DRAINED):
        try:
            length = stream.length()
            if length is not None and stream.next >= length:
                return False
            same = equal(stream.item(stream.next), item, machine)
        except IndexError:
            return False
        stream.next += 1
        if same is not False:
            return same
    return None


def unsure_keys(container: Dict) -> bool:
    return any(isinstance(key, tuple) and key and key[0] == "?" for key in container.items)


def hashable(value: Value) -> Any:
    """Return a dict key for a value: constants by value, everything else and what has too many parts by identity."""
    return _hashable(value, [limits.MOST_HASHED])


def _hashable(value: Value, left: list[int]) -> Any:
    value = concrete(value)
    left[0] -= 1
    if left[0] < 0:
        return ("?", _Identity(value))
    if isinstance(value, float) and math.isnan(value):
        return ("?", "nan")
    if isinstance(value, CONSTANTS):
        return value
    if isinstance(value, tuple):
        return tuple(_hashable(item, left) for item in value)
    if isinstance(value, Lib):
        return ("lib", value.path)
    if isinstance(value, Set):
        return frozenset(_hashable(item, left) for item in value.items)
    if isinstance(value, Instance) and value.cls is not None and value.cls.kind == "dataclass":
        if value.cls.options.get("frozen") and value.cls.options.get("eq") is not False:
            fields = [value.attrs.get(field.name) for field in value.cls.fields or ()]
            return _Fields(value, tuple(_hashable(field, left) for field in fields))
    return _Identity(value) if _is_one(value) else ("?", _Identity(value))


def _is_one(value: Value) -> bool:
    """Return whether a value is known to be equal, as a key, to nothing but itself."""
    if isinstance(value, Tensor):
        return value.extra is None or Mark.OPAQUE not in value.extra
    if not isinstance(value, Instance):
        return isinstance(value, (Function, Class, Module))
    if value.cls is None:
        return value.module
    made = value.cls.kind == "" and not value.cls.opaque
    return made and value.inner is None and not (value.cls.defines("__eq__") or value.cls.defines("__hash__"))


class _Identity:
    """An object as a key: equal only to itself; keeps the object alive so that its id stays its own."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


class _Fields(_Identity):
    """A frozen dataclass object as a key: equal to those of its class with the same fields."""

    __slots__ = ("fields",)

    def __init__(self, value: Value, fields: tuple[Any, ...]) -> None:
        super().__init__(value)
        self.fields = fields

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Fields) and other.value.cls is self.value.cls and other.fields == self.fields

    def __hash__(self) -> int:
        return hash(self.fields)


def unkey(key: Any) -> Value:
    """Return the value that a dict key stands for."""
    if isinstance(key, tuple) and len(key) == 2 and key[0] == "?":
        return key[1].value if isinstance(key[1], _Identity) else Unknown.plain("key")
    if isinstance(key, tuple) and len(key) == 2 and key[0] == "lib":
        return Lib(key[1])
    if isinstance(key, tuple):
        return tuple(unkey(item) for item in key)
    if isinstance(key, _Identity):
        return key.value
    if isinstance(key, frozenset):
        return Set([unkey(item) for item in key])
    return key
