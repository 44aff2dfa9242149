"""What the syntax tells of conditions: what each side does, what is read behind them, what a jump leaves out."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tapecheck.interpret.explore import gathering
from tapecheck.interpret.explore.definitions import Body
from tapecheck.interpret.explore.effects import Effect, Facts, facts_of, names_in, statement_facts
from tapecheck.interpret.explore.index import Index, index_of
from tapecheck.interpret.explore.jumps import LEAVING, Jumps, jumps_of
from tapecheck.interpret.explore.liveness import Liveness, Names, exposed
from tapecheck.interpret.explore.numbers import calls_left, dotted, stored_plain
from tapecheck.interpret.python.imports import LIBRARIES
from tapecheck.source import Source
from tapecheck.source.nodes import children, last_name, of_kind, statements_at, walk

_Loop = ast.For | ast.While | ast.AsyncFor
_NONE: frozenset[str] = frozenset()
_EVERYWHERE = frozenset((-1,))
"""Stands for lines that nobody knows."""


@dataclass(slots=True)
class Side:
    """One side of a condition: its code with the effects of all it calls.

    `read` are the names that it reads before it stores them, `plain` those that it stores nothing but numbers in,
    `unknowable` those whose numbers no condition can be decided by. `imports` are those of what may be the project's
    own. `own` says that it asks its object for what it does not load as an attribute: a method of it. `raised` are the
    names of the exceptions that its own code raises, "" one that it does not name.
    """

    facts: Facts
    read: Names
    plain: Names
    unknowable: Names
    effects: int
    attributes: frozenset[str]
    jumps: Jumps
    empty: bool
    imports: tuple[ast.ImportFrom, ...]
    own: bool
    raised: frozenset[str]


_EMPTY = Side(Facts(), _NONE, _NONE, _NONE, 0, _NONE, frozenset(), True, (), False, _NONE)


@dataclass(slots=True)
class Shape:
    """What the syntax tells of a condition.

    `live` are the names that it stores and that other code reads. `rest` is what the other side skips where it
    leaves the loop or function, `carried` the names of it that a later iteration reads. `left_out` are the lines of
    all that does not run where the block is left before its end, -1 where nobody knows.
    """

    body: Side
    orelse: Side
    live: frozenset[str]
    rest: Side
    carried: frozenset[str]
    left_out: frozenset[int]

    def sides(self, taken: bool) -> tuple[Side, Side]:
        """Return the side that is run where the condition is answered so, and the other one."""
        return (self.body, self.orelse) if taken else (self.orelse, self.body)


@dataclass(slots=True)
class Scope:
    """A function, or the module: its loops, and its names with the lines where they are stored and read."""

    loops: list[_Loop]
    stores: list[tuple[int, str]]
    loads: list[tuple[int, str]]
    end: int


_Around = tuple[dict[int, tuple[ast.AST | None, str | None]], dict[int, tuple[str, ...]]]
"""By the ids of conditions: the function (None: the module) and the class around each; the names that some are assigned
to as they are.
"""


def _setting(node: ast.If) -> str | None:
    """Return the last part of the name that a condition compares with one text or more; None of any other condition."""
    match node.test:
        case ast.Compare(left=left, ops=[ast.Eq() | ast.In()], comparators=[other]):
            texts = getattr(other, "elts", [other])
            said = all(isinstance(getattr(one, "value", None), str) for one in texts)
            return (last_name(left) or None) if said else None
    return None


def _conditions_in(statement: ast.stmt) -> _Around:
    homes: dict[int, tuple[ast.AST | None, str | None]] = {}
    targets: dict[int, tuple[str, ...]] = {}
    stack: list[tuple[ast.AST, ast.AST | None, str | None]] = [(statement, None, None)]
    while stack:
        node, home, owner = stack.pop()
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                home = node
            case ast.ClassDef(name=owner):
                pass
            case ast.If() | ast.IfExp() | ast.BoolOp() | ast.For() | ast.AsyncFor() | ast.While():
                homes[id(node)] = (home, owner)
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                homes[id(node)] = (home, owner)
            case ast.Call() if gathering.takes_in(node):
                homes[id(node)] = (home, owner)
            case ast.Assign(targets=names, value=ast.IfExp() | ast.BoolOp() as value):
                targets[id(value)] = tuple(map(dotted, names))
            case ast.AnnAssign(target=name, value=ast.IfExp() | ast.BoolOp() as value):
                targets[id(value)] = (dotted(name),)
        stack.extend((child, home, owner) for child in children(node))
    return homes, targets


class Shapes:
    """The shapes of one file's conditions, worked out as they are asked."""

    def __init__(self, index: Index, tree: ast.Module) -> None:
        self.index = index
        self.tree = tree
        self._shapes: dict[int, Shape] = {}
        self._scopes: dict[int, Scope] = {}
        self._liveness: dict[int, Liveness] = {}
        self._mentioned: dict[int, frozenset[str]] = {}
        self._parts: dict[tuple[ast.expr, ...], Side] = {}
        self._repeated: dict[int, Side] = {}
        self._gathered: dict[int, Names | None] = {}
        self._starts: dict[int, bool] = {}
        self._modes: dict[str, list[ast.If]] | None = None

    def other_modes(self, node: ast.If) -> Iterator[ast.If]:
        """Yield the other conditions of the file that compare the same setting with a text, as a mode is chosen."""
        setting = _setting(node)
        if setting is None:
            return
        if self._modes is None:
            self._modes = {}
            for one in of_kind(self.tree, ast.If):
                if (name := _setting(one)) is not None:
                    self._modes.setdefault(name, []).append(one)
        yield from (one for one in self._modes.get(setting, ()) if one is not node)

    def _home(self, node: ast.AST) -> tuple[ast.AST, str | None]:
        """Return the function around a condition, and the class around that."""
        home, owner = self._around(node)[0].get(id(node), (None, None))
        return home or self.tree, owner

    def targets(self, node: ast.AST) -> tuple[str, ...]:
        """Return the names that an expression is assigned to as it is; ("",) where it is used otherwise."""
        return self._around(node)[1].get(id(node), ("",))

    def _around(self, node: ast.AST) -> _Around:
        """Return what is known of the conditions in the statement of the module around one."""
        line = getattr(node, "lineno", 0)
        for statement in statements_at(self.tree, line, line):
            around = self.index.notes.of(statement, _conditions_in)
            if id(node) in around[0]:
                return around
        return {}, {}

    def _scope(self, home: ast.AST) -> Scope:
        known = self._scopes.get(id(home))
        if known is None:
            known = Scope([], [], [], getattr(home, "end_lineno", None) or 1 << 30)
            for node in walk(home):
                match node:
                    case ast.Name(ctx=ctx) | ast.Attribute(value=ast.Name(), ctx=ctx):
                        uses = known.loads if isinstance(ctx, ast.Load) else known.stores
                        uses.append((node.lineno, dotted(node)))
                    case ast.AugAssign(target=target):
                        known.loads.append((node.lineno, dotted(target)))
                    case ast.For() | ast.While() | ast.AsyncFor():
                        known.loops.append(node)
            self._scopes[id(home)] = known
        return known

    def side(self, nodes: Iterable[ast.AST], owner: str | None, looping: bool, making: bool = False) -> Side:
        nodes = [node for node in nodes if not isinstance(node, ast.Pass)]
        if not nodes:
            return _EMPTY
        facts = facts_of(nodes, looping=looping, making=making)
        effects, attributes = self.index.calls.reach(facts, owner)
        first = exposed(nodes, self.index.notes)
        read = first | {name for name in facts.loaded if "." in name and name.partition(".")[0] in first}
        plain, unknowable = stored_plain(nodes)
        imports = tuple(one for node in nodes for one in imports_of_project(node))
        jumps = jumps_of(nodes, suspends=self.index.suspends)
        own = bool(facts.own - {name[5:] for name in facts.loaded if name.startswith("self.")})
        raised = frozenset(_raised(nodes)) if "raise" in jumps else _NONE
        return Side(facts, read, plain, unknowable, int(effects), attributes, jumps, False, imports, own, raised)

    def not_evaluated(self, node: ast.expr, parts: Iterable[ast.expr]) -> Side:
        """Return the parts of an expression that were not evaluated, as a side."""
        parts = tuple(parts)
        known = self._parts.get(parts)
        if known is None:
            known = self._parts[parts] = self.side(parts, self.owner(node), False)
        return known

    def calls_left(self, node: ast.If, body: bool) -> dict[str, list[ast.expr]]:
        """Return the names that a side of a condition leaves nothing but results of calls in, with what it calls."""
        return self.index.notes.of(node, _calls_left)[not body]

    def behind(self, node: ast.AST) -> Names | None:
        """Return the names that are read behind a condition, None where that is not known."""
        home = self._home(node)[0]
        known = self._liveness.get(id(home))
        if known is None:
            known = self._liveness[id(home)] = Liveness(home, self.index.notes)
        return known.behind(node)

    def at_top(self, node: ast.AST) -> bool:
        """Whether a condition stands in no function."""
        return self._home(node)[0] is self.tree

    def function(self, node: ast.AST) -> str:
        """Return the name of the function that a condition stands in, empty in none."""
        return getattr(self._home(node)[0], "name", "")

    def mentioned(self, node: ast.AST) -> frozenset[str]:
        """Return the last parts of the names that a condition asks."""
        known = self._mentioned.get(id(node))
        if known is None:
            known = self._mentioned[id(node)] = names_in(node.test) if isinstance(node, (ast.If, ast.IfExp)) else _NONE
        return known

    def owner(self, node: ast.AST) -> str | None:
        return self._home(node)[1]

    def shape(self, node: ast.If) -> Shape:
        known = self._shapes.get(id(node))
        if known is None:
            known = self._shapes[id(node)] = self._shape(node)
        return known

    def gathered(self, loop: ast.AST) -> Names | None:
        """Return the names that a loop works with which gathers data; None of one that may do more."""
        if id(loop) not in self._gathered:
            home = self._home(loop)[0]
            found = gathering.gathers(loop, home, self.index.notes)
            # What is gathered within a loop is the loop's, where that does nothing else.
            around = [one for one in self._loops_around(loop, home) if one is not loop] if found is None else []
            loops = map(self.gathered, around)
            self._gathered[id(loop)] = next((one for one in loops if one is not None), found)
        return self._gathered[id(loop)]

    def starts(self, node: ast.stmt) -> bool:
        """Return whether a statement, with what it calls in its file, can start a backward."""
        known = self._starts.get(id(node))
        if known is None:
            facts = self.index.notes.of(node, statement_facts)
            known = self._starts[id(node)] = bool(self.index.calls.reach(facts)[0] & Effect.START)
        return known

    def starting_methods(self, facts: Facts) -> dict[str, list[Body]]:
        """Return the methods of the file that a piece of code may call by their names and that can start a backward."""
        methods, calls = self.index.defined.methods, self.index.calls
        found = {
            name: [body for body in methods[name] if calls.closed_effects(body) & Effect.START]
            for name in facts.attributes & methods.keys()
        }
        return {name: bodies for name, bodies in found.items() if bodies}

    def repeated(self, node: ast.If) -> Side:
        """Return what does not come round again where a condition leads out of the loop around it; empty in none."""
        known = self._repeated.get(id(node))
        if known is None:
            home, owner = self._home(node)
            loop = _innermost(self._loops_around(node, home))
            known = self._repeated[id(node)] = _EMPTY if loop is None else self.side(loop.body, owner, True)
        return known

    def _loops_around(self, node: ast.AST, home: ast.AST) -> list[_Loop]:
        return [loop for loop in self._scope(home).loops if _within(node, loop)]

    def _shape(self, node: ast.If) -> Shape:
        home, owner = self._home(node)
        scope = self._scope(home)
        around = self._loops_around(node, home)
        loop = _innermost(around)
        making = getattr(home, "name", "") == "__init__"
        body = self.side(node.body, owner, loop is not None, making)
        orelse = self.side(node.orelse, owner, loop is not None, making)
        stored = body.facts.stored | orelse.facts.stored
        behind = self.behind(node)
        live = {name for name in stored if "." in name or behind is None or name in behind}
        jumps = body.jumps | orelse.jumps
        carried: frozenset[str] = _NONE
        skipped: list[ast.stmt] = []
        if jumps:
            leaves = bool(jumps & {"return", "value"}) or loop is None
            last = node.end_lineno or node.lineno
            until = scope.end if leaves or loop is None else loop.end_lineno or last
            carried = _read_later(scope, node, until, behind=not leaves, again=loop if "continue" in jumps else None)
            skipped = _statements_between(home, last, until)
        rest = self.side(skipped, owner, loop is not None)
        left_out = self._left_out(node, jumps, home, owner, around)
        return Shape(body, orelse, frozenset(live), rest, carried, left_out)

    def _left_out(
        self, node: ast.If, jumps: Jumps, home: ast.AST, owner: str | None, around: list[_Loop]
    ) -> frozenset[int]:
        """Return the lines of what is not run where a side of a condition leaves the block around it."""
        jumps &= LEAVING
        if not jumps:
            return frozenset()
        first, last = node.lineno, node.end_lineno or node.lineno
        if "value" in jumps or (not around and jumps != {"return"}):
            return _EVERYWHERE
        if "return" in jumps:
            first, until = min([first, *(loop.lineno for loop in around)]), getattr(home, "end_lineno", None) or last
        else:
            loop = max(around, key=lambda one: one.lineno)
            first, until = loop.lineno if "break" in jumps else first, loop.end_lineno or last
        # Who is given less, or something else, stands elsewhere.
        if jumps_of(getattr(home, "body", ()), suspends=self.index.suspends) & (
            {"value", "yield"} if "return" in jumps else {"yield"}
        ):
            return _EVERYWHERE
        skipped = [*_statements_between(home, first - 1, until), node]
        return frozenset((*range(first, until + 1), *self._lines_called(facts_of(skipped), owner)))

    def _lines_called(self, facts: Facts, owner: str | None) -> set[int]:
        """Return the lines of all functions that code in a function of a class calls, directly or through others."""
        lines: set[int] = set()
        seen: set[int] = set()
        waiting = [(facts, owner)]
        while waiting:
            for body in self.index.calls.callees(*waiting.pop()):
                if id(body) not in seen:
                    seen.add(id(body))
                    lines.update(range(body.node.lineno, (body.node.end_lineno or body.node.lineno) + 1))
                    waiting.append((body.facts, body.owner.name if body.owner is not None else None))
        return lines


def _raised(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the names of the classes that code raises, "" where a statement gives none."""
    for statement in (one for node in nodes for one in of_kind(node, ast.Raise)):
        match statement.exc:
            case ast.Call(func=raised) | raised:
                yield dotted(raised) if raised is not None else ""


def _calls_left(node: ast.If) -> tuple[dict[str, list[ast.expr]], dict[str, list[ast.expr]]]:
    return calls_left(node.body), calls_left(node.orelse)


def _innermost(loops: list[_Loop]) -> _Loop | None:
    return max(loops, key=lambda one: one.lineno, default=None)


def _within(node: ast.AST, loop: _Loop) -> bool:
    first = getattr(node, "lineno", 0)
    return loop.lineno <= first and (getattr(node, "end_lineno", None) or first) <= (loop.end_lineno or loop.lineno)


def _read_later(scope: Scope, node: ast.If, until: int, *, behind: bool, again: _Loop | None) -> frozenset[str]:
    """Return the names stored in what a jump skips, up to a line, that are read once the block has been left.

    They may be read `behind` that line, or in the next iteration of the loop that the jump goes on with `again`.
    """
    first, last = again.lineno if again is not None else 0, node.end_lineno or node.lineno
    after = {name for line, name in scope.stores if last < line <= until}
    carried = {name for name in after if "." in name}
    if behind:
        carried |= {name for line, name in scope.loads if line > until and name in after}
    if again is not None:
        carried |= {name for line, name in scope.loads if first <= line <= last and name in after}
    return frozenset(carried)


def _statements_between(home: ast.AST, after: int, until: int) -> list[ast.stmt]:
    """Return the outermost statements of a function that begin after a line and end by another."""
    found: list[ast.stmt] = []
    stack: list[ast.AST] = [home]
    while stack:
        for child in children(stack.pop()):
            if isinstance(child, ast.stmt):
                if child.lineno > after and (child.end_lineno or child.lineno) <= until:
                    found.append(child)
                elif (child.end_lineno or child.lineno) > after:
                    stack.append(child)
            elif isinstance(child, (ast.ExceptHandler, ast.match_case)):
                stack.append(child)
    return found


def shapes_of(source: Source) -> Shapes:
    """Return the shapes of a file's conditions, made once for each tree."""
    return source.notes.of(source.tree, _shapes, source)


def _shapes(tree: ast.Module, source: Source) -> Shapes:
    return Shapes(index_of(source), tree)


def imports_of_project(node: ast.AST) -> Iterator[ast.ImportFrom]:
    """Yield the statements that import names out of a file that may be the project's own."""
    for child in of_kind(node, ast.ImportFrom):
        if (child.module or "").partition(".")[0] not in LIBRARIES:
            yield child
