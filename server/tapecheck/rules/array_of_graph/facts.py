"""What is made an array of that has a graph."""

from __future__ import annotations

from dataclasses import dataclass

from tapecheck.rules.facts import Facts


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayOfGraphFacts(Facts):
    """`tensor` is its name, empty where it has none."""

    tensor: str
