"""The functions that a check began with to come to a finding, and those of which their callers say more.

A function that nothing in its file calls is a program of its own until the files that call it are read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Protocol

from tapecheck.rules.finding import Finding
from tapecheck.tape import Called, Span, Tape

Judge = Callable[[Sequence[Tape], Collection[str]], list[Finding]]


class Begun(Protocol):
    """The tapes of one start, which is a function or, where `start` is None, the module."""

    @property
    def tapes(self) -> Sequence[Tape]: ...

    @property
    def start(self) -> Span | None: ...


def note_starts(findings: Iterable[Finding], groups: Sequence[Begun], judge: Judge) -> None:
    """Note the functions that the check began with where nothing else shows a finding of these groups."""
    if all(group.start is None for group in groups):
        return
    for finding in findings:
        showing = [group for group in groups if len(groups) == 1 or _shows(group, finding, judge)]
        starts = {group.start for group in showing}
        # What only several starts together show is not that of one of them.
        if None not in starts:
            finding.starts = tuple(start for start in starts if start is not None)


def _shows(group: Begun, finding: Finding, judge: Judge) -> bool:
    return any(one.key == finding.key for one in judge(group.tapes, [finding.code]))


Place = tuple[str, int]
"""A file and a line."""


class Texts(Protocol):
    """What the texts of a project say of a function."""

    def places_of(self, function: Place) -> Collection[Place] | None:
        """Return where it is named, other than to define or import it; None where nobody knows."""

    def calls_unrecorded(self, function: Place) -> bool:
        """Return whether it is named only to call it, where recording is switched off around that."""


class LeftToCallers:
    """Tells the findings of functions that say nothing of a program, beside the code that calls them.

    A function that is called only where autograd records nothing is no program by itself; what the rules `raising` find
    PyTorch raises all the same. What rests on it that a function is called with recording on is told by the program
    that calls it so, where this was run to its end. So are possible errors and warnings, where each call is in such a
    program: nobody else passes anything else.

    A place that names a function and that the dry run did not come to as a call may be another call, or hand it on.
    What stands in a block that switches recording off runs so, whether the dry run came to it or not.
    """

    def __init__(self, calls: Iterable[Called], raising: Collection[str], texts: Texts) -> None:
        self._raising = raising
        self._texts = texts
        self._calls: dict[Place, list[Called]] = {}
        for one in calls:
            self._calls.setdefault(_place(one.function), []).append(one)
        self._places: dict[Place, set[Place] | None] = {}
        self._silent: dict[Place, bool] = {}

    def __call__(self, finding: Finding) -> bool:
        if not finding.starts:
            return False
        starts = [*map(_place, finding.starts)]
        if not finding.certain and finding.severity != "info" and all(map(self._is_seen, starts)):
            return True
        if finding.code in self._raising:
            return False
        if _by_caller(finding) and all(map(self._is_run, starts)):
            return True
        return all(map(self._is_silent, starts))

    def _is_seen(self, function: Place) -> bool:
        """Whether each call of a function is made by a program that was run to its end, with what it really passes."""
        return self._is_all([one for one in self._calls.get(function, ()) if one.whole and one.start is None])

    def _is_run(self, function: Place) -> bool:
        """Whether some program was run to its end that calls a function with recording on."""
        return any(one.whole and one.recording and one.at is not None for one in self._calls.get(function, ()))

    def _is_silent(self, function: Place) -> bool:
        """Whether each call of a function is made with recording off, or by a function of which the same holds."""
        if function not in self._silent:
            # A function that calls itself is no reason.
            self._silent[function] = False
            calls = self._calls.get(function, ())
            silent = all(map(self._is_unrecorded, calls)) and self._is_all(calls)
            self._silent[function] = silent or self._is_silent_by_text(function)
        return self._silent[function]

    def _is_silent_by_text(self, function: Place) -> bool:
        """Whether the texts name a function to call it with recording off alone, as do the calls that were seen."""
        seen = [one for one in self._calls.get(function, ()) if one.at is not None]
        return all(map(self._is_unrecorded, seen)) and self._texts.calls_unrecorded(function)

    def _is_unrecorded(self, call: Called) -> bool:
        return not call.recording or (call.start is not None and self._is_silent(_place(call.start)))

    def _is_all(self, calls: Collection[Called]) -> bool:
        """Whether some calls of a function are all that there are."""
        places = self._places_of(_place(next(iter(calls)).function)) if calls else None
        return places is not None and places <= {_real(_place(one.at)) for one in calls if one.at}

    def _places_of(self, function: Place) -> set[Place] | None:
        """Return where a function is named, asked once: that may take reading the project."""
        if function not in self._places:
            found = self._texts.places_of(function)
            self._places[function] = None if found is None else set(map(_real, found))
        return self._places[function]


def _by_caller(finding: Finding) -> bool:
    return any(one.kind == "caller" for one in finding.rests_on)


def _real(place: Place) -> Place:
    return str(Path(place[0]).absolute()), place[1]


def _place(span: Span) -> Place:
    return span.file, span.line
