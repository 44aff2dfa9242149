"""What elements are drawn from: running generators, and streams of elements."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Generator as PyGenerator
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from tapecheck.interpret import limits
from tapecheck.interpret.values.base import MORE, NUMBERS, PICKED, Args, BaseValue, Interpreter, Signal, Stream, Value
from tapecheck.interpret.values.program import Env
from tapecheck.interpret.values.unknown import Kind, Unknown

OPEN = ast.Pass()
"""The key in `Env.sent` that says that a generator function goes over something without a known end."""

_NOWHERE = ast.Pass()


@dataclass(eq=False, slots=True)
class Generator(BaseValue):
    """A running generator: `run` yields its values and takes what is sent, `env` holds its locals.

    `open` says that it goes over something whose length nobody knows, `done` that it has come to its end.
    """

    run: PyGenerator[Value, Value, Value]
    env: Env
    open: bool = False
    done: bool = False
    extent: Extent = field(default_factory=lambda: Extent())
    pending: list[Value] = field(default_factory=list)
    """What was taken from it ahead of time, to be given first."""
    guarded: bool = False
    """Whether it waits inside of a `with` or `try`, whose end has to come once it is left."""

    @property
    def started(self) -> bool:
        """Whether it has been asked for a value."""
        return bool(self.pending) or self.done or inspect.getgeneratorstate(self.run) != inspect.GEN_CREATED

    can_hold: ClassVar[bool] = True
    is_iterator: ClassVar[bool] = True
    type_names: ClassVar[tuple[str, ...] | None] = ("Generator", "GeneratorType", "Iterator", "Iterable")

    def reached(self) -> Iterable[Value]:
        return self.env.vars.values()

    def entered(self, machine: Interpreter, node: ast.AST) -> Value:
        # A decorator that is not visible has made a context manager of it.
        machine.world.assumptions.enter(self, "context", "the generator leaves recording as it is", node)
        return self

    def stream(self, machine: Interpreter, node: ast.AST) -> Stream:
        produced: list[Value] = []

        def item(index: int) -> Value:
            while len(produced) <= index:
                try:
                    produced.append(machine.resume(self))
                except Signal as signal:
                    if signal.kind == "StopIteration":
                        raise IndexError from None
                    raise
            return produced[index]

        # Where the length is said to be large the stream ends by itself: loops run it to its end.
        def length() -> int | None:
            sent = self.env.sent
            return None if self.open or (sent is not None and OPEN in sent) else limits.ENDLESS

        return Stream(length, item, sequential=True, sources=(self,), count=self.extent.count)

    def rest(self) -> int:
        return self.extent.rest()

    def known_items(self, machine: Interpreter, node: ast.AST) -> list[Value] | None:
        items, drawn = machine.stream(self, node).drained()
        if items is None or not self.extent.rest():
            self.pending[:0] = drawn
            return items
        self.pending[:0] = items
        return None

    def next_item(self, machine: Interpreter, default: Args, node: ast.AST) -> Value:
        try:
            return machine.resume(self)
        except Signal as signal:
            if signal.kind == "StopIteration" and default:
                return default[0]
            raise

    def abandon(self, machine: Interpreter) -> None:
        if self.guarded:
            machine.close(self)

    def perhaps_none(self) -> bool:
        return False

    def waits(self) -> bool:
        return self.guarded

    def contains(self, machine: Interpreter, item: Value) -> bool | None:
        return machine.stream(self, _NOWHERE).contains(machine, item)


@dataclass(eq=False, slots=True)
class Extent:
    """How far a comprehension goes: whether its elements are all there are, whether a condition that nobody knows picks
    them, how many of them are enough, and whether all come about in one way.
    """

    whole: bool = True
    picked: bool = False
    enough: int = 2
    one_way: bool = False
    counts: tuple[Value, ...] = ()
    """The unknowns that say how often its loops go round."""
    cut: int | None = 0
    """How many more there are because a loop that fills what its only loop goes over was cut short."""
    exact: bool = False
    """Whether there is an element for each time that its only loop goes round."""

    @property
    def count(self) -> Value:
        """The unknown that says how many elements there are, or one that hangs on those."""
        if not self.counts or self.exact:
            return self.counts[0] if self.counts else None
        return Unknown.hanging_on("len", Kind.WHOLE, *self.counts)

    def rest(self) -> int:
        """Return what nobody knows of its elements; where they come about in one way, as long as they are numbers."""
        return (NUMBERS if self.one_way else MORE) * (not self.whole) | PICKED * self.picked
