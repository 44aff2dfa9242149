"""Which call retains a graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tapecheck.rules.facts import Facts


@dataclass(frozen=True, slots=True, kw_only=True)
class NeedlessRetainGraphFacts(Facts):
    """`call` is what retains."""

    call: Literal["backward", "grad"]
