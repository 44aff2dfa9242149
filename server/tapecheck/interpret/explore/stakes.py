"""What hangs on the other answer to an undecided condition."""

from __future__ import annotations

import enum
from collections.abc import Set
from dataclasses import dataclass, field


class Stake(enum.IntEnum):
    """What hangs on the other answer to a condition."""

    NOTHING = 0
    CERTAINTY = 1
    """How certain a finding is that rests on what this answer leads to."""
    ONCE = 2
    """A verdict, whatever the condition was answered before or is later: alternating answers show no more."""
    VERDICT = 3


@dataclass(slots=True)
class Watched:
    """A condition that was asked: the most that hangs on it, the lines it decides about, those it led to.

    `names` are those that it gives other numbers, by file, and whether these are lengths of lists: what hangs on them
    are the conditions that read them.
    """

    stake: Stake = Stake.NOTHING
    lines: set[tuple[str, int]] = field(default_factory=set)
    names: set[tuple[str, str, bool]] = field(default_factory=set)
    effects: int = 0
    """What the code can do that the answers so far left out, as bits of `Effect`."""
    by_names: bool = False
    """Whether a verdict hangs on it by what a condition read that was met: whatever its own code mentions."""

    def add(self, stake: Stake, lines: Set[tuple[str, int]], effects: int = 0) -> None:
        self.stake = max(self.stake, stake)
        self.lines |= lines
        self.effects |= effects
