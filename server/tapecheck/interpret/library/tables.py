"""Which of several values an index that nobody knows takes: an entry of a table, an element of a list.

Entries that do different things to graphs are tried, each as a condition of its own. Entries that are settings, and
records of such, are read together: one of several constants is a setting, which has a usual value.
"""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from tapecheck.interpret import limits
from tapecheck.interpret.engine import Engine
from tapecheck.interpret.objects import carry, syntax, unknowns
from tapecheck.interpret.objects.algebra import is_name
from tapecheck.interpret.values import (
    Class,
    Dict,
    Instance,
    Kind,
    Lib,
    List,
    Tensor,
    Unknown,
    Value,
    behaviour,
    expression,
    function_of,
    is_constant,
    is_number,
    is_unseen,
    only,
    path_of,
    unkey,
)

Key = TypeVar("Key", bound=Hashable)
Entries = Sequence[tuple[Hashable, Value]]


def chosen(machine: Engine, index: Value, entries: Entries, node: ast.AST) -> Value:
    """Return which of several values, by their keys, an index chooses that nobody knows: on this path the one that
    the condition says, or what several settings have in common.
    """
    first = entries[0][1]
    if len(entries) < 2 or not is_unseen(index):
        return first
    if _differ(value for _, value in entries):
        return entries[_tried(machine, index, entries, node)][1]
    # A number that nobody knows is often one that a loop counts, over tensors of one kind.
    held = carry.tensors_in(first, into_objects=False) if is_name(index) else ()
    if about := [one.node for one in held if one.node is not None]:
        _trusted(machine, index, about, node)
    return _either(machine, index, entries)


def place(machine: Engine, index: Value, items: Sequence[Value], node: ast.AST) -> int | None:
    """Return which place of a list an index that nobody knows is on this path; None where the index is known, or where
    what the list holds is alike.
    """
    if len(items) < 2 or not isinstance(index, (Lib, Tensor, Unknown)):
        return None
    known = machine.world.knowledge.places.get(expression(index), len(items))
    if known < len(items):
        return known
    if not _differ(items):
        return None
    asked = index if is_unseen(index) else Unknown.whole(behaviour(index).name_as_type())
    tried = machine.world.knowledge.places[expression(index)] = _tried(machine, asked, [*enumerate(items)], node)
    return tried


def drawn(machine: Engine, items: list[Value], node: ast.AST) -> list[Value]:
    """Return some values in an order that nobody knows, where it matters: any of them may be the first."""
    if len(items) < 2 or not isinstance(node, ast.expr) or not _differ(items):
        return items
    first = _tried(machine, Unknown.whole(syntax.text_of(node)), [*enumerate(items)], node)
    return [items[first], *items[:first], *items[first + 1 :]]


def _differ(values: Iterable[Value]) -> bool:
    """Return whether some values are functions, classes or objects that do different things when called, or some have
    a graph and others none.
    """
    values = [*values]
    return len({_what(value) for value in values} - {None}) > 1 or {"yes", "no"} <= {*map(_carries, values)}


def _what(value: Value) -> object:
    """Return what says what a call of a value does: the function or class that it is, or is an object of."""
    if isinstance(value, Instance):
        return value.cls or value.lib
    if isinstance(value, Class):
        return value
    return function_of(value) or path_of(value) or None


def _carries(value: Value) -> str:
    """Return whether a value has a graph or holds one: an empty text where nobody knows, or where it is no data."""
    if isinstance(value, (Tensor, Unknown)):
        borne = value.borne()
        return borne if borne in ("yes", "no") else ""
    if any(one.borne() == "yes" for one in carry.tensors_in(value, into_objects=False)):
        return "yes"
    return "no" if is_number(value) else ""


# -- entries that are tried --------------------------------------------------------------------------------------------


def _tried(machine: Engine, index: Lib | Unknown, entries: Entries, node: ast.AST) -> int:
    """Return the place of the entry that is tried on this path: the first whose key the index is said to be, what an
    option chooses by default before others. Note where there are more than are tried.
    """
    held = [one.node for one in carry.tensors_in(entries[0][1], into_objects=False) if one.node is not None]
    if not isinstance(node, ast.expr):
        _trusted(machine, index, held, node)
        return 0
    if len(entries) > limits.CHOSEN:
        _trusted(machine, index, held, node)
    asked = [(_test(machine, index, key), key, place) for place, (key, _) in enumerate(entries)]
    asked.sort(key=lambda one: behaviour(one[0]).by_default() is not True)
    *questions, last = asked[: limits.CHOSEN]
    for at, (test, key, found) in enumerate(questions):
        if _holds(machine, test, _said(index, key, node), node, at):
            return found
    return last[2]


def _test(machine: Engine, index: Lib | Unknown, key: Hashable) -> Value:
    return machine.unknown_test(ast.Eq(), index, unkey(key))


def _trusted(machine: Engine, index: Lib | Unknown, about: Sequence[int], node: ast.AST) -> None:
    text = f"`{_name_of(index)}` chooses none of the others"
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
    places = [ast.copy_location(ast.Constant(None), node) for _ in range(limits.CHOSEN)]
    for at, question in enumerate(places):
        question.col_offset += at
    return [*places]


def _name_of(index: Lib | Unknown) -> str:
    return index.path if isinstance(index, Lib) else index.name


def _said(index: Lib | Unknown, key: Hashable, node: ast.expr) -> str:
    """Return how it is said that an index is a key: of a call that picks by chance, what it picks."""
    if isinstance(node, ast.Call) and _name_of(index) == syntax.text_of(node):
        return f"{_name_of(index)} picks number {key!r}"
    return f"{syntax.text_of(node.slice) if isinstance(node, ast.Subscript) else _name_of(index)} == {key!r}"


# -- entries that are settings -----------------------------------------------------------------------------------------


def _either(machine: Engine, index: Lib | Unknown, entries: Entries) -> Value:
    """Return what some entries have in common, where they are settings or records of such: by default what the index
    chooses by default.
    """
    asked = ("entry", expression(index), *(id(value) for _, value in entries))
    rows = machine.world.knowledge.rows
    if asked not in rows:
        by_default = (value for key, value in entries if behaviour(_test(machine, index, key)).by_default() is True)
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
    more = any(row.more for row in rows)
    return Dict(made, more, born=first.born) if more or _changed(made, first.items) else first


def _perhaps(index: Lib | Unknown, value: Value) -> Value:
    """Return what is under a name that only some entries have: by default what the first has, if it has one."""
    if value is not None and not is_constant(value):
        return value
    made = Unknown("entry", None, (), Kind.PLAIN)
    made.drawn = (index,)
    if value is not None:
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
    made.drawn = (index,)
    unknowns.usually(made, first)
    return made
