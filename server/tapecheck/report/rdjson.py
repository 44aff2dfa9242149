"""reviewdog's own JSON (RDFormat), which it turns into review comments; a fix of one place becomes a suggestion."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tapecheck.report.checked import Checked
from tapecheck.report.excerpt import Sources
from tapecheck.report.fingerprint import known_texts
from tapecheck.report.github import message_of
from tapecheck.report.places import Places
from tapecheck.source.cells import split_cell
from tapecheck.tape import Span

if TYPE_CHECKING:
    from tapecheck.fixes import Fix

_SEVERITIES = {"error": "ERROR", "warning": "WARNING", "info": "INFO", "hint": "INFO"}


def render(files: Iterable[Checked], sources: Sources, *, places: Places | None = None) -> str:
    """Return a JSON object with a diagnostic for each problem and each finding; ends with a newline."""
    places = places or Places()
    files = list(files)
    known_texts(files, sources)
    rows: list[dict[str, object]] = []
    for file in files:
        for problem in file.problems:
            span = problem.span(file.path)
            rows.append(
                {
                    "message": problem.message,
                    "location": _location(span, sources, places),
                    "severity": "ERROR",
                    "code": {"value": problem.kind},
                }
            )
        for index, finding in enumerate(file.findings):
            rows.append(
                {
                    "message": message_of(finding, places),
                    "location": _location(finding.span, sources, places),
                    "severity": _SEVERITIES[finding.severity],
                    "code": {"value": finding.code, "url": finding.url},
                    "related_locations": [
                        {"message": label.message, "location": _location(label.span, sources, places)}
                        for label in finding.labels
                        if label.span != finding.span
                    ],
                    "suggestions": _suggestions(file.fixes_of(index), sources),
                }
            )
    source = {"name": "tapecheck", "url": "https://tapecheck.readthedocs.io/en/latest/"}
    return json.dumps({"source": source, "diagnostics": rows}, indent=2) + "\n"


def _suggestions(fixes: list[Fix], sources: Sources) -> list[dict[str, object]]:
    """Return the safe fixes that change one place: a suggestion is accepted by itself, and half a fix is none."""
    return [
        {"range": _range(fix.edits[0].span, sources), "text": fix.edits[0].content}
        for fix in fixes
        if fix.applicability == "safe" and len(fix.edits) == 1 and split_cell(fix.edits[0].span.file)[1] is None
    ]


def _location(span: Span, sources: Sources, places: Places) -> dict[str, object]:
    place = places.of(span)
    if place.cell is not None:
        return {"path": place.path, "range": {"start": {"line": place.line}, "end": {"line": place.end_line}}}
    return {"path": place.path, "range": _range(span, sources)}


def _range(span: Span, sources: Sources) -> dict[str, object]:
    """Return a range whose columns count bytes of UTF-8, as reviewdog has it."""
    lines = sources.lines(span.file)

    def position(line: int, column: int) -> dict[str, int]:
        text = lines[line - 1] if 0 < line <= len(lines) else ""
        before = text[: column - 1].encode("utf-8", "surrogatepass")
        return {"line": line, "column": len(before) + 1 if text else column}

    return {"start": position(span.line, span.column), "end": position(span.end_line, span.end_column)}
