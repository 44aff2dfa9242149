"""Parameters that are ready twice: the other kind of checkpoint, or one backward."""

from __future__ import annotations

from collections.abc import Iterator

from tapecheck.fixes.candidate import Candidate, Context, Strategy
from tapecheck.rules.backward_twice.fixes import sum_losses
from tapecheck.rules.checkpoint_without_gradient.fixes import other_kind
from tapecheck.rules.parameter_ready_twice.facts import ParameterReadyTwiceFacts


def not_reentrant(context: Context) -> Iterator[Candidate]:
    """Pass `use_reentrant=False` to each of the checkpoints."""
    facts = context.finding.facts
    spans = facts.checkpoints if isinstance(facts, ParameterReadyTwiceFacts) else ()
    effect = "One backward adds up all uses of a parameter; the forward is still computed anew in it."
    yield from other_kind(context, spans, effect)


STRATEGIES: tuple[Strategy, ...] = (not_reentrant, sum_losses)
"""What is proposed, preferred first."""
