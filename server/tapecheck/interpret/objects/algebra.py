"""Operators between containers: joining, the algebra of sets, tallies, comparing and putting in order."""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Callable, Collection, Hashable

from tapecheck.interpret import limits
from tapecheck.interpret.engine import Engine
from tapecheck.interpret.objects import constants, unknowns
from tapecheck.interpret.objects.containers import extend
from tapecheck.interpret.objects.namespaces import Attributes, described
from tapecheck.interpret.values import (
    BEYOND,
    COUNTED,
    MORE,
    MORE_KEYWORDS,
    NUMBERS,
    PICKED,
    Args,
    ByKind,
    Dict,
    Kind,
    Kwargs,
    Lib,
    List,
    NotPlain,
    Origin,
    Queue,
    Set,
    Unknown,
    Value,
    behaviour,
    concrete,
    hashable,
    is_constant,
    is_unseen,
    items_of,
    known_elements,
    known_numbers,
    measured,
    only,
    perhaps_overwritten,
    plain,
    rest_of,
    unkey,
    unwrapped,
)


def container_operator(machine: Engine, op: ast.operator, left: Value, right: Value, node: ast.AST) -> Value:
    left, right = unwrapped(left), unwrapped(right)
    special = _OF_OPERATOR.get(type(op))
    made = special(machine, op, left, right, node) if special is not None else None
    if made is not None:
        return made
    if isinstance(left, Dict) and isinstance(right, Dict):
        if left.kind == "counter" and type(op) in _TALLIES:
            return _tally(machine, op, left, right)
        if type(op) is ast.BitOr:
            return Dict({**left.items, **right.items}, left.more | right.more, born=machine.world.position.clock)
    keys = isinstance(left, List) and left.kind == "keys"
    if type(op) in _SET_OPERATORS and (keys or Set in (type(left), type(right))):
        return set_operation(machine, _SET_OPERATORS[type(op)], left, [right], node)
    result = Unknown("result")
    if Lib in (type(left), type(right)):
        operands = (unknowns.setting(machine, left), unknowns.setting(machine, right))
        result.origin = Origin(type(op).__name__, operands)
    return result


def _sum(machine: Engine, op: ast.operator, left: Value, right: Value, node: ast.AST) -> Value:
    if isinstance(left, tuple) and isinstance(right, tuple):
        most = limits.MOST_KEPT
        both = left + right
        return both if len(both) <= most else machine.new_list([*left[:most]], node, True)
    if not isinstance(left, List) and not isinstance(right, List):
        return None
    joined: list[Value] = []
    rest = 0
    places: list[tuple[int, Value]] = []
    for side in (left, right):
        known = behaviour(side).known_items(machine, node)
        if known is None:
            rest |= rest_of(side)
            known = machine.gathered(side, node)[0] if rest_of(side) & (PICKED | NUMBERS) else []
        else:
            places.append((len(joined), side))
        joined += known
    return with_parts(machine.new_list(joined, node, rest), places)


def with_parts(made: List, places: list[tuple[int, Value]]) -> List:
    """Return a list having noted that it has the elements of others, each from a place on."""
    for place, part in places:
        if place < len(made.items):
            made.took(part, place)
    return made


def _product(machine: Engine, op: ast.operator, left: Value, right: Value, node: ast.AST) -> Value:
    for sequence, count in ((left, right), (right, left)):
        if isinstance(sequence, (tuple, List)):
            return _repeated(machine, sequence, count, node)
    return None


def _formatted(machine: Engine, op: ast.operator, left: Value, right: Value, node: ast.AST) -> Value:
    if type(left) is not str:
        return None
    try:
        return constants.arithmetic(machine, op, operator.mod, left, plain(right))
    except NotPlain:
        return Unknown.text()


_OF_OPERATOR: dict[type[ast.operator], Callable[[Engine, ast.operator, Value, Value, ast.AST], Value]] = {
    ast.Add: _sum, ast.Mult: _product, ast.Mod: _formatted,
}  # fmt: skip
"""What an operator does with sequences and text; None where it is given neither."""


def _repeated(machine: Engine, sequence: tuple[Value, ...] | List, count: Value, node: ast.AST) -> Value:
    items = list(items_of(sequence))
    if isinstance(count, int) and 0 <= count * len(items) <= limits.MAX_REPEATED:
        repeated = items * count
        return tuple(repeated) if isinstance(sequence, tuple) else machine.new_list(repeated, node, sequence.more)
    if type(count) is Unknown and ((behaviour(sequence).is_whole() and not items) or machine.takes_nothing(node)):
        return () if isinstance(sequence, tuple) else machine.new_list([], node)
    made = machine.new_list(items, node, behaviour(sequence).rest() | MORE)
    return measured(made, Unknown.hanging_on("len", Kind.WHOLE, unknowns.setting(machine, count)))


def augment(machine: Engine, op: ast.operator, owner: Value, value: Value, node: ast.AST) -> bool:
    """`+=`, `|=` and the like, where they change a container itself."""
    change = _AUGMENTS.get(type(owner))
    return change is not None and change(machine, owner, op, value, node)


def _augment_list(machine: Engine, owner: List, op: ast.operator, value: Value, node: ast.AST) -> bool:
    if type(op) is ast.Add:
        extend(machine, owner, value, node)
        return True
    made = container_operator(machine, op, owner, value, node) if type(op) is ast.Mult else None
    if isinstance(made, List):
        owner.items[:] = made.items
        owner.more |= made.more
    return isinstance(made, List)


def _augment_dict(machine: Engine, owner: Dict, op: ast.operator, value: Value, node: ast.AST) -> bool:
    updates = type(op) is ast.BitOr and owner.kind == "dict"
    if updates:
        dict_update(machine, owner, [value], {}, node)
    return updates


def _augment_set(machine: Engine, owner: Set, op: ast.operator, value: Value, node: ast.AST) -> bool:
    name = _SET_OPERATORS.get(type(op))
    if name == "union":
        set_update(machine, owner, [value], {}, node)
    elif name is not None:
        set_update_by(name)(machine, owner, [value], {}, node)
    return name is not None


_AUGMENTS: ByKind[Engine, [ast.operator, Value, ast.AST], bool] = ByKind()
"""What changes a container itself; `keys |= other` makes a new set."""
_AUGMENTS.register(_augment_list, List, Queue)
_AUGMENTS.register(_augment_dict, Dict)
_AUGMENTS.register(_augment_set, Set)


# -- sets -------------------------------------------------------------------------------------------------------

_SET_OPERATORS: dict[type[ast.operator], str] = {
    ast.BitAnd: "intersection", ast.BitOr: "union", ast.Sub: "difference", ast.BitXor: "symmetric_difference",
}  # fmt: skip


SET_METHODS = frozenset((*_SET_OPERATORS.values(), "issubset", "issuperset", "isdisjoint"))


_SET_TESTS: dict[type[ast.cmpop], Callable[..., bool]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip


_TALLIES: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.BitAnd: min, ast.BitOr: max,
}  # fmt: skip


def _as_set(value: Value) -> dict[Hashable, Value] | None:
    """Return the elements of a set or dict's keys by their hashable selves; None where they are not all known."""
    return None if behaviour(value).rest() else _as_picked(value)


def _as_picked(value: Value) -> dict[Hashable, Value] | None:
    """Return the same of a set or list that may lack any of these elements."""
    if not isinstance(value, (List, Set)) or value.more & BEYOND or only(value.items, Unknown):
        return None
    return {hashable(item): item for item in value.items}


def set_operation(machine: Engine, name: str, owner: Value, others: Args, node: ast.AST) -> Value:
    """union, intersection and the like; an unknown set where an element is not known."""
    items, rest = _as_picked(owner), behaviour(owner).rest()
    for other in others:
        listed = behaviour(other).known_items(machine, node)
        lacks = 0 if listed is not None else rest_of(other)
        right = _as_picked(Set(machine.gathered(other, node)[0] if listed is None else listed, lacks))
        if items is None or right is None or (name.startswith("is") and rest | lacks):
            return Unknown.plain("test") if name.startswith("is") else Unknown("set")
        found = _combined(name, set(items), set(right), rest, lacks)
        rest |= lacks
        if name.startswith("is"):
            return bool(found)
        # Python keeps no order here; the dry run keeps that of the left side.
        items |= {key: item for key, item in right.items() if key not in items}
        items = {key: item for key, item in items.items() if key in found}
    return Unknown("set") if items is None else Set(list(items.values()), rest)


def _combined(name: str, left: set[Hashable], right: set[Hashable], rest: int, lacks: int) -> Collection[Hashable]:
    """Return what an operation makes of two sets, with all that may be in it where either may lack some elements."""
    if lacks and name == "difference":
        return left
    found: set[Hashable] = getattr(left, "union" if rest | lacks and name == "symmetric_difference" else name)(right)
    return found


def set_update_by(name: str) -> Callable[[Engine, Set, Args, Kwargs, ast.AST], Value]:
    def update(m: Engine, owner: Set, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        result = set_operation(m, name, owner, args, node)
        if isinstance(result, Set):
            owner.items, owner.more = result.items, result.more
        else:
            owner.more |= MORE
        return None

    return update


def set_comparison(op: ast.cmpop, left: Value, right: Value) -> Value:
    items, others = _as_set(left), _as_set(right)
    if items is None or others is None or type(op) not in _SET_TESTS:
        return Unknown.plain("test")
    return bool(_SET_TESTS[type(op)](set(items), set(others)))


def _tally(machine: Engine, op: ast.operator, left: Dict, right: Dict) -> Value:
    """`+`, `-`, `&` and `|` of two Counters: only counts above zero are kept."""
    result = Dict({}, left.more | right.more, kind="counter", born=machine.world.position.clock)
    for key in dict.fromkeys((*left.items, *right.items)):
        counts = known_numbers(side.items.get(key, 0) for side in (left, right))
        if counts is None:
            return Unknown("counter")
        count = _TALLIES[type(op)](*counts)
        if count > 0:
            result.items[key] = count
    return result


def ordering(machine: Engine, op: ast.cmpop, left: Value, right: Value, node: ast.AST) -> Value:
    """`<` and the like of two sequences: the first elements that differ decide."""
    if any(known_elements(side) is None for side in (left, right)) or type(op) not in _SET_TESTS:
        return Unknown.plain("test")
    ours, theirs = behaviour(left).known_items(machine, node), behaviour(right).known_items(machine, node)
    if ours is None or theirs is None:
        return Unknown.plain("test")
    for mine, other in zip(ours, theirs):
        same = machine.known_truth(machine.compare(ast.Eq(), mine, other, node))
        if same is None:
            return Unknown.plain("test")
        if not same:
            return machine.compare(op, mine, other, node)
    return bool(_SET_TESTS[type(op)](len(ours), len(theirs)))


def ordered(machine: Engine, items: list[Value], kwargs: Kwargs, node: ast.AST) -> list[int] | None:
    """Return the places of elements in sorted order by `key` and `reverse`; None where nobody knows."""
    key = kwargs.get("key")
    keys = [machine.call(key, [item], {}, node) if key is not None else item for item in items]
    reverse = machine.known_truth(kwargs.get("reverse", False))
    if reverse is None:
        return None

    def precedes(left: int, right: int) -> int:
        for first, second, answer in ((left, right, -1), (right, left, 1)):
            truth = machine.known_truth(machine.compare(ast.Lt(), keys[first], keys[second], node))
            if truth is None:
                raise NotPlain
            if truth:
                return answer
        return 0

    # The comparisons of sorting are no conditions of the program.
    varying = machine.world.comparisons.varying
    try:
        known = [plain(value) for value in keys]
        return sorted(range(len(items)), key=known.__getitem__, reverse=reverse)
    except (NotPlain, TypeError):
        try:
            return sorted(range(len(items)), key=functools.cmp_to_key(precedes), reverse=reverse)
        except NotPlain:
            return None
    finally:
        machine.world.comparisons.varying = varying


def set_update(m: Engine, owner: Set, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    for source in args:
        for item in _taken_in(m, owner, source, node):
            set_add(m, owner, [item], {}, node)
    return None


def _taken_in(m: Engine, owner: Set | Dict, source: Value, node: ast.AST) -> list[Value]:
    """Return the elements of an iterable that a container takes in, and note in that what nobody knows of others."""
    items = behaviour(source).known_items(m, node)
    if items is not None:
        return items
    owner.more |= rest_of(source)
    return m.gathered(source, node)[0] if rest_of(source) & PICKED else []


def dict_update(m: Engine, owner: Dict, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    for source in map(unwrapped, args):
        if owner.kind == "counter":
            counted(m, owner, source, 1, node)
        elif isinstance(source, Dict):
            _takes_after(m, owner, source)
            for key, value in source.items.items():
                owner.set_item(m, unkey(key), value, node)
            owner.more |= source.more
        else:
            if is_unseen(source):
                _overwritten(m, owner, source, node)
            pairs, rest = m.gathered(source, node, perhaps_none=True)
            owner.more |= rest
            for pair in pairs:
                both = behaviour(pair).known_items(m, node)
                if both is not None and len(both) == 2:
                    owner.set_item(m, both[0], both[1], node)
                else:
                    owner.more |= MORE
    for key, value in kwargs.items():
        if key == MORE_KEYWORDS:
            owner.more |= MORE
        else:
            owner.set_item(m, key, value, node)
    return None


def _takes_after(m: Engine, owner: Dict, source: Dict) -> None:
    """Note that an object gets the attributes of another, and with them what torch keeps of it."""
    if type(owner.items) is Attributes and (other := described(source)) is not None:
        m.library.takes_after(owner.items.owner, other)


def spread_over(m: Engine, owner: Dict, source: Value, node: ast.AST) -> None:
    """Note that what a dict holds may be stored over by the keys of another mapping that nobody knows."""
    unseen = [source] if is_unseen(source) or rest_of(source) & MORE else []
    unseen += (key for other in only([source], Dict) for key in map(unkey, other.items) if is_unseen(key))
    for one in unseen[:1]:
        m.library.trusted_keys(owner, one, node)


def _overwritten(m: Engine, owner: Dict, options: Value, node: ast.AST) -> None:
    """Note that what a dict holds may have been stored over by options of which nobody knows what is in them."""
    m.library.trusted_keys(owner, options, node)
    if not isinstance(owner.items, Attributes) and not any(isinstance(key, str) for key in owner.items):
        # A dict of many keys is made by storing one after the other: each time it would be looked through.
        return
    if isinstance(owner.items, Attributes):
        owner.items.overwritten(m, options, node)
    else:
        perhaps_overwritten(m, owner.items, options, node)


def stored_under(m: Engine, owner: Dict, index: Value, value: Value, node: ast.AST) -> Hashable:
    """Return the key of the entry that a value is stored over by a name that nobody knows; where that is not known,
    None, and note that it may be any that is there.
    """
    if not is_unseen(index):
        return None
    if not is_name(index):
        m.library.trusted_keys(owner, index, node)
        return None
    if is_constant(value) or (isinstance(value, Unknown) and value.node is None):
        _overwritten(m, owner, index, node)
        return None
    over = m.library.overwritten(owner, index, value, node)
    if over is None:
        m.library.trusted_keys(owner, index, node)
    return over


def is_name(index: Lib | Unknown) -> bool:
    """Return whether a key that nobody knows may be a name: no number, and nothing that a loader gives."""
    if isinstance(index, Lib):
        return True
    kinds = (index.kind, unknowns.root(index).kind)
    return not any(kind in COUNTED for kind in kinds) and index.concrete is None and not index.trust.assumed


def set_add(m: Engine, owner: Set, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if args and owner.contains(m, concrete(args[0])) is not True:
        owner.items.append(args[0])
        owner.stored_at = m.world.position.site(node)
    return None


def counted(m: Engine, owner: Dict, source: Value, sign: int, node: ast.AST) -> None:
    """Count the elements of an iterable, or add the counts of a mapping, into a Counter."""
    source = unwrapped(source)
    if isinstance(source, Dict):
        pairs = list(source.items.items())
        owner.more |= source.more
    else:
        pairs = [(hashable(item), 1) for item in _taken_in(m, owner, source, node)]
    for key, count in pairs:
        owner.items[key] = m.binary(ast.Add() if sign > 0 else ast.Sub(), owner.items.get(key, 0), count, node)
