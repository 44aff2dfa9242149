"""TAPE201, graph-kept-across-iterations."""

from __future__ import annotations

import ast
import itertools
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from tapecheck.rules.finding import Finding, Label, Severity
from tapecheck.rules.gradient_cut.rule import GradientCut, cut_at
from tapecheck.rules.graph_kept.facts import GraphKeptFacts
from tapecheck.rules.path import told_apart
from tapecheck.rules.raising import failing
from tapecheck.rules.reading import (
    Held,
    LoopRun,
    Reading,
    Run,
    behind,
    covered,
    grouped,
    iteration_in,
    remembered,
    search,
    with_sources,
)
from tapecheck.rules.rule import Rule
from tapecheck.rules.words import called_from, headline, quoted
from tapecheck.tape import Decision, Fact, Leaf, Node, NoGraph, Problem, Site, Span, Stale, either

LARGE_BOUND = 64
"""A container of at most so many elements is a window and no leak, in a loop that runs longer than that."""
_SAMPLES = 3
_VIEWS = 4
"""How many views of views are looked through."""


class GraphKeptAcrossIterations(Rule):
    """A value that outlives the iteration keeps its graph, and more of it each time round."""

    code = "TAPE201"
    name = "graph-kept-across-iterations"
    severity = "warning"
    recorded = True
    severities = ("warning", "info")
    lasting = True
    summary = "A value that outlives the iteration keeps the graph of every iteration"

    def judge(self, readings: Sequence[Reading]) -> list[Finding]:
        grown = [(reading, _growing(reading)[0]) for reading in readings]
        excused, level = _excused(readings, grown)
        level |= {_place(held) for reading in readings for held in _growing(reading)[1]}
        told = ((reading, [one for one in growths if _place(one.held) not in excused]) for reading, growths in grown)
        kept = [(reading, growth) for reading, growths in told for growth in _of_themselves(reading, growths)]
        kept = [(reading, growth) for reading, growth in kept if not _freed_in_time(reading, growth, kept)]
        # Where no option is given, the loops of the others have no iteration after the first.
        again = {_place(growth.held)[:3] for _, growth in kept if growth.held.loop.repeats}
        return [
            self._finding(
                reading,
                growth,
                again=_place(growth.held)[:3] in again,
                emptied=_place(growth.held) in level,
            )
            for reading, growth in _innermost(kept)
        ]

    def _finding(self, reading: Reading, growth: _Growth, *, again: bool, emptied: bool) -> Finding:
        held, linked = growth.held, _linked(reading, growth)
        certain = linked and not emptied and again and not held.loop.ahead and not _may_be_stored_over(reading, held)
        store = _store(reading, growth)
        home = said_at(store, held.loop)
        kept = _saved(reading, growth)
        within = kept and _of_one_forward(reading, growth)
        # What may have no graph at all is no more than a hint.
        severity: Severity = "warning" if kept and not within and linked else "info"
        freeing = _freeing(reading, growth)
        stored_in = reading.written(held.holder, store)
        # Told at a line of another file, it is called what that file can call it.
        holder = stored_in if home.file == store.file else held.holder
        note = f"at least {growth.nodes} more graph node{'s' if growth.nodes != 1 else ''} per iteration"
        note += of_activations(kept=kept, within=within, freed=freeing is not None, chain=growth.chain)
        return Finding(
            self.code, self.name, severity, home, _headline(holder, certain),
            _help(reading, growth, holder, kept, freeing is not None),
            tuple(_labels(reading, growth, home, freeing)), certain,
            facts=GraphKeptFacts(
                stored=held.last.at.span, loop=held.loop.event.at.span, holder=held.holder,
                scope=held.last.scope, kind="chain" if growth.chain else "container", nodes_per_iteration=growth.nodes,
                saved_tensors_kept=kept, backwarded=freeing is not None,
            ),
            notes=(note, *_doubts(reading, held, linked=linked, emptied=emptied, again=again)),
        )  # fmt: skip


def _doubts(reading: Reading, held: Held, *, linked: bool, emptied: bool, again: bool) -> Iterator[str]:
    """Yield in words why a finding is a possible one, if it is."""
    if not again:
        yield "by default this loop has no second iteration"
    elif not linked:
        yield "assumes that what is kept has a graph: what it is computed from need not require grad"
    elif emptied:
        yield "assumes that it is not emptied in time: another way through the program does that"
    elif held.loop.ahead:
        yield "assumes that the loop goes on as it began: it may yet come to what empties it"
    elif held.last.unseen:
        yield "assumes that each is stored under a key of its own"
    elif _may_be_stored_over(reading, held):
        yield "assumes that the loop is long: run once more, it stores over what it has kept"


def _labels(reading: Reading, growth: _Growth, home: Span, freeing: Span | None) -> Iterator[Label]:
    """Yield the labels of a finding at `home`: where what is kept is built, freed and stored, and the loop."""
    store, last, example = _store(reading, growth), growth.held.last.at.span, growth.example
    if example is not None and example.at.line != home.line:
        yield Label(example.at.span, "nodes built here are kept", "built")
    if freeing is not None and freeing != home:
        yield Label(freeing, "their saved tensors are freed here", "freed")
    if home != store.span or store.span.line != last.line:
        stored_in = quoted(reading.written(growth.held.holder, store), "it")
        stored = last if home == store.span else store.span
        yield Label(stored, f"{stored_in} is stored for the next iteration", "kept")
    yield from (label for label in called_from(reading, store, store) if label.span != home)
    yield Label(growth.held.loop.event.at.span, "one more graph in each iteration of this loop", "path")


def of_activations(*, kept: bool, within: bool, freed: bool, chain: bool) -> str:
    """Return what is said of the tensors that kept nodes have saved: whether some stay, of one forward pass alone. In a
    `chain` each value takes the place of the one before, whose graph alone stays.
    """
    grows = "the graph grows" if chain else "the graph and the kept tensors themselves grow"
    if within:
        return "; all of them belong to one forward pass, made before the loop"
    if kept and not freed:
        return "; no backward frees them: the activations of all iterations stay in memory"
    if kept:
        return "; some are never freed and keep their activations in memory"
    if freed:
        return f"; their activations are freed; {grows}"
    return f"; they saved no activations; {grows}"


def said_at(store: Site, loop: LoopRun) -> Span:
    """Return where it is said that a store keeps graphs: where it lies in another file than the loop, at the loop's
    call that leads to it, which is what its reader sees and can mend.
    """
    here = loop.event.at
    if store.file == here.file:
        return store.span
    within = store.stack[: len(store.stack) - len(here.stack)]
    return next((call for call in within if call.file == here.file), store.span)


def _innermost(kept: Sequence[tuple[Reading, _Growth]]) -> list[tuple[Reading, _Growth]]:
    """Return what is kept without what an outer loop keeps by a store that is reported at a call nearer to it."""
    stores = [_store(reading, growth) for reading, growth in kept]
    homes = {(store.span, said_at(store, growth.held.loop)) for store, (_, growth) in zip(stores, kept)}
    found = []
    for store, (reading, growth) in zip(stores, kept):
        home = said_at(store, growth.held.loop)
        calls = [store.span, *store.stack]
        nearer = calls[: calls.index(home)] if home in calls else []
        if not any((store.span, call) in homes for call in nearer):
            found.append((reading, growth))
    return found


def _headline(holder: str, certain: bool) -> str:
    names = (holder,) if holder else ()
    form = ("`{}`" if names else "a value") + " keeps every iteration's graph alive"
    return headline(form if certain else f"possible leak: {form}", *names)


def _excused(
    readings: Sequence[Reading], grown: Sequence[tuple[Reading, list[_Growth]]]
) -> tuple[set[_Place], set[_Place]]:
    """Return the holders that grow and are no finding, and those that may be emptied."""
    wanted = {_place(growth.held) for _, growths in grown for growth in growths}
    if not wanted:
        return set(), set()
    excused = _told_by_failures(readings, wanted)
    excused |= _for_later(readings, wanted - excused)
    learned = _learned_through({place[3] for place in wanted - excused}, readings)
    excused |= {place for place in wanted if place[3] in learned}
    excused |= _meant_for_training(readings, wanted - excused)
    emptied = {place: _emptied(place, grown) for place in wanted - excused}
    excused |= {place for place, fact in emptied.items() if fact == "yes"}
    return excused, {place for place, fact in emptied.items() if fact == "may"}


def _meant_for_training(readings: Sequence[Reading], places: set[_Place]) -> set[_Place]:
    """Return those of some holders that keep graphs for a loss which another finding says they are cut from."""
    if not places:
        return set()
    cutting = cut_at(GradientCut().judge(readings))
    found: set[_Place] = set()
    for reading in readings if cutting else ():
        cuts = (cut for cut in reading.ledger.cuts.values() if cut.at.span in cutting)
        meant: set[int] = set().union(*(covered(reading, cut) for cut in cuts))
        held = (one for one in reading.held if _place(one) in places)
        found |= {_place(one) for one in held if any(not meant.isdisjoint(nodes) for nodes in one.nodes.values())}
    return found


def _for_later(readings: Sequence[Reading], places: set[_Place]) -> set[_Place]:
    """Return those of some holders that keep what a later backward or another round of the program is for."""
    return {
        _place(held)
        for reading in readings
        for held in reading.held
        if _place(held) in places and (_backwarded_later(reading, held) or _begun_anew(reading, held))
    }


def _learned_through(loops: set[Span], readings: Sequence[Reading]) -> set[Span]:
    """Return the loops whose iterations, in another call or another program, one backward behind them learns through:
    the steps of one computation, which is to keep its graph. That a call of it is never learned from is told elsewhere.
    """
    found: set[Span] = set()
    for reading in readings:
        for loop in reading.loops.values() if loops - found else ():
            if loop.end is not None and loop.event.at.span in loops - found and _is_walked_behind(reading, loop):
                found.add(loop.event.at.span)
    return found


def _learns(reading: Reading, loop: LoopRun) -> bool:
    """Return whether what a loop hands from step to step leads to what is trained: it does not only search an input."""
    held = [one for one in reading.held if one.loop.event.at.span == loop.event.at.span]
    return any(not _aimed_at(reading, one, reading.below(set().union(*one.nodes.values()))) for one in held)


def _is_walked_behind(reading: Reading, loop: LoopRun) -> bool:
    """Return whether a backward behind a loop that trains nothing itself runs through what several iterations built.

    Steps that take gradients of their own, as those of an inner loop do, are one computation all the same.
    """
    within = reading.runs_in(loop)
    if any(run.backward.accumulates for run in within) or (within and not _learns(reading, loop)):
        return False
    built = set(reading.nodes_between(loop.start, loop.end if loop.end is not None else loop.start))
    for run in reading.runs:
        if run.position > loop.start and not iteration_in(run.at, loop):
            walked = built & run.executed.keys()
            if len({reading.iteration_of(node, loop) for node in walked}) > 1:
                return True
    return False


def _told_by_failures(readings: Sequence[Reading], wanted: set[_Place]) -> set[_Place]:
    """Return the stores that, on some way, hand on the graph at which a backward fails: cut there, they keep none
    either. What a backward lacks since the graph was cut off it is to be walked once that is mended.
    """
    told: set[_Place] = set()
    for reading, run, problem in failing(readings, Problem):
        if problem.node is None:
            told |= _held_for(reading, run, _cut_off(reading, run)) & wanted
            continue
        for place in wanted - told:
            if problem.node.id in reading.below(reading.bound_at(place[1], place[2], run.position)):
                told.add(place)
    return told


def _cut_off(reading: Reading, run: Run) -> set[int]:
    """Return the nodes that were cut off what a backward starts from without a graph."""
    problem = run.fails(NoGraph)
    cuts = with_sources(reading, run.backward.roots[problem.root].cuts if problem is not None else ())
    return {node for cut in cuts.values() for node in cut.nodes}


def _held_for(reading: Reading, run: Run, cut: set[int]) -> set[_Place]:
    """Return the stores that keep one of the nodes which were cut off a backward. Of a loop that it stands behind, also
    those that keep what these were computed from: the iterations are one graph, which it is to walk.
    """
    if not cut:
        return set()
    below = set(reading.below(cut))
    return {
        _place(held)
        for held in reading.held
        if not all(map((cut if iteration_in(run.at, held.loop) else below).isdisjoint, held.nodes.values()))
    }


def _emptied(place: _Place, grown: Sequence[tuple[Reading, list[_Growth]]]) -> Fact:
    """Return whether the program empties, or cuts back, in time what grows in a place.

    It does on a way on which nothing grows there, and which differs from the growing one by the answer to one condition
    alone, asked after the store: what that condition guards empties it. "yes" where the condition asks how much is
    kept or counts iterations (`if len(losses) > window:`, `if i % every == 0:`, `if count >= every:`), and so holds
    some time; "may" where it asks a flag or the data, or where several answers together do it, none of them about
    whether anything is stored; "no" where there is no such way.
    """
    answer: Fact = "no"
    level = [reading for reading, growths in grown if all(_place(one.held) != place for one in growths)]
    growing = [(reading, growth.held) for reading, growths in grown for growth in growths]
    for reading, held in growing if level else ():
        for other in level if _place(held) == place else ():
            answer = either(answer, _emptied_by(reading, held, other))
            if answer == "yes":
                return answer
    return answer


def _emptied_by(reading: Reading, held: Held, other: Reading) -> Fact:
    """Return whether a way on which nothing grows differs from a growing one by what empties a holder."""
    loop = held.loop.event.at.span
    past = _comes_past(other, loop)
    apart = told_apart(reading, other) if past or _fails(other) else []
    if len(apart) == 1 and _decides_after(apart[0], held):
        if past and not _goes_on(other, apart[0], loop):
            return "no"
        # Where its backward fails there, what else it would do is not seen.
        return "yes" if past and _holds_some_time(apart[0], held) else "may"
    stores_too = past and bool(apart) and all(_stores_either_way(one, held) for one in apart)
    return "may" if stores_too and _goes_as_far(other, held) else "no"


def _stores_either_way(decision: Decision, held: Held) -> bool:
    """Whether what grows is stored whatever a condition comes to: it is asked before the loop, or after the store."""
    if iteration_in(decision.at, held.loop):
        return _decides_after(decision, held)
    store = held.last.at
    return not any(decision.governs(span) for span in (store.span, *store.stack))


def _goes_as_far(other: Reading, held: Held) -> bool:
    """Whether a loop goes round on another way, too, and stores nothing of it elsewhere."""
    loop, store = held.loop.event.at.span, held.last.at.span
    runs = [run for run in other.loops.values() if run.event.at.span == loop]
    elsewhere = any(growth.held.last.at.span == store for growth in _growing(other)[0])
    return not elsewhere and any(run.iterations > 1 for run in runs)


def _comes_past(reading: Reading, loop: Span) -> bool:
    """Whether a way comes to the end of a loop; that it raises later says nothing of it."""
    runs = [run for run in reading.loops.values() if run.event.at.span == loop]
    return reading.ended == "finished" or any(run.end is not None for run in runs)


def _fails(reading: Reading) -> bool:
    """Whether a way ends in a backward."""
    return reading.ended == "raised" and bool(reading.runs) and reading.runs[-1].failed


def _goes_on(other: Reading, condition: Decision, loop: Span) -> bool:
    """Whether a loop goes on in a way that has answered a condition otherwise: `break` empties nothing."""
    return any(
        0 < iteration_in(decision.at, run) < run.iterations
        for run in other.loops.values()
        if run.event.at.span == loop
        for _, decision in other.decisions
        if decision.at.span == condition.at.span and decision.taken != condition.taken
    )


def _freed_in_time(reading: Reading, growth: _Growth, kept: Sequence[tuple[Reading, _Growth]]) -> bool:
    """Return whether another way shows what becomes of what is kept: the condition by whose answer alone it differs
    holds some time, and guards a backward that frees it.
    """
    if not _saved(reading, growth):
        return False
    place = _place(growth.held)
    alike = [(other, its) for other, its in kept if other is not reading and _place(its.held) == place]
    return any(
        _freeing(other, its) is not None and not _saved(other, its) and _differs_by_time(reading, growth.held, other)
        for other, its in alike
    )


def _differs_by_time(reading: Reading, held: Held, other: Reading) -> bool:
    """Return whether a way differs by the answer to one condition alone, asked after a store, that holds some time."""
    apart = told_apart(reading, other)
    return len(apart) == 1 and _decides_after(apart[0], held) and _holds_some_time(apart[0], held)


def _holds_some_time(condition: Decision, held: Held) -> bool:
    return condition.counted or _holds_in_time(condition.text, held.holder)


def _decides_after(decision: Decision, held: Held) -> bool:
    """Whether a condition is asked in a loop, of what is kept or once it has been stored."""
    if not iteration_in(decision.at, held.loop):
        return False
    store, at = _called_at(held.last.at, held.loop), _called_at(decision.at, held.loop)
    return _asks_length(decision.text, held.holder) or (at.file == store.file and at.line > store.end_line)


def _called_at(site: Site, loop: LoopRun) -> Span:
    """Return where the code of a loop is at a site: there, or at the call that leads to it."""
    calls = (site.span, *site.stack)
    return calls[max(0, len(site.stack) - len(loop.event.at.stack))]


def _holds_in_time(condition: str, holder: str) -> bool:
    """Whether a condition asks how much is kept, or for every so many iterations."""
    return _asks_length(condition, holder) or any(
        isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod) for part in _parts_of(condition)
    )


def _asks_length(condition: str, holder: str) -> bool:
    return any(isinstance(part, ast.Call) and ast.unparse(part) == f"len({holder})" for part in _parts_of(condition))


def _parts_of(condition: str) -> list[ast.AST]:
    try:
        return list(ast.walk(ast.parse(condition, mode="eval")))
    except SyntaxError:
        # The text of a long condition is cut.
        return []


@dataclass(slots=True, eq=False)
class _Growth:
    """A holder that keeps more at the end of each iteration. `chain` says that its value is computed from its
    value in the iteration before, `steps` are the iterations at which it grew.
    """

    held: Held
    chain: bool
    steps: list[int]
    reached: set[int]
    nodes: int
    example: Node | None


_Place = tuple[str, str, int, Span]
"""Holder, file and line of the store, and the loop: what makes a holder the same one in several tapes."""


def _place(held: Held) -> _Place:
    at = held.last.at
    return held.holder, at.file, at.line, held.loop.event.at.span


@remembered
def _growing(reading: Reading) -> tuple[list[_Growth], list[Held]]:
    """Return the holders that grow with their loop, and those that were seen not to."""
    outside = (held for held in reading.held if not held.loop.event.inside_forward and len(held.holds) >= 2)
    groups = grouped((held.loop.id, held) for held in outside).values()
    growths: list[_Growth] = []
    level: list[Held] = []
    for group in (group for group in groups if _reaches_parameters(reading, group[0].loop)):
        reached = reading.iterations_reached(group[0].loop)
        for held in group:
            steps = _steps_for_good(reading, held, group, reached)
            if not steps:
                if not _goes_on_full(reading, held):
                    level.append(held)
            elif held.loop.iterations >= 3 and not _bounded(held) and _replaced(reading, held) != "yes":
                growth = _growth(reading, held, steps)
                if growth is not None and not _is_meant(reading, growth):
                    growths.append(growth)
    return growths, level


def _steps_for_good(reading: Reading, held: Held, group: list[Held], reached: dict[int, int]) -> list[int]:
    """Return the iterations at which a holder grew, none where it lets go of what it held or grows no more."""
    if _lets_go_later(held, group, reached) or _is_let_go(held, group):
        return []
    steps = _steps(held, reached, _from_before(reading, held))
    return [] if len(steps) < 2 or _is_full(held, steps) else steps


def _is_meant(reading: Reading, growth: _Growth) -> bool:
    """Return whether a holder that grows is told of otherwise, or is to grow, or may be let go where nobody looked."""
    return (
        _explained(reading, growth)
        or _by_depth(reading, growth)
        or _asks_itself(reading, growth.held)
        or _may_be_walked_behind(reading, growth.held)
    )


def _reaches_parameters(reading: Reading, loop: LoopRun) -> bool:
    """Return whether a loop itself runs a model or a backward.

    One that only does arithmetic on a graph built before it (over the channels of an image, say) is a part of
    that forward pass: it ends after as many steps as there are parts.
    """
    runs, leaves = reading.runs_in(loop), reading.ledger.leaves.keys()
    if not all(map(_differentiable, runs)):
        return True
    differentiated = {run.at.span for run in runs}
    end = loop.end if loop.end is not None else len(reading.tape.events)
    nodes = (reading.ledger.nodes[number] for number in reading.nodes_between(loop.start, end))
    return any(node.at.span not in differentiated and not leaves.isdisjoint(node.inputs) for node in nodes)


def _differentiable(run: Run) -> bool:
    """Return whether a call gives gradients that are to be differentiated again: arithmetic like any other."""
    return run.backward.call != "backward" and run.backward.create == "yes"


def _bounded(held: Held) -> bool:
    bound = held.last.bound
    if bound is None or bound > LARGE_BOUND:
        return False
    # A window that the whole loop never fills keeps every iteration like a list.
    return held.loop.settled or not (held.loop.more == "no" and held.loop.iterations <= bound)


def _may_be_stored_over(reading: Reading, held: Held) -> bool:
    """Return whether a loop may store over what it has kept: under keys that nobody knows, or as it is run again."""
    return held.last.unseen or _replaced(reading, held) != "no"


def _replaced(reading: Reading, held: Held) -> Fact:
    """Return whether a loop, run once more, stores to the same few places; "may" where nobody knows how many these are.

    There is one for each of its iterations: all graphs of one run are kept. Those of the parts of one step are few.
    """
    if not any(_is_as_full(reading, held, other) for other in _of_places(reading)[_home(held)]):
        return "no"
    if held.loop.length is not None:
        return "yes" if held.loop.length <= LARGE_BOUND else "no"
    return "yes" if _of_one_step(reading, held.loop) else "may"


def _goes_on_full(reading: Reading, held: Held) -> bool:
    """Return whether a loop stores to the places that it filled when it was run before."""
    return any(other is not held and _is_as_full(reading, other, held) for other in _of_places(reading)[_home(held)])


def _home(held: Held) -> tuple[str, Span]:
    return held.holder, held.loop.event.at.span


@remembered
def _of_places(reading: Reading) -> dict[tuple[str, Span], list[Held]]:
    """Return what holders keep in the runs of each loop."""
    return grouped((_home(held), held) for held in reading.held)


def _is_as_full(reading: Reading, held: Held, other: Held) -> bool:
    """Return whether a holder keeps, in another run of the loop, no fewer graphs than at the end of this one, the same
    number in each iteration, each of them of one iteration alone.

    What an iteration stores under a key may be left out of what it keeps.
    """
    if other.loop.start < held.loop.start or min(other.nodes) > 2 or not iteration_in(other.last.at, other.loop):
        return False
    most, counts = len(held.nodes[max(held.nodes)]), set(map(len, other.nodes.values()))
    if len(counts) > 1 or min(counts) < most - 1:
        return False
    reached = reading.iterations_reached(other.loop)
    built_in = [reached.get(node, 0).bit_count() for nodes in other.nodes.values() for node in nodes]
    # One iteration shows nothing of how many come, but what is still there from before.
    return max(built_in) <= 1 and (len(other.nodes) > 1 or (min(counts) <= most and 0 in built_in))


def _of_one_step(reading: Reading, loop: LoopRun) -> bool:
    """Return whether a loop goes over the parts of one step: an optimizer steps behind it, and in no run of it."""
    runs = [run for run in reading.loops.values() if run.event.at.span == loop.event.at.span]
    steps = [position for position, _ in reading.steps if position > loop.start]
    return bool(steps) and not any(run.holds(position) for position in steps for run in runs)


def _steps(held: Held, reached: dict[int, int], older: frozenset[int]) -> list[int]:
    """Return the iterations at which the graphs of more iterations were kept than before, those of `older` nodes left
    out; none where it lets go of any. Graphs that take the places of others are no more than these.
    """
    steps: list[int] = []
    before = count = 0
    for index in sorted(held.nodes):
        nodes = held.nodes[index]
        bits = _iterations(nodes - older, reached)
        if steps and (before & ~bits or index - 1 not in held.nodes):
            return []
        linked = any(reached.get(node, 0).bit_count() > 1 for node in nodes)
        if bits.bit_count() > max(before.bit_count(), 1) and (linked or len(nodes) > count):
            steps.append(index)
        before, count = bits, len(nodes)
    return steps


def _is_full(held: Held, steps: Sequence[int]) -> bool:
    """Return whether a holder has grown for the first iterations alone, as one that keeps the first five of them."""
    widest = max((after - before for before, after in zip(steps, steps[1:])), default=1)
    return max(held.nodes) - steps[-1] > widest


def _from_before(reading: Reading, held: Held) -> frozenset[int]:
    """Return the graphs of unknown values in what was stored before the loop: they are as old as it is, though the
    dry run learned of each of them in an iteration, from the first backward that reached it.
    """
    if iteration_in(held.last.at, held.loop):
        return frozenset()
    return frozenset(
        number for nodes in held.nodes.values() for number in nodes if reading.ledger.leads_anywhere(number)
    )


def _is_let_go(held: Held, group: list[Held]) -> bool:
    """Return whether whole iterations behind those in which a holder grew had nothing of earlier ones in it."""
    last = max(held.nodes)
    return (
        held.loop.every
        and last + 1 < held.loop.iterations
        and not any(other.holder == held.holder and max(other.nodes) > last for other in group)
    )


def _lets_go_later(held: Held, group: list[Held], reached: dict[int, int]) -> bool:
    """Return whether the same holder, stored by another line from then on, lets go of what it held: a ring that was
    filled.
    """
    last = max(held.nodes)
    kept = _iterations(held.nodes[last], reached)
    return any(
        other is not held
        and other.holder == held.holder
        and min(other.nodes) == last + 1
        and bool(kept & ~_iterations(other.nodes[max(other.nodes)], reached))
        for other in group
    )


def _iterations(nodes: Iterable[int], reached: dict[int, int]) -> int:
    """Return the iterations whose graphs some nodes reach, as bits."""
    bits = 0
    for node in nodes:
        bits |= reached.get(node, 0)
    return bits


def _growth(reading: Reading, held: Held, steps: list[int]) -> _Growth | None:
    """Return how a holder grows; None where its value does not come from what it held before."""
    last = steps[-1]
    before = held.nodes.get(_previous(held, last), set())
    now = held.nodes[last]
    reached = reading.graph_nodes(reading.ledger.ancestry(now))
    if not before & reached:
        return None
    onward = reading.below(source for node in now for source in reading.sources(node))
    chain = bool(before & onward) and not before & now
    older = reading.graph_nodes(reading.ledger.ancestry(before))
    return _Growth(held, chain, steps, reached, len(reached - older), _example(reading, held, older))


def _asks_itself(reading: Reading, held: Held) -> bool:
    """Return whether a store is guarded by a question to the very value that it replaces, as `if z < 0:` is where `z`
    was taken out of it: what it has stored once may answer that the other way for good.
    """
    guards = [decision for _, decision in reading.decisions if decision.governs(held.last.at.span)]
    indexed = ((decision, iteration_in(decision.at, held.loop)) for decision in guards)
    asking = [(one, held.nodes[index - 1]) for one, index in indexed if {index - 1, index} <= held.nodes.keys()]
    return bool(asking) and all(_asks_for(reading, decision, before) for decision, before in asking)


def _asks_for(reading: Reading, decision: Decision, held: set[int]) -> bool:
    """Return whether all that a condition asks for was taken out of held nodes."""
    asked = [reading.ledger.cuts[cut].nodes for cut in decision.cuts if cut in reading.ledger.cuts]
    return bool(asked) and all(any(_is_of(reading, node, held) for node in nodes) for nodes in asked)


def _may_be_walked_behind(reading: Reading, held: Held) -> bool:
    """Return whether a limit ended the way in a loop, or behind it, before a backward came: that was not seen."""
    return reading.ended == "budget" and not any(run.position > held.loop.start for run in reading.runs)


def _is_of(reading: Reading, node: int, held: set[int]) -> bool:
    """Return whether a node is a held one, or a view of it."""
    for _ in range(_VIEWS):
        event = reading.ledger.nodes.get(node)
        if node in held or event is None:
            return node in held
        if event.keeps != "no" or len(event.inputs) != 1:
            return False
        node = event.inputs[0]
    return False


def _of_themselves(reading: Reading, growths: list[_Growth]) -> list[_Growth]:
    """Return the growing holders that would grow even if the others' values were cut: the ones to fix."""
    kept: list[_Growth] = []
    growths = _told_once(growths)
    chains = [growth for growth in growths if growth.chain]
    for growth in growths:
        blocked: set[int] = set()
        doubled = False
        for other in chains:
            if other is growth or _place(other.held)[:3] == _place(growth.held)[:3]:
                continue
            if growth.chain and _same(growth, other):
                doubled = doubled or chains.index(other) < chains.index(growth)
            else:
                blocked.update(*other.held.nodes.values())
        if doubled:
            continue
        if blocked:
            around = reading.iterations_reached(growth.held.loop, frozenset(blocked))
            if len(_steps(growth.held, around, _from_before(reading, growth.held))) < 2:
                continue
        kept.append(growth)
    return kept


def _told_once(growths: list[_Growth]) -> list[_Growth]:
    """Return growing holders but those that only hold others."""
    return [one for one in growths if not _grows_within(one, [other for other in growths if _is_within(other, one)])]


def _grows_within(growth: _Growth, inner: Sequence[_Growth]) -> bool:
    """Return whether all that a holder has more in each iteration is in containers that it holds: those grow."""
    nodes = growth.held.nodes
    more = ((index, nodes[index] - nodes[before]) for before, index in itertools.pairwise(sorted(nodes)))
    parts = [one.held.nodes for one in inner]
    return bool(inner) and all(
        new <= frozenset().union(*(part.get(index, ()) for part in parts)) for index, new in more
    )


def _is_within(inner: _Growth, outer: _Growth) -> bool:
    """Return whether a holder is an element or attribute of another one that grows with the same loop."""
    same = inner.held.loop.id == outer.held.loop.id
    return same and inner.held.holder.startswith((f"{outer.held.holder}[", f"{outer.held.holder}."))


def _same(left: _Growth, right: _Growth) -> bool:
    return left.held.nodes == right.held.nodes


def _previous(held: Held, index: int) -> int:
    return max((other for other in held.nodes if other < index), default=0)


def _example(reading: Reading, held: Held, older: set[int]) -> Node | None:
    """Return the newest node of an earlier iteration that is kept: where the kept graph ends."""
    candidates = [node for node in older if reading.iteration_of(node, held.loop)]
    return reading.ledger.nodes[max(candidates)] if candidates else None


def _explained(reading: Reading, growth: _Growth) -> bool:
    """Return whether a failing backward or a growing chain already tells this story."""
    failed = (problem.node for _, _, problem in failing([reading], Problem) if problem.node is not None)
    if any(node.id in growth.reached for node in failed):
        return True
    runs = ((run, iteration_in(run.at, growth.held.loop)) for chain in reading.growing_chains for run in chain.runs[1:])
    return any(
        index < now and not nodes.isdisjoint(run.executed)
        for run, now in runs
        for index, nodes in growth.held.nodes.items()
    )


def _by_depth(reading: Reading, growth: _Growth) -> bool:
    """Return whether each iteration applies other parameters: a loop over layers, part of one forward pass.

    One that runs a backward itself, in each iteration, is a loop over models that are trained one after the other.
    """
    loop = growth.held.loop
    trained = {iteration_in(run.at, loop) for run in reading.runs if run.backward.call == "backward"}
    if trained.issuperset(growth.steps):
        return False
    if loop.parts or _each_its_own(reading, loop, growth.reached):
        return True
    # Between two layers with parameters there may be some that have none.
    return loop.end is not None and _each_its_own(reading, loop, reading.nodes_between(loop.start, loop.end))


def _each_its_own(reading: Reading, loop: LoopRun, nodes: Iterable[int]) -> bool:
    """Return whether several iterations of a loop compute some nodes by parameters, and none by those of another."""
    parameters = {number for number, leaf in reading.ledger.leaves.items() if leaf.parameter}
    used: dict[int, set[int]] = {}
    for number in nodes:
        if own := parameters.intersection(reading.sources(number)):
            used.setdefault(reading.iteration_of(number, loop), set()).update(own)
    used.pop(0, None)
    return len(used) > 1 and sum(map(len, used.values())) == len(set().union(*used.values()))


def _walked_and_let_go(
    reading: Reading, held: Held, run: Run, old: set[int], reached: Mapping[int, Collection[int]]
) -> bool:
    """Return whether a backward runs through what was held, and nothing that is held after it leads there.

    `old` are the nodes that were held at the end of an iteration, `reached` those of several iterations.
    """
    walked = _walked(reading, run, old)
    walked -= {node for node in walked if _walked_before(reading, run, node)}
    if not walked:
        return False
    # A backward in the last iteration through what all of them made: the loop was one window.
    loop = held.loop
    window = loop.more == "no" and not any(
        walked & other.executed.keys() for other in reading.runs if other.position < run.position
    )
    after = [i for i in reached if held.positions[i] > run.position and not (window and i == loop.iterations)]
    return all(walked.isdisjoint(reached[i]) for i in after)


def _walked_before(reading: Reading, run: Run, number: int) -> bool:
    """Return whether a node stands for a value of unknown code that an earlier backward has come to: data that is used
    again in each epoch, and no graph that was kept for this backward.
    """
    node = reading.ledger.nodes.get(number)
    if node is None or node.graph_of is None:
        return False
    return any(number in other.executed for other in reading.runs if other.position < run.position)


@remembered
def _backwarded_later(reading: Reading, held: Held) -> bool:
    """Return whether what was held is there for a later backward.

    That is so where a backward runs through it and the holder then lets it go, where it is used as a constant
    in a later loss, and where it is handed to somebody who may still call backward.
    """
    indexes = sorted(held.nodes)
    # Long loops are judged by their beginning and their end.
    chosen = sorted({*indexes[:_SAMPLES], *indexes[-_SAMPLES:]})
    reached = {index: reading.below(held.nodes[index]) for index in chosen}
    return any(_is_for_later(reading, held, index, reached) for index in chosen)


def _is_for_later(reading: Reading, held: Held, index: int, reached: Mapping[int, Set[int]]) -> bool:
    """Return whether what one iteration held is there for a later backward."""
    old = {node for node in reached[index] if 0 < reading.iteration_of(node, held.loop) <= index}
    later = [run for run in reading.runs if run.position > held.positions[index]]
    walking = [run for run in later if _walked_and_let_go(reading, held, run, old, reached)]
    if walking and not _aimed_at(reading, held, reached[index]):
        return True
    if any(_asks_for_a_leaf(reading, run, reached[index]) for run in walking):
        return True
    if _asked_for(reading, held.nodes[index], later):
        return True
    return all(reading.ledger.is_freed(node) == "no" for node in old) and _handed_on(reading, held, index, old)


def _handed_on(reading: Reading, held: Held, index: int, old: set[int]) -> bool:
    """Return whether what an iteration held is a constant in a later loss, or is handed to somebody else; `old` are the
    nodes that it and earlier ones built.
    """
    position, direct = held.positions[index], held.nodes[index]
    used = _constant_later(reading, direct, position)
    # What is used so and kept on is a queue or a running value that was to be cut where it is stored.
    if used is not None and not _kept_on(reading, held.holder, old, used):
        return True
    given = _last_given(reading)
    return any(given.get(node, position) > position for node in direct)


@remembered
def _last_given(reading: Reading) -> dict[int, int]:
    """Return the nodes and leaves of the graphs that are handed to somebody else, each with the last position of such
    an event.
    """
    found: dict[int, int] = {}
    for position, escape in reversed(reading.escapes):
        ahead = [*escape.nodes]
        while ahead:
            node = ahead.pop()
            if node not in found:
                found[node] = position
                ahead += reading.sources(node)
    return found


@remembered
def _begun_anew(reading: Reading, held: Held) -> bool:
    """Return whether a short loop of a known length makes leaves of what it computed of the held values.

    It is an unrolled computation whose steps were cut apart: what it carries is gone behind it, and the cut is told.
    """
    if held.loop.more != "no" or held.loop.iterations > LARGE_BOUND:
        return False
    leaves = [leaf for leaf in reading.ledger.leaves.values() if leaf.cuts and iteration_in(leaf.at, held.loop)]
    cut_off = behind(reading, [cut for leaf in leaves for cut in leaf.cuts])
    earlier = sorted(held.nodes)[:-1]
    return bool(earlier) and all(held.nodes[index] & cut_off for index in earlier)


def _kept_on(reading: Reading, holder: str, nodes: set[int], position: int) -> bool:
    """Return whether a holder still keeps some of these nodes at the end of an iteration after a position."""
    for held in reading.held:
        later = [index for index in sorted(held.nodes) if held.positions[index] > position]
        if held.holder == holder and later:
            # Long loops are judged by their beginning and their end.
            if any(nodes & reading.below(held.nodes[index]) for index in {later[0], later[-1]}):
                return True
    return False


def _walked(reading: Reading, run: Run, nodes: set[int]) -> set[int]:
    """Return the nodes that a backward runs through; not those at which it only takes a gradient."""
    executed: Set[int] = run.executed.keys()
    if isinstance(run.problem, Stale) and not run.backward.inputs:
        # It raises for what was changed, which says nothing of what was kept: it was to walk all of that.
        executed = reading.below(run.backward.root_nodes)
    walked = nodes & executed
    if run.backward.inputs and not run.failed:
        # What the differentiated value was made of beside the inputs was kept for it, whether it is walked or not.
        walked |= nodes.intersection(_beside_the_inputs(reading, run))
    for target in walked & set(run.backward.inputs or ()):
        if executed.isdisjoint(reading.sources(target)):
            walked.discard(target)
    return walked


@remembered
def _beside_the_inputs(reading: Reading, run: Run) -> array[int]:
    """Return the nodes of the graph that a backward starts from that are no part of that of its inputs.

    Eight bytes for each: of many backward calls the sets would fill the memory.
    """
    whole = reading.below(run.backward.root_nodes)
    return array("Q", whole - reading.below(run.backward.inputs or ()))


def _aimed_at(reading: Reading, held: Held, reached: Iterable[int]) -> bool:
    """Return whether each iteration takes the gradient at the held value itself, and nothing trained lies behind it.

    An input that is changed step by step by its own gradient: a later backward through all the steps is an
    accident, not what they were kept for. A leaf that several steps use, as a learned rate, is what they are kept for,
    and so are parameters that were cut off where the first value was copied from them.
    """
    direct = set().union(*held.nodes.values())
    if not any(direct & set(run.backward.inputs or ()) for run in reading.runs):
        return False
    leaves = reading.ledger.leaves
    if any(_is_trained(reading, leaves[number]) for number in reached if number in leaves):
        return False
    used: dict[int, int] = {}
    built = ((number, reading.iteration_of(number, held.loop)) for number in reached)
    uses = ((one, at) for number, at in built if at for one in reading.sources(number) if one in leaves)
    return all(used.setdefault(leaf, iteration) == iteration for leaf, iteration in uses)


def _asks_for_a_leaf(reading: Reading, run: Run, reached: Collection[int]) -> bool:
    """Return whether a call through what was held takes the gradient at a leaf behind it: what was computed of that
    leaf was kept for this call, whoever changes the leaf by it.
    """
    return any(number in reached for number in run.backward.inputs or () if number in reading.ledger.leaves)


def _asked_for(reading: Reading, kept: set[int], later: Iterable[Run]) -> bool:
    """Return whether a later call takes the gradient at what was held, each of which has no graph but what an iteration
    made of leaves that nothing trains: points that are kept to be differentiated by, and have to require grad for it.
    """
    asked = any(not kept.isdisjoint(run.backward.inputs or ()) for run in later)
    return asked and all(_of_untrained_leaves(reading, node) for node in kept)


def _of_untrained_leaves(reading: Reading, node: int) -> bool:
    """Return whether one iteration made the whole graph of a node, of leaves that nothing trains."""
    below, leaves, nodes = reading.below([node]), reading.ledger.leaves, reading.ledger.nodes
    if any(_is_trained(reading, leaves[number]) for number in below if number in leaves):
        return False
    return len({nodes[number].at.iteration for number in below if number in nodes}) == 1


def _is_trained(reading: Reading, leaf: Leaf) -> bool:
    """Return whether a leaf is a parameter, or one that an optimizer has or that was made of such."""
    stepped = {leaf for optimizer in reading.optimizers.values() for leaf in optimizer.params}
    return leaf.parameter or leaf.id in stepped or not stepped.isdisjoint(behind(reading, leaf.cuts))


def _constant_later(reading: Reading, direct: set[int], position: int) -> int | None:
    """Return where held values, detached after this, go into the graph of a loss; None where they do not."""
    for place, cuts in reading.constants:
        if place > position and any(
            cut.how in ("detach", "data") and direct & reading.below(cut.nodes)
            for cut in with_sources(reading, cuts).values()
        ):
            return place
    return None


@remembered
def _store(reading: Reading, growth: _Growth) -> Site:
    """Return the line that stores, or, where a value is computed from its own old value in several lines, the
    first.
    """
    held = growth.held
    index = growth.steps[-1]
    before = held.nodes.get(_previous(held, index), set())
    start = held.positions.get(_previous(held, index))
    if growth.chain and start is not None:
        stored = held.holds[index].at
        for bind in reading.binds_in(held.holder, start, held.positions[index]):
            if bind.node is None or bind.node in before or bind.at.stack != stored.stack:
                continue
            if before & reading.below([bind.node]):
                return bind.at
    return held.holds[index].at


def _changed_in_place(reading: Reading, growth: _Growth) -> bool:
    """Return whether the statement that stores is an op that writes into the held tensor, and nothing is bound
    there.
    """
    place = growth.held.last.at
    binds = reading.binds_in(growth.held.holder, 0, len(reading.tape.events))
    bound = any(bind.at.line == place.line for bind in binds)
    return not bound and any((one.at.file, one.at.line) == (place.file, place.line) for _, one in reading.changes)


@remembered
def _old_nodes(reading: Reading, growth: _Growth) -> list[Node]:
    """Return the kept nodes of iterations before the last."""
    last = growth.steps[-1]
    return [
        reading.ledger.nodes[node] for node in growth.reached if 0 < reading.iteration_of(node, growth.held.loop) < last
    ]


@remembered
def _linked(reading: Reading, growth: _Growth) -> bool:
    """Return whether a kept node is more than what unknown code may have computed, and so is what leads to it."""
    kept = set().union(*growth.held.nodes.values())
    sure = search(kept, lambda number: reading.sources(number) if number in reading.confirmed else ())
    return not reading.confirmed.isdisjoint({node.id for node in _old_nodes(reading, growth)}.intersection(sure))


@remembered
def _saved(reading: Reading, growth: _Growth) -> bool:
    """Return whether kept nodes hold activations that would be freed without them; parameters live on anyway."""
    scalars = _scalars(reading, growth)
    due = _freed_after(reading, growth)
    for node in _old_nodes(reading, growth):
        if reading.iteration_of(node.id, growth.held.loop) + due.get(node.at.span, 0) > growth.held.loop.iterations:
            # The backward that frees those of several iterations has not come to its own yet.
            continue
        if _freed_in_loop(reading, growth, node) is not None:
            # Where unknown code stands between, it may be another graph that the backward frees.
            continue
        if node.keeps == "no" or node.id in scalars:
            continue
        for saved in node.saved:
            leaf = reading.ledger.leaves.get(saved.of) if saved.of is not None else None
            if leaf is None or iteration_in(leaf.at, growth.held.loop):
                return True
        if not node.saved and node.keeps == "may":
            return True
    return False


def _freed_after(reading: Reading, growth: _Growth) -> dict[Span, int]:
    """Return for each line after how many iterations, at most, what it built was freed while the loop still ran."""
    found: dict[Span, int] = {}
    for node in _old_nodes(reading, growth):
        run = _freed_in_loop(reading, growth, node)
        if run is not None:
            waited = iteration_in(run.at, growth.held.loop) - reading.iteration_of(node.id, growth.held.loop)
            found[node.at.span] = max(waited, found.get(node.at.span, 0))
    return found


@remembered
def _of_one_forward(reading: Reading, growth: _Growth) -> bool:
    """Return whether all that is kept was computed from graphs that were there before the loop, and from no parameter:
    the losses of parts of one batch, whose graph is there for as long as the function runs anyway.
    """
    inside = [number for number in growth.reached if reading.iteration_of(number, growth.held.loop)]
    sources = [reading.sources(number) for number in inside]
    return bool(sources) and all(one and reading.ledger.leaves.keys().isdisjoint(one) for one in sources)


def _are_numbers(reading: Reading, growth: _Growth) -> bool:
    """Return whether what is kept is known to be single numbers."""
    roots = {root.node for run in reading.runs for root in run.backward.roots}
    known = roots | _scalars(reading, growth)
    return all(node in known for nodes in growth.held.nodes.values() for node in nodes)


def _scalars(reading: Reading, growth: _Growth) -> set[int]:
    """Return the kept nodes that are computed of nothing but roots of backward calls.

    Such a root is a single number, and so is what arithmetic makes of it: what its nodes save is a few bytes.
    """
    roots = {root.node for run in reading.runs if run.backward.call == "backward" for root in run.backward.roots}
    scalars: set[int] = set()
    for number in sorted(growth.reached):
        sources = reading.ledger.nodes[number].inputs
        if sources and all(source in roots or source in scalars for source in sources):
            scalars.add(number)
    return scalars


@remembered
def _freeing(reading: Reading, growth: _Growth) -> Span | None:
    """Return where a backward has freed the kept nodes."""
    for node in sorted(_old_nodes(reading, growth), key=lambda node: -node.id):
        run = _freed_in_loop(reading, growth, node)
        if run is not None:
            return run.at.span
    return None


def _freed_in_loop(reading: Reading, growth: _Growth, node: Node) -> Run | None:
    """Return the backward that freed a node while the loop still ran."""
    backward = reading.ledger.freed_by(node.id)
    run = reading.run_of[backward.id] if backward is not None else None
    end = growth.held.loop.end
    return run if run is not None and (end is None or run.position < end) else None


def _help(reading: Reading, growth: _Growth, name: str, kept: bool, backwarded: bool) -> str:
    holder = quoted(name, "it")
    if growth.chain and not backwarded and _changed_in_place(reading, growth):
        return f"make this change under `torch.no_grad()`: {holder} then keeps no graph"
    if growth.chain:
        if backwarded or not kept:
            numbers = _are_numbers(reading, growth)
            use = ", or use its number: `.detach()` or `.item()`" if numbers else ": `.detach()`"
            return f"detach what comes from the iteration{use} where {holder} is computed"
        return f"detach {holder} before the next iteration uses it{_unless_trained(reading, growth.held.loop)}"
    if backwarded and not _are_numbers(reading, growth):
        return f"store a detached tensor in {holder}, or empty it each iteration where a loss reads it from there"
    if backwarded or not kept:
        return f"store the number or a detached tensor in {holder}: `.item()` or `.detach()`"
    return f"store `.detach()` of the value in {holder}{_unless_trained(reading, growth.held.loop)}"


def _unless_trained(reading: Reading, loop: LoopRun) -> str:
    """Return the advice to record no graph, for a loop that no backward runs in, whoever calls it."""
    if loop.event.trains or reading.runs_in(loop):
        return ""
    return ", or run the loop under `torch.no_grad()` if nothing in it is trained"
