"""What asks for a way: the rules, of the conditions that a finding of theirs hangs on, and what a way has changed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from tapecheck.interpret.explore.results import Explored
from tapecheck.interpret.explore.stakes import Stake, Watched
from tapecheck.tape import Tape

Lines = set[tuple[str, int]]
"""Lines of files, by path and number."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the rules say of some tapes: the lines that their findings rest on, and what tells the findings apart.

    `lacking` says that one of them is that something never comes, which any further way may bring.
    """

    lines: Lines
    verdicts: frozenset[Hashable]
    lacking: bool


Ask = Callable[[Sequence[Tape]], Answer]
"""What judges some tapes."""
_NOTHING = Answer(set(), frozenset(), lacking=False)


@dataclass(slots=True)
class Wanted:
    """What the whole exploration is for: asked of the tapes so far, and what the answer came to."""

    ask: Ask | None
    log: list[Explored] | None = None
    _tapes: Sequence[Tape] = ()
    _answer: Answer | None = _NOTHING
    """What was said of the tapes so far, None before it is asked for."""

    def look(self, tapes: Sequence[Tape]) -> None:
        """Ask about the tapes so far, once it matters: a finding that one has disproved wants no further way."""
        self._tapes, self._answer = tapes, None

    @property
    def answer(self) -> Answer:
        if self._answer is None:
            self._answer = self.ask(self._tapes) if self.ask is not None else _NOTHING
        return self._answer

    @property
    def verdicts(self) -> object:
        """What tells the findings over the tapes so far apart; unlike any other where nobody can be asked."""
        return self.answer.verdicts if self.ask is not None else object()

    def turns(self, watched: Watched | None) -> bool:
        """Whether the other answer to a condition is to be tried."""
        if watched is None or watched.stake >= Stake.ONCE:
            return True
        if watched.stake is Stake.NOTHING:
            return False
        return self.ask is None or any(
            line in self.answer.lines or (line[1] < 0 and any(file == line[0] for file, _ in self.answer.lines))
            for line in watched.lines
        )
