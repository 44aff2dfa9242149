"""What only several answers together lead to, through tests that each way can decide.

`if a and not b and not c:` is no undecided condition where hidden code has chosen what these have: each way knows them.
Of a test that has come out in one way only the text says which conditions choose what it asks; these are answered
otherwise, one more at a time, on the ways on which a test came out as it had not before.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field

from tapecheck.interpret import limits
from tapecheck.interpret.explore.effects import Effect, last_part, names_in
from tapecheck.interpret.explore.jumps import LEAVING, jumps_of
from tapecheck.interpret.explore.shapes import Shapes, shapes_of
from tapecheck.interpret.state import Place, Policy
from tapecheck.interpret.values import Module
from tapecheck.source.nodes import id_of, of_kind, statements_at, walk

Patterns = Mapping[Place, tuple[bool, ...]]
"""Answers to conditions, by their places."""
_MATTERING = int(
    Effect.SETTLE
    | Effect.CHANGE
    | Effect.CLEAR
    | Effect.READ
    | Effect.WRAP
    | Effect.START
    | Effect.COLLECT
    | Effect.STEP
)
"""What a side can do that brings what a finding says never comes."""
_BUILT_IN = frozenset(("all", "any", "bool", "float", "int", "isinstance", "len", "print", "range", "str", "sum"))
"""Functions of Python's own that leave what they are given as it is."""


@dataclass(frozen=True, slots=True)
class Untaken:
    """A test that has come out in one way only, in a file, and the conditions that choose what it asks."""

    at: Place
    chosen_by: tuple[Place, ...]


@dataclass(slots=True)
class Combined:
    """The tests of a start that its ways have decided, and the answers that have shown anything new."""

    came_out: set[tuple[ast.AST, bool]] = field(default_factory=set)
    asked: dict[ast.AST, str] = field(default_factory=dict)
    """The conditions that were met, with their files."""
    bases: list[Patterns] = field(default_factory=list)
    tried: set[object] = field(default_factory=set)
    _flows: dict[str, _Flow] = field(default_factory=dict)

    def note(self, patterns: Patterns, came_out: Set[tuple[ast.AST, bool]], asked: Mapping[ast.AST, str]) -> None:
        """Note what the tests of a way have come to."""
        self.asked.update(asked)
        self.tried.add(Policy(dict(patterns)).key())
        if not came_out <= self.came_out:
            self.came_out |= came_out
            self.bases.append(patterns)

    def untaken(self, modules: Mapping[str, Module], choosing: Mapping[Place, ast.AST | None]) -> list[Untaken]:
        """Return the tests of which one side was never run that could matter, and of which the text says that more of
        the conditions `choosing` hang together there than are tried with one another in any case.
        """
        found: list[Untaken] = []
        for node, file in self.asked.items():
            module = modules.get(file)
            if module is None or module.source is None or not self._is_untaken(node, shapes_of(module.source)):
                continue
            flow = self._flows.get(file)
            if flow is None:
                flow = self._flows[file] = _Flow(module.source.tree)
            wanted = flow.wanted_of(node)
            by = tuple(
                place for place, one in choosing.items() if place[0] == file and flow.chooses(place, one, wanted)
            )
            if len(by) >= limits.FEWEST_COMBINED:
                found.append(Untaken((file, getattr(node, "lineno", 1), getattr(node, "col_offset", 0)), by))
        return found

    def _is_untaken(self, node: ast.AST, shapes: Shapes) -> bool:
        outcomes = [answer for answer in (True, False) if (node, answer) in self.came_out]
        if len(outcomes) != 1:
            return False
        match node:
            case ast.If(body=body, orelse=orelse) | ast.While(body=body, orelse=orelse):
                nodes: list[ast.AST] = [*(orelse if outcomes[0] else body)]
                if not LEAVING.isdisjoint(jumps_of(body if outcomes[0] else orelse)):
                    # The other answer goes on behind it.
                    return True
            case ast.IfExp(body=body, orelse=orelse):
                nodes = [orelse if outcomes[0] else body]
            case _:
                return False
        side = shapes.side(nodes, shapes.owner(node), False)
        stores = bool(side.facts.stored - side.plain)
        return stores or bool(side.effects & _MATTERING) or not side.jumps <= {"raise"}

    def next(self, untaken: Iterable[Untaken], answers: Mapping[Place, bool]) -> Patterns | None:
        """Return the answers of a further way, None where each was tried; `answers` are those of the likelier way."""
        places = list(dict.fromkeys(place for one in untaken for place in one.chosen_by))
        for base in reversed(self.bases):
            for place in places:
                other = {one: pattern for one, pattern in base.items() if one != place}
                if place not in base:
                    other[place] = (not answers.get(place, True),)
                if Policy(other).key() not in self.tried:
                    return other
        return None


def _asked_by(node: ast.AST) -> Set[str]:
    match node:
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            return names_in(test)
    return frozenset()


def _asked_within(node: ast.AST) -> Set[str]:
    return frozenset().union(*map(_asked_by, walk(node)))


def _blocks(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    """Yield the blocks of statements in a statement."""
    for part in (node, *getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        for name in ("body", "orelse", "finalbody"):
            if block := getattr(part, name, None):
                yield block


class _Flow:
    """Which names of a file may hang on which others, in whatever order and function."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._made_of: dict[str, set[str]] = {}
        self._wanted: dict[ast.AST, Set[str]] = {}
        self._stored: dict[Place, Set[str] | None] = {}
        self._read(tree.body, frozenset(), "")

    def wanted_of(self, node: ast.AST) -> Set[str]:
        """Return the names that what is asked at a condition and around it hangs on: it is asked for in each round."""
        known = self._wanted.get(node)
        if known is None:
            known = self._wanted[node] = self.leading_to(self.asked_around(node))
        return known

    def asked_around(self, node: ast.AST) -> Set[str]:
        """Return the names that a condition asks, and those around it, within it, and before it that lead past it."""
        line = getattr(node, "lineno", 1)
        found = set(_asked_within(node))
        blocks: list[list[ast.stmt]] = [statements_at(self._tree, 1, line)]
        while blocks:
            for one in blocks.pop():
                if one.lineno > line:
                    break
                within = (one.end_lineno or line) >= line
                if within:
                    found |= _asked_by(one)
                    blocks += _blocks(one)
                elif jumps_of([one]):
                    found |= _asked_within(one)
        return found

    def leading_to(self, names: Collection[str]) -> Set[str]:
        """Return the names that some hang on, with these."""
        found, waiting = set(names), list(names)
        while waiting:
            more = self._made_of.get(waiting.pop(), set()) - found
            found |= more
            waiting += more
        return found

    def chooses(self, place: Place, node: ast.AST | None, wanted: Set[str]) -> bool:
        """Return whether a condition may choose what some names have."""
        if place not in self._stored:
            statement: ast.stmt | None
            match node:
                case ast.stmt():
                    statement = node
                case _:
                    statement = self._statement(place[1])
            self._stored[place] = None if statement is None else _stored_in(statement)
        stored = self._stored[place]
        return stored is None or not wanted.isdisjoint(stored)

    def _statement(self, line: int) -> ast.stmt | None:
        """Return the innermost statement that has a line."""
        around = (part for one in statements_at(self._tree, line, line) for part in of_kind(one, ast.stmt))
        having = [one for one in around if one.lineno <= line <= (one.end_lineno or line)]
        return min(having, key=lambda one: (one.end_lineno or one.lineno) - one.lineno, default=None)

    def _read(self, nodes: Iterable[ast.AST], around: Set[str], owner: str) -> None:
        for node in nodes:
            match node:
                case ast.ClassDef():
                    self._note({node.name}, names_in(node))
                    self._read(node.body, frozenset(), node.name)
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    self._note({node.name}, names_in(node))
                    # A method may be the constructor, which the class is called for.
                    self._note((one.arg for one in of_kind(node, ast.arg)), {f"{node.name}()", f"{owner}()"})
                    self._read(node.body, frozenset(), "")
                case _:
                    self._read_statement(node, around)

    def _read_statement(self, node: ast.AST, around: Set[str]) -> None:
        parts = list(_header(node))
        names = frozenset().union(around, *map(names_in, parts))
        for part in parts:
            self._note(_stored_in(part), names)
            self._note((f"{last_part(call.func)}()" for call in of_kind(part, ast.Call)), names)
        self._read((one for one in ast.iter_child_nodes(node) if one not in parts), names, "")

    def _note(self, stored: Iterable[str], names: Iterable[str]) -> None:
        for name in stored:
            self._made_of.setdefault(name, set()).update(names)


def _header(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the expressions of a statement, without the statements in it."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.stmt() | ast.ExceptHandler() | ast.match_case():
                pass
            case _:
                yield child


def _stored_in(node: ast.AST) -> set[str]:
    """Return the names and attributes that some code stores, and those that what it calls may change."""
    found: set[str] = set()
    for part in walk(node):
        match part:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.Attribute(attr=name, ctx=ast.Store() | ast.Del()):
                found.add(name)
            case ast.Subscript(value=value, ctx=ast.Store() | ast.Del()):
                found |= names_in(value)
            case ast.Call(func=called) if id_of(called) not in _BUILT_IN:
                found |= names_in(part)
    return found
