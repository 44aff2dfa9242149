"""Which undecided conditions a verdict can hang on: told at each one, from what the program holds there.

The other side of a condition can matter in three ways. It has effects of its own (it starts a backward, changes,
cuts, keeps or drops something, leaves the block, stores what a test reads): then it is always tried. It leaves a name
bound to a graph that is older than the iteration or freed, or to a graph where there was none: tried as well. Or it
only takes away what this side did, or computes the same kind of value otherwise: that can change no more than how
certain a finding is, so it is tried where a finding rests on what this side did.
"""

from __future__ import annotations

import ast
import builtins
import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tapecheck.interpret import limits
from tapecheck.interpret.explore.effects import (
    Effect,
    Facts,
    Index,
    facts_of,
    index_of,
    jumps_of,
    names_in,
    speaks_of_autograd,
    stored_plain,
)
from tapecheck.interpret.explore.liveness import Liveness, Names, exposed, free_names
from tapecheck.interpret.objects import carry
from tapecheck.interpret.python.imports import LIBRARIES
from tapecheck.interpret.values import (
    CONSTANTS,
    Bound,
    Class,
    Dict,
    Env,
    Function,
    Instance,
    Lib,
    List,
    Module,
    Set,
    Tensor,
    Unknown,
    Value,
    Wrapped,
)
from tapecheck.interpret.world import Place, World
from tapecheck.source import Source
from tapecheck.source.modules import Project
from tapecheck.source.nodes import children, statements_at, walk
from tapecheck.source.notes import Notes
from tapecheck.tape import (
    Backward,
    Bind,
    Escape,
    GradientCleared,
    GradientSet,
    Hold,
    InPlace,
    Optimizer,
    Raised,
    Step,
)

_NONE: frozenset[str] = frozenset()
_ABSENT = object()
_BUILTINS = frozenset(dir(builtins))


class Stake(enum.IntEnum):
    """What hangs on the other answer to a condition."""

    NOTHING = 0
    CERTAINTY = 1
    """How certain a finding is that rests on what this answer leads to."""
    ONCE = 2
    """A verdict, whatever the condition was answered before or is later: alternating answers show no more."""
    VERDICT = 3


class Graph(enum.IntEnum):
    """What is known of the graph of a value when a condition is reached."""

    NONE = 0
    FRESH = 1
    STALE = 2
    """It reaches back before the iteration, or a backward has been through it."""


@dataclass(slots=True)
class Side:
    """One side of a condition: its code with the effects of all it calls.

    `read` are the names that it reads before it stores them, `plain` those that it stores nothing but numbers in,
    `unknowable` those whose numbers no condition can be decided by. `imports` are those of what may be the project's
    own.
    """

    facts: Facts
    read: Names
    plain: Names
    unknowable: Names
    effects: int
    attributes: frozenset[str]
    jumps: frozenset[str]
    empty: bool
    imports: tuple[ast.ImportFrom, ...]


_EMPTY = Side(Facts(), _NONE, _NONE, _NONE, 0, _NONE, _NONE, True, ())


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


@dataclass(slots=True)
class Watched:
    """A condition that was asked: the most that hangs on it, the lines it decides about, those it led to.

    `names` are those that it gives other numbers, by file: what hangs on them are the conditions that read them.
    """

    stake: Stake = Stake.NOTHING
    lines: set[tuple[str, int]] = field(default_factory=set)
    names: set[tuple[str, str]] = field(default_factory=set)
    effects: int = 0
    """What the code can do that the answers so far left out, as bits of `Effect`."""


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


def _conditions_in(statement: ast.stmt) -> _Around:
    homes: dict[int, tuple[ast.AST | None, str | None]] = {}
    targets: dict[int, tuple[str, ...]] = {}
    stack: list[tuple[ast.AST, ast.AST | None, str | None]] = [(statement, None, None)]
    while stack:
        node, home, owner = stack.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            home = node
        elif isinstance(node, ast.ClassDef):
            owner = node.name
        elif isinstance(node, (ast.If, ast.IfExp, ast.BoolOp)):
            homes[id(node)] = (home, owner)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            names = node.targets if isinstance(node, ast.Assign) else [node.target]
            if isinstance(node.value, (ast.IfExp, ast.BoolOp)):
                targets[id(node.value)] = tuple(map(_dotted, names))
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
                if isinstance(node, ast.Name):
                    (known.loads if isinstance(node.ctx, ast.Load) else known.stores).append((node.lineno, node.id))
                elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                    name = f"{node.value.id}.{node.attr}"
                    (known.loads if isinstance(node.ctx, ast.Load) else known.stores).append((node.lineno, name))
                elif isinstance(node, ast.AugAssign):
                    known.loads.append((node.lineno, _dotted(node.target)))
                elif isinstance(node, (ast.For, ast.While, ast.AsyncFor)):
                    known.loops.append(node)
            self._scopes[id(home)] = known
        return known

    def side(self, nodes: Iterable[ast.AST], owner: str | None, looping: bool, making: bool = False) -> Side:
        nodes = [node for node in nodes if not isinstance(node, ast.Pass)]
        if not nodes:
            return _EMPTY
        facts = facts_of(nodes, looping=looping, making=making)
        effects, attributes = self.index.reach(facts, owner)
        first = exposed(nodes, self.index.notes)
        read = first | {name for name in facts.loaded if "." in name and name.partition(".")[0] in first}
        plain, unknowable = stored_plain(nodes)
        imports = tuple(one for node in nodes for one in imports_of_project(node))
        jumps = jumps_of(nodes, suspends=self.index.suspends)
        return Side(facts, read, plain, unknowable, int(effects), attributes, jumps, False, imports)

    def left(self, node: ast.expr, parts: Iterable[ast.expr]) -> Side:
        """Return the parts of an expression that were not evaluated, as a side."""
        parts = tuple(parts)
        known = self._parts.get(parts)
        if known is None:
            known = self._parts[parts] = self.side(parts, self.owner(node), False)
        return known

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
        if known is not None:
            return known
        home, owner = self._home(node)
        scope = self._scope(home)
        first, last = node.lineno, node.end_lineno or node.lineno
        around = [loop for loop in scope.loops if loop.lineno <= first and last <= (loop.end_lineno or loop.lineno)]
        loop = max(around, key=lambda one: one.lineno) if around else None
        making = getattr(home, "name", "") == "__init__"
        body = self.side(node.body, owner, loop is not None, making)
        orelse = self.side(node.orelse, owner, loop is not None, making)
        stored = body.facts.stored | orelse.facts.stored
        behind = self.behind(node)
        live = {name for name in stored if "." in name or behind is None or name in behind}
        jumps = body.jumps | orelse.jumps
        carried: set[str] = set()
        skipped: list[ast.stmt] = []
        if jumps:
            leaves = bool(jumps & {"return", "value"}) or loop is None
            until = scope.end if leaves or loop is None else loop.end_lineno or last
            after = {name for line, name in scope.stores if last < line <= until}
            # Of what is skipped, what is read once the block has been left: in the next iteration, or after the loop.
            carried = {name for name in after if "." in name}
            if not leaves:
                carried |= {name for line, name in scope.loads if line > until and name in after}
            if "continue" in jumps and loop is not None:
                carried |= {name for line, name in scope.loads if loop.lineno <= line <= last and name in after}
            skipped = _statements_between(home, last, until)
        rest = self.side(skipped, owner, loop is not None)
        left_out = self._left_out(node, jumps, home, owner, around)
        known = Shape(body, orelse, frozenset(live), rest, frozenset(carried), left_out)
        self._shapes[id(node)] = known
        return known

    def _left_out(
        self, node: ast.If, jumps: frozenset[str], home: ast.AST, owner: str | None, around: list[_Loop]
    ) -> frozenset[int]:
        """Return the lines of what is not run where a side of a condition leaves the block around it."""
        jumps &= _LEAVING
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
        lines = set(range(first, until + 1))
        seen: dict[int, None] = {}
        waiting = [(facts_of(skipped), owner)]
        while waiting:
            for body in self.index.callees(*waiting.pop()):
                if id(body) not in seen:
                    seen[id(body)] = None
                    lines |= set(range(body.node.lineno, (body.node.end_lineno or body.node.lineno) + 1))
                    waiting.append((body.facts, body.owner.name if body.owner is not None else None))
        return frozenset(lines)


_Loop = ast.For | ast.While | ast.AsyncFor
_EVERYWHERE = frozenset((-1,))


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


def _dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return ""


# Plain numbers: an operation on flags takes ten times as long, and these are asked at every condition.
_SETTLING = int(Effect.SETTLE | Effect.DROP)
_MATTERING = int(Effect.SETTLE | Effect.CHANGE | Effect.KEEP | Effect.DROP)
_MATTERING_OR_CUT = int(_MATTERING | Effect.CUT)
_DROP, _CUT, _CLEAR, _START = int(Effect.DROP), int(Effect.CUT), int(Effect.CLEAR), int(Effect.START)
_LEAVING = frozenset(("break", "continue", "return", "value"))
_LASTING = (Backward, Hold, InPlace, Escape, GradientCleared, GradientSet, Optimizer, Raised, Step)


class Watcher:
    """Watches the conditions of one way through the program."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.modules: Mapping[str, Module] = {}
        """The modules that the way has run, by path."""
        self.watched: dict[Place, Watched] = {}
        self._graphs: dict[int, Graph] = {}
        self._graphs_at = (0, 0)
        self._looked_at: set[tuple[ast.If, bool]] = set()

    def graphs_at(self, work: int, first: int) -> dict[int, Graph]:
        """Return what is known of the graphs in containers, by id, since the last statement or call was begun."""
        if self._graphs_at != (work, first):
            self._graphs_at = (work, first)
            self._graphs = {}
        return self._graphs

    def notes_of(self, path: str) -> Notes:
        """Return the notes of a file that the way has run."""
        return self.modules[path].notes if path in self.modules else Notes()

    def _shapes_of(self, world: World) -> Shapes | None:
        module = self.modules.get(world.frames[-1].file) if world.frames else None
        return shapes_of(module.source) if module is not None and module.source is not None else None

    # -- statements ---------------------------------------------------------------------------------------------

    def decided(self, world: World, node: ast.If, taken: bool, places: Sequence[Place], env: Env) -> _Open | None:
        """Look, where answers of the policy have decided an `if`, at what the other side would meet."""
        shapes = self._shapes_of(world)
        if shapes is None:
            for place in places:
                self.watched[place] = Watched(Stake.VERDICT, effects=int(Effect.SETTLE))
            return None
        if (node, taken) in self._looked_at and all(self.stake(place) is Stake.VERDICT for place in places):
            # No more than that can hang on them.
            return None
        world.spend(limits.WATCH_WORK)
        self._looked_at.add((node, taken))
        shape = shapes.shape(node)
        here, other = (shape.body, shape.orelse) if taken else (shape.orelse, shape.body)
        first = world.before_iteration
        stake = self._other_side(world, shapes, shape, here, other, env, first)
        before = {name: _lookup(env, name) for name in shape.live}
        objects = (
            [
                (owner, attribute, owner.attrs.get(attribute, _ABSENT))
                for owner in _objects(env)
                for attribute in here.attributes
                if attribute in owner.attrs
            ]
            if here.attributes
            else []
        )
        # No collection of data has None among its elements.
        most = Stake.CERTAINTY if _asks_data_for_none(node.test, env) else Stake.VERDICT
        stake = min(stake, most)
        own = ((other.facts.stored & shape.live) - other.unknowable) | {f"?.{name}" for name in other.attributes}
        stake = max(stake, self._number(world, shapes, (name.rsplit(".", 1)[-1] for name in own), places))
        lines = {(world.frames[-1].file, line) for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
        if other.jumps & _LEAVING:
            lines |= {(world.frames[-1].file, line) for line in shape.left_out}
        found = []
        for place in places:
            watched = self.watched.setdefault(place, Watched())
            watched.effects |= other.effects | (shape.rest.effects if here.jumps else 0)
            watched.lines |= lines
            watched.stake = max(watched.stake, stake)
            found.append(watched)
        inert = not here.effects & _DROP or _inert(world, here, env, first)
        events = len(world.tape.events)
        return _Open(shapes, shape, here, other, before, objects, events, first, found, places, env, inert, most)

    def trains(self, world: World, node: ast.If, taken: bool, env: Env) -> bool:
        """Whether a side of an `if`, or what the one that was taken leaves out, starts a backward or calls one."""
        shapes = self._shapes_of(world)
        if shapes is None:
            return False
        shape = shapes.shape(node)
        here, other = (shape.body, shape.orelse) if taken else (shape.orelse, shape.body)
        sides = (here, other, shape.rest) if here.jumps & _LEAVING else (here, other)
        return any((side.effects | _elsewhere(side, env, shapes)) & _START for side in sides)

    def _other_side(
        self, world: World, shapes: Shapes, shape: Shape, here: Side, other: Side, env: Env, first: int
    ) -> Stake:
        stake = Stake.NOTHING
        effects = other.effects
        for one in other.imports:
            imported = self._imported(one, world.frames[-1].file)
            if imported is None:
                # What another file of the project has is not known before it is imported.
                return Stake.VERDICT
            effects |= imported
        inert = other.empty or _inert(world, other, env, first)
        if not inert:
            effects |= _elsewhere(other, env, shapes)
        if effects & (_SETTLING if inert else _MATTERING):
            return Stake.VERDICT
        if other.effects & _CLEAR and world.optimizers:
            # Whether a gradient is cleared between two steps decides what the second one uses.
            return Stake.VERDICT
        if not other.empty:
            leaves = other.jumps
            if "yield" in leaves:
                return Stake.VERDICT
            graphs = [_graph(world, _lookup(env, name), first) for name in other.read]
            if "raise" in leaves and any(graphs):
                # Whoever catches it goes on without what it left out, and may keep what it carries.
                return Stake.VERDICT
            if first and world.last_id == first and world.grad_mode == "yes" and _calls_layer(other, env):
                # An iteration that has built no graph so far may build one there, for nothing.
                stake = Stake.ONCE
            # What both sides go on from is there either way.
            alone = [_graph(world, _lookup(env, name), first) for name in other.read - here.read]
            if Graph.STALE in graphs if "value" in leaves else Graph.STALE in alone and other.facts.stored & shape.live:
                return Stake.VERDICT
            if other.facts.stored & shape.live:
                stake = max(stake, Stake.CERTAINTY)
            if leaves & {"continue", "break", "return"}:
                stake = max(stake, Stake.CERTAINTY)
                if any(_graph(world, _lookup(env, name), first) for name in shape.carried):
                    return Stake.VERDICT
            if "value" in leaves:
                stake = max(stake, Stake.CERTAINTY)
                if any(graphs) or not inert:
                    return Stake.VERDICT
        if here.jumps & {"continue", "break", "return", "value"}:
            # What this side leaves out has not been seen.
            rest = shape.rest
            inert = rest.empty or _inert(world, rest, env, first)
            if rest.effects & (_SETTLING if inert else _MATTERING_OR_CUT):
                return Stake.VERDICT
            if rest.facts.stored and not inert:
                return Stake.VERDICT
        return stake

    def _imported(self, statement: ast.ImportFrom, file: str) -> int | None:
        """Return the effects of what an import brings, None where it leads to a file that speaks of autograd."""
        effects = 0
        waiting = [(name, level, file) for name, level in _modules_of(statement)]
        seen = {file}
        while waiting:
            found = self.project.locate(*waiting.pop())
            if found is None or (found.file is None and not found.folders):
                # Nobody looks into a library.
                continue
            source = self.project.source(found.file) if found.file is not None else None
            if source is None or speaks_of_autograd(source):
                return None
            if source.path not in seen:
                seen.add(source.path)
                for body in index_of(source).bodies:
                    effects |= int(body.facts.effects)
                imports = [part for part in walk(source.tree) if isinstance(part, (ast.Import, ast.ImportFrom))]
                waiting += [(name, level, source.path) for one in imports for name, level in _modules_of(one)]
        return effects

    def broken(self, open_: _Open | None) -> None:
        """Note that an exception ended the side taken: what lies beyond has not been seen."""
        for watched in open_.watched if open_ is not None else ():
            watched.stake = Stake.VERDICT

    def left(self, world: World, open_: _Open | None) -> None:
        """Look at what the side that was taken did, now that it is done."""
        if open_ is None:
            return
        stake = Stake.NOTHING
        here, other, shape = open_.here, open_.other, open_.shape
        if here.effects & _DROP and not open_.inert:
            stake = Stake.VERDICT
        for owner, attribute, was in open_.objects:
            if f"self.{attribute}" not in here.facts.stored:
                stake = max(stake, self._stored(world, open_, attribute, was, owner.attrs.get(attribute, _ABSENT)))
        for name in shape.live:
            now = _lookup(open_.env, name)
            before = open_.before.get(name, _ABSENT)
            if name in here.facts.stored or "." in name:
                stake = max(stake, self._stored(world, open_, name, before, now))
            elif name in other.facts.stored and self._differs(world, open_, name, now):
                stake = Stake.VERDICT
        lasting = False
        lines: set[tuple[str, int]] = set()
        creates = False
        for event in world.tape.events[open_.start :]:
            if isinstance(event, _LASTING):
                lasting = True
                if isinstance(event, GradientCleared):
                    creates = True
            elif isinstance(event, Bind) and event.node is not None and "[" in event.name:
                # An element of what is there on both sides.
                lasting = True
            at = getattr(event, "at", None)
            if at is not None:
                lines.add((at.span.file, at.span.line))
        if lasting:
            stake = max(stake, Stake.CERTAINTY)
        if creates and any(
            isinstance(event, Backward) and event.create != "no" and event.accumulates for event in world.tape.events
        ):
            stake = Stake.VERDICT
        stake = min(stake, open_.most)
        for watched in open_.watched:
            watched.stake = max(watched.stake, stake)
            watched.lines |= lines

    def _stored(self, world: World, open_: _Open, name: str, before: Value, now: Value) -> Stake:
        """Return what hangs on a name that this side stored: else it is what it was, or what that side stores."""
        if before is now:
            return Stake.NOTHING
        if (_plain(before) or _plain(now)) and not _same(before, now):
            last = name.rsplit(".", 1)[-1]
            if self._number(world, open_.shapes, (last,), open_.places) is Stake.VERDICT:
                return Stake.VERDICT
        graph = _graph(world, now, open_.first)
        if name in open_.other.facts.stored:
            # Both sides store it: a graph on this side only changes what follows.
            return Stake.VERDICT if self._differs(world, open_, name, now) else Stake.CERTAINTY
        was = _graph(world, before, open_.first)
        if was is Graph.STALE and graph is Graph.STALE:
            # The old graph is there either way.
            return Stake.CERTAINTY
        if was is Graph.STALE or (graph and not was and before is not _ABSENT):
            return Stake.VERDICT
        if was and not graph:
            return Stake.VERDICT
        if graph:
            return Stake.CERTAINTY
        return Stake.CERTAINTY if isinstance(now, (Instance, List, Dict, Set, Function, Class)) else Stake.NOTHING

    def _differs(self, world: World, open_: _Open, name: str, now: Value) -> bool:
        """Whether the other side may store a value with a graph where this one has none there, or none where it has."""
        graph = bool(_graph(world, now, open_.first))
        other = open_.other
        if isinstance(now, Instance) and now.module:
            # Another layer, as likely as not: what it gives has a graph, too.
            return False
        if name in other.plain or other.effects & _CUT or _inert(world, other, open_.env, open_.first):
            return graph
        reads = any(_graph(world, _lookup(open_.env, name), open_.first) for name in other.read)
        return not reads and not other.facts.called if graph else True

    def idle(self, world: World, node: ast.If, env: Env) -> bool:
        """Whether a condition, whose answer is known, decides about nothing but numbers that no other one reads."""
        shapes = self._shapes_of(world)
        if shapes is None:
            return False
        shape, tested = shapes.shape(node), shapes.index.tested
        jumps = shape.body.jumps | shape.orelse.jumps
        if jumps & {"raise", "yield"} or ("value" in jumps and shapes.function(node) in tested):
            return False
        if "value" in jumps and any(frame.file != world.frames[-1].file for frame in world.frames):
            # What another file does with the number is not in this one's index.
            return False
        stored = set(shape.live)
        parts = [shape.body, shape.orelse]
        if jumps:
            parts.append(shape.rest)
            stored |= shape.carried
        if not stored <= shape.body.plain | shape.orelse.plain or not tested.isdisjoint(stored):
            return False
        first = world.before_iteration
        return not any(
            part.imports
            or part.effects & (_SETTLING | _CLEAR)
            or not part.attributes.isdisjoint(tested)
            or not _inert(world, part, env, first)
            for part in parts
            if not part.empty
        )

    # -- expressions --------------------------------------------------------------------------------------------

    def chosen(
        self, world: World, node: ast.expr, other: Iterable[ast.expr], value: Value, places: Sequence[Place], env: Env
    ) -> None:
        """Note which part an expression took as its value; `other` are those that were not evaluated."""
        stake, effects = self._of_expression(world, node, other, value, places, env)
        for place in places:
            watched = self.watched.setdefault(place, Watched())
            watched.stake = max(watched.stake, stake)
            watched.effects |= effects
            watched.lines.add((world.frames[-1].file, getattr(node, "lineno", 1)))

    def _of_expression(
        self,
        world: World,
        node: ast.expr,
        other: Iterable[ast.expr],
        value: Value,
        places: Sequence[Place],
        env: Env,
    ) -> tuple[Stake, int]:
        shapes = self._shapes_of(world)
        if shapes is None:
            return Stake.VERDICT, int(Effect.SETTLE)
        world.spend(limits.WATCH_WORK)
        side = shapes.left(node, other)
        first = world.before_iteration
        if side.effects & (_SETTLING if _inert(world, side, env, first) else _MATTERING_OR_CUT):
            return Stake.VERDICT, side.effects
        graph = _graph(world, value, first)
        graphs = [_graph(world, _lookup(env, name), first) for name in side.read]
        if Graph.STALE in graphs:
            return Stake.VERDICT, side.effects
        if bool(graph) != any(graphs) and not (graph and side.facts.called):
            return Stake.VERDICT, side.effects
        if graph:
            return Stake.CERTAINTY, side.effects
        if isinstance(value, Instance) or (isinstance(value, (Class, Function)) and side.facts.names):
            return Stake.CERTAINTY, side.effects
        if isinstance(value, Tensor) and _calls_layer(side, env):
            return Stake.CERTAINTY, side.effects
        behind = shapes.behind(node)
        live = [one for one in shapes.targets(node) if "." in one or behind is None or one in behind]
        if _plain(value) and live:
            stake = self._number(world, shapes, (name.rsplit(".", 1)[-1] for name in live), places)
            return max(stake, Stake.CERTAINTY if "" in live else Stake.NOTHING), side.effects
        return Stake.NOTHING, side.effects

    # -- numbers ------------------------------------------------------------------------------------------------

    def _number(self, world: World, shapes: Shapes, names: Iterable[str], places: Iterable[Place]) -> Stake:
        """Return what hangs on giving names another number: what the conditions that read them decide."""
        tested = [name for name in names if name in shapes.index.tested]
        if any(name in shapes.index.steering for name in tested):
            return Stake.VERDICT
        file = world.frames[-1].file
        for place in places if tested else ():
            self.watched.setdefault(place, Watched()).names.update((file, name) for name in tested)
        return Stake.NOTHING

    def stake(self, place: Place) -> Stake:
        """Return what hangs on the other answer to a condition; a verdict where that is not known."""
        watched = self.watched.get(place)
        return Stake.VERDICT if watched is None else watched.stake

    def does(self, place: Place | None, effect: Effect) -> bool:
        """Whether the other answer to a condition may do something of that kind; yes where that is not known."""
        watched = self.watched.get(place) if place is not None else None
        return watched is None or bool(watched.effects & int(effect))

    def settle(self, world: World) -> None:
        """See, at the end of a way, what hangs on the conditions that only gave names other numbers."""
        for watched in self.watched.values():
            for file, name in watched.names:
                if watched.stake is Stake.VERDICT:
                    break
                watched.stake = max(watched.stake, self._of_name(world, file, name, set()))

    def _of_name(self, world: World, file: str, name: str, seen: set[str]) -> Stake:
        module = self.modules.get(file)
        if module is None or module.source is None:
            return Stake.VERDICT
        shapes = shapes_of(module.source)
        names = shapes.index.leads_to(name) - seen
        seen |= names
        stake = Stake.NOTHING
        undecided = {asked.statement for asked in world.asked.values()}
        for node, where in world.passed.items():
            # What hangs on one that nobody can decide is seen where that is turned round itself.
            if where == file and node not in undecided and not names.isdisjoint(shapes.mentioned(node)):
                if isinstance(node, ast.If):
                    stake = max(stake, self._of_known(world, shapes, node, module.env, file, seen))
                elif isinstance(node, ast.IfExp):
                    stake = max(stake, self._of_choice(world, shapes, node, module.env))
                if stake is Stake.VERDICT:
                    break
        return stake

    def _of_known(self, world: World, shapes: Shapes, node: ast.If, env: Env, file: str, seen: set[str]) -> Stake:
        """What hangs on a condition whose answer another one has given: told from its code and what there is now."""
        shape = shapes.shape(node)
        stake = Stake.NOTHING
        for side, other in ((shape.body, shape.orelse), (shape.orelse, shape.body)):
            inert = side.empty or (shapes.at_top(node) and _inert(world, side, env, 0, bound=True))
            if side.effects & (_SETTLING if inert else _MATTERING_OR_CUT):
                return Stake.VERDICT
            if side.jumps - {"raise"} and (
                side.jumps & {"yield", "value"} or shape.rest.effects & _MATTERING_OR_CUT or shape.rest.facts.stored
            ):
                return Stake.VERDICT
            for name in side.facts.stored & shape.live:
                last = name.rsplit(".", 1)[-1]
                if name in other.facts.stored:
                    stake = Stake.CERTAINTY
                elif not inert and name not in side.plain:
                    return Stake.VERDICT
                if last in shapes.index.steering:
                    return Stake.VERDICT
                if last in shapes.index.tested and last not in seen:
                    stake = max(stake, self._of_name(world, file, last, seen))
        return stake

    def _of_choice(self, world: World, shapes: Shapes, node: ast.IfExp, env: Env) -> Stake:
        sides = [shapes.side((part,), shapes.owner(node), False) for part in (node.body, node.orelse)]
        if all(shapes.at_top(node) and _inert(world, side, env, 0, bound=True) for side in sides):
            return Stake.NOTHING
        if any(side.effects & _MATTERING_OR_CUT for side in sides):
            return Stake.VERDICT
        return Stake.CERTAINTY if sides[0].read == sides[1].read else Stake.VERDICT


@dataclass(slots=True)
class _Open:
    """An `if` whose side is being run."""

    shapes: Shapes
    shape: Shape
    here: Side
    other: Side
    before: dict[str, Value]
    objects: list[tuple[Instance, str, Value]]
    start: int
    first: int
    watched: list[Watched]
    places: Sequence[Place]
    env: Env
    inert: bool
    most: Stake


def _asks_data_for_none(test: ast.expr, env: Env) -> bool:
    if not (isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and len(test.ops) == 1):
        return False
    if not isinstance(test.ops[0], (ast.Is, ast.IsNot)):
        return False
    value = _lookup(env, test.left.id)
    return isinstance(value, Unknown) and value.data


def _lookup(env: Env, name: str) -> Value:
    """Return the value of a name, or of an attribute of one ("self.h"), without asking anything of the program."""
    base, _, attr = name.partition(".")
    scope: Env | None = env
    while scope is not None and base not in scope.vars:
        scope = scope.parent
    if scope is None:
        scope = env.globals
        if base not in scope.vars:
            return _ABSENT
    value = scope.vars[base]
    if not attr:
        return value
    if isinstance(value, Instance):
        return value.attrs.get(attr, _ABSENT)
    return _ABSENT


def _graph(world: World, value: Value, first: int) -> Graph:
    """Return what is known of the graphs that a value holds."""
    kind = type(value)
    if value is _ABSENT or kind in _WITHOUT or isinstance(value, CONSTANTS):
        return Graph.NONE
    if kind is Tensor or kind is Unknown:
        return _graph_of(world, value, first)
    if isinstance(value, (tuple, List, Dict, Set)) or (kind is Instance and not value.module):
        # Many names are asked for several times at one condition, and what they hold may be long.
        memo = world.watcher.graphs_at(world.work, first) if isinstance(world.watcher, Watcher) else {}
        found = memo.get(id(value))
        if found is None:
            of_each = (_graph_of(world, one, first) for one in carry.tensors_in(value, 2))
            found = memo[id(value)] = max(of_each, default=Graph.NONE)
        return found
    return Graph.NONE


_WITHOUT = (Lib, Module, Class, Function)


def _graph_of(world: World, value: Tensor | Unknown, first: int) -> Graph:
    if value.node is None or carry.is_leaf(value):
        return Graph.NONE
    if value.oldest is not None and value.oldest <= first:
        return Graph.STALE
    return Graph.STALE if world.ledger.is_freed(value.node) != "no" else Graph.FRESH


def _plain(value: Value) -> bool:
    return value is None or isinstance(value, CONSTANTS)


def _same(left: Value, right: Value) -> bool:
    return type(left) is type(right) and isinstance(left, CONSTANTS) and bool(left == right)


def _inert(world: World, side: Side, env: Env, first: int, *, bound: bool = False) -> bool:
    """Whether nothing that a side works with can hold or build a graph: numbers, data, what nobody knows.

    `bound` wants every name to have a value.
    """
    if side.facts.own - {name[5:] for name in side.facts.loaded if name.startswith("self.")}:
        return False
    for name in side.read:
        value = _lookup(env, name)
        if value is _ABSENT:
            if "." in name and isinstance(_lookup(env, name.partition(".")[0]), Instance):
                # A method of the user's, or an attribute that only its class has.
                return False
            if bound and name not in _BUILTINS:
                return False
            continue
        if _graph(world, value, first):
            return False
        if isinstance(value, Function) and _builds_nothing(value, set()):
            continue
        if isinstance(value, (Function, Class, Bound, Wrapped)) or (isinstance(value, Instance) and value.module):
            return False
        if isinstance(value, Tensor) and value.is_leaf and value.node is not None:
            return False
    return True


def _modules_of(statement: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, int]]:
    """Yield the modules that an import may run, by name and level: a name that it brings may be one, too."""
    if isinstance(statement, ast.Import):
        names = [(alias.name, 0) for alias in statement.names]
    else:
        module = statement.module or ""
        within = [".".join(filter(None, (module, alias.name))) for alias in statement.names if alias.name != "*"]
        names = [(name, statement.level) for name in (module, *within)]
    for name, level in names:
        if level or name.partition(".")[0] not in LIBRARIES:
            yield name, level


def imports_of_project(node: ast.AST) -> Iterator[ast.ImportFrom]:
    """Yield the statements that import names out of a file that may be the project's own."""
    for child in walk(node):
        if isinstance(child, ast.ImportFrom) and (child.module or "").partition(".")[0] not in LIBRARIES:
            yield child


def _elsewhere(side: Side, env: Env, shapes: Shapes) -> int:
    """Return the effects of the functions of other files, and of methods of their objects, that a side calls."""
    effects = 0
    for name in side.read if side.facts.called else ():
        value = _lookup(env, name)
        while isinstance(value, Wrapped):
            value = value.function
        if isinstance(value, Function):
            effects |= _closure(value, shapes)
        elif isinstance(value, Instance) and value.cls is not None:
            for cls in value.cls.mro():
                for method in side.facts.attributes & cls.namespace.keys():
                    effects |= _closure(cls.namespace[method], shapes)
    return effects


def _closure(function: Value, shapes: Shapes) -> int:
    while isinstance(function, Wrapped):
        function = function.function
    if not isinstance(function, Function) or function.module.source is None:
        return 0
    index = index_of(function.module.source)
    # What stands in the same file is in the effects of the side itself.
    body = index.body_of(function.node) if index is not shapes.index else None
    return int(index.closure(body)) if body is not None else 0


def _calls_layer(side: Side, env: Env) -> bool:
    """Whether a side reads a model that is there by name: what it does with it as likely as not builds a graph."""
    values = (_lookup(env, name) for name in side.read)
    return side.facts.called and any(isinstance(value, Instance) and value.module for value in values)


def _builds_nothing(function: Function, seen: set[int]) -> bool:
    """Whether a function can build a graph from nothing but what it is given: it knows of no layer and no tensor."""
    if id(function.node) in seen:
        return True
    seen.add(id(function.node))
    if len(seen) > limits.MOST_CALLEES:
        return False
    for name in function.module.notes.of(function.node, free_names):
        value = _lookup(function.env, name)
        if isinstance(value, Function):
            if not _builds_nothing(value, seen):
                return False
        elif not (value is _ABSENT or _plain(value) or isinstance(value, (Lib, Module)) or type(value) is Unknown):
            return False
    return True


def _objects(env: Env) -> list[Instance]:
    """Return the objects that the names of a function refer to, and those that its own object does."""
    found = [value for value in env.vars.values() if isinstance(value, Instance)]
    owner = env.vars.get("self")
    if isinstance(owner, Instance):
        found += [value for value in owner.attrs.values() if isinstance(value, Instance)]
    return found


def shapes_of(source: Source) -> Shapes:
    """Return the shapes of a file's conditions, made once for each tree."""
    index = index_of(source)
    if not isinstance(index.shapes, Shapes):
        index.shapes = Shapes(index, source.tree)
    return index.shapes
