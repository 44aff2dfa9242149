"""What the playground asks: a program is checked, explained and drawn, under Pyodide as anywhere."""

from __future__ import annotations

import json
from typing import Any

from tapecheck import __version__, torchfacts
from tapecheck.check import Memory, Report, check, limits_of
from tapecheck.fixes import fixes_for
from tapecheck.lsp.hover import Explainer
from tapecheck.report import Checked, graph, html
from tapecheck.report.checked import Incomplete, Problem
from tapecheck.report.json import render
from tapecheck.rules import Reading
from tapecheck.source import from_text
from tapecheck.tape import Tape

NAME = "train.py"
"""What the program is called in findings."""


class Playground:
    """One program that is edited. Every method returns JSON, places count from 1 and in characters."""

    def __init__(self) -> None:
        self._memory = Memory()
        self._report: Report | None = None
        self._explainer: Explainer | None = None

    def about(self) -> str:
        """Return the version, and the torch that the facts were measured on."""
        return json.dumps({"version": __version__, "torch": torchfacts.load().torch_version})

    def check(self, text: str) -> str:
        """Return the rows of `tapecheck check --no-fixes --output-format json`."""
        source = from_text(text, NAME)
        report = self._report = check(source, memory=self._memory)
        self._explainer = None
        checked = Checked(NAME, report.findings)
        if report.error is not None:
            checked.problems.append(Problem("invalid-syntax", report.error, source.error_line or 1))
        checked.incomplete = [Incomplete(limit.message, limit.line) for limit in limits_of(report)]
        return render([checked])

    def fixes(self, index: int) -> str:
        """Return the fixes of one finding of the last check, preferred first, in the shape of `fix` in its row."""
        report = self._checked()
        found = fixes_for(report, report.findings[index])
        row: dict[str, Any] = json.loads(render([Checked(NAME, [report.findings[index]], [found])]))[0]
        return json.dumps([row["fix"], *row["alternatives"]] if row["fix"] else [])

    def hover(self, line: int, column: int) -> str:
        """Return `{markdown, location, end_location}` for a place, null where there is nothing to say."""
        report = self._checked()
        if self._explainer is None:
            self._explainer = Explainer(report.source, report.interpretation.tapes, report.findings)
        found = self._explainer.hover(line, column)
        if found is None:
            return "null"
        start = {"row": found.span.line, "column": found.span.column}
        end = {"row": found.span.end_line, "column": found.span.end_column}
        return json.dumps({"markdown": found.markdown, "location": start, "end_location": end})

    def picture(self) -> str:
        """Return the SVG that `tapecheck graph` makes of the program, as a JSON string."""
        report = self._checked()
        tapes = report.interpretation.tapes
        tape = next((one for one in tapes if _fails(one)), tapes[0]) if tapes else Tape("dry run")
        return json.dumps(graph.render(html.Run(Checked(NAME, report.findings), tape, report.source, "dry run")))

    def _checked(self) -> Report:
        if self._report is None:
            raise ValueError("nothing was checked yet")
        return self._report


def _fails(tape: Tape) -> bool:
    return any(run.traversal.problem is not None for run in Reading(tape).runs)
