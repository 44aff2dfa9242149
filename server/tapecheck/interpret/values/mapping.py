"""Dicts, and what `keys()`, `values()` and `items()` give."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from tapecheck.interpret.values.base import (
    INERT,
    MORE,
    PICKED,
    BaseValue,
    Deferred,
    Interpreter,
    NotPlain,
    Slot,
    Stream,
    Value,
    all_equal,
    behaviour,
    hashable,
    is_constant,
    loaded,
    plain,
    replace_values,
    stored,
)
from tapecheck.interpret.values.keys import unkey
from tapecheck.interpret.values.sequence import Container, List, Set, measured, note_first_graph
from tapecheck.interpret.values.unknown import Unknown


@dataclass(eq=False, slots=True)
class Dict(Container):
    """A dict; `more` says what nobody knows of its keys. `factory` is a defaultdict's.

    `rewritten` are the keys that were stored more than once.
    """

    items: MutableMapping[Hashable, Value]
    more: int = 0
    factory: Value = None
    slots: dict[Hashable, Slot] = field(default_factory=dict)
    born: int = 0
    rewritten: set[Hashable] = field(default_factory=set)
    kind: Literal["dict", "counter"] = "dict"

    keyed: ClassVar[bool] = True
    can_hold: ClassVar[bool] = True
    type_names: ClassVar[tuple[str, ...] | None] = (
        "dict", "Mapping", "MutableMapping", "Iterable", "Collection", "Sized", "Container", "Reversible"
    )  # fmt: skip

    def become(self, name: str, *, changed: bool) -> Value:
        self.more |= MORE
        return self

    def children(self) -> Iterable[Value]:
        return self.items.values()

    def replace_held(self, each: Callable[[Value], Value]) -> None:
        replace_values(self.items, each)

    def mapped(self, each: Callable[[Value], Value], born: int) -> Value | None:
        return Dict({key: each(item) for key, item in self.items.items()}, self.more, born=born)

    def as_python(self, depth: int) -> object:
        if depth <= 0 or self.more:
            raise NotPlain
        return {plain(unkey(key), depth - 1): plain(item, depth - 1) for key, item in self.items.items()}

    def is_a(self, name: str) -> bool | None:
        short = name.rpartition(".")[2]
        if short in ("Counter", "defaultdict"):
            return self.kind == "counter" if short == "Counter" else self.factory is not None
        # In which order it gives its keys says nothing of its class.
        return None if short == "OrderedDict" else BaseValue.is_a(self, name)

    def is_flat(self) -> bool:
        """Whether it holds nothing but numbers and texts."""
        return INERT.issuperset(map(type, self.items.values()))

    def unsure_keys(self) -> bool:
        """Whether nobody knows which of the keys are the same."""
        return any(isinstance(key, tuple) and key and key[0] == "?" for key in self.items)

    def item_at(self, machine: Interpreter, index: Value, node: ast.AST) -> Value:
        key = hashable(index)
        if key in self.items:
            machine.world.loops.note_entry(self, key)
            loaded(machine, self.slots.get(key))
            return self.items[key]
        if machine.stored_before(self, index, node):
            return self.get_item(machine, index, node)
        if self.factory is not None:
            value = machine.call(self.factory, [], {}, node)
            if (there := machine.library.overwritten(self, index, value, node)) is not None:
                return self.items[there]
            self.items[key] = value
            return value
        if self.kind == "counter":
            return Unknown.number() if self.more or self.unsure_keys() else 0
        constant = is_constant(index)
        if constant and not self.more and not self.unsure_keys():
            machine.wrong("KeyError", node)
        if not constant and self.items:
            return machine.library.chosen(index, [*self.items.items()], node, by_name=True)
        return Unknown("item")

    def named(self) -> dict[str, Value]:
        """Return what it holds under texts."""
        return {key: item for key, item in self.items.items() if isinstance(key, str)}

    def held_under(self, key: Hashable) -> Value:
        return self.items.get(key)

    def set_item(self, machine: Interpreter, index: Value, value: Value, node: ast.AST) -> None:
        key = hashable(index)
        if key in self.items:
            machine.world.loops.note_entry(self, key)
            self.rewritten.add(key)
        elif isinstance(key, int):
            note_first_graph(machine, None, value)
        over = machine.stored_under(self, index, value, node)
        key = key if over is None else over
        self.items[key] = value
        if not is_constant(value):
            stored(machine, self.slots, key, node)

    def delete_item(self, machine: Interpreter, index: Value, node: ast.AST) -> None:
        machine.stored_under(self, index, Unknown("deleted"), node)
        self.items.pop(hashable(index), None)

    def named_parts(self, path: str) -> Iterable[tuple[str, Value]]:
        for key, item in self.items.items():
            yield f"{path}[{key!r}]" if isinstance(key, (str, int)) else path, item

    def stream(self, machine: Interpreter, node: ast.AST) -> Stream:
        keys = list(self.items)
        return Stream(
            lambda: self.most_gone_over(machine, node),
            lambda index: unkey(keys[index]) if index < len(keys) else Unknown.plain("key"),
            known=len(keys),
            picked=bool(self.more & PICKED),
            reckon=(lambda: self.settle_size(machine, node)) if self.more == PICKED else None,
            held=True,
            count=self.unknown_length(),
        )

    def known_items(self, machine: Interpreter, node: ast.AST) -> list[Value] | None:
        return None if self.more else [unkey(key) for key in self.items]

    def contains(self, machine: Interpreter, item: Value) -> bool | None:
        if self.more & PICKED:
            return None
        found = hashable(item) in self.items
        if not self.items and not self.more:
            return False
        if found or not behaviour(item).plain_key:
            return found or None
        return None if self.more or self.unsure_keys() else False

    def equals(self, other: BaseValue, machine: Interpreter | None) -> bool | Deferred | None:
        if not isinstance(other, Dict):
            return Deferred.TO_OTHER
        if self is other:
            return True
        if self.more or other.more or self.unsure_keys() or other.unsure_keys():
            return None
        if self.items.keys() != other.items.keys():
            return False
        return all_equal(list(self.items.values()), [other.items[key] for key in self.items], machine)


class View(List):
    """What `keys()`, `values()` and `items()` of a dict give: it follows the dict. `kind` is the method's name.

    Whatever may add to a view unseen may add to its dict.
    """

    __slots__ = ("of",)

    def __init__(self, of: Dict, kind: Literal["keys", "values", "items"]) -> None:
        self.of = of
        self.kind = kind
        self.bound = None
        self.stored_at = None
        self.born = of.born
        self.cut = 0
        self.window = self.asked = self.length = self.gaps = self.taken = None
        self.alike = 0

    @property
    def items(self) -> list[Value]:  # type: ignore[override]
        return _PARTS[self.kind](self.of.items)

    @property
    def more(self) -> int:
        return self.of.more

    @more.setter
    def more(self, more: int) -> None:
        self.of.more = more

    def replace_held(self, each: Callable[[Value], Value]) -> None:
        self.of.replace_held(each)

    def stream(self, machine: Interpreter, node: ast.AST) -> Stream:
        # Python does not let a dict grow while it is gone over.
        return measured(List(self.items, self.more), self.of.unknown_length()).stream(machine, node)

    def operand(self) -> BaseValue:
        return Set(self.items, self.more) if self.kind == "keys" else self


_PARTS: dict[str, Callable[[Mapping[Hashable, Value]], list[Value]]] = {
    "keys": lambda items: [unkey(key) for key in items], "values": lambda items: list(items.values()),
    "items": lambda items: [(unkey(key), value) for key, value in items.items()],
}  # fmt: skip
