"""Python's own constants: operators and methods on numbers and text."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from typing import TypeGuard

from tapecheck.interpret import limits
from tapecheck.interpret.engine import Engine
from tapecheck.interpret.values import (
    Args,
    Dict,
    Instance,
    Kind,
    Kwargs,
    Lib,
    List,
    NotPlain,
    Range,
    Set,
    Signal,
    Unknown,
    Value,
    behaviour,
    concrete,
    drawn_from,
    hashable,
    is_constant,
    plain,
)

_ERRORS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
_WIDE = re.compile(r"\d{5,}")
_NESTED = re.compile(r"\{[^{}]*\{")


def lifted(value: object) -> Value:
    """Return a value of Python's own as a value of the dry run."""
    if is_constant(value):
        return value
    match value:
        case tuple():
            return tuple(lifted(item) for item in value)
        case list():
            return List([lifted(item) for item in value])
        case Mapping():
            return Dict({hashable(lifted(key)): lifted(item) for key, item in value.items()})
        case set() | frozenset():
            return Set([lifted(item) for item in value])
        case range():
            return Range(value.start, value.stop, value.step)
    return Unknown("value")


def computed(machine: Engine, kind: Kind, function: Callable[..., object], /, *args: Value, **kwargs: Value) -> Value:
    """Return what a function of Python's own gives for known arguments; `kind` is what is known of it where it raises.

    Where it raises, the program raises if it looks out for exceptions; else nothing is known: an argument may only
    have been settled on.
    """
    try:
        return lifted(function(*args, **kwargs))
    except _ERRORS as error:
        if machine.expects(type(error).__name__):
            raise Signal(type(error).__name__, None, str(error)[: limits.MAX_MESSAGE]) from None
        return Unknown(kind.value, None, (), kind)


def _large_power(left: Value, right: Value) -> Kind | None:
    large = isinstance(left, int) and isinstance(right, int) and left.bit_length() * max(right, 0) > limits.MAX_BITS
    return Kind.NUMBER if large else _large_shift(left, right)


def _large_shift(left: Value, right: Value) -> Kind | None:
    return Kind.NUMBER if isinstance(right, (int, float)) and abs(right) > limits.MAX_EXPONENT else None


def _is_text(value: object) -> TypeGuard[str | bytes]:
    return isinstance(value, (str, bytes))


def _large_repetition(left: Value, right: Value) -> Kind | None:
    text, count = (left, right) if _is_text(left) else (right, left)
    if not _is_text(text):
        return None
    return None if isinstance(count, int) and count * len(text) <= limits.MAX_TEXT else Kind.TEXT


def _large_join(left: Value, right: Value) -> Kind | None:
    if not _is_text(left) or not _is_text(right):
        return None
    return Kind.TEXT if len(left) + len(right) > limits.MAX_TEXT else None


def _large_format(left: Value, right: Value) -> Kind | None:
    return Kind.TEXT if _is_text(left) and _explodes(left, right) else None


_TOO_LARGE: dict[type[ast.operator], Callable[[Value, Value], Kind | None]] = {
    ast.Pow: _large_power, ast.LShift: _large_shift, ast.Mult: _large_repetition, ast.Add: _large_join,
    ast.Mod: _large_format,
}  # fmt: skip
"""For an operator: the kind of its result where it is too large to be worth computing, else None."""


def arithmetic(
    machine: Engine, op: ast.operator, function: Callable[[Value, Value], Value] | None, left: Value, right: Value
) -> Value:
    """Return an operator on Python constants, guarded against results too large to be worth computing."""
    if function is None:
        return Unknown("result")
    too_large = _TOO_LARGE.get(type(op))
    if too_large is not None and (kind := too_large(left, right)) is not None:
        return Unknown.text() if kind is Kind.TEXT else Unknown.number()
    if any(isinstance(side, int) and side.bit_length() > limits.MAX_BITS for side in (left, right)):
        return Unknown.number()
    try:
        return function(left, right)
    except (ArithmeticError, TypeError, ValueError) as error:
        if machine.expects(type(error).__name__):
            raise Signal(type(error).__name__) from None
        return Unknown.text() if isinstance(left, str) else Unknown("result")


def _takes_long(owner: Value, given: tuple[object, ...]) -> bool:
    """Return whether a method may make so long a text, or work so long, that it is not run."""
    if any(isinstance(value, int) and abs(value) > limits.MAX_TEXT for value in given):
        return True
    weights = [abs(value) if isinstance(value, int) else _weight(value) for value in given]
    own = _weight(owner)
    return own + sum(map(_weight, given)) > limits.MAX_TEXT or own * max(weights, default=0) > limits.MAX_TEXT_WORK


def method_of_constant(machine: Engine, owner: Value, name: str, args: Args, kwargs: Kwargs) -> Value:
    """Return a method of a number or text, run where all its arguments are known."""
    if name == "join" and args and behaviour(args[0]).is_iterator:
        args = [List(list(machine.elements(args[0], ast.Pass())))]
    try:
        values = [plain(arg) for arg in args]
        named = {key: plain(value) for key, value in kwargs.items()}
    except NotPlain:
        return Unknown.text()
    given = (*values, *named.values())
    if _takes_long(owner, given):
        return Unknown.text()
    if name not in _METHODS or (isinstance(owner, str) and name == "format" and _explodes(owner, given)):
        return Unknown.text()
    return computed(machine, Kind.TEXT, getattr(type(owner), name, _missing), owner, *values, **named)


def _weight(value: object) -> int:
    """Return how much there is of a constant: characters, digits, or all that is in a container."""
    match value:
        case str() | bytes():
            return len(value)
        case int():
            return max(1, value.bit_length() // 3)
        case Mapping():
            return 1 + sum(_weight(key) + _weight(item) for key, item in value.items())
        case tuple() | list() | set() | frozenset():
            return 1 + sum(map(_weight, value))
    return 1


def _explodes(pattern: str | bytes, given: object) -> bool:
    """Return whether formatting could take long or make a large text: by a width, or by many parts."""
    text = pattern.decode("latin-1") if isinstance(pattern, bytes) else pattern
    parts = text.count("%") + text.count("{")
    if _WIDE.search(text) or parts * _weight(given) > limits.MAX_TEXT_WORK:
        return True
    # A width may come with the arguments, too.
    return ("*" in text or _NESTED.search(text) is not None) and _wide(given)


def _wide(value: object) -> bool:
    """Return whether anything in some arguments would be a large width."""
    match value:
        case int():
            return abs(value) > limits.MAX_TEXT
        case str():
            return _WIDE.search(value) is not None
        case Mapping():
            return any(map(_wide, value.values()))
        case tuple() | list():
            return any(map(_wide, value))
    return False


def _missing(*args: Value) -> None:
    raise AttributeError


def text_of(machine: Engine, value: Value, node: ast.AST, names: tuple[str, ...] = ("__str__", "__repr__")) -> Value:
    """`str(value)`, or `repr` for the names of that; unknown where the text is."""
    value = concrete(value)
    machine.operates((value,), node)
    if isinstance(value, Instance):
        for name in names:
            method = machine.find_method(value, name)
            if method is not None:
                return machine.call(method, [], {}, node)
        arguments = value.args
        if arguments is not None and "__str__" in names and all(map(is_constant, arguments)):
            return str(arguments[0]) if len(arguments) == 1 else str(tuple(arguments))
        return Unknown.text()
    try:
        known = plain(value)
    except NotPlain:
        made = Unknown.undecided("text") if isinstance(value, Lib) and value.is_type else Unknown.text()
        return drawn_from(made, (value,))
    text = str(known) if "__str__" in names else repr(known)
    return text if len(text) <= limits.MAX_TEXT else Unknown.text()


def formatted(machine: Engine, value: Value, spec: Value, conversion: int, node: ast.AST) -> Value:
    """One part of an f-string; `conversion` is the character code of `!r`, `!s`, `!a`, or -1."""
    if conversion in (114, 97):
        value = text_of(machine, value, node, ("__repr__",))
    elif conversion == 115 or not spec:
        value = text_of(machine, value, node)
    if not spec:
        return value
    if not isinstance(spec, str) or _WIDE.search(spec):
        return Unknown.text()
    try:
        known = plain(value)
    except NotPlain:
        return Unknown.text()
    return computed(machine, Kind.TEXT, format, known, spec)


_METHODS = frozenset((
    "lower", "upper", "strip", "lstrip", "rstrip", "split", "rsplit", "startswith", "endswith", "replace", "join",
    "title", "find", "rfind", "index", "rindex", "count", "isdigit", "isalpha", "isalnum", "isnumeric", "isspace",
    "isupper", "islower", "isidentifier", "isdecimal", "capitalize", "splitlines", "partition", "rpartition",
    "removeprefix", "removesuffix", "zfill", "is_integer", "bit_length", "center", "ljust", "rjust", "swapcase",
    "casefold", "expandtabs", "encode", "decode", "format", "conjugate", "as_integer_ratio", "hex", "bit_count",
))  # fmt: skip
