"""What running loops count and compare: whether the next iteration can differ from the last one."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Collection, Hashable, MutableMapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from tapecheck.interpret.values import Dict, Env, Instance, List, Value, is_number

Key = TypeVar("Key", bound=Hashable)


@dataclass(slots=True)
class Guard:
    """A condition on known numbers in a loop: how far apart they are, and by how much that changes each time.

    `answers` are those it had since the loop was entered, `at` the iterations in which it was asked last.
    """

    statement: ast.If
    test: ast.Compare
    apart: float
    answers: set[bool]
    at: tuple[tuple[int, int], ...]
    step: float = 0
    divisor: int = 0
    fresh: bool | None = None
    """The answer of the iteration in which it was asked last, if it had not come out so before."""
    skipped: bool = False
    """Whether iterations were skipped since it was asked last."""
    moving: bool = True
    """Whether it is asked for the first time since the loop was entered, with other numbers than before that."""
    matters: bool = True
    """Whether a graph can hang on which way it goes."""
    idle: bool = False
    """Whether no graph and no other condition can hang on what it decides about."""
    telling: bool | None = None
    """The answer of which one time does not tell what comes of it: with which a value is put into a container, or
    gradients are cleared; None where that is neither.
    """
    told: int = 0
    """How many iterations, since the loop was entered, have come to that answer."""
    enough: int = 0
    """How many of these tell."""
    entered: float = math.nan
    """How far apart they were when the loop was entered."""
    around: int = 0
    """The loop around its own that its numbers change with, 0 for none."""
    turn: float = 0
    """By how much `entered` changes with each iteration of that one."""


@dataclass(slots=True, frozen=True)
class Count(Generic[Key]):
    """A number that a statement of a loop counted up: in what, under which key, and what it came to."""

    owner: Env | Instance | Dict
    held: Callable[[], MutableMapping[Key, Value]]
    key: Key
    value: float

    def current(self) -> int | float | None:
        """Return what stands there now; None where that is no number."""
        value = self.held().get(self.key)
        return value if is_number(value) else None

    def become(self, value: Value) -> None:
        """Let something else stand there."""
        self.held()[self.key] = value


@dataclass(slots=True, frozen=True)
class Growth:
    """A list that a statement of a loop let grow, and by how much."""

    owner: List
    number: int


class Counted:
    """What running loops counted up or let grow, oldest first."""

    def __init__(self) -> None:
        self._entries: list[Count[str] | Count[Hashable] | Growth] = []
        self._owners: dict[Hashable, dict[int, Env | Instance | Dict]] = {}
        self._grown: set[int] = set()

    def __len__(self) -> int:
        return len(self._entries)

    def note(self, one: Count[str] | Count[Hashable] | Growth) -> None:
        self._entries.append(one)
        if isinstance(one, Growth):
            self._grown.add(id(one.owner))
        else:
            self._owners.setdefault(one.key, {})[id(one.owner)] = one.owner

    def since(self, first: int) -> list[Count[str] | Count[Hashable] | Growth]:
        """Return the entries from a place on."""
        return self._entries[first:]

    def owners(self, key: Hashable) -> Collection[Env | Instance | Dict]:
        """Return that in which something was counted up under a key."""
        return self._owners.get(key, {}).values()

    def grew(self, value: Value) -> bool:
        """Whether a list grew."""
        return id(value) in self._grown

    def forget(self) -> None:
        self._entries.clear()
        self._owners.clear()
        self._grown.clear()


class Comparisons:
    """The numbers that loops have compared and counted."""

    def __init__(self) -> None:
        self.varying = 0
        """How often a comparison of numbers got others than the last time, or a place got its first graph."""
        self.guarded = 0
        """How many of them were the condition of an `if` of the running loop, which `Guard` keeps track of."""
        self.varied: ast.AST | None = None
        """The comparison that counted last."""
        self.first_graphs = 0
        """How many of them were a place that got its first graph."""
        self.numbers = 0
        """A hash of all numbers that the running loop has compared, in order."""
        self.operands: dict[int, tuple[Value, Value]] = {}
        """The operands of each comparison the last time, by the id of its node."""
        self.flags: dict[tuple[int, str], tuple[Env, ast.Compare]] = {}
        """Tests that a loop gives names (`last = step % 4 == 3`): the namespace and the test, by id and name."""
        self.guards: dict[int, Guard] = {}
        """Conditions on known numbers in loops, by the id of their comparison."""
        self.counted = Counted()

    def apart(self, test: ast.expr) -> float | None:
        """Return by how much the operands of a comparison differed the last time; None where these are no numbers."""
        left, right = self.operands.get(id(test), (None, None))
        return left - right if is_number(left) and is_number(right) else None
