"""GitLab's code quality report, which merge requests show beside the changed lines."""

from __future__ import annotations

import json
from collections.abc import Iterable

from tapecheck.report.checked import Checked
from tapecheck.report.excerpt import Sources
from tapecheck.report.fingerprint import Fingerprints, known_texts
from tapecheck.report.github import message_of
from tapecheck.report.places import Places
from tapecheck.tape import Span

_SEVERITIES = {"error": "critical", "warning": "major", "info": "minor", "hint": "info"}


def render(files: Iterable[Checked], sources: Sources, *, places: Places | None = None) -> str:
    """Return a JSON list with an issue for each problem and each finding; ends with a newline."""
    places = places or Places()
    files = list(files)
    known_texts(files, sources)
    fingerprints = Fingerprints(sources, places)
    rows: list[dict[str, object]] = []
    for file in files:
        for problem in file.problems:
            span = problem.span(file.path)
            rows.append(_issue(problem.kind, problem.message, "critical", span, fingerprints, places))
        for finding in file.findings:
            said = finding.message.partition("\n")[0]
            row = _issue(finding.code, said, _SEVERITIES[finding.severity], finding.span, fingerprints, places)
            row["content"] = {"body": message_of(finding, places).replace("\n", "\n\n")}
            row["categories"] = ["Bug Risk"]
            rows.append(row)
    return json.dumps(rows, indent=2) + "\n"


def _issue(
    code: str, message: str, severity: str, span: Span, fingerprints: Fingerprints, places: Places
) -> dict[str, object]:
    place = places.of(span)
    where: dict[str, object] = {"path": place.path}
    if place.column is None or place.end_column is None:
        where["lines"] = {"begin": place.line, "end": place.end_line}
    else:
        where["positions"] = {
            "begin": {"line": place.line, "column": place.column},
            "end": {"line": place.end_line, "column": place.end_column},
        }
    return {
        "type": "issue",
        "check_name": code,
        "description": f"{code}: {message}",
        "severity": severity,
        "fingerprint": fingerprints.of(code, span),
        "location": where,
    }
