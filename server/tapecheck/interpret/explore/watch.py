"""Which undecided conditions a verdict can hang on: told at each one, from what the program holds there.

The other side of a condition can matter in three ways. It has effects of its own (it starts a backward, changes,
cuts, keeps or drops something, leaves the block, stores what a test reads): then it is always tried. It leaves a name
bound to a graph that is older than the iteration or freed, or to a graph where there was none: tried as well. Or it
only takes away what this side did, or computes the same kind of value otherwise: that can change no more than how
certain a finding is, so it is tried where a finding rests on what this side did.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tapecheck.interpret import limits
from tapecheck.interpret.explore.definitions import Body
from tapecheck.interpret.explore.effects import Effect, statement_facts
from tapecheck.interpret.explore.elsewhere import of_calls, of_import, of_names, of_value
from tapecheck.interpret.explore.index import NumberFlow, Told
from tapecheck.interpret.explore.jumps import LEAVING, Jumps
from tapecheck.interpret.explore.present import (
    ABSENT,
    Graph,
    GraphsOfContainers,
    Handing,
    Present,
    handings,
    is_leaf,
    is_same,
    knows_nothing,
)
from tapecheck.interpret.explore.shapes import Shape, Shapes, Side, shapes_of
from tapecheck.interpret.explore.stakes import LeftOut, Stake, Watched
from tapecheck.interpret.objects import exceptions
from tapecheck.interpret.state import Guarded, Place, World
from tapecheck.interpret.values import (
    Class,
    Dict,
    Env,
    Function,
    Instance,
    List,
    Module,
    Set,
    Tensor,
    Value,
    bound_function,
    function_of,
    is_constant,
    is_module,
    only,
    user_class,
)
from tapecheck.source.modules import Modules
from tapecheck.source.nodes import id_of, of_kind
from tapecheck.source.notes import Notes, placeless
from tapecheck.tape import (
    Backward,
    Bind,
    Cut,
    Escape,
    Event,
    GradientCleared,
    GradientSet,
    Hold,
    InPlace,
    Optimizer,
    Raised,
    Step,
)

# Plain numbers: an operation on flags takes ten times as long, and these are asked at every condition.
_SETTLING = int(Effect.SETTLE | Effect.DROP)
_MATTERING = int(Effect.SETTLE | Effect.CHANGE | Effect.KEEP | Effect.DROP)
_MATTERING_OR_CUT = int(_MATTERING | Effect.CUT)
_START, _DROP, _CUT, _CLEAR = int(Effect.START), int(Effect.DROP), int(Effect.CUT), int(Effect.CLEAR)
_TRAINING = int(Effect.START | Effect.CHANGE | Effect.CLEAR)
_EVALUATING = int(Effect.COLLECT | Effect.STEP | Effect.READ)
_READ, _WRAP = int(Effect.READ), int(Effect.WRAP)
_SUPPLYING = int(Effect.CLEAR | Effect.READ)
_OF_GRAPHS = int(Effect.SETTLE | Effect.CHANGE | Effect.CLEAR | Effect.READ | Effect.WRAP)
_OF_PROGRAMS = int(Effect.START | Effect.COLLECT | Effect.STEP)
_EVALUATE = int(Effect.EVALUATE)
_LASTING = (Backward, Hold, InPlace, Escape, GradientCleared, GradientSet, Optimizer, Raised, Step)


class Watcher:
    """Watches the conditions of one way through the program.

    `told` takes what it asks about the numbers of the file that is checked.
    """

    def __init__(self, project: Modules, told: Told) -> None:
        self.project = project
        self._told = told
        self.modules: Mapping[str, Module] = {}
        """The modules that the way has run, by path."""
        self._entered: dict[str, Module] = {}
        """The modules whose code it has run: one that an earlier way has imported need not be run again."""
        self.watched: dict[Place, Watched] = {}
        self.loops: dict[Place, bool] = {}
        """Whether anything may hang on each loop that was entered though nobody knows whether it goes round."""
        self._containers = GraphsOfContainers()
        self._looked_at: set[tuple[ast.If, bool]] = set()
        self._left_out: dict[tuple[ast.If, bool], tuple[LeftOut, ...]] = {}

    def notes_of(self, path: str) -> Notes:
        """Return the notes of a file that the way has run."""
        module = self.module(path)
        return module.notes if module is not None else Notes()

    def module(self, path: str) -> Module | None:
        """Return a module that the way has run, or run code of."""
        return self.modules.get(path) or self._entered.get(path)

    def _shapes_of(self, world: World) -> Shapes | None:
        module = world.position.frames[-1].module if world.position.frames else None
        if module is not None:
            self._entered[module.path] = module
        return shapes_of(module.source) if module is not None and module.source is not None else None

    def _numbers(self, shapes: Shapes) -> NumberFlow | Told:
        numbers = shapes.index.numbers
        return self._told if numbers is self._told.numbers else numbers

    def _present(self, world: World, env: Env) -> Present:
        return Present(world, env, world.loops.before_iteration, self._containers)

    # -- statements ---------------------------------------------------------------------------------------------

    def decided(self, world: World, node: ast.If, taken: bool, places: Sequence[Place], env: Env) -> _Open | None:
        """Look, where answers of the policy have decided an `if`, at what the other side would meet."""
        shapes = self._shapes_of(world)
        if shapes is None:
            for place in places:
                self.watched[place] = Watched(Stake.VERDICT, effects=int(Effect.SETTLE))
            return None
        if (node, taken) in self._looked_at and {Stake.VERDICT}.issuperset(map(self.stake, places)):
            # No more than that can hang on them.
            for known in filter(None, map(self.watched.get, places)):
                known.leave_out(self._left_out[node, taken])
            return None
        world.budget.spend(limits.WATCH_WORK)
        self._looked_at.add((node, taken))
        shape = shapes.shape(node)
        here, other = shape.sides(taken)
        present = self._present(world, env)
        left_out = self._left_out[node, taken] = tuple(self._parts_left_out(present, shapes, node, taken))
        modes = self._of_modes(present, shapes, node)
        stake = max(self._other_side(present, shapes, shape, here, other), Stake.VERDICT if modes else Stake.NOTHING)
        if _wraps(present, shapes, shape, here, other):
            stake = max(stake, Stake.ONCE)
        most = Stake.CERTAINTY if _is_unlikely(present, node.test) else Stake.VERDICT
        numbers, unknown = self._numbers_left(present, shapes, node, taken)
        stake = max(min(stake, most), self._number(world, shapes, numbers, places))
        self._note_tested(world, shapes, here.facts.filled ^ other.facts.filled, places, filled=True)
        lines = {(world.position.frames[-1].file, line) for line in _lines_of(node, shape, other)}
        effects = other.effects | modes | (shape.rest.effects if here.jumps else 0)
        watched = [self.watched.setdefault(place, Watched()) for place in places]
        caught = self._caught(present, other) > Stake.NOTHING
        for one in watched:
            one.add(stake, lines, effects, caught=caught)
            one.leave_out(left_out)
        before = {name: present.value(name) for name in shape.live}
        inert = not here.effects & _DROP or present.inert(here)
        return _Open(
            self, present, shapes, shape, here, other, before, _attributes_of(present, here),
            len(world.writer.tape.events), watched, places, inert, most, unknown,
        )  # fmt: skip

    def _parts_left_out(self, present: Present, shapes: Shapes, node: ast.If, taken: bool) -> Iterator[LeftOut]:
        """Yield what an answer to an `if` leaves out: the other side, and where this one leaves the block the rest."""
        shape = shapes.shape(node)
        here, other = shape.sides(taken)
        file, owner = present.world.position.frames[-1].file, shapes.owner(node)
        replaced = any(_is_code(present.value(name)) for name in here.facts.stored & shape.live)
        calls = shapes.index.notes.of(node, _calls_of)[taken]
        handed = replaced or bool(other.imports) or present.hands_over(calls)
        yield LeftOut(file, other.facts, owner, other.jumps, handed)
        if here.jumps:
            rest = shape.rest
            yield LeftOut(
                file, rest.facts, owner, rest.jumps, rest.facts.called and present.hands_over([("", rest.read)])
            )

    def _numbers_left(
        self, present: Present, shapes: Shapes, node: ast.If, taken: bool
    ) -> tuple[set[str], frozenset[str]]:
        """Return what the side that is not taken gives a number, and those names where nothing is known of it."""
        shape = shapes.shape(node)
        here, other = shape.sides(taken)
        stored = ((other.facts.stored & shape.live) - other.unknowable) | {f"?.{name}" for name in other.attributes}
        numbers = self._numbers(shapes)
        steering = {name for name in stored if numbers.steers(_last(name))}
        unknown = _left_unknown(present, shapes, node, taken) & steering if steering and not here.jumps else frozenset()
        return stored - unknown, unknown

    def trains(self, world: World, node: ast.If, taken: bool, env: Env) -> bool:
        """Whether a side of an `if`, or what the one that was taken leaves out, starts a backward, changes something in
        place, steps or clears gradients, enters or leaves a context, or calls what does.
        """
        shapes = self._shapes_of(world)
        if shapes is None:
            return False
        shape = shapes.shape(node)
        here, other = shape.sides(taken)
        sides = (here, other, shape.rest) if here.jumps & LEAVING else (here, other)
        present = self._present(world, env)
        return any(
            (side.effects | of_calls(side, present, shapes)) & _TRAINING
            or present.steps(side)
            or present.switches(side)
            for side in sides
        )

    def supplies(self, world: World, node: ast.If, taken: bool, env: Env) -> bool:
        """Whether the side of an `if` that is not run clears or reads a gradient, or calls what does, or whether one of
        its sides wraps a model.
        """
        shapes = self._shapes_of(world)
        if shapes is None:
            return False
        shape, present = shapes.shape(node), self._present(world, env)
        here, other = shape.sides(taken)
        supplies = (other.effects | of_calls(other, present, shapes)) & _SUPPLYING
        return bool(supplies) or _wraps(present, shapes, shape, here, other)

    def evaluates(self, world: World, node: ast.If, env: Env) -> bool:
        """Whether a side of an `if` collects, takes numbers out or calls what does, as evaluation and sampling do."""
        shapes = self._shapes_of(world)
        if shapes is None:
            return False
        shape, present = shapes.shape(node), self._present(world, env)
        return any(
            (side.effects | of_calls(side, present, shapes)) & _EVALUATING for side in (shape.body, shape.orelse)
        )

    def clears(self, world: World, node: ast.If, env: Env) -> bool | None:
        """Return the answer of an `if` with which alone gradients are cleared, None where there is none."""
        shapes = self._shapes_of(world)
        if shapes is None:
            return None
        shape, present = shapes.shape(node), self._present(world, env)
        body, orelse = (
            bool((side.effects | of_calls(side, present, shapes)) & _CLEAR) for side in (shape.body, shape.orelse)
        )
        return None if body == orelse else body

    def loop_trains(self, world: World, node: ast.AST, env: Env | None) -> bool:
        """Whether the text of a loop, with what it calls in its file and directly in others, can start a backward."""
        module = world.position.frames[-1].module
        if module.source is None or not isinstance(node, ast.stmt):
            return False
        shapes = shapes_of(module.source)
        starts, here = shapes.starts(node), self._shapes_of(world)
        if env is None or here is None:
            return starts
        present, facts = self._present(world, env), module.notes.of(node, statement_facts)
        if starts:
            methods = shapes.starting_methods(facts)
            if not methods or not all(_is_of_library(present, node, name, methods[name]) for name in methods):
                return True
            facts = replace(facts, attributes=facts.attributes - methods.keys())
            if shapes.index.calls.reach(facts)[0] & Effect.START:
                return True
        if not facts.called:
            return False
        receivers = module.notes.of(node, _receivers)
        return any(
            of_value(present.value(name), receivers.get(name, facts.attributes), here, limits.DEPTH_OF_MEMBERS) & _START
            for name in facts.loaded
        )

    def _other_side(self, present: Present, shapes: Shapes, shape: Shape, here: Side, other: Side) -> Stake:
        """Return what hangs on the side of an `if` that is not run, as far as that is known before the other one is."""
        world = present.world
        imported = self._of_imports(world, other)
        if imported is None:
            return Stake.VERDICT
        inert = other.empty or present.inert(other)
        effects = other.effects | imported | (0 if inert else of_calls(other, present, shapes))
        if effects & (_SETTLING if inert else _MATTERING):
            return Stake.VERDICT
        if not inert and effects & (_EVALUATE if world.position.iteration else _OF_PROGRAMS):
            # What evaluates is a program of its own, and outside of all loops what trains.
            return Stake.ONCE
        caught = self._caught(present, other)
        if caught is Stake.VERDICT:
            return caught
        if _uses_gradients(world, other) or (here.jumps & LEAVING and _left_out_matters(present, shape.rest)):
            return Stake.VERDICT
        found = Stake.NOTHING if other.empty else _of_graphs(present, shape, here, other, inert)
        return max(caught, found)

    def _caught(self, present: Present, side: Side) -> Stake:
        """Return what hangs on what is done where somebody catches what a side may raise."""
        catching = [
            self._of_handlers(present.world, one)
            for one in present.world.position.guarded
            if any(exceptions.may_catch(one.caught, name, present.value(name)) for name in side.raised)
        ]
        if Stake.VERDICT in catching:
            return Stake.VERDICT
        # What is called may raise as well, and a handler may do by what is stored what nobody reads in its text.
        may_raise = bool(present.world.position.guarded) and side.facts.called
        return Stake.CERTAINTY if catching or may_raise else Stake.NOTHING

    def _of_handlers(self, world: World, guarded: Guarded) -> Stake:
        """Return what hangs on what handlers of exceptions do."""
        source = guarded.module.source
        if source is None:
            return Stake.VERDICT
        shapes, there = shapes_of(source), self._present(world, guarded.env)
        handlers = [shapes.side(one, None, False) for one in guarded.handlers]
        for one in handlers:
            if (one.effects | of_calls(one, there, shapes)) & _MATTERING_OR_CUT or _uses_gradients(world, one):
                return Stake.VERDICT
        return Stake.CERTAINTY

    def _of_imports(self, world: World, side: Side) -> int | None:
        """Return the effects of what a side imports; None where that is not known before it is imported."""
        effects = 0
        for one in side.imports:
            imported = of_import(self.project, one, world.position.frames[-1].file, self.modules)
            if imported is None:
                return None
            effects |= imported
        return effects

    def _of_modes(self, present: Present, shapes: Shapes, node: ast.If) -> int:
        """Return what programs do that are chosen by the same setting as a side of this `if`, if it matters."""
        effects = 0
        for one in shapes.other_modes(node):
            side = shapes.shape(one).body
            if not present.inert(side):
                effects |= side.effects | of_calls(side, present, shapes)
        return effects if effects & _OF_PROGRAMS else 0

    def left(self, world: World, open_: _Open) -> None:
        """Look at what the side that was taken did, now that it is done."""
        stored, code = self._of_stores(world, open_)
        done, lines = _of_events(world.writer.tape.events, open_.start)
        drops = open_.here.effects & _DROP and not open_.inert
        stake = min(max(stored, done, Stake.VERDICT if drops else Stake.NOTHING), open_.most)
        for watched in open_.watched:
            # What a class or function that was chosen here does, it does by this choice.
            watched.add(stake, lines | code)

    def _of_stores(self, world: World, open_: _Open) -> tuple[Stake, set[tuple[str, int]]]:
        """Return what hangs on what this side has stored, and the lines of the code that it has stored."""
        here, other, present = open_.here, open_.other, open_.present
        known = [name for name in open_.unknown if not knows_nothing(present.value(name))]
        stake = self._number(world, open_.shapes, known, open_.places)
        for owner, attribute, was in open_.objects:
            if f"self.{attribute}" not in here.facts.stored:
                stake = max(stake, self._stored(open_, attribute, was, owner.attrs.get(attribute, ABSENT)))
        code: set[tuple[str, int]] = set()
        for name, before in open_.before.items():
            now = present.value(name)
            if name in here.facts.stored or "." in name:
                stake = max(stake, self._stored(open_, name, before, now))
                if before is not now:
                    code |= _code_of(now)
            elif name in other.facts.stored and self._differs(open_, name, now):
                stake = Stake.VERDICT
        return stake, code

    def _stored(self, open_: _Open, name: str, before: Value, now: Value) -> Stake:
        """Return what hangs on a name that this side stored: else it is what it was, or what that side stores."""
        if before is now and name not in open_.other.facts.stored:
            return Stake.NOTHING
        if (is_constant(before) or is_constant(now)) and not is_same(before, now):
            if self._number(open_.present.world, open_.shapes, (name,), open_.places) is Stake.VERDICT:
                return Stake.VERDICT
        graph = open_.present.graph(now)
        if before is not now and open_.present.holds_both(now):
            # It may hold the same in another order.
            return Stake.VERDICT
        if name in open_.other.facts.stored:
            # Both sides store it: a graph on this side only changes what follows.
            return Stake.VERDICT if self._differs(open_, name, now) else Stake.CERTAINTY
        was = open_.present.graph(before)
        if was is Graph.STALE:
            # Where it still is, the old graph is there either way.
            return Stake.CERTAINTY if graph is Graph.STALE else Stake.VERDICT
        if before is not ABSENT and (bool(was), is_leaf(before)) != (bool(graph), is_leaf(now)):
            return Stake.VERDICT
        kept = graph or isinstance(now, (Instance, List, Dict, Set, Function, Class))
        return Stake.CERTAINTY if kept else Stake.NOTHING

    def _differs(self, open_: _Open, name: str, now: Value) -> bool:
        """Whether the other side may store a value with a graph where this one has none there, or none where it has."""
        graph = bool(open_.present.graph(now))
        other = open_.other
        if is_module(now):
            # Another layer, as likely as not: what it gives has a graph, too.
            return False
        inert = open_.present.inert(other) and not open_.present.builds(other)
        if name in other.plain or other.effects & _CUT or inert:
            return graph or is_leaf(now)
        reads = any(open_.present.graph_of(name) for name in other.read)
        return not reads and not other.facts.called if graph else True

    def idle(self, world: World, node: ast.If, env: Env) -> bool:
        """Whether a condition, whose answer is known, decides about nothing but numbers that no other one reads."""
        shapes = self._shapes_of(world)
        if shapes is None:
            return False
        shape, numbers = shapes.shape(node), self._numbers(shapes)
        jumps = shape.body.jumps | shape.orelse.jumps
        if jumps & {"raise", "yield"} or ("value" in jumps and self._tests_value(world, shapes, node)):
            return False
        stored = set(shape.live)
        parts = [shape.body, shape.orelse]
        if jumps:
            parts.append(shape.rest)
            stored |= shape.carried
        if not stored <= shape.body.plain | shape.orelse.plain or any(map(numbers.tests, stored)):
            return False
        present = self._present(world, env)
        return not any(
            part.imports
            or part.effects & (_SETTLING | _CLEAR | _READ)
            or any(map(numbers.tests, part.attributes))
            or not present.inert(part)
            or present.steps(part)
            for part in parts
            if not part.empty
        )

    def _tests_value(self, world: World, shapes: Shapes, node: ast.If) -> bool:
        """Whether what the function around an `if` returns may be tested; in another file, nobody knows."""
        file = world.position.frames[-1].file
        called_from_elsewhere = any(frame.file != file for frame in world.position.frames)
        return called_from_elsewhere or self._numbers(shapes).tests(shapes.function(node))

    def standing(self, world: World, values: Iterable[Value], env: Env) -> tuple[int, ...]:
        """Return what the stake of a condition hangs on besides the kinds of the values that it is about.

        The first says whether the iteration has built no graph so far.
        """
        present = self._present(world, env)
        return _is_bare(present), world.writer.optimizers > 0, *map(present.graph, values)

    # -- loops --------------------------------------------------------------------------------------------------

    def enters(self, world: World, node: ast.AST, place: ast.AST, env: Env) -> None:
        """Look, where a loop is entered of which nobody knows whether it goes round at all, or something else goes over
        elements, at what that does.
        """
        at = world.position.place(place)
        if not self.loops.get(at):
            self.loops[at] = self._loop_matters(world, node, env)

    def _loop_matters(self, world: World, node: ast.AST, env: Env) -> bool:
        """Whether anything may hang on a loop being entered: whether it may do more than gather data."""
        if world.position.notes.of(node, statement_facts).effects & _OF_GRAPHS:
            return True
        shapes = self._shapes_of(world)
        world.budget.spend(limits.WATCH_WORK)
        names = shapes.gathered(node) if shapes is not None else None
        present = self._present(world, env)
        return names is None or not all(map(present.is_data, names))

    # -- expressions --------------------------------------------------------------------------------------------

    def chosen(
        self, world: World, node: ast.expr, other: Iterable[ast.expr], value: Value, places: Sequence[Place], env: Env
    ) -> None:
        """Note which part an expression took as its value; `other` are those that were not evaluated."""
        other = tuple(other)
        stake, effects = self._of_expression(world, node, other, value, places, env)
        file, left_out = world.position.frames[-1].file, self._expressions_left_out(world, node, other, env)
        for place in places:
            watched = self.watched.setdefault(place, Watched())
            watched.add(stake, {(file, getattr(node, "lineno", 1))}, effects)
            watched.leave_out(left_out)

    def _expressions_left_out(
        self, world: World, node: ast.expr, other: Iterable[ast.expr], env: Env
    ) -> tuple[LeftOut, ...]:
        """Return the parts of an expression that were not evaluated, as what was left out."""
        shapes = self._shapes_of(world)
        if shapes is None:
            return ()
        side, present = shapes.not_evaluated(node, other), self._present(world, env)
        handed = side.facts.called and present.hands_over([("", side.read)])
        return (LeftOut(world.position.frames[-1].file, side.facts, shapes.owner(node), side.jumps, handed),)

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
        world.budget.spend(limits.WATCH_WORK)
        side = shapes.not_evaluated(node, other)
        present = self._present(world, env)
        effects = side.effects | of_calls(side, present, shapes)
        if effects & (_SETTLING if present.inert(side) else _MATTERING_OR_CUT):
            return Stake.VERDICT, effects
        stake = self._of_value(present, shapes, side, node, value, places)
        return max(stake, self._caught(present, side)), side.effects

    def _of_value(
        self, present: Present, shapes: Shapes, side: Side, node: ast.expr, value: Value, places: Sequence[Place]
    ) -> Stake:
        """Return what hangs on an expression having this value, and not one of the side that was not evaluated."""
        graph = present.graph(value)
        if _has_another_graph(present, side, value, graph):
            return Stake.VERDICT
        if graph or _stands_for_another(present, value, side):
            return Stake.CERTAINTY
        if not is_constant(value):
            return Stake.NOTHING
        behind = shapes.behind(node)
        live = [one for one in shapes.targets(node) if "." in one or behind is None or one in behind]
        return max(self._number(present.world, shapes, live, places), Stake.CERTAINTY if "" in live else Stake.NOTHING)

    # -- numbers ------------------------------------------------------------------------------------------------

    def _number(self, world: World, shapes: Shapes, names: Iterable[str], places: Iterable[Place]) -> Stake:
        """Return what hangs on giving names another number: what the conditions that read them decide."""
        numbers = self._numbers(shapes)
        tested = [name for name in map(_last, names) if numbers.tests(name)]
        if any(map(numbers.steers, tested)):
            return Stake.VERDICT
        self._note_tested(world, shapes, tested, places)
        return Stake.NOTHING

    def _note_tested(
        self, world: World, shapes: Shapes, names: Iterable[str], places: Iterable[Place], *, filled: bool = False
    ) -> None:
        """Note the names, by their last parts, whose values are asked about in the end where conditions read them.

        `filled` says that they are lists, which have another length.
        """
        tested = list(filter(self._numbers(shapes).tests, names))
        file = world.position.frames[-1].file
        for place in places if tested else ():
            self.watched.setdefault(place, Watched()).names.update((file, name, filled) for name in tested)

    def stake(self, place: Place) -> Stake:
        """Return what hangs on the other answer to a condition; a verdict where that is not known."""
        watched = self.watched.get(place)
        return Stake.VERDICT if watched is None else watched.stake

    def matters(self, loop: Place) -> bool:
        """Whether anything hangs on a loop being entered."""
        return self.loops.get(loop, True)

    def decides(self, place: Place) -> bool:
        """Whether the answer to a condition is known to decide another one that a verdict hangs on."""
        watched = self.watched.get(place)
        return watched is not None and watched.by_names

    def is_caught(self, place: Place) -> bool:
        """Whether somebody may catch what the other answer to a condition raises."""
        watched = self.watched.get(place)
        return watched is not None and watched.caught

    def does(self, place: Place | None, effect: Effect) -> bool:
        """Whether the other answer to a condition may do something of that kind; yes where that is not known."""
        watched = self.watched.get(place) if place is not None else None
        return watched is None or bool(watched.effects & int(effect))

    def settle(self, world: World) -> None:
        """See, at the end of a way, what hangs on the conditions that only gave names other numbers."""
        for watched in self.watched.values():
            for file, name, filled in watched.names:
                if watched.by_names:
                    break
                stake = self._of_name(world, file, name, set(), filled)
                watched.add(stake, set())
                watched.by_names = stake is Stake.VERDICT
        for place in world.choices.hidden & self.watched.keys():
            # Whatever is found may be there for this answer alone.
            self.watched[place].add(Stake.CERTAINTY, {(place[0], -1)})

    def _of_name(self, world: World, file: str, name: str, seen: set[str], filled: bool) -> Stake:
        module = self.module(file)
        if module is None or module.source is None:
            return Stake.VERDICT
        shapes = shapes_of(module.source)
        names = self._numbers(shapes).leads_to(name) - seen
        seen |= names
        stake = Stake.NOTHING
        undecided = {asked.statement for asked in world.choices.asked.values()}
        for node, where in world.choices.passed.items():
            # What hangs on one that nobody can decide is seen where that is turned round itself.
            if where == file and node not in undecided and not names.isdisjoint(shapes.mentioned(node)):
                match node:
                    case ast.If():
                        stake = max(stake, self._of_known(world, shapes, node, module.env, file, seen, filled))
                    case ast.IfExp():
                        stake = max(stake, self._of_choice(world, shapes, node, module.env))
                if stake is Stake.VERDICT:
                    break
        return stake

    def _of_known(
        self, world: World, shapes: Shapes, node: ast.If, env: Env, file: str, seen: set[str], filled: bool
    ) -> Stake:
        """What hangs on a condition whose answer another one has given: told from its code and what there is now.

        Of what a list has in it a length says little: `filled` wants it to lead out of a loop, or to a backward.
        """
        shape = shapes.shape(node)
        present = Present(world, env, 0, self._containers)
        numbers = self._numbers(shapes)
        stake = Stake.NOTHING
        for side, other in ((shape.body, shape.orelse), (shape.orelse, shape.body)):
            inert = filled or side.empty or (shapes.at_top(node) and present.inert(side, bound=True))
            if side.effects & (_SETTLING if inert else _MATTERING_OR_CUT):
                return Stake.VERDICT
            if _leaves_out(shape, side) or (node in world.choices.led_out and _ends_loop(shapes, node, side)):
                return Stake.VERDICT
            stored, on_both = side.facts.stored & shape.live, other.facts.stored
            if (not inert and stored - on_both - side.plain) or any(map(numbers.steers, map(_last, stored))):
                return Stake.VERDICT
            if stored & on_both:
                stake = max(stake, Stake.CERTAINTY)
            for last in filter(numbers.tests, set(map(_last, stored)) - seen):
                stake = max(stake, self._of_name(world, file, last, seen, filled))
        return stake

    def _of_choice(self, world: World, shapes: Shapes, node: ast.IfExp, env: Env) -> Stake:
        """What hangs on a choice between two expressions whose answer another condition has given."""
        sides = [shapes.side((part,), shapes.owner(node), False) for part in (node.body, node.orelse)]
        present = Present(world, env, 0, self._containers)
        if all(shapes.at_top(node) and present.inert(side, bound=True) for side in sides):
            return Stake.NOTHING
        if any(side.effects & _MATTERING_OR_CUT for side in sides):
            return Stake.VERDICT
        return Stake.CERTAINTY if sides[0].read == sides[1].read else Stake.VERDICT


def _stands_for_another(present: Present, value: Value, side: Side) -> bool:
    """Whether a value without a graph stands where the other side has an object, code or a tensor as well."""
    if isinstance(value, Tensor):
        return present.calls_layer(side)
    return isinstance(value, Instance) or (isinstance(value, (Class, Function)) and bool(side.facts.names))


def _last(name: str) -> str:
    return name.rsplit(".", 1)[-1]


def _is_code(value: Value) -> bool:
    """Whether a value is a function or an object of the program's: what it does hangs on which it is."""
    return function_of(value) is not None or bound_function(value) is not None or user_class(value) is not None


def _is_unlikely(present: Present, test: ast.expr) -> bool:
    """Whether a test hardly ever holds: data has no None in it, what has a graph is equal to no constant."""
    return present.asks_data_for_none(test) or present.equates_a_graph(test)


def _lines_of(node: ast.If, shape: Shape, other: Side) -> Iterable[int]:
    """Return the lines that an answer decides about: those of the `if`, and what the `other` side would leave out."""
    left_out = shape.left_out if other.jumps & LEAVING else ()
    return (*range(node.lineno, (node.end_lineno or node.lineno) + 1), *left_out)


def _attributes_of(present: Present, side: Side) -> list[tuple[Instance, str, Value]]:
    """Return the attributes that a side stores, of whichever objects have them, with what they are now."""
    return [
        (owner, attribute, owner.attrs[attribute])
        for owner in (present.objects() if side.attributes else ())
        for attribute in side.attributes
        if attribute in owner.attrs
    ]


def _of_graphs(present: Present, shape: Shape, here: Side, other: Side, inert: bool) -> Stake:
    """Return what hangs on the side that is not run by the graphs that it reads, keeps and leaves out.

    `inert` says that it cannot touch any.
    """
    leaves = other.jumps
    if _takes_along(leaves, [present.graph_of(name) for name in other.read], inert):
        return Stake.VERDICT
    stores = bool(other.facts.stored & shape.live)
    # What both sides go on from is there either way.
    if stores and any(present.graph_of(name) is Graph.STALE for name in other.read - here.read):
        return Stake.VERDICT
    ends = bool(leaves & {"continue", "break", "return"})
    if ends and any(present.graph_of(name) for name in shape.carried):
        return Stake.VERDICT
    if _is_bare(present) and present.world.modes.grad_mode == "yes" and present.calls_layer(other):
        # An iteration that has built no graph so far may build one there, for nothing.
        return Stake.ONCE
    return Stake.CERTAINTY if stores or ends or "value" in leaves else Stake.NOTHING


def _takes_along(leaves: Jumps, graphs: list[Graph], inert: bool) -> bool:
    """Whether a side that is left with something may give that a graph: those that it reads, or one of its own."""
    # Whoever catches an exception goes on without what it left out, and may keep what it carries.
    if "yield" in leaves or ("raise" in leaves and any(graphs)):
        return True
    return "value" in leaves and (any(graphs) or not inert)


def _is_bare(present: Present) -> bool:
    """Whether the iteration has built no graph so far."""
    return present.first > 0 and present.world.writer.last_id == present.first


def _leaves_out(shape: Shape, side: Side) -> bool:
    """Whether a side leaves the block with a value, or leaves out what matters in it."""
    if not side.jumps - {"raise"}:
        return False
    rest = shape.rest
    return bool(side.jumps & {"yield", "value"} or rest.effects & _MATTERING_OR_CUT or rest.facts.stored)


def _ends_loop(shapes: Shapes, node: ast.If, side: Side) -> bool:
    """Whether a side leaves a loop that goes round once more where it is not left, and what that does matters."""
    return bool(side.jumps & {"break", "return"} and shapes.repeated(node).effects & _MATTERING_OR_CUT)


def _wraps(present: Present, shapes: Shapes, shape: Shape, here: Side, other: Side) -> bool:
    """Whether the answer to a condition decides that a model is wrapped."""
    sides = (here, other, shape.rest) if here.jumps & LEAVING else (here, other)
    return any((side.effects | of_names(side.read, side.facts, present, shapes)) & _WRAP for side in sides)


def _uses_gradients(world: World, side: Side) -> bool:
    """Whether a side clears or reads a gradient where that tells."""
    if side.effects & _CLEAR and world.writer.optimizers:
        # Whether a gradient is cleared between two steps decides what the second one uses.
        return True
    # What reads a gradient that was clipped for nothing else shows what the clip is good for.
    return bool(side.effects & _READ) and world.graph.clipped_late


def _left_out_matters(present: Present, rest: Side) -> bool:
    """Return whether a verdict can hang on what this side leaves out, which has not been seen."""
    inert = rest.empty or present.inert(rest)
    return bool(rest.effects & (_SETTLING if inert else _MATTERING_OR_CUT) or (rest.facts.stored and not inert))


def _of_events(events: Sequence[Event], start: int) -> tuple[Stake, set[tuple[str, int]]]:
    """Return what hangs on what has happened since the event `start`, and the lines where it has."""
    new = events[start:]
    sites = (getattr(event, "at", None) for event in new)
    lines = {(at.span.file, at.span.line) for at in sites if at is not None}
    if only(new, GradientCleared) and any(call.create != "no" and call.accumulates for call in only(events, Backward)):
        return Stake.VERDICT, lines
    lasting = any(isinstance(event, _LASTING) or _binds_element(event) or _freezes(event) for event in new)
    return Stake.CERTAINTY if lasting else Stake.NOTHING, lines


def _binds_element(event: Event) -> bool:
    """Whether a graph becomes an element of what is there on both sides."""
    return isinstance(event, Bind) and event.node is not None and "[" in event.name


def _freezes(event: Event) -> bool:
    """Whether a leaf is taken out of all graphs that are built from then on."""
    return isinstance(event, Cut) and event.how == "frozen"


def _left_unknown(present: Present, shapes: Shapes, node: ast.If, taken: bool) -> frozenset[str]:
    """Return the names that the side of an `if` which is not taken leaves values in that nothing is known of."""
    left = shapes.calls_left(node, body=not taken)
    return frozenset(name for name, called in left.items() if all(map(present.gives_unknown, called)))


def _code_of(value: Value) -> set[tuple[str, int]]:
    """Return the lines, by file and number, of the class or function that a value is, or is an object of."""
    code = function_of(value) or user_class(value) or value
    if not isinstance(code, (Class, Function)) or code.module.source is None:
        return set()
    node = code.node
    return {(code.module.source.path, line) for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}


@dataclass(slots=True)
class _Open:
    """An `if` whose side is being run."""

    watcher: Watcher
    present: Present
    shapes: Shapes
    shape: Shape
    here: Side
    other: Side
    before: dict[str, Value]
    objects: list[tuple[Instance, str, Value]]
    start: int
    watched: list[Watched]
    places: Sequence[Place]
    inert: bool
    most: Stake
    unknown: frozenset[str]
    """What the other side leaves a value in that nothing is known of: no loop or test can tell it from another such."""

    def left(self, world: World) -> None:
        self.watcher.left(world, self)

    def broken(self) -> None:
        """Note that an exception ended the side: what lies beyond has not been seen."""
        for watched in self.watched:
            watched.stake = Stake.VERDICT


@placeless
def _calls_of(node: ast.If) -> tuple[list[Handing], list[Handing]]:
    """Return the calls on the two sides of an `if`, those on the other side of each answer at its place."""
    return [*handings(node.body)], [*handings(node.orelse)]


@placeless
def _receivers(node: ast.AST) -> dict[str, set[str]]:
    """Return the names that code does nothing with but ask for attributes, each with these."""
    asked: dict[str, set[str]] = {}
    of_names: set[int] = set()
    for part in of_kind(node, ast.Attribute):
        if isinstance(part.value, ast.Name):
            of_names.add(id(part.value))
            asked.setdefault(part.value.id, set()).add(part.attr)
    others = {part.id for part in of_kind(node, ast.Name) if id(part) not in of_names}
    return {name: attributes for name, attributes in asked.items() if name not in others}


def _is_of_library(present: Present, node: ast.AST, name: str, bodies: Iterable[Body]) -> bool:
    """Return whether all that a loop asks for a method is of a library that is no base of the classes which have it."""
    known = {path.partition(".")[0] for body in bodies for path in _library_bases(present, body)}
    stored = {part.id for part in of_kind(node, ast.Name) if isinstance(part.ctx, ast.Store)}
    asked = [id_of(part.value) for part in of_kind(node, ast.Attribute) if part.attr == name]
    libraries = [present.library(one) if one and one not in stored else "" for one in asked]
    return "" not in known and all(library and library not in known for library in libraries)


def _has_another_graph(present: Present, side: Side, value: Value, graph: Graph) -> bool:
    """Return whether a value has a graph where what a side reads has none, an old one, or the other way round."""
    graphs = [present.graph_of(name) for name in side.read]
    if Graph.STALE in graphs or (bool(graph) != any(graphs) and not (graph and side.facts.called)):
        return True
    return isinstance(value, Tensor) and (is_leaf(value) or (not graph and present.builds(side)))


def _library_bases(present: Present, body: Body) -> Iterable[str]:
    """Return which classes of libraries a method's class has, "" where that is not known."""
    owner = present.value(body.owner.name) if body.owner is not None else ABSENT
    return owner.library_bases() if isinstance(owner, Class) else ("",)
