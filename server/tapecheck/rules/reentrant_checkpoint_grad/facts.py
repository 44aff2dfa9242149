"""Which checkpoints a gradient goes through."""

from __future__ import annotations

from dataclasses import dataclass

from tapecheck.rules.facts import Facts
from tapecheck.tape import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class ReentrantCheckpointGradFacts(Facts):
    """`checkpoints` are the calls of the reentrant checkpoints."""

    checkpoints: tuple[Span, ...] = ()
