"""TAPE302, needless-graph."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from tapecheck.rules.backward_without_graph.rule import BackwardWithoutGraph
from tapecheck.rules.certainty import rest_on
from tapecheck.rules.finding import Finding, Label
from tapecheck.rules.gradient_cut.rule import GradientCut, cut_at
from tapecheck.rules.graph_kept.rule import GraphKeptAcrossIterations
from tapecheck.rules.growing_chain.rule import GrowingChain
from tapecheck.rules.needless_graph.facts import NeedlessGraphFacts
from tapecheck.rules.needless_graph.passes import Pass, Passes, evaluates, read_only, runs_layer
from tapecheck.rules.reading import LoopRun, Reading, covered, iteration_in, remembered, search, with_sources, within
from tapecheck.rules.rule import Rule
from tapecheck.rules.words import called_from
from tapecheck.tape import Assumed, Assumption, Bind, Cut, Decision, LeafEscape, Node, Site, Span

_MODE = "set_grad_enabled"
"""What the dry run calls the decision whether recording is switched on by a flag that it does not know."""


class NeedlessGraph(Rule):
    """A loop builds graphs that no backward walks: evaluation or sampling without `torch.no_grad()`."""

    code = "TAPE302"
    name = "needless-graph"
    severity = "info"
    recorded = True
    needless = True
    of_absence = True
    needs = frozenset(("base", "effect"))
    summary = "No backward walks the graphs of a loop: evaluation without torch.no_grad()"
    stands_alone = True

    def judge(self, readings: Sequence[Reading]) -> list[Finding]:
        unused: dict[_Key, tuple[Reading, _Unused]] = {}
        loops: dict[_Key, list[_LoopBuilt]] = {}
        backwards = _backward_lines(readings)
        for reading, loop in _loops_of(readings):
            key = (loop.event.at.span, loop.event.at.stack)
            built = reading.nodes_between(loop.start, loop.end) if loop.end is not None else []
            loops.setdefault(key, []).append((reading, loop, built))
            if key not in unused and (found := _unused(reading, loop, built, backwards)) is not None:
                unused[key] = reading, found
        used = _in_use(readings, {key: loops[key] for key in unused})
        trained = _trained(readings)
        left = unused.keys() - used
        left -= {key for key in left if _used_within(readings, *key)}
        # A loop that goes round once in one way is judged by itself where it goes round again in another.
        again = {key for key, runs in loops.items() if any(loop.iterations > 1 for _, loop, _ in runs)}
        left -= {key for key in left if unused[key][1].inner in again}
        needed = _calls_in_use(loops, {span for span, _ in left})
        cutting = _cutting(readings) if left else set()
        told: dict[Span, Finding] = {}
        for key, (reading, found) in unused.items():
            # One that trains does so once a condition is met that no iteration seen here has met.
            is_told = key in left and (key[0] in trained or not found.loop.event.trains)
            if not is_told or _is_no_waste(readings, reading, found.loop, found.node, cutting):
                continue
            if key[0] not in told and not _within_another(reading, found, left):
                calls = trained.get(key[0], set()) | needed.get(key[0], set())
                told[key[0]] = self._finding(reading, found, calls)
        return [*told.values(), *self._of_passes(readings, told.keys())]

    def spares(self, finding: Finding, reading: Reading, event: Assumed, position: int) -> bool:
        """Return whether hidden code has no graph of the loop, or one that it is hardly given to learn from it: by a
        forward, or where the model evaluates.
        """
        if event.kind != "effect":
            return False
        runs = [loop for loop in reading.loops.values() if loop.event.at.span == finding.span]
        begun = [loop for loop in runs if loop.start < position]
        if not begun:
            # A way without the loop has none of its graphs, though it may come to the layers that build them.
            return bool(runs) or finding.facts.loop is not None
        if event.inside_forward:
            return True
        inside = any(loop.end is None or position < loop.end for loop in begun)
        leaves = reading.ledger.leaves.keys() & set(event.about)
        if not event.about or (leaves and inside):
            return False
        given = reading.graph_nodes(reading.below(set(event.about) - leaves))
        own = [node for loop in begun for node in reading.nodes_between(loop.start, loop.end or position)]
        if given.isdisjoint(own):
            return True
        return evaluates(reading, given, position)

    def _of_passes(self, readings: Sequence[Reading], told: Set[Span]) -> Iterator[Finding]:
        """Yield what is found of single forward passes in loops that train."""
        loops = _passes_of(readings)
        needed = _needed(readings) if loops else set()
        found = {one.path[-1]: one for passes in loops for one in passes.unused(needed)}
        cutting = _cutting(readings) if found else set()
        for span, one in found.items():
            node = one.node
            # What a function computes is needed where another call of it learns from that.
            if node is None or span in needed:
                continue
            if _is_no_waste(readings, one.reading, one.loop, node, cutting):
                continue
            if not any(outer in told for outer in (one.loop.event.at.span, *one.path)) and _in_vain(one):
                yield self._finding_of_pass(one, node, span)

    def _finding_of_pass(self, one: Pass, node: Node, span: Span) -> Finding:
        labels = [Label(one.loop.event.at.span, "once in each iteration of this loop, which trains", "called")]
        if node.at.span.line != span.line:
            labels.insert(0, Label(node.at.span, "a graph is recorded here", "built"))
        return Finding(
            self.code, self.name, self.severity, span,
            "the graph of this forward pass is never used (missing `torch.no_grad()`)",
            "run this statement under `torch.no_grad()` or `torch.inference_mode()`: same values, and nothing is saved "
            "for a backward",
            tuple(labels),
            True,
            facts=NeedlessGraphFacts(passed=span, calls=()),
            notes=("no backward walks this graph, and it keeps its activations as long as the result lives",),
        )  # fmt: skip

    def _finding(self, reading: Reading, found: _Unused, training: Set[Span]) -> Finding:
        at = found.loop.event.at
        labels = []
        if found.node.at.span.line != at.span.line:
            labels.append(Label(found.node.at.span, "a graph is recorded here in each iteration", "built"))
        call = next((call for call in at.stack if call not in training), None) if training else None
        if call is not None:
            labels.append(Label(call, "called from here, no backward needs its graphs", "called"))
        labels += (label for label in called_from(reading, at, at) if label.span != call)
        finding = Finding(
            self.code, self.name, self.severity, at.span,
            "graphs built in this loop are never used (missing `torch.no_grad()`)" if found.certain
            else "possible graphs of this loop are never used (missing `torch.no_grad()`)",
            _help(call is not None),
            tuple(labels),
            found.certain,
            facts=NeedlessGraphFacts(loop=at.span, calls=tuple(at.stack)),
            notes=("no backward walks these graphs, and they keep the activations of each iteration until it ends",),
        )  # fmt: skip
        if not _recording(reading):
            text = f"`{reading.tape.started}` is not called under `torch.no_grad()`"
            rest_on(finding, Assumption("caller", at.span, text))
        elif not found.certain and found.node.id not in reading.of_made_models:
            # Of what a loss leads to through code that nobody has seen, any part may be what learns.
            rest_on(finding, Assumption("result", at.span, "the model's parameters require grad"))
        return finding


def _help(trains: bool) -> str:
    """Return what to do: a loop in which a backward runs at other times needs its graphs then."""
    where = "run the loop under `torch.no_grad()` or `torch.inference_mode()`"
    if trains:
        where = "run this call alone under `torch.no_grad()`, not the loop, which another call trains with"
    return f"{where}: same values, and nothing is saved for a backward"


def _trained(readings: Sequence[Reading]) -> dict[Span, set[Span]]:
    """Return the loops that train, by what they say or are told, and in which some backward ran, with the calls that
    led to that.
    """
    trained: dict[Span, set[Span]] = {}
    for reading in readings:
        for loop in reading.loops.values():
            if loop.event.trains and reading.runs_in(loop):
                trained.setdefault(loop.event.at.span, set()).update(loop.event.at.stack)
    return trained


def _calls_in_use(loops: Mapping[_Key, Sequence[_LoopBuilt]], spans: Set[Span]) -> dict[Span, set[Span]]:
    """Return the calls that lead to runs of some loops whose graphs are used, also behind the loop, by the loop."""
    found: dict[Span, set[Span]] = {}
    for (span, stack), runs in loops.items():
        if span in spans and any(loop.end is not None and _used(reading, loop, built) for reading, loop, built in runs):
            found.setdefault(span, set()).update(stack)
    return found


def _in_vain(one: Pass) -> bool:
    """Return whether nothing keeps what a forward pass builds, and it is none that each iteration of training makes."""
    reading = one.reading
    if _kept_by_object(reading, one.nodes):
        return False
    # Of what each iteration of training computes nobody says here that it is no part of that.
    if not (one.evaluated or (one.now_and_then and _read(reading, one.nodes))):
        return False
    return not (_kept(reading, one.loop, one.nodes, variables=False) or _constant(reading, one.nodes, selected=False))


def _evaluates(reading: Reading) -> bool:
    """Return whether a model is evaluated anywhere."""
    return bool(read_only(reading)) or not all(mode.training for _, mode in reading.modes)


def _passes_of(readings: Sequence[Reading]) -> list[Passes]:
    """Return what is built under each call in the loops that train, by loop."""
    found: dict[_Key, Passes] = {}
    dropped: set[_Key] = set()
    repeated: set[_Key] = set()
    if not any(map(_evaluates, readings)):
        return []
    for reading, loop in _loops_of(readings):
        key = (loop.event.at.span, loop.event.at.stack)
        end = loop.end if loop.end is not None else len(reading.tape.events)
        trains = bool(reading.runs_in(loop))
        # What a flag that nobody knows records, somebody has thought of.
        if _recording_undecided(reading, end) or (trains and not (reading.complete and _recording(reading))):
            dropped.add(key)
        if not trains:
            continue
        if loop.iterations > 1:
            # A loop that is entered again runs fewer iterations.
            repeated.add(key)
        found.setdefault(key, Passes()).add(reading, loop)
    return [passes for key, passes in found.items() if key in repeated and key not in dropped]


def _loops_of(readings: Sequence[Reading]) -> Iterator[tuple[Reading, LoopRun]]:
    """Yield the runs of loops that are no part of a forward pass and are begun with recording on."""
    for reading in readings:
        for loop in reading.loops.values():
            # Where recording is off around the loop, something inside has switched it on again.
            if not (loop.event.inside_forward or loop.event.hidden or loop.event.off):
                yield reading, loop


def _in_use(readings: Sequence[Reading], loops: dict[_Key, list[_LoopBuilt]]) -> set[_Key]:
    """Return those of some loops whose graphs are walked, or are kept for more than this rule tells."""
    used = {key for key, runs in loops.items() if any(_used(*run) for run in runs)}
    # What a forward leaves in its module, the next pass of it replaces.
    used |= {
        key
        for key, runs in loops.items()
        if any(_kept_by_object(reading, built, but="forward") for reading, _, built in runs)
    }
    kept = [key for key, runs in loops.items() if key not in used and any(_kept(*run) for run in runs)]
    grown = _grown(readings) if kept else []
    # The graphs of a program that is seen to its end are kept for nothing; what an entry keeps is read by whoever
    # called it. Where they pile up, that is another rule's finding.
    return used | {key for key in kept if key[0] in grown or any(map(_read_later, loops[key]))}


def _used_within(readings: Sequence[Reading], loop: Span, stack: tuple[Span, ...]) -> bool:
    """Return whether something that is used is built in the text of a loop: the first elements of a list may be made
    before the loop over those begins of which nobody knows how many there are.
    """
    depth = len(stack)
    for reading in readings:
        for site in _sites_in_use(reading):
            path = (site.span, *site.stack)
            if len(path) > depth and path[len(path) - depth :] == stack and loop.holds(path[-1 - depth]):
                return True
    return False


@remembered
def _sites_in_use(reading: Reading) -> tuple[Site, ...]:
    """Return the places of what leads to parameters and is used."""
    sites = (reading.ledger.nodes[node].at for node in _noticed_of_parameters(reading))
    return tuple({(site.span, id(site.stack)): site for site in sites}.values())


def _kept_by_object(reading: Reading, built: Collection[int], but: str = "") -> bool:
    """Return whether an object has what is computed from some nodes in an attribute: who has the object may
    differentiate. What methods of the name `but` store does not count.
    """
    return not _below_objects(reading, but).isdisjoint(built)


@remembered
def _below_objects(reading: Reading, but: str) -> Set[int]:
    """Return what leads to the values that objects have in attributes, and that no method of the name `but` stores, nor
    what such a method calls.
    """
    return reading.below(
        node
        for node, binds in reading.binds.items()
        if any("." in bind.name and not bind.part and not (but and _is_run_by(reading, bind, but)) for _, bind in binds)
    )


def _is_run_by(reading: Reading, bind: Bind, method: str) -> bool:
    """Return whether a method of a name sets something, or calls what sets it."""
    if bind.inside_forward or bind.at.function.rpartition(".")[2] == method:
        return True
    begun, stack = _stacks_of(reading, f".{method}"), bind.at.stack
    return bool(begun) and any(stack[depth:] in begun for depth in range(1, len(stack)))


@remembered
def _stacks_of(reading: Reading, method: str) -> Set[tuple[Span, ...]]:
    """Return the calls that led to methods of a name which have computed something."""
    sites = (node.at for node in reading.ledger.nodes.values())
    return {site.stack for site in sites if site.function.endswith(method) and site.stack}


def _read_later(run: _LoopBuilt) -> bool:
    """Return whether graphs that a run of a loop keeps may be read by who called it, or were kept for a loss."""
    reading, _, built = run
    return bool(reading.tape.started) or _constant(reading, built)


def _cutting(readings: Sequence[Reading]) -> set[Span]:
    """Return the places where values are cut off their graph that a loss needs, as other rules report it."""
    rules: tuple[Rule, ...] = (GradientCut(), BackwardWithoutGraph())
    return cut_at(finding for rule in rules for finding in rule.judge(readings))


def _read(reading: Reading, nodes: Collection[int]) -> bool:
    """Return whether what some nodes compute is read as data: a pass of training that nothing reads may be one that was
    forgotten.
    """
    computed = reading.above(nodes)
    return any(not computed.isdisjoint(cut.nodes) for cut in read_only(reading))


def _needed(readings: Sequence[Reading]) -> set[Span]:
    """Return the places that build what is used, and the calls that lead to them."""
    return set().union(*map(_needed_in, readings))


@remembered
def _needed_in(reading: Reading) -> Set[Span]:
    sites = [reading.ledger.nodes[node].at for node in reading.noticed]
    stacks = {id(site.stack): site.stack for site in sites}
    return {site.span for site in sites}.union(*stacks.values())


def _is_no_waste(readings: Sequence[Reading], reading: Reading, loop: LoopRun, node: Node, cutting: set[Span]) -> bool:
    """Return whether a graph that nothing walks was meant to be trained on, where what loses it is the finding, or the
    program sees to it elsewhere.
    """
    return _cuts_training(reading, loop, cutting) or _switched_off(readings, node.at)


def _cuts_training(reading: Reading, loop: LoopRun, cutting: set[Span]) -> bool:
    """Return whether a run of a loop cuts off what a loss needs, or builds what is cut off later."""
    cuts = [cut for cut in reading.ledger.cuts.values() if cut.at.span in cutting]
    if any(iteration_in(cut.at, loop) for cut in cuts):
        return True
    built = set(reading.nodes_between(loop.start, loop.end)) if cuts and loop.end is not None else set()
    return any(not built.isdisjoint(covered(reading, cut)) for cut in cuts)


_Key = tuple[Span, tuple[Span, ...]]
"""Where a loop stands, and the calls that led to it."""
_LoopBuilt = tuple[Reading, LoopRun, list[int]]
"""A run of a loop, with the nodes that are built in it."""


@dataclass(slots=True)
class _Unused:
    """A run of a loop whose graphs no backward walks; `node` is the last one of its first iteration.

    `certain` says that some of them lead to parameters which are known to require grad, `inner` where the loop around
    the node stands that goes round once in each of these iterations, if there is one.
    """

    loop: LoopRun
    node: Node
    certain: bool
    inner: _Key | None = None


def _switched_off(readings: Sequence[Reading], at: Site) -> bool:
    """Return whether some path has recording switched off at a place: the program sees to it."""
    cuts = (cut for reading in readings for cut in reading.ledger.cuts.values() if cut.how == "no_grad")
    return any((cut.at.span, cut.at.stack) == (at.span, at.stack) for cut in cuts)


def _may_train(reading: Reading, start: int, end: int, backwards: set[tuple[str, int]]) -> bool:
    """Return whether a backward is called between two places, or may be: by opaque code, or by another answer there."""
    return (
        any(start < run.position < end for run in reading.runs)
        # Unknown code that has the model differentiates it, perhaps.
        or any(isinstance(event, LeafEscape) for event in within(reading.gradient_events, start, end))
        or any(_decides(decision, backwards) for decision in within(reading.decisions, start, end))
    )


def _unused(reading: Reading, loop: LoopRun, built: Sequence[int], backwards: set[tuple[str, int]]) -> _Unused | None:
    """Return what a run of a loop builds in vain; None where it builds nothing, or something of it may be used."""
    if loop.end is None or loop.iterations < 2 or not built or not reading.complete:
        return None
    recording = _recording(reading)
    if not recording and not (reading.tape.uncalled and _evaluated(reading, built)):
        return None
    if _may_train(reading, loop.start, loop.end, backwards) or _recording_undecided(reading, loop.end):
        return None
    return _of_its_own(reading, loop, recording=recording)


@remembered
def _of_its_own(reading: Reading, loop: LoopRun, *, recording: bool) -> _Unused | None:
    """Return what a run of a loop builds outside of others that go round; None where that leads to no parameters."""
    nodes = reading.ledger.nodes
    built = reading.nodes_between(loop.start, loop.end) if loop.end is not None else []
    certain = _of_forward(reading, loop, built, reading.of_parameters)
    hidden = reading.of_made_models | reading.of_trained_models if recording else reading.of_hidden_models
    own = certain or _of_forward(reading, loop, built, reading.of_parameters | hidden)
    if not own or not (certain or _may_record(reading, built)):
        return None
    first = iteration_in(nodes[own[0]].at, loop)
    last = [node for node in own if iteration_in(nodes[node].at, loop) == first][-1]
    inner = next(_loops_within(reading, nodes[last].at), loop).event.at
    return _Unused(loop, nodes[last], bool(certain), (inner.span, inner.stack) if inner != loop.event.at else None)


def _evaluated(reading: Reading, built: Sequence[int]) -> bool:
    """Return whether what some nodes compute is read as data, in ways that do not fail where recording is on."""
    return any(cut.how != "no_grad" for cut in _cuts_of(reading, built)) and _may_record(reading, built)


def _may_record(reading: Reading, built: Sequence[int]) -> bool:
    """Return whether what some nodes compute may have a graph: that has to be detached before it becomes an array."""
    return all(cut.how != "numpy" for cut in _cuts_of(reading, built))


def _cuts_of(reading: Reading, built: Sequence[int]) -> list[Cut]:
    """Return the cuts that take what some nodes compute out of its graph."""
    computed = reading.above(built)
    return [cut for cut in reading.ledger.cuts.values() if not computed.isdisjoint(cut.nodes)]


def _of_forward(reading: Reading, loop: LoopRun, built: Sequence[int], leading: Set[int]) -> list[int]:
    """Return the nodes of a loop's own that lead to some parameters; none where no layer is run in it."""
    nodes = reading.ledger.nodes
    trained = [node for node in built if node in leading]
    own = [node for node in trained if _innermost(reading, nodes[node].at) == loop.id]
    return own if any(runs_layer(reading, nodes[node]) for node in trained) else []


def _within_another(reading: Reading, found: _Unused, unused: Set[_Key]) -> bool:
    """Return whether a loop runs within another one that builds graphs in vain: switched off there, both are."""
    around = [loop.event.at for loop in reading.loops_around(found.loop.event.at)]
    return any((at.span, at.stack) in unused for at in around)


def _recording(reading: Reading) -> bool:
    """Return whether recording is known to be on where a tape begins: a function's caller may have switched it off."""
    return not reading.tape.started or any(
        run.backward.accumulates and run.traversal.problem is None and all(root.graph != "no" for root in roots)
        for run in reading.runs
        if (roots := run.backward.roots)
    )


def _recording_undecided(reading: Reading, before: int) -> bool:
    """Return whether a flag that nobody knows may have switched recording on or off before a position."""
    return (first := _first_undecided(reading)) is not None and first < before


@remembered
def _first_undecided(reading: Reading) -> int | None:
    return next((position for position, decision in reading.decisions if decision.text == _MODE), None)


def _innermost(reading: Reading, site: Site) -> int | None:
    """Return the innermost loop around a place that goes round more than once."""
    return next((loop.id for loop in _loops_within(reading, site) if loop.iterations > 1), None)


def _loops_within(reading: Reading, site: Site) -> Iterator[LoopRun]:
    """Yield the loops around a place, innermost first, that are no part of a forward pass and have an end: the loop of
    a generator has none where the loop that goes over the generator was seen to do enough.
    """
    for loop in reversed(reading.loops_around(site)):
        if not loop.event.inside_forward and loop.end is not None:
            yield loop


def _used(reading: Reading, loop: LoopRun, built: list[int]) -> bool:
    """Return whether something may use the graphs of parameters that a run of a loop builds."""
    return loop.end is None or not _noticed_of_parameters(reading).isdisjoint(built)


@remembered
def _noticed_of_parameters(reading: Reading) -> Set[int]:
    """Return the nodes that lead to parameters, or may, and that something may use."""
    hidden = reading.of_made_models | reading.of_trained_models
    if reading.tape.uncalled:
        hidden = reading.of_hidden_models
    return reading.noticed & (reading.of_parameters | hidden)


def _grown(readings: Sequence[Reading]) -> list[object]:
    """Return the loops of which it is told that they keep the graphs of all their iterations."""
    rules: tuple[Rule, ...] = (GraphKeptAcrossIterations(), GrowingChain())
    return [finding.facts.loop for rule in rules for finding in rule.judge(readings)]


def _constant(reading: Reading, built: Sequence[int], *, selected: bool = True) -> bool:
    """Return whether values of some graphs went as constants into a graph that a backward walked: kept for a loss.

    Without `selected` whole numbers that an argmax, a comparison or a draw gave are none.
    """
    found = with_sources(reading, {cut for _, gone in reading.constants for cut in gone})
    nodes = set(built)
    cuts = (cut for cut in found.values() if selected or cut.how != "nondifferentiable")
    return any(not nodes.isdisjoint(covered(reading, cut)) for cut in cuts)


def _kept(reading: Reading, loop: LoopRun, built: list[int], *, variables: bool = True) -> bool:
    """Return whether a run of a loop keeps what it builds past its iteration.

    What a variable has until the next pass takes its place does not count without `variables`.
    """
    if loop.end is None:
        return True
    nodes = reading.ledger.nodes

    def young(numbers: Iterable[int]) -> list[int]:
        # What is older than the loop leads to nothing that the loop has built.
        return [number for number in numbers if number in nodes and number >= built[0]]

    for held in (held for held in reading.held if built and held.loop.id == loop.id):
        most = 0 if variables or not held.holder.isidentifier() else 1
        for index, kept in held.nodes.items():
            graph = search(young(kept), lambda number: young(nodes[number].inputs))
            iterations = {iteration_in(nodes[number].at, loop) for number in graph} - {0}
            if iterations and min(iterations) < index and len(iterations) > most:
                return True
    return False


def _backward_lines(readings: Sequence[Reading]) -> set[tuple[str, int]]:
    """Return the lines of all backward calls, and of the calls that lead to them."""
    sites = {run.at for reading in readings for run in reading.runs}
    return {(span.file, span.line) for site in sites for span in (site.span, *site.stack)}


def _decides(decision: Decision, lines: set[tuple[str, int]]) -> bool:
    """Return whether one of some lines lies in the statement that a condition decides about."""
    first, last = decision.at.line, max(decision.end_line, decision.at.line)
    return any(file == decision.at.file and first <= line <= last for file, line in lines)
