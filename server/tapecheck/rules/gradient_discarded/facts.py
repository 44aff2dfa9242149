"""What clears gradients too early."""

from __future__ import annotations

from dataclasses import dataclass

from tapecheck.rules.facts import Facts
from tapecheck.tape import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientDiscardedFacts(Facts):
    """`cleared` is the call that clears them."""

    cleared: Span | None = None
