"""Where gradients are cleared."""

from __future__ import annotations

from dataclasses import dataclass

from tapecheck.rules.facts import Facts
from tapecheck.tape import Fact, Span


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleGradientFacts(Facts):
    """`cleared` is a call that clears them, at the wrong time. `summed` says whether the gradients of several batches
    come together in a step. `handed` says that the program gives the gradients to the parameters of an optimizer whose
    `zero_grad()` does not reach them, `owner` names the module that they are of.
    """

    cleared: Span | None = None
    summed: Fact = "no"
    handed: bool = False
    owner: str = ""
