"""What a fix makes of the other findings: one that goes away has to be repaired, not only out of sight."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence

from tapecheck.fixes.edit import MovedLines
from tapecheck.fixes.story import frames
from tapecheck.rules import RAISING
from tapecheck.rules.create_graph_cycle.rule import CreateGraphCycle
from tapecheck.rules.finding import Finding
from tapecheck.rules.graph_kept.rule import GraphKeptAcrossIterations
from tapecheck.rules.growing_chain.rule import GrowingChain
from tapecheck.rules.needless_graph.rule import NeedlessGraph
from tapecheck.rules.needless_retain_graph.rule import NeedlessRetainGraph
from tapecheck.tape import Backward, GradientCleared, Ledger, Optimizer, Site, Span, Step, Tape

_WASTE = frozenset(
    rule.code
    for rule in (GraphKeptAcrossIterations, GrowingChain, CreateGraphCycle, NeedlessRetainGraph, NeedlessGraph)
)
"""What says that a graph is kept or built in vain: without the graph it is repaired."""


def unrepaired(
    mended: Finding | None,
    before: Sequence[Finding],
    after: Sequence[Finding],
    was: Sequence[Tape],
    now: Sequence[Tape],
    lines: MovedLines,
) -> list[Finding]:
    """Return the findings of `before` that are gone in `after` though what they are about was not repaired.

    `mended` is the finding whose fix it is, where there is one: what is said on its very line is the same mistake.
    `was` and `now` are the tapes of the program before and after the change, `lines` says where its lines are. A waste
    is repaired once it is gone. What raises is repaired where its line still runs, or was rewritten. What says that
    something is not trained as it should be is repaired where the change rewrote a place that the finding names (more
    than its indent), or something is trained that was not.
    """
    there = (mended.span.file, mended.span.line) if mended is not None else None
    others = (one for one in before if one.code not in _WASTE and (one.span.file, one.span.line) != there)
    gone = [one for one in _missing(others, after, lines) if not any(map(lines.rewritten, _named(one)))]
    raising = [one for one in gone if one.code in RAISING]
    if len(raising) < len(gone) and _trains_more(was, now, lines):
        gone = raising
    met = _lines_met(now) if raising else set()
    return [one for one in gone if one.code not in RAISING or met.isdisjoint(_moved(one, lines))]


def _lines_met(tapes: Sequence[Tape]) -> set[tuple[str, int]]:
    """Return the lines, by file, that ran or led to what ran."""
    return {(at.file, at.line) for tape in tapes for event in tape.events for at in _places(event)}


def caused(before: Sequence[Finding], after: Sequence[Finding], lines: MovedLines) -> Finding | None:
    """Return an exception of torch's that is found after a change and was not found before."""
    known = {(one.code, *place) for one in before for place in _moved(one, lines)}
    fresh = (one for one in after if (one.code, one.span.file, one.span.line) not in known)
    return next((one for one in fresh if one.code in RAISING), None)


def _missing(before: Iterable[Finding], after: Sequence[Finding], lines: MovedLines) -> Iterator[Finding]:
    """Yield the findings that are not found after a change."""
    left = {(one.code, one.span.file, one.span.line) for one in after}
    return (one for one in before if left.isdisjoint((one.code, *place) for place in _moved(one, lines)))


def _moved(finding: Finding, lines: MovedLines) -> list[tuple[str, int]]:
    """Return the lines, by file, that a finding is on after a change."""
    return [(finding.span.file, line) for line in lines.lines(finding.span)]


def _named(finding: Finding) -> list[Span]:
    """Return the places where a finding has its cause: calls and conditions that lead there are none."""
    causes = (label.span for label in finding.labels if label.role not in ("called", "path", "condition"))
    return [finding.span, *causes]


def _places(event: object) -> list[Span]:
    at = getattr(event, "at", None)
    return list(frames(at)) if isinstance(at, Site) else []


def _trains_more(was: Sequence[Tape], now: Sequence[Tape], lines: MovedLines) -> bool:
    """Return whether a backward reaches, or a step uses, more leaves than the one on its line did."""
    known = _reached(was)
    there: Counter[tuple[str, int]] = Counter()
    for (file, line), count in known.items():
        for new in lines.lines(Span(file, line, 1, line, 1)):
            there[file, new] = max(there[file, new], count)
    return any(count > there[place] for place, count in _reached(now).items())


def _reached(tapes: Sequence[Tape]) -> Counter[tuple[str, int]]:
    """Return for the line of each backward the most leaves that one of its calls reaches; for that of each step the
    most of the optimizer's parameters that have a gradient then.
    """
    most: Counter[tuple[str, int]] = Counter()
    for tape in tapes:
        for event, leaves in uses_of_gradients(tape):
            place = event.at.file, event.at.line
            most[place] = max(most[place], len(leaves))
    return most


def uses_of_gradients(tape: Tape) -> Iterator[tuple[Backward | Step, Collection[int]]]:
    """Yield each backward with the leaves it reaches, each step with those of its parameters that have a gradient."""
    ledger = tape.ledger or Ledger()
    params: dict[int, tuple[int, ...]] = {}
    live: set[int] = set()
    for event in tape.events:
        if tape.ledger is None:
            ledger.feed(event)
        if isinstance(event, Optimizer):
            params[event.id] = event.params
        elif isinstance(event, GradientCleared):
            live.discard(event.leaf)
        elif isinstance(event, Step) and params.get(event.optimizer):
            yield event, live.intersection(params[event.optimizer])
        elif isinstance(event, Backward) and event.accumulates:
            leaves = ledger.leaves.keys() & ledger.traversals[event.id].executed
            live |= leaves
            yield event, leaves
