"""Forwards that were run before: for a module and arguments of the same kind the tape gets the same events again.

What a call did may be written anew, with other numbers, where it hung on nothing but what it was given: the module with
all its parts, the arguments, and names of other namespaces that still have the values that it read there, and where the
conditions that nobody can decide are answered as before. A call that stored anything that outlives it, or did more than
build nodes, is run each time.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from tapecheck.interpret import limits
from tapecheck.interpret.engine import Engine
from tapecheck.interpret.python.likeness import Given, Shape, Test, Unlike, parts_of, whole_of
from tapecheck.interpret.python.results import Frozen, Maker, flags, moved
from tapecheck.interpret.state import Frame, World
from tapecheck.interpret.state.choices import place_of
from tapecheck.interpret.values import (
    INERT,
    MORE_KEYWORDS,
    NO_ORIGIN,
    Args,
    ByKind,
    Class,
    Function,
    Instance,
    Kwargs,
    Lib,
    Module,
    Native,
    Origin,
    Read,
    Shown,
    Storage,
    Tensor,
    Unknown,
    Value,
    Wrapped,
    is_module,
)
from tapecheck.tape import (
    Assumed,
    Bind,
    Cut,
    Decision,
    Event,
    InPlace,
    Iteration,
    Loop,
    LoopEnd,
    Node,
    Saved,
    Site,
    Span,
)

_Apart = tuple[tuple[int, ...] | None, tuple[str, ...] | None]
"""What tells calls that are alike apart: unknowns that were tested before, by id, and names."""

_WRITTEN = frozenset((Node, Bind, Cut, InPlace, Loop, Iteration, LoopEnd, Assumed, Decision))
_WORD = re.compile(r"\w+")


def _state(value: Tensor) -> tuple[object, ...]:
    """Return what a call would change of a tensor that it is given, were it to write a graph into it."""
    return (
        value.node, value.graph, value.is_leaf, value.oldest, value.cuts, value.of_leaf, value.changed, value.base,
        value.storage, value.dtype, value.parameter, value.grad, flags(value),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Point:
    """Where a world stands: the number of events, and the newest number of each kind."""

    events: int
    ids: int
    storages: int
    cuts: int
    loops: int
    clock: int
    stamp: int


class _Numbers:
    """What a call was given, as the numbers that events tell it by."""

    def __init__(self, world: World, given: Given) -> None:
        held: list[Tensor | Unknown] = [*given.tensors, *given.unknowns]
        self.nodes = [value.node for value in held]
        self.nodes += [tensor.frozen_leaf() for tensor in given.tensors if tensor.extra]
        self.oldest = [value.oldest for value in held]
        self.names = [tensor.name for tensor in given.tensors]
        self.storages = [value.storage.id if value.storage is not None else None for value in held]
        self.cuts = [cut for value in held for cut in (*value.cuts, *getattr(value, "constant_terms", ()))]
        self.versions = {number: world.writer.ledger.version(number) for number in self.storages if number is not None}


@dataclass(slots=True)
class Summary:
    """What one call did: its events from `begun` to `ended`, and how its result is made again."""

    begun: _Point
    ended: _Point
    events: list[Event]
    held: list[Value]
    numbers: _Numbers
    result: Maker
    reads: list[Read]
    parts: list[tuple[Unknown, dict[Hashable, Value]]]
    """What unknowns that were read by name had been asked for."""
    provisional: list[int]
    stored: list[tuple[int | None, int | None]]
    """The memory that unknown values were given, and the node that stands for their graphs."""
    call: Span | None
    stack: tuple[Span, ...]
    iteration: tuple[tuple[int, int], ...]
    shapes: list[Shape]
    tests: list[Test]
    speaks: bool
    """Whether the events say how something is called that the call was given."""
    tests_made: int
    """How often it asked for the answer to a test of an unknown."""
    breaks: int
    """How often it called code that nobody can look into."""
    handed: list[int]
    """The memory of the data that it handed to such code."""
    lent: list[int]
    """The memory of the data that it called such code with."""
    decisions: list[Decision]
    """The conditions that it asked."""
    standing: tuple[int, ...]
    """What can hang on these, besides what the values are that it was given."""
    unlike: bool
    """Whether tensors may be of another type or layout than most once it has run."""

    def reads_the_same(self) -> bool:
        """Whether all that the call read by name is still there, with the parts that it had."""
        if not all(names.get(name) is value for names, name, value in self.reads):
            return False
        for unknown, before in self.parts:
            now = dict(parts_of(unknown))
            if any(now.get(key) is not part for key, part in before.items()):
                return False
        return True


@dataclass(slots=True)
class Calls:
    """What is known of the calls of one function, by what they were given.

    Calls that are alike are told apart by which unknowns were tested before, where a call tests any, and by the names
    of what they were given, where its events say these. `failed` is how many calls could not be summed up since the
    last one that could.
    """

    summaries: dict[tuple[Hashable, ...], dict[_Apart, Summary]]
    failed: int = 0

    def find(self, key: tuple[Hashable, ...], given: Given) -> Summary | None:
        """Return the summary of a call like this one, None where there is none."""
        alike = self.summaries.get(key)
        if alike is None:
            return None
        answered, names = tuple(given.answered), tuple(given.names)
        ways: tuple[_Apart, ...] = ((None, None), (None, names), (answered, None), (answered, names))
        return next((alike[way] for way in ways if way in alike), None)

    def add(self, key: tuple[Hashable, ...], given: Given, summary: Summary) -> None:
        """Keep the summary of a call."""
        self.failed = 0
        answered = tuple(given.answered) if summary.tests_made else None
        apart = answered, tuple(given.names) if summary.speaks else None
        self.summaries.setdefault(key, {})[apart] = summary


def forward(
    machine: Engine, function: Function, args: Args, kwargs: Kwargs, node: ast.AST, run: Callable[[], Value]
) -> Value:
    """Return what a module's forward gives: `run` runs it, where no call before was like this one."""
    calls = machine.summaries.get(id(function.node))
    if calls is None:
        calls = machine.summaries[id(function.node)] = Calls({})
    receiver = args[0] if args else None
    if calls.failed >= limits.MOST_TRIED or not is_module(receiver) or MORE_KEYWORDS in kwargs:
        return run()
    given = _given(machine, receiver, args, kwargs)
    if given is None:
        calls.failed += 1
        return run()
    key = (*given.tokens, len(args), *_mode(machine, id(function.node)))
    known = calls.find(key, given)
    if known is not None and known.reads_the_same():
        again = _Again(machine, known, given, node)
        if again.fits():
            if machine.reads is not None:
                machine.reads += known.reads
            return again.write(function)
    watch = _Watch(machine, given)
    result, reads = _read_by(machine, run)
    summary = watch.summary(receiver, result, reads, node)
    if summary is not None:
        calls.add(key, given, summary)
    elif watch.spent >= limits.FEWEST_WORK and not watch.is_first_use():
        calls.failed += 1
    return result


def _given(machine: Engine, receiver: Instance, args: Args, kwargs: Kwargs) -> Given | None:
    """Return what tells a call from others of the same forward, None where it is like none."""
    given = Given(machine.world.knowledge.settled)
    try:
        given.module(receiver)
        for value in args[1:]:
            given.argument(value)
        for name, value in kwargs.items():
            given.tokens.append(name)
            given.argument(value)
        given.close()
    except Unlike:
        return None
    return given


def _read_by(machine: Engine, run: Callable[[], Value]) -> tuple[Value, list[Read]]:
    """Run a call; return what it gives, and the names of other namespaces that it has read."""
    outer, machine.reads = machine.reads, []
    around, machine.scopes = machine.scopes, []
    try:
        result = run()
    finally:
        # What a function within the call reads of the one around it is the call's own.
        made = machine.scopes
        own = set(map(id, made))
        reads = [read for read in machine.reads if id(read[0]) not in own]
        machine.reads, machine.scopes = outer, around
        if outer is not None:
            outer += reads
            around += made
    return result, reads


def _mode(machine: Engine, function: int) -> tuple[Hashable, ...]:
    """Return what else decides what is recorded; `function` is the id of the function's node."""
    world, modes = machine.world, machine.world.modes
    return (
        modes.grad_mode, modes.inference, modes.autocast, modes.recomputed, modes.packed, world.choices.passes_failures,
        tuple(machine.handlers), modes.block_calls is None, modes.cut_site is None, world.graph.gradients_cut,
        world.graph.leaves_changed, bool(world.position.iteration), world.stores.classes,
        machine.world.calls.running.count(function), machine.world.calls.depth > limits.NEAR_DEPTH,
        len(modes.compiling.laid or ()),
    )  # fmt: skip


def _standing(machine: Engine, given: Given) -> tuple[int, ...]:
    """Return what can hang on the conditions of a call, besides what the values are that it is given."""
    world = machine.world
    own = len(world.comparisons.counted) > 0, world.calls.recursion
    if world.watcher is None or not machine.envs:
        return False, *own
    return *world.watcher.standing(world, [*given.tensors, *given.unknowns], machine.envs[-1]), *own


def _point(world: World) -> _Point:
    return _Point(len(world.writer.tape.events), *world.writer.numbered, world.position.clock, world.position.stamp)


class _Watch:
    """Looks at a call while it runs, and sums up what it did where it did no more than build nodes."""

    def __init__(self, machine: Engine, given: Given) -> None:
        self.machine = machine
        self.world = machine.world
        self.given = given
        self.numbers = _Numbers(machine.world, given)
        self.before = [_state(tensor) for tensor in given.tensors]
        self.concretes = [(one.concrete, one.shown.truth) for one in given.unknowns]
        self.asked = self._asked()
        self.standing = _standing(machine, given)
        self.settled = len(machine.world.knowledge.settled)
        self.facts, self.tested = len(machine.world.knowledge.facts), machine.world.knowledge.asked
        self.begun = self.ended = _point(machine.world)
        self.work, self.breaks = machine.world.budget.work, machine.world.modes.compiling.breaks
        self.handed, self.lent = len(machine.world.graph.handed), len(machine.world.graph.lent)
        self.spent = 0
        """What the call has taken, in units of work."""

    def _asked(self) -> tuple[Hashable, ...]:
        world = self.world
        modes = world.modes
        return (
            len(world.omissions.mistakes), world.graph.unknown_made,
            tuple(modes.grad_modes), modes.off_at, modes.settings,
            len(modes.compiling.laid or ()), world.stores.attributes,
            len(modes.checkpointed), len(world.choices.lengths),
            self.machine.library.left_behind(),
        )  # fmt: skip

    def summary(self, receiver: Instance, result: Value, reads: list[Read], node: ast.AST) -> Summary | None:
        """Return the summary, None where there is none."""
        world, given = self.world, self.given
        self.ended, self.spent = _point(world), self.work - world.budget.work
        events = world.writer.tape.events[self.begun.events :]
        if self.spent < limits.FEWEST_WORK or self.asked != self._asked():
            return None
        decisions = [event for event in events if type(event) is Decision]
        if not self._only_builds(events, decisions, reads) or not self._leaves_given():
            return None
        after = Given(world.knowledge.settled)
        frozen = Frozen(given, self.begun.ids, self.numbers.oldest, self.numbers.nodes)
        try:
            made = frozen.value(result)
            settled = list(itertools.islice(world.knowledge.settled, self.settled, None))
            shapes, tests = given.learnt(world.knowledge.facts[self.facts :], settled, frozen.shapes)
            after.module(receiver)
        except Unlike:
            return None
        if not given.holds_the_same(after):
            return None
        given.tokens.clear()
        provisional = [
            event.id for event in events if type(event) is Node and event.id in world.writer.ledger.provisional
        ]
        call = world.position.span(node) if world.position.frames else None
        return Summary(
            self.begun, self.ended, events, given.held, self.numbers, made, reads, _parts_read(reads), provisional,
            self._stored(), call, world.position.call_stack, world.position.iteration, shapes, tests,
            _speaks(events, given.names, frozen.names), world.knowledge.asked - self.tested,
            world.modes.compiling.breaks - self.breaks, world.graph.handed[self.handed :],
            world.graph.lent[self.lent :], decisions, self.standing, world.modes.compiling.unlike,
        )  # fmt: skip

    def is_first_use(self) -> bool:
        """Whether parameters were used that nothing had used before: the next call finds their leaves there."""
        return any(
            number is None and tensor.node is not None and tensor.is_leaf
            for tensor, number in zip(self.given.tensors, self.numbers.nodes)
        )

    def _stored(self) -> list[tuple[int | None, int | None]]:
        """Return the memory and the node that each unknown has got which the call was given."""
        places = slice(len(self.given.tensors), None)
        before = zip(self.given.unknowns, self.numbers.storages[places], self.numbers.nodes[places])
        return [
            (
                one.storage.id if memory is None and one.storage is not None else None,
                one.node if number is None else None,
            )
            for one, memory, number in before
        ]

    def _only_builds(self, events: list[Event], decisions: list[Decision], reads: list[Read]) -> bool:
        """Whether a call did no more than build nodes, and read by name no more than what no call changes."""
        known = self.given.known
        return (
            all(type(event) in _WRITTEN for event in events)
            and all(_constant(one) and (type(one) is not Unknown or id(one) not in known) for _, _, one in reads)
            and not any(event.counted or self._of_loop(event) for event in decisions)
            and not any(type(event) is LoopEnd and _hangs_on_earlier(event) for event in events)
        )

    def _leaves_given(self) -> bool:
        """Whether what the call was given is as it was before, but for unknowns that have got a node."""
        given = self.given
        nodes = self.numbers.nodes[len(given.tensors) :]
        return (
            self.before == [_state(tensor) for tensor in given.tensors]
            and self.concretes == [(one.concrete, one.shown.truth) for one in given.unknowns]
            and all(one.kept.leaf is None and before in (None, one.node) for one, before in zip(given.unknowns, nodes))
        )

    def _of_loop(self, decision: Decision) -> bool:
        """Whether a condition is asked by a loop: how often it goes round hangs on how often it was entered before."""
        asked = self.world.choices.asked[place_of(decision)]
        return isinstance(asked.statement, (ast.While, ast.For, ast.AsyncFor))


def _hangs_on_earlier(end: LoopEnd) -> bool:
    """Whether nobody knows how often a loop goes round: how far it is run hangs on what ran before."""
    return end.settled or (end.more != "no" and not end.parts)


def _speaks(events: list[Event], names: list[str], results: list[str]) -> bool:
    """Whether events or results say a name that was given; a part of one is taken for it."""
    said = set(results)
    for event in events:
        match event:
            case Node(op=op, saved=saved):
                said.update([op, *(one.name for one in saved)])
            case Bind(name=text) | InPlace(name=text) | Cut(name=text) | Assumed(text=text):
                said.add(text)
    words = {word for name in said for word in _WORD.findall(name)}
    return any(not words.isdisjoint(_WORD.findall(name)) for name in names if name)


def _parts_read(reads: list[Read]) -> list[tuple[Unknown, dict[Hashable, Value]]]:
    """Return what unknowns that were read by name have been asked for, and their parts in turn."""
    found: list[tuple[Unknown, dict[Hashable, Value]]] = []
    waiting = list({id(value): value for _, _, value in reads if type(value) is Unknown}.values())
    seen = set(map(id, waiting))
    for unknown in waiting:
        parts = dict(parts_of(unknown))
        if parts:
            found.append((unknown, parts))
            inner = [part for part in parts.values() if type(part) is Unknown and id(part) not in seen]
            seen.update(map(id, inner))
            waiting += inner
    return found


def _constant(value: Value) -> bool:
    """Whether a name of another namespace has what no call can change."""
    if isinstance(value, Function):
        return not value.attrs
    if type(value) is Wrapped:
        return _constant(value.function)
    if type(value) is tuple:
        return all(map(_constant, value))
    if type(value) is Unknown:
        return value.node is None and value.kept.leaf is None and value.trust.data
    return type(value) in INERT or isinstance(value, (Class, Lib, Module, Native))


_Key = TypeVar("_Key")


def _unknowns(held: dict[_Key, Value]) -> list[tuple[_Key, Unknown]]:
    return [(key, part) for key, part in held.items() if isinstance(part, Unknown)]


class _Again:
    """Writes the events of a call once more, with the numbers of another one."""

    def __init__(self, machine: Engine, summary: Summary, given: Given, node: ast.AST) -> None:
        self.machine = machine
        self.world = machine.world
        self.summary = summary
        self.given = given
        self.call = node
        self.begun = _point(machine.world)
        self.made: dict[int, Tensor] = {}
        self._nodes: dict[int, int] = {}
        self._storages: dict[int, int] = {}
        self._cuts: dict[int, int] = {}
        self._oldest: dict[int, int | None] = {}
        self._held: dict[int, Storage] = {}
        self._versions: dict[int, int] = {}
        self._places: list[Site] = []
        self.site: Callable[[Site], Site] = lambda then: then
        """The place that stands for one of that call."""
        self.lengths: dict[int, Unknown] = {}
        """What has been made of what lengths are worked out from, by the ids of those."""
        self._stand_for: dict[int, Unknown] = {}
        """What stands for the shapes of that call and the numbers in them, by the ids of those."""

    def fits(self) -> bool:
        """Whether each number of that call has one of this call in its place."""
        then, now = self.summary.numbers, _Numbers(self.world, self.given)
        fits = _paired(self._nodes, then.nodes, now.nodes) and _paired(self._cuts, then.cuts, now.cuts)
        fits = fits and _paired(self._storages, then.storages, now.storages)
        cuts = [after for _, after in sorted(self._cuts.items())]
        if len(cuts) + self.summary.ended.cuts - self.summary.begun.cuts > limits.MAX_CUTS and cuts != sorted(cuts):
            # Of too many the newest are kept.
            fits = False
        for before, after in zip(then.oldest, now.oldest):
            if before is not None and self._oldest.setdefault(before, after) != after:
                # Of two that were as old as each other the result may lead to the older one.
                fits = False
        held: list[Tensor | Unknown] = [*self.given.tensors, *self.given.unknowns]
        self._held = {value.storage.id: value.storage for value in held if value.storage is not None}
        for before, after in self._storages.items():
            self._versions[before] = now.versions[after] - then.versions[before]
        return fits and (not self.summary.decisions or self._asks_the_same())

    def _asks_the_same(self) -> bool:
        """Whether the conditions are answered as they were then, and no more can depend on them."""
        then, now = self.summary.standing, _standing(self.machine, self.given)
        # What the call has built before it asks was built in this iteration.
        built = next(type(event) is Node for event in self.summary.events if type(event) in (Node, Decision))
        alike = (built or then[0] == now[0]) and then[1:] == now[1:]
        return alike and self.world.choices.repeats(self.summary.decisions)

    def node(self, number: int | None) -> int | None:
        begun = self.summary.begun.ids
        if number is None:
            return None
        return number - begun + self.begun.ids if number > begun else self._nodes.get(number, number)

    def oldest(self, number: int | None) -> int | None:
        if number is None or number > self.summary.begun.ids:
            return self.node(number)
        return self._oldest[number]

    def cuts(self, numbers: tuple[int, ...]) -> tuple[int, ...]:
        begun, now = self.summary.begun.cuts, self.begun.cuts
        return tuple([one - begun + now if one > begun else self._cuts.get(one, one) for one in numbers])

    def number_of(self, storage: int) -> int:
        """Return the number of the storage that stands for one of that call."""
        begun = self.summary.begun.storages
        return storage - begun + self.begun.storages if storage > begun else self._storages.get(storage, storage)

    def later(self, clock: int) -> int:
        """Return the time that stands for one of that call."""
        return clock - self.summary.begun.clock + self.begun.clock

    def stands_for(self, shape: Unknown) -> Unknown:
        """Return what stands for the shape of a tensor, or for a number in it."""
        if id(shape) not in self._stand_for:
            # It is that of a tensor which the call made for itself.
            self._shape(None, whole_of(shape))
        return self._stand_for[id(shape)]

    def storage(self, number: int) -> Storage:
        """Return that storage itself."""
        stands = self.number_of(number)
        held = self._held.get(stands)
        if held is None:
            held = self._held[stands] = Storage(stands)
        return held

    def write(self, function: Function) -> Value:
        """Write the events, and return the result of the call."""
        world, summary = self.world, self.summary
        # An event that is written again costs what a statement does.
        world.budget.spend(limits.AGAIN_WORK + len(summary.events))
        world.position.push(
            Frame(
                function.name, function.module, world.position.span(self.call) if world.position.frames else None, True
            )
        )
        try:
            self._write()
        finally:
            world.position.pop()
        begun, ended = summary.begun, summary.ended
        for unknown, (memory, number) in zip(self.given.unknowns, summary.stored):
            if memory is not None:
                unknown.storage = self.storage(memory)
            if number is not None:
                unknown.node = unknown.oldest = self.node(number)
                unknown.trust = unknown.trust._replace(certain=False)
        for place, key, shape in summary.shapes:
            tensor = self.given.tensors[place]
            tensor.extra = tensor.extra if tensor.extra is not None else {}
            tensor.extra[key] = self._shape(tensor.extra.get(key), shape)
        for tested, how, constant, answer in summary.tests:
            test = self.machine.unknown_test(getattr(ast, how)(), self._stand_for[id(tested)], constant)
            self.machine.settle(test, answer)
        world.writer.advance(
            ended.ids - begun.ids, ended.storages - begun.storages, ended.cuts - begun.cuts, ended.loops - begun.loops
        )
        world.position.advance(ended.clock - begun.clock, ended.stamp - begun.stamp - 1)
        world.modes.compiling.breaks += summary.breaks
        world.graph.handed += map(self.number_of, summary.handed)
        world.graph.lent += map(self.number_of, summary.lent)
        world.modes.compiling.unlike = world.modes.compiling.unlike or summary.unlike
        world.knowledge.asked += summary.tests_made
        for decision in summary.decisions:
            world.choices.repeat(decision)
        first = self.begun.ids + 1
        # This is kept for as long as the way is run, and nobody asks again what the call is like.
        self.given.tokens.clear()
        self.machine.library.written_again(first, world.writer.last_id, self.begun.ids - begun.ids, self)
        return summary.result(self)

    def _write(self) -> None:
        world, summary = self.world, self.summary
        ledger, written = world.writer.ledger, world.writer.tape.events
        self.site = site = self._sites()
        node, cuts, storage = self.node, self.cuts, self.number_of
        begun, shift, nodes = summary.begun.ids, self.begun.ids - summary.begun.ids, self._nodes
        fresh = summary.begun.storages
        versions = self._versions
        graphs = {
            number: unknown.name
            for unknown, (_, number) in zip(self.given.unknowns, summary.stored)
            if number is not None
        }
        ledger.provisional.update([number + shift for number in summary.provisional])
        for event in summary.events:
            if not isinstance(event, Node):
                self._write_other(event)
                continue
            saved = event.saved
            if saved:
                saved = tuple([
                    Saved(
                        storage(one.storage),
                        one.version if one.storage > fresh else one.version + versions.get(one.storage, 0),
                        one.name, node(one.of), one.fact,
                    )
                    for one in saved
                ])  # fmt: skip
            inputs = tuple([
                number + shift if number > begun else nodes.get(number, number) for number in event.inputs
            ])  # fmt: skip
            number = event.id + shift
            own = graphs.get(event.id)
            made = ledger.nodes[number] = Node(
                number, event.op if own is None else f"graph of {own}", site(event.at), inputs, saved, event.keeps,
                event.linked, cuts(event.cuts) if event.cuts else (), event.graph_of if own is None else own,
                event.recomputes, event.constant, event.shared,
            )  # fmt: skip
            written.append(made)

    def _write_other(self, event: Event) -> None:
        """Write an event that builds no node."""
        write = _REWRITTEN.get(type(event))
        if write is None:
            return
        made = write(self, event)
        if type(made) in _FED:
            self.world.writer.ledger.feed(made)
        self.world.writer.tape.events.append(made)

    def _all(self, numbers: Iterable[int]) -> tuple[int, ...]:
        """Return the nodes and leaves that stand for some of that call."""
        return tuple([self.node(number) or number for number in numbers])

    def _bind(self, event: Bind) -> Event:
        node, cuts = self.node(event.node), self.cuts(event.cuts)
        return Bind(self.site(event.at), event.name, node, cuts, event.item, event.inside_forward, event.part)

    def _in_place(self, event: InPlace) -> Event:
        return InPlace(
            self.site(event.at), self.number_of(event.storage), event.how, self._name(event.name),
            self.node(event.leaf), event.grad_mode, event.bumps, event.optimizer, event.on_view, self._all(event.lost),
            event.refused,
        )  # fmt: skip

    def _loop(self, number: int) -> int:
        """Return the loop that stands for one of that call."""
        return number + self.begun.loops - self.summary.begun.loops

    def _decision(self, event: Decision) -> Event:
        return replace(event, at=self.site(event.at), cuts=self.cuts(event.cuts) if event.cuts else ())

    def _assumed(self, event: Assumed) -> Event:
        about, kept = self._all(event.about), self._all(event.recorded)
        return Assumed(self.site(event.at), event.kind, event.text, about, kept, event.inside_forward, event.read)

    def _shape(self, old: Value, then: Unknown, whole: Unknown | None = None) -> Unknown:
        """Return a shape, or a number in it, like one of that call, with all that it was asked for."""
        now: Unknown = old if isinstance(old, Unknown) else Unknown(then.name, None, self.cuts(then.cuts), then.kind)
        if now is not old:
            now.trust, now.shown = then.trust, Shown(then.shown.truth)
            now.origin = NO_ORIGIN if then.origin.operation is None else Origin("len", (whole,))
            now.part_of = moved(then.part_of, whole)
        self._stand_for[id(then)] = now
        if then.asked.length is not None:
            length = self._shape(now.asked.length, then.asked.length, now)
            now.asked = now.asked._replace(length=length)
        if then.asked.attrs:
            attrs = now.attributes()
            attrs.update({key: self._shape(attrs.get(key), part, now) for key, part in _unknowns(then.asked.attrs)})
        if then.asked.items:
            items = now.elements()
            items.update({key: self._shape(items.get(key), part, now) for key, part in _unknowns(then.asked.items)})
        return now

    def _name(self, name: str) -> str:
        """Return the name of the tensor that stands for one of that call."""
        if name:
            for tensor, then in zip(self.given.tensors, self.summary.numbers.names):
                if then == name:
                    return tensor.name
        return name

    def _cut(self, event: Cut) -> Cut:
        world, summary, site = self.world, self.summary, self.site
        at, off_at, within = event.at, event.off_at, event.within
        if len(at.stack) > len(summary.stack):
            at = site(at)
        else:
            # It is said at a call that led to this one.
            own = site(self._kept(Site(within[0], "", (*within[1:], at.span, *at.stack), at.iteration)))
            at = world.modes.cut_site or world.graph.call_in_block(own) or own
            within = (own.span, *own.stack[: len(own.stack) - len(at.stack) - 1])
        return Cut(
            event.id - summary.begun.cuts + self.begun.cuts, event.how, at,
            self._all(event.nodes), self._all(event.leaves), self._name(event.name), self.cuts(event.sources),
            world.modes.off_at if off_at is not None else None, within,
        )  # fmt: skip

    def _kept(self, made: Site) -> Site:
        """Return a place that is told by its id from now on."""
        self._places.append(made)
        return made

    def _sites(self) -> Callable[[Site], Site]:
        """Return what gives the place of an event the calls and iterations that lead to it now."""
        summary, world = self.summary, self.world
        outer = len(summary.stack) + (summary.call is not None)
        tail = world.position.call_stack
        around = len(summary.iteration)
        now = world.position.iteration
        loops = self.begun.loops - summary.begun.loops
        known: dict[int, Site] = {}
        stacks: dict[tuple[Span, ...], tuple[Span, ...]] = {}
        iterations: dict[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]] = {summary.iteration: now}

        def site(then: Site) -> Site:
            found = known.get(id(then))
            if found is None:
                stack = stacks.get(then.stack)
                if stack is None:
                    stack = stacks[then.stack] = (*then.stack[: len(then.stack) - outer], *tail)
                iteration = iterations.get(then.iteration)
                if iteration is None:
                    inner = [(loop + loops, index) for loop, index in then.iteration[around:]]
                    iteration = iterations[then.iteration] = (*now, *inner)
                found = known[id(then)] = Site(then.span, then.function, stack, iteration)
            return found

        return site


_REWRITTEN: ByKind[_Again, [], Event] = ByKind()
"""What stands for an event that builds no node where its call is written again."""
_REWRITTEN.register(_Again._bind, Bind)
_REWRITTEN.register(_Again._in_place, InPlace)
_REWRITTEN.register(_Again._cut, Cut)
_REWRITTEN.register(lambda again, event: replace(event, id=again._loop(event.id), at=again.site(event.at)), Loop)
_REWRITTEN.register(lambda again, event: Iteration(again._loop(event.loop), event.index), Iteration)
_REWRITTEN.register(lambda again, event: replace(event, loop=again._loop(event.loop)), LoopEnd)
_REWRITTEN.register(_Again._decision, Decision)
_REWRITTEN.register(_Again._assumed, Assumed)
_FED = (InPlace, Cut)
"""The events among these that the ledger follows."""


def _paired(pairs: dict[int, int], then: list[int | None], now: list[int | None]) -> bool:
    """Pair numbers off; answers whether each of either side has one partner only."""
    back: dict[int, int] = {}
    for before, after in zip(then, now):
        if before is None or after is None:
            if before is not after:
                return False
            continue
        if pairs.setdefault(before, after) != after or back.setdefault(after, before) != before:
            return False
    return True
