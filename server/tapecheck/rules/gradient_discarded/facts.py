"""What clears gradients too early."""

from __future__ import annotations

from dataclasses import dataclass

from tapecheck.rules.facts import Facts
from tapecheck.tape import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientDiscardedFacts(Facts):
    """`cleared` is the call that clears them.

    `stepless` says that no optimizer of the program steps, and `clipped` is then where they are clipped for a step.
    `step` is the missing call, as the program would write it where it clears; it is empty where that is not known, or
    where more than that is missing.
    """

    cleared: Span | None = None
    stepless: bool = False
    clipped: Span | None = None
    step: str = ""
