"""What fixes need to know of a second backward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tapecheck.rules.facts import Facts


@dataclass(frozen=True, slots=True, kw_only=True)
class BackwardTwiceFacts(Facts):
    """How the graph came to the second backward.

    `kind` is that of its origin and `name` the value it came with; `summed` says that the value adds up, and
    `detach_first` that the first backward does not need the gradient of what both share. `differentiated` says that the
    first call took a gradient which the second one's loss is made of. `freed_roots` are the names of what the backward
    started from that freed the graph.
    """

    kind: Literal["carried", "outside", "shared", "same"]
    name: str
    summed: bool
    freed_roots: tuple[str, ...]
    detach_first: bool
    differentiated: bool
