"""Several processes of one program: the tapes of its ranks become one, and verdicts say on which rank they hold."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from tapecheck.record.reduced import differing, drifted, place_of
from tapecheck.record.story import BLIND
from tapecheck.rules.finding import Evidence, Finding
from tapecheck.rules.gradient_not_reduced.rule import GradientNotReduced
from tapecheck.tape import End, Event, Measure, Root, Site, Span, Tape
from tapecheck.tape.ranks import RANK, STEP

_OPEN = "the process died before it could close its tape"
_ORDER = ("confirmed", "found-by-run", "refuted", "not-reached")


def merge(tapes: dict[int, Tape], ended: Sequence[int] = ()) -> Tape:
    """Return one tape of all ranks, one after the other; numbers of a rank's nodes, loops, ... never meet another's.

    Each part begins with a measure named "rank" and ends with how that rank ended; how the worst ended comes last.
    `ended` are the ranks in the order in which their processes ended, as far as that is known.
    """
    if len(tapes) == 1:
        return next(iter(tapes.values()))
    merged = Tape(next(iter(tapes.values())).producer if tapes else "tapecheck recorder")
    ends: list[tuple[int, End]] = []
    for place, (rank, tape) in enumerate(sorted(tapes.items())):
        merged.events.append(Measure(Site(Span("", 1, 1, 1, 1)), RANK, rank, "rank"))
        merged.events += [_moved(event, place * STEP) for event in tape.events if not isinstance(event, End)]
        last = tape.events[-1] if tape.events else None
        end = last if isinstance(last, End) else End("stopped", _OPEN)
        merged.events.append(end)
        ends.append((rank, end))
    rank, end = worst(ends, ended)
    merged.events.append(End(end.how, f"rank {rank}: {end.detail}" if end.detail else ""))
    return merged


def worst(ends: Sequence[tuple[int, End]], ended: Sequence[int] = ()) -> tuple[int, End]:
    """Return the end that says most of what happened: an exception, a limit, then what ended first of itself.

    A launcher ends the other ranks once one has ended other than well, and those that wait for it fail: neither is a
    cause.
    """

    def weight(item: tuple[int, End]) -> tuple[int, int, int]:
        rank, end = item
        place = ended.index(rank) if rank in ended else len(ended)
        if end.how == "raised":
            return (3 if _lost(end.detail) else 0), place, 0
        # A rank that reaches a limit ends the others, which may have had no time to say so.
        if end.how == "stopped" and end.detail != _OPEN:
            return (4 if end.detail.startswith(BLIND) else 1), place, 0
        if end.how == "stopped" or end.detail:
            # Without an order the one that could say how it ended was not ended by another.
            return 2, place, int(end.detail == _OPEN)
        return 5, place, 0

    return min(ends, key=weight, default=(0, End("stopped")))


def _lost(detail: str) -> bool:
    """Return whether a rank failed only because another was gone."""
    return any(word in detail for word in ("DistBackendError", "Connection closed", "Connection reset", "gloo"))


def judged(
    static: Sequence[Finding], ranks: dict[int, Tape], judge: Callable[[Sequence[Finding], Tape], list[Finding]]
) -> list[Finding]:
    """Return the findings with the verdicts of the ranks: one that holds on any rank holds."""
    verdicts: dict[int, list[tuple[int, Evidence]]] = {}
    reasons: dict[int, dict[str, list[int]]] = {}
    undecided: set[int] = set()
    found: dict[tuple[str, str, int], tuple[Finding, list[tuple[int, Evidence]]]] = {}
    for rank, tape in ranks.items():
        for position, finding in enumerate(judge(static, tape)):
            own = static[position].notes if position < len(static) else None
            if finding.evidence is None:
                undecided.add(position)
                for note in finding.notes[len(own) :] if own is not None else ():
                    reasons.setdefault(position, {}).setdefault(note, []).append(rank)
            elif own is not None:
                verdicts.setdefault(position, []).append((rank, finding.evidence))
            else:
                found.setdefault(finding.key, (finding, []))[1].append((rank, finding.evidence))
    result = []
    for position, finding in enumerate(static):
        evidence = _together(verdicts.get(position, []), len(ranks))
        if evidence is None and finding.code == GradientNotReduced.code:
            evidence = differing(finding, ranks)
        notes = [f"{_where(at, len(ranks))}: {note}" for note, at in reasons.get(position, {}).items()]
        if evidence is not None and evidence.verdict in _ORDER[2:] and position in undecided:
            # Where one rank knows too little, the others refute nothing.
            notes.append(f"{evidence.verdict.replace('-', ' ')} {evidence.detail}")
            evidence = None
        if evidence is not None:
            notes = []
        result.append(dataclasses.replace(finding, evidence=evidence, notes=(*finding.notes, *notes)))
    told = {
        place_of(label.span)
        for finding in result
        if finding.code == GradientNotReduced.code
        for label in finding.labels
        if label.role == "step"
    }
    result += [dataclasses.replace(finding, evidence=_together(said, len(ranks))) for finding, said in found.values()]
    return [*result, *drifted(ranks, told)]


def _together(said: list[tuple[int, Evidence]], count: int) -> Evidence | None:
    if not said:
        return None
    verdict = min((evidence.verdict for _, evidence in said), key=_ORDER.index)
    ranks = [rank for rank, evidence in said if evidence.verdict == verdict]
    first = next(evidence for _, evidence in said if evidence.verdict == verdict)
    detail = f"{_where(ranks, count)}: {first.detail}"
    others = sorted({(evidence.verdict, rank) for rank, evidence in said if evidence.verdict != verdict})
    if others and verdict in _ORDER[:2]:
        detail += "; " + ", ".join(f"{other.replace('-', ' ')} on rank {rank}" for other, rank in others)
    return Evidence(verdict, detail, first.iteration, {**first.measured, "ranks": ranks, "of_ranks": count})


def _where(ranks: list[int], count: int) -> str:
    if len(ranks) == count:
        return "on both ranks" if count == 2 else f"on all {count} ranks"
    return f"on rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))} of {count}"


# Numbers

_OWN = ("id", "loop", "backward", "optimizer", "node", "leaf", "storage", "wrapper", "first", "last")
_OF_LEAVES = ("never-a-gradient", "stale-gradient", "gradient-again", "left-out", "left-alone", "gradient-discarded")
_LISTS = ("inputs", "nodes", "params", "leaves", "cuts", "sources", "outputs")


def _moved(event: Event, by: int) -> Event:
    """Return an event with all its numbers moved."""
    if not by:
        return event
    names = [field.name for field in dataclasses.fields(event)]
    changes = {name: _moved_value(name, getattr(event, name), by) for name in names}
    if isinstance(event, Measure):
        name, _, about = event.name.partition(":")
        if name in _OF_LEAVES and about.isdigit():
            changes["name"] = f"{name}:{int(about) + by}"
    return type(event)(**changes)


def _moved_value(name: str, value: Any, by: int) -> Any:
    """Return what a field of an event holds once all numbers are moved."""
    if isinstance(value, Site):
        return _site(value, by)
    if name in _OWN and type(value) is int:
        return value + by
    if name in _LISTS and isinstance(value, tuple):
        return tuple(number + by for number in value)
    if name == "saved" and value is not None:
        return tuple(
            dataclasses.replace(item, storage=item.storage + by, of=None if item.of is None else item.of + by)
            for item in value
        )
    return tuple(_root(root, by) for root in value) if name == "roots" and value is not None else value


def _site(site: Site, by: int) -> Site:
    return dataclasses.replace(site, iteration=tuple((loop + by, index) for loop, index in site.iteration))


def _root(root: Root, by: int) -> Root:
    return dataclasses.replace(
        root,
        node=None if root.node is None else root.node + by,
        cuts=tuple(number + by for number in root.cuts),
        constant_terms=tuple(number + by for number in root.constant_terms),
    )
