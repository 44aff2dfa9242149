"""Findings, fixes and places in the shapes of LSP, for one client."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from lsprotocol import types as t
from pygls import uris

from tapecheck.check import BLANKET, INCOMPLETE, INTERNAL, INVALID, UNUSED, Limit, why_unused
from tapecheck.fixes.edit import Change, TextIndex, settle
from tapecheck.lsp.client import Client
from tapecheck.lsp.document import Encoding, to_characters, to_units
from tapecheck.lsp.evidence import Shown
from tapecheck.lsp.session import Analysis, Session, identity
from tapecheck.lsp.settings import SECTION
from tapecheck.rules.finding import Finding
from tapecheck.source import Source, SourceError, read_source, split_lines
from tapecheck.source.suppress import Misspelt, Unused
from tapecheck.tape import Span

if TYPE_CHECKING:
    from tapecheck.fixes import Fix

_SEVERITY = {
    "error": t.DiagnosticSeverity.Error,
    "warning": t.DiagnosticSeverity.Warning,
    "info": t.DiagnosticSeverity.Information,
    "hint": t.DiagnosticSeverity.Hint,
}


class Converter:
    """Spans (characters, from 1) as ranges (the client's units, from 0), and findings as diagnostics."""

    def __init__(self, session: Session, client: Client, encoding: Encoding) -> None:
        self.session = session
        self.client = client
        self.encoding = encoding

    # Places

    def position(self, lines: Sequence[str], line: int, column: int) -> t.Position:
        """Return a place of a text whose lines are `lines`, held within it."""
        if not lines:
            return t.Position(0, 0)
        index = min(max(line - 1, 0), len(lines) - 1)
        characters = max(column - 1, 0) if line - 1 == index else len(lines[index])
        return t.Position(index, to_units(lines[index], characters, self.encoding))

    def range(self, lines: Sequence[str], span: Span) -> t.Range:
        start = self.position(lines, span.line, span.column)
        end = self.position(lines, span.end_line, span.end_column)
        return t.Range(start, end if (end.line, end.character) >= (start.line, start.character) else start)

    def place(self, analysis: Analysis, uri: str, position: t.Position) -> tuple[int, int]:
        """Return line and column, from 1 and in characters, of a client's position in an analysed file or cell."""
        first, lines = self._text_of(analysis, uri)
        if position.line >= len(lines):
            return first + len(lines) - 1, len(lines[-1]) + 1 if lines else 1
        return first + position.line, to_characters(lines[position.line], position.character, self.encoding) + 1

    def _text_of(self, analysis: Analysis, uri: str) -> tuple[int, Sequence[str]]:
        """Return the first line in the program, and the lines, of an analysed file or of one cell."""
        source = analysis.report.source
        for cell in source.cells.parts if source.cells is not None else ():
            if cell.key == uri:
                return cell.first, cell.lines
        return 1, source.lines

    def at(self, span: Span, analysis: Analysis) -> t.Location:
        """Return a span of the analysed program, in its file or its cell."""
        source = analysis.report.source
        if source.cells is not None and not all(cell.key for cell in source.cells.parts):
            # The cells of a notebook that is not open have no addresses: the text says which cell it is.
            return t.Location(analysis.snapshot.uri, t.Range(t.Position(0, 0), t.Position(0, 0)))
        if source.cells is None or not source.cells.parts:
            return t.Location(analysis.snapshot.uri, self.range(source.lines, span))
        cell, within = source.cells.within(span)
        return t.Location(cell.key, self.range(cell.lines, within))

    def location(self, span: Span, analysis: Analysis, others: dict[str, list[str]]) -> t.Location | None:
        """Return a span in the analysed file or another; None where the other file cannot be read."""
        if span.file == analysis.snapshot.path:
            return self.at(span, analysis)
        for document in self.session.documents.values():
            if document.path == span.file:
                return t.Location(document.uri, self.range(split_lines(document.text), span))
        if span.file not in others:
            try:
                others[span.file] = read_source(span.file).lines
            except SourceError:
                others[span.file] = []
        uri = uris.from_fs_path(span.file)
        if uri is None or not others[span.file]:
            return None
        return t.Location(uri, self.range(others[span.file], span))

    def words(self, text: str, analysis: Analysis) -> str:
        """Return a text that speaks of lines: in a notebook, of lines of cells."""
        cells = analysis.report.source.cells
        return text if cells is None else cells.words(text)

    # Findings

    def diagnostics(self, analysis: Analysis) -> list[t.Diagnostic]:
        """Return the diagnostics of an analysed file, or of all cells of a notebook one after the other."""
        return [diagnostic for found in self.by_document(analysis).values() for diagnostic in found]

    def by_document(self, analysis: Analysis) -> dict[str, list[t.Diagnostic]]:
        """Return the diagnostics of each document that was analysed (the file, or every cell), none left out."""
        cells = analysis.report.source.cells
        keys = [analysis.snapshot.uri] if cells is None else [cell.key for cell in cells.parts if cell.key]
        found: dict[str, list[t.Diagnostic]] = {key: [] for key in keys}
        others: dict[str, list[str]] = {}
        for shown in self.session.shown(analysis):
            location, diagnostic = self.diagnostic(shown, analysis, others)
            found.setdefault(location.uri, []).append(diagnostic)
        for one in self.session.unused(analysis):
            location, diagnostic = self.unused(one, analysis)
            found.setdefault(location.uri, []).append(diagnostic)
        for misspelt in self.session.misspelt(analysis):
            location, diagnostic = self.misspelt(misspelt, analysis)
            found.setdefault(location.uri, []).append(diagnostic)
        for limit in self.session.limits(analysis):
            location, diagnostic = self.incomplete(limit, analysis)
            found.setdefault(location.uri, []).append(diagnostic)
        for fault in self.session.faults(analysis):
            location, diagnostic = self.incomplete(fault, analysis, INTERNAL, t.DiagnosticSeverity.Warning)
            found.setdefault(location.uri, []).append(diagnostic)
        return found

    def incomplete(
        self,
        limit: Limit,
        analysis: Analysis,
        code: str = INCOMPLETE,
        severity: t.DiagnosticSeverity = t.DiagnosticSeverity.Information,
    ) -> tuple[t.Location, t.Diagnostic]:
        """Return a note that a limit or an error ended the analysis, where what it left out begins."""
        source = analysis.report.source
        line = min(limit.line, len(source.lines))
        text = source.lines[line - 1] if source.lines else ""
        first = len(text) - len(text.lstrip()) + 1
        where = self.at(Span(source.path, line, first, line, max(len(text.rstrip()), first) + 1), analysis)
        return where, t.Diagnostic(
            range=where.range,
            severity=severity,
            code=code,
            source=SECTION,
            message=limit.message,
        )

    def unused(self, one: Unused, analysis: Analysis) -> tuple[t.Location, t.Diagnostic]:
        """Return a comment that switches nothing off, as a hint."""
        where = self.at(Span(analysis.report.source.path, one.line, one.start, one.line, one.end), analysis)
        return where, t.Diagnostic(
            range=where.range,
            severity=t.DiagnosticSeverity.Hint,
            code=UNUSED,
            source=SECTION,
            message=why_unused(one),
            tags=[t.DiagnosticTag.Unnecessary] if self.client.unnecessary else None,
        )

    def misspelt(self, one: Misspelt, analysis: Analysis) -> tuple[t.Location, t.Diagnostic]:
        """Return a comment that is not read as it was meant, or names no rule where it should, as a warning."""
        where = self.at(Span(analysis.report.source.path, one.line, one.start, one.line, one.end), analysis)
        return where, t.Diagnostic(
            range=where.range,
            severity=t.DiagnosticSeverity.Warning,
            code=BLANKET if one.blanket else INVALID,
            source=SECTION,
            message=f"{one.message}: {one.help}",
        )

    def diagnostic(
        self, shown: Shown, analysis: Analysis, others: dict[str, list[str]]
    ) -> tuple[t.Location, t.Diagnostic]:
        """Return a finding as a diagnostic, and where it is."""
        finding = shown.finding
        message = self.words(shown.message, analysis)
        related: list[t.DiagnosticRelatedInformation] | None = None
        if self.client.related:
            related = []
            for label in finding.others:
                location = self.location(label.span, analysis, others)
                if location is not None:
                    text = self.words(label.message, analysis)
                    related.append(t.DiagnosticRelatedInformation(location, text))
        else:
            for label in finding.others:
                told = f"{_where(label.span, analysis)}: {label.message}"
                message += f"\n{self.words(told, analysis)}"
        unnecessary = finding.unnecessary and self.client.unnecessary
        where = self.at(underlined(finding), analysis)
        cells = analysis.report.source.cells
        if cells is not None and where.uri == analysis.snapshot.uri:
            message = self.words(f"line {finding.span.line}", analysis) + f": {message}"
            unnecessary = False
        diagnostic = t.Diagnostic(
            range=where.range,
            severity=_SEVERITY[shown.severity],
            code=finding.code,
            code_description=t.CodeDescription(finding.url) if self.client.code_description else None,
            source=SECTION,
            message=message,
            tags=[t.DiagnosticTag.Unnecessary] if unnecessary else None,
            related_information=related or None,
            data={"finding": list(identity(finding)), "digest": analysis.digest},
        )
        return where, diagnostic

    # Fixes

    def workspace_edit(self, edits: Iterable[tuple[Span, str]], analysis: Analysis) -> t.WorkspaceEdit | None:
        """Return edits as the client takes them; None where one is in an unreadable file, or in several cells."""
        others: dict[str, list[str]] = {}
        changes: dict[str, list[t.TextEdit]] = {}
        cells = analysis.report.source.cells
        for span, content in edits:
            if cells is not None and span.file == analysis.snapshot.path:
                if cells.crosses(span) or not _as_written(span, analysis.report.source):
                    return None
            location = self.location(span, analysis, others)
            if location is None:
                return None
            changes.setdefault(location.uri, []).append(t.TextEdit(location.range, content))
        if not self.client.document_changes:
            return t.WorkspaceEdit(changes=changes)
        return t.WorkspaceEdit(
            document_changes=[
                t.TextDocumentEdit(
                    t.OptionalVersionedTextDocumentIdentifier(uri=uri, version=self.session.version(uri)),
                    list(there),
                )
                for uri, there in changes.items()
            ]
        )

    def fix_edit(self, fix: Fix, analysis: Analysis) -> t.WorkspaceEdit | None:
        return self.workspace_edit([(edit.span, edit.content) for edit in fix.edits], analysis)

    def replacement(self, analysis: Analysis, text: str) -> t.WorkspaceEdit | None:
        """Return the edit from the analysed text to another one, touching only what differs."""
        before = analysis.report.source.text
        old, new = _with_ends(before), _with_ends(text)
        starts = [0, *itertools.accumulate(map(len, old))]
        matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
        changes = [
            Change(starts[first], starts[last], "".join(new[start:end]))
            for tag, first, last, start, end in matcher.get_opcodes()
            if tag != "equal"
        ]
        index = TextIndex(before)
        path = analysis.snapshot.path
        edits = [
            (index.span(path, change.start, change.end), change.content) for change in settle(before, changes) or ()
        ]
        return self.workspace_edit(edits, analysis)

    def hover_text(self, markdown: str, analysis: Analysis) -> t.MarkupContent:
        markdown = self.words(markdown, analysis)
        if self.client.markdown:
            return t.MarkupContent(t.MarkupKind.Markdown, markdown)
        return t.MarkupContent(t.MarkupKind.PlainText, plain(markdown))


def _with_ends(text: str) -> list[str]:
    """Return the lines of a text with their line ends."""
    return re.findall(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+$", text)


def _as_written(span: Span, source: Source) -> bool:
    """Return whether a place in a notebook's program stands so in the cell too: magics are written otherwise there."""
    assert source.cells is not None
    if (span.line, span.column) == (span.end_line, span.end_column) and span.column == 1:
        # A line put before another one does not touch it.
        return True
    for line in range(span.line, span.end_line + 1):
        cell = source.cells.at(line)
        written, read = cell.lines[line - cell.first], source.lines[line - 1]
        start = span.column - 1 if line == span.line else 0
        if len(written) != len(read) or written[start:] != read[start:]:
            return False
    return True


def underlined(finding: Finding) -> Span:
    """Return the text a diagnostic is drawn on: the argument that is unnecessary, else the finding's own."""
    return (finding.facts.argument if finding.unnecessary else None) or finding.span


def plain(markdown: str) -> str:
    """Return markdown as hovers use it (bold, code, lists) for a client that shows text only."""
    return re.sub(r"\*\*(.+?)\*\*", r"\1", markdown).replace("`", "")


def _where(span: Span, analysis: Analysis) -> str:
    if span.file == analysis.snapshot.path:
        return f"line {span.line}"
    return f"{span.file}:{span.line}"
