"""Forwards that were run before: for a module and arguments of the same kind the tape gets the same events again.

What a call did may be written anew, with other numbers, where it hung on nothing but what it was given: the module with
all its parts, the arguments, and names of other namespaces that still have the values that it read there. A call that
stored anything, asked a condition that nobody can decide, or did more than build nodes, is run each time.
"""

from __future__ import annotations

import ast
import re
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tapecheck.interpret import limits
from tapecheck.interpret.engine import Engine
from tapecheck.interpret.objects.unknowns import origins
from tapecheck.interpret.python.consequences import Fact
from tapecheck.interpret.values import (
    INERT,
    Args,
    Bound,
    Class,
    Dict,
    Function,
    Instance,
    Kwargs,
    Lib,
    List,
    Mark,
    Module,
    Native,
    Storage,
    Tensor,
    Unknown,
    Value,
    Wrapped,
)
from tapecheck.interpret.world import Frame, World
from tapecheck.tape import Bind, Cut, InPlace, Iteration, Loop, LoopEnd, Node, Saved, Site, Span
from tapecheck.tape.ledger import GRAPH_OF

_WRITTEN = frozenset((Node, Bind, Cut, InPlace, Loop, Iteration, LoopEnd))
_ORDERED = ("Eq", "Lt", "Gt")
_ITEM = re.compile(r"\[\d+\]")
_WORD = re.compile(r"\w+")
_AS_MADE = (None, None, True, False)
"""The graph of an unknown that nothing was done with, and whether a call gave it."""


class _Unlike(Exception):
    """A call hangs on more, or does more, than a summary can tell."""


_Shape = tuple[int, str | Mark, Unknown]
"""A shape that a call has asked a tensor for: the place of the tensor, and the shape under its key."""
_Test = tuple[Unknown, str, float, bool]
"""An assert about a number of a shape: the number, what it was compared with and how, and the answer."""

Read = tuple[dict[str, Value], str, Value]
"""A name that a call took from another namespace: that namespace, the name, and what it had there."""


class _Given:
    """What a call is given: `tokens` are the same for calls that are alike, the rest is what differs between them.

    `settled` are the unknowns that answered tests were about: what a test of them comes to hangs on which they are.
    """

    def __init__(self, settled: dict[int, Unknown]) -> None:
        self.settled = settled
        self.tokens: list[Any] = []
        self.names: list[str] = []
        """What tensors and unknowns are called, the places in a list left out."""
        self.tensors: list[Tensor] = []
        self.unknowns: list[Unknown] = []
        self.known: dict[int, int] = {}
        self.left_out: list[tuple[int, Any, int]] = []
        """Parts of unknowns that nothing is known of: whose they are, under which key, and their ids."""
        self._parts_of: dict[int, dict[Any, Value]] = {}
        self.held: list[Value] = []
        """What tokens tell by its id, which stays its own as long as it is held."""
        self.inside = True
        """Whether the module is being looked through, and not the arguments."""
        self.own = 0
        """How many of the numbered values belong to the module; those of the arguments come after them."""

    def add(self, value: Value) -> None:
        kind = type(value)
        tokens = self.tokens
        if kind in INERT:
            tokens.append((kind, value))
            return
        number = self.known.get(id(value))
        if number is not None:
            tokens.append(number)
            return
        number = self.known[id(value)] = len(self.known)
        if number > limits.MOST_SUMMED_UP:
            raise _Unlike
        if kind is Tensor:
            self._tensor(value)
        elif kind is Unknown:
            self._unknown(value)
        elif kind is Instance:
            self._object(value)
        elif kind is tuple:
            tokens.append(("tuple", len(value)))
            for item in value:
                self.add(item)
        elif kind is List:
            tokens.append(("list", value.kind, value.more, value.bound, value.cut, len(value.items)))
            for item in value.items:
                self.add(item)
        elif kind is Dict:
            tokens.append(("dict", value.more, len(value.items)))
            for key, item in value.items.items():
                if type(key) not in INERT:
                    raise _Unlike
                tokens.append(key)
                self.add(item)
        elif kind is Lib:
            tokens.append(("lib", value.path))
        elif kind in (Function, Class, Module, Native):
            self.held.append(value)
            tokens.append(("the", id(value)))
        elif kind is Bound:
            tokens.append(("bound",))
            self.add(value.function)
            self.add(value.receiver)
        else:
            raise _Unlike

    def argument(self, value: Value) -> None:
        """Add an argument: what the call could fill, or set attributes of, is not looked at again after it."""
        if type(value) in (Instance, List, Dict) and id(value) not in self.known:
            raise _Unlike
        if type(value) is tuple:
            self.tokens.append(("given", len(value)))
            for item in value:
                self.argument(item)
        else:
            self.add(value)

    def _tensor(self, value: Tensor) -> None:
        if value.given or value.hooks or value.retains_grad or value.items is not None:
            raise _Unlike
        self.tensors.append(value)
        self.tokens.append((
            "tensor", value.graph, value.node is None, value.is_leaf, value.parameter, value.dtype, value.rank,
            _whose(value), len(value.cuts), len(value.constant_terms), value.oldest is None,
        ))  # fmt: skip
        self.names.append("" if value.parameter else _ITEM.sub("[]", value.name))
        self._worked_out(value)
        length = value.length
        self.tokens.append((type(length), length) if type(length) in INERT else type(length))
        self.add(value.base)

    def _unknown(self, value: Unknown) -> None:
        if value.leaf is not None or value.trained:
            raise _Unlike
        self.unknowns.append(value)
        self.held.append(value)
        concrete = value.concrete
        if type(concrete) not in INERT:
            raise _Unlike
        self.names.append(_ITEM.sub("[]", value.name))
        self.tokens.append((
            "unknown", id(value) if self._is_settled(value) else None, value.kind, value.data, value.certain,
            value.returned, value.likely, value.truth, type(concrete), concrete, len(value.cuts), value.storage is None,
            value.bounds, value.negated is None, value.node is None,
        ))  # fmt: skip
        parts = _parts(value)
        self._parts_of[id(value)] = dict(parts)
        for key, part in parts:
            if id(part) not in self.known and self.fresh(part, value):
                self.left_out.append((self.known[id(value)], key, id(part)))
            else:
                self.tokens.append(key if type(key) in INERT else type(key))
                self.add(part)
        self.tokens.append("known")

    def _is_settled(self, value: Unknown) -> bool:
        """Whether an answered test was about an unknown, or about what it is worked out from."""
        if value.parts is None:
            return id(value) in self.settled
        return any(id(one) in self.settled for one in origins(value))

    def fresh(self, value: Value, whole: Unknown | None = None) -> bool:
        """Whether nothing is known of a part of an unknown but whose part it is: made anew it would be the same."""
        return self._unmarked(value) and (
            (value.node, value.oldest, value.certain, value.returned)
            == ((whole.node, whole.oldest, whole.certain, whole.returned) if whole is not None else _AS_MADE)
        )

    def _unmarked(self, value: Value) -> bool:
        """Whether no test was about a value, and nothing was made of it that outlives the expression."""
        return (
            type(value) is Unknown
            and value.storage is None and value.leaf is None and not value.trained
            and value.concrete is None and value.bounds is None and value.likely is None
            and value.usual is None and value.negated is None and not self._is_settled(value)
            and all(self.fresh(part, value) for _, part in _parts(value))
        )  # fmt: skip

    def close(self) -> None:
        """Add which of what was given is a part of something else that was."""
        self.tokens += [("part", self.known[part], *of) for *of, part in self.left_out if part in self.known]

    def learnt(self, facts: Sequence[Fact]) -> tuple[list[_Shape], list[_Test]]:
        """Return what has become known of what was given: shapes of tensors, and the asserts that speak of these.

        `facts` are the tests that were answered since. Raises `_Unlike` where more has become known.
        """
        for whole in self.unknowns:
            before = self._parts_of[id(whole)]
            for key, part in _parts(whole):
                old = key in before
                if old and part is not before[key]:
                    raise _Unlike
                if id(part) in self.known or (old and type(part) is not Unknown) or self.fresh(part, whole):
                    continue
                # It may be older than the graph of its whole.
                if not (old and part.node is None and self._unmarked(part)):
                    raise _Unlike
        shapes = []
        made: dict[int, Unknown] = {}
        for number, tensor in enumerate(self.tensors):
            for key, shape in (tensor.extra or {}).items():
                if type(shape) is Unknown and id(shape) not in self.known and not self.fresh(shape):
                    shapes.append((number, key, shape))
                    made.update((id(one), one) for one in _like(shape))
        tests: list[_Test] = []
        for value, answer, _ in facts:
            kind, tested, constant = value.compared or ("", value, None)
            if id(tested) in made and isinstance(constant, (int, float)) and kind in _ORDERED:
                tests.append((tested, kind, constant, answer))
            elif any(id(one) in made or self.known.get(id(one), -1) >= self.own for one in origins(value)):
                # What is said of the module itself alone is told by what is known of it afterwards.
                raise _Unlike
        told = {id(tested) for tested, *_ in tests}
        if any((one.bounds is not None or one.concrete is not None) and id(one) not in told for one in made.values()):
            raise _Unlike
        return shapes, tests

    def _worked_out(self, value: Tensor) -> None:
        """Add what stands for the shape of a tensor and the like, where something is known of it."""
        for name, item in (value.extra or {}).items():
            kind = type(item)
            if kind is Tensor or name is Mark.FROZEN_LEAF:
                # It belongs to another tensor, or the program has switched it off.
                raise _Unlike
            if kind is not Unknown:
                self.tokens.append((name, kind, item if kind in INERT else None))
            elif not self.fresh(item):
                self.tokens.append(name)
                self.add(item)

    def _object(self, value: Instance) -> None:
        if value.hooks or value.inner is not None or value.open or value.state is not None or value.args is not None:
            raise _Unlike
        layer = value.layer
        if value.cls is None and layer is None:
            raise _Unlike
        self.held.append(value.cls)
        self.tokens.append(("object", id(value.cls) if value.cls is not None else value.lib, len(value.attrs)))
        if layer is not None:
            if layer.parametrized:
                raise _Unlike
            kinds = None if layer.kinds is None else (tuple(layer.kinds[0]), tuple(layer.kinds[1].items()))
            self.tokens.append(
                (layer.container, layer.more, layer.wrapped, layer.fact is None, kinds, tuple(layer.given))
            )
            for item in layer.given.values():
                self.add(item)
        for name, item in value.attrs.items():
            self.tokens.append(name)
            self.add(item)


def _parts(value: Unknown) -> list[tuple[Any, Value]]:
    """Return what the program has asked an unknown for, with what it asked by."""
    parts = [] if value.length is None else [("len()", value.length)]
    for held in (value.attrs, value.items):
        if held:
            parts += held.items()
    return parts


def _like(value: Value, whole: Unknown | None = None) -> Iterator[Unknown]:
    """Yield a shape and its numbers; raises `_Unlike` where none that are like them can be made."""
    if (
        type(value) is not Unknown
        or value.node is not None or value.storage is not None or value.leaf is not None or value.trained
        or value.likely is not None or value.usual is not None or value.negated is not None
        or not (value.parts is None or (value.parts[0] == "len" and value.parts[1] is whole))
    ):  # fmt: skip
        raise _Unlike
    yield value
    for _, part in _parts(value):
        yield from _like(part, value)


def _whose(value: Tensor) -> str:
    if value.of_leaf is None:
        return ""
    return "own" if value.of_leaf == value.node else "another's"


def _flags(value: Tensor) -> dict[str | Mark, Value]:
    """Return what is noted of how a tensor was made, without what was worked out of it: its shape."""
    return {name: item for name, item in value.extra.items() if type(item) is bool} if value.extra else {}


def _state(value: Tensor) -> tuple[Any, ...]:
    """Return what a call would change of a tensor that it is given, were it to write a graph into it."""
    return (
        value.node, value.graph, value.is_leaf, value.oldest, value.cuts, value.of_leaf, value.changed, value.base,
        value.storage, value.dtype, value.parameter, value.grad, _flags(value),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Mark:
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

    def __init__(self, world: World, given: _Given) -> None:
        held: list[Tensor | Unknown] = [*given.tensors, *given.unknowns]
        self.nodes = [value.node for value in held]
        self.oldest = [value.oldest for value in held]
        self.names = [tensor.name for tensor in given.tensors]
        self.storages = [value.storage.id if value.storage is not None else None for value in held]
        self.cuts = [cut for value in held for cut in (*value.cuts, *getattr(value, "constant_terms", ()))]
        self.versions = {number: world.ledger.version(number) for number in self.storages if number is not None}


@dataclass(slots=True)
class Summary:
    """What one call did: its events from `begun` to `ended`, and how its result is made again."""

    begun: _Mark
    ended: _Mark
    events: list[Any]
    held: list[Value]
    numbers: _Numbers
    result: Callable[[_Again], Value]
    reads: list[Read]
    provisional: list[int]
    stored: list[tuple[int | None, int | None]]
    """The memory that unknown values were given, and the node that stands for their graphs."""
    call: Span | None
    stack: tuple[Span, ...]
    iteration: tuple[tuple[int, int], ...]
    shapes: list[_Shape]
    tests: list[_Test]
    speaks: bool
    """Whether the events say how something is called that the call was given."""


@dataclass(slots=True)
class Calls:
    """What is known of the calls of one function, by what they were given, with what that is called where the events
    say so; `failed` is how many could not be summed up since the last one that could.
    """

    summaries: dict[tuple[Any, ...], Summary]
    failed: int = 0


def forward(
    machine: Engine, function: Function, args: Args, kwargs: Kwargs, node: ast.AST, run: Callable[[], Value]
) -> Value:
    """Return what a module's forward gives: `run` runs it, where no call before was like this one."""
    calls = machine.summaries.get(id(function.node))
    if calls is None:
        calls = machine.summaries[id(function.node)] = Calls({})
    receiver = args[0] if args else None
    if calls.failed >= limits.MOST_TRIED or not isinstance(receiver, Instance) or not receiver.module or "**" in kwargs:
        return run()
    given = _Given(machine.world.settled)
    try:
        given.add(receiver)
        within = len(given.tokens)
        given.inside, given.own = False, len(given.known)
        for value in args[1:]:
            given.argument(value)
        for name, value in kwargs.items():
            given.tokens.append(name)
            given.argument(value)
        given.close()
    except _Unlike:
        calls.failed += 1
        return run()
    key = (*given.tokens, len(args), *_mode(machine, id(function.node)))
    named = (*key, *given.names)
    known = calls.summaries.get(key) or calls.summaries.get(named)
    if known is not None and all(names.get(name) is value for names, name, value in known.reads):
        again = _Again(machine, known, given, node)
        if again.fits():
            if machine.reads is not None:
                machine.reads += known.reads
            return again.write(function)
    outer, machine.reads = machine.reads, []
    watch = _Watch(machine, given)
    try:
        result = run()
    finally:
        reads, machine.reads = machine.reads, outer
        if outer is not None:
            outer += reads
    summary = watch.summary(receiver, given.tokens[:within], result, reads, node)
    if summary is not None:
        calls.failed = 0
        calls.summaries[named if summary.speaks else key] = summary
    elif watch.ended.events - watch.begun.events >= limits.FEWEST_EVENTS:
        calls.failed += 1
    return result


def _mode(machine: Engine, function: int) -> tuple[Any, ...]:
    """Return what else decides what is recorded; `function` is the id of the function's node."""
    world = machine.world
    return (
        world.grad_mode, world.inference, world.autocast, world.recomputed, world.passes_failures,
        machine.handlers > 0, world.block_calls is None, world.cut_site is None, world.gradients_cut,
        world.leaves_changed, bool(world.iteration), world.class_stores, machine.running.count(function),
        machine.depth > limits.NEAR_DEPTH,
    )  # fmt: skip


def _mark(world: World) -> _Mark:
    return _Mark(len(world.tape.events), *world.numbered, world.clock, world.stamp)


class _Watch:
    """Looks at a call while it runs, and sums up what it did where it did no more than build nodes."""

    def __init__(self, machine: Engine, given: _Given) -> None:
        self.machine = machine
        self.world = machine.world
        self.given = given
        self.numbers = _Numbers(machine.world, given)
        self.before = [_state(tensor) for tensor in given.tensors]
        self.settled = [one.concrete for one in given.unknowns]
        self.asked = self._asked()
        self.facts = len(machine.world.facts)
        self.begun = self.ended = _mark(machine.world)
        self.results: list[str] = []
        """What the tensors of the result are called."""

    def _asked(self) -> tuple[Any, ...]:
        world = self.world
        return (
            len(world.answered), world.deduced, len(world.mistakes), world.unknown_made, tuple(world.grad_modes),
            world.off_at, world.attribute_stores, len(world.checkpointed), self.machine.library.left_behind(),
        )  # fmt: skip

    def summary(
        self, receiver: Instance, tokens: list[Any], result: Value, reads: list[Read], node: ast.AST
    ) -> Summary | None:
        """Return the summary, None where there is none."""
        world, given = self.world, self.given
        self.ended = _mark(world)
        events = world.tape.events[self.begun.events :]
        if len(events) < limits.FEWEST_EVENTS or self.asked != self._asked():
            return None
        if any(type(event) not in _WRITTEN for event in events) or not all(_constant(value) for _, _, value in reads):
            return None
        if self.before != [_state(tensor) for tensor in given.tensors]:
            return None
        then = self.numbers.nodes[len(given.tensors) :]
        if any(
            one.leaf is not None or one.trained or (before is not None and one.node != before)
            for one, before in zip(given.unknowns, then)
        ):
            return None
        if self.settled != [one.concrete for one in given.unknowns]:
            return None
        if any(type(value) is Unknown and id(value) in given.known for _, _, value in reads):
            return None
        after = _Given(world.settled)
        try:
            shapes, tests = given.learnt(world.facts[self.facts :])
            after.add(receiver)
            made = self._frozen(result, {})
        except _Unlike:
            return None
        if after.tokens != tokens:
            return None
        provisional = [event.id for event in events if type(event) is Node and event.id in world.ledger.provisional]
        call = world.span(node) if world.frames else None
        held = self.numbers.storages[len(given.tensors) :]
        stored = [
            (
                one.storage.id if memory is None and one.storage is not None else None,
                one.node if before is None else None,
            )
            for one, memory, before in zip(given.unknowns, held, then)
        ]
        return Summary(
            self.begun, self.ended, events, given.held, self.numbers, made, reads, provisional, stored, call,
            world.call_stack, world.iteration, shapes, tests, _speaks(events, given.names, self.results),
        )  # fmt: skip

    def _frozen(self, value: Value, known: dict[int, int]) -> Callable[[_Again], Value]:
        """Return what makes the result again."""
        kind = type(value)
        if kind in INERT:
            return lambda again: value
        for number, tensor in enumerate(self.given.tensors):
            if tensor is value:
                return lambda again: again.given.tensors[number]
        if kind is tuple:
            parts = [self._frozen(item, known) for item in value]
            return lambda again: tuple([part(again) for part in parts])
        if kind is not Tensor:
            raise _Unlike
        if id(value) in known:
            place = known[id(value)]
            return lambda again: again.made[place]
        known[id(value)] = len(known)
        return self._frozen_tensor(value, len(known) - 1, known)

    def _frozen_tensor(self, value: Tensor, number: int, known: dict[int, int]) -> Callable[[_Again], Value]:
        if value.given or value.hooks or value.retains_grad or value.items is not None:
            raise _Unlike
        if value.is_leaf or value.parameter or value.grad is not None or type(value.length) not in INERT:
            raise _Unlike
        extra = _flags(value) or None
        base = None if value.base is None else self._frozen(value.base, known)
        storage, node, graph, oldest, cuts = value.storage.id, value.node, value.graph, value.oldest, value.cuts
        terms, of_leaf, dtype, name = value.constant_terms, value.of_leaf, value.dtype, value.name
        rank, length, changed = value.rank, value.length, value.changed
        self.results.append(name)
        if oldest is not None and oldest <= self.begun.ids and oldest not in self.numbers.oldest:
            raise _Unlike
        if of_leaf is not None and of_leaf not in self.numbers.nodes:
            raise _Unlike

        def make(again: _Again) -> Value:
            made = Tensor(
                again.storage(storage), again.node(node), graph, cuts=again.cuts(cuts),
                constant_terms=again.cuts(terms), oldest=again.oldest(oldest), of_leaf=again.node(of_leaf),
                dtype=dtype, name=name,
            )  # fmt: skip
            made.rank, made.length, made.extra = rank, length, dict(extra) if extra is not None else None
            if changed is not None:
                made.changed = (changed[0] - self.begun.clock + again.begun.clock, again.site(changed[1]))
            again.made[number] = made
            if base is not None:
                made.base = whole = base(again)
                if whole.storage.views is None:
                    whole.storage.views = []
                whole.storage.views.append(weakref.ref(made))
            return made

        return make


def _speaks(events: list[Any], names: list[str], results: list[str]) -> bool:
    """Whether events or results say a name that was given; a part of one is taken for it."""
    said = set(results)
    for event in events:
        kind = type(event)
        if kind is Node:
            said.add(event.op)
            said.update([one.name for one in event.saved])
        elif kind in (Bind, InPlace, Cut):
            said.add(event.name)
    words = {word for name in said for word in _WORD.findall(name)}
    return any(not words.isdisjoint(_WORD.findall(name)) for name in names if name)


def _constant(value: Value) -> bool:
    """Whether a name of another namespace has what no call can change."""
    kind = type(value)
    if kind is Wrapped:
        return value.kind != "cache" and _constant(value.function)
    if kind is tuple:
        return all(map(_constant, value))
    if kind is Unknown:
        return value.node is None and value.leaf is None and value.data
    return kind in INERT or kind in (Function, Class, Lib, Module, Native)


class _Again:
    """Writes the events of a call once more, with the numbers of another one."""

    def __init__(self, machine: Engine, summary: Summary, given: _Given, node: ast.AST) -> None:
        self.machine = machine
        self.world = machine.world
        self.summary = summary
        self.given = given
        self.call = node
        self.begun = _mark(machine.world)
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
        self._numbers: dict[int, Unknown] = {}
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
        return fits

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
        world.spend(limits.AGAIN_WORK + len(summary.events))
        world.push(Frame(function.name, function.module, world.span(self.call) if world.frames else None, True))
        try:
            self._write()
        finally:
            world.pop()
        begun, ended = summary.begun, summary.ended
        for unknown, (memory, number) in zip(self.given.unknowns, summary.stored):
            if memory is not None:
                unknown.storage = self.storage(memory)
            if number is not None:
                unknown.node = unknown.oldest = self.node(number)
                unknown.certain = False
        for place, key, shape in summary.shapes:
            tensor = self.given.tensors[place]
            tensor.extra = tensor.extra if tensor.extra is not None else {}
            tensor.extra[key] = self._shape(tensor.extra.get(key), shape)
        for tested, how, constant, answer in summary.tests:
            test = self.machine.unknown_test(getattr(ast, how)(), self._numbers[id(tested)], constant)
            self.machine.settle(test, answer)
        world.advance(
            ended.ids - begun.ids, ended.storages - begun.storages, ended.cuts - begun.cuts, ended.loops - begun.loops,
            ended.clock - begun.clock, ended.stamp - begun.stamp - 1,
        )  # fmt: skip
        first = self.begun.ids + 1
        self.machine.library.written_again(first, world.last_id, self.begun.ids - begun.ids, self)
        return summary.result(self)

    def _write(self) -> None:
        world, summary = self.world, self.summary
        ledger, written = world.ledger, world.tape.events
        self.site = site = self._sites()
        node, cuts, storage = self.node, self.cuts, self.number_of
        begun, shift, nodes = summary.begun.ids, self.begun.ids - summary.begun.ids, self._nodes
        loops = self.begun.loops - summary.begun.loops
        fresh = summary.begun.storages
        versions = self._versions
        provisional = ledger.provisional
        graphs = {
            number: unknown.name
            for unknown, (_, number) in zip(self.given.unknowns, summary.stored)
            if number is not None
        }
        provisional.update([number + shift for number in summary.provisional])
        for event in summary.events:
            kind = type(event)
            made: Any
            if kind is Node:
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
                op = f"{GRAPH_OF}{graphs[event.id]}" if event.id in graphs else event.op
                made = ledger.nodes[number] = Node(
                    number, op, site(event.at), inputs, saved, event.keeps, event.linked,
                    cuts(event.cuts) if event.cuts else (),
                )  # fmt: skip
            elif kind is Bind:
                made = Bind(site(event.at), event.name, node(event.node), cuts(event.cuts), event.item)
            elif kind is InPlace:
                made = InPlace(
                    site(event.at), storage(event.storage), event.how, self._name(event.name), node(event.leaf),
                    event.grad_mode, event.bumps, event.optimizer, event.on_view,
                    tuple([node(number) or number for number in event.lost]), event.refused,
                )  # fmt: skip
                ledger.feed(made)
            elif kind is Cut:
                made = self._cut(event, site)
                ledger.feed(made)
            elif kind is Loop:
                made = Loop(event.id + loops, site(event.at), event.inside_forward, event.hidden, event.off)
            elif kind is Iteration:
                made = Iteration(event.loop + loops, event.index)
            else:
                made = LoopEnd(event.loop + loops, event.iterations, event.more)
            written.append(made)

    def _shape(self, old: Value, then: Unknown, whole: Unknown | None = None) -> Unknown:
        """Return a shape, or a number in it, like one of that call, with all that it was asked for."""
        now: Unknown = old if isinstance(old, Unknown) else Unknown(then.name, None, self.cuts(then.cuts), then.kind)
        if now is not old:
            now.data, now.certain, now.returned = then.data, then.certain, then.returned
            now.truth = then.truth
            now.parts = None if then.parts is None else ("len", whole)
            now.owner, now.attr = whole if then.owner is not None else None, then.attr
        self._numbers[id(then)] = now
        if then.length is not None:
            now.length = self._shape(now.length, then.length, now)
        if then.attrs:
            attrs = now.attrs = now.attrs if now.attrs is not None else {}
            attrs.update({name: self._shape(attrs.get(name), part, now) for name, part in then.attrs.items()})
        if then.items:
            items = now.items = now.items if now.items is not None else {}
            items.update({key: self._shape(items.get(key), part, now) for key, part in then.items.items()})
        return now

    def _name(self, name: str) -> str:
        """Return the name of the tensor that stands for one of that call."""
        if name:
            for tensor, then in zip(self.given.tensors, self.summary.numbers.names):
                if then == name:
                    return tensor.name
        return name

    def _cut(self, event: Cut, site: Callable[[Site], Site]) -> Cut:
        world, summary = self.world, self.summary
        at, off_at, within = event.at, event.off_at, event.within
        if len(at.stack) > len(summary.stack):
            at = site(at)
        else:
            # It is said at a call that led to this one.
            own = site(self._kept(Site(within[0], "", (*within[1:], at.span, *at.stack), at.iteration)))
            at = world.cut_site or world.call_in_block(own.stack, own.iteration) or own
            within = (own.span, *own.stack[: len(own.stack) - len(at.stack) - 1])
        return Cut(
            event.id - summary.begun.cuts + self.begun.cuts, event.how, at,
            tuple([self.node(number) or number for number in event.nodes]),
            tuple([self.node(number) or number for number in event.leaves]),
            self._name(event.name), self.cuts(event.sources), world.off_at if off_at is not None else None, within,
        )  # fmt: skip

    def _kept(self, made: Site) -> Site:
        """Return a place that is told by its id from now on."""
        self._places.append(made)
        return made

    def _sites(self) -> Callable[[Site], Site]:
        """Return what gives the place of an event the calls and iterations that lead to it now."""
        summary, world = self.summary, self.world
        outer = len(summary.stack) + (summary.call is not None)
        tail = world.call_stack
        around = len(summary.iteration)
        now = world.iteration
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
