"""Where gradients are cleared."""

from __future__ import annotations

from dataclasses import dataclass

from tapecheck.rules.facts import Facts
from tapecheck.tape import Fact, Span


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleGradientFacts(Facts):
    """`cleared` is a call that clears them, at the wrong time. `summed` says whether the gradients of several batches
    come together in a step. `unlisted` says that no optimizer has the parameters, whose gradients the program gives to
    others or steps by itself; `clearing` are statements that clear them then, where that can be written. `dropped` is
    where those that were given to others are dropped, so that the next backward makes new ones. `beside` are backward
    calls before this one that add to the gradients for a step of something else.
    """

    cleared: Span | None = None
    summed: Fact = "no"
    unlisted: bool = False
    clearing: tuple[str, ...] = ()
    dropped: Span | None = None
    beside: tuple[Span, ...] = ()


def beside(facts: Facts | None) -> tuple[Span, ...]:
    """Return the other backward calls that add to the gradients of a finding."""
    return facts.beside if isinstance(facts, StaleGradientFacts) else ()
