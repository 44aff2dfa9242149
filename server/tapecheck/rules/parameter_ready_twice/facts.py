"""Which backward made a gradient ready before, or which checkpoints do it twice."""

from __future__ import annotations

from dataclasses import dataclass

from tapecheck.rules.facts import Facts
from tapecheck.rules.reduction import Again
from tapecheck.tape import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterReadyTwiceFacts(Facts):
    """`cause` is why, `checkpoints` are the calls of the reentrant checkpoints."""

    cause: Again
    checkpoints: tuple[Span, ...] = ()
