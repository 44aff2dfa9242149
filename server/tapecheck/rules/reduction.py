"""What DistributedDataParallel's reducer makes of a tape: which backward averages gradients, and which does not.

Measured on torch 2.13 with two processes (`tools/torchlab/wrappers.py`): a forward of the wrapped model with grad mode
on and outside `no_sync` prepares the reducer; the gradients that are accumulated from then on are averaged, whatever
loss they come from, until every parameter has had one. After that, gradients stay local until the next such forward.
A forward that finds the reducer waiting for some of its parameters raises; so does a backward that adds to a gradient
that is ready while the reducer waits for others. One with `create_graph=True` raises at the second gradient with a
graph that it copies into a bucket. A reentrant checkpoint runs a backward of its own for what it recomputes
(`reentrant`): parameters in two of them get a gradient twice, and a search for unused parameters does not see them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field
from typing import Literal

from tapecheck.rules.gradients import gradients_of
from tapecheck.rules.reading import Reading, Run, remembered
from tapecheck.rules.reentrant import Order, checkpoints_walked, inside, is_opaque, once_each, outside
from tapecheck.tape import (
    End,
    GradientCleared,
    GradientSet,
    GradientsReduced,
    GradientsWithGraph,
    LeafEscape,
    Node,
    Step,
    SyncSet,
    Wrapper,
    WrapperCall,
)

_INDEX = re.compile(r"\.\d+(?:\.|$)")
"""What names a layer in a list of layers."""
Cause = Literal["bypass", "again", "no_sync", "flag", "grad", "unsynced", "checkpoint", "late"]
"""Why gradients stay local: the forward did not go through the wrapper, an earlier backward was the one that averages,
the forward ran under `no_sync` or while `require_backward_grad_sync` was off, `autograd.grad` computed them,
`set_requires_gradient_sync(False)` was called, a reentrant checkpoint adds to them after another one within the same
backward was the last that was waited for, or the parameter was frozen, or not there, when the model was wrapped.
"""
Again = Literal["again", "checkpoint", "unused"]
"""Why a gradient is ready twice: an earlier backward came to it, reentrant checkpoints did, or the forward's outputs do
not lead to it and the wrapper took it for unused.
"""


@dataclass(frozen=True, slots=True)
class _Local:
    """A backward that left local gradients, and why; `averaging` is the one before it that averaged."""

    wrapper: Wrapper
    run: Run
    cause: Cause
    averaging: Run | None = None


@dataclass(slots=True)
class Unreduced:
    """A step that uses gradients which differ between processes, and the backward that left them so."""

    local: _Local
    step: Step
    leaves: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Unfinished:
    """A forward of a wrapped model that raises: the last backward came to some of its parameters, not to `missing`."""

    wrapper: Wrapper
    call: WrapperCall
    run: Run
    missing: list[int]


@dataclass(slots=True)
class Twice:
    """A backward that raises: it adds to gradients which are ready already, while others are waited for.

    `earlier` is the backward that made them ready, `checkpoints` are the reentrant checkpoints that use them.
    """

    wrapper: Wrapper
    run: Run
    leaves: list[int]
    cause: Again
    earlier: Run | None = None
    checkpoints: list[Node] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class WithGraph:
    """A backward that raises: gradients that are to be averaged have graphs of their own."""

    wrapper: Wrapper
    run: Run
    leaves: list[int]


@dataclass(slots=True)
class _Reducer:
    """The state of one wrapper's reducer; `waits` is None where it is not known whether it waits for gradients."""

    wrapper: Wrapper
    leaves: frozenset[int]
    waits: bool | None = False
    ready: set[int] = field(default_factory=set)
    maybe: set[int] = field(default_factory=set)
    last: Run | None = None
    walked: bool = False
    """Whether a backward came to its parameters since its last forward."""
    late: set[int] = field(default_factory=set)
    """The parameters to which the backward that runs adds after it has averaged."""
    calls: list[WrapperCall] = field(default_factory=list)
    ways: dict[int, set[int]] = field(default_factory=dict)
    """By which nodes a backward came to parameters of which nobody knows how many they are, since the last forward."""


class Reductions:
    """The wrapped models of one tape."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.unreduced: list[Unreduced] = []
        self.unfinished: list[Unfinished] = []
        self.twice: list[Twice] = []
        self.with_graph: list[WithGraph] = []
        self._reducers: dict[int, _Reducer] = {}
        self._local: dict[int, list[_Local]] = {}
        """The leaves whose gradient is local now, with what added to it since it was averaged."""
        self._computed: dict[int, tuple[_Reducer, Run]] = {}
        """The leaves whose gradient `autograd.grad` has computed, to be set by the program."""
        self._unseen: set[int] = set()
        self._sharded: dict[int, Wrapper] = {}
        """The leaves that FSDP2 has sharded, whose gradients a backward reduces unless it was told not to."""
        self._late: dict[int, Wrapper] = {}
        """The leaves of wrapped models that became trainable after the wrapping: nothing waits for their gradients."""
        self._unsynced: set[int] = set()
        self._synced: set[int] = set()
        """Of these, those that it was told not to reduce, and those of which a step used reduced gradients."""
        self._over = False
        self._graphed = {
            event.by: event.leaves for _, event in reading.wrappers if isinstance(event, GradientsWithGraph)
        }
        """The parameters that a backward gives a gradient with a graph."""
        loops = [loop for loop in reading.loops.values() if loop.event.inside_forward]
        self._loops_over_layers = bool(loops)
        last = reading.tape.events[-1] if reading.tape.events else None
        ended = isinstance(last, End) and last.how in ("finished", "raised")
        self._ran_out = all(loop.more == "no" and loop.end is not None for loop in loops)
        """Whether no loop of a forward was left before its end, as far as the tape goes."""
        self._runs_all = ended and self._ran_out
        """Whether every forward was run to its end: a loop over layers may be left early, and its layers are used."""
        if any(isinstance(event, Wrapper) for _, event in reading.wrappers):
            self._go_through()

    def _go_through(self) -> None:
        for position, moment in _moments(self.reading):
            if self._over:
                break
            self._take(position, moment)
        # Where some steps find reduced gradients, those between may be left to find none.
        self.unreduced = [each for each in self.unreduced if self._synced.isdisjoint(each.leaves)]

    def _take(self, position: int, moment: object) -> None:
        match moment:
            case Wrapper(sharded=True):
                self._sharded.update(dict.fromkeys(moment.leaves, moment))
            case Wrapper():
                self._reducers[moment.id] = _Reducer(moment, frozenset(moment.leaves))
                for leaf in moment.leaves:
                    self._late.pop(leaf, None)
            case SyncSet():
                self._unsynced.difference_update(moment.leaves)
                self._unsynced.update(moment.leaves if moment.on == "no" else ())
            case WrapperCall():
                self._call(moment)
            case Run():
                self._run(moment)
            case GradientsReduced():
                self._averaged(moment)
            case LeafEscape(told=False):
                every = set(self._late).union(*(one.leaves for one in self._reducers.values()))
                self._unseen.update(moment.leaves or every)
            case GradientCleared():
                self._local.pop(moment.leaf, None)
            case GradientSet():
                self._set(moment)
            case Step():
                self._step(position, moment)

    def _averaged(self, event: GradientsReduced) -> None:
        self._local.clear()
        self._computed.clear()
        # Where parameters are averaged in place of gradients, the steps between are each process's own.
        own = {reducer for reducer, one in self._reducers.items() if not one.leaves.isdisjoint(event.leaves)}
        own.update(self._late[leaf].id for leaf in self._late.keys() & set(event.leaves))
        self.unreduced = [each for each in self.unreduced if each.local.wrapper.id not in own]

    def _call(self, call: WrapperCall) -> None:
        reducer = self._reducers.get(call.wrapper) if call.wrapper is not None else None
        if reducer is None:
            return
        reducer.calls.append(call)
        self._late.update(dict.fromkeys(call.late, reducer.wrapper))
        if call.reduces == "no":
            return
        missing = reducer.leaves - reducer.ready - reducer.maybe
        if reducer.last is not None and call.reduces == "yes" and self._waits_for(reducer, missing):
            self.unfinished.append(Unfinished(reducer.wrapper, call, reducer.last, sorted(missing)))
            self._over = True
        reducer.waits = True if call.reduces == "yes" else None
        reducer.walked = False
        reducer.ways.clear()
        reducer.ready.clear()
        reducer.maybe.clear()
        if reducer.wrapper.unused != "no":
            # What the outputs do not lead to is ready at once.
            used, known = outside(self.reading, call.outputs)
            sure = reducer.wrapper.unused == "yes" and call.outputs and known
            (reducer.ready if sure else reducer.maybe).update(reducer.leaves - used)

    def _waits_for(self, reducer: _Reducer, missing: frozenset[int]) -> bool:
        """Whether a reducer certainly still waits for parameters that no backward has come to."""
        wrapper = reducer.wrapper
        if not (reducer.waits and reducer.ready and missing) or not wrapper.unused == wrapper.static == "no":
            return False
        return wrapper.complete == "yes" and self._runs_all and not self._same_list(missing, reducer.ready)

    def _same_list(self, missing: frozenset[int], ready: set[int]) -> bool:
        """Whether a list of layers has used ones beside the missing, and a loop of a forward may go on to these."""
        leaves = self.reading.ledger.leaves

        def lists(numbers: Iterable[int]) -> set[str]:
            return {_INDEX.split(leaves[leaf].name)[0] for leaf in numbers if _INDEX.search(leaves[leaf].name)}

        return self._loops_over_layers and not lists(missing).isdisjoint(lists(ready))

    def _run(self, run: Run) -> None:
        if run.failed:
            self._over = True
        if self._sharded and run.backward.accumulates:
            self._walk_shards(run)
        if run.backward.accumulates:
            for leaf in _asked_of(run, frozenset(self._late)).intersection(run.surely):
                self._local.setdefault(leaf, []).append(_Local(self._late[leaf], run, "late"))
        zeros = self.reading.ledger.given_zeros(run.executed)
        certain = {*run.surely, *(number for number, fact in zeros.items() if fact == "yes")}
        for reducer in self._reducers.values():
            reached = _asked_of(run, reducer.leaves & (run.executed.keys() | zeros.keys()))
            if not reached:
                continue
            if not run.backward.accumulates:
                self._computed.update(dict.fromkeys(reached, (reducer, run)))
            elif reducer.waits is False:
                if self._refuses_another(reducer, run):
                    self._over = True
                    return
                fresh = self._on_other_ways(reducer, run, reached)
                self._stays_local(reducer, run, reached - fresh)
                self._forget(fresh)
            elif self._again(reducer, run, reached, reached & certain) or self._refuses(reducer, run, reached):
                return
            else:
                late, reducer.late = reducer.late, set()
                averaging = reducer.last
                self._reduce(reducer, run, reached, certain)
                for leaf in late:
                    self._local.setdefault(leaf, []).append(_Local(reducer.wrapper, run, "checkpoint", averaging))

    def _stays_local(self, reducer: _Reducer, run: Run, reached: frozenset[int]) -> None:
        """Note that a backward leaves gradients that nothing averages."""
        local = _Local(reducer.wrapper, run, self._cause(reducer, run), reducer.last)
        for leaf in reached.intersection(run.surely):
            self._local.setdefault(leaf, []).append(local)

    def _on_other_ways(self, reducer: _Reducer, run: Run, reached: frozenset[int]) -> frozenset[int]:
        """Return the leaves that stand for many parameters of which a backward may come to others than before."""
        return frozenset(
            leaf for leaf in reached & reducer.ways.keys()
            if not _ways_to(self.reading, leaf, run.executed.keys()) <= reducer.ways[leaf]
        )  # fmt: skip

    def _forget(self, leaves: Iterable[int]) -> None:
        """Note that gradients may have been averaged."""
        for leaf in leaves:
            self._local.pop(leaf, None)

    def _walk_shards(self, run: Run) -> None:
        """Note which sharded parameters a backward leaves with gradients that were not reduced."""
        for leaf in self._sharded.keys() & run.executed.keys():
            if leaf in self._unsynced and leaf in run.surely:
                self._local.setdefault(leaf, []).append(_Local(self._sharded[leaf], run, "unsynced"))
            elif leaf not in self._unsynced:
                self._local.pop(leaf, None)

    def _refuses_another(self, reducer: _Reducer, run: Run) -> bool:
        """Whether a backward raises that is not the first one after a forward."""
        static = reducer.wrapper.static != "no"
        graph_changed = static and reducer.walked and not reducer.leaves <= reducer.ready
        return graph_changed or self._freed_outputs(reducer, run)

    def _again(self, reducer: _Reducer, run: Run, reached: frozenset[int], certain: frozenset[int]) -> bool:
        """Whether a backward comes to a parameter whose gradient is ready while the reducer waits for others."""
        wrapper = reducer.wrapper
        if reducer.waits is not True or wrapper.static != "no":
            return False
        if wrapper.unused == "yes" and len(reducer.calls) == 1 and self._walks_joined(reducer, run):
            # The node that joins the outputs gave the others undefined gradients: all were averaged, and these stay
            # local. What raises is the next iteration's backward.
            reducer.waits = False
            self._stays_local(reducer, run, reached)
            return True
        walked = once_each(checkpoints_walked(self.reading, run))
        checkpoints = [node for node in walked if certain.intersection(inside(self.reading, node))]
        twice = self._ready_already(reducer, run, checkpoints, certain)
        if not twice:
            return False
        among = [node for node in checkpoints if not twice.isdisjoint(inside(self.reading, node))]
        cause: Again = "checkpoint" if among else "again" if reducer.walked else "unused"
        earlier = reducer.last if cause == "again" else None
        self._over = True
        if cause == "again" and wrapper.unused != "no" and any(len(call.outputs) > 1 for call in reducer.calls):
            return True
        self.twice.append(Twice(wrapper, run, sorted(twice), cause, earlier, among))
        return True

    def _ready_already(self, reducer: _Reducer, run: Run, checkpoints: list[Node], certain: frozenset[int]) -> Set[int]:
        """Return the parameters whose gradients are ready when a backward comes to them; note those it is late for."""
        twice = (certain & reducer.ready) - self._on_other_ways(reducer, run, certain)
        if twice or not checkpoints:
            return twice
        order = self._order(reducer, run, checkpoints, certain)
        if order.late:
            reducer.late = order.late
        return order.twice

    def _order(self, reducer: _Reducer, run: Run, checkpoints: list[Node], certain: frozenset[int]) -> Order:
        """Go through a backward with reentrant checkpoints."""
        maybe = set(reducer.maybe)
        if self._opaque(run):
            maybe |= reducer.leaves - certain
        order = Order(self.reading, run, reducer.leaves, checkpoints, set(reducer.ready), maybe)
        order.play()
        return order

    def _refuses(self, reducer: _Reducer, run: Run, reached: frozenset[int]) -> bool:
        """Whether a backward copies gradients that have graphs into a bucket: the first one makes it refuse others."""
        leaves = sorted(reached & set(self._graphed.get(run.backward.id, ())))
        if reducer.waits is not True or len(leaves) < 2:
            return False
        self._over = True
        self.with_graph.append(WithGraph(reducer.wrapper, run, leaves))
        return True

    def _reduce(self, reducer: _Reducer, run: Run, reached: frozenset[int], certain: set[int]) -> None:
        self._forget(reached)
        for leaf in reached:
            if self.reading.ledger.leaves[leaf].many:
                reducer.ways.setdefault(leaf, set()).update(_ways_to(self.reading, leaf, set(run.surely)))
        if self._opaque(run):
            reducer.maybe |= reducer.leaves
        reducer.ready |= reached & certain
        reducer.maybe |= reached - certain
        reducer.last, reducer.walked = run, True
        if reducer.wrapper.static != "no" or reducer.leaves <= reducer.ready:
            reducer.waits = False if reducer.waits else None
        elif self._perhaps_all(reducer):
            reducer.waits = None

    def _perhaps_all(self, reducer: _Reducer) -> bool:
        """Whether a backward may come to all parameters: what is missing may be of a list of layers that it came to,
        where a loop of a forward was left before its end.
        """
        missing = reducer.leaves - reducer.ready - reducer.maybe
        return not missing or (not self._ran_out and self._same_list(missing, reducer.ready))

    def _opaque(self, run: Run) -> bool:
        """Whether a backward walks what the tape does not know: it may come to any parameter."""
        nodes = self.reading.ledger.nodes
        known = (nodes[number] for number in self.reading.graph_nodes(run.executed))
        unknown = any(root.graph == "may" or root.node is None for root in run.backward.roots)
        return unknown or run.backward.open or any(map(is_opaque, known))

    def _freed_outputs(self, reducer: _Reducer, run: Run) -> bool:
        """Whether a backward raises since an earlier one has freed the node that joins the outputs of a forward.

        The wrapper puts such a node behind its outputs where it looks for unused parameters or has a static graph.
        """
        wrapper, last = reducer.wrapper, reducer.last
        if wrapper.unused == wrapper.static == "no" or last is None or last.backward.retain != "no":
            return False
        return any(_walk_both(call, last, run) for call in reducer.calls)

    def _walks_joined(self, reducer: _Reducer, run: Run) -> bool:
        """Whether a backward walks an output of a forward whose outputs an earlier one has walked, and kept."""
        last = reducer.last
        kept = last is not None and reducer.walked and last.backward.retain == "yes"
        return kept and last is not None and any(_walk_both(call, last, run) for call in reducer.calls)

    def _cause(self, reducer: _Reducer, run: Run) -> Cause:
        walked = run.executed
        through = [call for call in reducer.calls if any(call.first < node <= call.last for node in walked)]
        if not through:
            return "bypass"
        if any(call.reduces != "no" for call in through):
            return "again"
        return "flag" if all(call.flagged for call in through) else "no_sync"

    def _set(self, event: GradientSet) -> None:
        if event.how:
            return
        self._local.pop(event.leaf, None)
        computed = self._computed.pop(event.leaf, None)
        if computed is not None:
            reducer, run = computed
            self._local[event.leaf] = [_Local(reducer.wrapper, run, "grad")]

    def _step(self, position: int, step: Step) -> None:
        found: dict[int, Unreduced] = {}
        of_step = gradients_of(self.reading).params_at(step.optimizer, position)
        self._synced.update(leaf for leaf in of_step if leaf in self._sharded and leaf not in self._local)
        for leaf in of_step:
            for local in self._local.get(leaf, ()) if leaf not in self._unseen else ():
                found.setdefault(local.run.position, Unreduced(local, step)).leaves.append(leaf)
        self.unreduced += found.values()


def _walk_both(call: WrapperCall, *runs: Run) -> bool:
    """Return whether some backwards all walk outputs of a forward that gives several."""
    return len(call.outputs) > 1 and all(not run.executed.keys().isdisjoint(call.outputs) for run in runs)


@remembered
def joined(reading: Reading) -> tuple[WrapperCall, ...]:
    """Return the forwards whose outputs a node joins, which the first backward from one of them frees: the wrapper puts
    it there where it looks for unused parameters or has a static graph.
    """
    wrappers = {event.id: event for _, event in reading.wrappers if isinstance(event, Wrapper)}
    looking = {number for number, wrapper in wrappers.items() if not wrapper.unused == wrapper.static == "no"}
    calls = (event for _, event in reading.wrappers if isinstance(event, WrapperCall))
    return tuple(call for call in calls if call.wrapper in looking and len(call.outputs) > 1)


def _ways_to(reading: Reading, leaf: int, walked: Set[int]) -> set[int]:
    """Return the results of hidden code by which a backward comes to its parameters: each part of what a call gives may
    lead to others of them.
    """
    nodes = reading.ledger.nodes
    used: dict[int, list[int]] = {}
    for number in walked & nodes.keys():
        for source in nodes[number].inputs:
            used.setdefault(source, []).append(number)
    ahead, found = used.get(leaf, []), set[int]()
    while ahead:
        number = ahead.pop()
        parts = [
            one for one in used.get(number, ()) if nodes[one].op == nodes[number].op and nodes[one].inputs == (number,)
        ]
        ahead += parts
        if len(parts) < len(used.get(number, ())) or not parts:
            found.add(number)
    return found


def _asked_of(run: Run, leaves: frozenset[int]) -> frozenset[int]:
    """Return the leaves that a backward gives a gradient, of those that it comes to."""
    return leaves if run.backward.inputs is None else leaves.intersection(run.backward.inputs)


def wrapped_here(wrapper: Wrapper) -> str:
    """Return the label of the place where a model was wrapped."""
    return "wrapped here" if wrapper.several == "yes" else "wrapped here if there are several processes"


def _moments(reading: Reading) -> Iterator[tuple[int, object]]:
    """Yield what the reducers and the gradients of a tape go through, in order."""
    moments: list[tuple[int, object]] = [*reading.wrappers, *reading.gradient_events, *reading.steps]
    moments += [(run.position, run) for run in reading.runs]
    yield from sorted(moments, key=lambda moment: moment[0])


@remembered
def reductions_of(reading: Reading) -> Reductions:
    """Return the wrapped models of a tape, worked out once."""
    return Reductions(reading)
