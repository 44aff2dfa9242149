"""What every value of the dry run has in common.

Numbers, strings, booleans, None, tuples and slices of known values are Python's own. Everything else is a
`BaseValue`, a file for each kind; what nobody can know is an `Unknown`, which remembers what was asked of it so that
the same question gets the same answer.
"""

from __future__ import annotations

import ast
from collections.abc import Generator as PyGenerator
from typing import Any

from tapecheck.tape import Site

Value = Any
"""Any value of the dry run: one of the classes here or a Python constant or tuple."""

CONSTANTS = (int, float, complex, str, bytes, bool, type(None), type(...))
"""The types of Python's own constants."""

INERT: frozenset[type] = frozenset([int, float, str, bytes, bool, type(None)])
"""Types of Python values that can hold no tensor."""

Run = PyGenerator[Value, Value, Any]
"""A statement being run: gives what the program yields, takes what is sent, ends in None or a way out of the block."""

Args = list[Value]
Kwargs = dict[str, Value]
MORE_KEYWORDS = "**"
"""The key in `Kwargs` that says that a call may give further keywords: `f(**options)`, whose names nobody knows."""


def known_keywords(kwargs: Kwargs) -> Kwargs:
    """Return the keywords that a call is known to give."""
    return {key: value for key, value in kwargs.items() if key != MORE_KEYWORDS}


class BaseValue:
    """A value of the dry run that is not one of Python's own."""

    __slots__ = ()


class Slot:
    """A variable, attribute or item that holds more than a constant: where and when it was last stored.

    `clock` is that of the iteration that stored it; `loads` are the clocks of the last iterations that read what an
    earlier one had stored, each with the clock of that store.
    """

    __slots__ = ("at", "clock", "loads")

    def __init__(self, at: Site, clock: int) -> None:
        self.at = at
        self.clock = clock
        self.loads: list[tuple[int, int]] | None = None


def copied(slots: dict[Any, Slot]) -> dict[Any, Slot]:
    """Return the slots of a copy: what it holds was stored where the original stored it."""
    return {key: Slot(slot.at, slot.clock) for key, slot in slots.items()}


class Signal(Exception):
    """An exception of the interpreted program; `kind` is the name of its class, `value` its object."""

    def __init__(self, kind: str, value: Value = None, message: str = "", node: ast.AST | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.value = value
        self.message = message
        self.node = node
