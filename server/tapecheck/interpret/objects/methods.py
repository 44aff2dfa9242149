"""Methods of lists, tuples, dicts, sets, texts and numbers."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable

from tapecheck.interpret import limits
from tapecheck.interpret.engine import Engine
from tapecheck.interpret.objects import constants, queues, records, syntax
from tapecheck.interpret.objects.algebra import (
    SET_METHODS,
    counted,
    dict_update,
    ordered,
    set_add,
    set_operation,
    set_update,
    set_update_by,
)
from tapecheck.interpret.objects.containers import TYPE_NAMES, append_all, exception_signal, extend, same_key
from tapecheck.interpret.objects.namespaces import copied_items
from tapecheck.interpret.values import (
    MORE,
    PICKED,
    Args,
    ByKind,
    Dict,
    Generator,
    Instance,
    Kwargs,
    List,
    Native,
    Queue,
    Record,
    Set,
    Signal,
    Unknown,
    Value,
    View,
    argument,
    behaviour,
    concrete,
    copied,
    hashable,
    is_constant,
    items_of,
    known_int,
    known_keywords,
    known_numbers,
    positional,
    unkey,
    unwrapped,
    with_numbers,
)


def attribute(machine: Engine, owner: Value, name: str, node: ast.AST) -> Value:
    """Return a method of a list, dict, set, tuple, text or number."""
    if isinstance(owner, Record):
        found = records.record_attribute(machine, owner, name, node)
        if found is not None:
            return found
    kind = tuple if isinstance(owner, tuple) else type(owner)
    method = _METHODS.get((kind, name))
    if isinstance(owner, Queue):
        if name == "queue":
            return queues.inside(owner)
        method = method or _METHODS.get((List, name))
    if method is not None:
        return Native(name, lambda m, args, kwargs, at: method(m, owner, args, kwargs, at), receiver=owner)
    if owner is None:
        machine.wrong("AttributeError", node)
    elif (
        behaviour(owner).is_container
        and not machine.expects("AttributeError")
        and behaviour(owner).may_lack(machine, name, node)
    ):
        machine.doubt("AttributeError", node)
    other = _OTHERS.get(kind)
    return other(machine, owner, name, node) if other is not None else Unknown.named(name)


def _of_set(machine: Engine, owner: Set, name: str, node: ast.AST) -> Value:
    if name in SET_METHODS:
        return Native(name, lambda m, args, kwargs, at: set_operation(m, name, owner, args, at), receiver=owner)
    return _of_container(machine, owner, name, node)


def _of_list(machine: Engine, owner: List, name: str, node: ast.AST) -> Value:
    return owner.bound if name == "maxlen" else _of_container(machine, owner, name, node)


def _of_container(machine: Engine, owner: List | Set | Dict, name: str, node: ast.AST) -> Value:
    expects_tensor(machine, name, node)
    return Native(name, lambda m, args, kwargs, at: _unmodelled(owner, name), receiver=owner)


def _of_constant(machine: Engine, owner: Value, name: str, node: ast.AST) -> Value:
    if isinstance(owner, (int, float)) and name in ("real", "imag"):
        return owner.real if name == "real" else owner.imag
    if name in ("value", "name"):
        return owner if name == "value" else Unknown.text()
    expects_tensor(machine, name, node)
    return Native(name, lambda m, args, kwargs, at: constants.method_of_constant(m, owner, name, args, kwargs))


def _of_type(machine: Engine, owner: Native, name: str, node: ast.AST) -> Value:
    if owner.name not in TYPE_NAMES:
        return Unknown.named(name)
    if name == "fromkeys":
        return Native(name, lambda m, args, kwargs, at: from_keys(m, args, kwargs, at))
    if name in ("__name__", "__qualname__"):
        return owner.name
    # `str.lower` as a function: the method of its first argument.
    return Native(
        name, lambda m, args, kwargs, at: m.call(_method_of(m, args[0], name, at), args[1:], kwargs, at), method=True
    )


def _method_of(machine: Engine, receiver: Value, name: str, node: ast.AST) -> Value:
    """Return a method of a value's builtin type: an object's own class may have another of the name."""
    inner = unwrapped(receiver)
    look = machine.get_attribute if inner is receiver else functools.partial(attribute, machine)
    return look(inner, name, node)


def _of_generator(machine: Engine, owner: Generator, name: str, node: ast.AST) -> Value:
    if name in ("send", "__next__", "asend", "__anext__"):
        return Native(name, lambda m, args, kwargs, at: _sent(m, owner, positional(args, 0), at))
    if name in ("throw", "athrow"):
        return Native(name, lambda m, args, kwargs, at: m.resume(owner, None, exception_signal(args, at)))
    if name in ("close", "aclose"):
        return Native(name, lambda m, args, kwargs, at: m.close(owner))
    return Unknown.named(name)


def _sent(machine: Engine, owner: Generator, value: Value, node: ast.AST) -> Value:
    """Return what a generator yields next, given what it is sent: one that was not started takes None alone."""
    match value:
        case None | Unknown():
            return machine.resume(owner, value)
    if owner.started:
        return machine.resume(owner, value)
    machine.wrong("TypeError", node)
    return Unknown.named("send")


def _of_slice(machine: Engine, owner: slice, name: str, node: ast.AST) -> Value:
    return getattr(owner, name, Unknown.named(name))


def _of_tuple(machine: Engine, owner: tuple[Value, ...], name: str, node: ast.AST) -> Value:
    if name in _PARTS and _PARTS[name] < len(owner):
        return owner[_PARTS[name]]
    expects_tensor(machine, name, node)
    return Unknown.named(name)


def expects_tensor(machine: Engine, name: str, node: ast.AST) -> None:
    """Note that a value lacks a method of tensors that it is asked for: an exception, if that is known for sure."""
    if name in _OF_TENSORS:
        machine.world.omissions.mistake("AttributeError", node, missed=syntax.missed(machine, node))
        if name == "backward":
            # It goes through some graph that was lost on the way to it.
            machine.world.loops.escape_newest(node)


_OF_TENSORS = frozenset((
    "backward", "clone", "detach", "detach_", "grad", "grad_fn", "item", "mean", "pow", "requires_grad",
    "requires_grad_",
))  # fmt: skip


_PARTS = {
    "values": 0, "indices": 1, "min": 0, "max": 1, "eigenvalues": 0, "eigenvectors": 1, "Q": 0, "R": 1, "U": 0, "S": 1,
    "Vh": 2, "sign": 0, "logabsdet": 1, "solution": 0, "residuals": 1, "LU": 0, "pivots": 1, "P": 0, "L": 0,
    "data": 0, "batch_sizes": 1, "sorted_indices": 2, "unsorted_indices": 3,
}  # fmt: skip
"""Names that torch gives to the parts of results."""


# The second line holds names of a progress bar that a list was wrapped in.
_HARMLESS = (
    "is", "union", "intersection", "difference", "symmetric", "most_common", "__",
    "set_", "refresh", "close", "write", "display",
)  # fmt: skip


def _unmodelled(owner: List | Set | Dict, name: str) -> Value:
    """Return a method that is not modelled: what the container holds afterwards is not known."""
    if not name.startswith(_HARMLESS):
        owner.more |= MORE
    return Unknown.named(name)


def _list_sort(m: Engine, owner: List, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    places = None if owner.more else ordered(m, owner.items, kwargs, node)
    items = owner.items
    owner.items = in_unknown_order(m, items, node) if places is None else [items[place] for place in places]
    return None


def in_unknown_order(m: Engine, items: list[Value], node: ast.AST) -> list[Value]:
    """Elements whose order nobody knows: a number at a place may then be any of them."""
    return [Unknown("item") if is_constant(item) else item for item in m.library.drawn(items, node)]


def _set_discard(m: Engine, owner: Set, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    kept = [item for item in owner.items if args and hashable(item) != hashable(args[0])]
    if len(kept) == len(owner.items) and args and not is_constant(concrete(args[0])):
        owner.more |= MORE
    owner.items = kept
    return None


def _set_pop(m: Engine, owner: Set, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if not owner.items and not owner.more:
        raise Signal("KeyError")
    return owner.items.pop() if len(owner.items) == 1 and not owner.more else _unmodelled(owner, "pop")


def distinct(items: list[Value]) -> list[Value]:
    """Return the elements of a set made of these."""
    return list({hashable(item): item for item in items}.values())


def _list_append(m: Engine, owner: List, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    append_all(m, owner, args[:1], node)
    return None


def _list_appendleft(m: Engine, owner: List, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    owner.items[:0] = args[:1]
    owner.more = with_numbers(owner.more, args[:1])
    owner.stored_at = m.world.position.site(node)
    if owner.bound is not None:
        del owner.items[owner.bound :]
    return None


def _list_extend(m: Engine, owner: List, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    extend(m, owner, positional(args, 0, Unknown()), node)
    return None


def _list_insert(m: Engine, owner: List, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    place = _place(m, owner, args, node)
    owner.items.insert(place or 0, positional(args, 1, Unknown()))
    owner.more = with_numbers(owner.more, owner.items)
    if place is None and not owner.more:
        owner.items = m.library.drawn(owner.items, node)
    owner.stored_at = m.world.position.site(node)
    return None


def _place(m: Engine, owner: List, args: Args, node: ast.AST) -> int | None:
    """Return the place that the first argument is; None where nobody knows, and where it does not matter."""
    place = known_int(args[0]) if args else None
    return m.library.place(args[0], owner.items, node) if args and place is None else place


def _list_pop(m: Engine, owner: List, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    place = _place(m, owner, args, node)
    if not owner.items:
        if owner.more or not m.expects("IndexError"):
            return Unknown("item")
        raise Signal("IndexError")
    try:
        taken = owner.items.pop(-1 if place is None else place)
    except IndexError:
        return Unknown("item")
    if place is None and args and owner.items:
        m.library.taken_as_first(args[0], taken, node)
    return taken


def _clear(m: Engine, owner: List | Dict | Set, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if isinstance(owner, List):
        owner.emptied()
    owner.items.clear()
    owner.more = 0
    return None


def _list_copy(m: Engine, owner: List, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return List(
        list(owner.items),
        owner.more,
        owner.bound,
        owner.stored_at,
        owner.kind,
        m.world.position.clock,
        cut=owner.cut,
        gaps=owner.gaps and [*owner.gaps],
        limit=owner.limit,
    )


def _list_reverse(m: Engine, owner: List, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    owner.items.reverse()
    return None


def _list_remove(m: Engine, owner: List, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    for index, item in enumerate(owner.items):
        same = item is args[0] or m.known_truth(m.compare(ast.Eq(), item, args[0], node)) if args else None
        if same:
            del owner.items[index]
            return None
        if same is None:
            # It may be this one or a later one.
            owner.more |= MORE
            return None
    if not owner.more and m.expects("ValueError"):
        raise Signal("ValueError")
    return None


def _same_as(m: Engine, owner: List | tuple[Value, ...], args: Args, node: ast.AST) -> list[bool | None]:
    """For each element whether it equals the argument."""
    wanted = positional(args, 0)
    return [m.known_truth(m.compare(ast.Eq(), item, wanted, node)) for item in items_of(owner)]


def _index(m: Engine, owner: List | tuple[Value, ...], args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    for place, same in enumerate(_same_as(m, owner, args, node)):
        if same is None or len(args) > 1:
            return Unknown.number()
        if same:
            return place
    if behaviour(owner).is_whole() and m.expects("ValueError"):
        raise Signal("ValueError")
    return Unknown.number()


def _count(m: Engine, owner: List | tuple[Value, ...], args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    same = _same_as(m, owner, args, node)
    return same.count(True) if None not in same and behaviour(owner).is_whole() else Unknown.number()


def nothing(*args: object) -> Value:
    return None


def _lacks(m: Engine, owner: Dict, index: Value, default: Value, node: ast.AST) -> bool:
    """Whether a key is none of a dict's on this path, where a condition that nobody knows picked the keys."""
    key = hashable(index)
    if not owner.more & PICKED or key not in owner.items:
        return False
    asked = m.unknown_test(ast.In(), index, owner)
    answer = m.known_truth(asked)
    return m.library.place(asked, [owner.items[key], default], node) == 1 if answer is None else not answer


def _dict_get(m: Engine, owner: Dict, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    key = hashable(args[0]) if args else None
    if args and _lacks(m, owner, args[0], argument(args, kwargs, 1, "default"), node):
        return argument(args, kwargs, 1, "default")
    if key in owner.items or (args and same_key(m, owner, args[0], node)):
        return owner.get_item(m, args[0], node)
    if owner.more:
        return Unknown("item")
    default = argument(args, kwargs, 1, "default")
    if not args or not owner.items or is_constant(args[0]):
        return default
    return _chosen_of_table(m, owner, args[0], default, node)


def _chosen_of_table(m: Engine, owner: Dict, key: Value, default: Value, node: ast.AST) -> Value:
    """Return the entry of a table under a key that nobody knows, or the default; the default of what is no table.

    A table has names with a default, or what is called under anything: its entry is the one that a setting names.
    """
    other = [default] if default is not None or all(map(is_constant, owner.items.values())) else []
    named = bool(other) and len(owner.named()) == len(owner.items)
    if not named and not all(map(_acts, (*owner.items.values(), *other))):
        return default
    return m.library.chosen(key, [*owner.items.items(), *((None, one) for one in other)], node, by_name=True)


def _acts(value: Value) -> bool:
    """Whether a value is a function, a class or an object of one."""
    return isinstance(value, Instance) or behaviour(value).is_callable is True


def _dict_setdefault(m: Engine, owner: Dict, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    key = hashable(args[0]) if args else None
    if args and _lacks(m, owner, args[0], positional(args, 1), node):
        owner.items.pop(key)
    if key not in owner.items and not (args and same_key(m, owner, args[0], node)):
        owner.set_item(m, args[0], positional(args, 1), node)
    return owner.items[key]


def _dict_pop(m: Engine, owner: Dict, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    key = hashable(args[0]) if args else None
    if len(args) > 1 and _lacks(m, owner, args[0], args[1], node):
        owner.items.pop(key)
    if key in owner.items or (args and same_key(m, owner, args[0], node)):
        return owner.items.pop(key)
    if args:
        m.stored_under(owner, args[0], Unknown("deleted"), node)
    if len(args) > 1:
        return args[1]
    if not owner.more and not owner.unsure_keys() and is_constant(key) and m.expects("KeyError"):
        raise Signal("KeyError")
    return Unknown("item")


def _dict_copy(m: Engine, owner: Dict, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return Dict(
        copied_items(owner.items), owner.more, owner.factory, copied(owner.slots), born=m.world.position.clock,
        kind=owner.kind,
    )  # fmt: skip


def _set_remove(m: Engine, owner: Set, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if args and m.expects("KeyError") and owner.contains(m, concrete(args[0])) is False:
        raise Signal("KeyError")
    return _set_discard(m, owner, args, kwargs, node)


def _extendleft(m: Engine, owner: List, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    for item in m.elements(args[0], node) if args else ():
        _list_appendleft(m, owner, [item], {}, node)
    return None


def _rotate(m: Engine, owner: List, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    steps = known_int(args[0]) if args else 1
    if owner.more or steps is None:
        owner.items = in_unknown_order(m, owner.items, node)
    elif owner.items:
        steps %= len(owner.items)
        owner.items[:] = owner.items[-steps:] + owner.items[:-steps] if steps else owner.items
    return None


def _popitem(m: Engine, owner: Dict, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    last = m.known_truth(argument(args, kwargs, 0, "last", True))
    if not owner.items or owner.more or last is None:
        if not owner.items and not owner.more and m.expects("KeyError"):
            raise Signal("KeyError")
        return _unmodelled(owner, "popitem")
    key = (list(owner.items)[-1]) if last else next(iter(owner.items))
    return unkey(key), owner.items.pop(key)


def _move_to_end(m: Engine, owner: Dict, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    key = hashable(args[0]) if args else None
    last = m.known_truth(argument(args, kwargs, 1, "last", True))
    if key in owner.items:
        value = owner.items.pop(key)
        rest = dict(owner.items)
        owner.items.clear()
        owner.items.update({**rest, key: value} if last is not False else {key: value, **rest})
    return None


def _counts(owner: Dict) -> list[float] | None:
    """Return the counts of a Counter; None where they are not all known."""
    return None if owner.more else known_numbers(owner.items.values())


def _most_common(m: Engine, owner: Dict, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    counts = _counts(owner)
    if counts is None:
        return Unknown("most_common")
    pairs = sorted(zip(owner.items, counts), key=lambda pair: pair[1], reverse=True)
    wanted = known_int(argument(args, kwargs, 0, "n"))
    return List([(unkey(key), count) for key, count in pairs[:wanted]])


def _elements(m: Engine, owner: Dict, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    items: list[Value] = []
    for key, value in owner.items.items():
        count = known_int(value)
        if owner.more or count is None or count > limits.MAX_ITEMS:
            return Unknown("elements")
        items += [unkey(key)] * max(count, 0)
    return List(items)


def _total(m: Engine, owner: Dict, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    counts = _counts(owner)
    return Unknown.number() if counts is None else sum(counts)


def _subtract(m: Engine, owner: Dict, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    for source in (*args, Dict(dict(kwargs.items()))):
        counted(m, owner, source, -1, node)
    return None


def counter(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """collections.Counter: a dict that answers 0 for what it has not counted."""
    result = Dict({}, kind="counter", born=m.world.position.clock)
    for source in (*args, Dict(dict(known_keywords(kwargs).items()))):
        counted(m, result, source, 1, node)
    return result


def from_keys(m: Engine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """dict.fromkeys(iterable, value)."""
    result = Dict({}, born=m.world.position.clock)
    items = behaviour(args[0]).known_items(m, node) if args else []
    if items is None:
        items, result.more = m.gathered(args[0], node, perhaps_none=True)
    for item in items:
        result.set_item(m, item, positional(args, 1), node)
    return result


def _list_extend_first(m: Engine, owner: List, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if args:
        extend(m, owner, args[0], node)
    return None


def has_method(owner: Value, name: str) -> bool:
    """Whether a container has a method of that name that is modelled."""
    return (type(owner), name) in _METHODS or (isinstance(owner, Set) and name in SET_METHODS)


_OTHERS: ByKind[Engine, [str, ast.AST], Value] = ByKind()
"""What is no method of a container, by the type of its owner."""
_OTHERS.register(_of_constant, str)
_OTHERS.register(_of_constant, bytes)
_OTHERS.register(_of_constant, bool)
_OTHERS.register(_of_constant, int)
_OTHERS.register(_of_constant, float)
_OTHERS.register(_of_set, Set)
_OTHERS.register(_of_list, List)
_OTHERS.register(_of_list, Queue)
_OTHERS.register(_of_list, View)
_OTHERS.register(_of_container, Dict)
_OTHERS.register(_of_type, Native)
_OTHERS.register(_of_generator, Generator)
_OTHERS.register(_of_slice, slice)
_OTHERS.register(_of_tuple, tuple)
_SPECIAL: dict[str, Callable[..., Value]] = {
    "__getitem__": lambda m, owner, args, kwargs, node: owner.get_item(m, args[0], node),
    "__setitem__": lambda m, owner, args, kwargs, node: owner.set_item(m, args[0], args[1], node),
    "__len__": lambda m, owner, args, kwargs, node: Unknown.whole("len") if owner.more else len(owner.items),
    "__iter__": lambda m, owner, args, kwargs, node: owner.stream(m, node),
}
_METHODS: dict[tuple[type, str], Callable[..., Value]] = {
    (List, "append"): _list_append, (List, "add"): _list_append, (List, "appendleft"): _list_appendleft,
    (List, "extend"): _list_extend, (List, "insert"): _list_insert, (List, "pop"): _list_pop,
    (List, "clear"): _clear,
    (List, "copy"): _list_copy,
    (List, "popleft"): lambda m, owner, a, k, n: _list_pop(m, owner, [0], k, n),
    (List, "reverse"): _list_reverse, (List, "sort"): _list_sort, (List, "remove"): _list_remove,
    (List, "index"): _index, (List, "count"): _count,
    (tuple, "index"): _index, (tuple, "count"): _count,
    (Dict, "get"): _dict_get, (Dict, "setdefault"): _dict_setdefault,
    (Dict, "items"): lambda m, owner, a, k, n: View(owner, "items"),
    (Dict, "update"): dict_update,
    (Dict, "values"): lambda m, owner, a, k, n: View(owner, "values"),
    (Dict, "keys"): lambda m, owner, a, k, n: View(owner, "keys"),
    (Dict, "pop"): _dict_pop, (Dict, "clear"): _clear, (Dict, "copy"): _dict_copy,
    (Set, "add"): set_add, (Set, "clear"): _clear, (Set, "discard"): _set_discard,
    (Set, "remove"): _set_remove, (Set, "update"): set_update, (Set, "pop"): _set_pop,
    (Set, "difference_update"): set_update_by("difference"),
    (Set, "copy"): lambda m, owner, a, k, n: Set(list(owner.items), owner.more),
    (Set, "intersection_update"): set_update_by("intersection"),
    (Set, "symmetric_difference_update"): set_update_by("symmetric_difference"),
    (List, "extendleft"): _extendleft, (List, "rotate"): _rotate, (Dict, "popitem"): _popitem,
    (Dict, "move_to_end"): _move_to_end, (Dict, "most_common"): _most_common, (Dict, "elements"): _elements,
    (Dict, "total"): _total, (Dict, "subtract"): _subtract,
    (Dict, "fromkeys"): lambda m, owner, a, k, n: from_keys(m, a, k, n),
    (Dict, "__delitem__"): lambda m, owner, args, kwargs, node: owner.delete_item(m, args[0], node),
    (Dict, "__contains__"): lambda m, owner, args, kwargs, node: owner.contains(m, concrete(args[0])),
    **{(kind, name): method for kind in (Dict, List) for name, method in _SPECIAL.items()},
    (Queue, "put"): queues.put, (Queue, "put_nowait"): queues.put, (Queue, "get"): queues.get,
    (Queue, "get_nowait"): queues.get, (Queue, "qsize"): queues.size, (Queue, "empty"): queues.empty,
    (Queue, "full"): queues.full, (Queue, "task_done"): nothing, (Queue, "join"): nothing,
    (List, "__init__"): _list_extend_first,
    (Dict, "__init__"): dict_update,
}  # fmt: skip
