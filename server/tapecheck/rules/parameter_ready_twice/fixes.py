"""Parameters that are ready twice: the other kind of checkpoint, or one backward."""

from __future__ import annotations

from collections.abc import Iterator

from tapecheck.fixes import rewrite
from tapecheck.fixes.candidate import Candidate, Context, Strategy
from tapecheck.rules.backward_twice.fixes import sum_losses
from tapecheck.rules.parameter_ready_twice.facts import ParameterReadyTwiceFacts


def not_reentrant(context: Context) -> Iterator[Candidate]:
    """Pass `use_reentrant=False` to each of the checkpoints."""
    code, facts = context.code, context.finding.facts
    spans = facts.checkpoints if isinstance(facts, ParameterReadyTwiceFacts) else ()
    calls = [call for call in map(context.call_at, spans) if call is not None]
    if not calls or len(calls) < len(spans):
        return
    try:
        texts = [rewrite.with_argument(code.segment(call), "use_reentrant", "False") for call in calls]
    except rewrite.RewriteError:
        return
    yield Candidate(
        "Checkpoint with `use_reentrant=False`",
        "One backward adds up all uses of a parameter; the forward is still computed anew in it.",
        [code.replace(call, text) for call, text in zip(calls, texts)],
    )


STRATEGIES: tuple[Strategy, ...] = (not_reentrant, sum_losses)
"""What is proposed, preferred first."""
