"""Fixes for what happens to gradients between backward and step: clear them in time."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tapecheck.fixes.candidate import Candidate, Context, offered
from tapecheck.fixes.code import Code, dotted, walk
from tapecheck.fixes.edit import Change
from tapecheck.rules.gradient_cut.facts import GradientCutFacts
from tapecheck.rules.gradient_discarded.facts import GradientDiscardedFacts
from tapecheck.source.nodes import is_read, of_kind
from tapecheck.tape import Backward, Scaled, Span


def steps_here(statement: ast.stmt, span: Span) -> bool:
    """Return whether a statement is the call of a step and nothing that holds it in a block of its own."""
    return statement.lineno == span.line and any(
        isinstance(node, ast.Call) and (dotted(node.func) or "").endswith("step") for node in walk(statement)
    )


def clear_at_another_time(context: Context) -> Iterator[Candidate]:
    """Move the step that lacks the gradients, or the clearing, so that the step has them; or take the clearing out."""
    code = context.code
    cleared, backwards = _cleared(context)
    statement = code.statement_at(cleared) if cleared is not None else None
    if statement is None:
        return
    clearing = code.with_its_holders(statement)
    gone, lines = code.delete(clearing), code.lines_of(clearing)
    if gone is None or lines is None:
        return
    places = ((code.statement_at(label.span), label.span) for label in context.labels("step"))
    steps = [step for step, span in places if step is not None and steps_here(step, span)]
    for backward in backwards[:1]:
        yield from _moved(code, clearing, steps, backward, gone, lines)
    for step in steps:
        change = code.insert_after(step, lines)
        if change is not None:
            yield Candidate(f"Clear after the step (line {step.lineno})", _LATER, [gone, change], group="moved")
    if context.labels("step"):
        yield Candidate(f"Do not clear on line {clearing.lineno}", _LATER, [gone], group="left out")


def _cleared(context: Context) -> tuple[Span | None, list[Backward]]:
    """Return where gradients are cleared that a step lacks, and the backward calls that fill them."""
    facts, backwards = context.finding.facts, [backward for _, backward in context.backwards_here()]
    if isinstance(facts, GradientDiscardedFacts):
        # Where no step is made, no other time is the right one.
        return None if facts.stepless else facts.cleared, backwards
    if not isinstance(facts, GradientCutFacts) or facts.how != "cleared":
        return None, []
    filling = {label.span for label in context.labels("path")}
    return context.finding.span, [one for one in context.events(Backward) if one.at.span in filling] or backwards


def clip_in_between(context: Context) -> Iterator[Candidate]:
    """Move a clip from before the backward or after the step between the two, with the tests that hold it alone."""
    code, facts = context.code, context.finding.facts
    if not isinstance(facts, GradientDiscardedFacts) or facts.cleared is not None:
        return
    clip = code.statement_at(context.finding.span)
    if not isinstance(clip, ast.Expr):
        return
    whole = code.with_its_holders(clip)
    gone, lines = code.delete(whole), code.lines_of(whole)
    after, before = context.labels("path"), context.labels("step")
    found = (code.statement_at(label.span) for label in (after or before)[:1])
    place = next((code.beside(whole, one) for one in found if one is not None), None)
    if gone is None or lines is None or place is None or _stored_between(code, whole, place):
        return
    change = code.insert_after(place, lines) if after else code.insert_before(place, lines)
    if change is not None:
        where = f"after the backward (line {place.lineno})" if after else f"before the step (line {place.lineno})"
        yield Candidate(f"Clip {where}", "The step then uses what the clip has made of the gradients.", [gone, change])


def make_the_step(context: Context) -> Iterator[Candidate]:
    """Make the step that a program lacks: behind the clip in the block that clears, otherwise before the clearing."""
    code, facts = context.code, context.finding.facts
    if not isinstance(facts, GradientDiscardedFacts) or not facts.step or facts.cleared is None:
        return
    clearing = code.statement_at(facts.cleared)
    # Of a scaled loss, the scaler makes the step, and is updated then.
    if not isinstance(clearing, ast.Expr) or next(context.events(Scaled), None) is not None:
        return
    clip = code.statement_at(facts.clipped) if facts.clipped is not None else None
    same = clip is not None and code.function(clip) is code.function(clearing)
    clip = code.beside(clearing, clip) if clip is not None and same else None
    change = code.insert_before(clearing, [facts.step]) if clip is None else code.insert_after(clip, [facts.step])
    where = f"before line {clearing.lineno}" if clip is None else f"after the clip (line {clip.lineno})"
    yield from offered(f"Call `{facts.step}` {where}", "The parameters learn from now on.", change)


def _stored_between(code: Code, moved: ast.stmt, place: ast.stmt) -> bool:
    """Return whether statements between two of a block, or the second one, store under a name that the first reads."""
    block = code.block(moved)
    low, high = sorted((block.index(moved), block.index(place)))
    read = {node.id for node in of_kind(moved, ast.Name)}
    between = [one for one in block[low : high + 1] if one is not moved]
    return any(node.id in read for one in between for node in of_kind(one, ast.Name) if not is_read(node))


def _moved(
    code: Code, clearing: ast.stmt, steps: list[ast.stmt], backward: Backward, gone: Change, lines: list[str]
) -> Iterator[Candidate]:
    """Yield a step that comes right after the backward, and a clearing that comes before it."""
    for statement in code.statements(backward.at):
        for step in steps:
            if changes := _step_after(code, clearing, step, statement):
                yield Candidate(f"Step after the backward (line {statement.lineno})", _LATER, changes, group="moved")
        place = _earlier_in_block(code, clearing, statement)
        change = code.insert_before(place, lines) if place is not None else None
        if place is not None and change is not None:
            yield Candidate(f"Clear before the backward (line {place.lineno})", _LATER, [gone, change], group="moved")


def _earlier_in_block(code: Code, clearing: ast.stmt, backward: ast.stmt) -> ast.stmt | None:
    """Return the statement with a backward that stands before a clearing in its block."""
    found, block = code.beside(clearing, backward), code.block(clearing)
    return found if found is not None and block.index(found) < block.index(clearing) else None


def _step_after(code: Code, clearing: ast.stmt, step: ast.stmt, backward: ast.stmt) -> list[Change]:
    """Return the changes that move a step from between the clearing and the backward to after the backward."""
    block = code.block(step)
    if not isinstance(step, ast.Expr) or clearing not in block or backward not in block:
        return []
    if not block.index(clearing) < block.index(step) < block.index(backward):
        return []
    gone, lines = code.delete(step), code.lines_of(step)
    change = code.insert_after(backward, lines) if lines is not None else None
    return [gone, change] if gone is not None and change is not None else []


_LATER = "The step then uses what this backward has computed."
