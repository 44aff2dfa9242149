"""Lists that are cut back to a number of elements in every iteration: `del recent[:-3]`, `recent[:] = recent[-3:]`."""

from __future__ import annotations

from typing import Any

from tapecheck.interpret.engine import Engine
from tapecheck.interpret.values import List, Value


def sliced(machine: Engine, parts: list[Any], made: Value) -> None:
    """Note of a list that a slice made how many elements it has at most."""
    most = _most(parts)
    if most is not None and isinstance(made, List):
        made.window = (machine.world.position.clock, most)


def replaced(owner: List, parts: list[Any], value: Value) -> None:
    """Note that all of a list was replaced by another list of few elements."""
    if parts == [None, None, None] and isinstance(value, List):
        owner.window = value.window


def deleted(machine: Engine, owner: List, index: slice) -> None:
    """Note what a deletion leaves of a list: its last elements, or its first ones."""
    if index.step is None and index.start is None and type(index.stop) is int and index.stop < 0:
        owner.window = (machine.world.position.clock, -index.stop)
    elif index.step is None and index.stop is None and type(index.start) is int and index.start > 0:
        owner.window = (machine.world.position.clock, index.start)


def _most(parts: list[Any]) -> int | None:
    start, stop, step = parts
    if step is None and stop is None and type(start) is int and start < 0:
        return -start
    if step is None and start is None and type(stop) is int and stop > 0:
        return stop
    return None
