"""Loops that repeat themselves: an iteration that does to graphs what the one before did shows nothing new.

Two iterations are the same where their events are, with everything that an iteration makes itself (nodes, storages,
backwards) told by its place in the iteration, and everything older by itself. A graph, or a leaf's gradient function,
that one iteration takes over from the one before has another number each time: such a loop goes on. What only happens
the first time (a gradient that is not there to be cleared, a name that is given once, a condition that is settled) is
left out of the comparison.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

from tapecheck.interpret import limits
from tapecheck.interpret.engine import Engine
from tapecheck.interpret.state import LoopKey, Row, World
from tapecheck.interpret.values import ByKind
from tapecheck.tape import (
    Backward,
    Bind,
    Cut,
    Escape,
    GradientRead,
    GradientSet,
    GradientsReduced,
    GradientsWithGraph,
    GraphRead,
    Hold,
    InPlace,
    Iteration,
    Leaf,
    LeafEscape,
    Loop,
    LoopEnd,
    ModeSet,
    Node,
    Overwritten,
    Raised,
    Rescaled,
    Scaled,
    ShardUse,
    StaleShards,
    Step,
    Switched,
    SyncSet,
    Unscaled,
    WrapperCall,
)

Reading = list[Row]
"""What an iteration did, in order, without the numbers that are different each time."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Where an iteration begins: the number of events so far, of nodes and leaves, and of storages."""

    events: int
    ids: int
    storages: int


def mark(world: World) -> Mark:
    """Return where the world stands."""
    return Mark(len(world.writer.tape.events), world.writer.last_id, world.writer.last_storage)


class _Reader:
    """Reads one iteration."""

    def __init__(
        self, world: World, begun: Mark, floor: Mark, folded: dict[int, tuple[int, bool]], settled: bool
    ) -> None:
        self.settled = settled
        """Whether what loops do before they come to repeat themselves is left out, too."""
        self.world = world
        self.begun = begun
        self.floor = floor
        self.folded = folded
        self.outermost = min(world.loops.before_outermost, floor.ids)
        self.own: dict[int, int] = {}
        self.made: list[int] = []
        self.skipping = 0
        """The loop within whose iterations repeat one that was read, 0 where none does."""
        self.at = -1
        """Where in `made` the next one stands that what such an iteration makes stands for, -1 where none does."""
        self.kept: dict[int, int] = {}
        """Where in `made` the iteration begins that those of a loop within repeat."""

    def read(self, until: int) -> Reading | None:
        """Return what was done up to an event; None where the program may not be what it was before."""
        found: Reading = []
        events: list[Any] = self.world.writer.tape.events[self.begun.events : until]
        nodes = self.world.writer.ledger.nodes
        for event in events:
            kind = type(event)
            if kind is Iteration:
                self._begin(event)
                continue
            if self.skipping:
                if self._changes_program(kind, event):
                    return None
                self._skip(kind, event)
                continue
            if kind is Node and nodes[event.id].graph_of is not None:
                # Made once for a value whose graph nobody knows, when it is first used.
                continue
            if kind is Node or kind is Leaf:
                self.own[event.id] = number = -1 - len(self.made)
                self.made.append(number)
            read = _READ.get(kind)
            if read is not None:
                place = () if kind is Switched else (event.at.span, event.at.stack)
                found.append((kind, *place, *read(self, event)))
            elif self._changes_program(kind, event):
                return None
        return found

    def _begin(self, event: Iteration) -> None:
        """Note where an iteration of a loop within begins: whether it repeats the one before it is known."""
        steady = self.folded.get(event.loop)
        if steady is None or self.skipping not in (0, event.loop):
            return
        if event.index == steady[0]:
            self.kept[event.loop] = len(self.made)
            self.skipping = 0
        elif event.index > steady[0] or (steady[1] and self.settled):
            self.skipping, self.at = event.loop, self.kept.get(event.loop, -1)

    def _skip(self, kind: type, event: Any) -> None:
        """Pass over an event of an iteration that repeats one that was read."""
        if kind is LoopEnd and event.loop == self.skipping:
            self.skipping = 0
        elif kind is Leaf or (kind is Node and not self.world.writer.ledger.leads_anywhere(event.id)):
            # What an iteration that repeats the one before makes stands for what that one made; what was made
            # on the way to it stands for itself.
            self.own[event.id] = self.made[self.at] if 0 <= self.at < len(self.made) else event.id
            self.at += self.at >= 0

    def _changes_program(self, kind: type, event: Any) -> bool:
        """Whether the program may be another one after an event: an exception, a parameter that a loop makes."""
        return kind is Raised or (kind is Leaf and event.parameter and self.begun is not self.floor)

    def node(self, number: int | None) -> Hashable:
        """Return what stands for a node or leaf."""
        if number is None:
            return None
        own = self.own.get(number)
        if own is not None:
            return own
        ledger = self.world.writer.ledger
        made = ledger.nodes.get(number)
        if made is not None and ledger.leads_anywhere(number):
            return _INDEX.sub("[]", made.op)
        if number <= self.outermost:
            return number
        leaf = ledger.leaves.get(number)
        if leaf is not None:
            return leaf.name, leaf.at.span
        if number > self.floor.ids or made is None:
            return number
        return made.op, made.at.span

    def nodes(self, numbers: Iterable[int]) -> tuple[Hashable, ...]:
        return tuple([self.node(number) for number in numbers])

    def built(self, event: Node) -> tuple[object, ...]:
        """Return what a node says; by far the most events are nodes, of what the iteration itself has made."""
        own, versions, before = self.own, self.world.writer.ledger.versions, self.begun.storages
        saved: list[object] = []
        for one in event.saved:
            storage = one.storage if one.storage in versions else None
            if storage is not None and storage > before:
                storage = 0
            saved.append((storage, one.name, own[one.of] if one.of in own else self.node(one.of), one.fact))
        inputs = tuple([own[number] if number in own else self.node(number) for number in event.inputs])
        cuts = self.cuts(event.cuts) if event.cuts else None
        return event.op, inputs, event.keeps, event.linked, cuts, saved

    def cuts(self, numbers: tuple[int, ...]) -> Hashable:
        """Return what stands for the cuts that a value came through: the places."""
        if not numbers:
            return None
        cuts = self.world.writer.ledger.cuts
        return frozenset((cuts[number].how, cuts[number].at.span) for number in numbers)

    def storage(self, number: int) -> int | None:
        """Return what stands for a storage; nothing hangs on one that is never changed in place."""
        if number not in self.world.writer.ledger.versions:
            return None
        return 0 if number > self.begun.storages else number


_READ: ByKind[_Reader, [], tuple[object, ...]] = ByKind()
_READ.register(_Reader.built, Node)
_READ.register(lambda reader, event: (event.how, reader.nodes(event.nodes), reader.nodes(event.leaves)), Cut)
_READ.register(
    lambda reader, event: (
        event.call,
        [(reader.node(root.node), root.graph, reader.cuts(root.cuts)) for root in event.roots],
        event.inputs if event.inputs is None else reader.nodes(event.inputs),
        event.retain,
        event.create,
    ),
    Backward,
)
_READ.register(
    lambda reader, event: (reader.storage(event.storage), event.how, event.grad_mode, event.optimizer), InPlace
)
_READ.register(lambda reader, event: (event.optimizer,), Step)
_READ.register(lambda reader, event: (reader.node(event.leaf), event.source and reader.node(event.source)), GradientSet)
_READ.register(lambda reader, event: (reader.node(event.of), event.how), GradientRead)
_READ.register(lambda reader, event: (reader.node(event.node),), GraphRead)
_READ.register(lambda reader, event: (event.training, reader.nodes(event.leaves)), ModeSet)
_READ.register(lambda reader, event: (event.told,), Switched)
_READ.register(lambda reader, event: (reader.node(event.node), event.enabled), Scaled)
_READ.register(lambda reader, event: (event.leaves,), Unscaled)
_READ.register(lambda reader, event: (event.chosen,), Rescaled)
_READ.register(
    lambda reader, event: (
        event.wrapper,
        event.reduces,
        event.whole,
        event.code,
        event.donates,
        event.guarded,
        reader.nodes(event.late),
    ),
    WrapperCall,
)
_READ.register(lambda reader, event: (), GradientsReduced)
_READ.register(lambda reader, event: (reader.nodes(event.leaves),), GradientsWithGraph)
_READ.register(lambda reader, event: (reader.nodes(event.leaves), event.on), SyncSet)
_READ.register(lambda reader, event: (event.how,), ShardUse)
_READ.register(lambda reader, event: (reader.nodes(event.leaves),), StaleShards)
_READ.register(lambda reader, event: (event.how,), Overwritten)
_READ.register(lambda reader, event: (reader.nodes(event.leaves), event.to), LeafEscape)
_READ.register(lambda reader, event: (reader.nodes(event.nodes), event.to), Escape)
_READ.register(lambda reader, event: (event.holder, reader.nodes(event.nodes)), Hold)
_READ.register(lambda reader, event: (event.name, reader.node(event.node), event.item), Bind)
_READ.register(lambda reader, event: (event.inside_forward,), Loop)
_INDEX = re.compile(r"\[\d+\]")
"""What is iterated is named by the number of the iteration."""
_TELLING = (Backward, Cut, Node, Step)


class Rounds:
    """The iterations of a loop that is running, as far as they are compared."""

    def __init__(self, machine: Engine, key: LoopKey, loop: int) -> None:
        self.machine = machine
        self.key = key
        self.loop = loop
        self.first = self.begun = self.earlier = mark(machine.world)
        """Where the loop, its last iteration and the one before that begin."""
        self.started = False
        self.compared = 0
        self.last = 0
        """The iteration that was compared last."""
        self.since = 0
        """The first of those iterations up to the last one that are all the same, 0 where there is none."""
        self.entered_before = key in machine.world.history.shown
        self.before: tuple[Mark, int] | None = None
        self.reading: Reading | None = None

    def begin(self) -> None:
        """Note where an iteration begins."""
        self.earlier, self.begun = self.begun, mark(self.machine.world)
        if not self.started:
            self.started, self.first, self.earlier = True, self.begun, self.begun

    def note(self, done: int) -> None:
        """Note an iteration, at its end, that nobody asks about: the next one may repeat it."""
        self.before = self.begun, len(self.machine.world.writer.tape.events)
        self.last, self.since, self.reading = done, 0, None

    def again(self, done: int) -> bool:
        """Whether iteration number `done`, at its end, repeats the one before, or those of an earlier entry."""
        machine = self.machine
        self.compared += 1
        until = len(machine.world.writer.tape.events)
        before, self.before = self.before, (self.begun, until)
        if self.last != done - 1:
            before = None
        self.last = done
        since, self.since = self.since, 0
        known = machine.world.history.shown.get(self.key)
        if self.compared > limits.MOST_COMPARED or (known is None and before is None):
            return False
        was, self.reading = self.reading, None
        now = self.reading = self.read(self.begun, until)
        if not now:
            return False
        if now == known:
            self.since = since if since and was == now else done
        elif before is not None and self._alike(was, before, now):
            self.since = since or done - 1
            machine.world.history.shown[self.key] = now
        else:
            return False
        return any(row[0] in _TELLING for row in now)

    def takes(self) -> bool:
        """Whether the last iteration cut or walked a graph from before the loop that the one before it did not.

        The next one may do the same to yet another: it repeats this one, and is no less needed.
        """
        taken = self._taken(self.begun.events, None)
        return bool(taken) and not taken <= self._taken(self.earlier.events, self.begun.events)

    def _taken(self, start: int, end: int | None) -> set[int]:
        """Return the nodes from before the loop that were cut or walked between two events."""
        found: set[int] = set()
        for event in self.machine.world.writer.tape.events[start:end]:
            match event:
                case Cut(nodes=nodes):
                    found.update(nodes)
                case Backward(roots=roots):
                    found.update(root.node for root in roots if root.node is not None)
        built = self.machine.world.writer.ledger.nodes
        return {number for number in found if number <= self.first.ids and number in built}

    def end(self, done: int) -> None:
        """Note the end of the loop: what it did after it repeated itself may be something else."""
        if self.since and self.last == done:
            self.machine.world.history.folded[self.loop] = self.since, not self.entered_before

    def _alike(self, was: Reading | None, before: tuple[Mark, int], now: Reading) -> bool:
        """Whether an iteration does what the one before did, where the loops within need not lead there once more."""
        return (was if was is not None else self.read(*before)) == now or self.read(*before, settled=True) == now

    def read(self, begun: Mark, until: int, *, settled: bool = False) -> Reading | None:
        folded = self.machine.world.history.folded
        if settled and not any(first for _, first in folded.values()):
            return None
        return _Reader(self.machine.world, begun, self.first, folded, settled).read(until)
