"""Conditions that are too many to try one by one are tried together.

A probe is a way that answers many conditions otherwise at once. The rules do not read its tape as that of a run: what
only a combination of answers shows may be a combination that no run has. Where the findings stay as they are with it,
each of these conditions counts as tried; where they change, the half that does it is looked for, down to single
conditions, whose ways are run as any other. Where the work ends before that, the tape may speak against a finding.
Where a probe raises, the condition that was asked last is taken out, and the others are tried together once more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Set
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from tapecheck.interpret import limits
from tapecheck.interpret.explore.wanted import Wanted
from tapecheck.interpret.explore.ways import Way
from tapecheck.interpret.state import Place, Policy
from tapecheck.interpret.state.choices import place_of
from tapecheck.tape import Decision, End, Tape


class Runner(Protocol):
    """What runs ways from a start."""

    def probe(self, way: Way) -> tuple[Tape, Set[Place]]:
        """Run a way whose tape the rules do not read; return that, and the conditions that it came to."""

    def try_way(self, way: Way) -> None:
        """Run a way, and keep its tape where that says something new."""

    @property
    def has_work(self) -> bool:
        """Whether there is work left for a way."""


class _Group(NamedTuple):
    """Ways to try together, and the tape of a larger group that changes the findings, or how that one raised."""

    ways: list[Way]
    against: Tape | None = None
    raised: object = None


@dataclass(slots=True)
class Probes:
    """The ways that are left of a start, tried in groups; `tapes` are those that the rules read."""

    runner: Runner
    wanted: Wanted
    tapes: list[Tape]
    by_default: bool
    done: set[Place] = field(default_factory=set)
    """The conditions that were answered otherwise together with others, and change no finding."""
    tried: list[Way] = field(default_factory=list)
    """The ways that were run by themselves."""
    _groups: deque[_Group] = field(default_factory=deque)

    def try_all(self, ways: Iterable[Way]) -> None:
        """Try ways together, as far as the work goes."""
        self._groups.append(_Group(list(ways)))
        for _ in range(limits.MOST_PROBES):
            if not self._groups or not self.runner.has_work:
                break
            group = self._groups.popleft()
            if len(group.ways) == 1:
                self.runner.try_way(group.ways[0])
                self.tried.append(group.ways[0])
            else:
                self._try(group)
        against = {id(group.against): group.against for group in self._groups if group.against is not None}
        self.tapes += against.values()

    def _try(self, group: _Group) -> None:
        """Run one way for a group, and note the groups to go on with, the most telling first."""
        tape, asked = self.runner.probe(_together(group.ways, self.by_default))
        met = [way for way in group.ways if asked >= way.policy.patterns.keys()]
        rest = [way for way in group.ways if way not in met]
        if not met:
            # One answer leads past all others.
            self._split(rest, group.against)
            return
        if self._take_out(group, tape, met):
            return
        if rest:
            self._groups.appendleft(_Group(rest, group.against))
        against = group.against
        # An exception may hide what the rest of the program would show.
        if tape.complete:
            if not self.wanted.changed_by(self.tapes, tape):
                self.done |= {way.turned for way in met if way.turned is not None}
                return
            tape.refutes_only, against = True, tape
        self._split(met, against)

    def _take_out(self, group: _Group, tape: Tape, met: Collection[Way]) -> bool:
        """Take the answer out of a group that the program seems to refuse; return whether there is one."""
        raised = _raised(tape)
        last = _asked_last(tape, met) if raised is not None and raised != group.raised else None
        if last is None:
            return False
        others = [way for way in group.ways if way is not last]
        self._groups.appendleft(_Group(others, group.against, raised))
        self._groups.append(_Group([last], group.against))
        return True

    def _split(self, ways: list[Way], against: Tape | None) -> None:
        half = (len(ways) + 1) // 2
        self._groups.extendleft(_Group(part, against) for part in (ways[half:], ways[:half]) if part)


def _raised(tape: Tape) -> object:
    """Return the condition that a way asked last and its end, where it raised."""
    match tape.events[-1]:
        case End(how="raised") as end:
            return next((place_of(one) for one in reversed(tape.events) if type(one) is Decision), None), end
    return None


def _asked_last(tape: Tape, ways: Collection[Way]) -> Way | None:
    """Return the one of some ways whose condition was asked last."""
    by_place = {way.turned: way for way in ways}
    places = (place_of(event) for event in reversed(tape.events) if type(event) is Decision)
    return next((by_place[place] for place in places if place in by_place), None)


def _together(group: Collection[Way], by_default: bool) -> Way:
    """Return the way that answers otherwise what any of some ways does."""
    patterns = {place: pattern for way in group for place, pattern in way.policy.patterns.items()}
    return Way(Policy(patterns, by_default), together=True)
