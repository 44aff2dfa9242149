"""Identity, equality and membership of values, three-valued; and values as the keys of dicts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tapecheck.interpret.values import CONSTANTS, Dict, Instance, Lib, List, Range, Tensor, Unknown, Value, concrete

if TYPE_CHECKING:
    from tapecheck.interpret.machine import Machine


def identical(left: Value, right: Value) -> bool | None:
    left, right = concrete(left), concrete(right)
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return True if left is right else None
    if isinstance(left, CONSTANTS) and isinstance(right, CONSTANTS):
        return left is right or (type(left) is type(right) and left == right)
    if isinstance(left, Lib) and isinstance(right, Lib):
        return left.path == right.path
    return left is right


def equal(left: Value, right: Value) -> bool | None:
    """Equality of values that are no plain constants; None where nobody knows."""
    if left is right and isinstance(left, (List, tuple)):
        return True
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return True if left is right else None
    if isinstance(left, tuple) and isinstance(right, tuple):
        if len(left) != len(right):
            return False
        results = [
            left_item == right_item
            if isinstance(left_item, CONSTANTS) and isinstance(right_item, CONSTANTS)
            else equal(left_item, right_item)
            for left_item, right_item in zip(left, right)
        ]
        if any(result is False for result in results):
            return False
        return None if any(result is None for result in results) else True
    if isinstance(left, List) and isinstance(right, List):
        if left.more or right.more:
            return None
        return equal(tuple(left.items), tuple(right.items))
    if isinstance(left, Lib) and isinstance(right, Lib):
        return left.path == right.path
    if type(left) is not type(right):
        return False
    return True if left is right else None


def contains(machine: Machine, container: Value, item: Value) -> bool | None:
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
        return None
    items = container if isinstance(container, tuple) else getattr(container, "items", None)
    if not isinstance(items, (tuple, list)):
        return None
    unsure = bool(getattr(container, "more", False))
    for candidate in items:
        candidate = concrete(candidate)
        if isinstance(candidate, CONSTANTS) and isinstance(item, CONSTANTS):
            if candidate == item:
                return True
        elif candidate is item:
            return True
        else:
            same = equal(candidate, item)
            if same:
                return True
            unsure = unsure or same is None
    return None if unsure else False


def unsure_keys(container: Dict) -> bool:
    return any(isinstance(key, tuple) and key and key[0] == "?" for key in container.items)


def hashable(value: Value) -> Any:
    """A dict key for a value: constants by value, everything else by identity."""
    value = concrete(value)
    if isinstance(value, float) and math.isnan(value):
        return ("?", "nan")
    if isinstance(value, CONSTANTS):
        return value
    if isinstance(value, tuple):
        return tuple(hashable(item) for item in value)
    if isinstance(value, Lib):
        return ("lib", value.path)
    return ("?", _Identity(value))


class _Identity:
    """An object as a key: equal only to itself; keeps the object alive so that its id stays its own."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def unkey(key: Any) -> Value:
    """The value that a dict key stands for."""
    if isinstance(key, tuple) and len(key) == 2 and key[0] == "?":
        return key[1].value if isinstance(key[1], _Identity) else Unknown("key")
    if isinstance(key, tuple) and len(key) == 2 and key[0] == "lib":
        return Lib(key[1])
    if isinstance(key, tuple):
        return tuple(unkey(item) for item in key)
    return key
