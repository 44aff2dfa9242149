"""Lists, queues, sets and ranges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from tapecheck.interpret.values.base import BaseValue, Value
from tapecheck.tape import Site

SequenceKind = Literal["list", "deque", "queue", "keys", "values", "items"]
"""What a `List` stands for."""


@dataclass(eq=False, slots=True)
class List(BaseValue):
    """A list or deque; `more` says that it may hold further elements nobody knows."""

    items: list[Value]
    more: bool = False
    bound: int | None = None
    stored_at: Site | None = None
    kind: SequenceKind = "list"
    born: int = 0
    cut: int | None = 0
    """How many more elements it has because a loop that fills it was cut short; None where nobody knows."""
    window: tuple[int, int] | None = None
    """When it was last cut back, and to how many elements."""
    asked: dict[Any, tuple[int, Value]] | None = None
    """Which elements stand for those at indices that nobody knows, and these indices."""
    alike: int = 0
    """How many elements it was made with where one call made all of them: those that nobody knows are like these."""
    length: Value = None
    """Of parts that one call made: how many there are, the same whenever it is asked for."""


Order = Literal["first", "last", "least"]
"""Which of its elements a queue gives first."""


class Queue(List):
    """A queue of the library."""

    __slots__ = ("order",)

    def __init__(self, order: Order) -> None:
        List.__init__(self, [], kind="queue")
        self.order = order


@dataclass(eq=False, slots=True)
class Set(BaseValue):
    """A set; `more` where it may hold elements that are not known."""

    items: list[Value]
    more: bool = False
    stored_at: Site | None = None


@dataclass(frozen=True, slots=True)
class Range(BaseValue):
    """A range of known bounds."""

    start: int
    stop: int
    step: int = 1

    def __len__(self) -> int:
        return len(range(self.start, self.stop, self.step))
