"""Lists, tuples, dicts, sets and everything that can be iterated: their elements, asked for and stored."""

from __future__ import annotations

import ast
from collections.abc import Hashable

from tapecheck.interpret import limits
from tapecheck.interpret.engine import Engine
from tapecheck.interpret.objects import carry, syntax
from tapecheck.interpret.objects.unknowns import is_drawn
from tapecheck.interpret.state import Growth
from tapecheck.interpret.values import (
    MORE,
    NUMBERS,
    Args,
    Dict,
    Instance,
    Lib,
    List,
    Native,
    Set,
    Signal,
    Unknown,
    Value,
    behaviour,
    hashable,
    is_constant,
    path_of,
    positional,
    rest_of,
    unkey,
    user_class,
    with_numbers,
)


def extend(machine: Engine, target: List, value: Value, node: ast.AST) -> None:
    if behaviour(value).is_iterator:
        drawn, rest = machine.gathered(value, node, perhaps_none=True)
        append_all(machine, target, drawn, node, rest)
        return
    items, rest = behaviour(value).known_items(machine, node), 0
    if items is None and machine.takes_nothing(node):
        items = []
    elif items is None:
        rest = rest_of(value)
        if isinstance(value, (List, Set)):
            items = list(value.items)
        else:
            items = behaviour(value).guessed_items(machine, 1, node) if not isinstance(value, str) else []
    elif target.bound is None and len(target.items) + len(items) <= limits.MOST_KEPT:
        target.took(value, len(target.items))
    append_all(machine, target, items, node, rest)


def append_all(machine: Engine, target: List, items: list[Value], node: ast.AST, rest: int = 0) -> None:
    """Append elements to a list; `rest` says what nobody knows of further ones."""
    are_numbers = bool(target.more & NUMBERS)
    target.more |= rest
    room = max(limits.MOST_KEPT - len(target.items), 0)
    if len(items) > room:
        # It may double with every line: what is beyond counts as elements nobody knows.
        target.more, items = target.more | MORE, items[:room]
    target.items.extend(items)
    if items or not are_numbers:
        # Those that were there before are not looked at again each time.
        target.more = with_numbers(target.more, items if are_numbers else target.items)
    if machine.world.position.iteration:
        machine.world.comparisons.counted.note(Growth(target, len(items)))
    if target.bound is not None and len(target.items) > target.bound:
        del target.items[: len(target.items) - target.bound]
    if target.limit is not None:
        held = tuple(one.node for item in items for one in carry.tensors_in(item) if one.node is not None)
        if held:
            machine.world.assumptions.note("option", "there is room for all that is stored", node, held)
    if not all(map(is_constant, items)):
        target.stored_at = machine.world.position.site(node)


def of_library(machine: Engine, value: Value) -> bool:
    """Whether a value is one of Python's own functions or what a library defines: it knows nothing of the program."""
    return isinstance(value, Lib) or (isinstance(value, Native) and machine.library.builtins.get(value.name) is value)


TYPE_NAMES = frozenset(("str", "dict", "list", "set", "frozenset", "tuple", "int", "float", "bytes"))


def exception_signal(args: Args, node: ast.AST) -> Signal:
    """Return the exception that `generator.throw(...)` raises."""
    value = args[1] if len(args) > 1 else (positional(args, 0))
    cls = positional(args, 0)
    made = user_class(value)
    path = path_of(cls) or (value.lib if isinstance(value, Instance) else "")
    return Signal(made.name if made is not None else path.rsplit(".", 1)[-1] or "Exception", value)


def guessed_parts(machine: Engine, value: Value, count: int, star: int | None, node: ast.AST) -> list[Value]:
    """Return parts that a value of unknown length is taken apart into; the one at `star` is a list of any number."""
    parts = behaviour(value).guessed_items(machine, count, node)
    if star is not None:
        parts[star] = List([parts[star]], more=True)
    return parts


def same_key(machine: Engine, owner: Dict, index: Value, node: ast.AST) -> bool:
    """Whether a key that nobody knows is one that was stored under before; the entry is found under it from then on.

    Asked only where a graph hangs on it: where the dict holds one from an earlier round of the loops that are running.
    A round goes over keys that differ from one another, unless they are drawn by chance.
    """
    key = hashable(index)
    if key in owner.items or not (_unsure(key) or owner.unsure_keys()) or not machine.world.position.iteration:
        return False
    met = _read_as(machine, owner, index)
    if met is not None:
        # What was read under this index is what it stores over.
        _keep_under(owner, key, met)
        return True
    if not any(map(_unsure, owner.items)) and not owner.more and owner.factory is None:
        # One of the keys that are known: which one is tried.
        return False
    by_chance = is_drawn(index)
    for other in _newest_keys(owner):
        if (_unsure(key) or _unsure(other)) and _is_of_another_round(machine, owner, other, by_chance):
            break
    else:
        return False
    if not _was_stored_under(machine, owner, index, node):
        return False
    _keep_under(owner, key, other)
    return True


def _was_stored_under(machine: Engine, owner: Dict, index: Value, node: ast.AST) -> bool:
    """Whether this path takes a key that nobody knows for one that was stored under before."""
    asked = machine.unknown_test(ast.In(), index, owner)
    answer = machine.known_truth(asked)
    if answer is None:
        written = machine.world.position.notes.of(node, syntax.text_of) if isinstance(node, ast.expr) else "the dict"
        text = f"the key of {written} was stored under before"
        answer = machine.world.choices.choose(node, True, text)
        machine.settle(asked, answer)
    return answer


def _read_as(machine: Engine, owner: Dict, index: Value) -> Hashable | None:
    """Return the unknown key that an index was said to be where the dict was read under it, None where it was not.

    Of many keys the newest are asked about: to ask about each of them for each key that is stored takes their square.
    """
    if not isinstance(index, Unknown):
        return None
    for key in _newest_keys(owner):
        if _unsure(key) and machine.known_truth(machine.unknown_test(ast.Eq(), index, unkey(key))):
            return key
    return None


def _newest_keys(owner: Dict) -> list[Hashable]:
    """Return the keys of a dict, the newest first, as many as are asked about."""
    return list(owner.items)[: -limits.MOST_KEYS_ASKED - 1 : -1]


def _keep_under(owner: Dict, key: Hashable, before: Hashable) -> None:
    """Find an entry under another key from now on, in its place."""
    entries = [(key if one == before else one, value) for one, value in owner.items.items()]
    owner.items.clear()
    owner.items.update(entries)
    if before in owner.slots:
        owner.slots[key] = owner.slots.pop(before)
    owner.rewritten.add(key)


def _is_of_another_round(machine: Engine, owner: Dict, key: Hashable, by_chance: bool) -> bool:
    """Whether a dict has a graph under a key from an earlier round: keys `by_chance` may come again within one."""
    slot, now = owner.slots.get(key), machine.world.position.iteration
    if slot is None or slot.at.iteration == now:
        return False
    same_round = not by_chance and len(now) > 1 and slot.at.iteration[: len(now) - 1] == now[:-1]
    return not same_round and bool(carry.tensors_in(owner.items[key]))


def _unsure(key: object) -> bool:
    """Whether nobody knows which object a key is."""
    if not isinstance(key, tuple):
        return False
    return isinstance(unkey(key), Unknown) if len(key) == 2 and key[0] == "?" else any(map(_unsure, key))
