"""Whose gradient is asked for that no backward fills."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tapecheck.rules.facts import Facts
from tapecheck.tape import Span

How = Literal["update", "given", "read", "early"]
"""What the program does with the tensor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientOfNonLeafFacts(Facts):
    """`tensor` is its name, empty where it has none, and `built` where it was computed. `how` says whether it is an
    "update" of a leaf that had the name before, was "given" to an optimizer, is "read" for its own sake, or "early",
    before a backward fills the gradient of a leaf.
    `ungraded` says that it requires no grad, `cleared` where its gradient was set to None.
    """

    tensor: str
    built: Span
    how: How
    ungraded: bool = False
    cleared: Span | None = None
