"""Findings as JSON: the list that Ruff prints, with `alternatives`, `related` and `evidence` added.

Rows and columns count from 1, columns in characters; an end column is exclusive. File names are given as
the user gave them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING

from tapecheck.report.checked import INCOMPLETE, SEVERITIES, Checked, Incomplete, Problem, Tried
from tapecheck.rules.finding import Finding
from tapecheck.source.cells import split_cell
from tapecheck.tape import Span
from tapecheck.version import __version__

if TYPE_CHECKING:
    from tapecheck.fixes import Fix


FORMAT = 1
"""The version of the envelope: it changes where a key is taken away or means something else."""


def render(files: Iterable[Checked], *, evidence: bool = False) -> str:
    """Return a JSON list with an object for each finding and each problem, file by file; ends with a newline.

    `evidence` adds what a recorded run shows about each finding (null where it is inconclusive).
    """
    return json.dumps(_rows(files, evidence=evidence), indent=2) + "\n"


def render_lines(files: Iterable[Checked], *, evidence: bool = False) -> str:
    """Return the objects of `render`, each on a line of its own."""
    return "".join(json.dumps(row) + "\n" for row in _rows(files, evidence=evidence))


def render_report(files: Iterable[Checked], *, evidence: bool = False) -> str:
    """Return one JSON object: the findings of `render` in an envelope that says what they rest on.

    `files` has each file with the torch version whose facts were used, and whether all of it was checked; `limits` what
    a work limit left out; `fixed` and `not_fixed` a line for each fix that was made or refused; `elsewhere` what is
    done in imported files that were not asked for; `peak` what a recorded run held where most was alive.
    """
    files = list(files)
    levels = Counter(finding.severity for file in files for finding in file.findings)
    whole = {
        "version": __version__,
        "format": FORMAT,
        "files": list(map(_file, files)),
        "summary": {severity: levels[severity] for severity in SEVERITIES},
        "findings": list(chain.from_iterable(_findings(file, evidence=evidence) for file in files)),
        "problems": [_problem(file.path, one, evidence=False) for file in files for one in file.problems],
        "limits": [_incomplete(file.path, limit, evidence=False) for file in files for limit in file.incomplete],
        "elsewhere": [_finding(one, [], None, evidence=False) for file in files for one in file.elsewhere],
        "fixed": list(chain.from_iterable(file.rewrite.done for file in files if file.rewrite is not None)),
        "not_fixed": list(chain.from_iterable(file.refused for file in files)),
        "peak": list(chain.from_iterable(file.peak for file in files)),
    }
    return json.dumps(whole, indent=2) + "\n"


def _file(file: Checked) -> dict[str, object]:
    complete = file.checked and not file.problems and not file.incomplete
    return {"filename": file.path, "torch_facts": file.facts or None, "complete": complete}


def _rows(files: Iterable[Checked], *, evidence: bool) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for file in files:
        rows.extend(_problem(file.path, problem, evidence=evidence) for problem in file.problems)
        rows.extend(_findings(file, evidence=evidence))
        rows.extend(_incomplete(file.path, limit, evidence=evidence) for limit in file.incomplete)
    return rows


def _findings(file: Checked, *, evidence: bool) -> list[dict[str, object]]:
    return [
        _finding(finding, file.fixes_of(index), file.trial_of(index), evidence=evidence)
        for index, finding in enumerate(file.findings)
    ]


def _incomplete(path: str, limit: Incomplete, *, evidence: bool) -> dict[str, object]:
    """Return what was not analysed in the shape of a problem, as a hint."""
    row = _problem(path, Problem("internal-error", limit.message, limit.line, file=limit.file), evidence=evidence)
    return {**row, "code": INCOMPLETE, "name": INCOMPLETE, "severity": "hint"}


def _finding(finding: Finding, fixes: list[Fix], trial: Tried | None, *, evidence: bool) -> dict[str, object]:
    span = finding.span
    row: dict[str, object] = {
        "code": finding.code,
        "name": finding.name,
        "message": finding.message,
        "filename": split_cell(span.file)[0],
        "cell": split_cell(span.file)[1],
        **_range(span),
        "severity": finding.severity,
        "url": finding.url,
        "notes": list(finding.notes),
        "help": finding.help,
        "certain": finding.certain,
        "rests_on": [
            {"kind": one.kind, "assumes": one.text, **_place(one.at), **_range(one.at)} for one in finding.rests_on
        ],
        "fix": _fix(fixes[0], span.file) if fixes else None,
        "alternatives": [_fix(fix, span.file) for fix in fixes[1:]],
        "related": [
            {**_place(label.span), **_range(label.span), "message": label.message, "role": label.role}
            for label in finding.labels
        ],
    }
    if trial is not None:
        row["fix_run"] = trial.measured()
    if evidence:
        said = finding.evidence
        row["evidence"] = said and {
            "verdict": said.verdict,
            "detail": said.detail,
            "iteration": said.iteration,
            "measured": said.measured,
        }
    return row


def _problem(path: str, problem: Problem, *, evidence: bool) -> dict[str, object]:
    path, cell = split_cell(problem.file or path)
    place = Span(path, problem.line, problem.column, problem.line, problem.column)
    row: dict[str, object] = {
        "code": problem.kind,
        "name": problem.kind,
        "message": problem.message,
        "filename": path,
        "cell": cell,
        **_range(place),
        "severity": "error",
        "url": None,
        "notes": [],
        "help": None,
        "certain": True,
        "rests_on": [],
        "fix": None,
        "alternatives": [],
        "related": [],
    }
    if evidence:
        row["evidence"] = None
    return row


def _fix(fix: Fix, file: str) -> dict[str, object]:
    """Return a fix; edits in other files than that of the finding name theirs."""
    home = split_cell(file)[0]
    return {
        "applicability": fix.applicability,
        "message": fix.title,
        "changes": fix.changes,
        "edits": [
            {
                "content": edit.content,
                **({"filename": name} if (name := split_cell(edit.span.file)[0]) != home else {}),
                **_cell(edit.span),
                **_range(edit.span),
            }
            for edit in fix.edits
        ],
    }


def _place(span: Span) -> dict[str, object]:
    return {"filename": split_cell(span.file)[0], **_cell(span)}


def _cell(span: Span) -> dict[str, int]:
    """Return the cell of a place in a notebook; no key for it elsewhere."""
    cell = split_cell(span.file)[1]
    return {} if cell is None else {"cell": cell}


def _range(span: Span) -> dict[str, dict[str, int]]:
    return {
        "location": {"row": span.line, "column": span.column},
        "end_location": {"row": span.end_line, "column": span.end_column},
    }
