"""Lists, tuples, dicts, sets and everything that can be iterated."""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tapecheck.interpret import constants, records, windows
from tapecheck.interpret.equality import contains, hashable, unkey, unsure_items, unsure_keys
from tapecheck.interpret.unknowns import (
    LOOP_BOUND,
    attribute_of_unknown,
    bound_length,
    item_of_unknown,
    place_of_unknown,
)
from tapecheck.interpret.values import (
    CONSTANTS,
    OPEN,
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
    Record,
    Set,
    Signal,
    Stream,
    Tensor,
    Unknown,
    Value,
    View,
    concrete,
    unwrapped,
)
from tapecheck.interpret.world import merge_cuts

if TYPE_CHECKING:
    from tapecheck.interpret.machine import Machine


def container_operator(machine: Machine, op: ast.operator, left: Value, right: Value, node: ast.AST) -> Value:
    left, right = unwrapped(left), unwrapped(right)
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
    if isinstance(left, Dict) and isinstance(right, Dict):
        if left.kind == "counter" and type(op) in _TALLIES:
            return _tally(machine, op, left, right)
        if isinstance(op, ast.BitOr):
            return Dict({**left.items, **right.items}, left.more or right.more, born=machine.world.clock)
    if type(op) in _SET_OPERATORS and (isinstance(left, Set) or isinstance(right, Set) or _is_keys(left)):
        return set_operation(machine, _SET_OPERATORS[type(op)], left, [right], node)
    if isinstance(op, ast.Mod) and isinstance(left, str):
        try:
            return constants.arithmetic(machine, op, operator.mod, left, constants.plain(right))
        except constants.NotPlain:
            return Unknown("text")
    return Unknown("result")


def augment(machine: Machine, op: ast.operator, owner: List | Dict | Set, value: Value, node: ast.AST) -> bool:
    """`+=`, `|=` and the like, where they change the container itself."""
    if isinstance(owner, List):
        if isinstance(op, ast.Add):
            extend(machine, owner, value, node)
            return True
        made = container_operator(machine, op, owner, value, node) if isinstance(op, ast.Mult) else None
        if isinstance(made, List):
            owner.items[:] = made.items
            owner.more = owner.more or made.more
            return True
        return False
    if isinstance(owner, Dict):
        if isinstance(op, ast.BitOr) and owner.kind == "dict":
            dict_update(machine, owner, [value], {}, node)
            return True
        return False
    name = _SET_OPERATORS.get(type(op))
    if name == "union":
        _set_update(machine, owner, [value], {}, node)
    elif name is not None:
        _set_update_by(name)(machine, owner, [value], {}, node)
    return name is not None


# -- sets -------------------------------------------------------------------------------------------------------

_SET_OPERATORS: dict[type[ast.operator], str] = {
    ast.BitAnd: "intersection", ast.BitOr: "union", ast.Sub: "difference", ast.BitXor: "symmetric_difference",
}  # fmt: skip
_SET_METHODS = frozenset((*_SET_OPERATORS.values(), "issubset", "issuperset", "isdisjoint"))
_SET_TESTS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
_TALLIES: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.BitAnd: min, ast.BitOr: max,
}  # fmt: skip


def _is_keys(value: Value) -> bool:
    return isinstance(value, List) and value.kind == "keys"


def _as_set(value: Value) -> dict[Any, Value] | None:
    """The elements of a set or dict's keys by their hashable selves; None where they are not all known."""
    if isinstance(value, Set):
        return None if value.more or unsure_items(value) else {hashable(item): item for item in value.items}
    if isinstance(value, List) and not value.more and not any(isinstance(item, Unknown) for item in value.items):
        return {hashable(item): item for item in value.items}
    return None


def set_operation(machine: Machine, name: str, owner: Value, others: Args, node: ast.AST) -> Value:
    """union, intersection and the like; an unknown set where an element is not known."""
    items = _as_set(owner)
    for other in others:
        listed = known_items(machine, other, node)
        right = None if listed is None else _as_set(Set(listed))
        if items is None or right is None:
            return Unknown("set" if not name.startswith("is") else "test")
        if name.startswith("is"):
            return bool(getattr(set(items), name)(set(right)))
        # Python keeps no order here; the dry run keeps that of the left side.
        if name == "union":
            items = {**items, **right}
        elif name == "symmetric_difference":
            kept = {key: item for key, item in items.items() if key not in right}
            items = kept | {key: item for key, item in right.items() if key not in items}
        else:
            items = {key: item for key, item in items.items() if (key in right) == (name == "intersection")}
    return Unknown("set") if items is None else Set(list(items.values()))


def _set_update_by(name: str) -> Callable[[Machine, Set, Args, Kwargs, ast.AST], Value]:
    def update(m: Machine, owner: Set, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        result = set_operation(m, name, owner, args, node)
        if isinstance(result, Set):
            owner.items = result.items
        else:
            owner.more = True
        return None

    return update


def set_comparison(op: ast.cmpop, left: Value, right: Value) -> Value:
    items, others = _as_set(left), _as_set(right)
    if items is None or others is None or type(op) not in _SET_TESTS:
        return Unknown("test")
    return bool(_SET_TESTS[type(op)](set(items), set(others)))


def _tally(machine: Machine, op: ast.operator, left: Dict, right: Dict) -> Value:
    """`+`, `-`, `&` and `|` of two Counters: only counts above zero are kept."""
    result = Dict({}, left.more or right.more, kind="counter", born=machine.world.clock)
    for key in dict.fromkeys((*left.items, *right.items)):
        counts = [concrete(side.items.get(key, 0)) for side in (left, right)]
        if not all(isinstance(count, (int, float)) for count in counts):
            return Unknown("counter")
        count = _TALLIES[type(op)](*counts)
        if count > 0:
            result.items[key] = count
    return result


def ordering(machine: Machine, op: ast.cmpop, left: Value, right: Value, node: ast.AST) -> Value:
    """`<` and the like of two sequences: the first elements that differ decide."""
    if isinstance(left, (List, tuple)) and isinstance(right, (List, tuple)) and type(op) in _SET_TESTS:
        ours, theirs = known_items(machine, left, node), known_items(machine, right, node)
        if ours is None or theirs is None:
            return Unknown("test")
        for mine, other in zip(ours, theirs):
            same = machine.known_truth(machine.compare(ast.Eq(), mine, other, node))
            if same is None:
                return Unknown("test")
            if not same:
                return machine.compare(op, mine, other, node)
        return bool(_SET_TESTS[type(op)](len(ours), len(theirs)))
    return Unknown("test")


def ordered(machine: Machine, items: list[Value], kwargs: Kwargs, node: ast.AST) -> list[int] | None:
    """The places of elements in sorted order by `key` and `reverse`; None where nobody knows."""
    key = kwargs.get("key")
    keys = [machine.call(key, [item], {}, node) if key is not None else item for item in items]
    reverse = machine.known_truth(kwargs.get("reverse", False))
    if reverse is None:
        return None

    def precedes(left: int, right: int) -> int:
        for first, second, answer in ((left, right, -1), (right, left, 1)):
            truth = machine.known_truth(machine.compare(ast.Lt(), keys[first], keys[second], node))
            if truth is None:
                raise constants.NotPlain
            if truth:
                return answer
        return 0

    # The comparisons of sorting are no conditions of the program.
    varying = machine.world.varying
    try:
        known = [constants.plain(value) for value in keys]
        return sorted(range(len(items)), key=known.__getitem__, reverse=reverse)
    except (constants.NotPlain, TypeError):
        try:
            return sorted(range(len(items)), key=functools.cmp_to_key(precedes), reverse=reverse)
        except constants.NotPlain:
            return None
    finally:
        machine.world.varying = varying


def known_items(machine: Machine, value: Value, node: ast.AST) -> list[Value] | None:
    """The elements of a value whose length is known; None otherwise."""
    value = concrete(value)
    if isinstance(value, Instance) and "inner" in value.facts and machine.find_method(value, "__iter__") is None:
        value = value.facts["inner"]
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
    if isinstance(value, Class) and value.members is not None:
        return list(value.members.values())
    if isinstance(value, (Generator, Stream, Instance)):
        stream = machine.stream(value, node)
        length = stream.length()
        if length is None or (not stream.sequential and length - stream.next > _MAX_ITEMS):
            return None
        items: list[Value] = []
        while len(items) < _MAX_DRAINED:
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
    if isinstance(value_now, View):
        # Python does not let a dict grow while it is gone over.
        value_now = List(value_now.items, value_now.more)
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
    if isinstance(value_now, Class) and value_now.members is not None:
        members = list(value_now.members.values())
        return Stream(lambda: len(members), lambda index: members[index])
    if isinstance(value_now, Generator):
        return _generator_stream(machine, value_now)
    if isinstance(value, Unknown):
        child = value
        size = attribute_of_unknown(child, "__len__()")
        if child.truth is False and size.concrete is None:
            size.concrete = 0
        if bound_length(size) and child.truth is None:
            child.truth = True
        fresh: dict[int, Value] = {}

        def unknown_item(index: int) -> Value:
            if index not in fresh:
                made = Unknown(f"{child.name}[{index}]", child.node, child.cuts)
                made.oldest = child.oldest
                made.data = child.node is None
                made.certain = child.certain
                fresh[index] = made
            return fresh[index]

        length = attribute_of_unknown(child, "__len__()")

        def known_length() -> int | None:
            # Whoever has asked for the length reckons with it: the loop has to come to that end.
            size = length.concrete
            return size if isinstance(size, int) and (size != LOOP_BOUND or length.bounds is not None) else None

        return Stream(known_length, unknown_item)
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

    # Where the length is said to be large the stream ends by itself: loops run it to its end.
    def length() -> int | None:
        sent = generator.env.sent
        return None if generator.open or (sent is not None and OPEN in sent) else 1_000_000

    return Stream(length, item, sequential=True)


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
    if machine.world.iteration:
        machine.world.counted.append(("grown", target, None, len(items)))
    if target.bound is not None and len(target.items) > target.bound:
        del target.items[: len(target.items) - target.bound]
    if any(True for item in items if not isinstance(item, CONSTANTS)):
        target.stored_at = machine.world.site(node)


_TYPES = frozenset(("str", "dict", "list", "set", "frozenset", "tuple", "int", "float", "bytes"))
_MAX_ITEMS = 64
_MAX_DRAINED = 256


def exception_signal(args: Args, node: ast.AST) -> Signal:
    """The exception that `generator.throw(...)` raises."""
    value = args[1] if len(args) > 1 else (args[0] if args else None)
    cls = args[0] if args else None
    name = value.cls.name if isinstance(value, Instance) and value.cls is not None else ""
    path = cls.path if isinstance(cls, Lib) else (value.lib if isinstance(value, Instance) else "")
    return Signal(name or path.rsplit(".", 1)[-1] or "Exception", value)


def get_item(machine: Machine, owner: Value, index: Value, node: ast.AST) -> Value:
    index = concrete(index)
    if isinstance(index, Instance):
        method = machine.find_method(index, "__index__")
        index = concrete(machine.call(method, [], {}, node)) if method is not None else index
    owner = concrete(owner) if isinstance(owner, Unknown) and owner.concrete is not None else owner
    if isinstance(owner, (List, tuple)):
        items = list(owner) if isinstance(owner, tuple) else owner.items
        more = isinstance(owner, List) and owner.more
        if isinstance(index, int):
            if -len(items) <= index < len(items) and (index >= 0 or not more):
                return items[index]
            if not more and machine.handlers:
                raise Signal("IndexError")
            # Nobody looks out for it: a loop that the dry run cut short has not filled the list.
            return items[-1] if items and index < 0 else _further(machine, items)
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
                return _further(machine, items)
            return items[position % len(items)]
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
        if owner.kind == "counter":
            return Unknown("number") if owner.more or unsure_keys(owner) else 0
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
            return Unknown("text")
    if isinstance(owner, Unknown):
        return item_of_unknown(owner, index)
    if isinstance(owner, Class) and owner.members is not None:
        return owner.members.get(str(index), Unknown(owner.name))
    if isinstance(owner, (Class, Lib, Function)):
        return owner
    return Unknown("item")


def set_item(machine: Machine, owner: Value, index: Value, value: Value, node: ast.AST) -> None:
    index = concrete(index)
    if isinstance(owner, List):
        if isinstance(index, int) and -len(owner.items) <= index < len(owner.items):
            _rotates(machine, owner.items[index], value)
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
        elif owner.items and not isinstance(index, int):
            owner.items[0] = value
        if not isinstance(value, CONSTANTS):
            owner.stored_at = machine.world.site(node)
    elif isinstance(owner, Dict):
        key = hashable(index)
        if key in owner.items:
            owner.rewritten.add(key)
        elif isinstance(key, int):
            _rotates(machine, None, value)
        owner.items[key] = value
        if not isinstance(value, CONSTANTS):
            owner.stores[key] = machine.world.site(node)
            owner.stamps[key] = machine.world.clock
    elif isinstance(owner, Unknown):
        if owner.items is None:
            owner.items = {}
        owner.items[hashable(index)] = value
        if isinstance(value, (Tensor, Unknown)) and machine.torch.requires(value) != "no":
            owner.data = False
        if isinstance(value, (Tensor, Unknown)) and value.cuts:
            # An array holds what was cut off its graph as well as a tensor does.
            owner.cuts = merge_cuts(owner.cuts, value.cuts)
        machine.escape(value, node, owner.name)


def _rotates(machine: Machine, before: Value, value: Value) -> None:
    """A place that held no graph gets one: only when the places come round again a ring shows that it is one."""
    if isinstance(value, (Tensor, Unknown)) and value.node is not None and machine.world.iteration:
        if not isinstance(before, (Tensor, Unknown)) or before.node is None:
            machine.world.varying += 1


def delete_item(machine: Machine, owner: Value, index: Value) -> None:
    index = concrete(index)
    if isinstance(owner, List):
        if isinstance(index, slice):
            index = slice(*(concrete(part) for part in (index.start, index.stop, index.step)))
            windows.deleted(machine, owner, index)
        if isinstance(index, (int, slice)):
            try:
                del owner.items[index]
            except (IndexError, TypeError):
                owner.more = True
    elif isinstance(owner, Dict):
        owner.items.pop(hashable(index), None)


def attribute(machine: Machine, owner: Value, name: str, node: ast.AST) -> Value:
    """A method of a list, dict, set, tuple, text or number."""
    if isinstance(owner, Record):
        found = records.record_attribute(machine, owner, name, node)
        if found is not None:
            return found
    method = _METHODS.get((tuple if isinstance(owner, tuple) else type(owner), name))
    if method is not None:
        return Native(name, lambda m, args, kwargs, at: method(m, owner, args, kwargs, at))
    if isinstance(owner, Set) and name in _SET_METHODS:
        return Native(name, lambda m, args, kwargs, at: set_operation(m, name, owner, args, at))
    if isinstance(owner, List) and name == "maxlen":
        return owner.bound
    if isinstance(owner, (List, Set, Dict)):
        _expects_tensor(machine, name, node)
        return Native(name, lambda m, args, kwargs, at: _unmodelled(owner, name))
    if isinstance(owner, (str, int, float, bytes)):
        if isinstance(owner, (int, float)) and name in ("real", "imag"):
            return getattr(owner, name)
        if name in ("value", "name"):
            return owner if name == "value" else Unknown("text")
        return Native(name, lambda m, args, kwargs, at: constants.method_of_constant(m, owner, name, args, kwargs))
    if isinstance(owner, Native) and owner.name in _TYPES:
        if name == "fromkeys":
            return Native(name, lambda m, args, kwargs, at: from_keys(m, args, kwargs, at))
        if name in ("__name__", "__qualname__"):
            return owner.name
        # `str.lower` as a function: the method of its first argument.
        return Native(
            name, lambda m, args, kwargs, at: m.call(m.get_attribute(args[0], name, at), args[1:], kwargs, at)
        )
    if owner is None:
        machine.wrong("AttributeError", node)
    if isinstance(owner, Generator):
        if name in ("send", "__next__", "asend", "__anext__"):
            return Native(name, lambda m, args, kwargs, at: m.resume(owner, args[0] if args else None))
        if name in ("throw", "athrow"):
            return Native(name, lambda m, args, kwargs, at: m.resume(owner, None, exception_signal(args, at)))
        if name in ("close", "aclose"):
            return Native(name, lambda m, args, kwargs, at: m.close(owner))
    if isinstance(owner, slice):
        return getattr(owner, name, Unknown(name))
    if isinstance(owner, tuple) and name in _PARTS and _PARTS[name] < len(owner):
        return owner[_PARTS[name]]
    if isinstance(owner, tuple):
        _expects_tensor(machine, name, node)
    return Unknown(name)


def _expects_tensor(machine: Machine, name: str, node: ast.AST) -> None:
    """A tensor's method asked of a container that has none: an exception, if the dry run is right about it."""
    if name in ("backward", "detach", "item", "requires_grad", "grad", "grad_fn", "clone", "mean", "pow"):
        machine.world.mistakes.add(("AttributeError", machine.world.span(node)))


_PARTS = {
    "values": 0, "indices": 1, "min": 0, "max": 1, "eigenvalues": 0, "eigenvectors": 1, "Q": 0, "R": 1, "U": 0, "S": 1,
    "Vh": 2, "sign": 0, "logabsdet": 1, "solution": 0, "residuals": 1, "LU": 0, "pivots": 1, "P": 0, "L": 0,
}  # fmt: skip
"""Names that torch gives to the parts of results."""

# The second line holds names of a progress bar that a list was wrapped in.
_HARMLESS = (
    "is", "union", "intersection", "difference", "symmetric", "most_common", "__",
    "set_", "refresh", "close", "write", "display",
)  # fmt: skip


def _unmodelled(owner: List | Set | Dict, name: str) -> Value:
    """A method that is not modelled: what the container holds afterwards is not known."""
    if not name.startswith(_HARMLESS):
        owner.more = True
    return Unknown(name)


def _list_sort(m: Machine, owner: List, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    places = None if owner.more else ordered(m, owner.items, kwargs, node)
    owner.items = in_unknown_order(owner.items) if places is None else [owner.items[place] for place in places]
    return None


def in_unknown_order(items: list[Value]) -> list[Value]:
    """Elements whose order nobody knows: a number at a place may then be any of them."""
    return [Unknown("item") if isinstance(item, CONSTANTS) else item for item in items]


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
        if owner.more or not m.handlers:
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
        same = item is args[0] or m.known_truth(m.compare(ast.Eq(), item, args[0], node)) if args else None
        if same:
            del owner.items[index]
            return None
        if same is None:
            # It may be this one or a later one.
            owner.more = True
            return None
    if m.handlers and not owner.more:
        raise Signal("ValueError")
    return None


def _same_as(m: Machine, owner: List | tuple[Value, ...], args: Args, node: ast.AST) -> list[bool | None]:
    """For each element whether it equals the argument."""
    items = owner.items if isinstance(owner, List) else list(owner)
    wanted = args[0] if args else None
    return [m.known_truth(m.compare(ast.Eq(), item, wanted, node)) for item in items]


def _index(m: Machine, owner: List | tuple[Value, ...], args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    for place, same in enumerate(_same_as(m, owner, args, node)):
        if same is None or len(args) > 1:
            return Unknown("number")
        if same:
            return place
    if not getattr(owner, "more", False) and m.handlers:
        raise Signal("ValueError")
    return Unknown("number")


def _count(m: Machine, owner: List | tuple[Value, ...], args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    same = _same_as(m, owner, args, node)
    return Unknown("number") if None in same or getattr(owner, "more", False) else same.count(True)


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
    return View(owner, "items", lambda of: [(unkey(key), value) for key, value in of.items.items()])


def _dict_keys(m: Machine, owner: Dict, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return View(owner, "keys", lambda of: [unkey(key) for key in of.items])


def _dict_values(m: Machine, owner: Dict, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return View(owner, "values", lambda of: list(of.items.values()))


def dict_update(m: Machine, owner: Dict, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    for source in args:
        if owner.kind == "counter":
            _counted(m, owner, source, 1, node)
        elif isinstance(source, Dict):
            for key, value in source.items.items():
                set_item(m, owner, unkey(key), value, node)
            owner.more = owner.more or source.more
        else:
            pairs = known_items(m, source, node)
            owner.more = owner.more or pairs is None
            for pair in pairs or ():
                both = known_items(m, pair, node)
                if both is not None and len(both) == 2:
                    set_item(m, owner, both[0], both[1], node)
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
    if m.handlers and not owner.more and not unsure_keys(owner) and isinstance(key, CONSTANTS):
        raise Signal("KeyError")
    return Unknown("item")


def _dict_copy(m: Machine, owner: Dict, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return Dict(
        dict(owner.items), owner.more, owner.factory, dict(owner.stores), dict(owner.stamps), born=m.world.clock,
        kind=owner.kind,
    )  # fmt: skip


def _set_add(m: Machine, owner: Set, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if args and contains(m, owner, args[0]) is not True:
        owner.items.append(args[0])
    return None


def _set_remove(m: Machine, owner: Set, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if args and m.handlers and contains(m, owner, args[0]) is False:
        raise Signal("KeyError")
    return _set_discard(m, owner, args, kwargs, node)


def _set_copy(m: Machine, owner: Set, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return Set(list(owner.items), owner.more)


def _extendleft(m: Machine, owner: List, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    for item in m.elements(args[0], node) if args else ():
        _list_appendleft(m, owner, [item], {}, node)
    return None


def _rotate(m: Machine, owner: List, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    steps = concrete(args[0]) if args else 1
    if owner.more or not isinstance(steps, int):
        owner.items = in_unknown_order(owner.items)
    elif owner.items:
        steps %= len(owner.items)
        owner.items[:] = owner.items[-steps:] + owner.items[:-steps] if steps else owner.items
    return None


def _popitem(m: Machine, owner: Dict, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    last = m.known_truth(args[0] if args else kwargs.get("last", True))
    if not owner.items or owner.more or last is None:
        if not owner.items and not owner.more and m.handlers:
            raise Signal("KeyError")
        return _unmodelled(owner, "popitem")
    key = (list(owner.items)[-1]) if last else next(iter(owner.items))
    return unkey(key), owner.items.pop(key)


def _move_to_end(m: Machine, owner: Dict, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    key = hashable(args[0]) if args else None
    last = m.known_truth(args[1] if len(args) > 1 else kwargs.get("last", True))
    if key in owner.items:
        value = owner.items.pop(key)
        rest = dict(owner.items)
        owner.items.clear()
        owner.items.update({**rest, key: value} if last is not False else {key: value, **rest})
    return None


def _most_common(m: Machine, owner: Dict, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    counts = [concrete(value) for value in owner.items.values()]
    if owner.more or not all(isinstance(count, (int, float)) for count in counts):
        return Unknown("most_common")
    pairs = sorted(zip(owner.items, counts), key=lambda pair: pair[1], reverse=True)
    wanted = concrete(args[0] if args else kwargs.get("n"))
    return List([(unkey(key), count) for key, count in pairs[: wanted if isinstance(wanted, int) else None]])


def _elements(m: Machine, owner: Dict, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    items: list[Value] = []
    for key, count in owner.items.items():
        if owner.more or not isinstance(concrete(count), int) or concrete(count) > _MAX_ITEMS:
            return Unknown("elements")
        items += [unkey(key)] * max(concrete(count), 0)
    return List(items)


def _total(m: Machine, owner: Dict, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    counts = [concrete(value) for value in owner.items.values()]
    known = not owner.more and all(isinstance(count, (int, float)) for count in counts)
    return sum(counts) if known else Unknown("number")


def _counted(m: Machine, owner: Dict, source: Value, sign: int, node: ast.AST) -> None:
    """Count the elements of an iterable, or add the counts of a mapping, into a Counter."""
    if isinstance(source, Dict):
        pairs = list(source.items.items())
        owner.more = owner.more or source.more
    else:
        items = known_items(m, source, node)
        owner.more = owner.more or items is None
        pairs = [(hashable(item), 1) for item in items or ()]
    for key, count in pairs:
        owner.items[key] = m.binary(ast.Add() if sign > 0 else ast.Sub(), owner.items.get(key, 0), count, node)


def _subtract(m: Machine, owner: Dict, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    for source in (*args, Dict(dict(kwargs))):
        _counted(m, owner, source, -1, node)
    return None


def counter(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """collections.Counter: a dict that answers 0 for what it has not counted."""
    result = Dict({}, kind="counter", born=m.world.clock)
    for source in (*args, Dict({key: value for key, value in kwargs.items() if key != "**"})):
        _counted(m, result, source, 1, node)
    return result


def _fromkeys(m: Machine, owner: Dict, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return from_keys(m, args, kwargs, node)


def from_keys(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """dict.fromkeys(iterable, value)."""
    result = Dict({}, born=m.world.clock)
    items = known_items(m, args[0], node) if args else []
    result.more = items is None
    for item in items or ():
        set_item(m, result, item, args[1] if len(args) > 1 else None, node)
    return result


def _dict_update_first(m: Machine, owner: Dict, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return dict_update(m, owner, args, kwargs, node)


def _list_extend_first(m: Machine, owner: List, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if args:
        extend(m, owner, args[0], node)
    return None


def has_method(owner: Value, name: str) -> bool:
    """Whether a container has a method of that name that is modelled."""
    return (type(owner), name) in _METHODS or (isinstance(owner, Set) and name in _SET_METHODS)


_METHODS: dict[tuple[type, str], Callable[..., Value]] = {
    (List, "append"): _list_append, (List, "add"): _list_append, (List, "appendleft"): _list_appendleft,
    (List, "extend"): _list_extend, (List, "insert"): _list_insert, (List, "pop"): _list_pop,
    (List, "popleft"): _list_popleft, (List, "clear"): _clear, (List, "copy"): _list_copy,
    (List, "reverse"): _list_reverse, (List, "sort"): _list_sort, (List, "remove"): _list_remove,
    (List, "index"): _index, (List, "count"): _count,
    (tuple, "index"): _index, (tuple, "count"): _count,
    (Dict, "get"): _dict_get, (Dict, "setdefault"): _dict_setdefault, (Dict, "items"): _dict_items,
    (Dict, "keys"): _dict_keys, (Dict, "values"): _dict_values, (Dict, "update"): dict_update,
    (Dict, "pop"): _dict_pop, (Dict, "clear"): _clear, (Dict, "copy"): _dict_copy,
    (Set, "add"): _set_add, (Set, "clear"): _clear, (Set, "discard"): _set_discard,
    (Set, "remove"): _set_remove, (Set, "update"): _set_update, (Set, "pop"): _set_pop,
    (Set, "difference_update"): _set_update_by("difference"), (Set, "copy"): _set_copy,
    (Set, "intersection_update"): _set_update_by("intersection"),
    (Set, "symmetric_difference_update"): _set_update_by("symmetric_difference"),
    (List, "extendleft"): _extendleft, (List, "rotate"): _rotate, (Dict, "popitem"): _popitem,
    (Dict, "move_to_end"): _move_to_end, (Dict, "most_common"): _most_common, (Dict, "elements"): _elements,
    (Dict, "total"): _total, (Dict, "subtract"): _subtract, (Dict, "fromkeys"): _fromkeys,
    (Dict, "__getitem__"): lambda m, owner, args, kwargs, node: get_item(m, owner, args[0], node),
    (List, "__getitem__"): lambda m, owner, args, kwargs, node: get_item(m, owner, args[0], node),
    (Dict, "__setitem__"): lambda m, owner, args, kwargs, node: set_item(m, owner, args[0], args[1], node),
    (List, "__setitem__"): lambda m, owner, args, kwargs, node: set_item(m, owner, args[0], args[1], node),
    (Dict, "__delitem__"): lambda m, owner, args, kwargs, node: delete_item(m, owner, args[0]),
    (Dict, "__contains__"): lambda m, owner, args, kwargs, node: contains(m, owner, args[0]),
    (Dict, "__len__"): lambda m, owner, args, kwargs, node: Unknown("len") if owner.more else len(owner.items),
    (List, "__len__"): lambda m, owner, args, kwargs, node: Unknown("len") if owner.more else len(owner.items),
    (Dict, "__iter__"): lambda m, owner, args, kwargs, node: stream(m, owner, node),
    (List, "__iter__"): lambda m, owner, args, kwargs, node: stream(m, owner, node),
    (Dict, "__init__"): _dict_update_first, (List, "__init__"): _list_extend_first,
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
    if isinstance(value, List) and isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Call):
        # `next(model.parameters())`: an iterator made just now stands before its first item.
        if value.items:
            return value.items[0]
    if isinstance(value, Unknown):
        made = Unknown(f"next({value.name})", value.node, value.cuts)
        made.oldest = value.oldest
        made.data = value.node is None
        return made
    return Unknown("next")
