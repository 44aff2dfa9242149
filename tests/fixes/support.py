"""What the tests of the fixes share: programs, the fixes of their findings, and the text after a fix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tapecheck.check import Report, check
from tapecheck.fixes import Fix, fixes_for
from tapecheck.fixes.edit import Change, TextIndex, apply
from tapecheck.rules.finding import Finding
from tapecheck.source import from_text
from tests.cases import under_torch


def report_of(text: str, path: str = "train.py") -> Report:
    return check(from_text(text, path))


def finding_of(report: Report, code: str, line: int | None = None) -> Finding:
    """The first finding of a rule; fails with what was found instead."""
    found = [
        finding
        for finding in report.findings
        if finding.code == code and (line is None or finding.span.line <= line <= finding.span.end_line)
    ]
    assert found, [(finding.code, finding.span.line, finding.message) for finding in report.findings]
    return found[0]


def fixed(text: str, fix: Fix) -> str:
    """The text with a fix's edits made, as a client makes them: by rows and columns of characters."""
    index = TextIndex(text)
    changes = [
        Change(
            index.offset(edit.span.line, edit.span.column),
            index.offset(edit.span.end_line, edit.span.end_column),
            edit.content,
        )
        for edit in fix.edits
    ]
    return apply(text, sorted(changes))


def fixes_of(text: str, code: str) -> list[Fix]:
    report = report_of(text)
    return fixes_for(report, finding_of(report, code))


def safe_fixes(text: str, code: str | None = None) -> Iterator[tuple[str, str]]:
    """Yield the title of each safe fix of a program, of one rule alone where that is named, and the text after it."""
    report = report_of(text)
    for finding in report.findings:
        for fix in fixes_for(report, finding) if code in (None, finding.code) else ():
            if fix.applicability == "safe":
                yield fix.title, fixed(text, fix)


def run_texts(texts: Sequence[str], folder: Path) -> list[under_torch.Outcome]:
    """What became of programs under torch, in their order."""
    paths = [folder / f"{number}.py" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    return under_torch.run_all([{"path": path} for path in paths])


PROGRAMS = Path(__file__).parent.parent / "cases" / "programs"
