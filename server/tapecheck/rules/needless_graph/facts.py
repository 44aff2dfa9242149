"""What leads to a loop whose graphs nothing uses."""

from __future__ import annotations

from dataclasses import dataclass

from tapecheck.rules.facts import Facts
from tapecheck.tape import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class NeedlessGraphFacts(Facts):
    """`calls` lead to the loop, the innermost first; `passed` is the single forward pass that it is about, if any."""

    calls: tuple[Span, ...]
    passed: Span | None = None
