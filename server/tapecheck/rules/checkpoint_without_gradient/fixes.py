"""A reentrant checkpoint of inputs without grad: take the other kind."""

from __future__ import annotations

from collections.abc import Iterator

from tapecheck.fixes.candidate import Candidate, Context, Strategy
from tapecheck.fixes.strategies.arguments import with_keyword

NOT_REENTRANT = "Checkpoint with `use_reentrant=False`"
_EFFECT = "The parameters inside get gradients; the forward is still computed anew in backward."


def not_reentrant(context: Context) -> Iterator[Candidate]:
    """Pass `use_reentrant=False` to the call."""
    changes = with_keyword(context, [context.finding.span], "use_reentrant", "False")
    if changes:
        yield Candidate(NOT_REENTRANT, _EFFECT, changes)


STRATEGIES: tuple[Strategy, ...] = (not_reentrant,)
"""What is proposed, preferred first."""
