"""Named tuples."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tapecheck.interpret.values.base import Value
from tapecheck.interpret.values.program import Class


class Record(tuple[Any, ...]):
    """A named tuple: a tuple that knows its class."""

    cls: Class

    def __new__(cls, owner: Class, items: Iterable[Value]) -> Record:
        made = super().__new__(cls, items)
        made.cls = owner
        return made
