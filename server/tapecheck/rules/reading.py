"""A tape as the rules read it: replayed once, indexed once, shared by all rules."""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, update_wrapper
from operator import itemgetter
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

from tapecheck.tape import (
    NOTHING,
    Assumed,
    Backward,
    Bind,
    Cut,
    Decision,
    End,
    Ending,
    Escape,
    Event,
    Fact,
    GradientCleared,
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
    Ledger,
    LeftOut,
    Loop,
    LoopEnd,
    ModeSet,
    Named,
    Node,
    Optimizer,
    Raised,
    Rescaled,
    Scaled,
    Site,
    Span,
    Step,
    Tape,
    Traversal,
    Unscaled,
    Wrapper,
    WrapperCall,
)

MERGES = frozenset(("add", "sub", "rsub"))
"""The operations that add two terms."""
SUMS = frozenset({"add", "sum", "mean", "stack", "cat", "div", "neg", "sub", "rsub"})


Asked = ParamSpec("Asked")
Answer = TypeVar("Answer")
Found = TypeVar("Found")


def plain(op: str) -> str:
    """Return an op's bare name: "add" for "AddBackward0", "torch.add" and "add_"."""
    return op.rsplit(".", 1)[-1].lower().split("backward")[0].strip("_")


@dataclass(slots=True, eq=False)
class LoopRun:
    """One run of a loop, from entering it to leaving it; positions count events of the tape.

    `iterations` is the highest iteration that began, `more` whether the real loop would go on after it, `usual` how
    many there are where options keep their defaults, if that is fewer, `settled` whether nobody knows its length,
    `ahead` whether a guard or a place that comes round again is, which it did not come to, `every` whether each
    iteration was looked at for what it keeps.
    """

    event: Loop
    start: int
    end: int | None = None
    iterations: int = 0
    more: Fact = "may"
    usual: int | None = None
    settled: bool = False
    ahead: bool = False
    every: bool = False

    @property
    def repeats(self) -> bool:
        """Return whether it has a second iteration where options keep their defaults."""
        return self.usual is None or self.usual > 1

    @property
    def id(self) -> int:
        return self.event.id

    @property
    def depth(self) -> int:
        """Return how many loops run around this one: its place in every `Site.iteration` inside it."""
        return len(self.event.at.iteration)


@dataclass(slots=True, eq=False)
class Run:
    """One backward of the tape with the position of its event and what the engine makes of it."""

    position: int
    traversal: Traversal

    @property
    def backward(self) -> Backward:
        return self.traversal.backward

    @property
    def at(self) -> Site:
        return self.traversal.backward.at

    @property
    def failed(self) -> bool:
        """Return whether this backward certainly raises."""
        return self.traversal.problem is not None and self.traversal.problem.certain == "yes"


HolderKey = tuple[int, str, str, int]
"""Loop id, holder, file and line of the store."""


@dataclass(slots=True, eq=False)
class Held:
    """What one holder keeps at the end of each iteration of one loop, by iteration."""

    loop: LoopRun
    holder: str
    holds: dict[int, Hold] = field(default_factory=dict)
    positions: dict[int, int] = field(default_factory=dict)
    nodes: dict[int, set[int]] = field(default_factory=dict)

    @property
    def last(self) -> Hold:
        return self.holds[max(self.holds)]


GradientEvent = GradientCleared | GradientSet | GradientRead | LeafEscape
_UNLISTED = frozenset((Cut, End, Leaf, Named))
"""Events that the ledger has indexes of, or that no rule asks for."""


class Reading:
    """One tape, replayed through a ledger, with the indexes that rules ask for."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.ledger = tape.ledger or Ledger()
        self.runs: list[Run] = []
        self.loops: dict[int, LoopRun] = {}
        self.steps: list[tuple[int, Step]] = []
        self.optimizers: dict[int, Optimizer] = {}
        self.changes: list[tuple[int, InPlace]] = []
        self.cleared: dict[int, list[tuple[int, GradientCleared]]] = {}
        self.given: set[int] = set()
        """The leaves that the program itself gives a gradient."""
        self.gradient_events: list[tuple[int, GradientEvent]] = []
        self.left_out: list[tuple[int, LeftOut]] = []
        self.scalings: list[tuple[int, Scaled | Unscaled | Rescaled]] = []
        self.wrappers: list[tuple[int, Wrapper | WrapperCall | GradientsReduced | GradientsWithGraph]] = []
        self.optimizers_made: dict[int, list[tuple[int, Optimizer]]] = {}
        self.answers: dict[Hashable, Any] = {}
        """What was asked of this reading before: see `remembered`."""
        self.escapes: list[tuple[int, Escape]] = []
        self.built_by_unknown: list[tuple[int, Escape]] = []
        """Calls of unknown code that may walk graphs which it has built itself."""
        self.looked_at: list[int] = []
        """The nodes whose graph something else than a backward used."""
        self._asked: list[int] = []
        self.modes: list[tuple[int, ModeSet]] = []
        self.raised: list[Raised] = []
        self.decisions: list[tuple[int, Decision]] = []
        self.assumed: list[tuple[int, Assumed]] = []
        self._holds: list[tuple[int, Hold]] = []
        self._binds: list[tuple[int, Bind]] = []
        self._nodes: list[int] = []
        self._node_positions: list[int] = []
        self._begun: set[int] = set()
        listed: dict[type[Event], list[tuple[int, Any]]] = {
            Bind: self._binds, Hold: self._holds, InPlace: self.changes, Step: self.steps, LeftOut: self.left_out,
            Decision: self.decisions, ModeSet: self.modes,
            **dict.fromkeys((GradientRead, LeafEscape), self.gradient_events),
            **dict.fromkeys((Scaled, Unscaled, Rescaled), self.scalings),
            **dict.fromkeys((Wrapper, WrapperCall, GradientsReduced, GradientsWithGraph), self.wrappers),
        }  # fmt: skip
        for position, event in enumerate(tape.events):
            if tape.ledger is None:
                self.ledger.feed(event)
            # By far the most are nodes and names.
            if type(event) is Node:
                self._nodes.append(event.id)
                self._node_positions.append(position)
            elif type(event) in listed:
                listed[type(event)].append((position, event))
            elif type(event) not in _UNLISTED:
                self._add(position, event)

    def _add(self, position: int, event: Event) -> None:
        """Index an event of a kind of which more is asked than where it stands."""
        match event:
            case Backward():
                if event.id not in self._begun:
                    self._begun.add(event.id)
                    self.runs.append(Run(position, self.ledger.traversals[event.id]))
            case Loop():
                self.loops[event.id] = LoopRun(event, position)
            case Iteration() if event.loop in self.loops:
                self.loops[event.loop].iterations = max(self.loops[event.loop].iterations, event.index)
            case LoopEnd() if event.loop in self.loops:
                loop = self.loops[event.loop]
                loop.end, loop.more, loop.usual = position, event.more, event.usual
                loop.settled, loop.ahead, loop.every = event.settled, event.ahead, event.every
            case Optimizer():
                self.optimizers[event.id] = event
                self.optimizers_made.setdefault(event.id, []).append((position, event))
            case GradientCleared():
                self.gradient_events.append((position, event))
                self.cleared.setdefault(event.leaf, []).append((position, event))
            case GradientSet():
                self.gradient_events.append((position, event))
                self.given.add(event.leaf)
            case Escape():
                (self.built_by_unknown if event.built else self.escapes).append((position, event))
            case GraphRead():
                (self._asked if event.asked else self.looked_at).append(event.node)
            case Raised():
                self.raised.append(event)
            case Assumed() if event.kind != "name" or event.about != NOTHING:
                self.assumed.append((position, event))

    @cached_property
    def lines(self) -> set[tuple[str, int]]:
        """The lines that something happened on, with those of the calls that led there."""
        return {(span.file, span.line) for site in self._sites for span in (site.span, *site.stack)}

    @cached_property
    def _sites(self) -> list[Site]:
        """The places of the events; those of one line in one iteration mostly share theirs."""
        found = (getattr(event, "at", None) for event in self.tape.events)
        return list({id(site): site for site in found if isinstance(site, Site)}.values())

    @cached_property
    def positions_at(self) -> dict[tuple[str, int], list[int]]:
        """The positions of the events, by the file and line that these happened on."""
        found: dict[tuple[str, int], list[int]] = {}
        lists: dict[int, list[int]] = {}
        for position, event in enumerate(self.tape.events):
            at: Site | None = getattr(event, "at", None)
            if at is not None:
                here = lists.get(id(at))
                if here is None:
                    here = lists[id(at)] = found.setdefault((at.span.file, at.span.line), [])
                here.append(position)
        return found

    @property
    def complete(self) -> bool:
        return self.tape.complete

    def goes_on(self, run: Run) -> bool:
        """Return whether the program may come to this call more often than the tape shows: its loop was left early."""
        return self.complete and any(
            loop in self.loops and self.loops[loop].more != "no" for loop, _ in run.at.iteration
        )

    @property
    def ended(self) -> Ending | Literal[""]:
        """Return how the tape ends: finished, raised, budget, stopped, or nothing where its writer died."""
        last = self.tape.events[-1] if self.tape.events else None
        return last.how if isinstance(last, End) else ""

    # -- nodes ----------------------------------------------------------------------------------------------

    def site(self, node: int) -> Site | None:
        event: Node | Leaf | None = self.ledger.nodes.get(node) or self.ledger.leaves.get(node)
        return event.at if event is not None else None

    def by_default(self, at: Site) -> bool:
        """Return whether the iterations that a place is in are run where options keep their defaults."""
        counts = ((self.loops[loop].usual, index) for loop, index in at.iteration if loop in self.loops)
        return all(usual is None or index <= usual for usual, index in counts)

    def iteration_of(self, node: int, loop: LoopRun) -> int:
        """Return the iteration of a loop's run that built a node, 0 where it was built outside."""
        site = self.site(node)
        return iteration_in(site, loop) if site is not None else 0

    def nodes_between(self, start: int, end: int) -> list[int]:
        """Return the nodes that were built between two positions, in order."""
        return self._nodes[bisect_left(self._node_positions, start) : bisect_left(self._node_positions, end)]

    def built(self, node: int) -> int:
        """Return the position at which a node was built."""
        return self._node_positions[self._nodes.index(node)]

    def sources(self, node: int) -> tuple[int, ...]:
        event = self.ledger.nodes.get(node)
        return event.inputs if event is not None else ()

    def graph_nodes(self, reached: Iterable[int]) -> set[int]:
        """Return the nodes among nodes and leaves."""
        return {node for node in reached if node in self.ledger.nodes}

    def path(self, roots: Iterable[int], target: int) -> list[int]:
        """Return a shortest way through the graph from one of the roots down to a node, both included."""
        came: dict[int, int | None] = dict.fromkeys(roots)
        queue = list(came)
        for node in queue:
            if node == target:
                way = [node]
                while (before := came[way[-1]]) is not None:
                    way.append(before)
                return way[::-1]
            for source in self.sources(node):
                if source not in came and source >= target:
                    came[source] = node
                    queue.append(source)
        return []

    def built_since(self, change: InPlace) -> int:
        """Return the first node that was built after a change in place, or a number above all nodes."""
        position = next((position for position, event in self.changes if event is change), 0)
        first = bisect_left(self._node_positions, position)
        return self._nodes[first] if first < len(self._nodes) else (self._nodes[-1] if self._nodes else 0) + 1

    def iterations_reached(self, loop: LoopRun, blocked: frozenset[int] = frozenset()) -> dict[int, int]:
        """Return, for each node built in a loop's run, the iterations whose nodes it reaches, as bits.

        Only nodes and ways that certainly exist count. Blocked nodes count as if their values had been
        detached: neither they nor nodes computed from such values alone.
        """
        depth, identity = loop.depth, loop.id
        reached: dict[int, int] = {}
        dead = set(blocked)
        first = bisect_left(self._node_positions, loop.start)
        last = len(self._nodes) if loop.end is None else bisect_left(self._node_positions, loop.end)
        for number in self._nodes[first:last]:
            event = self.ledger.nodes[number]
            iteration = event.at.iteration
            if len(iteration) <= depth or iteration[depth][0] != identity:
                continue
            if number not in self.grounded or number in dead:
                continue
            if dead and event.inputs and dead.issuperset(event.inputs):
                dead.add(number)
                continue
            bits = 1 << iteration[depth][1]
            if event.linked == "yes" or number in self.ledger.provisional:
                for source in event.inputs:
                    bits |= reached.get(source, 0)
            reached[number] = bits
        return reached

    @cached_property
    def grounded(self) -> set[int]:
        """Return the nodes that certainly exist: they lead to a leaf, certainly hold something for a backward, or a
        backward that did not fail started from them. What such a backward must have come through exists too, and so
        does what was computed from it.
        """
        found: set[int] = set()
        provisional = self.ledger.provisional
        for run in self.runs:
            if run.traversal.problem is None:
                for root in run.backward.roots:
                    number = root.node
                    while number in self.ledger.nodes and number not in found:
                        found.add(number)
                        sources = set(self.ledger.nodes[number].inputs) if number in provisional else set()
                        number = sources.pop() if len(sources) == 1 else None
        for number in self._nodes:
            event = self.ledger.nodes[number]
            if event.linked != "yes" and number not in provisional:
                if event.keeps == "yes":
                    found.add(number)
            elif any(source in found or source in self.ledger.leaves for source in event.inputs) or (
                not event.inputs and event.keeps == "yes"
            ):
                found.add(number)
        return found

    @cached_property
    def used(self) -> set[int]:
        """Return the nodes that something can walk or look at: below the root of a backward, in unknown code's hands,
        or read as `grad_fn`.
        """
        starts = [root.node for run in self.runs for root in run.backward.roots if root.node is not None]
        starts += [node for _, escape in self.escapes for node in escape.nodes]
        return self.graph_nodes(self.ledger.ancestry([*starts, *self.looked_at]))

    @cached_property
    def noticed(self) -> set[int]:
        """Return the nodes that are used, and those of values that the program asks whether they have a graph."""
        return self.used | self.graph_nodes(self.ledger.ancestry(self._asked)) if self._asked else self.used

    @cached_property
    def learned(self) -> set[int]:
        """Return the leaves that are no `nn.Parameter` and learn: a backward reaches them, later they are changed."""
        changed: dict[int, int] = {}
        for position, change in self.changes:
            changed[change.storage] = position
        found: set[int] = set()
        for run in self.runs:
            if run.backward.accumulates:
                for number, fact in run.traversal.executed.items():
                    leaf = self.ledger.leaves.get(number) if fact == "yes" else None
                    if leaf is not None and not leaf.parameter and changed.get(leaf.storage, -1) > run.position:
                        found.add(number)
        return found

    @cached_property
    def of_parameters(self) -> set[int]:
        """Return the nodes that certainly lead to a parameter which certainly requires grad, or to what learns as one.

        Of the parameters of a model that nobody has seen the constructor of, that is known once a backward has come to
        them.
        """
        leaves, provisional = self.ledger.leaves, self.ledger.provisional
        known = {number for number, leaf in leaves.items() if leaf.parameter and not leaf.many}
        for run in self.runs:
            known |= {number for number, fact in run.traversal.executed.items() if fact == "yes" and number in leaves}
        found = {number for number in known if leaves[number].parameter} | self.learned
        for number in self._nodes:
            event = self.ledger.nodes[number]
            if event.linked == "yes" and number not in provisional and not found.isdisjoint(event.inputs):
                found.add(number)
        return found - leaves.keys()

    @cached_property
    def of_made_models(self) -> set[int]:
        """Return the nodes that may lead to parameters of an opaque model which the program itself made.

        They are made out of a library or read from a file; such parameters require grad unless the program freezes
        them, and then what runs them is not known to build a graph.
        """
        made = {number for number, leaf in self.ledger.leaves.items() if leaf.made}
        if not made:
            return set()
        found: set[int] = set()
        for number in self._nodes:
            event = self.ledger.nodes[number]
            # Of a frozen model nobody knows that it keeps anything.
            if not found.isdisjoint(event.inputs) or (event.keeps == "yes" and not made.isdisjoint(event.inputs)):
                found.add(number)
        return found

    def constants_of(self, run: Run) -> set[int]:
        """Return the cuts behind which a backward does not go: it takes what was cut off for a constant."""
        roots = run.backward.root_nodes
        nodes = self.graph_nodes(self.ledger.ancestry(roots))
        return {cut for node in nodes for cut in self.ledger.nodes[node].cuts}

    # -- names ----------------------------------------------------------------------------------------------

    @cached_property
    def binds(self) -> dict[int, list[tuple[int, Bind]]]:
        """Return the names each node was bound to, with the positions, in order."""
        found: dict[int, list[tuple[int, Bind]]] = {}
        for position, bind in self._binds:
            if bind.node is not None:
                found.setdefault(bind.node, []).append((position, bind))
        return found

    def name(self, node: int, before: int | None = None) -> tuple[str, Site] | None:
        """Return the last name a node was bound to (before a position), with the place."""
        for position, bind in reversed(self.binds.get(node, ())):
            if before is None or position < before:
                return bind.name, bind.at
        leaf = self.ledger.leaves.get(node)
        return (leaf.name, leaf.at) if leaf is not None and leaf.name else None

    def stored_from(self, node: int, name: str, at: Site) -> str:
        """Return the other name of a value that a statement has stored under one, empty where it has none there, or
        where what the statement stores at other times has another: `total = x if total is None else total + x`.
        """
        position = next(
            (where for where, bind in self.binds.get(node, ()) if bind.at == at and bind.name == name), None
        )
        for where, bind in reversed(self.binds.get(node, ())):
            if position is None or where >= position or bind.name == name or bind.item is not None:
                continue
            if bind.at.stack == at.stack and bind.at.file == at.file and bind.at.line != at.line:
                stored = [one.node for _, one in self._binds if one.name == name and one.at.span == at.span]
                same = all(one is None or self._is_called(one, bind.name) for one in stored)
                return bind.name if same else ""
        return ""

    def _is_called(self, node: int, name: str) -> bool:
        return any(bind.name == name for _, bind in self.binds.get(node, ()))

    def constant(self, cuts: tuple[int, ...], before: int) -> str:
        """Return the last name that a value without graph of just these cuts was bound to before a position."""
        for position, bind in reversed(self._binds):
            if position < before and bind.node is None and bind.cuts and set(bind.cuts) == set(cuts):
                return bind.name
        return ""

    def binds_in(self, name: str, start: int, end: int) -> Iterator[Bind]:
        """Yield the tensors bound to a name between two positions, in order."""
        for position, bind in self._binds:
            if start <= position < end and bind.name == name:
                yield bind

    def bound_at(self, file: str, line: int, before: int) -> set[int]:
        """Return the nodes of the values that a line had stored before a position."""
        return {
            bind.node
            for position, bind in self._binds
            if position < before and bind.node is not None and (bind.at.file, bind.at.line) == (file, line)
        }

    def carried_by(
        self, node: int, loop: LoopRun, iteration: int, before: int, reader: Site | None = None
    ) -> tuple[str, Site] | None:
        """Return who still refers to a node after the iteration that built it: the holder, and where it stored.

        `reader` is where the value was used again: a function cannot read the local names of another.
        """
        for position, hold in self._holds:
            if position < before and hold.loop == loop.id and hold.index >= iteration and node in hold.nodes:
                return self.written(hold.holder, hold.at), hold.at
        # A local name of a function that has returned carries nothing.
        named = [
            bind
            for position, bind in reversed(self.binds.get(node, ()))
            if position < before and (bind.at.stack == loop.event.at.stack or "." in bind.name)
        ]
        if named:
            # Of `output, state = rnn(x, state)` the tuple: a state is what an LSTM hands over in one.
            best = next((bind for bind in named if bind.item is not None), named[0])
            if reader is not None and "." not in best.name and reader.stack != best.at.stack:
                best = next((bind for bind in named if "." in bind.name), best)
            return best.name, best.at
        # A container that a loop inside this iteration filled.
        for position, hold in reversed(self._holds):
            if position < before and node in hold.nodes and (loop.id, iteration) in hold.at.iteration:
                return self.written(hold.holder, hold.at), hold.at
        return None

    # -- holders --------------------------------------------------------------------------------------------

    @cached_property
    def held(self) -> list[Held]:
        """Return who keeps what over the iterations of which loop, by holder and line of the store."""
        groups: dict[HolderKey, Held] = {}
        for position, hold in self._holds:
            loop = self.loops.get(hold.loop)
            if loop is None:
                continue
            key = (hold.loop, hold.holder, hold.at.file, hold.at.line)
            held = groups.setdefault(key, Held(loop, hold.holder))
            held.holds.setdefault(hold.index, hold)
            held.positions[hold.index] = position
            held.nodes.setdefault(hold.index, set()).update(hold.nodes)
        return list(groups.values())

    def written(self, holder: str, site: Site) -> str:
        """Return a holder as the line that stores to it writes it: `self.h`, though the dry run came to it by
        `net.h`.
        """
        last = holder.rsplit(".", 1)[-1]
        if last == holder:
            return holder
        for name in self._names_at.get((site.file, site.line), ()):
            if name.rsplit(".", 1)[-1] == last:
                return name
        return holder

    def elements_of(self, name: str, node: int) -> Literal["", "tuple", "list"]:
        """Return which container a node's tensor is an element of, where a name stands for a tuple or list of it."""
        bound = [bind for _, bind in self.binds.get(node, ()) if bind.name == name]
        if bound:
            return "tuple" if all(bind.item is not None for bind in bound) else ""
        holds = [hold for _, hold in self._holds if node in hold.nodes]
        return "list" if any(hold.inside or len(hold.nodes) > 1 for hold in holds) else ""

    @cached_property
    def _names_at(self) -> dict[tuple[str, int], list[str]]:
        found: dict[tuple[str, int], list[str]] = {}
        for _, bind in self._binds:
            names = found.setdefault((bind.at.file, bind.at.line), [])
            if bind.name not in names:
                names.append(bind.name)
        return found

    # -- calls ----------------------------------------------------------------------------------------------

    @cached_property
    def _only_calls(self) -> set[Span]:
        """Return the calls of functions that are called at one place only."""
        calls: dict[tuple[str, str], set[Span]] = {}
        for at in self._sites:
            if at.stack:
                calls.setdefault((at.file, at.function), set()).add(at.stack[0])
        return {next(iter(spans)) for spans in calls.values() if len(spans) == 1}

    def telling_calls(self, site: Site) -> tuple[Span, ...]:
        """Return the calls that led to a place, innermost first, without the outer ones that are made once only."""
        calls = site.stack
        loops = [loop.event.at.stack for number, _ in site.iteration if (loop := self.loops.get(number)) is not None]
        while calls and calls[-1] in self._only_calls:
            if any(stack == site.stack[len(calls) :] for stack in loops):
                break
            calls = calls[:-1]
        return calls

    # -- backwards ------------------------------------------------------------------------------------------

    @cached_property
    def runs_by_site(self) -> dict[Span, list[Run]]:
        """Return the runs of each call, in order."""
        found: dict[Span, list[Run]] = {}
        for run in self.runs:
            found.setdefault(run.at.span, []).append(run)
        return found

    def walks_at(self, span: Span) -> bool:
        """Return whether this path runs to its end and walks a graph at a place."""
        return self.ended == "finished" and span in self.runs_by_site

    @cached_property
    def run_of(self) -> dict[int, Run]:
        return {run.backward.id: run for run in self.runs}

    def step_between(self, earlier: int, later: int) -> Step | None:
        """Return the first optimizer step between two positions."""
        return next((step for position, step in self.steps if earlier < position < later), None)

    def caught(self, run: Run) -> Raised | None:
        """Return the exception of a backward that the program swallows."""
        return next(
            (
                raised for raised in self.raised
                if raised.caught and not raised.left and raised.backward == run.backward.id
            ),
            None,
        )  # fmt: skip

    @cached_property
    def needed(self) -> set[int]:
        """Return the retaining backwards whose graph, where it held saved data, a later one ran through."""
        return {number for run in self.runs for earlier in run.traversal.retraversed.values() for number in earlier}

    @cached_property
    def constants(self) -> list[tuple[int, set[int]]]:
        """Return for each backward its position and the cuts whose values went as constants into the graph that it
        ran.
        """
        found = []
        for run in self.runs:
            cuts: set[int] = set()
            for node in run.traversal.executed:
                event = self.ledger.nodes.get(node)
                if event is not None and event.cuts:
                    cuts.update(event.cuts)
            found.append((run.position, cuts))
        return found

    @cached_property
    def growing_chains(self) -> list[Chain]:
        """Return calls whose retained backward walks the graphs of all earlier iterations, longer each time."""
        return list(_growing_chains(self))


def remembered(
    question: Callable[Concatenate[Reading, Asked], Answer],
) -> Callable[Concatenate[Reading, Asked], Answer]:
    """Let a reading remember the answers to a question about it: the rules ask again whenever a further way was run.

    What is asked about has to be hashable, and nobody may change an answer. A question may not hang on what becomes
    known of a tape later: its `untried` conditions, its ways `beyond`.
    """

    def ask(reading: Reading, /, *asked: Asked.args, **named: Asked.kwargs) -> Answer:
        key = (question, asked, *named.items())
        try:
            known: Answer = reading.answers[key]
        except KeyError:
            known = reading.answers[key] = question(reading, *asked, **named)
        return known

    update_wrapper(ask, question)
    return ask


@dataclass(slots=True)
class Chain:
    """Successive runs of one call in one loop, each walking all earlier iterations too.

    `window` says that the chain starts anew after some iterations: only those since then are walked.
    """

    loop: LoopRun
    runs: list[Run]
    lengths: list[int]
    window: bool = False


def _growing_chains(reading: Reading) -> Iterator[Chain]:
    for runs in reading.runs_by_site.values():
        if len(runs) < 3 or all(run.backward.retain == "no" for run in runs):
            continue
        for loop_id in dict.fromkeys(number for run in runs for number, _ in run.at.iteration):
            loop = reading.loops.get(loop_id)
            if loop is not None:
                chain = _growing_chain(reading, loop, runs)
                if chain is not None:
                    yield chain


def _growing_chain(reading: Reading, loop: LoopRun, runs: list[Run]) -> Chain | None:
    by_iteration: dict[int, list[Run]] = {}
    for run in runs:
        iteration = iteration_in(run.at, loop)
        if iteration:
            by_iteration.setdefault(iteration, []).append(run)
    if any(run.failed for group in by_iteration.values() for run in group):
        return None
    steady: list[tuple[set[int], Run]] = []
    found: Chain | None = None
    length = window = 0
    for iteration, group in sorted(by_iteration.items()):
        walked, again = _iterations_walked(reading, loop, group)
        before = steady[-1][0] if steady else set()
        if not (walked > before and iteration in walked and (not steady or again & before)):
            if before:
                # Cut after some iterations it is a window: what it walks is bounded. A sum that is walked again with
                # its earlier terms counts their gradients again in whatever window.
                found = replace(found, window=True) if found is not None and _adds_up(reading, found) else None
                window = max(window, length)
            steady, length = [], 0
            if iteration not in walked:
                continue
        steady.append((walked, group[-1]))
        length += 1
        if len(steady) == 3:
            if found is None and length > window and len(walked) >= 3:
                found = _chain(reading, loop, [run for _, run in steady])
            steady = steady[1:]
    return found


def _iterations_walked(reading: Reading, loop: LoopRun, group: Iterable[Run]) -> tuple[set[int], set[int]]:
    """Return the iterations of a loop whose nodes some backward calls walk, and those that they walk again."""
    walked = {
        reading.iteration_of(node, loop)
        for run in group
        for node, fact in run.traversal.executed.items()
        if fact == "yes" and node in reading.ledger.nodes
    }
    again = {reading.iteration_of(node, loop) for run in group for node in run.traversal.retraversed}
    return walked - {0}, again - {0}


def _chain(reading: Reading, loop: LoopRun, runs: list[Run]) -> Chain | None:
    """Return the chain that backward calls of three iterations show, None where they do not walk ever more nodes."""
    lengths = [len(reading.graph_nodes(run.traversal.executed)) for run in runs]
    return Chain(loop, runs, lengths) if lengths[0] < lengths[1] < lengths[2] else None


def _adds_up(reading: Reading, chain: Chain) -> bool:
    """Return whether each backward starts from a sum of which the one before it started from a part."""
    for before, run in itertools.pairwise(chain.runs):
        reached = run.backward.root_nodes
        for number in reached:
            event = reading.ledger.nodes.get(number)
            if event is not None and plain(event.op) in SUMS:
                reached += [source for source in event.inputs if source not in reached]
        if not any(root.node in reached for root in before.backward.roots):
            return False
    return True


def within(events: Sequence[tuple[int, Found]], start: int, end: int) -> Iterator[Found]:
    """Yield those of some events, in the order of their positions, that lie between two positions."""
    for index in range(bisect_right(events, start, key=itemgetter(0)), len(events)):
        position, event = events[index]
        if position >= end:
            return
        yield event


def iteration_in(site: Site, loop: LoopRun) -> int:
    """Return which iteration of a loop's run a site belongs to, 0 where it lies outside."""
    depth = loop.depth
    if len(site.iteration) > depth and site.iteration[depth][0] == loop.id:
        return site.iteration[depth][1]
    return next((index for number, index in site.iteration if number == loop.id), 0)


def undifferentiable(reading: Reading, numbers: Iterable[int]) -> list[Cut]:
    """Return the gradients without a graph that a value with some cuts comes from, if nothing cut them afterwards."""
    found: dict[int, Cut] = {}
    stack = list(numbers)
    while stack:
        cut = reading.ledger.cuts.get(stack.pop())
        if cut is not None and cut.how == "grad" and cut.id not in found:
            found[cut.id] = cut
            stack.extend(cut.sources)
    return list(found.values())


def covered(reading: Reading, cut: Cut) -> set[int]:
    """Return nodes and leaves that a cut value would have led back to."""
    return set(reading.ledger.ancestry(cut.nodes)) | set(cut.leaves)


def with_sources(reading: Reading, cuts: Iterable[int]) -> dict[int, Cut]:
    """Return cuts with all that they were derived from, in order of the search."""
    found: dict[int, Cut] = {}
    stack = list(cuts)[::-1]
    while stack:
        number = stack.pop()
        cut = reading.ledger.cuts.get(number)
        if cut is None or number in found:
            continue
        found[number] = cut
        stack.extend(reversed(cut.sources))
    return found
