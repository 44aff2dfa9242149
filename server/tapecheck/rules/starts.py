"""The functions that a check began with to come to a finding, and those whose callers are known to record nothing.

A function that nothing in its file calls is a program of its own until the files that call it are read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
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


def unrecorded(calls: Iterable[Called], raising: Collection[str]) -> Callable[[Finding], bool]:
    """Return what tells the findings of functions that code calls, and only where autograd records nothing: by itself
    such a function is no program. What the rules `raising` find PyTorch raises all the same.
    """
    ways: dict[tuple[str, int], set[tuple[bool, tuple[str, int] | None]]] = {}
    for one in calls:
        ways.setdefault(_place(one.function), set()).add(
            (one.recording, None if one.start is None else _place(one.start))
        )
    silent: set[tuple[str, int]] = set()
    while True:
        # What only such a function calls with recording on nobody does.
        asked = {function: {on for on, start in known if start not in silent} for function, known in ways.items()}
        found = {function for function, recording in asked.items() if True not in recording}
        if found <= silent:
            break
        silent |= found

    def told(finding: Finding) -> bool:
        starts = set(map(_place, finding.starts))
        return bool(starts) and starts <= silent and finding.code not in raising

    return told


def _place(span: Span) -> tuple[str, int]:
    return span.file, span.line
