"""What stays behind in cycles."""

from __future__ import annotations

from dataclasses import dataclass

from tapecheck.rules.facts import Facts


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateGraphCycleFacts(Facts):
    """`fresh` says that each iteration leaves leaves of its own behind."""

    fresh: bool
