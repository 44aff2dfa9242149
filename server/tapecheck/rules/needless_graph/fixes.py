"""A loop whose graphs nothing uses: run it without recording."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tapecheck.fixes.candidate import Candidate, Context, Strategy
from tapecheck.fixes.strategies.evaluated import SAME, is_wrappable, without_recording
from tapecheck.rules.needless_graph.facts import NeedlessGraphFacts
from tapecheck.tape import Span

_COMPOUND = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try)
_LATER = "Check that no loss of this loop is computed from the result under other options."


def switch_recording_off(context: Context) -> Iterator[Candidate]:
    """Put `with torch.no_grad():` around the loop, else around the statement that calls its function."""
    code, facts = context.code, context.finding.facts
    if isinstance(facts, NeedlessGraphFacts) and facts.passed is not None:
        yield from _of_pass(context, facts.passed)
        return
    places = [facts.loop, *facts.calls] if isinstance(facts, NeedlessGraphFacts) else []
    for number, span in enumerate(place for place in places if place is not None):
        statement = code.statement_at(span) if span.file == context.finding.span.file else None
        if statement is not None and is_wrappable(statement):
            what = f"the call on line {statement.lineno}" if number else "the loop"
            yield from without_recording(context, statement, f"Run {what}", SAME, "no_grad", guarded=number > 0)


def _of_pass(context: Context, span: Span) -> Iterator[Candidate]:
    """Put `with torch.no_grad():` around the statement of a single forward pass, in a loop that trains."""
    statement = context.code.statement_at(span) if span.file == context.finding.span.file else None
    if statement is None or not is_wrappable(statement) or isinstance(statement, _COMPOUND):
        return
    for candidate in without_recording(context, statement, "Run this statement", SAME, "no_grad"):
        # The loop trains: under another option it may learn from this, too.
        candidate.safe = False
        candidate.effect = f"{SAME} {_LATER}"
        yield candidate


STRATEGIES: tuple[Strategy, ...] = (switch_recording_off,)
"""What is proposed, preferred first."""
