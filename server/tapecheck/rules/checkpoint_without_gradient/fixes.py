"""A reentrant checkpoint of inputs without grad: take the other kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tapecheck.fixes.candidate import Candidate, Context, Strategy, offered
from tapecheck.fixes.strategies.arguments import with_keyword
from tapecheck.tape import Span

_EFFECT = "The parameters inside get gradients; the forward is still computed anew in backward."


def not_reentrant(context: Context) -> Iterator[Candidate]:
    """Pass `use_reentrant=False` to the call."""
    yield from other_kind(context, [context.finding.span], _EFFECT)


def other_kind(context: Context, checkpoints: Sequence[Span], effect: str) -> Iterator[Candidate]:
    """Pass `use_reentrant=False` to calls of `checkpoint`; `effect` says what comes of it."""
    changes = with_keyword(context, checkpoints, "use_reentrant", "False")
    yield from offered("Checkpoint with `use_reentrant=False`", effect, *changes)


STRATEGIES: tuple[Strategy, ...] = (not_reentrant,)
"""What is proposed, preferred first."""
