"""One line for each finding: `file:line:column: error[CODE] message`, which editors and grep understand."""

from __future__ import annotations

from collections.abc import Iterable

from tapecheck.report.checked import INCOMPLETE, Checked
from tapecheck.report.excerpt import Paint, printable
from tapecheck.report.text import summary


def render(files: Iterable[Checked], *, colour: bool = False, quiet: bool = False) -> str:
    """Return a line for each problem, finding and work limit that was reached, and the summary unless `quiet`.

    `[*]` marks a finding with a safe fix, `[?]` one with an unsafe fix only, parentheses what a run says of one.
    """
    paint = Paint(colour)
    files = list(files)
    rows: list[str] = []
    for file in files:
        for problem in file.problems:
            place = f"{printable(problem.file or file.path)}:{problem.line}:{problem.column}"
            rows.append(f"{place}: {paint('error', f'error[{problem.kind}]')} {_line(problem.message)}")
        for index, finding in enumerate(file.findings):
            span = finding.span
            fixes = file.fixes_of(index)
            mark = "" if not fixes else "[*] " if fixes[0].applicability == "safe" else "[?] "
            kind = paint(finding.severity, f"{finding.severity}[{finding.code}]")
            run = f" ({finding.evidence.title})" if finding.evidence is not None else ""
            rows.append(f"{printable(span.file)}:{span.line}:{span.column}: {kind} {mark}{_line(finding.message)}{run}")
        for limit in file.incomplete:
            kind = paint("info", f"note[{INCOMPLETE}]")
            rows.append(f"{printable(limit.file or file.path)}:{limit.line}:1: {kind} {_line(limit.message)}")
    told = "".join(f"{row}\n" for row in rows)
    return told if quiet else told + summary(files, paint)


def _line(message: str) -> str:
    """Return the first line of a message, which says what is wrong."""
    return printable((message.splitlines() or [""])[0])
