"""What keeps graphs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tapecheck.rules.facts import Facts
from tapecheck.tape import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphKeptFacts(Facts):
    """The holder, and how much of each iteration it keeps.

    `kind` says whether it holds more values or one that leads to ever more; `backwarded` that a backward has freed the
    saved tensors of some of it. `scope` is where the function begins that keeps what its calls returned, or whose
    variable the holder is, as far as that is known.
    """

    holder: str
    scope: Span | None = None
    kind: Literal["chain", "container"] = "container"
    nodes_per_iteration: int = 0
    saved_tensors_kept: bool = False
    backwarded: bool = False
