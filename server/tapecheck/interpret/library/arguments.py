"""argparse: what `parse_args([...])` gives where the program itself says what the arguments are.

Without a list the arguments come from the command line, which nobody knows before the run.
"""

from __future__ import annotations

import argparse
import ast
import functools
from collections.abc import Callable
from typing import Any, NoReturn, cast

from tapecheck.interpret.library.contract import Torch
from tapecheck.interpret.objects import unknowns
from tapecheck.interpret.values import (
    NO_MODEL,
    Args,
    Instance,
    Kwargs,
    Native,
    Signal,
    Unknown,
    Value,
    is_constant,
    is_whole_list,
    items_of,
)

_TYPES = {"int": int, "float": float, "str": str, "bool": bool}
_OPTIONS = ("action", "nargs", "const", "default", "type", "choices", "required", "dest", "help", "metavar")


class _Refused(Exception):
    """The arguments do not fit, or the program declares them in a way that nobody knows."""


class _Declared(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _Refused(message)

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        raise _Refused(message or "")


class Parser(Unknown):
    """An `argparse.ArgumentParser` or a group of one; `arguments` are its declarations in order.

    Groups share the list of their parser. An argument that cannot be read makes the whole parser unknown
    (`arguments` holds None).
    """

    __slots__ = ("arguments",)

    def __init__(self, arguments: list[tuple[Args, Kwargs] | None] | None = None) -> None:
        super().__init__("arguments")
        self.arguments: list[tuple[Args, Kwargs] | None] = [] if arguments is None else arguments


def parser(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return the call of argparse.ArgumentParser itself."""
    made = Parser()
    if args or set(kwargs) - {"description", "prog", "usage", "epilog", "formatter_class", "add_help"}:
        made.arguments.append(None)
    return made


def method(torch: Torch, owner: Parser, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return a method of a parser; NO_MODEL where it is answered as that of any unknown value."""
    if name == "add_argument":
        owner.arguments.append((list(args), dict(kwargs)))
        return Unknown("argument")
    if name in ("add_argument_group", "add_mutually_exclusive_group"):
        return Parser(owner.arguments)
    if name == "set_defaults" and not args:
        owner.arguments.append(([], dict(kwargs)))
        return None
    if name == "parse_args" and (args or "args" in kwargs):
        words = args[0] if args else kwargs["args"]
        whole = len(args) < 2 and "namespace" not in kwargs
        return _namespace(torch, owner, words.items, node) if whole and is_whole_list(words) else NO_MODEL
    if name == "parse_args":
        given = cast(Unknown, owner.part_named("parse_args()"))
        given.take_for_data()
        for option, (value, flag) in _defaults(owner).items():
            unknowns.usually(cast(Unknown, given.part_named(option)), value, flag)
        return given
    if name not in ("print_help", "format_help"):
        owner.arguments.append(None)
    return NO_MODEL


def _namespace(torch: Torch, owner: Parser, words: list[Value], node: ast.AST) -> Value:
    """Return what `parse_args(words)` gives; NO_MODEL where nobody knows."""
    try:
        parsed = _parsed(torch, owner, words, node)
    except (_Refused, AttributeError, TypeError, ValueError, argparse.ArgumentError):
        return NO_MODEL
    space = Instance(None, "argparse.Namespace")
    for key, value in parsed.items():
        torch.machine.set_attribute(space, key, _value(torch, value, node), node)
    return space


def _defaults(owner: Parser) -> dict[str, tuple[Value, str]]:
    """Return the defaults of the arguments, of those whose default nothing converts, and the flags that set them."""
    found: dict[str, tuple[Value, str]] = {}
    for argument in owner.arguments:
        if argument is None:
            continue
        names, options = argument
        default = options.get("default")
        if not names:
            flags = {key: known[1] for key, known in found.items()}
            found.update({key: (value, flags.get(key, "")) for key, value in options.items() if is_constant(value)})
            continue
        if not is_constant(default) or (isinstance(default, str) and not _keeps_text(options.get("type"))):
            continue
        try:
            action = _declare(_Declared(add_help=False), names, options, lambda kind, text: text)
        except (_Refused, AttributeError, TypeError, ValueError, argparse.ArgumentError):
            continue
        if not action.required and is_constant(action.default):
            found[action.dest] = action.default, action.option_strings[-1] if action.option_strings else ""
    return found


def _keeps_text(kind: Value) -> bool:
    """Whether a default that is a text comes out of the conversion of an argument as it is."""
    return kind is None or (isinstance(kind, Native) and kind.name == "str")


def _parsed(torch: Torch, owner: Parser, words: list[Value], node: ast.AST) -> dict[str, object]:
    """Return what argparse makes of the words; raises what it raises, and _Refused."""
    declared = _Declared(add_help=False)
    for argument in owner.arguments:
        if argument is None:
            raise _Refused("declared in a way that nobody knows")
        names, options = argument
        if names:
            _declare(declared, names, options, lambda kind, text: _converted(torch, kind, text, node))
        else:
            declared.set_defaults(**{key: _default(value) for key, value in options.items()})
    return vars(declared.parse_args([str(_plain(word)) for word in words]))


class _Hidden:
    """A value of the program that argparse only passes on."""

    def __init__(self, value: Value) -> None:
        self.value = value


def _value(torch: Torch, parsed: object, node: ast.AST) -> Value:
    if isinstance(parsed, _Hidden):
        return parsed.value
    if isinstance(parsed, list):
        return torch.machine.new_list([_value(torch, item, node) for item in parsed], node)
    return parsed if is_constant(parsed) else Unknown("option")


def _converted(torch: Torch, kind: Value, text: str, node: ast.AST) -> object:
    """Return what the program's own function makes of a word, or of a default that is text."""
    try:
        return _default(torch.machine.call(kind, [text], {}, node))
    except Signal as signal:
        raise _Refused(signal.message) from None


def _declare(
    declared: _Declared, names: Args, options: Kwargs, converted: Callable[[Value, str], object]
) -> argparse.Action:
    """Declare an argument to argparse itself: what it does with names, kinds and defaults it knows best."""
    given = {key: value for key, value in options.items() if key in _OPTIONS and key not in ("help", "metavar")}
    if len(given) + ("help" in options) + ("metavar" in options) != len(options):
        raise _Refused("an option that nobody knows")
    kind = given.pop("type", None)
    default = given.pop("default", None)
    plain = {key: _plain(value) for key, value in given.items()}
    if "default" in options:
        # argparse copies the list that it appends to, any other value it passes on.
        plain["default"] = _plain(default) if plain.get("action") in ("append", "extend") else _default(default)
    if kind is not None:
        known = _TYPES.get(kind.name) if isinstance(kind, Native) else None
        plain["type"] = known or functools.partial(converted, kind)
    return declared.add_argument(*(str(_plain(name)) for name in names), **plain)


def _default(value: Value) -> object:
    return value if is_constant(value) else _Hidden(value)


def _plain(value: Value) -> Any:
    if is_constant(value):
        return value
    if isinstance(value, tuple) or is_whole_list(value):
        return [_plain(item) for item in items_of(value)]
    raise _Refused("not a constant")
