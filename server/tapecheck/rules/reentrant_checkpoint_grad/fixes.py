"""A gradient through reentrant checkpoints: take the other kind."""

from __future__ import annotations

from collections.abc import Iterator

from tapecheck.fixes.candidate import Candidate, Context, Strategy
from tapecheck.rules.checkpoint_without_gradient.fixes import other_kind
from tapecheck.rules.reentrant_checkpoint_grad.facts import ReentrantCheckpointGradFacts


def not_reentrant(context: Context) -> Iterator[Candidate]:
    """Pass `use_reentrant=False` to each of the checkpoints."""
    facts = context.finding.facts
    spans = facts.checkpoints if isinstance(facts, ReentrantCheckpointGradFacts) else ()
    effect = "Gradients by chosen tensors go through it; the forward is still computed anew in backward."
    yield from other_kind(context, spans, effect)


STRATEGIES: tuple[Strategy, ...] = (not_reentrant,)
"""What is proposed, preferred first."""
