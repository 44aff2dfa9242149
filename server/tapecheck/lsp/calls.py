"""The backward calls of a file in a few words: what stands above them, behind them, and which lines they walk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tapecheck.lsp.outline import contains, inside
from tapecheck.lsp.telling import Telling, count, walked
from tapecheck.rules.reading import Reading, Run
from tapecheck.tape import Loop, Span

Fate = Literal["freed", "kept", "fails", "may fail"]


@dataclass(frozen=True, slots=True)
class Call:
    """One backward call: what becomes of the graph, and the nodes it walks the first time it runs."""

    span: Span
    fate: Fate
    text: str
    walked: tuple[Span, ...]


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


def _call(telling: Telling, span: Span, told: list[tuple[Reading, list[Run]]]) -> Call | None:
    failing = [(reading, runs) for reading, runs in told if any(run.failed for run in runs)]
    # The same choice as the hover makes: the failing way, else the one with the most to tell.
    reading, runs = max(failing or told, key=lambda pair: len(pair[1]))
    first = runs[0]
    nodes = walked(reading, first)
    # A backward that fails half way was to walk all of it.
    reached = reading.ledger.ancestry([root.node for root in first.backward.roots if root.node is not None])
    sites = [reading.ledger.nodes[node].at for node in sorted(reached, reverse=True) if node in reading.ledger.nodes]
    spans = tuple(dict.fromkeys(one for site in sites if (one := telling.near(site, span.line)) is not None))
    if failing:
        problem = next(run for run in runs if run.failed)
        iteration = problem.at.iteration[-1][1] if problem.at.iteration else None
        fate: Fate = "fails" if len(failing) == len(told) else "may fail"
        text = fate if iteration is None else f"{fate} in iteration {iteration}"
        return Call(span, fate, text, spans)
    if not nodes:
        return None
    built = telling.lines((node.at for node in nodes), span.line)
    retained = "yes" in (first.backward.retain, first.backward.create)
    if first.backward.retain == "may" and not retained:
        return Call(span, "freed", f"walks {count(len(nodes), 'node')} built on {built}", spans)
    verb, fate = ("keeps", "kept") if retained else ("frees", "freed")
    return Call(span, fate, f"{verb} {count(len(nodes), 'node')} built on {built}", spans)


def training_loops(telling: Telling) -> list[int]:
    """Return the lines of the loops of a file that have a backward in them, innermost loops only."""
    path = telling.source.path
    lines: set[int] = set()
    for reading in telling.readings:
        own = {
            event.id: event.at.line
            for event in reading.tape.events
            if isinstance(event, Loop) and event.at.file == path
        }
        for run in reading.runs:
            around = [own[loop] for loop, _ in run.at.iteration if loop in own]
            lines.update(around[-1:])
    return sorted(lines)


def walked_lines(telling: Telling, line: int, column: int) -> tuple[Call, tuple[Span, ...]] | None:
    """Return the backward call at a place, and the text that built what it walks; None where there is no such call."""
    around = [call for call in calls(telling) if inside(call.span, line, column)]
    if not around:
        return None
    call = max(around, key=lambda one: (one.span.line, one.span.column))
    if telling.outline.in_argument(call.span, line, column):
        return None
    # An expression of several ops is one piece of text.
    kept = [one for one in call.walked if not any(other != one and contains(other, one) for other in call.walked)]
    return call, tuple(kept)

