"""Parameters that no backward comes to: let the wrapper look for them."""

from __future__ import annotations

from collections.abc import Iterator

from tapecheck.fixes import rewrite
from tapecheck.fixes.candidate import Candidate, Context, Strategy
from tapecheck.rules.unused_parameter.facts import UnusedParameterFacts


def find_unused(context: Context) -> Iterator[Candidate]:
    """Pass `find_unused_parameters=True` where the model is wrapped."""
    code, facts = context.code, context.finding.facts
    call = context.call_at(facts.wrapped) if isinstance(facts, UnusedParameterFacts) else None
    if call is None:
        return
    try:
        text = rewrite.with_argument(code.segment(call), "find_unused_parameters", "True")
    except rewrite.RewriteError:
        return
    yield Candidate(
        "Wrap with `find_unused_parameters=True`",
        "Each forward looks for parameters that its outputs do not lead to, which takes time.",
        [code.replace(call, text)],
    )


STRATEGIES: tuple[Strategy, ...] = (find_unused,)
"""What is proposed, preferred first."""
