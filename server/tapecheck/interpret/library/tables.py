"""Which of several values an index that nobody knows takes: an entry of a table, an element of a list.

Entries that do different things to graphs are tried, each as a condition of its own. Entries that are settings, and
records of such, are read together: one of several constants is a setting, which has a usual value.
"""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeGuard, TypeVar

from tapecheck.interpret import limits
from tapecheck.interpret.engine import Engine
from tapecheck.interpret.library.states import OptimizerState, state_of
from tapecheck.interpret.objects import carry, syntax, unknowns
from tapecheck.interpret.objects.algebra import is_name
from tapecheck.interpret.values import (
    Bound,
    Class,
    Context,
    Dict,
    Instance,
    Kind,
    Lib,
    List,
    Native,
    Origin,
    Set,
    Tensor,
    Unknown,
    Value,
    behaviour,
    bound_function,
    expression,
    function_of,
    is_constant,
    is_module,
    is_number,
    is_object,
    is_unseen,
    only,
    path_of,
    unkey,
)

Key = TypeVar("Key", bound=Hashable)
Entries = Sequence[tuple[Hashable, Value]]


def chosen(machine: Engine, index: Value, entries: Entries, node: ast.AST, *, by_name: bool = False) -> Value:
    """Return which of several values, by their keys, an index chooses that nobody knows: on this path the one that
    the condition says, or what several settings have in common. `by_name` says whether the keys are those of a table.
    """
    if len(entries) < 2 or not is_unseen(index):
        return entries[0][1]
    values = [value for _, value in entries]
    differ = _differ(values) or _are_stores(values) or _rows_differ(values, by_name=by_name)
    if differ or (not by_name and _are_graphs(values)):
        places = _tried(machine, index, entries, node)
        return _either(machine, index, [entries[at] for at in places]) if len(places) > 1 else values[places[0]]
    # A number that nobody knows is often one that a loop counts, over keys that were stored like this.
    if not by_name or is_name(index) or unknowns.is_drawn(index):
        taken_as_first(machine, index, values[0], node)
    _trust_of_optimizers(machine, index, values, node)
    return _either(machine, index, entries)


def keeps_default(machine: Engine, value: Value, node: ast.expr) -> bool:
    """Return whether the options that a value is put together of have their defaults on this path, which the condition
    says.
    """
    options = unknowns.options_of(value)
    held = (
        _holds(machine, _test(machine, one, default), _said(one, default, node), node, at)
        for at, one in enumerate(options)
        if is_constant(default := unknowns.default_of(one))
    )
    return 0 < len(options) < limits.CHOSEN and all(held)


def taken_as_first(machine: Engine, index: Value, first: Value, node: ast.AST) -> bool:
    """Note that what an index chooses that nobody knows is taken for one of several values that are alike; return
    whether it is one that has a graph.
    """
    if is_unseen(index) and (about := _nodes_in([first])):
        _trusted(machine, index, about, node)
        return True
    return False


def taken_for_another(machine: Engine, index: Value, leaves: tuple[int, ...], node: ast.AST) -> None:
    """Note that an index is taken for another element than the one before: both may be one."""
    if is_unseen(index) and leaves:
        machine.world.assumptions.note("effect", f"`{_written(index, node)}` chooses another one", node, leaves)


def place(machine: Engine, index: Value, items: Sequence[Value], node: ast.AST, *stored: Value) -> int | None:
    """Return which place of a list an index that nobody knows is on this path; None where the index is known, or where
    what the list holds is alike, and what is `stored` there.
    """
    if len(items) < 2 or not isinstance(index, (Lib, Tensor, Unknown)):
        return None
    places = machine.world.knowledge.places
    known = places.get(expression(index), len(items))
    if known < len(items):
        return known
    if not _differ([*items, *stored]) and not _rows_differ(items, by_name=False):
        if not _are_graphs(items):
            if is_unseen(index):
                _trust_of_optimizers(machine, index, items, node)
            return None
        # Indices that are new in each round are as many places: nobody knows that they take one graph twice.
        free = [at for at in range(len(items)) if at not in places.values()]
        if free and not _is_first(machine, index, node):
            places[expression(index)] = free[0]
            return free[0]
    asked = index if is_unseen(index) else Unknown.whole(behaviour(index).name_as_type())
    tried = places[expression(index)] = _tried(machine, asked, [*enumerate(items)], node)[0]
    return tried


def overwritten(machine: Engine, owner: Dict, index: Value, value: Value, node: ast.AST) -> Hashable:
    """Return the key of the entry that a value is stored over on this path, by a name that nobody knows; None where it
    is none of those that are there, or where that does not matter.
    """
    if not is_unseen(index) or not is_name(index):
        return None
    named = [*owner.named().items()]
    if not named or len(named) < len(owner.items) or not _differ([*owner.items.values(), value]):
        return None
    return [*named, (None, value)][_tried(machine, index, [*named, (None, value)], node)[-1]][0]


def drawn(machine: Engine, items: list[Value], node: ast.AST) -> list[Value]:
    """Return some values in an order that nobody knows, where it matters: any of them may be at any place."""
    rest: list[tuple[int, Value]] = [*enumerate(items)]
    order: list[Value] = []
    while len(rest) > 1 and len(order) < limits.CHOSEN and isinstance(node, ast.expr):
        left = [value for _, value in rest]
        if not _differ(left) and not _are_graphs(left):
            break
        taken = _tried(machine, Unknown.whole(syntax.text_of(node)), rest, node, len(order))[0]
        order.append(rest.pop(taken)[1])
    return [*order, *(value for _, value in rest)] if order else items


def _differ(values: Sequence[Value]) -> bool:
    """Return whether some values are functions, classes or objects that do different things when called, or some have
    a graph and others none.
    """
    looked = values[-limits.LOOKED_AT :]
    return len({_what(value) for value in looked} - {None}) > 1 or {"yes", "no"} <= {*map(_carries, looked)}


def _are_graphs(values: Sequence[Value]) -> bool:
    """Return whether a few values are tensors with a graph each: a backward frees that of one of them."""
    held = [value for value in values if isinstance(value, Tensor) and value.node is not None and not value.is_leaf]
    return 1 < len(held) == len(values) <= limits.CHOSEN


def _are_stores(values: Sequence[Value]) -> bool:
    """Return whether a few values are containers that take something up: empty ones, or such as hold graphs."""
    stores = {id(value): value for kind in (List, Dict, Set) for value in only(values, kind)}
    taking = (value for value in stores.values() if not (value.items or value.more) or _carries(value) == "yes")
    return 1 < len(stores) == len(values) <= limits.CHOSEN and len([*taking]) == len(values)


def _what(value: Value) -> object:
    """Return what says what a call of a value does: the function or class that it is, or is an object of."""
    if isinstance(value, Instance):
        return (value.cls or value.lib, value.module and _is_trained(value, limits.HELD_DEPTH))
    if isinstance(value, Class):
        return value
    if isinstance(value, Context):
        return ("context", value.decorate)
    match value:
        # A method does what it does to its object.
        case Bound(receiver=owner):
            return (bound_function(value), id(owner))
        case Native(name=name, receiver=owner):
            return (name, id(owner))
    return function_of(value) or path_of(value) or None


def _is_trained(module: Instance, depth: int) -> bool:
    """Return whether a module has parameters that require grad."""
    for value in module.attrs.values():
        if isinstance(value, Tensor) and value.parameter and value.graph != "no":
            return True
        if is_module(value) and depth and _is_trained(value, depth - 1):
            return True
    return False


def _carries(value: Value) -> str:
    """Return whether a value has a graph or holds one: an empty text where nobody knows, or where it is no data."""
    if isinstance(value, (Tensor, Unknown)):
        borne = value.borne()
        return borne if borne in ("yes", "no") else ""
    if any(one.borne() == "yes" for one in carry.tensors_in(value)):
        return "yes"
    return "no" if _is_data(value, limits.HELD_DEPTH) else ""


def _is_data(value: Value, depth: int) -> bool:
    """Return whether a value is a number, a tensor without graph, or holds nothing but such and texts."""
    if isinstance(value, (tuple, List, Dict)) or _is_record(value):
        held = [*islice(behaviour(value).children(), limits.LOOKED_AT)]
        return depth > 0 and all(is_constant(one) or _is_data(one, depth - 1) for one in held)
    return is_number(value) or (isinstance(value, (Tensor, Unknown)) and value.borne() == "no")


def _is_record(value: Value) -> TypeGuard[Instance]:
    """Whether a value is an object of a class of the program that is no module: what it holds is its own."""
    return is_object(value) and not value.module and not value.lib


def _rows_differ(values: Sequence[Value], *, by_name: bool) -> bool:
    """Return whether some rows hold different settings and can be written to, or are of different lengths.

    In a list or tuple, rows of numbers are the program's data, of which one is as good as another.
    """
    rows = values[: limits.COMPARED]
    if not any(isinstance(value, Dict) or _is_record(value) for value in rows):
        if not by_name or _are_settings(rows) or not any(isinstance(value, (tuple, List)) for value in rows):
            return False
    return len({_content(value, limits.HELD_DEPTH) for value in rows}) > 1


def _are_settings(values: Sequence[Value]) -> bool:
    """Return whether values are constants, or tuples of as many of them each: read together they are one setting."""
    if all(map(is_constant, values)):
        return True
    rows = only(values, tuple)
    return len(rows) == len(values) and len({*map(len, rows)}) == 1 and all(map(_are_settings, zip(*rows)))


def _content(value: Value, depth: int) -> Hashable:
    """Return what a value holds, as a key: of what is no constant, what it does and whether it has a graph."""
    if is_constant(value):
        return type(value), value
    if depth == 0:
        return None
    if isinstance(value, (tuple, List)):
        return tuple(_content(one, depth - 1) for one in islice(behaviour(value).children(), limits.LOOKED_AT))
    if isinstance(value, Dict) or _is_record(value):
        held = value.items if isinstance(value, Dict) else value.attrs
        return tuple((name, _content(one, depth - 1)) for name, one in held.items())
    return _what(value) or _carries(value)


# -- entries that are tried --------------------------------------------------------------------------------------------


def _tried(machine: Engine, index: Lib | Unknown, entries: Entries, node: ast.AST, asked_before: int = 0) -> list[int]:
    """Return the place of the entry that is tried on this path: the first whose key the index is said to be, what an
    option chooses by default before others; or the places of all that are left. Note where they differ.

    `asked_before` counts the choices that the same node made before this one.
    """
    held = _nodes_in([entries[0][1]])
    if not isinstance(node, ast.expr):
        _trusted(machine, index, held, node)
        return [0]
    if len(entries) > limits.CHOSEN:
        _trusted(machine, index, held, node)
    asked = [(_test(machine, index, key), key, place) for place, (key, _) in enumerate(entries)]
    asked.sort(key=lambda one: behaviour(one[0]).by_default() is not True)
    if not _is_first(machine, index, node, asked_before):
        # Another index in a later round is answered alike, and may be another place.
        _trusted(machine, index, _nodes_in(value for _, value in entries), node)
    for at, (test, key, found) in enumerate(asked[: min(limits.CHOSEN, len(asked)) - 1]):
        if _holds(machine, test, _said(index, key, node), node, asked_before * limits.CHOSEN + at):
            return [found]
    if len(asked) > limits.CHOSEN:
        return [place for _, _, place in asked[limits.CHOSEN - 1 :]]
    test, key, found = asked[-1]
    if key is not None and machine.known_truth(test) is None:
        machine.settle(test, True)
    return [found]


def _is_first(machine: Engine, index: Value, node: ast.AST, asked_before: int = 0) -> bool:
    """Return whether an index is the one that a node had when it first chose: not another one of a later round."""
    first = machine.world.knowledge.first_asked.setdefault((node, asked_before), expression(index))
    return first == expression(index)


def _nodes_in(values: Iterable[Value]) -> list[int]:
    """Return the nodes and leaves of the tensors that some values hold."""
    held = (one for value in values for one in carry.tensors_in(value, into_objects=False))
    return [one.node for one in held if one.node is not None]


def _trust_of_optimizers(machine: Engine, index: Lib | Unknown, values: Iterable[Value], node: ast.AST) -> None:
    """Note that an index is taken to choose one of several optimizers."""
    if stepped := [one for value in values for one in _stepped_by(value)]:
        _trusted(machine, index, stepped, node)


def _stepped_by(value: Value) -> Iterator[int]:
    """Yield the leaves of what an optimizer steps: another one steps others."""
    state = state_of(value, OptimizerState)
    for one in state.params if state is not None else ():
        if one.node is not None:
            yield one.node


def _test(machine: Engine, index: Lib | Unknown, key: Hashable) -> Value:
    return machine.unknown_test(ast.Eq(), index, unkey(key))


def _trusted(machine: Engine, index: Lib | Unknown, about: Sequence[int], node: ast.AST) -> None:
    text = f"`{_written(index, node)}` chooses none of the others"
    machine.world.assumptions.note("option", text, node, tuple(about))


def _holds(machine: Engine, test: Value, said: str, node: ast.expr, at: int) -> bool:
    """Return whether an index that nobody knows is a key on this path; `at` counts the keys asked about."""
    answer = machine.known_truth(test)
    if answer is None:
        world = machine.world
        questions, choices = world.position.notes.of(node, _questions), world.choices
        does = behaviour(test)
        answer = choices.choose(
            questions[at], True, said,
            hidden=unknowns.hidden(machine, test), usual=does.by_default(), setting=does.given_as,
        )  # fmt: skip
        first = world.position.span(questions[0])
        choices.among[choices.answered[-1]] = first.file, first.line, first.column
        machine.settle(test, answer)
    return answer


def _questions(node: ast.expr) -> list[ast.expr]:
    """Return the questions which key a subscript or call chooses: each is a condition of its own, at its own column."""
    places = [ast.copy_location(ast.Constant(None), node) for _ in range(limits.CHOSEN * limits.CHOSEN)]
    for at, question in enumerate(places):
        question.col_offset += at
    return [*places]


def _name_of(index: Lib | Unknown) -> str:
    return index.path if isinstance(index, Lib) else index.name


def _said(index: Lib | Unknown, key: Hashable, node: ast.expr) -> str:
    """Return how it is said that an index is a key: of what picks by chance, or puts in an order, what comes first."""
    if _is_chance(index, node):
        return f"{_name_of(index)} {'picks' if isinstance(node, ast.Call) else 'begins with'} number {key!r}"
    written, shown = _written(index, node), _shown(unkey(key))
    return f"the key of {syntax.text_of(node)} was stored under before" if written == shown else f"{written} == {shown}"


def _shown(key: Value) -> str:
    """Return a key as a program would write it, one that is not known by the name of what it is."""
    if isinstance(key, tuple):
        return f"({', '.join(map(_shown, key))}{',' * (len(key) == 1)})"
    if isinstance(key, (Lib, Unknown)):
        return _name_of(key)
    return repr(key) if is_constant(key) else "another key"


def _is_chance(index: Lib | Unknown, node: ast.AST) -> bool:
    """Whether a call itself picks, or puts in an order: no index is written."""
    return isinstance(node, ast.expr) and _name_of(index) == syntax.text_of(node)


def _written(index: Lib | Unknown, node: ast.AST) -> str:
    """Return an index as a subscript or a call has it; its name where it is not written there, or is a slice's."""
    if isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Slice):
        return syntax.text_of(node.slice)
    if isinstance(node, ast.Call) and node.args and not _is_chance(index, node):
        return syntax.text_of(node.args[0])
    return _name_of(index)


# -- entries that are settings -----------------------------------------------------------------------------------------


def _either(machine: Engine, index: Lib | Unknown, entries: Entries) -> Value:
    """Return what some entries have in common, where they are settings or records of such: by default what the index
    chooses by default.
    """
    alike = _are_settings([value for _, value in entries])
    held = (_content(value, limits.HELD_DEPTH) if alike else id(value) for _, value in entries)
    asked = ("entry", expression(index), *held)
    rows = machine.world.knowledge.rows
    if asked not in rows:
        first = entries[: limits.MOST_KEYS_ASKED]
        by_default = (value for key, value in first if behaviour(_test(machine, index, key)).by_default() is True)
        usual = next(by_default, entries[0][1])
        values = [usual, *(value for _, value in entries)]
        # The entries are kept, so that their ids stay their own.
        rows[asked] = _joined(index, values), values
    return rows[asked][0]


def _joined(index: Lib | Unknown, values: list[Value]) -> Value:
    """Return one value for several; the first of them where they are no settings, or of another shape."""
    first = values[0]
    if all(map(is_constant, values)):
        return _setting(index, values)
    if isinstance(first, tuple):
        return _joined_tuples(index, first, only(values, tuple), len(values))
    if isinstance(first, Dict):
        return _joined_dicts(index, first, only(values, Dict), len(values))
    if isinstance(first, Instance):
        return _joined_objects(index, first, only(values, Instance), len(values))
    return first


def _joined_tuples(index: Lib | Unknown, first: tuple[Value, ...], rows: list[tuple[Value, ...]], count: int) -> Value:
    if len(rows) < count or any(len(row) != len(first) for row in rows):
        return first
    return tuple(_joined(index, [*parts]) for parts in zip(*rows))


def _joined_dicts(index: Lib | Unknown, first: Dict, rows: list[Dict], count: int) -> Value:
    if len(rows) < count or any(row.kind != "dict" or row.factory is not None for row in rows):
        return first
    made = {}
    for name in dict.fromkeys(name for row in rows for name in row.items):
        held = [row.items[name] for row in rows if name in row.items]
        made[name] = _joined(index, held) if len(held) == count else _perhaps(index, first.items.get(name))
    more = 0
    for row in rows:
        more |= row.more
    return Dict(made, more, born=first.born) if more or _changed(made, first.items) else first


def _perhaps(index: Lib | Unknown, value: Value) -> Value:
    """Return what is under a name that only some entries have: by default what the first has, if it has one."""
    if value is not None and not is_constant(value):
        return value
    made = Unknown("entry", None, (), Kind.PLAIN)
    made.origin = Origin(drawn=(index,))
    if value is not None and unknowns.has_default(index):
        unknowns.usually(made, value)
    return made


def _joined_objects(index: Lib | Unknown, first: Instance, rows: list[Instance], count: int) -> Value:
    """Objects of one class that hold settings alone: what has a state of its own is one of them."""
    plain = all(
        row.cls is first.cls is not None and not row.module and not row.lib and row.inner is None
        and row.attrs.keys() == first.attrs.keys() and all(map(_is_setting, row.attrs.values()))
        for row in rows
    )  # fmt: skip
    if len(rows) < count or not plain:
        return first
    made = {name: _joined(index, [row.attrs[name] for row in rows]) for name in first.attrs}
    if not _changed(made, first.attrs):
        return first
    copy = Instance(first.cls, born=first.born)
    copy.attrs = made
    return copy


def _changed(made: Mapping[Key, Value], held: Mapping[Key, Value]) -> bool:
    return any(name not in held or held[name] is not value for name, value in made.items())


def _is_setting(value: Value) -> bool:
    """Whether a value is a constant, or holds constants only."""
    if isinstance(value, (tuple, List, Dict)):
        return all(map(_is_setting, behaviour(value).children()))
    return is_constant(value)


def _setting(index: Lib | Unknown, values: list[Value]) -> Value:
    """Return one of several constants, the first by default."""
    first = values[0]
    kinds = {type(value) for value in values}
    if len(kinds) == 1 and all(value == first for value in values):
        return first
    kind = Kind.WHOLE if kinds == {int} else Kind.NUMBER if kinds <= {int, float} else Kind.PLAIN
    made = Unknown("entry", None, (), Kind.TEXT if kinds == {str} else kind)
    made.origin = Origin(drawn=(index,))
    if unknowns.has_default(index):
        unknowns.usually(made, first)
    return made
