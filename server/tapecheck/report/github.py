"""Workflow commands of GitHub Actions, which the web page shows as annotations beside the changed lines.

GitHub shows ten errors, ten warnings and ten notices of each step; the log has all of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from tapecheck.report.checked import INCOMPLETE, Checked
from tapecheck.report.excerpt import printable
from tapecheck.report.places import Place, Places
from tapecheck.rules.finding import Finding
from tapecheck.tape import Span

_LEVELS = {"error": "error", "warning": "warning", "info": "notice", "hint": "notice"}


def render(files: Iterable[Checked], *, places: Places | None = None) -> str:
    """Return a workflow command for each problem, each finding, and what a work limit left out."""
    places = places or Places()
    rows: list[str] = []
    for file in files:
        for problem in file.problems:
            span = problem.span(file.path)
            place = places.of(span)
            rows.append(_command("error", f"Tapecheck ({problem.kind})", place, problem.message))
        for finding in file.findings:
            title = f"Tapecheck ({finding.code} {finding.name})" if finding.name != finding.code else (
                f"Tapecheck ({finding.code})")  # fmt: skip
            message = message_of(finding, places)
            rows.append(_command(_LEVELS[finding.severity], title, places.of(finding.span), message))
        for limit in file.incomplete:
            place = places.of(Span(limit.file or file.path, limit.line, 1, limit.line, 1))
            rows.append(_command("notice", f"Tapecheck ({INCOMPLETE})", place, limit.message))
    return "".join(f"{row}\n" for row in rows)


def message_of(finding: Finding, places: Places) -> str:
    """Return what an annotation says: it has no room for the lines of others, which are named instead."""
    own = places.of(finding.span)
    rows = [finding.message]
    if finding.label is not None:
        rows.append(finding.label.message)
    for label in finding.others:
        place = places.of(label.span)
        where = f"line {place.line}" if place.path == own.path else f"{place.path}:{place.line}"
        rows.append(f"{where}: {label.message}")
    rows += finding.notes
    if finding.help:
        rows.append(f"help: {finding.help}")
    if finding.evidence is not None:
        rows.append(f"run: {finding.evidence.title}: {finding.evidence.detail}")
    rows.append(finding.url)
    return "\n".join(rows)


def _command(level: str, title: str, place: Place, message: str) -> str:
    properties = {"title": title, "file": place.path, "line": str(place.line), "endLine": str(place.end_line)}
    # Columns of a range over several lines are taken for those of its first line.
    if place.column is not None and place.end_column is not None and place.line == place.end_line:
        properties |= {"col": str(place.column), "endColumn": str(max(place.end_column, place.column))}
    listed = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{level} {listed}::{_data(message)}"


def _data(text: str) -> str:
    # What else steers a terminal would do so in the log of the workflow.
    return printable(text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A"))


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
