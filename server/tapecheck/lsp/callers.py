"""What files that are not open do in the open ones that they import."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tapecheck.check import nearest_callers, while_affordable
from tapecheck.lsp.edits import moved_calls
from tapecheck.rules.finding import Finding
from tapecheck.source.importers import Importers
from tapecheck.source.project import Project, Projects
from tapecheck.tape import Called

if TYPE_CHECKING:
    from tapecheck.check import Report


@dataclass(frozen=True, slots=True)
class _Looked:
    """What was found in an open file by those that import it, and the text that it had."""

    text: str | None
    findings: tuple[Finding, ...]
    calls: frozenset[Called] = frozenset()


@dataclass(slots=True)
class Callers:
    """What the importers of open files do in these, by their uris, as of the last time that nobody typed."""

    _looked: dict[str, list[_Looked]] = field(default_factory=dict)

    def of(self, uri: str, text: str) -> Iterator[Finding]:
        """Yield what importers do in an open file, as long as they have read it as it is."""
        for one in self._looked.get(uri, ()):
            if one.text == text:
                yield from one.findings

    def look(
        self, uri: str, path: str, project: Project, *, but: Collection[str], look: Callable[[str], Report | None]
    ) -> bool:
        """Check the importers of an open file that are not `but` those; return whether other things are found.

        `look` checks one of them; it returns None where it cannot be read.
        """
        found: list[_Looked] = []
        importing = [one for one in Importers(Projects(project.setup)).of(path) if one not in but]
        reports = (report for one in nearest_callers(importing) if (report := look(one)) is not None)
        for report in while_affordable(reports, lambda one: one.interpretation.weight, project.setup.effort):
            here = tuple(one for one in report.elsewhere if one.span.file == path)
            calls = frozenset(one for one in report.interpretation.calls if one.function.file == path)
            if here or calls:
                found.append(_Looked(report.interpretation.read.get(path), here, calls))
        before = self._looked.get(uri, [])
        self._looked[uri] = found
        return [*map(_shown, before)] != [*map(_shown, found)]

    def calls(self, uri: str, path: str, text: str) -> Iterator[Called]:
        """Yield the functions of an open file that importers call, where they are in it now."""
        for one in self._looked.get(uri, ()):
            yield from moved_calls(one.calls, path, one.text, text)

    def forget(self, uri: str) -> None:
        """Drop what is known of a file that is open no more."""
        self._looked.pop(uri, None)

    def clear(self) -> None:
        """Drop everything, as when the settings change."""
        self._looked.clear()


def _shown(looked: _Looked) -> tuple[object, ...]:
    return looked.text, [*map(_told, looked.findings)], looked.calls


def _told(finding: Finding) -> tuple[str, str, int, bool]:
    return finding.code, finding.message, finding.span.line, finding.certain
