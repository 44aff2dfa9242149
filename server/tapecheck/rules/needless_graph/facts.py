"""What leads to a loop whose graphs nothing uses."""

from __future__ import annotations

from dataclasses import dataclass

from tapecheck.rules.facts import Facts
from tapecheck.tape import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class NeedlessGraphFacts(Facts):
    """`calls` lead to the loop, the innermost first."""

    calls: tuple[Span, ...]
