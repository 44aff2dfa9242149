"""What one file's code does in another one: shown in both, on its own line and at the call that leads there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import PurePath

from tapecheck.check import Report, split_suppressed
from tapecheck.rules.finding import Finding, Label
from tapecheck.source import Source, suppressions
from tapecheck.source.modules import SOURCES
from tapecheck.source.selection import Selection


def visible(report: Report, open_files: Mapping[str, Source], rules: Selection) -> Iterator[Finding]:
    """Yield the findings of a report in other files that neither their comments nor their configuration switch off."""
    for finding in report.elsewhere:
        path = finding.span.file
        if not report.project.of(path).rules(rules).wants(finding.code, finding.name):
            continue
        source = open_files.get(path) or SOURCES.get(path)
        if source is not None and split_suppressed([finding], suppressions(source))[0]:
            yield finding


def at_call(report: Report, finding: Finding) -> Finding | None:
    """Return a finding in another file as it is shown at the call that leads there; None where none is seen."""
    call = report.call_of(finding)
    if call is None:
        return None
    there = finding.label.message if finding.label is not None else finding.message
    labels = (Label(finding.span, there, "called"), *(label for label in finding.others if label.span != call))
    message = f"{finding.message} (in {PurePath(finding.span.file).name})"
    return replace(finding, span=call, message=message, labels=labels, unnecessary=False)
