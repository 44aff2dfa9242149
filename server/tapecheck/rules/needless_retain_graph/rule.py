"""TAPE301, needless-retain-graph."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tapecheck.rules.certainty import rest_on
from tapecheck.rules.finding import Finding
from tapecheck.rules.missing_create_graph.rule import gradients_taken
from tapecheck.rules.needless_retain_graph.facts import NeedlessRetainGraphFacts
from tapecheck.rules.reading import Reading, Run, going_on, grouped, remembered
from tapecheck.rules.reduction import joined
from tapecheck.rules.rule import Rule
from tapecheck.rules.words import call_text
from tapecheck.tape import Assumption, Ledger, Node, Span
from tapecheck.tape.ledger import UNKNOWN_SOURCE

_WEIGHING = frozenset(("MulBackward0", "DivBackward0", "PowBackward0"))


class NeedlessRetainGraph(Rule):
    """Retain_graph=True where nothing traverses the graph again."""

    code = "TAPE301"
    name = "needless-retain-graph"
    severity = "info"
    needless = True
    of_absence = True
    needs = frozenset(("rounds",))
    summary = "retain_graph=True where no later backward runs through this graph"

    def judge(self, readings: Sequence[Reading]) -> list[Finding]:
        # Where a gradient is taken the argument is not one too many, it is the wrong one.
        calls = _Calls(gradients_taken(readings))
        ending = [reading for reading in readings if not reading.tape.beyond]
        for reading in [*ending, *going_on(readings)]:
            calls.add(reading)
        return [self._finding(run, calls.supposed.get(run.at.span)) for run in calls.needless()]

    def _finding(self, run: Run, supposed: Assumption | None) -> Finding:
        home = run.at.span
        argument = run.backward.retain_span
        message = "unnecessary `retain_graph=True`" if _always(run) else "unnecessary `retain_graph` argument"
        finding = Finding(
            self.code, self.name, self.severity, home, message,
            "remove the argument: same gradients, and the graph's memory is released during this call",
            (), True, True,
            facts=NeedlessRetainGraphFacts(argument=argument, call=run.backward.call),
            notes=(f"no later backward uses the tensors saved by the graph of {call_text(run.backward)}",),
        )  # fmt: skip
        if supposed is not None:
            rest_on(finding, supposed)
        return finding


def _in_chains(reading: Reading) -> set[Span]:
    """Return the places of the backwards that walk a growing chain."""
    return {run.at.span for chain in reading.growing_chains for run in chain.runs}


class _Calls:
    """The places of retaining calls, and whether any of them is `needed`."""

    def __init__(self, needed: set[Span]) -> None:
        self.needed = needed
        self.elsewhere: set[Span] = set()
        """Those with an argument that no call writes itself (that of a `functools.partial`, `**options`): it may go for
        several calls."""
        self.seen: dict[Span, Run] = {}
        self.supposed: dict[Span, Assumption] = {}
        """What is taken for granted of hidden code that computes a part of a loss, by the place of the call."""

    def add(self, reading: Reading) -> None:
        """Note what one tape shows of them."""
        chains = _in_chains(reading)
        whole = reading.complete or reading.tape.left_over
        retains = [run for run in reading.runs if run.backward.retain_argument in ("yes", "may")]
        self.elsewhere |= {run.at.span for run in retains if run.backward.retain_span is None}
        for span, runs in grouped((run.at.span, run) for run in retains).items():
            if span in self.needed:
                continue
            if span in chains or not whole or not _all_needless(reading, runs):
                self.needed.add(span)
                continue
            if span not in self.supposed and (supposed := _supposed(reading, runs)) is not None:
                self.supposed[span] = supposed
            if reading.complete and not (span in self.seen and _always(self.seen[span])):
                self.seen[span] = max(runs, key=_always)

    def needless(self) -> list[Run]:
        """Return a call of each place at which none is needed."""
        needed = self.needed | self.elsewhere if self.elsewhere & self.needed else self.needed
        return [run for span, run in self.seen.items() if span not in needed]


def _always(run: Run) -> bool:
    return run.backward.retain_argument == "yes"


@dataclass(frozen=True, slots=True)
class _Unknown:
    """What a backward walks that is not known: nodes `made` here, oldest first, which hidden code has a part in, and
    whether some is `foreign`, of a graph that was there before, such as that of an argument. A graph is `weighed` by
    something that nobody knows.
    """

    made: tuple[int, ...]
    foreign: bool
    weighed: Node | None

    def __bool__(self) -> bool:
        return self.foreign or bool(self.made) or self.weighed is not None


@remembered
def _unknown(reading: Reading) -> dict[int, _Unknown]:
    """Return by its position what each backward walks that is not known, for those that walk such nodes."""
    found = ((run.position, _unknown_of(reading.ledger, run)) for run in reading.runs)
    return {position: unknown for position, unknown in found if unknown}


def _unknown_of(ledger: Ledger, run: Run) -> _Unknown:
    nodes = ledger.nodes
    foreign = run.backward.open and not run.backward.roots
    foreign = foreign or any(root.node is None and root.graph == "may" for root in run.backward.roots)
    walked: Iterable[int] = run.executed
    if run.problem is not None:
        walked = ledger.ancestry(run.backward.root_nodes)
    # What unknown code computed from a graph may have another one besides.
    linked = {node for node in walked if node in nodes and nodes[node].linked != "yes"}
    sources = {node for node in linked if nodes[node].op == UNKNOWN_SOURCE}
    using = [nodes[node] for node in walked if node in nodes and not sources.isdisjoint(nodes[node].inputs)]
    weighed = [node for node in using if _scales(node)]
    foreign = foreign or len(weighed) < len(using)
    foreign = foreign or any(ledger.leads_anywhere(node) for node in walked if node not in linked)
    return _Unknown(tuple(sorted(linked - sources)), foreign, weighed[0] if weighed else None)


def _scales(node: Node) -> bool:
    """Return whether an operation only weighs one graph by something that nobody knows, such as a setting."""
    return node.op in _WEIGHING and len(node.inputs) > 1


def _all_needless(reading: Reading, runs: list[Run]) -> bool:
    """Return whether nothing after any run of a retaining call depends on what it retained."""
    if any(run.backward.create != "no" or run.problem is not None for run in runs):
        return False
    if any(run.backward.id in reading.needed for run in runs) or _perhaps_walked_elsewhere(reading, runs):
        return False
    if _lets_another_retain(reading, runs) or _joined_with_another(reading, runs):
        return False
    if not all(_walked_beyond(reading).isdisjoint(run.executed) for run in runs):
        return False
    return not any(_built_before(reading, run) for run in runs)


def _lets_another_retain(reading: Reading, runs: list[Run]) -> bool:
    """Return whether a later backward elsewhere retains the graph of compiled code that one of these walks.

    Compiled code whose backward first ran without the flag may refuse it from then on.
    """
    regions = reading.ledger.regions
    if not regions:
        return False
    walks = [run for run in reading.runs if run.backward.retain != "no" and not regions.keys().isdisjoint(run.executed)]
    places = {run.at.span for run in runs}
    first = min((run.position for run in walks if run.at.span in places), default=None)
    return first is not None and any(run.position > first and run.at.span not in places for run in walks)


def _joined_with_another(reading: Reading, runs: list[Run]) -> bool:
    """Return whether a later backward walks another output of a forward whose outputs the wrapper has joined."""
    walked = [(run, reading.ledger.ancestry(run.backward.root_nodes)) for run in reading.runs if joined(reading)]
    return any(
        one.position > run.position and not nodes.keys().isdisjoint(call.outputs)
        for call in joined(reading)
        for run in runs
        if not run.executed.keys().isdisjoint(call.outputs)
        for one, nodes in walked
    )


@remembered
def _walked_beyond(reading: Reading) -> set[int]:
    """Return the nodes that hold anything for a failing backward, which stops before it comes to all of them, or for
    what unknown code has got: it may be called again.
    """
    starts = [node for run in reading.runs if run.problem is not None for node in run.backward.root_nodes]
    starts += [node for _, escape in reading.escapes for node in escape.nodes]
    return _keeping(reading, starts)


def _built_before(reading: Reading, run: Run) -> bool:
    """Return whether unknown code is called after a backward that may walk what it has built of that graph before."""
    starts = [node for at, escape in reading.built_by_unknown if at > run.position for node in escape.nodes]
    return bool(starts) and not _keeping(reading, starts).isdisjoint(run.executed)


def _keeping(reading: Reading, starts: Iterable[int]) -> set[int]:
    """Return the nodes below some nodes that hold anything for a backward."""
    nodes = reading.ledger.nodes
    return {node for node in reading.graph_nodes(reading.below(starts)) if nodes[node].keeps != "no"}


def _perhaps_walked_elsewhere(reading: Reading, runs: list[Run]) -> bool:
    """Return whether a later backward, or unknown code, may walk what these calls walk of unknown origin."""
    # Two values out of unknown code may have been computed from a third.
    unknown = _unknown(reading)
    last = max([*unknown, *_given_away(reading)], default=0)
    return any(
        run.position < last if unknown[run.position].foreign else _may_share(reading, run)
        for run in runs
        if run.position in unknown
    )


@remembered
def _given_away(reading: Reading) -> tuple[int, ...]:
    """Return the positions at which graphs that nobody knows leave what the tape sees."""
    anywhere = reading.ledger.leads_anywhere
    return tuple([at for at, escape in reading.escapes if escape.open or any(map(anywhere, escape.nodes))])


def _may_share(reading: Reading, run: Run) -> bool:
    """Return whether a later backward walks what hidden code had made before one was run, besides what that walks.

    What it makes later has a graph of what it made before only if it keeps that; another method of it may walk that.
    """
    if not run.backward.accumulates or _of_hidden_state(reading, run):
        # Who asks for gradients by name, hands functions over that share a graph more often.
        return run.position < max([*_unknown(reading), *_given_away(reading)])
    if any(at > run.position and escape.open for at, escape in reading.built_by_unknown):
        return True
    after = reading.first_built(run.position)
    for position, other in _unknown(reading).items():
        older = other.made[: bisect_left(other.made, after)] if position > run.position else ()
        if position > run.position and (other.foreign or not run.executed.keys() >= set(older)):
            return True
    return False


def _of_hidden_state(reading: Reading, run: Run) -> bool:
    """Return whether hidden code gave some of the graph out of itself: a model may carry a state from call to call.

    What computes a loss of what it is given keeps nothing, most often.
    """
    nodes = reading.ledger.nodes
    return not all(nodes[made].inputs for made in _unknown(reading)[run.position].made)


def _supposed(reading: Reading, runs: list[Run]) -> Assumption | None:
    """Return what is taken for granted of hidden code where it may walk, later, what it has made before."""
    unknown = _unknown(reading)
    last = max([*unknown, *_given_away(reading)], default=0)
    end = max(run.position for run in runs)
    for position, event in reading.assumed:
        if event.kind == "batches" and position < end:
            return Assumption("batches", event.at.span, event.text)
    for run in runs:
        mine = unknown.get(run.position)
        if mine is None or run.position >= last:
            continue
        if mine.made:
            node = reading.ledger.nodes[mine.made[0]]
            text = f"`{node.graph_of or node.op}` goes into no graph that is walked later"
            return Assumption("result", node.at.span, text)
        if mine.weighed is not None:
            return Assumption("value", mine.weighed.at.span, "what the loss is weighed by has no graph")
    return None
