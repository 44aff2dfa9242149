"""Fixes for parameters that no optimizer has: register them, or hand them over."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tapecheck.fixes.candidate import Candidate, Context
from tapecheck.rules.facts import Lacking
from tapecheck.rules.gradient_cut.facts import GradientCutFacts
from tapecheck.rules.untrained_parameter.facts import UntrainedParameterFacts
from tapecheck.tape import Span

EFFECT = "The optimizer has the parameters from now on, and trains them."


def make_optimizer_later(context: Context) -> Iterator[Candidate]:
    """Make the optimizer once the model is complete."""
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
        lines, gone = code.lines_of(making), code.delete(making)
        change = code.insert_after(place, [line.strip() for line in lines]) if lines and len(lines) == 1 else None
        if gone is not None and change is not None:
            yield Candidate(
                f"Make the optimizer after line {place.lineno}: the model is complete there",
                EFFECT,
                [gone, change],
                group="later",
            )


def lacking_of(context: Context) -> Lacking | None:
    """Return what the optimizer of a finding lacks."""
    facts = context.finding.facts
    if isinstance(facts, UntrainedParameterFacts):
        return facts.lacking
    return facts.replaced if isinstance(facts, GradientCutFacts) else None


def added_to(context: Context, lacking: Lacking) -> list[Span]:
    """Return where what was made after the optimizer comes into the model, in the file of the optimizer."""
    return list(dict.fromkeys([*lacking.made, context.finding.span, *lacking.calls]))
