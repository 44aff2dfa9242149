"""Fixes made to a file: one at a time, each in the file as it is with those before it made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tapecheck.cli.editing import Document, open_document, unified_diff
from tapecheck.cli.effort import errors_first
from tapecheck.fixes import Edit, Effort, Fix, fixes_for
from tapecheck.report.checked import Rewrite
from tapecheck.rules.finding import Finding
from tapecheck.source import Source, SourceError, split_lines
from tapecheck.source.suppress import ignore_line
from tapecheck.tape import Span

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tapecheck.check import Memory, Report
    from tapecheck.cli.choosing import Chooser

MOST = 200
"""How many fixes are made in one file: far more than any file needs, so that no pair of fixes can go in circles."""


class Against(NamedTuple):
    """What stands against a fix: a finding that it hides, or one that it has `made` elsewhere."""

    finding: Finding
    made: bool = False


Hides = Callable[[Document, Document], Against | None]
"""Says what in other files stands against the change from one state of a document to the next."""


@dataclass(slots=True)
class Outcome:
    """What editing one file came to: its last report, the fixes of what is left, the change.

    `shared` says that something left has a fix that may be made and edits other files, too; `effort` has what is left
    whose fixes were not tried. Where that is so before all were made that may be, there are none of what is left.
    `refused` has a line for each fix that was not made since another finding would be hidden by it.
    """

    report: Report
    fixes: list[list[Fix]]
    rewrite: Rewrite | None
    document: Document
    shared: bool = False
    effort: Effort = field(default_factory=Effort)
    refused: list[str] = field(default_factory=list)


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
    choose: Chooser,
    remaining: bool,
    memory: Memory | None = None,
    hides: Hides | None = None,
) -> Outcome:
    """Make one fix of one finding after the other until none is left that `choose` wants.

    What is to be mended of its comments in the end, as `comments` has it, comes last: code, line and fix of each.

    Every fix was verified against the file as it is then, with the fixes before it made. `remaining` says that the
    fixes of what is left are wanted. `memory` is that of `check`. `hides` is asked of each fix what it would hide in
    other files: such a fix is not made.
    """
    first = document
    report = check(document)
    done: list[str] = []
    hopeless: set[Key] = set()
    shared: set[Key] = set()
    states = {_state(document)}
    effort = Effort()
    refused = _Refused()
    while len(done) < MOST:
        step = _step(document, report, hopeless, shared, states, effort, refused, memory, hides, choose)
        if step is None:
            break
        hopeless -= refused.again
        refused.again.clear()
        finding, fix, edited = step
        done.append(f"{finding.code} {document.told(finding.span.line, f': {fix.title}')}")
        document = edited
        states.add(_state(document))
        report = check(document)
    last = comments(report) if choose.comments else []
    for code, line, fix in reversed(last):
        without = document.edited(fix.edits)
        if without is not None:
            done.append(f"{code} {document.told(line, f': {fix.title}')}")
            document = without
    if last:
        report = check(document)
    fixes, effort = fixes_of_rest(report, effort, memory, wanted=remaining)
    left_out = [*choose.said, *refused.lines(report, document)]
    return Outcome(report, fixes, rewritten(first, document, data, done), document, bool(shared), effort, left_out)


def not_made(against: Against, path: str) -> str:
    """Return the words that say why a fix in the file `path` was not made: what it would have hidden, or caused."""
    code, span = against.finding.code, against.finding.span
    where = f"on line {span.line}" if span.file == path else f"at {span.file}:{span.line}"
    return f"which causes {code} {where}" if against.made else f"which hides {code} {where} and does not repair it"


def _hidden_key(finding: Finding, source: Source) -> Key:
    """Return the key of a finding that may be in another file, whose lines stay where they are."""
    span = finding.span
    return key_of(finding, source) if span.file == source.path else (finding.code, f"{span.file}:{span.line}")


@dataclass(slots=True)
class _Refused:
    """Fixes that were not made since another finding would be hidden, by the keys of the two findings.

    A fix may be made once what it hid has been repaired: `again` has the findings that are to be tried once more.
    """

    said: dict[tuple[Key, str], tuple[Key, Against]] = field(default_factory=dict)
    again: set[Key] = field(default_factory=set)

    def add(self, finding: Finding, title: str, against: Against, source: Source) -> None:
        key = key_of(finding, source)
        self.said[key, title] = _hidden_key(against.finding, source), against
        self.again.add(key)

    def lines(self, report: Report, document: Document) -> list[str]:
        """Return a line for each of them that is still not made."""
        source = report.source
        left = {key_of(finding, source): finding for finding in report.findings}
        known = {_hidden_key(finding, source): finding for finding in [*report.findings, *report.elsewhere]}
        lines: list[str] = []
        for (key, title), (hidden, against) in self.said.items():
            # What another file shows by itself is not in this report.
            there = known.get(hidden) or (against.finding if against.finding.span.file != source.path else None)
            if key in left and there is not None:
                words = f": {title}, {not_made(Against(there, against.made), source.path)}"
                lines.append(f"{key[0]} {document.told(left[key].span.line, words)}")
        return lines


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


def add_ignores(
    document: Document,
    data: bytes,
    check: Callable[[Document], Report],
    from_others: Sequence[tuple[str, int, int]] = (),
) -> Outcome:
    """Write a comment that switches its rule off at every finding; what cannot carry one is left in the report.

    `from_others` are the codes, first and last lines of what other files do in this one.
    """
    first = document
    report = check(document)
    done: list[str] = []
    own = [(one.code, one.span.line, max(one.span.line, one.span.end_line)) for one in report.findings]
    for code, start_line, end_line in dict.fromkeys([*own, *from_others]):
        found = ignore_line(document.source(), code, start_line, end_line)
        if found is None:
            continue
        line, start, end, text = found
        edited = document.edited([Edit(Span(first.source().path, line, start, line, end), text)])
        if edited is not None:
            done.append(f"{code} {document.told(line, '')}")
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
    refused: _Refused,
    memory: Memory | None,
    hides: Hides | None,
    choose: Chooser,
) -> tuple[Finding, Fix, Document] | None:
    """Return the first finding that has a fix which may be made, that fix, and the document with it made."""
    for finding in errors_first(report.findings):
        key = key_of(finding, report.source)
        if key in hopeless or not choose.considers(report, finding):
            continue
        fixes = fixes_for(report, finding, memory=memory, effort=effort)
        for one in effort.hiding:
            if one.safe or choose.unsafe:
                refused.add(one.finding, one.title, Against(one.hidden), report.source)
        effort.hiding.clear()
        for fix in choose.among(document, finding, fixes):
            if any(edit.span.file != finding.span.file for edit in fix.edits):
                # Files are edited one by one, maybe at the same time: a fix of several comes once all have been.
                shared.add(key)
                continue
            edited = document.edited(fix.edits)
            if edited is None or edited.data() is None or _state(edited) in states:
                continue
            against = hides(document, edited) if hides is not None else None
            if against is None:
                return finding, fix, edited
            refused.add(finding, fix.title, against, report.source)
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
