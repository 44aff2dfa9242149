"""A loop that builds graphs for no backward: run it, or the call that leads to it, with recording switched off."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from tapecheck.fixes.candidate import Candidate, Context
from tapecheck.fixes.code import Code
from tapecheck.fixes.story import frames
from tapecheck.fixes.visible import can_train
from tapecheck.rules.needless_graph.facts import NeedlessGraphFacts
from tapecheck.rules.reading import Reading
from tapecheck.tape import Escape, LeafEscape, Loop, Site

_CHECK = "Check that no code in there which is not visible here differentiates or trains."
_SAME = "The values stay the same; no graph is built, which saves memory and time."


def switch_recording_off(context: Context) -> Iterator[Candidate]:
    """Put `with torch.no_grad():` around the loop, else around the statement that calls its function."""
    code, facts = context.code, context.finding.facts
    places = [facts.loop, *facts.calls] if isinstance(facts, NeedlessGraphFacts) else []
    for number, span in enumerate(place for place in places if place is not None):
        statement = code.statement_at(span) if span.file == context.finding.span.file else None
        if statement is not None and _is_wrappable(statement):
            what = f"the call on line {statement.lineno}" if number else "the loop"
            yield from without_recording(context, statement, f"Run {what}", _SAME, "no_grad", guarded=number > 0)


def record_nothing(context: Context) -> Iterator[Candidate]:
    """Put `with torch.no_grad():` around a loop that keeps graphs which nothing walks, or around what calls it.

    Unlike a detached value it also helps where what is kept lies in objects, in states of several loops or in beams.
    """
    readings: list[Reading] | None = None
    for place, what in _regions(context):
        if not _is_wrappable(place):
            continue
        readings = readings or [Reading(tape) for tape in context.tapes]
        if _unwalked(readings, context.code, place):
            yield from without_recording(context, place, f"Run {what}", _SAME, "no_grad")


def _regions(context: Context) -> Iterator[tuple[ast.stmt, str]]:
    """Yield the loop that a finding is about, the loops around it, and the calls that lead to it, with their names."""
    code = context.code
    span = context.finding.facts.loop
    if span is None:
        return
    seen: list[ast.stmt] = []
    loop = code.statement_at(span) if span.file == code.source.path else None
    if isinstance(loop, (ast.For, ast.AsyncFor, ast.While)):
        for number, around in enumerate([loop, *code.loops(loop)]):
            if around not in seen:
                seen.append(around)
                yield around, "the loop" if not number else f"the loop on line {around.lineno}"
    entered = (event.at for tape in context.tapes for event in tape.events if isinstance(event, Loop))
    for site in entered:
        for call in site.stack if site.span == span else ():
            statement = code.statement_at(call) if call.file == code.source.path else None
            if statement is not None and statement not in seen:
                seen.append(statement)
                yield statement, f"the call on line {statement.lineno}"


def without_recording(
    context: Context, statement: ast.stmt, what: str, effect: str, group: str = "", *, guarded: bool = False
) -> Iterator[Candidate]:
    """Put `with torch.no_grad():` around a statement, unless it trains; safe where all that could is visible.

    `guarded` says that code which trains may be in it, behind a condition that is false there.
    """
    trains = can_train(context, statement)
    if trains == "yes" and not guarded:
        return
    code = context.code
    torch, needed = code.torch()
    changes = code.wrap(statement, statement, f"with {torch}.no_grad():")
    if changes is not None:
        if trains != "no":
            effect = f"{effect} {_CHECK}"
        title = f"{what} under `{torch}.no_grad()`"
        yield Candidate(title, effect, [*changes, *needed], safe=trains == "no", group=group)


def _is_wrappable(statement: ast.stmt) -> bool:
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Return)):
        return False
    # A generator that is left in the middle of the block leaves recording off for its caller.
    return not any(isinstance(node, (ast.Yield, ast.YieldFrom, ast.Await)) for node in ast.walk(statement))


def _unwalked(readings: Iterable[Reading], code: Code, statement: ast.stmt) -> bool:
    """Return whether no backward, no unknown code and no caller can walk a graph that a statement records."""
    path, first, last = code.source.path, statement.lineno, statement.end_lineno or statement.lineno
    ran = False

    def inside(site: Site) -> bool:
        return any(frame.file == path and first <= frame.line <= last for frame in frames(site))

    for reading in readings:
        own = [node.id for node in reading.ledger.nodes.values() if inside(node.at)]
        if not own and not any(inside(loop.event.at) for loop in reading.loops.values()):
            continue
        # What a program that raises would have done next, or one beyond the work limit does, nobody has seen.
        ran = ran or reading.ended == "finished"
        if reading.ended not in ("finished", "raised") or not reading.used.isdisjoint(own):
            return False
        if any(inside(run.at) for run in reading.runs):
            return False
        # What is handed to unknown code in there may be trained by it.
        if any(isinstance(event, (Escape, LeafEscape)) and inside(event.at) for event in reading.tape.events):
            return False
    return ran
