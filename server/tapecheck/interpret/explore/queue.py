"""The ways from one start that are still to be tried, and those that are put off until a finding asks for them."""

from __future__ import annotations

import ast
import itertools
from collections import deque
from collections.abc import Collection, Hashable, Iterable, Mapping, Set
from dataclasses import dataclass, field

from tapecheck.interpret import limits
from tapecheck.interpret.explore.stakes import Stake, Watched
from tapecheck.interpret.explore.wanted import Wanted
from tapecheck.interpret.explore.ways import Way, all_passed, all_turned, together
from tapecheck.interpret.state import Place
from tapecheck.interpret.state.choices import Asked


@dataclass(slots=True)
class Queue:
    """The ways to try, in the order in which they are tried: what answers one condition otherwise comes first."""

    wanted: Wanted
    by_default: bool = False
    """Whether options that loops count by keep their defaults in its ways."""
    _waiting: deque[Way] = field(default_factory=deque)
    _tried: set[Hashable] = field(default_factory=set)
    """The policies of ways that were run or are in the queue."""
    _resting: dict[Hashable, Watched] = field(default_factory=dict)
    """Of ways in the queue, by policy: why one is run that can only change how certain a finding is."""
    _deferred: list[tuple[Way, Watched]] = field(default_factory=list)
    """Ways that no verdict hangs on so far, each with what one could hang on."""
    _last: bool = False
    """Whether nothing else is left to try: what is put off may still bring what a finding says never comes."""
    _single: dict[Place, Way] = field(default_factory=dict)
    """The ways that answer one condition otherwise, for good."""
    _quiet: dict[Place, Way] = field(default_factory=dict)
    """The ways that answer one condition otherwise of which its code does not say that anything hangs on it."""
    _passing: dict[Place, Way] = field(default_factory=dict)
    """The ways that pass by a loop which may not go round."""
    _failing: dict[Place, Way] = field(default_factory=dict)
    """The ways that have an exception raised which nobody has seen."""
    _asked: dict[Place, bool] = field(default_factory=dict)
    """The likelier answers to all conditions that were asked."""
    _statements: dict[Place, ast.AST | None] = field(default_factory=dict)
    """The statements that these decide about."""
    _combined: bool = False
    """Whether these were tried together, too."""

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def next(self) -> Way:
        """The way that is tried next."""
        return self._waiting[0]

    @property
    def waiting(self) -> set[Place]:
        """The conditions that ways in the queue answer otherwise, which none has answered so alone."""
        return {way.turned for way in self._waiting if way.turned is not None and not way.together}

    @property
    def missed(self) -> set[Place]:
        """The conditions that ways which are put off answer otherwise, where a finding asks for them by now."""
        asks = self.wanted
        return {way.turned for way, why in self._deferred if way.turned and (asks.lacking or asks.turns(why))}

    @property
    def unpassed(self) -> set[Place]:
        """The loops that no way has passed by alone, where something is said never to come: by one of them it may."""
        left = {place for place, way in self._passing.items() if way.policy.key() not in self._tried}
        # The rules are asked only where it matters.
        return left if left and self.wanted.claiming else set()

    @property
    def choosing(self) -> dict[Place, ast.AST | None]:
        """The conditions that were asked, and the loops that may not go round, each with its statement."""
        return {**self._statements, **dict.fromkeys(self._passing)}

    @property
    def answers(self) -> Mapping[Place, bool]:
        """The likelier answers to all conditions that were asked."""
        return self._asked

    @property
    def most(self) -> int:
        """How many ways may still be run, whatever is wanted of those that are put off."""
        return len(self._waiting) + len(self._deferred)

    def left(self, settled: Collection[Place]) -> list[Way]:
        """Return the ways that are still to be run, one for each condition that is not settled."""
        asks = self.wanted
        deferred = (way for way, why in self._deferred if asks.lacking or asks.turns(why))
        found: dict[Place, Way] = {}
        for way in itertools.chain(self._waiting, deferred):
            if way.turned is not None and not way.together and way.turned not in settled:
                found.setdefault(way.turned, way)
        return list(found.values())

    def leave_out(self, settled: Collection[Place], run: Collection[Way]) -> None:
        """Leave out ways that were run, and those whose other answer is known by others to change nothing."""
        keys = {way.policy.key() for way in run}
        self._tried |= keys

        def stays(way: Way) -> bool:
            return way.turned not in settled and way.policy.key() not in keys

        self._waiting = deque(filter(stays, self._waiting))
        self._deferred = [(way, why) for way, why in self._deferred if stays(way)]

    def add(self, way: Way) -> bool:
        """Queue a way; return whether it is one that has not been tried."""
        key = way.policy.key()
        if key in self._tried:
            return False
        self._tried.add(key)
        self._waiting.append(way)
        return True

    def add_or_defer(self, way: Way, watched: Watched | None, *, at_once: bool) -> None:
        """Queue a way, or put it off where no verdict hangs on its condition so far.

        `at_once` says that it is tried whatever hangs on it.
        """
        only_certainty = watched is not None and watched.stake is Stake.CERTAINTY
        if at_once or self.wanted.turns(watched):
            if self.add(way) and watched is not None and only_certainty:
                self._resting[way.policy.key()] = watched
        elif watched is not None and only_certainty:
            self._deferred.append((way, watched))

    def note(
        self, single: Iterable[Way], quiet: Iterable[Way], passing: Iterable[Way], failing: Iterable[Way],
        asked: Mapping[Place, Asked],
    ) -> None:  # fmt: skip
        """Note ways that answer one condition otherwise, whether or not they are tried alone, those of which nothing
        says that anything hangs on it, those that pass by one loop, those that have an exception raised, and what was
        asked.
        """
        kinds = ((self._single, single), (self._quiet, quiet), (self._passing, passing), (self._failing, failing))
        for known, found in kinds:
            for way in found:
                assert way.turned is not None
                known.setdefault(way.turned, way)
        for place, one in asked.items():
            self._asked.setdefault(place, one.default)
            self._statements.setdefault(place, one.statement)

    def take_quiet(self, settled: Collection[Place]) -> list[Way]:
        """Take the ways out that answer a condition otherwise on which nothing hangs that code says, once each, but for
        those of conditions that are settled.
        """
        found = [way for place, way in self._quiet.items() if place not in settled]
        self._quiet = {}
        return found

    def take(self, dull: Collection[Place]) -> Way | None:
        """Take the next way out; None where it has nothing to show since others were run.

        `dull` are the conditions whose other answer made no other graph.
        """
        way = self._waiting.popleft()
        key = way.policy.key()
        if way.turned in dull and len(way.policy.patterns) > 1 and not way.together:
            self._tried.discard(key)
            return None
        why = self._resting.pop(key, None)
        if why is None or self._asks_for(why):
            return way
        # What it was to tell is known by now: another way does not show the finding, though it may again.
        self._tried.discard(key)
        self._deferred.append((way, why))
        return None

    def sort(self, untold: Set[str]) -> None:
        """Put what answers one condition otherwise first, of that what calls functions that none has called, whose
        names are `untold`, and then what does so for good.
        """
        self._waiting = deque(sorted(self._waiting, key=lambda way: way.rank(untold)))

    def take_up_deferred(self) -> None:
        """Queue what was put off and may matter now."""
        self._take_up()
        if not self._waiting and self._deferred and not self._last:
            self._last = True
            self._take_up()
        every = (self._single, self._passing, self._failing)
        if not self._waiting and any(every) and not self._combined and self.wanted.claiming:
            # What is said never to come may take what several conditions do, of which none shows anything alone.
            self._combined = True
            for ways, most in ((self._passing, limits.MOST_PASSED_BY), (self._failing, limits.MOST_FAILING)):
                deque(itertools.islice(filter(self.add, ways.values()), most), maxlen=0)
            for way in all_passed(self._passing.values(), self._asked, self.by_default):
                self.add(way)
            conditions, loops = [*self._single.values()], [*self._passing.values()]
            combined = itertools.chain(all_turned(self._asked, self.by_default), together(conditions))
            # The loops, of which there may be many, take none of the places of the conditions.
            for pairs in (combined, together([*loops, *conditions]) if loops else ()):
                deque(itertools.islice(filter(self.add, pairs), limits.MOST_TOGETHER), maxlen=0)

    def _take_up(self) -> None:
        ready = [(way, why) for way, why in self._deferred if self._asks_for(why)]
        self._deferred = [(way, why) for way, why in self._deferred if not self._asks_for(why)]
        for way, why in ready:
            if self.add(way):
                self._resting[way.policy.key()] = why

    def _asks_for(self, why: Watched) -> bool:
        return self.wanted.turns(why) or (self._last and self.wanted.lacking)
