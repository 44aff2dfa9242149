"""What an editor session knows: open files, settings, analyses, evidence of recorded runs. Nothing of LSP.

Documents and settings are changed by one thread (the event loop); `analyse`, `fixes` and `record` may run in
others, on snapshots. Lines and columns count from 1, columns in characters.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tapecheck.check import Limit, faults_of, invalid_ignores, limits_of, split_suppressed, unused_ignores
from tapecheck.lsp import across, runs
from tapecheck.lsp.callers import Callers
from tapecheck.lsp.calls import walked_lines
from tapecheck.lsp.document import Document, digest_of
from tapecheck.lsp.edits import Before, line_map, moved_calls, still_there
from tapecheck.lsp.evidence import Evidences, Shown, plainly
from tapecheck.lsp.hover import Explainer, Hover
from tapecheck.lsp.lenses import LastRun, Lens, backward_lenses, hints, loop_lenses
from tapecheck.lsp.notebook import CellText, Notebook
from tapecheck.lsp.outcome import Outcome
from tapecheck.lsp.pictures import Picture, Pictures
from tapecheck.lsp.remembered import Remembered
from tapecheck.lsp.runs import FixTrial, Listen, Recording, RunOrder, RunRefused
from tapecheck.lsp.settings import Settings, read_settings
from tapecheck.rules import ALL, RAISING
from tapecheck.rules.finding import Finding
from tapecheck.rules.starts import LeftToCallers
from tapecheck.source import MAX_BYTES, Source, from_text, suppressions
from tapecheck.source import callers as named_by
from tapecheck.source.configuration import ignore_in_project
from tapecheck.source.modules import SOURCES
from tapecheck.source.notebook import join
from tapecheck.source.project import Setup
from tapecheck.source.suppress import Misspelt, Unused, ignore_file, ignore_line, named_rules, names_rule, rules_at
from tapecheck.tape import Called, Span, Tape

if TYPE_CHECKING:
    from tapecheck.check import Memory, Report
    from tapecheck.fixes import Fix


_KEPT_ANALYSES = 4
_MAX_FIX_ROUNDS = 25
_FIXES_OF_REPORT_SECONDS = 10.0


Unsaved = tuple[tuple[str, str], ...]
"""Paths and texts of open files that differ from what is on disk."""


class Check(Protocol):
    """The signature of `tapecheck.check.check`."""

    def __call__(
        self,
        source: Source,
        /,
        *,
        select: tuple[str, ...] | None,
        ignore: tuple[str, ...],
        cancelled: Callable[[], bool] | None,
        open_files: Mapping[str, Source] | None = None,
    ) -> Report: ...


class FindFixes(Protocol):
    """The signature of `tapecheck.fixes.fixes_for`."""

    def __call__(
        self,
        report: Report,
        finding: Finding,
        /,
        *,
        cancelled: Callable[[], bool] | None,
        open_files: Mapping[str, Source] | None = None,
    ) -> list[Fix]: ...


class Record(Protocol):
    """The signature of `runs.record`."""

    def __call__(
        self,
        order: RunOrder,
        report: Report,
        on_output: Listen,
        on_progress: Listen,
        stop: Callable[[], bool],
        /,
    ) -> Recording: ...


class Try(Protocol):
    """The signature of `runs.try_fix`."""

    def __call__(
        self,
        order: RunOrder,
        report: Report,
        finding: Finding,
        fix: Fix,
        on_progress: Listen,
        stop: Callable[[], bool],
        /,
    ) -> FixTrial: ...


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One state of one open file, safe to read from another thread.

    `unsaved` are paths and texts of other open files that differ from what is on disk: imports find those.
    """

    uri: str
    path: str
    text: str
    digest: str
    generation: int
    settings: Settings
    cells: tuple[CellText, ...] | None = None
    unsaved: Unsaved = ()

    def source(self, before: Source | None = None) -> Source:
        """Return the text parsed, a notebook's cells as one program; `before` is an earlier state of it."""
        if self.cells is None:
            return from_text(self.text, self.path, before=before)
        return join(self.path, self.cells, before)


@dataclass
class Analysis:
    """What the dry run and the rules found in one text; `uri` and `digest` name it."""

    snapshot: Snapshot
    report: Report
    _explainer: Explainer | None = None

    @property
    def imports(self) -> frozenset[str]:
        """Return the files of all modules that the file imports, and of those that they import."""
        return self.report.interpretation.imported

    @property
    def explainer(self) -> Explainer:
        if self._explainer is None:
            self._explainer = Explainer(self.report.source, self.tapes, self.report.findings)
        return self._explainer

    @property
    def digest(self) -> str:
        return self.snapshot.digest

    @property
    def tapes(self) -> list[Tape]:
        return self.report.interpretation.tapes


class Session:
    """One editor's session. What it calls can be replaced, for tests of the protocol alone.

    `cache` is the user's cache folder, where runs are kept for the next session; None keeps none.
    """

    def __init__(
        self,
        check: Check | None = None,
        fixes_for: FindFixes | None = None,
        record: Record = runs.record,
        try_fix: Try = runs.try_fix,
        about: Callable[[Settings], str] = runs.about,
        cache: str | None = None,
    ) -> None:
        self.about = about
        self._check = check
        self._memory: Memory | None = None
        self._try = try_fix
        self._record = record
        self._fixes_for = fixes_for
        self.documents: dict[str, Document] = {}
        self.settings = Settings()
        self.setup = Setup()
        self.folder_settings: dict[str, Settings] = {}
        self.evidence = Evidences()
        self.outcomes: dict[str, Outcome] = {}
        self._last: dict[str, Recording] = {}
        self._remembered = Remembered(cache)
        self._pictures = Pictures()
        self.closing = False
        self._notebook_of: dict[str, str] = {}
        self._analyses: dict[str, dict[str, Analysis]] = {}
        # The last one of each file of a text that parses.
        self._whole: dict[str, Before] = {}
        self._sources: dict[str, Source] = {}
        self._parsed: dict[str, Source] = {}
        self._fixes: dict[tuple[str, str, tuple[object, ...]], list[Fix]] = {}
        self._callers = Callers()

    @property
    def recordings(self) -> dict[str, Recording]:
        """Return the last recorded run of each file, by path."""
        return self.evidence.recordings

    # Documents and settings

    def open(self, uri: str, path: str, text: str, version: int | None, language: str = "python") -> Document:
        document = Document(uri, path, text, version, language)
        self.documents[uri] = document
        return document

    def close(self, uri: str) -> None:
        document = self.documents.pop(uri, None)
        self._analyses.pop(uri, None)
        self._whole.pop(uri, None)
        self._sources.pop(uri, None)
        self._callers.forget(uri)
        for cell in document.documents if isinstance(document, Notebook) else ():
            self._notebook_of.pop(cell, None)
        if document is not None:
            document.touch()

    def open_notebook(self, uri: str, path: str, version: int | None) -> Notebook:
        notebook = Notebook(uri, path, version)
        self.documents[uri] = notebook
        return notebook

    def rejoin(self, notebook: Notebook, version: int | None) -> None:
        """Follow a change of a notebook's cells."""
        notebook.rejoin(version)
        for cell in [cell for cell, uri in self._notebook_of.items() if uri == notebook.uri]:
            del self._notebook_of[cell]
        self._notebook_of |= dict.fromkeys(notebook.documents, notebook.uri)

    def program(self, uri: str) -> str:
        """Return the uri of what is analysed for a document: the notebook of a cell, else the document itself."""
        return self._notebook_of.get(uri, uri)

    def version(self, uri: str) -> int | None:
        """Return the version of an open file or cell."""
        document = self.documents.get(self.program(uri))
        if isinstance(document, Notebook) and document.uri != uri:
            document = document.documents.get(uri)
        return document.version if document is not None else None

    def configure(self, settings: Settings, folders: Mapping[str, Settings] | None = None) -> None:
        """Take new settings, for everything and for single folders (by path); what was cached is dropped."""
        self.settings = settings
        self.folder_settings = dict(folders or {})
        chosen = {"": settings, **self.folder_settings}
        pythons = {folder: given.interpreter[0] for folder, given in chosen.items() if given.interpreter}
        self.setup = Setup().with_interpreters(pythons)
        self.forget()

    def forget(self) -> None:
        """Drop every analysis, as when the settings change."""
        self._analyses.clear()
        self._whole.clear()
        self._callers.clear()
        self._fixes.clear()
        for document in self.documents.values():
            document.touch()

    def forget_importers(self, changed: Collection[str]) -> bool:
        """Drop the analyses of the open files that may import changed ones; return whether there were any."""
        others = [document for uri, document in self.documents.items() if uri not in changed or len(changed) > 1]
        for document in others:
            self._analyses.pop(document.uri, None)
            self._whole.pop(document.uri, None)
            document.touch()
        if others:
            self._fixes.clear()
        if self._memory is not None:
            self._memory.starts.state += 1
        return bool(others)

    def settings_for(self, path: str) -> Settings:
        """Return the settings of the innermost folder that has its own."""
        best = ""
        for folder in self.folder_settings:
            prefix = folder.rstrip("/\\")
            inside = path.startswith((prefix + "/", prefix + "\\"))
            if inside and len(folder) > len(best):
                best = folder
        return self.folder_settings.get(best, self.settings)

    def analysable(self, uri: str) -> bool:
        """Return whether an open file is Python and small enough, and the user wants findings."""
        document = self.documents.get(uri)
        if document is None or not (document.language == "python" or document.path.endswith(".py")):
            return False
        return self.settings_for(document.path).enable and len(document.text) <= MAX_BYTES

    def waits_for_save(self, uri: str) -> bool:
        """Return whether a file has edits that its user wants to have analysed only once they are saved."""
        document = self.documents.get(uri)
        return document is not None and document.dirty and self.settings_for(document.path).on_save

    # Analysis

    def snapshot(self, uri: str) -> Snapshot | None:
        """Return the present state of an open file, None where it is not one to analyse."""
        if not self.analysable(uri):
            return None
        document = self.documents[uri]
        settings = self.settings_for(document.path)
        return Snapshot(
            uri,
            document.path,
            document.text,
            document.digest,
            document.generation,
            settings,
            document.cells,
            self.unsaved(document),
        )

    def outdated(self, snapshot: Snapshot) -> bool:
        """Return whether the file was edited or closed, or its settings changed, since the snapshot."""
        document = self.documents.get(snapshot.uri)
        return self.closing or document is None or document.generation != snapshot.generation

    def known(self, snapshot: Snapshot) -> Analysis | None:
        """Return the analysis of a text seen before, from now on as that of this snapshot."""
        analysis = self._analyses.get(snapshot.uri, {}).get(snapshot.digest)
        if analysis is not None:
            # After an undo the text is that of an older generation, whose fixes would count as outdated.
            analysis.snapshot = snapshot
            self._remember(analysis)
        return analysis

    def _remember(self, analysis: Analysis) -> None:
        uri, report = analysis.snapshot.uri, analysis.report
        if report.source.error is None:
            self._whole[uri] = Before(report, report)
        elif (before := self._whole.get(uri)) is not None:
            before.edited(report)

    def analyse(self, snapshot: Snapshot) -> Analysis | None:
        """Dry-run a snapshot; None once it is outdated. Errors of the analysis are raised."""
        if self.outdated(snapshot):
            return None
        known = self.known(snapshot)
        if known is not None:
            return known
        try:
            open_files = self._open_files(snapshot)
            source = self._sources[snapshot.uri] = snapshot.source(self._sources.get(snapshot.uri))
            report = self._run_check(source, snapshot.settings, lambda: self.outdated(snapshot), open_files)
        except Exception:
            if self.outdated(snapshot):
                return None
            raise
        if self.outdated(snapshot):
            return None
        analysis = Analysis(snapshot, report)
        kept = self._analyses.setdefault(snapshot.uri, {})
        kept[snapshot.digest] = analysis
        self._remember(analysis)
        self._recall(analysis)
        while len(kept) > _KEPT_ANALYSES:
            kept.pop(next(iter(kept)))
        return analysis

    def unsaved(self, but: Document | None = None) -> Unsaved:
        """Return the open modules that differ from what is on disk."""
        documents = list(self.documents.values())
        return tuple(
            (one.path, one.text) for one in documents if one.dirty and one is not but and one.path.endswith(".py")
        )

    def _open_files(self, snapshot: Snapshot) -> dict[str, Source]:
        return self._parse(snapshot.unsaved)

    def _parse(self, unsaved: Unsaved) -> dict[str, Source]:
        """Return the unsaved files that imports find, parsed; each text once."""
        found: dict[str, Source] = {}
        for path, text in unsaved:
            known = self._parsed.get(path)
            if known is None or known.text != text:
                known = self._parsed[path] = from_text(text, path, before=known)
            found[path] = known
        return found

    def importers(self, uri: str) -> list[str]:
        """Return the open files whose last analysis has read this file, by way of others too."""
        document = self.documents.get(uri)
        if document is None or not document.path.endswith(".py"):
            return []
        path = str(Path(document.path).absolute())
        return [
            other
            for other, known in list(self._analyses.items())
            if other != uri and any(path in analysis.imports for analysis in list(known.values()))
        ]

    def forget_one(self, uri: str) -> None:
        """Drop what is known of one open file."""
        self._analyses.pop(uri, None)
        self._whole.pop(uri, None)
        self._fixes.clear()
        if uri in self.documents:
            self.documents[uri].touch()

    def _run_check(
        self,
        source: Source,
        settings: Settings,
        cancelled: Callable[[], bool],
        open_files: Mapping[str, Source] | None = None,
        *,
        closed: bool = False,
    ) -> Report:
        if self._check is None:
            from tapecheck import check as checking

            self._memory = checking.Memory()
            self._check = partial(checking.check, memory=self._memory)
        given: dict[str, Any] = {"open_files": open_files} if open_files else {}
        if closed and self._memory is not None:
            # What was found for thousands of closed files would push out what is known of the open ones.
            given["memory"] = self._memory.beside()
        if self._memory is not None:
            given["project"] = self.setup.project_of(source.path)
        return self._check(source, select=settings.select, ignore=settings.ignore, cancelled=cancelled, **given)

    def check_closed(
        self, source: Source, settings: Settings, cancelled: Callable[[], bool], unsaved: Unsaved = ()
    ) -> Report:
        """Return the report on a file that is not open, beside unsaved ones; raises where it is cancelled."""
        return self._run_check(source, settings, cancelled, self._parse(unsaved), closed=True)

    def look_at_callers(self, snapshot: Snapshot, cancelled: Callable[[], bool]) -> bool:
        """Check the files on disk that import an open one; return whether they do something else in it than before.

        Raises where it is cancelled.
        """
        shown = {document.path for document in self.documents.values()}
        open_files = self._parse(self.unsaved())
        project = self.setup.project_of(snapshot.path)

        def look(path: str) -> Report | None:
            source = SOURCES.get(path)
            if source is None:
                return None
            return self._run_check(source, self.settings_for(path), cancelled, open_files, closed=True)

        return self._callers.look(snapshot.uri, snapshot.path, project, but=shown, look=look)

    # What is shown

    def shown(self, analysis: Analysis) -> list[Shown]:
        """Return the findings of an analysis with the evidence of the last run and the user's severities."""
        report, settings = analysis.report, analysis.snapshot.settings
        silent = self._silent(analysis.snapshot, report)
        findings = [finding for finding in report.findings if not silent(finding)]
        shown = self.evidence.shown(findings, report.source, settings, report.project)
        shown += self._from_before(analysis)
        return [*shown, *self._at_calls(analysis), *self._brought(analysis, {identity(one.finding) for one in shown})]

    def _silent(self, snapshot: Snapshot, report: Report) -> Callable[[Finding], bool]:
        """Return what tells the findings of functions that are left to the code which calls them."""
        calls = [*report.interpretation.calls, *self._calls_here(snapshot, report.source.text)]
        return LeftToCallers(calls, RAISING, named_by.Texts(self.setup.project_of, dict(self.unsaved())))

    def _from_before(self, analysis: Analysis) -> Iterator[Shown]:
        """Yield what was found before a statement was typed that does not parse yet; it has no fixes meanwhile."""
        report, before = analysis.report, self._whole.get(analysis.snapshot.uri)
        if report.source.error is not None and before is not None:
            silent = self._silent(analysis.snapshot, before.report)
            answered = {one.key for one in before.report.findings if silent(one)}
            found = split_suppressed(still_there(before, report, answered), suppressions(report.source))[0]
            for shown in self.evidence.shown(found, report.source, analysis.snapshot.settings, report.project):
                if shown.static is not None:
                    yield replace(shown, static=None)

    def _at_calls(self, analysis: Analysis) -> Iterator[Shown]:
        """Yield what the file's code does in the files that it imports, at the calls that lead there."""
        report, settings = analysis.report, analysis.snapshot.settings
        for finding in self._elsewhere(analysis):
            told = across.at_call(report, finding)
            if told is not None and split_suppressed([told], suppressions(report.source))[0]:
                yield plainly(told, finding, settings, report.project)

    def _elsewhere(self, analysis: Analysis) -> Iterator[Finding]:
        """Yield what the file's code does in others, as far as those do not switch it off."""
        if analysis.report.elsewhere:
            open_files = self._parse(analysis.snapshot.unsaved)
            yield from across.visible(analysis.report, open_files, analysis.snapshot.settings.rules)

    def _brought(self, analysis: Analysis, known: set[tuple[str, int, int]]) -> Iterator[Shown]:
        """Yield what the code of other files does in this one, as long as they have read it as it is."""
        path, source = analysis.snapshot.path, analysis.report.source
        wanted = analysis.report.project.rules(analysis.snapshot.settings.rules)
        for uri, finding in self._done_here(analysis):
            if finding.span.file != path or identity(finding) in known:
                continue
            known.add(identity(finding))
            if not wanted.wants(finding.code, finding.name):
                continue
            if split_suppressed([finding], suppressions(source))[0]:
                shown = plainly(finding, finding, analysis.snapshot.settings, analysis.report.project, uri)
                # No analysis of a file that is not open is kept, which its fixes would be made from.
                yield shown if uri in self.documents else replace(shown, static=None)

    def _done_here(self, analysis: Analysis) -> Iterator[tuple[str, Finding]]:
        """Yield what other files do elsewhere, those of which have read the file as it is, with the uris of open ones.

        Those that are not open have the uri "closed".
        """
        path, text = analysis.snapshot.path, analysis.report.source.text
        for uri, other in self._present():
            if uri != analysis.snapshot.uri and other.report.interpretation.read.get(path) == text:
                yield from ((uri, finding) for finding in other.report.elsewhere)
        yield from (("closed", finding) for finding in self._callers.of(analysis.snapshot.uri, text))

    def _calls_here(self, snapshot: Snapshot, text: str) -> Iterator[Called]:
        """Yield the functions of a file that others call, where they are in a text of it."""
        path = snapshot.path
        for uri, other in self._present():
            if uri != snapshot.uri:
                found = other.report.interpretation
                yield from moved_calls(found.calls, path, found.read.get(path), text)
        yield from self._callers.calls(snapshot.uri, path, text)

    def _present(self) -> Iterator[tuple[str, Analysis]]:
        """Yield the last analysis of each open document."""
        for uri, kept in list(self._analyses.items()):
            document = self.documents.get(uri)
            known = kept.get(document.digest) if document is not None else None
            if known is not None:
                yield uri, known

    def in_others(self, uri: str) -> dict[str, frozenset[tuple[str, int, int]]]:
        """Return what the last analysis of a document has found in other open ones, by their uris."""
        known = dict(self._present()).get(uri)
        found: dict[str, set[tuple[str, int, int]]] = {}
        if known is not None and known.report.elsewhere:
            paths = {document.path: other for other, document in self.documents.items() if other != uri}
            for finding in known.report.elsewhere:
                if finding.span.file in paths:
                    found.setdefault(paths[finding.span.file], set()).add(identity(finding))
        return {other: frozenset(names) for other, names in found.items()}

    def brought_to(self, analysis: Analysis) -> str:
        """Return what changes when other open files do something else in this one."""
        names = {identity(one.finding) for one in self.shown(analysis) if one.uri}
        return digest_of(repr(sorted(names)))[:8] if names else ""

    def mending(self, analysis: Analysis, shown: Shown) -> Analysis:
        """Return the analysis that a finding's fixes are made from: that of the document whose check has found it."""
        return dict(self._present()).get(shown.uri, analysis) if shown.uri else analysis

    def limits(self, analysis: Analysis) -> list[Limit]:
        """Return what the work limit left out of an analysis."""
        return limits_of(analysis.report)

    def faults(self, analysis: Analysis) -> list[Limit]:
        """Return what internal errors left out of an analysis."""
        return faults_of(analysis.report)

    def unused(self, analysis: Analysis) -> list[Unused]:
        """Return the comments of a file that switch nothing off, as far as that is certain."""
        rules = analysis.snapshot.settings.rules
        return unused_ignores(analysis.report, rules=rules, shown_by_run=self._hidden(analysis))

    def misspelt(self, analysis: Analysis) -> list[Misspelt]:
        """Return the comments of a file that are not read as they were meant, or name no rule where they should."""
        rules = analysis.snapshot.settings.rules
        idle = {one.line for one in self.unused(analysis)}
        found = invalid_ignores(analysis.report, rules=rules, shown_by_run=self._hidden(analysis))
        return [one for one in found if one.text or one.line not in idle]

    def _hidden(self, analysis: Analysis) -> list[Finding]:
        """Return what comments of a file may hide beside what its own check shows: of runs and of other files."""
        path = analysis.report.source.path
        recording = self.recordings.get(path)
        recorded = recording.findings if recording is not None else []
        others = [one for _, other in self._present() if other is not analysis for one in other.report.elsewhere]
        others += self._callers.of(analysis.snapshot.uri, analysis.report.source.text)
        hidden = [one for one in others if one.span.file == path]
        hidden += [
            told for one in analysis.report.elsewhere if (told := across.at_call(analysis.report, one)) is not None
        ]
        return [*recorded, *hidden]

    def lenses(self, analysis: Analysis) -> list[Lens]:
        """Return what stands above training loops and backward calls of which there is something to tell."""
        settings = analysis.snapshot.settings
        if not settings.lens:
            return []
        shown = self.shown(analysis)
        lenses: list[Lens] = []
        if settings.lens_loops:
            lenses += loop_lenses(analysis.explainer, shown, self._last_run(analysis))
        if settings.lens_backwards:
            offers = {lens.line for lens in lenses if lens.offers}
            lenses += backward_lenses(analysis.explainer, shown, offers)
        return sorted(lenses, key=lambda lens: lens.line)

    def _last_run(self, analysis: Analysis) -> LastRun | None:
        path = analysis.snapshot.path
        recording = self._last.get(path, self.recordings.get(path))
        outcome = self.outcomes.get(path, recording.outcome if recording is not None else None)
        if outcome is None:
            return None
        seen = recording is not None and recording.outcome.text == outcome.text and recording.unseen is None
        stale = recording is not None and seen and self.evidence.is_stale(recording, analysis.report.source)
        return LastRun(outcome, seen, stale)

    def inlays(self, analysis: Analysis) -> list[tuple[Span, str, str]]:
        """Return what stands behind calls that walk a graph where the user wants it: the call, the hint, why."""
        if not analysis.snapshot.settings.inlay_hints:
            return []
        fates = hints(analysis.explainer, self.shown(analysis))
        constants = [(span, "first order only", why) for span, why in analysis.explainer.first_orders()]
        return sorted([*fates, *constants], key=lambda one: (one[0].end_line, one[0].end_column))

    def highlights(self, analysis: Analysis, line: int, column: int) -> list[tuple[Span, bool]]:
        """Return the `backward` or `grad` at a place (True) and the text that built what it walks (False)."""
        found = walked_lines(analysis.explainer, line, column)
        if found is None:
            return []
        name, built = found
        return [(name, True), *((span, False) for span in built)]

    def links(self, analysis: Analysis) -> list[tuple[Span, str]]:
        """Return the rules that comments of a file name, each with the address of its page."""
        pages = {name: rule for rule in ALL for name in (rule.code, rule.name)}
        path = analysis.snapshot.path
        return [
            (Span(path, row, start, row, end), pages[name].url)
            for row, start, end, name in named_rules(analysis.report.source)
            if name in pages
        ]

    def hover(self, analysis: Analysis, line: int, column: int) -> Hover | None:
        """Return what the tapes show about the expression at a place, in markdown."""
        found = analysis.explainer.hover(line, column)
        return found if found is not None else _comment(analysis.report.source, line, column)

    # Fixes

    def fixes(self, analysis: Analysis, finding: Finding) -> list[Fix]:
        """Return the verified fixes of a finding, preferred first; slow the first time, kept after that."""
        key = (analysis.snapshot.uri, analysis.digest, (*finding.key, finding.span.column))
        known = self._fixes.get(key)
        if known is None:
            known = self._find_fixes(analysis.report, finding, analysis.snapshot)
            if len(self._fixes) > 200:
                self._fixes.clear()
            self._fixes[key] = known
        return known

    def _fixes_of(
        self,
        report: Report,
        finding: Finding,
        cancelled: Callable[[], bool],
        open_files: Mapping[str, Source] | None = None,
    ) -> list[Fix]:
        if self._fixes_for is None:
            from tapecheck.fixes import fixes_for

            self._fixes_for = partial(fixes_for, memory=self._memory)
        if not open_files:
            return self._fixes_for(report, finding, cancelled=cancelled)
        return self._fixes_for(report, finding, cancelled=cancelled, open_files=open_files)

    def _find_fixes(self, report: Report, finding: Finding, snapshot: Snapshot) -> list[Fix]:
        return self._fixes_of(report, finding, lambda: self.outdated(snapshot), self._open_files(snapshot))

    def fix_all(self, analysis: Analysis) -> str | None:
        """Return the text with every safe fix applied, one after the other, each on what the last one left.

        None where there is nothing to fix or the file was edited meanwhile.
        """
        snapshot = analysis.snapshot
        report = analysis.report
        text = report.source.text
        for _ in range(_MAX_FIX_ROUNDS):
            for finding in report.findings:
                fixes = self._find_fixes(report, finding, snapshot)
                fix = next((fix for fix in fixes if fix.applicability == "safe" and within(fix, snapshot.path)), None)
                if fix is not None:
                    break
            else:
                break
            if self.outdated(snapshot):
                return None
            text = apply_edits(text, [(edit.span, edit.content) for edit in fix.edits])
            source = from_text(text, snapshot.path)
            open_files = self._open_files(snapshot)
            report = self._run_check(source, snapshot.settings, lambda: self.outdated(snapshot), open_files)
        return text if text != analysis.report.source.text and not self.outdated(snapshot) else None

    def unfixed(self, analysis: Analysis) -> str:
        """Return why `fix_all` makes no edit, and what to do instead."""
        name = Path(analysis.snapshot.path).name
        shown = self.shown(analysis)
        if not shown:
            return f"{name} has no findings"
        fixes = [self.fixes(self.mending(analysis, one), one.static) for one in shown if one.static is not None]
        if any(fix.applicability == "safe" for found in fixes for fix in found):
            why = "a safe fix edits other files, too: make it in the quick fixes of its finding"
        elif mended := sum(bool(found) for found in fixes):
            why = "the fix of the finding changes training: make it in the quick fixes of its line"
            if len(shown) > 1:
                having = f"{mended} of {len(shown)} findings have"
                why = f"no fix is safe; {having} one that changes training, in their quick fixes"
        else:
            why = "no finding has a fix: the help of each says what to do"
        return f"nothing was fixed in {name}: {why}"

    def disabling(self, analysis: Analysis, finding: Finding, what: str) -> tuple[Span, str] | None:
        """Return the edit that switches a rule off for a finding's "line", "file" or "project"; None where none can."""
        source, span = analysis.report.source, finding.span
        if what == "project":
            found = ignore_in_project(source.path, finding.code)
            return (Span(found[0], found[1], found[2], found[1], found[2]), found[3]) if found is not None else None
        if what == "line":
            edit = ignore_line(source, finding.code, span.line, max(span.line, span.end_line))
        else:
            edit = ignore_file(source, finding.code)
        if edit is None:
            return None
        row, start, end, content = edit
        return Span(source.path, row, start, row, end), content

    # Recorded runs

    def order(self, path: str, folders: list[str], own: Mapping[str, object] | None = None) -> RunOrder:
        """Return what a run of a file would be; raises RunRefused where there is nothing to run.

        `own` holds what this run has instead of the settings: arguments, cwd, env, launcher, program.
        """
        settings = self.settings_for(path)
        if own:
            given, problems = read_settings({"run": own})
            if problems:
                raise RunRefused(problems[0])
            settings = replace(settings, **{f"run_{name}": getattr(given, f"run_{name}") for name in own})
        return runs.make_order(path, folders, settings)

    def record(self, order: RunOrder, on_output: Listen, on_progress: Listen, stop: Callable[[], bool]) -> Recording:
        """Execute a file under the recorder and keep what it says; `stop` ends the run.

        Here and in `try_fix` alone the user's code is executed, and only because the user asked for it.
        Raises RunRefused where nothing can be run.
        """

        def stopped() -> bool:
            return self.closing or stop()

        report = self._run_check(order.source or from_text(order.text, order.path), order.settings, stopped)
        recording = self._record(order, report, on_output, on_progress, stopped)
        self._keep(order.path, recording)
        return recording

    def _keep(self, path: str, recording: Recording) -> None:
        self._take(path, recording)
        self._remembered.keep(path, recording)

    def _take(self, path: str, recording: Recording) -> None:
        self._last[path] = recording
        self.outcomes[path] = recording.outcome
        if recording.unseen is None:
            # A run that came to no backward says nothing of the findings: what an earlier one showed stands.
            self.recordings[path] = recording

    def _recall(self, analysis: Analysis) -> None:
        """Take up the run of a text that an earlier server has kept, where this one knows of none of the file."""
        path, report = analysis.snapshot.path, analysis.report
        if path in self.outcomes:
            return
        recording = self._remembered.find(report.source, report)
        if recording is not None and path not in self.outcomes:
            self._take(path, recording)

    def refused(self, path: str, error: Exception) -> Outcome:
        """Keep that a file could not be run, for its lenses."""
        self.outcomes[path] = Outcome(str(error), error.next if isinstance(error, RunRefused) else "")
        return self.outcomes[path]

    def try_fix(
        self, order: RunOrder, wanted: Sequence[object], on_progress: Listen, stop: Callable[[], bool]
    ) -> FixTrial:
        """Run a file as it is and with the preferred fix of a finding, and keep what was seen of both.

        `wanted` is the finding's code, line and column, in the file as it is on disk. Raises RunRefused where there
        is no such finding or no fix of it.
        """

        def stopped() -> bool:
            return self.closing or stop()

        source = order.source or from_text(order.text, order.path)
        report = self._run_check(source, order.settings, stopped)
        finding = next((one for one in report.findings if identity(one) == tuple(wanted)), None)
        if finding is None:
            raise RunRefused("the finding is not in the file as it is on disk: save the file and try again")
        fix = best_of(self._fixes_of(report, finding, stopped))
        if fix is None:
            raise RunRefused(f"there is no fix for {finding.code} on line {finding.span.line}")
        try:
            trial = self._try(order, report, finding, fix, on_progress, stopped)
        except RunRefused as error:
            if error.next:
                self.refused(order.path, error)
            raise
        self.evidence.trials.setdefault(order.path, {})[finding.code, finding.span.line] = trial
        if trial.recording is not None:
            self._keep(order.path, trial.recording)
        return trial

    def tried(self, analysis: Analysis, wanted: Sequence[object]) -> tuple[Finding, str] | None:
        """Return the finding of an analysis whose fix was tried, wherever it stands by now, and the title of that fix.

        `wanted` is its code, line and column when it was tried; None where it is not in the text any more.
        """
        code, line = str(wanted[0]), wanted[1]
        trials = self.evidence.trials.get(analysis.snapshot.path, {})
        trial = trials.get((code, line)) if isinstance(line, int) else None
        if trial is None:
            return None
        now = line_map(trial.text, analysis.report.source.text)(trial.line)
        found = (one for one in analysis.report.findings if (one.code, one.span.line) == (code, now))
        finding = next(found, None)
        return (finding, trial.fix.title) if finding is not None else None

    def trial(self, path: str, wanted: Sequence[object] | None = None) -> FixTrial | None:
        """Return the last trial of a fix in a file, or of that of a finding by its code and line when it was tried."""
        trials = self.evidence.trials.get(path, {})
        if wanted is not None:
            code, line = str(wanted[0]), wanted[1]
            return trials.get((code, line)) if isinstance(line, int) else None
        return max(trials.values(), key=lambda one: one.at, default=None)

    def trial_of(self, analysis: Analysis, finding: Finding) -> FixTrial | None:
        """Return the trial of a finding's fix, wherever the finding stands by now."""
        text = analysis.report.source.text
        for trial in self.evidence.trials.get(analysis.snapshot.path, {}).values():
            now = line_map(trial.text, text)(trial.line)
            if (trial.finding.code, now) == (finding.code, finding.span.line):
                return trial
        return None

    def edited_since(self, path: str, recording: Recording) -> bool:
        """Return whether an open file differs from what was run."""
        return any(
            document.path == path
            and not recording.is_of(join(path, document.cells).text if document.cells is not None else document.text)
            for document in self.documents.values()
        )

    def picture(self, analysis: Analysis, line: int, column: int) -> Picture:
        """Return the graphs around a place, as a run of this text measured them, else as the dry run has them."""
        path = analysis.snapshot.path
        recording = self._last.get(path, self.recordings.get(path))
        if recording is not None and self.evidence.is_stale(recording, analysis.report.source):
            recording = None
        return self._pictures.draw(analysis.report, analysis.explainer, recording, (line, column))

    def run_report(self, path: str) -> str | None:
        """Return the last run of a file as an HTML page; None where there was none."""
        recording = self._last.get(path, self.recordings.get(path))
        if recording is None or recording.page is None:
            return None
        from tapecheck.report import html

        checked = recording.page.checked
        if not checked.fixes and recording.report is not None:
            end = time.monotonic() + _FIXES_OF_REPORT_SECONDS
            for finding in checked.findings:
                said = finding.evidence
                known = said is not None and said.verdict in ("confirmed", "not-reached")
                late = not known or time.monotonic() > end
                found = [] if late else self._fixes_of(recording.report, finding, lambda: time.monotonic() > end)
                checked.fixes.append(found)
        return html.render(recording.page)


def _comment(source: Source, line: int, column: int) -> Hover | None:
    """Return what the comment at a place switches off."""
    names = rules_at(source, line, column)
    if names is None:
        return None
    told = []
    for name in names:
        meant = [rule for rule in ALL if names_rule([name], rule.code, rule.name)]
        told += [f"- **{rule.code}** ({rule.name}): {rule.summary}" for rule in meant]
        told += [] if meant else [f"- `{name}`: there is no such rule"]
    head = "This comment switches off:"
    return Hover("\n".join([head, "", *dict.fromkeys(told)]), Span(source.path, line, column, line, column + 1))


def within(fix: Fix, path: str) -> bool:
    """Return whether a fix edits one file alone."""
    return all(edit.span.file == path for edit in fix.edits)


def best_of(fixes: Sequence[Fix]) -> Fix | None:
    """Return the fix to try: the first that changes nothing for training, else the first."""
    safe = (fix for fix in fixes if fix.applicability == "safe")
    return next(safe, fixes[0] if fixes else None)


def identity(finding: Finding) -> tuple[str, int, int]:
    """Return what names a finding within one text: rule, line, column."""
    return finding.code, finding.span.line, finding.span.column


def apply_edits(text: str, edits: list[tuple[Span, str]]) -> str:
    """Return a text with edits that do not overlap applied."""
    document = Document("", "", text, None)
    starts = document.starts

    def offset(line: int, column: int) -> int:
        if line > len(starts):
            return len(text)
        return starts[line - 1] + min(column - 1, len(document.line(line - 1)))

    for span, content in sorted(edits, key=lambda edit: (edit[0].line, edit[0].column), reverse=True):
        start, end = offset(span.line, span.column), offset(span.end_line, span.end_column)
        text = text[:start] + content + text[end:]
    return text
