"""What hangs on the other answer to an undecided condition."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Set
from dataclasses import dataclass, field

from tapecheck.interpret.explore.effects import Facts
from tapecheck.interpret.explore.jumps import Jumps


class Stake(enum.IntEnum):
    """What hangs on the other answer to a condition."""

    NOTHING = 0
    CERTAINTY = 1
    """How certain a finding is that rests on what this answer leads to."""
    ONCE = 2
    """A verdict, whatever the condition was answered before or is later: alternating answers show no more."""
    VERDICT = 3


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Code of a file that a path has left out for an answer: it stands in the class `owner`, if in any, and may be left
    by `jumps`.

    `handed` says that it gives code which is not visible what leads to gradients, or that this side has replaced code
    of the program which it then uses.
    """

    file: str
    facts: Facts
    owner: str | None
    jumps: Jumps
    handed: bool


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
    left_out: dict[int, LeftOut] = field(default_factory=dict)
    """What the answers so far left out, by the id of its facts."""
    caught: bool = False
    """Whether somebody may catch what the answers so far left out raises."""
    by_names: bool = False
    """Whether a verdict hangs on it by what a condition read that was met: whatever its own code mentions."""

    @property
    def leaves(self) -> bool:
        """Whether the other answer may leave the block around the condition."""
        return any(one.jumps for one in self.left_out.values())

    def add(self, stake: Stake, lines: Set[tuple[str, int]], effects: int = 0, *, caught: bool = False) -> None:
        self.stake = max(self.stake, stake)
        self.caught |= caught
        self.lines |= lines
        self.effects |= effects

    def leave_out(self, parts: Iterable[LeftOut]) -> None:
        """Note what an answer left out."""
        for one in parts:
            known = self.left_out.get(id(one.facts))
            if known is None or not known.handed:
                self.left_out[id(one.facts)] = one
