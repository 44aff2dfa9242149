"""Single forward passes of a loop that trains whose graphs no backward walks."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Set
from dataclasses import dataclass, field

from tapecheck.rules.reading import LoopRun, Reading, iteration_in, remembered, within
from tapecheck.tape import Cut, LeafEscape, Node, Site, Span

Path = tuple[Span, ...]
"""The calls from a loop's own function inward to a place, that place the last."""


@dataclass(slots=True)
class Pass:
    """A call in the iterations of a loop, and what one run of the loop builds in it; `node` is a layer's.

    `evaluated` says that the model has been switched to evaluation, `now_and_then` that some iterations train without
    it, as where samples are drawn every so many steps.
    """

    reading: Reading
    loop: LoopRun
    path: Path
    node: Node | None = None
    nodes: list[int] = field(default_factory=list)
    evaluated: bool = True
    now_and_then: bool = False

    def add(self, built: _Built) -> None:
        """Add what it builds at one place."""
        self.nodes += built.nodes
        self.evaluated = self.evaluated and built.evaluated
        if built.layer is not None and (self.node is None or built.layer.id < self.node.id):
            self.node = built.layer


@dataclass(slots=True)
class _Built:
    """What one run of a loop builds at one place, under the same calls: `layer` is the first layer's node."""

    layer: Node | None = None
    nodes: list[int] = field(default_factory=list)
    iterations: set[int] = field(default_factory=set)
    evaluated: bool = True


@dataclass(slots=True)
class _Seen:
    """What one run of a loop builds in vain, and which calls in it are needed; `trained` are the iterations that do."""

    built: dict[Path, _Built] = field(default_factory=dict)
    needed: set[Path] = field(default_factory=set)
    functions: dict[Path, str] = field(default_factory=dict)
    trained: set[int] = field(default_factory=set)


class Passes:
    """What is built under each call in the iterations of one loop, over all the paths that run it."""

    def __init__(self) -> None:
        self._runs: list[tuple[Reading, LoopRun]] = []
        self._needed: set[Path] = set()
        self._found: dict[Path, Pass] = {}
        self._functions: dict[Path, str] = {}

    def add(self, reading: Reading, loop: LoopRun) -> None:
        """Add a run of the loop."""
        self._runs.append((reading, loop))

    def _look(self) -> None:
        """Look through the runs of the loop, where one of them evaluates a model, or reads what nothing else uses."""
        if any(_built_evaluating(reading, loop) or _reads(reading, loop) for reading, loop in self._runs):
            for reading, loop in self._runs:
                self._look_through(reading, loop)

    def _look_through(self, reading: Reading, loop: LoopRun) -> None:
        seen = _seen(reading, loop)
        for path in seen.needed:
            self._need(path)
        for path, function in seen.functions.items():
            self._functions.setdefault(path, function)
        iterations: dict[Path, set[int]] = {}
        for path, built in seen.built.items():
            for depth in range(1, len(path) + 1):
                known = self._found.setdefault(path[:depth], Pass(reading, loop, path[:depth]))
                iterations.setdefault(path[:depth], set()).update(built.iterations)
                if known.loop is loop:
                    known.add(built)
        for path, builds in iterations.items():
            known = self._found[path]
            known.now_and_then = known.now_and_then or not seen.trained <= builds

    def unused(self, needed: Set[Span]) -> Iterator[Pass]:
        """Yield the outermost calls of which nothing that they build is used, or the one call in there that builds.

        The latter is none of the places that are `needed` where others call them.
        """
        self._look()
        for path, found in self._found.items():
            outer = any(path[:depth] not in self._needed for depth in range(1, len(path)))
            if found.node is None or path in self._needed or outer:
                continue
            if not (self._in_forward(path) or self._branches_off(found)):
                yield self._innermost(found, needed)

    def _innermost(self, found: Pass, needed: Set[Span]) -> Pass:
        """Return the only forward pass in a call, where there is but one."""
        while True:
            inside = (one for path, one in self._found.items() if path[:-1] == found.path and one.node is not None)
            called = [one for one in inside if not self._in_forward(one.path)]
            if len(called) != 1 or called[0].path[-1] in needed:
                return found
            found = called[0]

    def _in_forward(self, path: Path) -> bool:
        """Return whether a call may be made by a module's `forward`: a part of a pass is none."""
        function = self._functions.get(path[:-1], "forward") if len(path) > 1 else ""
        return function.rpartition(".")[2] in ("forward", "__call__")

    def _branches_off(self, found: Pass) -> bool:
        """Return whether a call goes on from a graph that a backward walks: an output of it that nobody needs."""
        nodes, used = found.reading.ledger.nodes, found.reading.used
        return any(source in used for node in found.nodes for source in nodes[node].inputs)

    def _need(self, path: Path) -> None:
        # What leads to a needed call is needed, too.
        while path and path not in self._needed:
            self._needed.add(path)
            path = path[:-1]


def runs_layer(reading: Reading, node: Node) -> bool:
    """Return whether an operation runs data through a parameter and saves it, as layers do: arithmetic on parameters
    alone, such as an average or a norm of them, saves no activations.
    """
    leaves = reading.ledger.leaves
    if node.keeps == "no":
        return False
    parameters = [
        leaves[source]
        for source in node.inputs
        if source in leaves and (leaves[source].parameter or source in reading.learned)
    ]
    if any(leaf.many for leaf in parameters):
        return node.keeps == "yes" or node.shared or node.id in reading.of_trained_models
    own = {leaf.storage for leaf in parameters}
    if not own or node.keeps != "yes":
        return False
    return any(saved.storage not in own and saved.name != "result" for saved in node.saved)


def _end(reading: Reading, loop: LoopRun) -> int:
    return loop.end if loop.end is not None else len(reading.tape.events)


def _path(at: Site, loop: LoopRun) -> Path:
    """Return the calls that lead from the function of a loop to a place in its iterations."""
    inward = (*reversed(at.stack), at.span)
    return inward[len(loop.event.at.stack) :]


@remembered
def read_only(reading: Reading) -> tuple[Cut, ...]:
    """Return what is read as data of graphs that lead to parameters and that nothing uses."""
    unused = reading.of_parameters - reading.noticed
    cuts = reading.ledger.cuts.values()
    return tuple([cut for cut in cuts if cut.how != "no_grad" and not unused.isdisjoint(cut.nodes)])


def _reads(reading: Reading, loop: LoopRun) -> bool:
    return any(iteration_in(cut.at, loop) > 0 for cut in read_only(reading))


@remembered
def _seen(reading: Reading, loop: LoopRun) -> _Seen:
    """Look through one run of a loop."""
    seen = _Seen()
    end = _end(reading, loop)
    evaluating = _built_evaluating(reading, loop)
    for run in reading.runs:
        if loop.start < run.position < end:
            seen.needed.add(_path(run.at, loop))
            seen.trained.add(iteration_in(run.at, loop))
    for event in within(reading.gradient_events, loop.start, end):
        if isinstance(event, LeafEscape):
            seen.needed.add(_path(event.at, loop))
    for number in reading.nodes_between(loop.start, end):
        node = reading.ledger.nodes[number]
        if (iteration := iteration_in(node.at, loop)) <= 0:
            continue
        path = _path(node.at, loop)
        seen.functions.setdefault(path[:-1], node.at.function)
        if number in reading.noticed or _in_loop_of_its_own(reading, node.at, loop):
            seen.needed.add(path)
        elif number in reading.of_parameters:
            built = seen.built.setdefault(path, _Built())
            built.nodes.append(number)
            built.iterations.add(iteration)
            built.evaluated = built.evaluated and number in evaluating
            if built.layer is None and runs_layer(reading, node):
                built.layer = node
    return seen


@remembered
def _built_evaluating(reading: Reading, loop: LoopRun) -> set[int]:
    """Return what is built in the iterations of a loop after they have switched a model to evaluation."""
    found: set[int] = set()
    end = _end(reading, loop)
    switched = [(at, mode) for at, mode in reading.modes if loop.start < at < end and not mode.training]
    trained = [position for position, mode in reading.modes if mode.training]
    for position, mode in switched:
        following = trained[after] if (after := bisect_right(trained, position)) < len(trained) else end
        now = iteration_in(mode.at, loop)
        evaluated = set(mode.leaves)
        for number in reading.nodes_between(position, min(following, end)):
            node = reading.ledger.nodes[number]
            iteration = iteration_in(node.at, loop)
            if iteration == now and not evaluated.isdisjoint(node.inputs):
                evaluated.add(number)
                found.add(number)
            elif iteration > now:
                break
    return found


def evaluates(reading: Reading, given: Set[int], position: int) -> bool:
    """Return whether some nodes lead to parameters alone, of a model that is switched to evaluation at a position."""
    leaves = reading.ledger.leaves
    reached = reading.below(given) & leaves.keys()
    modes = [mode for at, mode in reading.modes if at < position and not reached.isdisjoint(mode.leaves)]
    last = {leaf: mode.training for mode in modes for leaf in mode.leaves}
    switched = [last[leaf] for leaf in reached if leaf in last]
    return bool(switched) and not any(switched) and all(leaves[leaf].parameter or leaves[leaf].many for leaf in reached)


def _in_loop_of_its_own(reading: Reading, at: Site, loop: LoopRun) -> bool:
    """Return whether a place is in a further loop that is no part of a forward pass: that one is told itself."""
    inner = [number for number, _ in at.iteration[loop.depth + 1 :]]
    return any(number in reading.loops and not reading.loops[number].event.inside_forward for number in inner)
