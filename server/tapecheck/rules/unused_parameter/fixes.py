"""Parameters that no backward comes to: let the wrapper look for them."""

from __future__ import annotations

from collections.abc import Iterator

from tapecheck.fixes.candidate import Candidate, Context, Strategy, offered
from tapecheck.fixes.strategies.arguments import with_keyword
from tapecheck.rules.unused_parameter.facts import UnusedParameterFacts


def find_unused(context: Context) -> Iterator[Candidate]:
    """Pass `find_unused_parameters=True` where the model is wrapped."""
    facts = context.finding.facts
    spans = [facts.wrapped] if isinstance(facts, UnusedParameterFacts) else []
    changes = with_keyword(context, spans, "find_unused_parameters", "True")
    effect = "Each forward looks for parameters that its outputs do not lead to, which takes time."
    yield from offered("Wrap with `find_unused_parameters=True`", effect, *changes)


STRATEGIES: tuple[Strategy, ...] = (find_unused,)
"""What is proposed, preferred first."""
