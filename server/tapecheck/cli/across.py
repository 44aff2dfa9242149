"""What one file's code does in another one: findings go to the file that they are in, where that is checked too."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tapecheck.cli.effort import untried
from tapecheck.cli.shared import real_path
from tapecheck.report import Checked
from tapecheck.rules.finding import Finding, Label
from tapecheck.rules.needless_retain_graph.rule import NeedlessRetainGraph
from tapecheck.source.project import Projects
from tapecheck.source.selection import Selection
from tapecheck.tape import Span

if TYPE_CHECKING:
    from tapecheck.check import Memory, Report
    from tapecheck.fixes import Effort, Fix

Mend = Callable[[str, Finding, "Effort"], "list[Fix]"]
"""Works out the fixes of a finding that the check of a file has in another one."""


def to_their_files(
    files: Sequence[Checked],
    mend: Mend | None = None,
    *,
    rules: Selection,
    projects: Projects,
    edited: bool = False,
    callers: Sequence[Checked] = (),
) -> None:
    """Move what checked files find in others to those, where they were checked and do not say it by themselves.

    What is in files that were not asked for stays with the file that found it. Without `mend` there are no fixes.
    `rules` is what the command line says of rules; `edited` says that it was found in the others as edits have left
    them. `callers` are files that were not asked for and import those that were: checked as they are on disk.
    """
    from tapecheck.fixes import Effort

    _keep_what_is_needed(files, callers)
    _leave_to_callers((*files, *callers), projects)
    homes = {real_path(file.path): file for file in files if not file.texts}
    known = {_told(one) for file in files for one in file.findings}
    efforts: dict[str, Effort] = {}
    unedited = {id(file) for file in (callers if edited else (*files, *callers))}
    for file in sorted((*files, *callers), key=lambda file: real_path(file.path)):
        left: list[Finding] = []
        for finding in file.elsewhere:
            place = real_path(finding.span.file)
            home = homes.get(place)
            if home is None:
                left.append(finding)
            elif home.rewrite is not None and id(file) in unedited:
                if _switched_off(home, finding):
                    _drop_unused(home, finding)
                else:
                    left.append(finding)
            elif _told(finding) not in known or _surer(home, finding):
                known.add(_told(finding))
                if list(wanted_of([finding], rules, projects)):
                    mended = mend(file.path, finding, efforts.setdefault(place, Effort())) if mend is not None else []
                    _add(home, finding, mended, place)
                else:
                    _drop_unused(home, finding)
        file.elsewhere = left
    for place, effort in efforts.items():
        homes[place].incomplete += untried(effort, len(homes[place].findings))


def _told(finding: Finding) -> tuple[str, str, int]:
    """Return what findings have in common that say the same."""
    return finding.code, real_path(finding.span.file), finding.span.line


def _keep_what_is_needed(files: Sequence[Checked], callers: Sequence[Checked]) -> None:
    """Take out what calls a flag needless that another program needs: it stands in a line that several programs run."""
    needed = lines_needed((*files, *callers))
    for file in (*files, *callers) if needed else ():
        _take_out(file, lambda finding: is_needed(finding, needed))


def lines_needed(files: Iterable[Checked]) -> set[tuple[str, int]]:
    """Return the lines, by real path, where some of these programs retain a graph for something."""
    return {(real_path(path), line) for file in files for path, line in file.retained}


def is_needed(finding: Finding, needed: Container[tuple[str, int]]) -> bool:
    """Return whether a finding calls a flag needless that another program needs."""
    return finding.code == NeedlessRetainGraph.code and (real_path(finding.span.file), finding.span.line) in needed


def _take_out(file: Checked, wrong: Callable[[Finding], bool]) -> None:
    file.elsewhere = [one for one in file.elsewhere if not wrong(one)]
    _leave_out(file, wrong)


def _leave_out(file: Checked, wrong: Callable[[Finding], bool]) -> None:
    """Take findings out of those of a file, with their fixes."""
    pairs = [(one, file.fixes_of(index)) for index, one in enumerate(file.findings) if not wrong(one)]
    file.findings = [one for one, _ in pairs]
    file.fixes = [fixes for _, fixes in pairs] if file.fixes else []


def _leave_to_callers(files: Sequence[Checked], projects: Projects) -> None:
    """Take out what is said of functions that is left to the code which calls them, in whichever file."""
    told = told_by_callers(files, projects)
    for file in files:
        if any(map(told, (*file.findings, *file.elsewhere))):
            _take_out(file, told)


def told_by_callers(files: Sequence[Checked], projects: Projects) -> Callable[[Finding], bool]:
    """Return what tells the findings of functions that are left to the code which calls them, in some files."""
    from tapecheck.rules import RAISING
    from tapecheck.rules.starts import LeftToCallers
    from tapecheck.source.callers import Texts

    texts = Texts(projects.of, {})
    return LeftToCallers((one for file in files for one in file.calls), RAISING, texts)


def _surer(home: Checked, finding: Finding) -> bool:
    """Return whether a file that a program imports calls possible what is certain in that program."""
    alike = [one for one in home.findings if (one.code, one.span.line) == (finding.code, finding.span.line)]
    return finding.certain and bool(alike) and not any(one.certain for one in alike)


def in_imported_files(files: Sequence[Checked], rules: Selection, projects: Projects) -> list[Finding]:
    """Return what checked files do in files that they import, without what those say by themselves or switch off."""
    known = {(item.code, real_path(item.span.file), item.span.line) for file in files for item in file.findings}
    found: list[Finding] = []
    for finding in (finding for file in files for finding in file.elsewhere):
        place = (finding.code, real_path(finding.span.file), finding.span.line)
        if place not in known:
            known.add(place)
            found += wanted_of([finding], rules, projects)
    return found


class Mender:
    """Works out the fixes of findings in other files, each by a check of the file that has found it.

    The last check is kept: what one file finds in others comes in one go.
    """

    def __init__(self, projects: Projects) -> None:
        self._projects = projects
        self._last: tuple[str, Report, Memory] | None = None

    def mended(self, path: str, finding: Finding, effort: Effort) -> list[Fix]:
        """Return the fixes of a finding that the check of a file has in another one; none where that fails."""
        from tapecheck.fixes import fixes_for

        try:
            report, memory = self._checked(path)
            same = next((one for one in report.elsewhere if one.key == finding.key), None)
            return fixes_for(report, same, memory=memory, effort=effort) if same is not None else []
        except Exception:  # the boundary: a finding without a fix is better than none
            return []

    def _checked(self, path: str) -> tuple[Report, Memory]:
        from tapecheck.check import Memory, check
        from tapecheck.source import read_source

        if self._last is None or self._last[0] != path:
            self._last = None
            memory = Memory()
            self._last = path, check(read_source(path), memory=memory, project=self._projects.of(path)), memory
        return self._last[1:]


def wanted_of(findings: Sequence[Finding], rules: Selection, projects: Projects) -> Iterator[Finding]:
    """Yield the findings that neither the configuration nor the comments of their files switch off."""
    from tapecheck.check import split_suppressed
    from tapecheck.source import SourceError, read_source, suppressions

    for finding in findings:
        file = finding.span.file
        if not projects.of(file).rules(rules).wants(finding.code, finding.name):
            continue
        try:
            yield from split_suppressed([finding], suppressions(read_source(file)))[0]
        except SourceError:
            continue


def _switched_off(home: Checked, finding: Finding) -> bool:
    """Return whether a comment that was just added to a file switches off what another file does in it."""
    from tapecheck.check import split_suppressed
    from tapecheck.cli.editing import open_document
    from tapecheck.source import SourceError, suppressions

    if home.rewrite is None:
        return False
    try:
        source = open_document(home.rewrite.after, home.path).source()
    except SourceError:
        return False
    return not split_suppressed([finding], suppressions(source))[0]


def _drop_unused(home: Checked, hidden: Finding) -> None:
    """Take out the report that a comment switches nothing off, where it switches off what another file does here."""
    from tapecheck.check import UNUSED

    _leave_out(home, lambda one: one.code == UNUSED and one.span.line == hidden.span.line)


def _add(home: Checked, finding: Finding, fixes: list[Fix], place: str) -> None:
    """Put a finding among those of its file, under the name that the file was asked for by."""

    def named(span: Span) -> Span:
        return replace(span, file=home.path) if real_path(span.file) == place else span

    finding.span = named(finding.span)
    finding.labels = tuple(Label(named(label.span), label.message, label.role) for label in finding.labels)
    fixes = [replace(fix, edits=tuple(replace(edit, span=named(edit.span)) for edit in fix.edits)) for fix in fixes]
    with_fixes = bool(home.fixes or fixes)
    pairs = [(one, home.fixes_of(index)) for index, one in enumerate(home.findings)]
    # What a program makes certain stands in the place of what its module alone calls possible.
    pairs = [pair for pair in pairs if (pair[0].code, pair[0].span.line) != (finding.code, finding.span.line)]
    pairs.append((finding, fixes))
    pairs.sort(key=lambda pair: (pair[0].span.line, pair[0].span.column, pair[0].code))
    home.findings = [one for one, _ in pairs]
    home.fixes = [several for _, several in pairs] if with_fixes else []
