"""Hovers on a backward call and on its `retain_graph=True`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from tapecheck.lsp.telling import (
    CUTS,
    MAX_NAMES,
    Telling,
    count,
    fate_of,
    growing,
    iteration,
    most_to_tell,
    page,
    walked,
)
from tapecheck.rules.backward_twice.rule import BackwardTwice
from tapecheck.rules.backward_without_graph.rule import BackwardWithoutGraph
from tapecheck.rules.growing_chain.rule import GrowingChain
from tapecheck.rules.missing_create_graph.rule import MissingCreateGraph
from tapecheck.rules.reading import Reading, Run, with_sources
from tapecheck.rules.stale_saved_tensor.rule import StaleSavedTensor
from tapecheck.rules.words import freed_text, join, when
from tapecheck.rules.words import line as line_of
from tapecheck.tape import Backward, Problem, Span

_FAILING = (BackwardTwice.code, StaleSavedTensor.code, BackwardWithoutGraph.code, MissingCreateGraph.code)


def _call(telling: Telling, span: Span, backward: Backward) -> str:
    text = telling.excerpt(span) or telling.short_call(span)
    if text:
        return f"`{text}`"
    return "`.backward()`" if backward.call == "backward" else "`autograd.grad`"


def _failure(telling: Telling, reading: Reading, problem: Run, verb: str, span: Span) -> str:
    """Return when a backward call fails, and why, or which rule says so."""
    time = iteration(problem.at)
    text = f"{verb}{' on ' + time if time else ''}"
    rule = next((code for code in _FAILING if telling.reported(span, code)), "")
    return text + (f" ({rule})" if rule else f": {_problem(telling, reading, problem)}")


def explain_backward(telling: Telling, span: Span) -> str:
    """Return the hover on a backward call; why it fails is left to the finding where one says so."""
    tapes = [(reading, reading.runs_by_site[span]) for reading in telling.readings if span in reading.runs_by_site]
    reading, runs = most_to_tell(tapes)
    first = runs[0]
    call = _call(telling, span, first.backward)
    problem = next((run for run in runs if run.failed), None)
    head = f"**{call}** {_walk(telling, reading, first)}"
    details = []
    if problem is not None:
        text = _failure(telling, reading, problem, fate_of(tapes) or "fails", span)
        if problem is first:
            head = f"**{call}** {text}"
        else:
            details.append(f"**{text}**")
    if problem is not first:
        details += [_gradients(telling, reading, first), _frees(telling, reading, first)]
    if not telling.reported(span, GrowingChain.code):
        good = itertools.takewhile(lambda run: run is not problem, runs)
        details += _course([len(reading.graph_nodes(run.executed)) for run in good], first)
    return page(head, details)


def _course(counts: list[int], first: Run) -> list[str]:
    """Return how the number of nodes that a call walks develops, where it is seen to."""
    if listed := growing(counts):
        return [f"walks {listed} nodes in successive iterations: the graph grows"]
    if len(counts) > 1 and len(set(counts[1:])) == 1 and counts[0] != counts[1]:
        return [f"from the second time on: {count(counts[1], 'node')}"]
    return ["the same in every iteration"] if len(counts) > 1 and len(set(counts)) == 1 and first.at.iteration else []


def _walk(telling: Telling, reading: Reading, run: Run) -> str:
    backward = run.backward
    nodes = walked(reading, run)
    if not nodes:
        if any(root.graph == "may" for root in backward.roots):
            return "starts from a tensor whose graph the dry run cannot see"
        return "walks no nodes: it starts from a leaf"
    built = telling.lines((node.at for node in nodes), run.at.line)
    end = "and frees them"
    if backward.create == "yes":
        end = "and builds a graph of the gradients (`create_graph=True`)"
    elif backward.retain == "yes":
        end = "and keeps them (`retain_graph=True`)"
    elif backward.retain == "may":
        end = "and frees them, unless `retain_graph` is true"
    return f"walks {count(len(nodes), 'node')} built on {built} {end}"


def _gradients(telling: Telling, reading: Reading, run: Run) -> str:
    reached = [node for node in run.executed if node in reading.ledger.leaves]
    if not run.backward.accumulates:
        asked = len(run.backward.inputs or ())
        return f"returns {count(asked, 'gradient')} and leaves every `.grad` alone" if asked else ""
    if not reached:
        return "no parameter gets a gradient" if not _unseen(telling, run) else ""
    return f"accumulates `.grad` of {telling.leaves(reading, reached)}"


def _unseen(telling: Telling, run: Run) -> bool:
    return any(root.graph == "may" for root in run.backward.roots)


def _frees(telling: Telling, reading: Reading, run: Run) -> str:
    nodes = walked(reading, run)
    return telling.saved(nodes) if nodes else ""


def _problem(telling: Telling, reading: Reading, run: Run) -> str:
    problem = run.problem
    assert problem is not None
    if problem.kind == "no-graph":
        root = run.backward.roots[problem.root]
        named = f"`{root.name}`" if root.name else "the tensor"
        cuts = [
            f"{CUTS.get(cut.how, cut.how)} on {line_of(cut.at.span, run.at.span)}"
            for cut in with_sources(reading, root.cuts).values()
        ]
        why = f" (cut by {join(list(dict.fromkeys(cuts))[:MAX_NAMES])})" if cuts else ""
        return f"{named} has no graph{why}"
    if problem.kind == "unused":
        return "an input is not part of the graph"
    return _node_problem(telling, reading, run, problem)


def _node_problem(telling: Telling, reading: Reading, run: Run, problem: Problem) -> str:
    assert problem.node is not None
    built = f"{telling.op_alone(problem.node)} ({line_of(problem.node.at.span, run.at.span)}"
    built += f"{when(problem.node.at, run.at)})"
    if problem.kind in ("freed", "region") and problem.freed_by is not None:
        freeing = reading.run_of[problem.freed_by.id]
        return f"what {built} saved was freed by {freed_text(freeing, run)}"
    if problem.kind == "donated" and problem.freed_by is not None:
        freeing = reading.run_of[problem.freed_by.id]
        on = line_of(freeing.at.span, run.at.span)
        return f"{built} is compiled, its backward for the call on {on}, which retained nothing"
    if problem.kind == "donated":
        return f"{built} is compiled for any size, its backward before it was called"
    if problem.changed_by is not None:
        change = problem.changed_by
        name = f"`{change.name}`" if change.name else "a tensor"
        return (
            f"{name}, saved by {built}, was changed in place by `{change.how}` on "
            f"{line_of(change.at.span, run.at.span)}{when(change.at, run.at)}"
        )
    return f"{built} cannot be traversed"


def explain_retain(telling: Telling, span: Span) -> str:
    """Return the hover on `retain_graph`: which calls need it, or that none does."""
    needing: list[str] = []
    own: list[Run] = []
    growing, whole = False, True
    for reading in telling.readings:
        here = [run for run in reading.runs if run.backward.retain_span == span]
        if here:
            own += here
            whole = whole and reading.complete
            ids = {run.backward.id for run in here}
            growing = growing or not ids.isdisjoint(_chained(reading))
            needing += _needed_by(telling, reading, ids, span)
    details = list(dict.fromkeys(needing))[:MAX_NAMES]
    if any(run.backward.create == "yes" for run in own):
        head = "**`retain_graph`** is implied by `create_graph=True`"
    elif details:
        head = f"**`retain_graph`** is needed: {details.pop(0)}"
    elif whole:
        head = "**`retain_graph=True`** is unnecessary: no later backward uses this graph"
    else:
        head = "**`retain_graph`**: the dry run sees no later backward that uses this graph"
    if growing and not any(telling.reported(run.at.span, GrowingChain.code) for run in own):
        details.append("each backward walks the graphs of all earlier iterations: slower every time")
    return page(head, details)


def _chained(reading: Reading) -> set[int]:
    """Return the backwards that walk growing chains."""
    return {run.backward.id for chain in reading.growing_chains for run in chain.runs}


def _needed_by(telling: Telling, reading: Reading, own: set[int], span: Span) -> Iterator[str]:
    """Yield which calls walk again what some backward calls on a place retain."""
    for run in reading.runs:
        users = [node for node, by in run.traversal.retraversed.items() if own.intersection(by)]
        if users:
            built = telling.lines((reading.ledger.nodes[node].at for node in users), span.line)
            other = f"the {_kind(run)} on {line_of(run.at.span, span)}"
            where = "this same call, later on," if run.backward.id in own else other
            yield f"{where} walks the nodes built on {built} again"


def _kind(run: Run) -> str:
    return "backward" if run.backward.call == "backward" else "`autograd.grad`"
