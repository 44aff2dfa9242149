"""What asks for a way: the rules, of the conditions that a finding of theirs hangs on."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from typing import Literal

from tapecheck.interpret.explore.results import Explored
from tapecheck.interpret.explore.stakes import Stake, Watched
from tapecheck.tape import Tape

Lines = set[tuple[str, int]]
"""Lines of files, by path and number."""
Ask = Callable[[Sequence[Tape]], Lines]
"""What gives the lines that the findings over some tapes rest on."""
Claim = Literal["never", "certain", "possible"]
"""What a finding that further ways may disprove says: that something never comes, for certain, anything else that is
certain, or what is only possible.
"""
Lacks = Callable[[Sequence[Tape]], Iterator[Claim]]
"""What gives the claim of each finding over some tapes that further ways may disprove."""
Sure = Callable[[Sequence[Tape]], Set[Hashable]]
"""What tells the findings over some tapes that are certain."""
Spoils = Callable[[Sequence[Tape], Tape], bool]
"""What tells whether a further tape leaves anything uncertain that the findings over some tapes are certain of."""
Compare = Callable[[Sequence[Tape], Tape | None], Hashable]
"""What tells the findings over some tapes, with a further one, from those over others."""


@dataclass(slots=True)
class Wanted:
    """What the whole exploration is for: asked of the tapes so far, and what the answer came to."""

    ask: Ask | None
    log: list[Explored] | None = None
    lacks: Lacks | None = None
    compare: Compare | None = None
    sure: Sure | None = None
    spoils: Spoils | None = None
    _tapes: Sequence[Tape] = ()
    _lines: Lines | None = field(default_factory=set)
    _lacking: bool | None = False
    _before: tuple[Sequence[Tape], int, Hashable] = ((), -1, None)
    """What tells the findings over the tapes so far, with these and their number."""

    def look(self, tapes: Sequence[Tape]) -> None:
        """Ask about the tapes so far, once it matters: a finding that one has disproved wants no further way."""
        self._tapes, self._lines, self._lacking = tapes, None, None

    @property
    def lines(self) -> Lines:
        if self._lines is None:
            self._lines = self.ask(self._tapes) if self.ask is not None else set()
        return self._lines

    @property
    def lacking(self) -> bool:
        """Whether a finding so far says that something never comes."""
        if self._lacking is None:
            self._lacking = any(True for _ in self._lacks())
        return self._lacking

    def sure_of(self, tapes: Sequence[Tape]) -> Set[Hashable]:
        """Return what tells the findings over some tapes that are certain."""
        return self.sure(tapes) if self.sure is not None else frozenset()

    @property
    def claiming(self) -> bool:
        """Whether one says so for certain."""
        return self.lacking and "never" in self._lacks()

    @property
    def certain(self) -> bool:
        """Whether anything that further ways may disprove is certain."""
        return self.lacking and not {"never", "certain"}.isdisjoint(self._lacks())

    def _lacks(self) -> Iterator[Claim]:
        return self.lacks(self._tapes) if self.lacks is not None else iter(())

    @property
    def compares(self) -> bool:
        """Whether the findings over some tapes can be told from those over others."""
        return self.compare is not None

    def changed_by(self, tapes: Sequence[Tape], tape: Tape) -> bool:
        """Return whether a further tape changes what is found."""
        if self.compare is None:
            return True
        if self._before[0] is not tapes or self._before[1] != len(tapes):
            self._before = tapes, len(tapes), self.compare(tapes, None)
        return self._before[2] != self.compare(tapes, tape)

    def spoilt_by(self, tapes: Sequence[Tape], tape: Tape) -> bool:
        """Return whether a further tape leaves anything uncertain that is certain."""
        return self.spoils is None or self.spoils(tapes, tape)

    def turns(self, watched: Watched | None) -> bool:
        """Whether the other answer to a condition is to be tried."""
        if watched is None or watched.stake >= Stake.ONCE:
            return True
        if watched.stake is Stake.NOTHING:
            return False
        return self.ask is None or any(
            line in self.lines or (line[1] < 0 and any(file == line[0] for file, _ in self.lines))
            for line in watched.lines
        )
