"""What a term of a loss is."""

from __future__ import annotations

from dataclasses import dataclass

from tapecheck.rules.facts import Facts, Lacking


@dataclass(frozen=True, slots=True, kw_only=True)
class TermWithoutEffectFacts(Facts):
    """`constant` says that the term has no graph at all, `number` that it may be one of Python's or NumPy's numbers.

    `lacking` is what the optimizer lacks of all that the term gives gradients to.
    """

    constant: bool
    number: bool = False
    lacking: Lacking | None = None
