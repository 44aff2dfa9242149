"""The memory of a process: what the objects of a program hold, so that it can be put back as it was."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any

from tapecheck.interpret import limits
from tapecheck.interpret.library import states
from tapecheck.interpret.state import World
from tapecheck.interpret.values import INERT, Generator, Module, Storage, Tensor, Unknown, Value
from tapecheck.tape import Backward, GradientCleared, GradientSet

_VALUES = Tensor.__module__.rpartition(".")[0]
"""The package of what the objects of a program are."""
_ROOMS = (f"{_VALUES}.", states.__name__)
_Container = list[Any] | dict[Any, Any] | set[Any] | deque[Any]


class CannotBePutBackError(Exception):
    """Some object changes in ways that cannot be taken back, or there are too many."""


class Memory:
    """All that some values lead to: other objects, namespaces of functions and modules, attributes of classes.

    Raises CannotBePutBackError.
    """

    def __init__(self, world: World, given: Iterable[Value]) -> None:
        self._world = world
        self._began = len(world.writer.tape.events)
        self._objects: dict[int, tuple[object, dict[str, object]]] = {}
        self._contents: dict[int, tuple[_Container, list[Any]]] = {}
        waiting: list[object] = list(given)
        while waiting:
            one = waiting.pop()
            if type(one) in INERT or id(one) in self._objects or id(one) in self._contents:
                continue
            if len(self._objects) + len(self._contents) >= limits.MOST_APART:
                raise CannotBePutBackError
            waiting += self._kept(one)

    def _kept(self, one: object) -> Iterable[object]:
        """Keep what an object holds; return that."""
        if isinstance(one, (tuple, frozenset)):
            return one
        if isinstance(one, (list, dict, set, deque)):
            content: list[Any] = list(one.items()) if isinstance(one, dict) else list(one)
            self._contents[id(one)] = one, content
            return content
        if isinstance(one, (Enum, type)) or not type(one).__module__.startswith(_ROOMS):
            return ()
        if isinstance(one, Generator) and not one.done:
            raise CannotBePutBackError
        # What a module's text says of it is no part of the program's memory.
        fields: dict[str, object] = {"env": one.env} if isinstance(one, Module) else dict(_fields(one))
        self._objects[id(one)] = one, fields
        return fields.values()

    def begin(self, node: ast.AST) -> None:
        """Give the tensors memory of their own, and in the place of each graph one that nobody knows.

        What a process writes or frees is nothing to the graphs of the one that has started it.
        """
        graph, moved, graphs = self._world.graph, dict[int, Storage](), dict[int, Tensor]()
        for one, _ in list(self._objects.values()):
            if not isinstance(one, (Tensor, Unknown)):
                continue
            if one.storage is not None:
                if id(one.storage) not in moved:
                    moved[id(one.storage)] = self._world.writer.new_storage()
                one.storage = moved[id(one.storage)]
            if one.node is not None and not one.is_leaf:
                if one.node not in graphs:
                    graphs[one.node] = graph.unknown_graph(one.name, node, "may")
                one.stands_at(graphs[one.node])

    def put_back(self) -> set[int]:
        """Give all objects what they held; return the leaves whose gradients have changed since."""
        for one, fields in self._objects.values():
            for name, item in fields.items():
                setattr(one, name, item)
        for held, content in self._contents.values():
            held.clear()
            if isinstance(held, (list, deque)):
                held.extend(content)
            else:
                held.update(content)
        self._world.graph.leaves_changed = True
        self._world.stores.kept += 1
        self._world.stores.attributes += 1
        self._world.stores.classes += 1
        return set(self._touched())

    def _touched(self) -> Iterator[int]:
        """Yield the leaves that got, lost or were given a gradient."""
        writer = self._world.writer
        for event in writer.tape.events[self._began :]:
            match event:
                case GradientCleared(leaf=leaf) | GradientSet(leaf=leaf):
                    yield leaf
                case Backward(id=number, accumulates=True) if number in writer.ledger.traversals:
                    yield from writer.ledger.traversals[number].executed.keys() & writer.ledger.leaves.keys()


def _fields(one: object) -> Iterator[tuple[str, object]]:
    """Yield the attributes of an object that can be set, with their values."""
    if getattr(getattr(type(one), "__dataclass_params__", None), "frozen", False):
        return
    names = [name for cls in type(one).__mro__ for name in getattr(cls, "__slots__", ())]
    for name in dict.fromkeys((*names, *getattr(one, "__dict__", ()))):
        if name != "__weakref__" and hasattr(one, name):
            yield name, getattr(one, name)
