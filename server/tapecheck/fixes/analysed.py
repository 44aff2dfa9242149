"""Reports on edited programs, kept while the fixes of one file are tried: findings often have an edit in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from tapecheck.check import Report
    from tapecheck.fixes.edit import Change

Changes = tuple[tuple[str, tuple["Change", ...]], ...]
"""What is changed in a program, by the path of the file."""

_EVENTS = 200_000


class Analysed:
    """Keeps the reports that were made last, of no more than `most` events together, and adds up what they cost.

    `work` counts units of the dry run, events that the rules read, and lines.
    """

    def __init__(self, most: int = _EVENTS) -> None:
        self.work = 0
        self._most = most
        self._reports: dict[tuple[str, Changes], tuple[Report, int]] = {}

    def report(self, text: str, changes: Changes, check: Callable[[], Report]) -> Report:
        """Return the report on a text with changes in it or in files beside it, made by `check` where none is kept."""
        known = self._reports.get((text, changes))
        if known is not None:
            return known[0]
        report = check()
        events = sum(len(tape.events) for tape in report.interpretation.tapes)
        self.work += report.interpretation.work + events + len(report.source.lines)
        self._reports[text, changes] = report, events
        kept = sum(each for _, each in self._reports.values())
        while kept > self._most and len(self._reports) > 1:
            kept -= self._reports.pop(next(iter(self._reports)))[1]
        return report
