"""Lists, tuples, dicts, sets and everything that can be iterated."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tapecheck.interpret.constants import method_of_constant
from tapecheck.interpret.equality import contains, equal, hashable, unkey, unsure_keys
from tapecheck.interpret.unknowns import LOOP_BOUND, attribute_of_unknown, bound_length, item_of_unknown
from tapecheck.interpret.values import (
    CONSTANTS,
    Args,
    Class,
    Dict,
    Function,
    Generator,
    Instance,
    Kwargs,
    Lib,
    List,
    Native,
    Range,
    Set,
    Signal,
    Stream,
    Tensor,
    Unknown,
    Value,
    concrete,
)

if TYPE_CHECKING:
    from tapecheck.interpret.machine import Machine


def container_operator(machine: Machine, op: ast.operator, left: Value, right: Value, node: ast.AST) -> Value:
    if isinstance(op, ast.Add):
        if isinstance(left, tuple) and isinstance(right, tuple):
            return left + right
        if isinstance(left, List) or isinstance(right, List):
            items = [*(known_items(machine, left, node) or ()), *(known_items(machine, right, node) or ())]
            more = known_items(machine, left, node) is None or known_items(machine, right, node) is None
            return machine.new_list(items, node, more)
    if isinstance(op, ast.Mult):
        sequence, count = (left, right) if isinstance(left, (tuple, List)) else (right, left)
        if isinstance(sequence, (tuple, List)):
            items = list(sequence) if isinstance(sequence, tuple) else list(sequence.items)
            if isinstance(count, int) and 0 <= count * len(items) <= 512:
                repeated = items * count
                return tuple(repeated) if isinstance(sequence, tuple) else machine.new_list(repeated, node)
            return machine.new_list(items, node, True)
    if isinstance(op, ast.BitOr) and isinstance(left, Dict) and isinstance(right, Dict):
        return Dict({**left.items, **right.items}, left.more or right.more, born=machine.world.clock)
    if isinstance(op, ast.Mod) and isinstance(left, str):
        return Unknown("text")
    return Unknown("result")


def known_items(machine: Machine, value: Value, node: ast.AST) -> list[Value] | None:
    """The elements of a value whose length is known; None otherwise."""
    value = concrete(value)
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, (List, Set)):
        return None if value.more else list(value.items)
    if isinstance(value, Dict):
        return None if value.more else [unkey(key) for key in value.items]
    if isinstance(value, Range):
        return list(range(value.start, value.stop, value.step)) if len(value) <= 64 else None
    if isinstance(value, str):
        return list(value) if len(value) <= 64 else None
    if isinstance(value, Tensor) and value.items is not None:
        return list(value.items)
    if isinstance(value, Instance) and value.cls is not None and value.cls.dataclass_fields is not None:
        if any(path.endswith("NamedTuple") for path in value.cls.library_bases()):
            return [value.attrs.get(name) for name, _, _ in value.cls.dataclass_fields]
    if isinstance(value, (Generator, Stream, Instance)):
        stream = machine.stream(value, node)
        length = stream.length()
        if length is None or (not stream.sequential and length - stream.next > _MAX_ITEMS):
            return None
        items: list[Value] = []
        while len(items) < _MAX_DRAINED:
            if stream.next >= length:
                break
            try:
                items.append(stream.item(stream.next))
            except IndexError:
                break
            stream.next += 1
        else:
            return None
        return items if not isinstance(value, Generator) or value.whole[0] else None
    return None


def guessed_items(machine: Machine, value: Value, count: int, node: ast.AST) -> list[Value]:
    """As many elements as an unpacking wants, of a value whose length nobody knows."""
    if isinstance(value, Unknown):
        return [item_of_unknown(value, index) for index in range(count)]
    if isinstance(value, Tensor):
        return [machine.torch.get_item(value, index, node) for index in range(count)]
    stream = machine.stream(value, node)
    items: list[Value] = []
    for index in range(count):
        try:
            items.append(stream.item(index))
        except IndexError:
            items.append(Unknown("item"))
    return items


def stream(machine: Machine, value: Value, node: ast.AST) -> Stream:
    """A container or unknown value as a stream of elements."""
    value_now = concrete(value) if not isinstance(value, Unknown) else value
    if isinstance(value_now, List):
        listed = value_now

        def list_item(index: int) -> Value:
            if index < len(listed.items):
                return listed.items[index]
            return _further(machine, listed.items)

        return Stream(lambda: None if listed.more else len(listed.items), list_item)
    if isinstance(value_now, tuple):
        return Stream(lambda: len(value_now), lambda index: value_now[index])
    if isinstance(value_now, Set):
        return Stream(lambda: None if value_now.more else len(value_now.items), _item_or_unknown(value_now.items))
    if isinstance(value_now, Dict):
        keys = list(value_now.items)
        return Stream(
            lambda: None if value_now.more else len(keys),
            lambda index: unkey(keys[index]) if index < len(keys) else Unknown("key"),
        )
    if isinstance(value_now, Range):
        return Stream(lambda: len(value_now), lambda index: value_now.start + index * value_now.step)
    if isinstance(value_now, str):
        return Stream(lambda: len(value_now), lambda index: value_now[index])
    if isinstance(value_now, Generator):
        return _generator_stream(machine, value_now)
    if isinstance(value, Unknown):
        child = value
        bound_length(attribute_of_unknown(child, "__len__()"))
        fresh: dict[int, Value] = {}

        def unknown_item(index: int) -> Value:
            if index not in fresh:
                made = Unknown(f"{child.name}[{index}]", child.node, child.cuts)
                made.oldest = child.oldest
                made.data = child.node is None
                made.certain = child.certain
                fresh[index] = made
            return fresh[index]

        length = attribute_of_unknown(child, "__len__()").concrete
        return Stream(lambda: length if isinstance(length, int) and length > LOOP_BOUND else None, unknown_item)
    return Stream(lambda: None, lambda index: Unknown("item"))


def _further(machine: Machine, items: list[Value]) -> Value:
    """An element nobody knows of a list: like the last known one where that is data."""
    return items[-1] if items and isinstance(items[-1], (Function, Class, Lib, Instance)) else Unknown("item")


def _item_or_unknown(items: list[Value]) -> Callable[[int], Value]:
    return lambda index: items[index] if index < len(items) else Unknown("item")


def _generator_stream(machine: Machine, generator: Generator) -> Stream:
    produced: list[Value] = []

    def item(index: int) -> Value:
        while len(produced) <= index:
            try:
                produced.append(machine.resume(generator))
            except Signal as signal:
                if signal.kind == "StopIteration":
                    raise IndexError from None
                raise
        return produced[index]

    # The length is asked for as if unknown, but the stream ends by itself: loops run it to its end.
    return Stream(lambda: None if generator.open else 1_000_000, item, sequential=True)


def extend(machine: Machine, target: List, value: Value, node: ast.AST) -> None:
    items = known_items(machine, value, node)
    if items is None:
        target.more = True
        if isinstance(value, (List, Set)):
            items = list(value.items)
        else:
            items = guessed_items(machine, value, 1, node) if not isinstance(value, str) else []
    _append(machine, target, items, node)


def _append(machine: Machine, target: List, items: list[Value], node: ast.AST) -> None:
    target.items.extend(items)
    if target.bound is not None and len(target.items) > target.bound:
        del target.items[: len(target.items) - target.bound]
    if any(True for item in items if not isinstance(item, CONSTANTS)):
        target.stored_at = machine.world.site(node)


_MAX_ITEMS = 64
_MAX_DRAINED = 1_024


def exception_signal(args: Args, node: ast.AST) -> Signal:
    """The exception that `generator.throw(...)` raises."""
    value = args[1] if len(args) > 1 else (args[0] if args else None)
    cls = args[0] if args else None
    name = value.cls.name if isinstance(value, Instance) and value.cls is not None else ""
    path = cls.path if isinstance(cls, Lib) else (value.lib if isinstance(value, Instance) else "")
    return Signal(name or path.rsplit(".", 1)[-1] or "Exception", value)


def get_item(machine: Machine, owner: Value, index: Value, node: ast.AST) -> Value:
    index = concrete(index)
    owner = concrete(owner) if isinstance(owner, Unknown) and owner.concrete is not None else owner
    if isinstance(owner, (List, tuple)):
        items = list(owner) if isinstance(owner, tuple) else owner.items
        more = isinstance(owner, List) and owner.more
        if isinstance(index, int):
            if -len(items) <= index < len(items) and (index >= 0 or not more):
                return items[index]
            if not more:
                raise Signal("IndexError")
            return items[-1] if items and index < 0 else _further(machine, items)
        if isinstance(index, slice):
            parts = [concrete(part) for part in (index.start, index.stop, index.step)]
            if not more and all(part is None or isinstance(part, int) for part in parts):
                chosen = items[slice(*parts)]
                return tuple(chosen) if isinstance(owner, tuple) else machine.new_list(chosen, node)
            return machine.new_list(list(items), node, True)
        if items:
            return items[0]
        return Unknown("item")
    if isinstance(owner, Dict):
        key = hashable(index)
        if key in owner.items:
            if owner.stamps.get(key, machine.world.clock) < machine.world.clock:
                from tapecheck.interpret import carry

                carry.loaded(machine, owner, key)
            return owner.items[key]
        if owner.factory is not None:
            value = machine.call(owner.factory, [], {}, node)
            owner.items[key] = value
            return value
        if not owner.more and isinstance(index, CONSTANTS) and not unsure_keys(owner):
            raise Signal("KeyError")
        if not isinstance(index, CONSTANTS) and owner.items:
            return next(iter(owner.items.values()))
        return Unknown("item")
    if isinstance(owner, Range) and isinstance(index, int):
        try:
            return range(owner.start, owner.stop, owner.step)[index]
        except IndexError:
            raise Signal("IndexError") from None
    if isinstance(owner, str) and isinstance(index, (int, slice)):
        try:
            return owner[index]
        except (IndexError, TypeError):
            return Unknown("text")
    if isinstance(owner, Unknown):
        return item_of_unknown(owner, index)
    if isinstance(owner, (Class, Lib, Function)):
        return owner
    return Unknown("item")


def set_item(machine: Machine, owner: Value, index: Value, value: Value, node: ast.AST) -> None:
    index = concrete(index)
    if isinstance(owner, List):
        if isinstance(index, int) and -len(owner.items) <= index < len(owner.items):
            owner.items[index] = value
        elif isinstance(index, slice):
            items = known_items(machine, value, node)
            parts = [concrete(part) for part in (index.start, index.stop, index.step)]
            if items is not None and not owner.more and all(part is None or isinstance(part, int) for part in parts):
                try:
                    owner.items[slice(*parts)] = items
                except ValueError:
                    owner.more = True
            else:
                owner.more = True
        elif owner.items and not isinstance(index, int):
            owner.items[0] = value
        if not isinstance(value, CONSTANTS):
            owner.stored_at = machine.world.site(node)
    elif isinstance(owner, Dict):
        key = hashable(index)
        if key in owner.items:
            owner.rewritten.add(key)
        owner.items[key] = value
        if not isinstance(value, CONSTANTS):
            owner.stores[key] = machine.world.site(node)
            owner.stamps[key] = machine.world.clock
    elif isinstance(owner, Unknown):
        if owner.items is None:
            owner.items = {}
        owner.items[hashable(index)] = value
        machine.escape(value, node, owner.name)


def delete_item(owner: Value, index: Value) -> None:
    index = concrete(index)
    if isinstance(owner, List):
        if isinstance(index, (int, slice)):
            try:
                del owner.items[index]
            except (IndexError, TypeError):
                owner.more = True
    elif isinstance(owner, Dict):
        owner.items.pop(hashable(index), None)


def attribute(machine: Machine, owner: Value, name: str, node: ast.AST) -> Value:
    """A method of a list, dict, set, tuple, text or number."""
    method = _METHODS.get((type(owner), name))
    if method is not None:
        return Native(name, lambda m, args, kwargs, at: method(m, owner, args, kwargs, at))
    if isinstance(owner, (List, Set, Dict)):
        return Native(name, lambda m, args, kwargs, at: _unmodelled(owner, name))
    if isinstance(owner, (str, int, float, bytes)):
        if isinstance(owner, (int, float)) and name in ("real", "imag"):
            return getattr(owner, name)
        return Native(name, lambda m, args, kwargs, at: method_of_constant(owner, name, args, kwargs))
    if isinstance(owner, Generator):
        if name in ("send", "__next__", "asend", "__anext__"):
            return Native(name, lambda m, args, kwargs, at: m.resume(owner, args[0] if args else None))
        if name in ("throw", "athrow"):
            return Native(name, lambda m, args, kwargs, at: m.resume(owner, None, exception_signal(args, at)))
        if name in ("close", "aclose"):
            return Native(name, lambda m, args, kwargs, at: m.close(owner))
    if isinstance(owner, slice):
        return getattr(owner, name, Unknown(name))
    return Unknown(name)


def _unmodelled(owner: List | Set | Dict, name: str) -> Value:
    """A method that is not modelled: what the container holds afterwards is not known."""
    if not name.startswith(("is", "union", "intersection", "difference", "symmetric", "most_common", "__")):
        owner.more = True
    return Unknown(name)


def _list_sort(m: Machine, owner: List, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    plain = [concrete(item) for item in owner.items]
    if not kwargs and not owner.more and all(isinstance(item, (int, float, str)) for item in plain):
        owner.items.sort(key=concrete)
    elif any(isinstance(item, CONSTANTS) for item in plain):
        owner.items = [Unknown("item") if isinstance(item, CONSTANTS) else item for item in owner.items]
    return None


def _set_discard(m: Machine, owner: Set, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    kept = [item for item in owner.items if args and hashable(item) != hashable(args[0])]
    if len(kept) == len(owner.items) and args and not isinstance(concrete(args[0]), CONSTANTS):
        owner.more = True
    owner.items = kept
    return None


def _set_update(m: Machine, owner: Set, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    for source in args:
        items = known_items(m, source, node)
        if items is None:
            owner.more = True
        for item in items or ():
            _set_add(m, owner, [item], {}, node)
    return None


def _set_pop(m: Machine, owner: Set, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if not owner.items and not owner.more:
        raise Signal("KeyError")
    return owner.items.pop() if len(owner.items) == 1 and not owner.more else _unmodelled(owner, "pop")


def distinct(items: list[Value]) -> list[Value]:
    """The elements of a set made of these."""
    return list({hashable(item): item for item in items}.values())


def _list_append(m: Machine, owner: List, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    _append(m, owner, args[:1], node)
    return None


def _list_appendleft(m: Machine, owner: List, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    owner.items[:0] = args[:1]
    owner.stored_at = m.world.site(node)
    if owner.bound is not None:
        del owner.items[owner.bound :]
    return None


def _list_extend(m: Machine, owner: List, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    extend(m, owner, args[0] if args else Unknown(), node)
    return None


def _list_insert(m: Machine, owner: List, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    place = concrete(args[0]) if args else 0
    owner.items.insert(place if isinstance(place, int) else 0, args[1] if len(args) > 1 else Unknown())
    owner.stored_at = m.world.site(node)
    return None


def _list_pop(m: Machine, owner: List, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    place = concrete(args[0]) if args else -1
    if not owner.items:
        if owner.more:
            return Unknown("item")
        raise Signal("IndexError")
    try:
        return owner.items.pop(place if isinstance(place, int) else -1)
    except IndexError:
        return Unknown("item")


def _list_popleft(m: Machine, owner: List, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return _list_pop(m, owner, [0], kwargs, node)


def _clear(m: Machine, owner: List | Dict | Set, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    owner.items.clear()
    owner.more = False
    return None


def _list_copy(m: Machine, owner: List, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return List(list(owner.items), owner.more, owner.bound, owner.stored_at, owner.kind, m.world.clock)


def _list_reverse(m: Machine, owner: List, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    owner.items.reverse()
    return None


def _list_remove(m: Machine, owner: List, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    for index, item in enumerate(owner.items):
        if args and (item is args[0] or equal(item, args[0])):
            del owner.items[index]
            break
    return None


def _number(*args: Any) -> Value:
    return Unknown("number")


def nothing(*args: Any) -> Value:
    return None


def _dict_get(m: Machine, owner: Dict, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    key = hashable(args[0]) if args else None
    if key in owner.items:
        return get_item(m, owner, args[0], node)
    if owner.more:
        return Unknown("item")
    return args[1] if len(args) > 1 else kwargs.get("default")


def _dict_setdefault(m: Machine, owner: Dict, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    key = hashable(args[0]) if args else None
    if key not in owner.items:
        set_item(m, owner, args[0], args[1] if len(args) > 1 else None, node)
    return owner.items[key]


def _dict_items(m: Machine, owner: Dict, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return List([(unkey(key), value) for key, value in owner.items.items()], owner.more)


def _dict_keys(m: Machine, owner: Dict, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return List([unkey(key) for key in owner.items], owner.more)


def _dict_values(m: Machine, owner: Dict, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return List(list(owner.items.values()), owner.more)


def dict_update(m: Machine, owner: Dict, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    for source in args:
        if isinstance(source, Dict):
            for key, value in source.items.items():
                set_item(m, owner, unkey(key), value, node)
            owner.more = owner.more or source.more
        else:
            owner.more = True
    for key, value in kwargs.items():
        if key == "**":
            owner.more = True
        else:
            set_item(m, owner, key, value, node)
    return None


def _dict_pop(m: Machine, owner: Dict, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    key = hashable(args[0]) if args else None
    if key in owner.items:
        return owner.items.pop(key)
    if len(args) > 1:
        return args[1]
    return Unknown("item")


def _dict_copy(m: Machine, owner: Dict, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return Dict(
        dict(owner.items), owner.more, owner.factory, dict(owner.stores), dict(owner.stamps), born=m.world.clock
    )


def _set_add(m: Machine, owner: Set, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if args and contains(m, owner, args[0]) is not True:
        owner.items.append(args[0])
    return None


_METHODS: dict[tuple[type, str], Callable[..., Value]] = {
    (List, "append"): _list_append, (List, "add"): _list_append, (List, "appendleft"): _list_appendleft,
    (List, "extend"): _list_extend, (List, "insert"): _list_insert, (List, "pop"): _list_pop,
    (List, "popleft"): _list_popleft, (List, "clear"): _clear, (List, "copy"): _list_copy,
    (List, "reverse"): _list_reverse, (List, "sort"): _list_sort, (List, "remove"): _list_remove,
    (List, "index"): _number, (List, "count"): _number,
    (tuple, "index"): _number, (tuple, "count"): _number,
    (Dict, "get"): _dict_get, (Dict, "setdefault"): _dict_setdefault, (Dict, "items"): _dict_items,
    (Dict, "keys"): _dict_keys, (Dict, "values"): _dict_values, (Dict, "update"): dict_update,
    (Dict, "pop"): _dict_pop, (Dict, "clear"): _clear, (Dict, "copy"): _dict_copy,
    (Set, "add"): _set_add, (Set, "clear"): _clear, (Set, "discard"): _set_discard,
    (Set, "remove"): _set_discard, (Set, "update"): _set_update, (Set, "pop"): _set_pop,
}  # fmt: skip


def next_of(machine: Machine, value: Value, args: Args, node: ast.AST) -> Value:
    if isinstance(value, Generator):
        try:
            return machine.resume(value)
        except Signal as signal:
            if signal.kind == "StopIteration" and args:
                return args[0]
            raise
    if isinstance(value, Stream):
        length = value.length()
        if length is not None and value.next >= length:
            if args:
                return args[0]
            raise Signal("StopIteration")
        try:
            item = value.item(value.next)
        except IndexError:
            if args:
                return args[0]
            raise Signal("StopIteration") from None
        value.next += 1
        return item
    if isinstance(value, Instance):
        method = machine.find_method(value, "__next__")
        if method is not None:
            return machine.call(method, [], {}, node)
    if isinstance(value, Unknown):
        made = Unknown(f"next({value.name})", value.node, value.cuts)
        made.oldest = value.oldest
        made.data = value.node is None
        return made
    return Unknown("next")
