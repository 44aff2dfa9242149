"""Fixes that edit several files: made in all of them or in none, and once, whichever file the mistake shows in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tapecheck.check import Memory, Report, check
from tapecheck.cli.across import is_needed, lines_needed, told_by_callers, wanted_of
from tapecheck.cli.checking import CheckOptions, edit_file, edited_file, internal
from tapecheck.cli.choosing import covers
from tapecheck.cli.editing import Document, open_document
from tapecheck.cli.effort import errors_first
from tapecheck.cli.fixing import (
    MOST,
    Against,
    Key,
    can_be_written,
    fixes_of_rest,
    key_of,
    not_made,
    read_document,
    rewritten,
)
from tapecheck.cli.shared import real_path
from tapecheck.fixes import Edit, Effort, Fix, fixes_for
from tapecheck.fixes.edit import moved_lines
from tapecheck.fixes.repaired import caused, unrepaired
from tapecheck.report import Checked, Problem
from tapecheck.rules.finding import Finding
from tapecheck.source import Source, SourceError

_FOUND = ("findings", "fixes", "elsewhere", "retained", "calls", "incomplete", "gaps", "texts")
"""What a check finds in a file, beside what editing it comes to."""


def _note_edited(files: Mapping[str, _File], rests_on: set[str]) -> None:
    """Note that a fix has edited some files together, and which others it rests on."""
    for path, known in files.items():
        known.touched = True
        known.others |= (files.keys() | rests_on) - {path}


@dataclass(slots=True)
class _File:
    """One of the files that may be edited: as it was read, as it is now, and the lines that say what was done.

    `others` are the real paths of the files that its fixes edit along with it, or rest on.
    """

    checked: Checked
    first: Document
    data: bytes
    now: Document
    done: list[str]
    others: set[str] = field(default_factory=set)
    touched: bool = False


class Together:
    """The files of one command, each edited by itself already, and the fixes that take several of them.

    `callers` are files that were not asked for and import those that were: what they do in these is mended, too, and
    nothing of theirs is edited.
    """

    def __init__(self, files: Sequence[Checked], wanted: CheckOptions, callers: Sequence[Checked] = ()) -> None:
        self.wanted = wanted
        self.files = files
        self.callers = [file for file in callers if not file.problems]
        self._known: dict[str, _File | None] = {}
        self._efforts: dict[str, Effort] = {}
        self._memory = Memory()
        self._needed = lines_needed((*files, *callers))
        self._told = told_by_callers((*files, *callers), wanted.projects)
        self._homes = {real_path(file.path): file for file in files if not file.problems}

    def fix(self) -> None:
        """Make the fixes of several files, and those of one file that the check of another one has found.

        What is said of the files is brought up to date: in `files` themselves, which nothing writes here.
        """
        if self.wanted.ask:
            # The user has seen each fix and chosen it.
            return
        for file in self.files:
            try:
                self._keep_from_hiding(file)
            except Exception as error:  # the boundary: the file is written as it was
                file.rewrite = None
                file.problems.append(Problem("internal-error", internal("fixing several files", error)))
        asked = [file for file in (*self.files, *self.callers) if self._concerned(file)]
        for file in asked:
            try:
                self._mend(file)
            except Exception as error:  # the boundary: what was fixed until then holds
                file.problems.append(Problem("internal-error", internal("fixing several files", error)))
        changed = {path for path, known in self._known.items() if known is not None and known.touched}
        concerned = {real_path(file.path) for file in asked} | changed
        for path in concerned & self._homes.keys():
            try:
                self._tell(path)
            except Exception as error:  # the boundary: the other files are told of and written
                known = self._file(path)
                if known is not None:
                    known.checked.problems.append(Problem("internal-error", internal("fixing several files", error)))

    def mended(self, path: str, finding: Finding, effort: Effort) -> list[Fix]:
        """Return the fixes of a finding that the check of one file has in another one; none where that fails."""
        try:
            report = self._check(path)
            same = next((one for one in report.elsewhere if one.key == finding.key), None)
            if same is None:
                return []
            return fixes_for(report, same, open_files=self._open_files(), memory=self._memory, effort=effort)
        except Exception:  # the boundary: a finding without a fix is better than none
            return []

    def _keep_from_hiding(self, file: Checked) -> None:
        """Fix a file anew where its fixes hide what the check of another one finds, without those that do."""
        rewrite = file.rewrite
        path = real_path(file.path)
        if rewrite is None or path not in self._homes:
            return
        first, now = (open_document(data, file.path) for data in (rewrite.before, rewrite.after))
        if self._against({path: (first, now)}, file.path) is None:
            return
        told = edit_file(
            file.path, self.wanted, rewrite.before, lambda was, now: self._against({path: (was, now)}, file.path)
        )
        self._known.pop(path, None)
        for name in (
            "findings",
            "fixes",
            "elsewhere",
            "retained",
            "calls",
            "incomplete",
            "gaps",
            "texts",
            "rewrite",
            "shared",
            "refused",
        ):
            setattr(file, name, getattr(told, name))

    def _against(self, edited: Mapping[str, tuple[Document, Document]], asked: str) -> Against | None:
        """Return what edits of some files, by real path, hide or cause in the checks of others than the one that was
        `asked`.
        """
        for one in (*self.files, *self.callers):
            path = real_path(one.path)
            if path == real_path(asked) or self._read_by(one).isdisjoint(edited) or self._file(path) is None:
                continue
            was, now = (self._check(one.path, {at: pair[index] for at, pair in edited.items()}) for index in (0, 1))
            names = was.interpretation.read.keys() | now.interpretation.read.keys()
            texts = {
                name: (pair[0].source().text, pair[1].source().text)
                for name in names
                if (pair := edited.get(real_path(name))) is not None
            }
            before, after = ([*report.findings, *report.elsewhere] for report in (was, now))
            tapes, lines = (was.interpretation.tapes, now.interpretation.tapes), moved_lines(texts)
            hidden = unrepaired(None, before, after, *tapes, lines)
            if hidden:
                return Against(hidden[0])
            if (made := caused(before, after, lines)) is not None:
                return Against(made, made=True)
        return None

    def _read_by(self, file: Checked) -> frozenset[str]:
        """Return the real paths of the files that the check of one reads."""
        called = any(file is one for one in self.callers)
        if called and not file.read and self._file(real_path(file.path)) is not None:
            # Of a caller, which is not edited, nobody has noted them.
            file.read = frozenset(map(real_path, self._check(file.path).interpretation.read))
        return file.read

    def _concerned(self, file: Checked) -> bool:
        if file.problems:
            return False
        return file.shared or any(real_path(one.span.file) in self._homes for one in file.elsewhere)

    def _file(self, path: str) -> _File | None:
        """Return a file that was asked for and can be edited, or a caller of one, by its real path."""
        if path not in self._known:
            self._known[path] = self._opened(path)
        return self._known[path]

    def _opened(self, path: str) -> _File | None:
        checked = self._homes.get(path)
        if checked is None:
            checked = next((file for file in self.callers if real_path(file.path) == path), None)
        if checked is None:
            return None
        rewrite = checked.rewrite
        try:
            if rewrite is not None:
                first, now = (open_document(data, checked.path) for data in (rewrite.before, rewrite.after))
                return _File(checked, first, rewrite.before, now, list(rewrite.done))
            document, data = read_document(checked.path)
        except SourceError:
            return None
        return _File(checked, document, data, document, []) if can_be_written(document, data) else None

    def _open_files(self) -> dict[str, Source]:
        """Return the files that are not on the disk as they are now, by their absolute paths."""
        paths = [path for path, file in self._homes.items() if file.rewrite is not None]
        found: dict[str, Source] = {}
        for path in dict.fromkeys([*paths, *(path for path, known in self._known.items() if known is not None)]):
            file = self._file(path)
            if file is not None and file.now is not file.first:
                found[str(Path(file.now.path).absolute())] = file.now.source()
        return found

    def _check(self, path: str, instead: Mapping[str, Document] | None = None) -> Report:
        """Return the report on a file as edits have left all of them; `instead` are others for some, by real path."""
        instead = instead or {}
        known = self._file(real_path(path))
        now = instead.get(real_path(path), known.now if known is not None else None)
        if now is None:
            raise SourceError(f"{path}: cannot be edited")
        shown = self._open_files()
        shown.update({str(Path(document.path).absolute()): document.source() for document in instead.values()})
        wanted = self.wanted
        return check(
            now.source(),
            rules=wanted.rules,
            open_files=shown or None,
            memory=self._memory,
            project=wanted.projects.of(path),
        )

    def _mend(self, file: Checked) -> None:
        """Make one fix after the other of what the check of a file finds, in it and in the others."""
        if self._file(real_path(file.path)) is None:
            return
        hopeless: set[Key] = set()
        states = {self._state()}
        effort = self._efforts[real_path(file.path)] = Effort()
        for _ in range(MOST):
            report = self._check(file.path)
            for finding in errors_first([*report.findings, *self._brought(report)]):
                place = real_path(finding.span.file)
                home = self._file(place) if place in self._homes else None
                if home is None or is_needed(finding, self._needed) or self._told(finding):
                    continue
                key = key_of(finding, home.now.source())
                if key in hopeless or not self._is_wanted(finding, home):
                    continue
                made = self._make(report, finding, home, states, effort)
                if made:
                    break
                hopeless.add(key)
            else:
                return

    def _is_wanted(self, finding: Finding, home: _File) -> bool:
        """Return whether a finding is on a line that was asked for, where lines were and nothing has moved them yet."""
        if not self.wanted.lines:
            return True
        lines = [line for name, line in self.wanted.lines if name == home.checked.path]
        return home.now is home.first and any(covers(finding, line) for line in lines)

    def _brought(self, report: Report) -> Iterator[Finding]:
        """Yield what the check of a file finds in others that were asked for."""
        for finding in report.elsewhere:
            if real_path(finding.span.file) in self._homes:
                yield from wanted_of([finding], self.wanted.rules, self.wanted.projects)

    def _make(
        self, report: Report, finding: Finding, home: _File, states: set[tuple[str, ...]], effort: Effort
    ) -> bool:
        """Make the preferred fix that may be made, in all its files; return whether there was one."""
        # What was found, and that a fix holds, rests on the edits that were made before.
        rests_on = {path for path, known in self._known.items() if known is not None and known.now is not known.first}
        for fix in self._wanted_fixes(report, finding, effort):
            edited = self._edited(fix)
            if edited is None:
                continue
            line = home.now.told(finding.span.line, f": {fix.title}")
            against = self._against(
                {path: (known.now, new) for path, (known, new) in edited.items()}, report.source.path
            )
            if against is not None:
                words = f"{line}, {not_made(against, home.now.path)}"
                home.checked.refused.append(f"{finding.code} {words}")
                continue
            files = {path: known for path, (known, _) in edited.items()}
            if not self._goes_on(list(edited.values()), states):
                continue
            teller = home if any(known is home for known in files.values()) else next(iter(files.values()))
            teller.done.append(f"{finding.code} {line}")
            # By itself the file may have been in the way of it: what is made now is no longer refused.
            made = f"{finding.code} {home.now.told(finding.span.line, ': ')}"
            home.checked.refused = [told for told in home.checked.refused if not told.startswith(made)]
            if self.wanted.lines:
                # The check of the file by itself may have found nothing there, or nothing that is safe to mend.
                place = f"{home.checked.path}:{finding.span.line}:"
                home.checked.refused = [told for told in home.checked.refused if place not in told]
            _note_edited(files, rests_on)
            return True
        return False

    def _wanted_fixes(self, report: Report, finding: Finding, effort: Effort) -> list[Fix]:
        """Return the fixes of a finding that may be made, the preferred one first."""
        fixes = fixes_for(report, finding, open_files=self._open_files(), memory=self._memory, effort=effort)
        if self.wanted.alternative:
            fixes = fixes[self.wanted.alternative - 1 : self.wanted.alternative]
        return [fix for fix in fixes if fix.applicability == "safe" or self.wanted.edit == "unsafe"]

    def _goes_on(self, edited: list[tuple[_File, Document]], states: set[tuple[str, ...]]) -> bool:
        """Make edits, unless they lead back to a state that the files had before; return whether they are made."""
        before = [(known, known.now) for known, _ in edited]
        for known, document in edited:
            known.now = document
        state = self._state()
        if state in states:
            for known, document in before:
                known.now = document
            return False
        states.add(state)
        return True

    def _edited(self, fix: Fix) -> dict[str, tuple[_File, Document]] | None:
        """Return the files of a fix with its edits made; None where one of them cannot be edited so."""
        edits: dict[str, list[Edit]] = {}
        for edit in fix.edits:
            edits.setdefault(real_path(edit.span.file), []).append(edit)
        found: dict[str, tuple[_File, Document]] = {}
        for path, own in edits.items():
            file = self._file(path) if path in self._homes else None
            if file is None:
                return None
            named = [replace(edit, span=replace(edit.span, file=file.now.path)) for edit in own]
            document = file.now.edited(named)
            if document is None or document.data() is None:
                return None
            found[path] = file, document
        return found

    def _left_out(self, fix: Fix) -> bool:
        """Return whether a fix that may be made also edits a file that was not asked for."""
        allowed = fix.applicability == "safe" or self.wanted.edit == "unsafe"
        return allowed and any(real_path(edit.span.file) not in self._homes for edit in fix.edits)

    def _state(self) -> tuple[str, ...]:
        """Return the texts of the files that are not as they were read."""
        known = sorted(
            (path, file.first.texts(), file.now.texts()) for path, file in self._known.items() if file is not None
        )
        return tuple(part for path, was, now in known if was != now for part in (path, *now.values()))

    def _tell(self, path: str) -> None:
        """Say of a file what holds now."""
        file = self._file(path)
        if file is None:
            return
        report = self._check(path)
        making = self._efforts.get(path) or Effort()
        fixes, effort = fixes_of_rest(
            report, making, self._memory, wanted=self.wanted.fixes, open_files=self._open_files()
        )
        told = edited_file(file.checked.path, self.wanted, report, fixes, effort)
        old = file.checked
        old.shared = any(self._left_out(fix) for several in fixes for fix in several)
        for name in _FOUND:
            setattr(old, name, getattr(told, name))
        if file.touched:
            others = {known.now.path for other in file.others if (known := self._known.get(other)) is not None}
            old.rewrite = rewritten(file.first, file.now, file.data, file.done)
            if old.rewrite is not None:
                old.rewrite.others = others
