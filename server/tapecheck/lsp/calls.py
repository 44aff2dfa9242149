"""The backward calls of a file in a few words: what stands above them, behind them, and which lines they walk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tapecheck.lsp.outline import inside
from tapecheck.lsp.telling import Telling, each_line, fate_of, most_to_tell, walked
from tapecheck.rules.reading import Reading, Run
from tapecheck.rules.words import line as line_of
from tapecheck.tape import Loop as LoopEvent
from tapecheck.tape import Span

Fate = Literal["freed", "kept", "fails", "may fail"]


@dataclass(frozen=True, slots=True)
class Call:
    """One backward call: what becomes of the graph, and the nodes it walks the first time it runs.

    `created` says that it keeps its graph only since it makes one of the gradients (`create_graph=True`), `needless`
    that no later backward uses the graph that it keeps.
    """

    span: Span
    fate: Fate
    text: str
    walked: tuple[Span, ...]
    created: bool = False
    needless: bool = False


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop that trains: its lines, and the backward calls that its iterations come to, in any file."""

    file: str
    line: int
    end: int
    backwards: frozenset[Span]


def calls(telling: Telling) -> list[Call]:
    """Return the backward calls of a file in the order of the text, as far as the dry run knows what they walk."""
    path = telling.source.path
    sites: dict[Span, list[tuple[Reading, list[Run]]]] = {}
    for reading in telling.readings:
        for span, runs in reading.runs_by_site.items():
            if span.file == path:
                sites.setdefault(span, []).append((reading, runs))
    found = [_call(telling, span, sites[span]) for span in sorted(sites, key=lambda one: (one.line, one.column))]
    return [call for call in found if call is not None]


def _when(fate: Fate, problem: Run) -> str:
    iteration = problem.at.iteration[-1][1] if problem.at.iteration else None
    return fate if iteration is None else f"{fate} in iteration {iteration}"


def _call(telling: Telling, span: Span, told: list[tuple[Reading, list[Run]]]) -> Call | None:
    reading, runs = most_to_tell(told)
    first = runs[0]
    spans = _spans_of_graph(telling, span, reading, first)
    if (fate := fate_of(told)) is not None:
        return Call(span, fate, _when(fate, next(run for run in runs if run.failed)), spans)
    nodes = walked(reading, first)
    if not nodes:
        return None
    if first.backward.create == "yes":
        return Call(span, "kept", "builds a graph of its gradients", spans, created=True)
    if first.backward.retain == "yes":
        text, needless = _keeps(telling, span, told)
        return Call(span, "kept", text, spans, needless=needless)
    built = telling.lines((node.at for node in nodes), span.line)
    unless = ", unless `retain_graph` is true" if first.backward.retain == "may" else ""
    return Call(span, "freed", f"frees the graph built on {built}{unless}", spans)


def _spans_of_graph(telling: Telling, span: Span, reading: Reading, run: Run) -> tuple[Span, ...]:
    """Return where the graph was built that a backward walks; one that fails half way was to walk all of it."""
    nodes = reading.ledger.nodes
    reached = sorted(reading.ledger.ancestry(run.backward.root_nodes), reverse=True)
    places = (telling.near(nodes[number].at, span.line) for number in reached if number in nodes)
    return tuple(dict.fromkeys(place for place in places if place is not None))


def _keeps(telling: Telling, span: Span, told: list[tuple[Reading, list[Run]]]) -> tuple[str, bool]:
    """Return for which lines a backward keeps its graph, and whether that is certainly for none."""
    users: set[int] = set()
    whole = True
    for reading, runs in told:
        own = {run.backward.id for run in runs}
        whole = whole and reading.complete
        for run in reading.runs:
            if any(own.intersection(by) for by in run.traversal.retraversed.values()):
                if run.at.file != telling.source.path:
                    return f"keeps its graph for {line_of(run.at.span, span)}", False
                users.add(run.at.line)
    if users == {span.line}:
        return "keeps its graph for its own next call", False
    if users:
        return f"keeps its graph for {each_line(users)}", False
    return ("keeps its graph, which no later backward uses", True) if whole else ("keeps its graph", False)


def training_loops(telling: Telling) -> list[Loop]:
    """Return the loops of a file that have a backward in them, innermost loops only, in the order of the text."""
    path = telling.source.path
    ends = dict(telling.outline.loops)
    found: dict[int, set[Span]] = {}
    for reading in telling.readings:
        own = {
            event.id: event.at.line
            for event in reading.tape.events
            if isinstance(event, LoopEvent) and event.at.file == path
        }
        for run in reading.runs:
            around = [own[loop] for loop, _ in run.at.iteration if loop in own]
            for line in around[-1:]:
                found.setdefault(line, set()).add(run.at.span)
    return [Loop(path, line, ends.get(line, line), frozenset(found[line])) for line in sorted(found)]


def walked_lines(telling: Telling, line: int, column: int) -> tuple[Span, tuple[Span, ...]] | None:
    """Return the `backward` or `grad` that a call at a place calls, and the text that built what it walks; None at any
    other place: an editor's own highlights of a variable must stay.
    """
    for call in calls(telling):
        # The place behind the last letter still belongs to the name.
        if not (inside(call.span, line, column) or inside(call.span, line, column - 1)):
            continue
        name = telling.outline.called_name(call.span)
        if name is not None and (inside(name, line, column) or inside(name, line, column - 1)):
            # An expression of several ops is one piece of text.
            built = [span for span in call.walked if span != call.span]
            return name, tuple(one for one in built if not any(one != more and more.holds(one) for more in built))
    return None
