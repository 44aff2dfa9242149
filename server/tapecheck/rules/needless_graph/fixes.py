"""A loop whose graphs nothing uses: run it without recording."""

from __future__ import annotations

from collections.abc import Iterator

from tapecheck.fixes.candidate import Candidate, Context, Strategy
from tapecheck.fixes.strategies.evaluated import SAME, is_wrappable, without_recording
from tapecheck.rules.needless_graph.facts import NeedlessGraphFacts


def switch_recording_off(context: Context) -> Iterator[Candidate]:
    """Put `with torch.no_grad():` around the loop, else around the statement that calls its function."""
    code, facts = context.code, context.finding.facts
    places = [facts.loop, *facts.calls] if isinstance(facts, NeedlessGraphFacts) else []
    for number, span in enumerate(place for place in places if place is not None):
        statement = code.statement_at(span) if span.file == context.finding.span.file else None
        if statement is not None and is_wrappable(statement):
            what = f"the call on line {statement.lineno}" if number else "the loop"
            yield from without_recording(context, statement, f"Run {what}", SAME, "no_grad", guarded=number > 0)


STRATEGIES: tuple[Strategy, ...] = (switch_recording_off,)
"""What is proposed, preferred first."""
