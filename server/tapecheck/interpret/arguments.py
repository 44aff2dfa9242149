"""argparse: what `parse_args([...])` gives where the program itself says what the arguments are.

Without a list the arguments come from the command line, which nobody knows before the run.
"""

from __future__ import annotations

import argparse
import ast
from typing import TYPE_CHECKING, Any, NoReturn

from tapecheck.interpret.values import CONSTANTS, Args, Instance, Kwargs, List, Native, Unknown, Value

if TYPE_CHECKING:
    from tapecheck.interpret.torchlib import Torch

_TYPES = {"int": int, "float": float, "str": str}
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
    """The call of argparse.ArgumentParser itself."""
    made = Parser()
    if args or set(kwargs) - {"description", "prog", "usage", "epilog", "formatter_class", "add_help"}:
        made.arguments.append(None)
    return made


def method(torch: Torch, owner: Parser, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """A method of a parser; NotImplemented where it is answered as that of any unknown value."""
    if name == "add_argument":
        owner.arguments.append((list(args), dict(kwargs)))
        return Unknown("argument")
    if name in ("add_argument_group", "add_mutually_exclusive_group"):
        return Parser(owner.arguments)
    if name == "set_defaults" and not args:
        owner.arguments.append(([], dict(kwargs)))
        return None
    if name == "parse_args" and (args or "args" in kwargs):
        given = args[0] if args else kwargs["args"]
        if len(args) < 2 and "namespace" not in kwargs and isinstance(given, List) and not given.more:
            try:
                return _parsed(torch, owner, given.items, node)
            except (_Refused, TypeError, ValueError, argparse.ArgumentError):
                return NotImplemented
    elif name not in ("parse_args", "print_help", "format_help"):
        owner.arguments.append(None)
    return NotImplemented


def _parsed(torch: Torch, owner: Parser, words: list[Value], node: ast.AST) -> Value:
    declared = _Declared(add_help=False)
    unknown: dict[str, Value] = {}
    for argument in owner.arguments:
        if argument is None:
            raise _Refused("declared in a way that nobody knows")
        names, options = argument
        if not names:
            declared.set_defaults(**{key: _plain(value) for key, value in options.items()})
            continue
        _declare(declared, names, options, unknown)
    space = declared.parse_args([str(_plain(word)) for word in words])
    result = Instance(None, "argparse.Namespace")
    machine = torch.machine
    for key, value in vars(space).items():
        if value is _UNREAD:
            machine.set_attribute(result, key, unknown.get(key) or Unknown(key), node)
        else:
            parsed = machine.new_list(value, node) if isinstance(value, list) else value
            machine.set_attribute(result, key, parsed, node)
    return result


_UNREAD = object()


def _declare(declared: _Declared, names: Args, options: Kwargs, unknown: dict[str, Value]) -> None:
    """Declare an argument to argparse itself: what it does with names, kinds and defaults it knows best."""
    flags = [str(_plain(name)) for name in names]
    given = {key: value for key, value in options.items() if key in _OPTIONS and key not in ("help", "metavar")}
    if len(given) + ("help" in options) + ("metavar" in options) != len(options):
        raise _Refused("an option that nobody knows")
    kind = given.pop("type", None)
    plain: dict[str, Any] = {}
    for key, value in given.items():
        if key == "default" and not _is_plain(value):
            plain[key] = _UNREAD
        else:
            plain[key] = _plain(value)
    if kind is not None:
        known = _TYPES.get(kind.name) if isinstance(kind, Native) else None
        if known is None:
            # What an own function makes of the text is not known: neither given nor by default.
            plain["type"] = lambda text: _UNREAD
            if "default" in plain:
                plain["default"] = _UNREAD
        else:
            plain["type"] = known
    action = declared.add_argument(*flags, **plain)
    if plain.get("default") is _UNREAD and "default" in given:
        unknown[action.dest] = given["default"]


def _is_plain(value: Value) -> bool:
    return isinstance(value, (*CONSTANTS, List, tuple))


def _plain(value: Value) -> object:
    if isinstance(value, List) and not value.more:
        return [_plain(item) for item in value.items]
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, CONSTANTS):
        return value
    raise _Refused("not a constant")
