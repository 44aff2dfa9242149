"""Lists, tuples, dicts, sets and everything that can be iterated: their elements, asked for and stored."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from tapecheck.interpret import limits
from tapecheck.interpret.engine import Engine
from tapecheck.interpret.objects import carry, constants, syntax, windows
from tapecheck.interpret.objects.equality import hashable, unkey, unsure_keys
from tapecheck.interpret.objects.unknowns import (
    bound_length,
    is_drawn,
    item_of_unknown,
    length_of_parts,
    length_of_unknown,
    place_of_unknown,
    settle_on,
)
from tapecheck.interpret.state import merge_cuts
from tapecheck.interpret.values import (
    CONSTANTS,
    OPEN,
    Args,
    Class,
    Dict,
    Function,
    Generator,
    Instance,
    Lib,
    List,
    Range,
    Set,
    Signal,
    Stream,
    Tensor,
    Unknown,
    Value,
    View,
    concrete,
)


def known_items(machine: Engine, value: Value, node: ast.AST) -> list[Value] | None:
    """Return the elements of a value whose length is known; None otherwise."""
    value = concrete(value)
    if isinstance(value, Instance) and value.inner is not None and machine.find_method(value, "__iter__") is None:
        value = value.inner
    if isinstance(value, tuple):
        return list(value) if len(value) <= limits.MOST_KEPT else None
    if isinstance(value, (List, Set)):
        return None if value.more or len(value.items) > limits.MOST_KEPT else list(value.items)
    if isinstance(value, Dict):
        return None if value.more else [unkey(key) for key in value.items]
    if isinstance(value, Range):
        return list(range(value.start, value.stop, value.step)) if len(value) <= limits.MAX_ITEMS else None
    if isinstance(value, str):
        return list(value) if len(value) <= limits.MAX_ITEMS else None
    if isinstance(value, Tensor) and value.items is not None:
        return list(value.items)
    if isinstance(value, Class) and value.members is not None:
        return list(value.members.values())
    if isinstance(value, (Generator, Stream, Instance)):
        stream = machine.stream(value, node)
        length = stream.length()
        if length is None or (not stream.sequential and length - stream.next > limits.MAX_ITEMS):
            return None
        items: list[Value] = []
        while len(items) < limits.MAX_DRAINED:
            length = stream.length()
            if length is None:
                # It turned out to be a generator without a known end.
                if isinstance(value, Generator):
                    value.pending[:0] = items
                return None
            if stream.next >= length:
                break
            try:
                items.append(stream.item(stream.next))
            except IndexError:
                break
            stream.next += 1
        else:
            return None
        return items if not isinstance(value, Generator) or value.extent.whole else None
    return None


def guessed_items(machine: Engine, value: Value, count: int, node: ast.AST) -> list[Value]:
    """As many elements as an unpacking wants, of a value whose length nobody knows."""
    if isinstance(value, Unknown):
        return [item_of_unknown(value, index) for index in range(count)]
    if isinstance(value, Tensor):
        return [machine.library.get_item(value, index, node) for index in range(count)]
    stream = machine.stream(value, node)
    items: list[Value] = []
    for index in range(count):
        try:
            items.append(stream.item(index))
        except IndexError:
            items.append(Unknown("item"))
    leave(machine, stream)
    return items


def stream(machine: Engine, value: Value, node: ast.AST) -> Stream:
    """Return a container or unknown value as a stream of elements."""
    value_now = concrete(value) if not isinstance(value, Unknown) else value
    if isinstance(value_now, View):
        # Python does not let a dict grow while it is gone over.
        value_now = List(value_now.items, value_now.more)
    if isinstance(value_now, List):
        listed = value_now

        def list_item(index: int) -> Value:
            if index < len(listed.items):
                return listed.items[index]
            return _further(listed)

        parts = length_of_parts(listed)
        if parts is not None:
            bound_length(parts)
            return Stream(lambda: _if_asked(parts), list_item)
        return Stream(lambda: None if listed.more else len(listed.items), list_item)
    if isinstance(value_now, tuple):
        return Stream(lambda: len(value_now), lambda index: value_now[index])
    if isinstance(value_now, Set):
        return Stream(lambda: None if value_now.more else len(value_now.items), _item_or_unknown(value_now.items))
    if isinstance(value_now, Dict):
        keys = list(value_now.items)
        return Stream(
            lambda: None if value_now.more else len(keys),
            lambda index: unkey(keys[index]) if index < len(keys) else Unknown.plain("key"),
        )
    if isinstance(value_now, Range):
        return Stream(lambda: len(value_now), lambda index: value_now.start + index * value_now.step)
    if isinstance(value_now, str):
        return Stream(lambda: len(value_now), lambda index: value_now[index])
    if isinstance(value_now, Class) and value_now.members is not None:
        members = list(value_now.members.values())
        return Stream(lambda: len(members), lambda index: members[index])
    if isinstance(value_now, Generator):
        return _generator_stream(machine, value_now)
    if isinstance(value, Unknown):
        child = value
        size = length_of_unknown(child)
        if child.truth is False and size.concrete is None:
            settle_on(size, 0)
        if bound_length(size) and child.truth is None:
            child.truth = True
        fresh: dict[int, Value] = {}

        def unknown_item(index: int) -> Value:
            if index not in fresh:
                made = Unknown(f"{child.name}[{index}]", child.node, child.cuts)
                made.oldest = child.oldest
                made.data = child.node is None and not child.returned
                made.assumed = made.data and (child.assumed or not child.data)
                made.certain, made.returned, made.within = child.certain, child.returned, child.within
                made.part_of = child
                fresh[index] = made
            return fresh[index]

        return Stream(lambda: _if_asked(size), unknown_item)
    return Stream(lambda: None, lambda index: Unknown("item"))


def _if_asked(length: Unknown) -> int | None:
    """Return the length that was settled on: whoever has asked for it reckons with it, the loop has to end there."""
    size = length.concrete
    return size if isinstance(size, int) and (size != limits.LOOP_BOUND or length.bounds is not None) else None


def _further(owner: List | tuple[Value, ...]) -> Value:
    """Return an element nobody knows of a list: like the last known one where that is data."""
    items = owner.items if isinstance(owner, List) else owner
    if isinstance(owner, List) and owner.alike and owner.alike == len(items):
        return items[-1]
    return items[-1] if items and isinstance(items[-1], (Function, Class, Lib, Instance)) else Unknown("item")


def _item_or_unknown(items: list[Value]) -> Callable[[int], Value]:
    return lambda index: items[index] if index < len(items) else Unknown("item")


def _generator_stream(machine: Engine, generator: Generator) -> Stream:
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

    # Where the length is said to be large the stream ends by itself: loops run it to its end.
    def length() -> int | None:
        sent = generator.env.sent
        return None if generator.open or (sent is not None and OPEN in sent) else limits.ENDLESS

    return Stream(length, item, sequential=True, sources=(generator,))


def guarded(value: Stream | Generator) -> bool:
    """Return whether generators that an iterable draws from wait inside of a `with` or `try`."""
    return value.guarded if isinstance(value, Generator) else any(guarded(source) for source in value.sources)


def leave(machine: Engine, value: Stream | Generator) -> None:
    """Close the generators of an iterable that nothing more is drawn from, though the dry run did not come to its end.

    The `with torch.no_grad()` that they wait in would reach on into what comes after the loop.
    """
    if isinstance(value, Generator):
        if value.guarded:
            machine.close(value)
        return
    for source in value.sources:
        leave(machine, source)


def extend(machine: Engine, target: List, value: Value, node: ast.AST) -> None:
    if isinstance(value, (Generator, Stream)):
        drawn, whole = machine.gathered(value, node)
        target.more = target.more or not whole
        append_all(machine, target, drawn, node)
        return
    items = known_items(machine, value, node)
    if items is None:
        target.more = True
        if isinstance(value, (List, Set)):
            items = list(value.items)
        else:
            items = guessed_items(machine, value, 1, node) if not isinstance(value, str) else []
    append_all(machine, target, items, node)


def append_all(machine: Engine, target: List, items: list[Value], node: ast.AST) -> None:
    room = max(limits.MOST_KEPT - len(target.items), 0)
    if len(items) > room:
        # It may double with every line: what is beyond counts as elements nobody knows.
        target.more, items = True, items[:room]
    target.items.extend(items)
    if machine.world.position.iteration:
        machine.world.comparisons.counted.append(("grown", target, None, len(items)))
    if target.bound is not None and len(target.items) > target.bound:
        del target.items[: len(target.items) - target.bound]
    if any(True for item in items if not isinstance(item, CONSTANTS)):
        target.stored_at = machine.world.position.site(node)


TYPE_NAMES = frozenset(("str", "dict", "list", "set", "frozenset", "tuple", "int", "float", "bytes"))


def exception_signal(args: Args, node: ast.AST) -> Signal:
    """Return the exception that `generator.throw(...)` raises."""
    value = args[1] if len(args) > 1 else (args[0] if args else None)
    cls = args[0] if args else None
    name = value.cls.name if isinstance(value, Instance) and value.cls is not None else ""
    path = cls.path if isinstance(cls, Lib) else (value.lib if isinstance(value, Instance) else "")
    return Signal(name or path.rsplit(".", 1)[-1] or "Exception", value)


def standing_still(index: slice) -> bool:
    """Return whether the step of a slice is zero, which no sequence takes."""
    step = concrete(index.step)
    return isinstance(step, int) and step == 0


def get_item(machine: Engine, owner: Value, index: Value, node: ast.AST) -> Value:
    index = concrete(index)
    if isinstance(index, Instance):
        method = machine.find_method(index, "__index__")
        index = concrete(machine.call(method, [], {}, node)) if method is not None else index
    owner = concrete(owner) if isinstance(owner, Unknown) and owner.concrete is not None else owner
    if isinstance(index, slice) and standing_still(index) and not isinstance(owner, (Dict, Unknown)):
        machine.wrong("ValueError", node)
        return Unknown("item")
    if isinstance(owner, (List, tuple)):
        items = list(owner) if isinstance(owner, tuple) else owner.items
        more = isinstance(owner, List) and owner.more
        if isinstance(index, int):
            if -len(items) <= index < len(items) and (index >= 0 or not more):
                return items[index]
            if not more and machine.handlers:
                raise Signal("IndexError")
            # Nobody looks out for it: a loop that the dry run cut short has not filled the list.
            return items[-1] if items and index < 0 else _further(owner)
        if isinstance(index, slice):
            parts = [concrete(part) for part in (index.start, index.stop, index.step)]
            known = not more and all(part is None or isinstance(part, int) for part in parts)
            chosen = items[slice(*parts)] if known else list(items)
            if known and isinstance(owner, tuple):
                return tuple(chosen)
            made = machine.new_list(chosen, node, not known)
            windows.sliced(machine, parts, made)
            return made
        if items:
            position = place_of_unknown(owner, index)
            if position >= len(items) and isinstance(owner, List) and (more or owner.cut != 0):
                return _further(owner)
            return items[position % len(items)]
        return Unknown("item")
    if isinstance(owner, Dict):
        key = hashable(index)
        if key in owner.items:
            _note_entry(machine, owner, key)
            slot = owner.slots.get(key)
            if slot is not None and slot.clock < machine.world.position.clock:
                carry.loaded(machine, slot)
            return owner.items[key]
        if same_key(machine, owner, index, node):
            return get_item(machine, owner, index, node)
        if owner.factory is not None:
            value = machine.call(owner.factory, [], {}, node)
            owner.items[key] = value
            return value
        if owner.kind == "counter":
            return Unknown.number() if owner.more or unsure_keys(owner) else 0
        if not owner.more and isinstance(index, CONSTANTS) and not unsure_keys(owner):
            machine.wrong("KeyError", node)
        if not isinstance(index, CONSTANTS) and owner.items:
            return next(iter(owner.items.values()))
        return Unknown("item")
    if isinstance(owner, Range) and isinstance(index, (int, slice)):
        try:
            found = range(owner.start, owner.stop, owner.step)[constants.plain(index)]
            return found if isinstance(found, int) else Range(found.start, found.stop, found.step)
        except constants.NotPlain:
            return Unknown("range")
        except IndexError:
            raise Signal("IndexError") from None
    if isinstance(owner, str) and isinstance(index, (int, slice)):
        try:
            return owner[index]
        except (IndexError, TypeError):
            return Unknown.text()
    if isinstance(owner, Unknown):
        return item_of_unknown(owner, index)
    if isinstance(owner, Class) and owner.members is not None:
        return owner.members.get(str(index), Unknown.named(owner.name))
    if isinstance(owner, (Class, Lib, Function)):
        return owner
    return Unknown("item")


def set_item(machine: Engine, owner: Value, index: Value, value: Value, node: ast.AST) -> None:
    index = concrete(index)
    if isinstance(owner, List):
        if isinstance(index, int) and -len(owner.items) <= index < len(owner.items):
            rotates(machine, owner.items[index], value)
            owner.items[index] = value
        elif isinstance(index, slice):
            items = known_items(machine, value, node)
            parts = [concrete(part) for part in (index.start, index.stop, index.step)]
            windows.replaced(owner, parts, value)
            if items is not None and not owner.more and all(part is None or isinstance(part, int) for part in parts):
                try:
                    owner.items[slice(*parts)] = items
                except ValueError:
                    owner.more = True
            else:
                owner.more = True
        elif isinstance(index, int) and 0 <= index < limits.MAX_ITEMS and (owner.more or owner.cut != 0):
            # The dry run has not filled it as far as that.
            owner.items += [Unknown("item") for _ in range(index - len(owner.items))]
            owner.items.append(value)
        elif owner.items and not isinstance(index, int):
            owner.items[place_of_unknown(owner, index) % len(owner.items)] = value
        if not isinstance(value, CONSTANTS):
            owner.stored_at = machine.world.position.site(node)
    elif isinstance(owner, Dict):
        key = hashable(index)
        if key in owner.items:
            _note_entry(machine, owner, key)
            owner.rewritten.add(key)
        elif isinstance(key, int):
            rotates(machine, None, value)
        owner.items[key] = value
        if not isinstance(value, CONSTANTS):
            carry.stored(machine, owner.slots, key, node)
    elif isinstance(owner, Unknown):
        if owner.items is None:
            owner.items = {}
        owner.items[hashable(index)] = value
        if isinstance(value, (Tensor, Unknown)) and machine.library.requires(value) != "no":
            owner.data = False
        if isinstance(value, (Tensor, Unknown)) and value.cuts:
            # An array holds what was cut off its graph as well as a tensor does.
            owner.cuts = merge_cuts(owner.cuts, value.cuts)
        machine.escape(value, node, owner.name)


def _note_entry(machine: Engine, owner: Dict, key: Any) -> None:
    """Note an entry that the running iteration comes to."""
    entries = machine.world.loops.entries
    if machine.world.position.iteration and len(entries) < limits.MOST_ENTRIES:
        entries.append((owner, key))


def same_key(machine: Engine, owner: Dict, index: Value, node: ast.AST) -> bool:
    """Whether a key that nobody knows is one that was stored under before; the entry is found under it from then on.

    Asked only where a graph hangs on it: where the dict holds one from an earlier round of the loops that are running.
    A round goes over keys that differ from one another, unless they are drawn by chance.
    """
    key = hashable(index)
    if key in owner.items or not (_unsure(key) or unsure_keys(owner)) or not machine.world.position.iteration:
        return False
    now = machine.world.position.iteration
    by_chance = is_drawn(index)
    for other in reversed(owner.items):
        slot = owner.slots.get(other)
        if slot is None or not (_unsure(key) or _unsure(other)):
            continue
        before = slot.at.iteration
        if before == now or (not by_chance and len(now) > 1 and before[: len(now) - 1] == now[:-1]):
            continue
        if carry.tensors_in(owner.items[other]):
            break
    else:
        return False
    asked = machine.unknown_test(ast.In(), index, owner)
    answer = machine.known_truth(asked)
    if answer is None:
        text = (
            f"the key of {machine.world.position.notes.of(node, syntax.text_of)}"
            if isinstance(node, ast.expr)
            else "the key"
        )
        answer = machine.world.choices.choose(node, True, f"{text} was stored under before")
        machine.settle(asked, answer)
    if not answer:
        return False
    entries = [(key if one == other else one, value) for one, value in owner.items.items()]
    owner.items.clear()
    owner.items.update(entries)
    owner.slots[key] = owner.slots.pop(other)
    owner.rewritten.add(key)
    return True


def _unsure(key: Any) -> bool:
    """Whether nobody knows which object a key is."""
    if isinstance(key, tuple) and len(key) == 2 and key[0] == "?":
        return isinstance(unkey(key), Unknown)
    return isinstance(key, tuple) and any(map(_unsure, key))


def rotates(machine: Engine, before: Value, value: Value) -> None:
    """Note that a place gets its first graph: only when the places come round again a ring shows as one."""
    if isinstance(value, (Tensor, Unknown)) and value.node is not None and machine.world.position.iteration:
        if not isinstance(before, (Tensor, Unknown)) or before.node is None:
            machine.world.comparisons.varying += 1
            machine.world.comparisons.first_graphs += 1


def delete_item(machine: Engine, owner: Value, index: Value) -> None:
    index = concrete(index)
    if isinstance(owner, List):
        if isinstance(index, slice):
            index = slice(*(concrete(part) for part in (index.start, index.stop, index.step)))
            windows.deleted(machine, owner, index)
        if isinstance(index, (int, slice)):
            try:
                del owner.items[index]
            except (IndexError, TypeError, ValueError):
                owner.more = True
    elif isinstance(owner, Dict):
        owner.items.pop(hashable(index), None)


def next_of(machine: Engine, value: Value, args: Args, node: ast.AST) -> Value:
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
    if isinstance(value, List) and isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Call):
        # `next(model.parameters())`: an iterator made just now stands before its first item.
        if value.items:
            return value.items[0]
    if isinstance(value, Unknown):
        made = Unknown(f"next({value.name})", value.node, value.cuts)
        made.oldest = value.oldest
        made.data, made.returned = value.node is None and not value.returned, value.returned
        made.assumed = made.data and (value.assumed or not value.data)
        made.within, made.part_of = value.within, value
        return made
    return Unknown("next")
