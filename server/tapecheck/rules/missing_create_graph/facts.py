"""Whether PyTorch raises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tapecheck.rules.facts import Facts


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingCreateGraphFacts(Facts):
    """`kind` says whether the backward raises or the term is a constant without a word."""

    kind: Literal["raises", "silent"]
