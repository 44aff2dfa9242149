"""Python's own constants: operators and methods on numbers and text."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tapecheck.interpret.values import CONSTANTS, Args, Kwargs, List, Unknown, Value, concrete

if TYPE_CHECKING:
    pass

_MAX_TEXT = 10_000

_MAX_BITS = 4_096


def arithmetic(op: ast.operator, function: Callable[[Any, Any], Any] | None, left: Value, right: Value) -> Value:
    """An operator on Python constants, guarded against results too large to be worth computing."""
    if function is None:
        return Unknown("result")
    if isinstance(op, (ast.Pow, ast.LShift)) and isinstance(right, (int, float)) and abs(right) > 1_000:
        return Unknown("number")
    if isinstance(op, ast.Mult) and (isinstance(left, (str, bytes)) or isinstance(right, (str, bytes))):
        text, count = (left, right) if isinstance(left, (str, bytes)) else (right, left)
        if not isinstance(count, int) or not isinstance(text, (str, bytes)) or count * len(text) > _MAX_TEXT:
            return Unknown("text")
    if any(isinstance(side, int) and side.bit_length() > _MAX_BITS for side in (left, right)):
        return Unknown("number")
    try:
        return function(left, right)
    except (ArithmeticError, TypeError, ValueError):
        return Unknown("result")


def method_of_constant(owner: Value, name: str, args: Args, kwargs: Kwargs) -> Value:
    values = [_plain(arg) for arg in args]
    if any(isinstance(value, int) and abs(value) > _MAX_TEXT for value in values):
        return Unknown("text")
    if sum(len(value) for value in (owner, *values) if isinstance(value, (str, bytes, list))) > _MAX_TEXT:
        return Unknown("text")
    if name in _TEXT_METHODS and all(value is not NotImplemented for value in values) and not kwargs:
        try:
            result = getattr(owner, name)(*values)
        except (TypeError, ValueError, AttributeError, IndexError, KeyError):
            return Unknown("text")
        return List(list(result)) if isinstance(result, list) else result
    return Unknown("text")


def _plain(value: Value) -> Any:
    value = concrete(value)
    if isinstance(value, CONSTANTS):
        return value
    if isinstance(value, (List, tuple)) and not getattr(value, "more", False):
        items = list(value) if isinstance(value, tuple) else list(value.items)
        if all(isinstance(item, CONSTANTS) for item in items):
            return items
    return NotImplemented


_TEXT_METHODS = frozenset((
    "lower", "upper", "strip", "lstrip", "rstrip", "split", "rsplit", "startswith", "endswith", "replace", "join",
    "title", "find", "count", "isdigit", "capitalize", "splitlines", "partition", "rpartition", "removeprefix",
    "removesuffix", "zfill", "is_integer", "bit_length",
))  # fmt: skip
