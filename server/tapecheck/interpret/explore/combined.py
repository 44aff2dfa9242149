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
from tapecheck.interpret.explore import additions
from tapecheck.interpret.explore.covered import Answers, Covered
from tapecheck.interpret.explore.effects import Effect, last_part, names_in, statement_facts
from tapecheck.interpret.explore.jumps import LEAVING, jumps_of
from tapecheck.interpret.explore.shapes import Shapes, shapes_of
from tapecheck.interpret.state import Place, Policy
from tapecheck.interpret.values import Module
from tapecheck.source.nodes import STORES, id_of, method_called, of_kind, statements_at, walk

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
_ACTING = Effect.START | Effect.CLEAR | Effect.READ | Effect.DROP
"""What a statement can do that does so."""
_BUILT_IN = frozenset(("all", "any", "bool", "float", "int", "isinstance", "len", "print", "range", "str", "sum"))
"""Functions of Python's own that leave what they are given as it is."""


@dataclass(frozen=True, slots=True)
class Untaken:
    """A test that has come out in one way only, in a file, and the conditions that choose what it asks."""

    at: Place
    chosen_by: tuple[Place, ...]
    growing: Answers = field(default_factory=dict)
    """The conditions by which it has something added, with the answer that adds it."""

    @property
    def key(self) -> tuple[object, ...]:
        """What tells it from others: the same test may come to hang on further conditions."""
        return (self.at, self.chosen_by, *self.growing)


@dataclass(slots=True)
class Combined:
    """The tests of a start that its ways have decided, and the answers that have shown anything new."""

    came_out: set[tuple[ast.AST, bool]] = field(default_factory=set)
    asked: dict[ast.AST, str] = field(default_factory=dict)
    """The conditions that were met, with their files."""
    bases: list[Patterns] = field(default_factory=list)
    tried: set[object] = field(default_factory=set)
    covered: Covered = field(default_factory=Covered)
    """Which answers were tried together."""
    _flow: _Flow | None = None

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
        flow = self._flow_of(modules)
        for node, file in self.asked.items():
            module = modules.get(file)
            if module is None or module.source is None or not self._is_untaken(node, shapes_of(module.source)):
                continue
            wanted = flow.wanted_of(file, node)
            by = tuple(place for place, one in choosing.items() if flow.chooses(place, one, wanted))
            if len(by) >= limits.FEWEST_COMBINED:
                found.append(Untaken((file, getattr(node, "lineno", 1), getattr(node, "col_offset", 0)), by))
        return found

    def acting(
        self, modules: Mapping[str, Module], called: Collection[int], choosing: Mapping[Place, ast.AST | None]
    ) -> list[Untaken]:
        """Return the statements that may bring what a finding says never comes, of which the text says that some of the
        conditions `choosing` choose whether they do.
        """
        found: dict[tuple[object, ...], Untaken] = {}
        flow = self._flow_of(modules)
        for file, tree in flow.trees.items():
            for node in _acting_in(tree.body, called):
                one = flow.acted_upon(file, node, choosing)
                if one.chosen_by or one.growing:
                    found.setdefault((one.chosen_by, *one.growing.items()), one)
        return [*found.values()]

    def _flow_of(self, modules: Mapping[str, Module]) -> _Flow:
        trees = {file: module.source.tree for file, module in modules.items() if module.source is not None}
        if self._flow is None or self._flow.trees.keys() != trees.keys():
            self._flow = _Flow(trees)
        return self._flow

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


def _holds(around: ast.stmt, node: ast.stmt) -> bool:
    """Return whether a statement of the same file stands in another one."""
    return _has_line(around, node.lineno)


def _has_line(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _acting_in(nodes: Iterable[ast.stmt], called: Collection[int]) -> Iterator[ast.stmt]:
    """Yield the statements that act on graphs or gradients, but for those of functions that were not called."""
    for node in nodes:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() if id(node) not in called:
                continue
        blocks = [*_blocks(node)]
        for block in blocks:
            yield from _acting_in(block, called)
        if not blocks and (statement_facts(node).effects & _ACTING or _steps(node)):
            yield node


def _steps(node: ast.stmt) -> bool:
    return any(method_called(call) == "step" for call in of_kind(node, ast.Call))


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
    """Which names of some files may hang on which others, in whatever order and function; `calls` where what a call
    mentions may be changed by it.
    """

    def __init__(self, trees: Mapping[str, ast.Module], *, calls: bool = True) -> None:
        self.trees = trees
        self._calls = calls
        self._made_of: dict[str, set[str]] = {}
        self._wanted: dict[ast.AST, Set[str]] = {}
        self._stored: dict[Place, Set[str] | None] = {}
        self._sums: dict[str, set[str]] | None = None
        self._tested: Set[str] = frozenset()
        self._own: set[str] = set()
        self._layers = {name for tree in trees.values() for name in _layers_in(tree)}
        self._bound = {name for tree in trees.values() for name in _bound_in(tree)}
        for tree in trees.values():
            self._read(tree.body, frozenset(), "")

    def wanted_of(self, file: str, node: ast.AST) -> Set[str]:
        """Return the names that what is asked at a condition and around it hangs on: it is asked for in each round."""
        known = self._wanted.get(node)
        if known is None:
            known = self._wanted[node] = self.leading_to(self.asked_around(file, node))
        return known

    def asked_around(self, file: str, node: ast.AST) -> Set[str]:
        """Return the names that a condition asks, and those around it, within it, and before it that lead past it."""
        line = getattr(node, "lineno", 1)
        found = set(_asked_within(node))
        blocks: list[list[ast.stmt]] = [statements_at(self.trees[file], 1, line)]
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

    def leading_to(self, names: Collection[str], without: Set[str] = frozenset()) -> set[str]:
        """Return the names that some hang on, with these, but for what they hang on by way of some others."""
        found, waiting = set(names), list(names)
        while waiting:
            more = self._made_of.get(waiting.pop(), set()) - found - without
            found |= more
            waiting += more
        return found

    def chooses(self, place: Place, node: ast.AST | None, wanted: Set[str]) -> bool:
        """Return whether a condition may choose what some names have."""
        if place not in self._stored:
            statement = self._decided_by(place, node)
            self._stored[place] = self._chosen_by(place, statement) if statement is not None else None
        stored = self._stored[place]
        return stored is None or not wanted.isdisjoint(stored)

    def leads_past(self, place: Place, node: ast.AST | None, acting: ast.stmt) -> bool:
        """Return whether a condition of the same file may choose whether a statement is run."""
        statement = self._decided_by(place, node)
        if statement is None or _holds(statement, acting):
            return statement is not None
        if LEAVING.isdisjoint(jumps_of([statement])):
            return False
        around = [one for one in self._around(place) if one is not statement]
        return any(_holds(one, acting) for one in around)

    def acted_upon(self, file: str, node: ast.stmt, choosing: Mapping[Place, ast.AST | None]) -> Untaken:
        """Return the conditions that choose whether a statement runs, and what it acts upon; apart from these those by
        which something is added to the loss that it walks, of which all graphs are walked that it had before.
        """
        walked = additions.walked_by(node, self._own)
        wanted = self.leading_to(self.asked_around(file, node))
        # What it acts upon by way of the losses grows as these do.
        wanted |= self.leading_to(additions.names_beside(node, walked), without=walked)
        added_to, losses = self.leading_to(walked), self._sums_of(walked)
        by: list[Place] = []
        growing: dict[Place, bool] = {}
        for place, one in choosing.items():
            if self.chooses(place, one, wanted) or (place[0] == file and self.leads_past(place, one, node)):
                by.append(place)
            elif self.chooses(place, one, added_to):
                adding = additions.adding(self._decided_by(place, one), place, losses)
                if adding is None:
                    by.append(place)
                elif adding.more is not None:
                    growing[place] = adding.more
        return Untaken((file, node.lineno, node.col_offset), tuple(by), growing)

    def _sums_of(self, losses: Set[str]) -> Set[str]:
        """Return losses with the names of what they are sums of: all of the graphs of these is in theirs."""
        if not losses:
            return losses
        if self._sums is None:
            self._sums = additions.sums_in(self.trees.values(), self._own)
            testing = {name for tree in self.trees.values() for name in additions.choosing_in(tree)}
            self._tested = _Flow(self.trees, calls=False).leading_to(testing)
        found, waiting = set(losses), list(losses)
        while waiting:
            more = self._sums.get(waiting.pop(), set()) - found - self._tested
            found |= more
            waiting += more
        return found

    def _chosen_by(self, place: Place, statement: ast.stmt) -> set[str]:
        """Return what a statement stores, and the functions around it whose result it may choose."""
        found = self._stored_by(statement)
        if not jumps_of([statement]).isdisjoint(("return", "value", "yield")):
            found |= {name for one in self._around(place) if (name := getattr(one, "name", ""))}
        return found

    def _stored_by(self, node: ast.AST) -> set[str]:
        """Return the names and attributes that some code stores, and those that what it calls may change."""
        found: set[str] = set()
        for part in walk(node):
            match part:
                case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                    found.add(name)
                case ast.Attribute(attr=name, ctx=ast.Store() | ast.Del()):
                    found.add(name)
                case ast.Subscript(value=value, ctx=ast.Store() | ast.Del()):
                    found |= names_in(value)
                case ast.Call(func=ast.Attribute(value=owner, attr=method)) if method in STORES:
                    # What a container takes up stays as it is.
                    found |= names_in(owner)
                case ast.Call(func=called) if self._calls and id_of(called) not in _BUILT_IN:
                    found.update(self._changed_by(part))
        return found

    def _changed_by(self, node: ast.AST) -> Iterator[str]:
        """Yield the names that a call mentions, but for layers that it calls: these stay what they are."""
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in self._layers:
                parts = (*node.args, *node.keywords)
            case ast.Name(id=name):
                yield name
                return
            case _:
                parts = tuple(ast.iter_child_nodes(node))
                if (name := getattr(node, "attr", "")) in self._bound:
                    yield name
        for part in parts:
            yield from self._changed_by(part)

    def _around(self, place: Place) -> list[ast.stmt]:
        """Return the statements that have the line of a place."""
        file, line, _ = place
        tree = self.trees.get(file)
        around = statements_at(tree, line, line) if tree is not None else []
        return [one for part in around for one in of_kind(part, ast.stmt) if _has_line(one, line)]

    def _decided_by(self, place: Place, node: ast.AST | None) -> ast.stmt | None:
        """Return the statement that a condition decides about, else the innermost one that has its line."""
        match node:
            case ast.stmt():
                return node
        having = self._around(place)
        return min(having, key=lambda one: (one.end_lineno or one.lineno) - one.lineno, default=None)

    def _read(self, nodes: Iterable[ast.AST], around: Set[str], owner: str) -> None:
        for node in nodes:
            match node:
                case ast.ClassDef():
                    self._note({node.name}, names_in(node))
                    self._read(node.body, frozenset(), node.name)
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    self._own.add(node.name)
                    self._note({node.name}, names_in(node))
                    # A method may be the constructor, which the class is called for.
                    self._note((one.arg for one in of_kind(node, ast.arg)), {f"{node.name}()", f"{owner}()"})
                    self._read(node.body, frozenset(), "")
                case _:
                    self._read_statement(node, around)

    def _read_statement(self, node: ast.AST, around: Set[str]) -> None:
        parts = list(_header(node))
        names = frozenset().union(around, *map(_read_in, parts)) | _added_to(node)
        for part in parts:
            self._note(self._stored_by(part), names)
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


def _read_in(node: ast.AST) -> set[str]:
    """Return the names and attributes that some code mentions, but for those that it stores anew."""
    found: set[str] = set()
    for part in walk(node):
        match part:
            case ast.Name(id=name, ctx=ast.Load() | ast.Del()) | ast.Attribute(attr=name, ctx=ast.Load() | ast.Del()):
                found.add(name)
    return found


def _added_to(node: ast.AST) -> Set[str]:
    match node:
        case ast.AugAssign(target=target):
            return names_in(target)
    return frozenset()


def _bound_in(tree: ast.Module) -> Iterator[str]:
    """Yield the names and attributes that some code binds: no other attribute is called that keeps anything itself."""
    for node in walk(tree):
        match node:
            case (
                ast.Attribute(attr=name, ctx=ast.Store())
                | ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
                | ast.Name(id=name, ctx=ast.Store())
            ):
                yield name


def _layers_in(tree: ast.Module) -> Iterator[str]:
    """Yield the names of what has parameters."""
    for call in of_kind(tree, ast.Call):
        match call.func:
            case ast.Attribute(value=ast.Name(id=name), attr="parameters"):
                yield name
