"""A reentrant checkpoint of inputs without grad: take the other kind."""

from __future__ import annotations

from collections.abc import Iterator

from tapecheck.fixes import rewrite
from tapecheck.fixes.candidate import Candidate, Context, Strategy

_EFFECT = "The parameters inside get gradients; the forward is still computed anew in backward."


def not_reentrant(context: Context) -> Iterator[Candidate]:
    """Pass `use_reentrant=False` to the call."""
    code = context.code
    call = context.call_at(context.finding.span)
    if call is None:
        return
    try:
        text = rewrite.with_argument(code.segment(call), "use_reentrant", "False")
    except rewrite.RewriteError:
        return
    yield Candidate("Checkpoint with `use_reentrant=False`", _EFFECT, [code.replace(call, text)])


STRATEGIES: tuple[Strategy, ...] = (not_reentrant,)
"""What is proposed, preferred first."""
