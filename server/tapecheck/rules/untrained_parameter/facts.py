"""What no optimizer has."""

from __future__ import annotations

from dataclasses import dataclass

from tapecheck.rules.facts import Facts, Lacking
from tapecheck.tape import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class UntrainedParameterFacts(Facts):
    """`backward` gives the parameters a gradient."""

    lacking: Lacking
    backward: Span | None = None
