"""Where a model is wrapped that has unused parameters."""

from __future__ import annotations

from dataclasses import dataclass

from tapecheck.rules.facts import Facts
from tapecheck.tape import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusedParameterFacts(Facts):
    """`wrapped` is where the model is wrapped."""

    wrapped: Span
