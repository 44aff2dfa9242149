"""What keeps gradients from parameters."""

from __future__ import annotations

from dataclasses import dataclass

from tapecheck.rules.facts import Facts, Lacking
from tapecheck.rules.words import Untraining


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientCutFacts(Facts):
    """`how` is the cause; `replaced` what the optimizer lacks where its parameters were replaced later."""

    how: Untraining | None = None
    replaced: Lacking | None = None
