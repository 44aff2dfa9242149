"""Fixes made to a file: one at a time, each in the file as it is with those before it made."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tapecheck.cli.editing import Document, open_document, unified_diff
from tapecheck.cli.effort import errors_first
from tapecheck.fixes import Edit, Effort, Fix, fixes_for
from tapecheck.report.checked import Rewrite
from tapecheck.rules.finding import Finding
from tapecheck.source import Source, SourceError, split_lines
from tapecheck.source.suppress import ignore_line
from tapecheck.tape import Span

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tapecheck.check import Memory, Report

MOST = 200
"""How many fixes are made in one file: far more than any file needs, so that no pair of fixes can go in circles."""


@dataclass(slots=True)
class Outcome:
    """What editing one file came to: its last report, the fixes of what is left, the change.

    `shared` says that something left has a fix that may be made and edits other files, too; `effort` has what is left
    whose fixes were not tried. Where that is so before all were made that may be, there are none of what is left.
    """

    report: Report
    fixes: list[list[Fix]]
    rewrite: Rewrite | None
    document: Document
    shared: bool = False
    effort: Effort = field(default_factory=Effort)


def read_document(path: str) -> tuple[Document, bytes]:
    """Return a file as a document, and its content; raises SourceError where it cannot be read."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror or error}") from error
    return open_document(data, path), data


def can_be_written(document: Document, data: bytes) -> bool:
    """Return whether an unedited document would be written as it was read, byte for byte."""
    return document.data() == data


def fix_document(
    document: Document,
    data: bytes,
    check: Callable[[Document], Report],
    comments: Callable[[Report], list[tuple[str, int, Fix]]],
    *,
    unsafe: bool,
    remaining: bool,
    memory: Memory | None = None,
) -> Outcome:
    """Make the preferred fix of one finding after the other until none is left that may be made.

    What is to be mended of its comments in the end, as `comments` has it, comes last: code, line and fix of each.

    Every fix was verified against the file as it is then, with the fixes before it made. `unsafe` allows fixes that
    change what is learned; `remaining` says that the fixes of what is left are wanted. `memory` is that of `check`.
    """
    first = document
    report = check(document)
    done: list[str] = []
    hopeless: set[Key] = set()
    shared: set[Key] = set()
    states = {_state(document)}
    effort = Effort()
    while len(done) < MOST:
        step = _step(document, report, hopeless, shared, states, effort, memory, unsafe=unsafe)
        if step is None:
            break
        finding, fix, edited = step
        done.append(f"{finding.code} {document.told(finding.span.line, f': {fix.title}')}")
        document = edited
        states.add(_state(document))
        report = check(document)
    last = comments(report)
    for code, line, fix in reversed(last):
        without = document.edited(fix.edits)
        if without is not None:
            done.append(f"{code} {document.told(line, f': {fix.title}')}")
            document = without
    if last:
        report = check(document)
    fixes, effort = fixes_of_rest(report, effort, memory, wanted=remaining)
    return Outcome(report, fixes, rewritten(first, document, data, done), document, bool(shared), effort)


def fixes_of_rest(
    report: Report,
    making: Effort,
    memory: Memory | None = None,
    *,
    wanted: bool,
    open_files: Mapping[str, Source] | None = None,
) -> tuple[list[list[Fix]], Effort]:
    """Return the fixes of what is left once those were made that may be, and what trying them came to.

    There are none where they are not wanted, or where it took too long already to find those that were made.
    """
    fixes: list[list[Fix]] = [[] for _ in report.findings]
    if making.untried or not wanted:
        return fixes, making
    effort = Effort()
    places = {id(finding): index for index, finding in enumerate(report.findings)}
    for finding in errors_first(report.findings):
        fixes[places[id(finding)]] = fixes_for(report, finding, open_files=open_files, memory=memory, effort=effort)
    return fixes, effort


def add_ignores(document: Document, data: bytes, check: Callable[[Document], Report]) -> Outcome:
    """Write a comment that switches its rule off at every finding; what cannot carry one is left in the report."""
    first = document
    report = check(document)
    done: list[str] = []
    for finding in report.findings:
        span = finding.span
        found = ignore_line(document.source(), finding.code, span.line, max(span.line, span.end_line))
        if found is None:
            continue
        line, start, end, text = found
        edited = document.edited([Edit(Span(span.file, line, start, line, end), text)])
        if edited is not None:
            done.append(f"{finding.code} {document.told(line, '')}")
            document = edited
    if done:
        report = check(document)
    return Outcome(report, [], rewritten(first, document, data, done), document)


Key = tuple[str, str]
"""Code and lines of a finding: what stays of it when other fixes move it."""


def key_of(finding: Finding, source: Source) -> Key:
    """Return what tells a finding of a file from others of it, wherever edits move it."""
    return finding.code, "\n".join(source.lines[finding.span.line - 1 : finding.span.end_line])


def _step(
    document: Document,
    report: Report,
    hopeless: set[Key],
    shared: set[Key],
    states: set[tuple[str, ...]],
    effort: Effort,
    memory: Memory | None,
    *,
    unsafe: bool,
) -> tuple[Finding, Fix, Document] | None:
    """Return the first finding that has a fix which may be made, that fix, and the document with it made."""
    for finding in errors_first(report.findings):
        key = key_of(finding, report.source)
        if key in hopeless:
            continue
        for fix in fixes_for(report, finding, memory=memory, effort=effort):
            if fix.applicability != "safe" and not unsafe:
                continue
            if any(edit.span.file != finding.span.file for edit in fix.edits):
                # Files are edited one by one, maybe at the same time: a fix of several comes once all have been.
                shared.add(key)
                continue
            edited = document.edited(fix.edits)
            if edited is not None and edited.data() is not None and _state(edited) not in states:
                return finding, fix, edited
        hopeless.add(key)
    return None


def _state(document: Document) -> tuple[str, ...]:
    return tuple(document.texts().values())


def rewritten(first: Document, last: Document, data: bytes, done: list[str]) -> Rewrite | None:
    """Return what editing a document changes in its file, whose content was `data`; None where that is nothing."""
    after = last.data() if last.texts() != first.texts() else None
    if after is None:
        return None
    lines = {name: split_lines(text) for name, text in last.texts().items()}
    return Rewrite(first.path, data, after, done, "".join(unified_diff(first, last)), lines)
