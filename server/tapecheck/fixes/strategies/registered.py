"""Fixes for parameters that no optimizer has: register them, or hand them over."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tapecheck.fixes.candidate import Candidate, Context
from tapecheck.fixes.code import Code
from tapecheck.fixes.edit import Change
from tapecheck.rules.facts import Lacking
from tapecheck.rules.gradient_cut.facts import GradientCutFacts
from tapecheck.rules.untrained_parameter.facts import UntrainedParameterFacts
from tapecheck.source.nodes import of_kind
from tapecheck.tape import Span

EFFECT = "The optimizer has the parameters from now on, and trains them."


def _moved_behind(code: Code, early: ast.stmt | None, place: ast.stmt) -> list[Change] | None:
    """Return the changes that move a statement of one line behind another one; None where that cannot be done."""
    lines, gone = (code.lines_of(early), code.delete(early)) if early is not None else (None, None)
    change = code.insert_after(place, [line.strip() for line in lines]) if lines and len(lines) == 1 else None
    return [gone, change] if gone is not None and change is not None else None


def make_optimizer_later(context: Context) -> Iterator[Candidate]:
    """Make the optimizer, or list its parameters, once the model is complete."""
    code, lacking = context.code, lacking_of(context)
    if lacking is None or lacking.kind != "registered" or not lacking.whole:
        return
    making = code.statement_at(lacking.optimizer)
    if not isinstance(making, ast.Assign):
        return
    for span in added_to(context, lacking):
        adding = code.statement_at(span)
        place = code.beside(making, adding) if adding is not None else None
        if place is None:
            continue
        # Where the optimizer is in time, the list of its parameters is not.
        in_time = place.lineno < making.lineno
        changes = _moved_behind(code, _listing(code, making, place) if in_time else making, place)
        if changes is not None:
            what = "List the parameters" if in_time else "Make the optimizer"
            title = f"{what} after line {place.lineno}: the model is complete there"
            yield Candidate(title, EFFECT, changes, group="later")


def _listing(code: Code, making: ast.Assign, place: ast.stmt) -> ast.stmt | None:
    """Return the statement of a block that stores what the making of an optimizer reads, where it stands before a place
    in the block and nothing reads the name up to there.
    """
    scope = code.function(making)
    for name in sorted({one.id for one in of_kind(making.value, ast.Name)}):
        match code.stores(scope, name):
            case [stored] if stored.lineno < place.lineno and stored in code.block(place):
                loads = (load.lineno for load in code.loads(scope, name))
                if not any(stored.lineno < load <= place.lineno for load in loads):
                    return stored
    return None


def lacking_of(context: Context) -> Lacking | None:
    """Return what the optimizer of a finding lacks."""
    facts = context.finding.facts
    if isinstance(facts, UntrainedParameterFacts):
        return facts.lacking
    return facts.replaced if isinstance(facts, GradientCutFacts) else None


def added_to(context: Context, lacking: Lacking) -> list[Span]:
    """Return where what was made after the optimizer comes into the model, in the file of the optimizer."""
    return list(dict.fromkeys([*lacking.made, context.finding.span, *lacking.calls]))
