"""Functions that remember their results."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from tapecheck.interpret.values.base import Args, Interpreter, Kwargs, Value, behaviour, hashable, stored
from tapecheck.interpret.values.callable import Native, Wrapped
from tapecheck.interpret.values.mapping import Dict


@dataclass(eq=False, slots=True)
class Cached(Wrapped):
    """A function under `functools.lru_cache`: `bound` is how many results it remembers, None for any number."""

    bound: int | None = None
    memory: Dict = field(default_factory=lambda: Dict({}))

    def is_inert(self) -> bool:
        return False

    def get_attribute(self, machine: Interpreter, name: str, node: ast.AST) -> Value:
        if name == "cache_clear" and behaviour(self.function).own_attribute(name) is None:
            return Native(name, lambda m, args, kwargs, at: self.memory.items.clear())
        return Wrapped.get_attribute(self, machine, name, node)

    def called(self, machine: Interpreter, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        key = (tuple(hashable(arg) for arg in args), *((k, hashable(v)) for k, v in kwargs.items()))
        items = self.memory.items
        if key in items:
            # What was asked for last is forgotten last.
            items[key] = items.pop(key)
            return items[key]
        result = machine.call(self.function, args, kwargs, node)
        if self.bound != 0:
            items[key] = result
            stored(machine, self.memory.slots, key, node)
            if self.bound is not None and len(items) > max(self.bound, 0):
                del items[next(iter(items))]
        return result
