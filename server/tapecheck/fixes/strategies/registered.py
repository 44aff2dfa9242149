"""Fixes for parameters that no optimizer has: register them, or hand them over."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tapecheck.fixes.candidate import Candidate, Context
from tapecheck.fixes.code import Code
from tapecheck.fixes.edit import Change
from tapecheck.rules.facts import Lacking
from tapecheck.rules.gradient_cut.facts import GradientCutFacts
from tapecheck.rules.term_without_effect.facts import TermWithoutEffectFacts
from tapecheck.rules.untrained_parameter.facts import UntrainedParameterFacts
from tapecheck.source.nodes import is_literal, method_called, of_kind
from tapecheck.tape import Span

EFFECT = "The optimizer has the parameters from now on, and trains them."


def _moved_behind(code: Code, early: list[ast.stmt], place: ast.stmt) -> list[Change]:
    """Return the changes that move statements of one line behind another one; none where that cannot be done."""
    lines, gone = [code.lines_of(one) for one in early], code.delete_all(early)
    if not early or gone is None or not all(one is not None and len(one) == 1 for one in lines):
        return []
    change = code.insert_after(place, [line.strip() for one in lines for line in one or ()])
    return [*gone, change] if change is not None else []


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
        early = _listings(code, making, place, in_time)
        changes = _moved_behind(code, early if in_time else [*early, making], place)
        if changes:
            what = "List the parameters" if in_time else "Make the optimizer"
            title = f"{what} after line {place.lineno}: the model is complete there"
            yield Candidate(title, EFFECT, changes, group="later")


def _listings(code: Code, making: ast.Assign, place: ast.stmt, in_time: bool) -> list[ast.stmt]:
    """Return the statements of a block that make what the making of an optimizer reads, where they stand before a place
    in the block and nothing else reads the name up to there; one that is there `in_time` itself needs the first alone.
    """
    scope = code.function(making)
    found: list[ast.stmt] = []
    for name in sorted({one.id for one in of_kind(making.value, ast.Name)}):
        match code.stores(scope, name):
            case [stored] if stored.lineno < place.lineno and stored in code.block(place):
                loads = (load.lineno for load in code.loads(scope, name) if not code.inside(load, making))
                if not any(stored.lineno < load <= place.lineno for load in loads) and (in_time or _asks(stored)):
                    found.append(stored)
    found.sort(key=lambda stored: stored.lineno)
    return found[:1] if in_time else found


def _asks(stored: ast.stmt) -> bool:
    """Return whether a statement asks a module for what it has, which hangs on where it stands."""
    return any("parameters" in method_called(call) for call in of_kind(stored, ast.Call))


def lacking_of(context: Context) -> Lacking | None:
    """Return what the optimizer of a finding lacks."""
    facts = context.finding.facts
    if isinstance(facts, (UntrainedParameterFacts, TermWithoutEffectFacts)):
        return facts.lacking
    return facts.replaced if isinstance(facts, GradientCutFacts) else None


def added_to(context: Context, lacking: Lacking) -> list[Span]:
    """Return where what was made after the optimizer comes into the model, in the file of the optimizer."""
    return list(dict.fromkeys([*lacking.made, context.finding.span, *lacking.calls]))


def switches_on(made: ast.Call) -> bool:
    """Return whether a call makes a tensor that requires grad: `torch.zeros(3, requires_grad=True)`."""
    return any(keyword.arg == "requires_grad" and is_literal(keyword.value, True) for keyword in made.keywords)
