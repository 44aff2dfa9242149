"""A statement that was to change a tensor, or to call what does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tapecheck.rules.facts import Facts


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateWithoutEffectFacts(Facts):
    """`how` says that the result of an operation is "dropped", or given to a name that nothing reads again ("renamed"),
    or that a method is named and "uncalled". `text` is that method, or the name, as it is written. `of` says what stays
    as it is: a "leaf", which may be a parameter that is frozen, the "gradient" of one, or the "result" of an operation.
    """

    how: Literal["dropped", "renamed", "uncalled"]
    text: str
    of: Literal["leaf", "gradient", "result"]
