"""What cut a root off its graph."""

from __future__ import annotations

from dataclasses import dataclass

from tapecheck.rules.facts import Facts
from tapecheck.tape import CutKind


@dataclass(frozen=True, slots=True, kw_only=True)
class BackwardWithoutGraphFacts(Facts):
    """The kinds of cuts that the root or what it was made of went through."""

    cuts: tuple[CutKind, ...]
