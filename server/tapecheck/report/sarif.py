"""SARIF 2.1.0, which GitHub code scanning, Azure DevOps, IDEs and reviewdog read.

Each result has the lines of its story as a code flow (built, freed, used again) and as related locations that its
message links to, the fixes, and a fingerprint that stays when the lines around it move.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tapecheck.report.checked import INCOMPLETE, Checked, Incomplete, Problem
from tapecheck.report.excerpt import Sources
from tapecheck.report.fingerprint import Fingerprints, known_texts
from tapecheck.report.places import Place, Places
from tapecheck.rules import ALL, Rule
from tapecheck.rules.finding import DOCS_URL, Finding
from tapecheck.source.cells import split_cell
from tapecheck.tape import Span
from tapecheck.version import __version__

if TYPE_CHECKING:
    from tapecheck.fixes import Fix

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_HOME = DOCS_URL.removesuffix("rules/")
_ROOT = "%SRCROOT%"
_LEVELS = {"error": "error", "warning": "warning", "info": "note", "hint": "note"}
_PROBLEM_SEVERITY = {"error": "error", "warning": "warning", "info": "recommendation", "hint": "recommendation"}
_ORDER = {"condition": 0, "path": 0, "built": 1, "cut": 1, "kept": 2, "carried": 2, "changed": 3, "freed": 3, "step": 3}
"""In which order the lines of a story happen; what calls the line of the finding comes right before it."""
_CALLED = 4
_ESSENTIAL = frozenset({"built", "cut", "kept", "changed", "freed"})
_LINK = re.compile(r"\[([^\]]*)\](?=\()")


def render(files: Iterable[Checked], sources: Sources, *, places: Places | None = None, evidence: bool = False) -> str:
    """Return a SARIF log with one run; ends with a newline.

    `evidence` adds what a recorded run shows about each finding to its properties.
    """
    places = places or Places()
    files = list(files)
    known_texts(files, sources)
    fingerprints = Fingerprints(sources, places)
    rules = {rule.code: _rule(rule) for rule in ALL}
    results: list[dict[str, object]] = []
    for file in files:
        for index, finding in enumerate(file.findings):
            rules.setdefault(finding.code, _other_rule(finding))
            row = _result(finding, file.fixes_of(index), places, evidence=evidence)
            row["ruleIndex"] = list(rules).index(finding.code)
            row["partialFingerprints"] = {"tapecheck/v1": fingerprints.of(finding.code, finding.span)}
            results.append(row)
    problems = [(file.path, problem) for file in files for problem in file.problems]
    notifications = [_notification(path, problem, problem.kind, "error", places) for path, problem in problems]
    notifications += [
        _notification(file.path, limit, INCOMPLETE, "note", places) for file in files for limit in file.incomplete
    ]
    failed = any(problem.kind == "internal-error" for _, problem in problems)
    run = {
        "tool": {
            "driver": {
                "name": "Tapecheck",
                "informationUri": _HOME,
                "version": __version__,
                "semanticVersion": __version__,
                "rules": list(rules.values()),
            }
        },
        "invocations": [
            {
                "executionSuccessful": not failed,
                "toolExecutionNotifications": notifications,
            }
        ],
        "originalUriBaseIds": {_ROOT: {"uri": f"{places.root.absolute().as_uri().rstrip('/')}/"}},
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(rule: Rule) -> dict[str, object]:
    page = inspect.getdoc(type(rule)) or rule.summary
    return {
        "id": rule.code,
        "name": "".join(part.capitalize() for part in rule.name.split("-")),
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": " ".join(page.split("\n\n", 1)[0].split())},
        "help": {"text": page, "markdown": page},
        "helpUri": rule.url,
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": {
            "tags": ["pytorch", "autograd"],
            "precision": "high",
            "problem.severity": _PROBLEM_SEVERITY[rule.severity],
        },
    }


def _other_rule(finding: Finding) -> dict[str, object]:
    """Return the entry of what is reported under no rule's code."""
    return {
        "id": finding.code,
        "name": "".join(part.capitalize() for part in finding.name.split("-")),
        "helpUri": finding.url,
        "defaultConfiguration": {"level": _LEVELS[finding.severity]},
    }


def _result(finding: Finding, fixes: list[Fix], places: Places, *, evidence: bool) -> dict[str, object]:
    labels = finding.others
    own_label = [finding.label.message] if finding.label is not None else []
    notes = [_plain(note) for note in (*own_label, *finding.notes)]
    related = [
        {"id": number, **_location(label.span, places), "message": {"text": _plain(label.message)}}
        for number, label in enumerate(labels, 1)
    ]
    own = places.of(finding.span)
    story = [
        f"[{_where(places.of(label.span), own)}]({number}): {_plain(label.message)}"
        for number, label in enumerate(labels, 1)
    ]
    told = [_plain(finding.message), *notes, *story, *([f"Help: {_plain(finding.help)}"] if finding.help else [])]
    properties: dict[str, object] = {"severity": finding.severity, "certain": finding.certain}
    if evidence and finding.evidence is not None:
        said = finding.evidence
        properties["evidence"] = {"verdict": said.verdict, "detail": said.detail, "iteration": said.iteration}
    row: dict[str, object] = {
        "ruleId": finding.code,
        "level": _LEVELS[finding.severity],
        "message": {"text": "\n".join(told)},
        "locations": [_location(finding.span, places)],
        "properties": properties,
    }
    if related:
        row["relatedLocations"] = related
        row["codeFlows"] = [_flow(finding, places)]
    # Edits of a notebook are in the text of its cells, which its file holds as JSON.
    changes = [_fix(fix, places) for fix in fixes if all(split_cell(edit.span.file)[1] is None for edit in fix.edits)]
    if changes:
        row["fixes"] = changes
    return row


def _flow(finding: Finding, places: Places) -> dict[str, object]:
    """Return the lines of the story in the order in which they happen, the finding last."""
    ordered = sorted(
        (label for label in finding.labels if label.span != finding.span),
        key=lambda label: _ORDER.get(label.role, _CALLED),
    )
    steps: list[tuple[Span, str, str]] = [(label.span, label.message, label.role) for label in ordered]
    steps.append((finding.span, finding.message.partition("\n")[0], "used"))
    return {
        "threadFlows": [
            {
                "locations": [
                    {
                        "location": {**_location(span, places), "message": {"text": _plain(message)}},
                        "kinds": [role],
                        "importance": "essential" if role in _ESSENTIAL or role == "used" else "important",
                        "executionOrder": number,
                    }
                    for number, (span, message, role) in enumerate(steps, 1)
                ]
            }
        ]
    }


def _location(span: Span, places: Places) -> dict[str, object]:
    place = places.of(span)
    row: dict[str, object] = {
        "physicalLocation": {"artifactLocation": _artifact(split_cell(span.file)[0], places), "region": _region(place)}
    }
    if place.cell is not None:
        lines = f"line {span.line}" if span.end_line <= span.line else f"lines {span.line}-{span.end_line}"
        row["logicalLocations"] = [{"name": f"cell {place.cell}", "fullyQualifiedName": f"cell {place.cell}, {lines}"}]
    return row


def _artifact(file: str, places: Places) -> dict[str, object]:
    uri = places.uri(file)
    return {"uri": uri} if uri.startswith("file:") else {"uri": uri, "uriBaseId": _ROOT}


def _region(place: Place) -> dict[str, int]:
    region = {"startLine": place.line, "endLine": max(place.end_line, place.line)}
    if place.column is not None and place.end_column is not None:
        region |= {"startColumn": place.column, "endColumn": place.end_column}
    return region


def _fix(fix: Fix, places: Places) -> dict[str, object]:
    files = dict.fromkeys(edit.span.file for edit in fix.edits)
    return {
        "description": {"text": _plain(f"{fix.title} ({fix.applicability}). {fix.changes}".strip())},
        "artifactChanges": [
            {
                "artifactLocation": _artifact(file, places),
                "replacements": [
                    {
                        "deletedRegion": _region(places.of(edit.span)),
                        "insertedContent": {"text": edit.content},
                    }
                    for edit in fix.edits
                    if edit.span.file == file
                ],
            }
            for file in files
        ],
    }


def _notification(path: str, said: Problem | Incomplete, kind: str, level: str, places: Places) -> dict[str, object]:
    column = said.column if isinstance(said, Problem) else 1
    span = Span(said.file or path, said.line, column, said.line, column)
    return {
        "descriptor": {"id": kind},
        "level": level,
        "message": {"text": _plain(said.message)},
        "locations": [_location(span, places)],
    }


def _where(place: Place, own: Place) -> str:
    return f"line {place.line}" if place.path == own.path else f"{place.path}:{place.line}"


def _plain(text: str) -> str:
    """Return a text in which nothing reads as one of SARIF's links, such as `x[0](y)`."""
    return _LINK.sub(r"\\[\1\\]", text)
