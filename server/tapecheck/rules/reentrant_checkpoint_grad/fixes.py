"""A gradient through reentrant checkpoints: take the other kind."""

from __future__ import annotations

from collections.abc import Iterator

from tapecheck.fixes.candidate import Candidate, Context, Strategy
from tapecheck.fixes.strategies.arguments import with_keyword
from tapecheck.rules.checkpoint_without_gradient.fixes import NOT_REENTRANT
from tapecheck.rules.reentrant_checkpoint_grad.facts import ReentrantCheckpointGradFacts


def not_reentrant(context: Context) -> Iterator[Candidate]:
    """Pass `use_reentrant=False` to each of the checkpoints."""
    facts = context.finding.facts
    spans = facts.checkpoints if isinstance(facts, ReentrantCheckpointGradFacts) else ()
    changes = with_keyword(context, spans, "use_reentrant", "False")
    if changes:
        effect = "Gradients by chosen tensors go through it; the forward is still computed anew in backward."
        yield Candidate(NOT_REENTRANT, effect, changes)


STRATEGIES: tuple[Strategy, ...] = (not_reentrant,)
"""What is proposed, preferred first."""
