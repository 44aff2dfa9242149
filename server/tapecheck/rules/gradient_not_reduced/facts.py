"""Why gradients are not averaged."""

from __future__ import annotations

from dataclasses import dataclass

from tapecheck.rules.facts import Facts
from tapecheck.rules.reduction import Cause
from tapecheck.tape import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientNotReducedFacts(Facts):
    """`cause` is why, `wrapped` where the model is wrapped, `checkpoints` the calls of reentrant ones."""

    cause: Cause
    wrapped: Span
    checkpoints: tuple[Span, ...] = ()
