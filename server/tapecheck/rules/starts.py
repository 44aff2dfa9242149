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
Named = Callable[[Span], Collection[Place] | None]


def unrecorded(calls: Iterable[Called], raising: Collection[str], named: Named) -> Callable[[Finding], bool]:
    """Return what tells the findings of functions that code calls, and only where autograd records nothing: by itself
    such a function is no program. What the rules `raising` find PyTorch raises all the same. What rests on it that a
    function is called with recording on is told by the program that calls it so, where this was run to its end, and so
    are possible errors and warnings, where each call is in such a program: nobody else passes anything else.

    `named` gives the places where a function is named, other than to define or import it; None where nobody knows. One
    that the dry run did not come to as a call may be another call, or hand the function on.
    """
    known: dict[Place, list[Called]] = {}
    for one in calls:
        known.setdefault(_place(one.function), []).append(one)
    silent: dict[Place, bool] = {}

    def is_silent(function: Place) -> bool:
        """Whether each call of a function is made with recording off, or by a function of which the same holds."""
        if function not in silent:
            # A function that calls itself is no reason.
            silent[function] = False
            ways = known.get(function, ())
            silent[function] = all(
                not one.recording or (one.start is not None and is_silent(_place(one.start))) for one in ways
            ) and is_all(ways)
        return silent[function]

    def is_all(ways: Collection[Called]) -> bool:
        """Whether some calls of a function are all that there are."""
        places = named(next(iter(ways)).function) if ways else None
        return places is not None and {_real(one) for one in places} <= {
            _real(_place(one.at)) for one in ways if one.at
        }

    def is_run(start: Span) -> bool:
        """Whether some program was run to its end that calls a function with recording on."""
        return any(one.whole and one.recording and one.at is not None for one in known.get(_place(start), ()))

    def is_seen(start: Span) -> bool:
        """Whether each call of a function is made by a program that was run to its end, with what it really passes."""
        return is_all([one for one in known.get(_place(start), ()) if one.whole and one.start is None])

    def told(finding: Finding) -> bool:
        if not finding.starts:
            return False
        if not finding.certain and finding.severity != "info" and all(map(is_seen, finding.starts)):
            return True
        if finding.code in raising:
            return False
        if _by_caller(finding) and all(map(is_run, finding.starts)):
            return True
        return all(is_silent(_place(start)) for start in finding.starts)

    return told


def _by_caller(finding: Finding) -> bool:
    return any(one.kind == "caller" for one in finding.rests_on)


def _real(place: Place) -> Place:
    return str(Path(place[0]).absolute()), place[1]


def _place(span: Span) -> Place:
    return span.file, span.line
