"""What PyTorch's engine makes of a tape: which backward reaches which nodes, frees what, and fails where.

The order of execution, the checks and the freeing follow `torch/csrc/autograd/engine.cpp` and
`saved_variable.cpp`, measured on torch 2.13: nodes run newest first once all that depend on them have run;
a node checks that its saved tensors are not freed, then that their versions are unchanged, runs, and is
freed unless the graph is retained. What ran before a failing node stays freed.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from tapecheck.tape.events import (
    Assumed,
    Backward,
    Bind,
    Cut,
    Decision,
    End,
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
    LeftOut,
    Loop,
    LoopEnd,
    Measure,
    ModeSet,
    Named,
    Node,
    NoEffect,
    Optimizer,
    Overwritten,
    Raised,
    Rescaled,
    Saved,
    Scaled,
    ShardUse,
    StaleShards,
    Step,
    Switched,
    SyncSet,
    Unscaled,
    Wrapper,
    WrapperCall,
    both,
    either,
)

UNKNOWN_SOURCE = "UnknownSource"
"""The op of the node that stands for unknown graphs."""
GRADIENT = "GradientBackward"
"""The op of the node that stands for the graph of a gradient."""
_REPLAYED = frozenset(
    f"{name}Backward0"
    for name in (
        "Alias", "Diagonal", "Expand", "Permute", "Select", "Slice", "Squeeze", "T", "Transpose", "Unfold", "Unsqueeze",
        "View",
    )
) | {"SqueezeBackward1", "SqueezeBackward2"}  # fmt: skip
"""Views of which a compiled call hands out new ones: of what it is given, they are no part of what is compiled."""
_PERHAPS_REPLAYED = frozenset((
    "atleast_2d", "atleast_3d", "flatten", "getitem", "imag", "ravel", "real", "reshape", "reshape_as", "squeeze",
))  # fmt: skip
"""Functions that make such a view, a copy or nothing: it hangs on the layout of what they are given."""
_EARLIER = 8
_UNREAD = frozenset((
    Assumed, Bind, Decision, End, Escape, GradientCleared, GradientRead, GradientSet, GradientsReduced,
    GradientsWithGraph, GraphRead, Hold, Iteration, LeafEscape, LeftOut, Loop, LoopEnd, Measure, ModeSet, NoEffect,
    Optimizer,
    Overwritten, Raised, Rescaled, Scaled, ShardUse, StaleShards, Step, Switched, SyncSet, Unscaled, Wrapper,
))  # fmt: skip
"""Events that the engine does nothing with."""
_OPEN = (GRADIENT, UNKNOWN_SOURCE)
_GONE: dict[Fact, Fact] = {"yes": "no", "no": "yes", "may": "may"}
"""Whether a backward frees what it walks, by whether it retains it."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a backward fails, or may.

    `freed`: `node` was freed by the backward `freed_by`. `stale`: `saved` of `node` was changed by `changed_by`.
    `no-graph`: root number `root` carries no graph.
    `unused`: input number `root` of a grad call is not part of the graph. `region`: `freed_by` has freed all of the
    compiled region that `node` is in, though not by way of `node`. `donated`: the backward of the region was compiled
    for `freed_by`, which retained nothing, or for any sizes before a walk, and may not be run by one that does.
    """

    kind: Literal["freed", "stale", "no-graph", "unused", "region", "donated"]
    certain: Fact
    node: Node | None = None
    freed_by: Backward | None = None
    saved: Saved | None = None
    changed_by: InPlace | None = None
    root: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Freed(Problem):
    """A backward has freed a node."""

    node: Node
    freed_by: Backward


@dataclass(frozen=True, slots=True, kw_only=True)
class FreedRegion(Problem):
    """A backward has freed the compiled region that a node is in."""

    node: Node
    freed_by: Backward


@dataclass(frozen=True, slots=True, kw_only=True)
class Donated(Problem):
    """The compiled backward of a region reuses the memory of what was saved, and this walk is to retain it.

    `anew` says that nothing but what the call was given speaks against it: it may have been compiled anew for that.
    Without `freed_by` it was compiled before any walk, for inputs of several sizes.
    """

    node: Node
    anew: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Stale(Problem):
    """A tensor that a node has saved was changed in place."""

    node: Node
    saved: Saved
    changed_by: InPlace


class NoGraph(Problem):
    """A root has no graph."""

    __slots__ = ()


class Unused(Problem):
    """An input is no part of the graph."""

    __slots__ = ()


@dataclass(slots=True)
class Traversal:
    """One backward as the engine runs it.

    `executed` maps the nodes and leaves that ran to whether they certainly did. `problem` is the first certain
    failure, or else the first possible one. `retraversed` maps nodes holding saved data that an earlier
    retaining backward had run too to the ids of the last few of those. `refused` is the first compiled backward on
    the way that may not be run by this walk, whatever fails behind it.
    """

    backward: Backward
    executed: dict[int, Fact] = field(default_factory=dict)
    problem: Problem | None = None
    refused: Donated | None = None
    retraversed: dict[int, list[int]] = field(default_factory=dict)


@dataclass(slots=True)
class _Freed:
    by: Backward
    certain: Fact


@dataclass(slots=True)
class Region:
    """The nodes that one call of a compiled function built: the engine has a single node for all of them.

    `keeps` says whether that node holds anything that a backward frees; `retained` are the backwards that walked it
    and kept it. `inputs` are the nodes and leaves from before the call that it uses, with whether its outputs lead to
    them: each of those is given a gradient, of zeros where the output that a backward comes from does not lead to it.
    """

    call: WrapperCall
    keeps: Fact
    inputs: Mapping[int, Fact] = field(default_factory=dict)
    freed: _Freed | None = None
    retained: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _Graph:
    """What some roots lead to, with whether the way there is certain, and in order of age.

    Nodes never change: a program that asks for the gradient of one parameter after the other walks one graph.
    """

    roots: list[int]
    reached: dict[int, Fact]
    by_age: list[int]


class Ledger:
    """Replays events one at a time and remembers what the engine would.

    Feed every event of a tape in order; `feed` returns the traversal of a Backward and None for the rest. A Backward
    with the number of an earlier one is more of the same call.
    `maker_names` are the names that leaves had before they were told by a path ("Linear.weight").
    """

    def __init__(self) -> None:
        self.nodes: dict[int, Node] = {}
        self.leaves: dict[int, Leaf] = {}
        self.maker_names: dict[int, str] = {}
        self.cuts: dict[int, Cut] = {}
        self.versions: dict[int, int] = {}
        self.changes: dict[int, list[InPlace]] = {}
        self.provisional: set[int] = set()
        """Nodes that exist if one of the values that they were computed from carries a graph, where nobody knew it."""
        self.traversals: dict[int, Traversal] = {}
        self._freed: dict[int, _Freed] = {}
        self._spent: set[int] = set()
        """Nodes that a backward which retains nothing, or may not, has run."""
        self._unspent: set[int] = set()
        self._retained_by: dict[int, list[int]] = {}
        self.regions: dict[int, Region] = {}
        """The compiled region of each node that is in one."""
        self._walked: _Graph | None = None
        """The graph of the last backward."""
        self._compiled_for: dict[int, dict[int | None, _Freed]] = {}
        """By compiled code the walk that its backward was compiled for, and whether that one retained nothing."""

    def feed(self, event: Event) -> Traversal | None:
        if type(event) in _UNREAD:
            return None
        if isinstance(event, Node):
            self.nodes[event.id] = event
            if self._walked is not None and event.id in self._walked.reached:
                self._walked = None
        elif isinstance(event, Leaf):
            self.leaves[event.id] = event
        elif isinstance(event, Named):
            if event.leaf in self.leaves:
                self.maker_names.setdefault(event.leaf, self.leaves[event.leaf].name)
                self.leaves[event.leaf] = self.leaves[event.leaf].renamed(event.name)
        elif isinstance(event, Cut):
            self.cuts[event.id] = event
        elif isinstance(event, InPlace):
            if event.bumps != "no" and not event.refused:
                self.changes.setdefault(event.storage, []).append(event)
                self.versions[event.storage] = self.versions.get(event.storage, 0) + 1
        elif isinstance(event, Backward):
            traversal = self._run(event)
            self.traversals[event.id] = traversal
            return traversal
        elif isinstance(event, WrapperCall):
            self._join(event)
        return None

    def _join(self, call: WrapperCall) -> None:
        """Make the nodes of a compiled call one region, but for plain views of what it is given.

        Where it is not known whether an op makes a view of that or computes something, it may be part of the region.
        """
        made = [number for number in range(call.first + 1, call.last + 1) if number in self.nodes]
        if call.wrapper is not None or call.whole == "no":
            return
        views = self._views_in(call, made)
        inside = [number for number in made if number not in views and not self._given(call, number)]
        doubtful = dataclasses.replace(call, whole="may")
        for number, sources in views.items():
            if self.nodes[number].op not in _REPLAYED:
                self.regions[number] = Region(doubtful, "may", dict.fromkeys(sources, "may"))
        if not inside:
            return
        keeps = self._keeps_of(inside)
        led = self.ancestry(call.outputs)
        inputs: dict[int, Fact] = {
            source: led.get(source, "may")
            for number in inside for one in self.nodes[number].inputs for source in views.get(one, {one})
            if self._given(call, source)
        }  # fmt: skip
        self.regions.update(dict.fromkeys(inside, Region(call, both(keeps, call.whole), inputs)))

    def _given(self, call: WrapperCall, number: int) -> bool:
        """Return whether a graph was there before a compiled call: one that nobody knows has its node from when it is
        used first.
        """
        return number <= call.first or (number in self.nodes and self.nodes[number].op == UNKNOWN_SOURCE)

    def _views_in(self, call: WrapperCall, made: Iterable[int]) -> dict[int, set[int]]:
        """Return what a call was given, by the nodes of plain views of it that the call made."""
        views: dict[int, set[int]] = {}
        for number in made:
            node = self.nodes[number]
            plain = node.linked == "yes" and (node.op in _REPLAYED or node.op in _PERHAPS_REPLAYED)
            if plain and all(self._given(call, one) or one in views for one in node.inputs):
                views[number] = {source for one in node.inputs for source in views.get(one, {one})}
        return views

    def _keeps_of(self, inside: Iterable[int]) -> Fact:
        """Return whether a backward frees anything of the one node that some nodes become.

        It is freed even if it saves nothing; plain views are made anew outside of it.
        """
        keeps: Fact = "no"
        for number in inside:
            node = self.nodes[number]
            computed = node.linked == "yes" and node.op.endswith("Backward0") and node.op not in _REPLAYED
            keeps = "yes" if computed else either(keeps, node.keeps)
        return keeps

    def version(self, storage: int) -> int:
        """Return the version counter of a storage: in-place changes so far, possible ones included."""
        return self.versions.get(storage, 0)

    def freed_by(self, node: int) -> Backward | None:
        """Return the backward that freed what a node saved, or may have."""
        entry = self._entry(node)
        return entry.by if entry else None

    def is_freed(self, node: int) -> Fact:
        entry = self._entry(node)
        return entry.certain if entry else "no"

    def is_spent(self, node: int) -> bool:
        """Return whether a backward that may have freed what it came through, has run a node or one before it: that may
        be freed though the node itself saves nothing.
        """
        ahead, seen = [node], set[int]()
        while ahead:
            number = ahead.pop()
            if number in self._spent or self._entry(number) is not None:
                return True
            if number not in seen and number not in self._unspent and number in self.nodes:
                ahead += self.nodes[number].inputs
                seen.add(number)
        self._unspent |= seen
        return False

    def _entry(self, node: int) -> _Freed | None:
        region = self.regions.get(node)
        return self._freed.get(node) or (region.freed if region is not None else None)

    def leads_anywhere(self, node: int) -> bool:
        """Return whether a node stands for an unknown graph, which may share nodes with any other such graph."""
        event = self.nodes.get(node)
        return event is not None and event.graph_of is not None

    def ancestry(self, nodes: Iterable[int]) -> dict[int, Fact]:
        """Return every node and leaf reachable from `nodes`, with whether the way there is certain."""
        reached: dict[int, Fact] = {}
        known_nodes, ahead = self.nodes, list(nodes)
        # Nearly all ways are certain: as long as they are, there is no fact to carry along.
        while ahead:
            node = ahead.pop()
            if node in reached:
                continue
            event = known_nodes.get(node)
            if event is not None and event.linked != "yes":
                ahead.append(node)
                break
            reached[node] = "yes"
            if event is not None:
                ahead += [source for source in event.inputs if source not in reached]
        stack: list[tuple[int, Fact]] = [(node, "yes") for node in ahead]
        while stack:
            node, fact = stack.pop()
            known = reached.get(node)
            if known == "yes" or known == fact:
                continue
            reached[node] = fact
            event = self.nodes.get(node)
            if event is not None:
                onward = fact if event.linked == "yes" else both(fact, event.linked)
                stack += [(source, onward) for source in event.inputs if reached.get(source) != "yes"]
        return reached

    def _run(self, backward: Backward) -> Traversal:
        traversal = self._traversal_of(backward)
        done = frozenset(traversal.executed)
        without_graph = next((index for index, root in enumerate(backward.roots) if root.graph == "no"), None)
        if without_graph is not None:
            traversal.problem = NoGraph("no-graph", "yes", root=without_graph)
            return traversal
        roots = backward.root_nodes
        graph = self._graph_of(roots)
        reached = graph.reached
        wanted = set(backward.inputs or ())
        sure, needed = self._needed(backward, graph, wanted)
        for node in self._order(graph, needed):
            if node in done:
                continue
            certain = reached[node] if node in sure else both(reached[node], "may")
            # A wanted node that is not on the way to another one is reached and does not run.
            event = None if node in wanted and not self._feeds(node, sure) else self.nodes.get(node)
            if event is not None and self._ends(event, certain, backward, traversal):
                return traversal
            traversal.executed[node] = certain
            if event is not None:
                self._walk(event, certain, backward, traversal)
        if wanted and backward.call == "grad" and not backward.allow_unused:
            # The engine asks this last: what is unused is said only where the walk came through.
            unused = self._unused(backward, reached)
            if unused is not None and (traversal.problem is None or unused.certain == "yes"):
                traversal.problem = unused
        return traversal

    def _traversal_of(self, backward: Backward) -> Traversal:
        """Return the traversal of a backward, begun before where its event was written in parts."""
        traversal = self.traversals.get(backward.id)
        if traversal is None:
            return Traversal(backward)
        more = traversal.backward.roots + backward.roots
        traversal.backward = dataclasses.replace(traversal.backward, roots=more)
        return traversal

    def _graph_of(self, roots: list[int]) -> _Graph:
        """Return what a backward reaches from its roots."""
        if self._walked is None or self._walked.roots != roots:
            reached = self.ancestry(roots)
            self._walked = _Graph(roots, reached, sorted(reached))
        return self._walked

    def _needed(self, backward: Backward, graph: _Graph, wanted: set[int]) -> tuple[set[int], set[int]]:
        """Return what certainly runs of that which a backward reaches, and all that may run."""
        needed = set(graph.reached) if backward.inputs is None else self._leading_to(graph, wanted)
        if not backward.open:
            return needed, needed
        return (needed if wanted else set()) | self._on_every_path(graph), set(graph.reached)

    def _ends(self, node: Node, certain: Fact, backward: Backward, traversal: Traversal) -> bool:
        """Note what is wrong with a node that is about to run, and return whether it certainly ends the traversal."""
        problem = None if backward.succeeded else self._failure(node, certain, backward)
        if problem is None:
            return False
        if traversal.refused is None and isinstance(problem, Donated):
            traversal.refused = problem
        if traversal.problem is None or (problem.certain == "yes" and traversal.problem.certain != "yes"):
            traversal.problem = problem
        return problem.certain == "yes"

    def _walk(self, node: Node, certain: Fact, backward: Backward, traversal: Traversal) -> None:
        """Free or retain a node that has run."""
        if node.id in self.regions:
            self._walk_region(self.regions[node.id], node.id, traversal, certain)
        if backward.retain != "yes":
            self._spent.add(node.id)
            self._unspent.clear()
        if node.keeps == "no":
            return
        earlier = self._retained_by.get(node.id)
        if earlier is not None:
            traversal.retraversed[node.id] = list(earlier)
        gone = both(certain, _GONE[backward.retain])
        if gone != "no":
            before = self._freed.get(node.id)
            if before is None or (before.certain == "may" and gone == "yes"):
                self._freed[node.id] = _Freed(backward, gone if before is None else either(gone, before.certain))
        if backward.retain != "no":
            earlier = self._retained_by.setdefault(node.id, [])
            earlier.append(backward.id)
            # Each of them is found by the run after it: in a growing chain the whole list would fill the memory.
            del earlier[:-_EARLIER]

    def _walk_region(self, region: Region, node: int, traversal: Traversal, certain: Fact) -> None:
        """Free or retain a whole compiled region, which a backward walks by way of one of its nodes."""
        backward = traversal.backward
        if region.call.code is not None:
            compiled = self._compiled_for.setdefault(region.call.code, {})
            if region.call.guarded not in compiled:
                gone = both(certain, _GONE[backward.retain])
                # Whether what another call was compiled to serves this one as well is not known.
                alike = all(other.certain == gone for other in compiled.values())
                compiled[region.call.guarded] = _Freed(backward, gone if alike else "may")
        earlier = [number for number in region.retained if number != backward.id]
        if earlier and region.keeps != "no":
            traversal.retraversed.setdefault(node, earlier)
        gone = both(both(certain, region.keeps), _GONE[backward.retain])
        if gone != "no" and (region.freed is None or (region.freed.certain == "may" and gone == "yes")):
            region.freed = _Freed(backward, gone)
        if backward.retain != "no" and backward.id not in region.retained:
            region.retained = [*region.retained, backward.id][-_EARLIER:]

    def given_zeros(self, reached: Iterable[int]) -> dict[int, Fact]:
        """Return what compiled calls lead to that a backward comes through, whatever it is that it comes from."""
        if not self.regions:
            return {}
        walked = {id(region): region for region in map(self.regions.get, reached) if region is not None}
        found: dict[int, Fact] = {}
        for region in walked.values():
            for start, sure in region.inputs.items():
                for number, fact in self.ancestry((start,)).items():
                    found[number] = either(both(both(region.call.whole, sure), fact), found.get(number, "no"))
        return found

    def _unused(self, backward: Backward, reached: dict[int, Fact]) -> Problem | None:
        """Return an input that is no part of the graph; certain where every edge of the graph is."""
        given = self.given_zeros(reached)
        for index, target in enumerate(backward.inputs or ()):
            if target not in reached and given.get(target) != "yes":
                sure = (
                    target not in given
                    and all(fact == "yes" for fact in reached.values())
                    and all(root.graph == "yes" for root in backward.roots)
                )
                derived = any(self.nodes[node].op in _OPEN for node in reached if node in self.nodes)
                return Unused("unused", "yes" if sure and not derived else "may", root=index)
        return None

    def _failure(self, node: Node, certain: Fact, backward: Backward) -> Problem | None:
        region = self.regions.get(node.id)
        gone = region.freed if region is not None and node.id not in self._freed else None
        if region is not None and gone is not None and gone.by.id != backward.id:
            fact = both(both(certain, region.keeps), gone.certain)
            return FreedRegion("region", fact, node=node, freed_by=gone.by)
        if node.keeps == "no":
            return self._donated(node, region, certain, backward)
        freed = self._freed.get(node.id)
        if freed is not None:
            fact = both(both(certain, node.keeps), freed.certain)
            return Freed("freed", fact, node=node, freed_by=freed.by)
        best: Problem | None = None
        for saved in node.saved:
            for change in self.changes.get(saved.storage, [])[saved.version :]:
                fact = both(both(certain, saved.fact), change.bumps)
                if best is None or (best.certain != "yes" and fact == "yes"):
                    best = Stale("stale", fact, node=node, saved=saved, changed_by=change)
                if fact == "yes":
                    return best
        return best or self._donated(node, region, certain, backward)

    def _donated(self, node: Node, region: Region | None, certain: Fact, backward: Backward) -> Problem | None:
        """Return that a walk is to retain what the compiled backward of a region gives away."""
        if region is None or backward.retain == "no":
            return None
        if region.call.resized:
            sure = both(both(certain, region.call.whole), backward.retain) == "yes" and region.call.donates != "no"
            return Donated("donated", "may", node=node) if sure else None
        compiled = self._compiled_for.get(region.call.code or 0)
        if not compiled:
            return None
        own = compiled.get(region.call.guarded)
        first = own or next((other for other in compiled.values() if other.certain != "no"), None)
        if first is None:
            return None
        fact = both(both(certain, region.call.whole), both(first.certain, backward.retain))
        fact = both(fact, region.call.donates)
        if fact == "no":
            return None
        anew = own is None and fact == "yes"
        return Donated("donated", "may" if anew else fact, node=node, freed_by=first.by, anew=anew)

    def _feeds(self, node: int, needed: set[int]) -> bool:
        """Return whether a wanted node lies on the way to another wanted one, so that it runs and not only captures."""
        event = self.nodes.get(node)
        return event is not None and any(source in needed for source in event.inputs)

    def _leading_to(self, graph: _Graph, wanted: set[int]) -> set[int]:
        """Return the nodes of a graph from which a wanted node is reachable (the engine's exec_info)."""
        # Inputs of a node are always older than it: one pass in order of age settles every node.
        needed = wanted & graph.reached.keys()
        known = self.nodes
        for node in graph.by_age[bisect_left(graph.by_age, min(needed)) :] if needed else ():
            event = known.get(node)
            if event is not None and not needed.isdisjoint(event.inputs):
                needed.add(node)
        return needed

    def _on_every_path(self, graph: _Graph) -> set[int]:
        """Return the nodes that a backward runs whatever input it is to lead to: those before the first branch."""
        found: set[int] = set()
        ahead = graph.roots if len(set(graph.roots)) == 1 else []
        while len(ahead) == 1 and ahead[0] in self.nodes:
            found.add(ahead[0])
            ahead = [source for source in dict.fromkeys(self.nodes[ahead[0]].inputs) if source in graph.reached]
        return found

    def _order(self, graph: _Graph, needed: set[int]) -> Iterator[int]:
        """Yield what runs, newest nodes first, each leaf as soon as all that lead to it have run.

        Inputs of a node are always older than it: the newest one waits for none.
        """
        known = self.nodes
        last: dict[int, int] = {}
        """By leaf the oldest node that leads to it."""
        ahead = [node for node in reversed(graph.by_age) if node in needed and node in known]
        for node in ahead:
            for source in known[node].inputs:
                if source not in known and source in needed:
                    last[source] = node
        if begun := [root for root in set(graph.roots) if root not in known and root in needed and root not in last]:
            ahead = sorted([*ahead, *begun], reverse=True)
        for node in ahead:
            yield node
            event = known.get(node)
            for source in set(event.inputs) if event is not None else ():
                if last.get(source) == node:
                    # AccumulateGrad has the highest priority of all: leaves run as soon as they are ready.
                    yield source
