"""Dicts, and what `keys()`, `values()` and `items()` give."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tapecheck.interpret.values.base import BaseValue, Slot, Value
from tapecheck.interpret.values.sequence import List


@dataclass(eq=False, slots=True)
class Dict(BaseValue):
    """A dict; `more` says that it may hold further keys. `factory` is a defaultdict's.

    `rewritten` are the keys that were stored more than once.
    """

    items: MutableMapping[Any, Value]
    more: bool = False
    factory: Value = None
    slots: dict[Any, Slot] = field(default_factory=dict)
    born: int = 0
    rewritten: set[Any] = field(default_factory=set)
    kind: Literal["dict", "counter"] = "dict"


class View(List):
    """What `keys()`, `values()` and `items()` of a dict give: it follows the dict. `kind` is the method's name.

    Whatever may add to a view unseen may add to its dict.
    """

    __slots__ = ("of", "part")

    def __init__(self, of: Dict, kind: Literal["keys", "values", "items"], part: Callable[[Dict], list[Value]]) -> None:
        self.of = of
        self.part = part
        self.kind = kind
        self.bound = None
        self.stored_at = None
        self.born = of.born
        self.cut = 0
        self.window = self.asked = self.length = None
        self.alike = 0

    @property
    def items(self) -> list[Value]:  # type: ignore[override]
        return self.part(self.of)

    @property
    def more(self) -> bool:
        return self.of.more

    @more.setter
    def more(self, more: bool) -> None:
        self.of.more = more
