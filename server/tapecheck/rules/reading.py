"""A tape as the rules read it: replayed once, indexed once, shared by all rules."""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, KeysView, Mapping, Sequence, Set
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
    NoEffect,
    Optimizer,
    Overwritten,
    Problem,
    Raised,
    Rescaled,
    Scaled,
    ShardUse,
    Site,
    Span,
    StaleShards,
    Step,
    Switched,
    SyncSet,
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
Key = TypeVar("Key", bound=Hashable)
One = TypeVar("One")
Why = TypeVar("Why", bound=Problem)


def grouped(pairs: Iterable[tuple[Key, One]]) -> dict[Key, list[One]]:
    """Return what stands beside each key, in order."""
    found: dict[Key, list[One]] = {}
    for key, one in pairs:
        found.setdefault(key, []).append(one)
    return found


def search(starts: Iterable[Key], onward: Callable[[Key], Iterable[Key]]) -> Iterator[Key]:
    """Yield what some starts lead to, these included, each once: what lies behind one comes before the next."""
    seen: set[Key] = set()
    ahead = [*starts][::-1]
    while ahead:
        one = ahead.pop()
        if one not in seen:
            seen.add(one)
            yield one
            ahead += [*onward(one)][::-1]


def plain(op: str) -> str:
    """Return an op's bare name: "add" for "AddBackward0", "torch.add" and "add_"."""
    return op.rsplit(".", 1)[-1].lower().split("backward")[0].strip("_")


@dataclass(slots=True, eq=False)
class LoopRun:
    """One run of a loop, from entering it to leaving it; positions count events of the tape.

    `iterations` is the highest iteration that began, `more` whether the real loop would go on after it, `usual` how
    many there are where options keep their defaults, if that is fewer, `settled` whether nobody knows its length,
    `ahead` whether a guard or a place that comes round again is, which it did not come to, `every` whether each
    iteration was looked at for what it keeps, `parts` whether it goes over parameters or modules,
    `periodic` whether a condition in it holds every so many iterations, `length` how many iterations the real loop has,
    if that is known.
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
    parts: bool = False
    periodic: bool = False
    length: int | None = None

    @property
    def repeats(self) -> bool:
        """Return whether it has a second iteration where options keep their defaults."""
        return self.usual is None or self.usual > 1

    @property
    def id(self) -> int:
        return self.event.id

    def holds(self, position: int) -> bool:
        """Return whether what happens at a position happens while it runs."""
        return self.start < position and (self.end is None or position < self.end)

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
    def executed(self) -> dict[int, Fact]:
        return self.traversal.executed

    @property
    def surely(self) -> list[int]:
        """Return the nodes and leaves that it certainly comes to."""
        return [number for number, fact in self.traversal.executed.items() if fact == "yes"]

    @property
    def problem(self) -> Problem | None:
        return self.traversal.problem

    @property
    def failed(self) -> bool:
        """Return whether this backward certainly raises."""
        return self.failure is not None

    @property
    def failure(self) -> Problem | None:
        """Return why this backward certainly raises."""
        problem = self.traversal.problem
        return problem if problem is not None and problem.certain == "yes" else None

    @property
    def hindered(self) -> bool:
        """Return whether this backward raises, or may by what is on its tape: not by what an earlier run has left."""
        problem = self.traversal.problem
        return problem is not None and (problem.certain == "yes" or problem.kind != "donated")

    def fails(self, kind: type[Why]) -> Why | None:
        """Return why this backward certainly raises, where it is for a reason of a kind."""
        return problem if isinstance(problem := self.failure, kind) else None


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
        self.changes: list[tuple[int, InPlace]] = []
        self.gradient_events: list[tuple[int, GradientEvent]] = []
        self.left_out: list[tuple[int, LeftOut]] = []
        self.scalings: list[tuple[int, Scaled | Unscaled | Rescaled]] = []
        self.wrappers: list[tuple[int, Wrapper | WrapperCall | GradientsReduced | GradientsWithGraph | SyncSet]] = []
        self.shards: list[tuple[int, ShardUse | StaleShards]] = []
        self.overwritten: list[tuple[int, Overwritten]] = []
        self.answers: dict[Hashable, Any] = {}
        """What was asked of this reading before: see `remembered`."""
        self.escapes: list[tuple[int, Escape]] = []
        self.built_by_unknown: list[tuple[int, Escape]] = []
        """Calls of unknown code that may walk graphs which it has built itself."""
        self.looked_at: list[int] = []
        """The nodes whose graph something else than a backward used."""
        self._asked: list[int] = []
        self.modes: list[tuple[int, ModeSet]] = []
        self.switched: list[tuple[int, Switched]] = []
        self.without_effect: list[tuple[int, NoEffect]] = []
        self.raised: list[Raised] = []
        self.decisions: list[tuple[int, Decision]] = []
        self.assumed: list[tuple[int, Assumed]] = []
        self._optimizers: list[tuple[int, Optimizer]] = []
        self._holds: list[tuple[int, Hold]] = []
        self._binds: list[tuple[int, Bind]] = []
        self._nodes: list[int] = []
        self._node_positions: list[int] = []
        self._begun: set[int] = set()
        listed: dict[type[Event], list[tuple[int, Any]]] = {
            Bind: self._binds, Hold: self._holds, InPlace: self.changes, Step: self.steps, LeftOut: self.left_out,
            Decision: self.decisions, ModeSet: self.modes, Switched: self.switched, Optimizer: self._optimizers,
            Overwritten: self.overwritten, NoEffect: self.without_effect,
            **dict.fromkeys((GradientCleared, GradientRead, GradientSet, LeafEscape), self.gradient_events),
            **dict.fromkeys((Scaled, Unscaled, Rescaled), self.scalings),
            **dict.fromkeys((Wrapper, WrapperCall, GradientsReduced, GradientsWithGraph, SyncSet), self.wrappers),
            **dict.fromkeys((ShardUse, StaleShards), self.shards),
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
                loop.parts, loop.periodic = event.parts, event.periodic
                loop.length = event.length
            case Escape():
                (self.built_by_unknown if event.built else self.escapes).append((position, event))
            case GraphRead():
                (self._asked if event.asked else self.looked_at).append(event.node)
            case Raised():
                self.raised.append(event)
            case Assumed() if event.kind != "name" or event.about != NOTHING:
                self.assumed.append((position, event))

    @cached_property
    def optimizers(self) -> dict[int, Optimizer]:
        """Return the optimizers as they are in the end."""
        return {event.id: event for _, event in self._optimizers}

    @cached_property
    def optimizers_made(self) -> dict[int, list[tuple[int, Optimizer]]]:
        """Return what was written of each optimizer, with the positions: parameter groups may have been added."""
        return grouped((event.id, (position, event)) for position, event in self._optimizers)

    @cached_property
    def cleared(self) -> dict[int, list[tuple[int, GradientCleared]]]:
        """Return where the gradient of each leaf is cleared."""
        return grouped((e.leaf, (at, e)) for at, e in self.gradient_events if isinstance(e, GradientCleared))

    @cached_property
    def given(self) -> set[int]:
        """Return the leaves that the program itself gives a gradient."""
        return {event.leaf for _, event in self.gradient_events if isinstance(event, GradientSet)}

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

    @cached_property
    def leaves_made(self) -> list[tuple[int, Leaf]]:
        """Return the leaves, with the positions at which they are made."""
        return [(position, event) for position, event in enumerate(self.tape.events) if isinstance(event, Leaf)]

    @property
    def leaf_names(self) -> Iterator[str]:
        return (leaf.name for leaf in self.ledger.leaves.values())

    @property
    def complete(self) -> bool:
        return self.tape.complete

    def goes_on(self, run: Run) -> bool:
        """Return whether the program may come to this call more often than the tape shows: its loop was left early."""
        return self.complete and any(loop.more != "no" for loop in self.loops_around(run.at))

    def loops_around(self, at: Site) -> list[LoopRun]:
        """Return the loops that run around a place, outermost first."""
        return [self.loops[loop] for loop, _ in at.iteration if loop in self.loops]

    def untried_between(self, start: int, end: int) -> bool:
        """Return whether the work limit has left the other answer to a condition untried between two positions."""
        return bool(self.asked_between(start, end, self.tape.untried))

    def may_clear_between(self, start: int, end: int, *, ever: bool) -> bool:
        """Return whether a condition that the work limit has left untried between two positions may clear a gradient.

        `ever` says that the program clears it at some other time: what leaves a block may lead there.
        """
        tape = self.tape
        clearing = tape.untried - tape.keeping | (tape.leaving if ever else frozenset())
        return bool(self.asked_between(start, end, clearing))

    def asked_between(self, start: int, end: int, places: Set[tuple[str, int, int]]) -> list[Span]:
        """Return which of some conditions are asked between two positions, in order."""
        asked = (decision.at.span for at, decision in self.decisions if places and start < at < end)
        return [at for at in asked if (at.file, at.line, at.column) in places]

    def runs_in(self, loop: LoopRun) -> list[Run]:
        """Return the backwards that run while a loop does."""
        return [run for run in self.runs if loop.holds(run.position)]

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
        return self._built[node]

    @cached_property
    def _built(self) -> dict[int, int]:
        return dict(zip(self._nodes, self._node_positions, strict=True))

    def sources(self, node: int) -> tuple[int, ...]:
        event = self.ledger.nodes.get(node)
        return event.inputs if event is not None else ()

    def below(self, starts: Iterable[int]) -> KeysView[int]:
        """Return the nodes and leaves that some lead to, themselves included."""
        return self.ledger.ancestry(starts).keys()

    def above(self, starts: Collection[int]) -> set[int]:
        """Return some nodes with those that are computed from them."""
        found, first = set(starts), min(starts, default=0)
        for number in self._nodes if found else ():
            if number > first and not found.isdisjoint(self.ledger.nodes[number].inputs):
                found.add(number)
        return found

    def cuts_into(self, reached: Iterable[int]) -> set[int]:
        """Return the cuts whose values went as constants into the nodes among some nodes and leaves."""
        return {cut for node in self.graph_nodes(reached) for cut in self.ledger.nodes[node].cuts}

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
        return self.first_built(next((position for position, event in self.changes if event is change), 0))

    def first_built(self, after: int) -> int:
        """Return the first node that was built behind a position, or a number above all nodes."""
        first = bisect_left(self._node_positions, after)
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
        for start in (start for run in self.runs if run.problem is None for start in run.backward.root_nodes):
            found.update(itertools.takewhile(lambda number: number not in found, self._come_through(start)))
        for number in self._nodes:
            event = self.ledger.nodes[number]
            leads = event.inputs and (event.linked == "yes" or number in self.ledger.provisional)
            if (
                any(one in found or one in self.ledger.leaves for one in event.inputs)
                if leads
                else event.keeps == "yes"
            ):
                found.add(number)
        return found

    @cached_property
    def confirmed(self) -> set[int]:
        """Return the nodes that exist whatever code that is not visible is and gives: a backward that did not fail came
        through them, they have a graph without parameters that nobody has seen, or torch computed them from such.
        """
        found: set[int] = set()
        for start in (start for run in self.runs if run.problem is None for start in run.backward.root_nodes):
            found.update(itertools.takewhile(lambda number: number not in found, self._come_through(start)))
        parts = {number for _, event in self.assumed if event.kind == "part" for number in event.about}
        known = self.trained_leaves | {number for number, leaf in self.ledger.leaves.items() if not leaf.many}
        for number in self._nodes:
            event = self.ledger.nodes[number]
            computed = event.op.endswith("Backward0") and number in self.ledger.provisional
            if (event.linked == "yes" or computed) and number not in parts:
                if any(one in found or one in known for one in event.inputs) if event.inputs else not computed:
                    found.add(number)
        return found

    @cached_property
    def trained_leaves(self) -> set[int]:
        """Return the leaves that a backward has certainly come to, or that alone it can have come to.

        Of models that nobody has seen, any may be frozen beside another leaf.
        """
        leaves = self.ledger.leaves
        found: set[int] = set()
        for run in self.runs:
            met = [number for number in run.executed if number in leaves]
            lone = len(met) == 1 and self._is_seen(run)
            found.update(one for one in leaves.keys() & run.surely if lone or not leaves[one].many)
            for start in run.backward.root_nodes if run.problem is None else ():
                *_, last = (None, *self._come_through(start))
                sources = set(self.sources(last)) if last is not None else set()
                found |= self.ledger.leaves.keys() & sources if len(sources) == 1 else set()
        return found

    def _come_through(self, number: int | None) -> Iterator[int]:
        """Yield a node and what a backward that starts there must have come through, as far as that is one way."""
        while number is not None and number in self.ledger.nodes:
            yield number
            one_way = number in self.ledger.provisional or self.ledger.nodes[number].linked == "yes"
            sources = set(self.sources(number)) if one_way else ()
            number = next(iter(sources)) if len(sources) == 1 else None

    @cached_property
    def used(self) -> set[int]:
        """Return the nodes that something can walk or look at: below the root of a backward, in unknown code's hands,
        or read as `grad_fn`.
        """
        starts = [node for run in self.runs for node in run.backward.root_nodes]
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
        for run in (run for run in self.runs if run.backward.accumulates):
            for number in self.ledger.leaves.keys() & run.surely:
                leaf = self.ledger.leaves[number]
                if not leaf.parameter and changed.get(leaf.storage, -1) > run.position:
                    found.add(number)
        return found

    @cached_property
    def of_parameters(self) -> set[int]:
        """Return the nodes that certainly lead to a parameter which certainly requires grad, or to what learns as one.

        Of the parameters of a model that nobody has seen the constructor of, that is known once a backward has come to
        them.
        """
        leaves, provisional = self.ledger.leaves, self.ledger.provisional
        known = self.trained_leaves | {number for number, leaf in leaves.items() if leaf.parameter and not leaf.many}
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
        return self._of_models({number for number, leaf in self.ledger.leaves.items() if leaf.made})

    @cached_property
    def of_hidden_models(self) -> set[int]:
        """Return the nodes that may lead to parameters of any opaque model, also of one that was passed in."""
        return self._of_models(self._models)

    @cached_property
    def _models(self) -> set[int]:
        """Return the leaves that stand for the parameters of opaque models."""
        return {number for number, leaf in self.ledger.leaves.items() if leaf.many and leaf.parameter}

    @cached_property
    def _learning_models(self) -> set[int]:
        """Return those of opaque models which a backward may have come to and that learn, as far as anybody knows.

        What else went into a loss is code that nobody has seen, such as a criterion: it may be that which learns.
        Beside another model one may have been frozen by whoever made it, unless the program shows that it is trained.
        """
        leaves = self.ledger.leaves
        shown = {leaf for _, mode in self.modes if mode.training for leaf in mode.leaves}
        shown.update(leaf for _, made in self._optimizers for leaf in made.params)
        learning: set[int] = set()
        for run in self._learned_from:
            learned = {number for number in run.executed if number in leaves and leaves[number].parameter}
            learning |= self._models & (learned if len(learned) == 1 else learned & shown)
        return learning

    @cached_property
    def _learned_from(self) -> list[Run]:
        return [run for run in self.runs if run.backward.accumulates] if self._models else []

    @cached_property
    def of_trained_models(self) -> set[int]:
        """Return the nodes that may lead to parameters of an opaque model which a backward may have come to."""
        leaves = self.ledger.leaves
        learning = self._learning_models
        copies = {number for number in self._models if not learning.isdisjoint(self._copied(number))}
        found = self._of_models(learning | copies)
        # Where a loss comes from nowhere else, some of the parameters require grad, whatever the program has frozen.
        alone = (
            {number for number in run.executed if number in leaves} for run in self._learned_from if self._is_seen(run)
        )
        lone = {leaf for met in alone if len(met) == 1 for leaf in met if leaves[leaf].made}
        return found | self._of_models(lone, keeping=("yes", "may"))

    def _copied(self, leaf: int) -> Iterator[int]:
        """Yield the leaf that one was deep-copied from, and what that was copied from: they require grad alike."""
        leaves = self.ledger.leaves
        origin = leaves[leaf].copy_of
        while origin is not None and origin in leaves:
            yield origin
            origin = leaves[origin].copy_of

    def _is_seen(self, run: Run) -> bool:
        """Return whether a backward leads nowhere but to leaves of the tape."""
        return not run.failed and not any(map(self.ledger.leads_anywhere, run.executed))

    def _of_models(self, models: set[int], keeping: Collection[str] = ("yes",)) -> set[int]:
        """Return the nodes that may lead to the parameters of some opaque models, and keep what a backward needs."""
        if not models:
            return set()
        found: set[int] = set()
        for number in self._nodes:
            event = self.ledger.nodes[number]
            # Of a frozen model nobody knows that it keeps anything.
            kept = event.keeps in keeping or event.shared
            if not found.isdisjoint(event.inputs) or (kept and not models.isdisjoint(event.inputs)):
                found.add(number)
        return found

    def constants_of(self, run: Run) -> set[int]:
        """Return the cuts behind which a backward does not go: it takes what was cut off for a constant."""
        return self.cuts_into(self.below(run.backward.root_nodes))

    # -- names ----------------------------------------------------------------------------------------------

    @cached_property
    def binds(self) -> dict[int, list[tuple[int, Bind]]]:
        """Return the names each node was bound to, with the positions, in order."""
        return grouped((bind.node, (at, bind)) for at, bind in self._binds if bind.node is not None)

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
        other = self._other_name(node, name, at)
        stored = [one.node for _, one in self._binds if one.name == name and one.at.span == at.span]
        called = ({bind.name for _, bind in self.binds[one]} for one in stored if one is not None)
        return other if all(other in names for names in called) else ""

    def _other_name(self, node: int, name: str, at: Site) -> str:
        """Return the name that a value had last on another line of a function before it was stored under one."""
        binds = [bind for _, bind in self.binds.get(node, ())]
        position = next((place for place, bind in enumerate(binds) if bind.at == at and bind.name == name), 0)
        others = (bind for bind in reversed(binds[:position]) if bind.name != name and bind.item is None)
        here = (bind for bind in others if (bind.at.stack, bind.at.file) == (at.stack, at.file))
        return next((bind.name for bind in here if bind.at.line != at.line), "")

    def constant(self, cuts: tuple[int, ...], before: int) -> str:
        """Return the name that a value without graph of just these cuts was bound to before a position; an empty one
        where several values were, of which any may be meant.
        """
        wanted = set(cuts)
        binds = (bind for at, bind in self._binds if at < before and bind.node is None and bind.cuts)
        names = {bind.name for bind in binds if set(bind.cuts) == wanted}
        return names.pop() if len(names) == 1 else ""

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
        self, node: int, loop: LoopRun, iteration: int, before: int, user: int | None = None
    ) -> tuple[str, Site] | None:
        """Return who still refers to a node after the iteration that built it: the holder, and where it stored.

        `user` is the node that used the value again: a function cannot read the local names of another, nor does a name
        lead to what it meant before.
        """
        holds = [hold for position, hold in self._holds if position < before]
        later = (hold for hold in holds if hold.loop == loop.id and hold.index >= iteration)
        if (kept := self._keeps(node, later)) is not None:
            return kept
        # A container that a loop inside this iteration filled: what a later one binds of it comes out of there.
        within = self._keeps(node, (hold for hold in reversed(holds) if (loop.id, iteration) in hold.at.iteration))
        reader, read = (self.site(user), self.built(user)) if user is not None else (None, before)
        name = _carrying(self._names_of(node, before, still_at=read), loop.event.at, reader)
        if within is None:
            return name or _carrying(self._names_of(node, before), loop.event.at, reader)
        came_later = name is not None and dict(name[1].iteration).get(loop.id, 0) > iteration
        return within if name is None or came_later else name

    def _names_of(self, node: int, before: int, still_at: int | None = None) -> list[Bind]:
        """Return the binds of a value before a position, all or those whose names still mean it at another one."""
        return [
            bind
            for at, bind in self.binds.get(node, ())
            if at < before
            and (still_at is None or not bind.name.isidentifier() or not self._bound_anew(bind, at, still_at))
        ]

    def _bound_anew(self, bind: Bind, position: int, until: int) -> bool:
        """Return whether a name is bound to something else between two positions."""
        later = (one for at, one in self._binds if position < at < until and one.name == bind.name)
        return any(one.node != bind.node and one.at.stack == bind.at.stack for one in later)

    def _keeps(self, node: int, holds: Iterable[Hold]) -> tuple[str, Site] | None:
        """Return the first holder of a node, with where it stored that."""
        hold = next((hold for hold in holds if node in hold.nodes), None)
        return (self.written(hold.holder, hold.at), hold.at) if hold is not None else None

    # -- holders --------------------------------------------------------------------------------------------

    @cached_property
    def held(self) -> list[Held]:
        """Return who keeps what over the iterations of which loop, by holder and line of the store."""
        groups: dict[HolderKey, Held] = {}
        for position, hold in self._holds:
            if (loop := self.loops.get(hold.loop)) is None:
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
        loops = [loop.event.at.stack for loop in self.loops_around(site)]
        while calls and calls[-1] in self._only_calls:
            if any(stack == site.stack[len(calls) :] for stack in loops):
                break
            calls = calls[:-1]
        return calls

    # -- backwards ------------------------------------------------------------------------------------------

    @cached_property
    def runs_by_site(self) -> dict[Span, list[Run]]:
        """Return the runs of each call, in order."""
        return grouped((run.at.span, run) for run in self.runs)

    def walks_at(self, span: Span) -> bool:
        """Return whether this path runs to its end and walks a graph at a place."""
        return self.ended == "finished" and span in self.runs_by_site

    def builds_at(self, span: Span) -> bool:
        """Return whether this path builds a node at a place."""
        return any(node.at.span == span for node in self.ledger.nodes.values())

    @cached_property
    def run_of(self) -> dict[int, Run]:
        return {run.backward.id: run for run in self.runs}

    def step_between(self, earlier: int, later: int) -> Step | None:
        """Return the first optimizer step between two positions."""
        return next((step for position, step in self.steps if earlier < position < later), None)

    def caught(self, run: Run) -> Raised | None:
        """Return the exception of a backward that the program swallows."""
        swallowed = (raised for raised in self.raised if raised.caught and not raised.left)
        return next((raised for raised in swallowed if raised.backward == run.backward.id), None)

    @cached_property
    def needed(self) -> set[int]:
        """Return the retaining backwards whose graph, where it held saved data, a later one ran through."""
        return {number for run in self.runs for earlier in run.traversal.retraversed.values() for number in earlier}

    @cached_property
    def constants(self) -> list[tuple[int, set[int]]]:
        """Return for each backward its position and the cuts whose values went as constants into the graph that it
        ran.
        """
        return [(run.position, self.cuts_into(run.executed)) for run in self.runs]

    @cached_property
    def growing_chains(self) -> list[Chain]:
        """Return calls whose retained backward walks the graphs of all earlier iterations, longer each time."""
        return list(_growing_chains(self))


def _carrying(binds: Sequence[Bind], loop: Site, reader: Site | None) -> tuple[str, Site] | None:
    """Return which of the names that a value was bound to carries it over an iteration of a loop, and where."""
    # A local name of a function that has returned carries nothing.
    named = [bind for bind in reversed(binds) if bind.at.stack == loop.stack or "." in bind.name]
    if not named:
        return None
    # Of `output, state = rnn(x, state)` the tuple: a state is what an LSTM hands over in one.
    best = next((bind for bind in named if bind.item is not None), named[0])
    if reader is not None and "." not in best.name and reader.stack != best.at.stack:
        best = next((bind for bind in named if "." in bind.name), best)
    return best.name, best.at


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


def going_on(readings: Iterable[Reading]) -> list[Reading]:
    """Return the ways that go on past the backward calls that fail, each once: what is behind those is seen on them."""
    return [Reading(tape) for tape in {id(tape): tape for one in readings for tape in one.tape.beyond}.values()]


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
        loops = dict.fromkeys(loop for run in runs for loop in reading.loops_around(run.at))
        yield from (chain for loop in loops if (chain := _growing_chain(reading, loop, runs)) is not None)


def _growing_chain(reading: Reading, loop: LoopRun, runs: list[Run]) -> Chain | None:
    by_iteration = grouped((iteration_in(run.at, loop), run) for run in runs)
    by_iteration.pop(0, None)
    if any(run.failed for group in by_iteration.values() for run in group):
        return None
    found: Chain | None = None
    window = 0
    for stretch in _stretches(reading, loop, by_iteration):
        # Cut after some iterations it is a window: what it walks is bounded. A sum that is walked again with its
        # earlier terms counts their gradients again in whatever window.
        found = replace(found, window=True) if found is not None and _adds_up(reading, found) else None
        for last in range(max(window, 2), len(stretch)):
            if found is None and stretch[last][0] >= 3:
                found = _chain(reading, loop, [run for _, run in stretch[last - 2 : last + 1]])
        window = max(window, len(stretch))
    return found


def _stretches(reading: Reading, loop: LoopRun, runs: dict[int, list[Run]]) -> list[list[tuple[int, Run]]]:
    """Return the iterations of a loop in stretches in which each walks all that the one before has walked, and more:
    how many iterations each walks, with its last run.
    """
    found: list[list[tuple[int, Run]]] = [[]]
    before: set[int] = set()
    nodes = reading.ledger.nodes.items()
    built = {number: iteration for number, node in nodes if (iteration := iteration_in(node.at, loop))}
    for iteration, group in sorted(runs.items()):
        walked, again = _iterations_walked(built, group)
        if found[-1] and not (walked > before and iteration in walked and again & before):
            found.append([])
        if iteration in walked:
            found[-1].append((len(walked), group[-1]))
        before = walked
    return found


def _iterations_walked(built: Mapping[int, int], group: Iterable[Run]) -> tuple[set[int], set[int]]:
    """Return the iterations of a loop whose nodes some backward calls walk, and those that they walk again; `built` are
    the nodes of its iterations.
    """
    own = built.keys()
    walked = {built[node] for run in group for node in own & run.executed.keys() if run.executed[node] == "yes"}
    again = {built[node] for run in group for node in own & run.traversal.retraversed.keys()}
    return walked, again


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


def within(events: Sequence[tuple[int, One]], start: int, end: int) -> Iterator[One]:
    """Yield those of some events, in the order of their positions, that lie between two positions."""
    for index in range(bisect_right(events, start, key=itemgetter(0)), len(events)):
        position, event = events[index]
        if position >= end:
            return
        yield event


def iteration_in(site: Site, loop: LoopRun) -> int:
    """Return which iteration of a loop's run a site belongs to, 0 where it lies outside."""
    wanted = loop.id
    for number, index in site.iteration:
        if number == wanted:
            return index
    return 0


def undifferentiable(reading: Reading, numbers: Iterable[int]) -> list[Cut]:
    """Return the gradients without a graph that a value with some cuts comes from, if nothing cut them afterwards."""
    return list(with_sources(reading, numbers, lambda cut: cut.how == "grad").values())


def covered(reading: Reading, cut: Cut) -> set[int]:
    """Return nodes and leaves that a cut value would have led back to."""
    return set(reading.ledger.ancestry(cut.nodes)) | set(cut.leaves)


def with_sources(reading: Reading, cuts: Iterable[int], of: Callable[[Cut], bool] = bool) -> dict[int, Cut]:
    """Return cuts with all that they were derived from, in order of the search; `of` says which of them count."""
    known = reading.ledger.cuts

    def sources(number: int) -> Iterable[int]:
        return known[number].sources if number in known and of(known[number]) else ()

    return {number: known[number] for number in search(cuts, sources) if number in known and of(known[number])}


def behind(reading: Reading, cuts: Iterable[int]) -> set[int]:
    """Return nodes and leaves that some cut values, and what these were derived from, would have led back to."""
    return set().union(*(covered(reading, cut) for cut in with_sources(reading, cuts).values()))
