"""JUnit's XML, which most CI systems show as a list of tests: one test case for each finding, one for a clean file."""

from __future__ import annotations

import re
from collections.abc import Iterable
from xml.etree import ElementTree as xml

from tapecheck.report.checked import Checked
from tapecheck.report.excerpt import printable
from tapecheck.report.places import Places
from tapecheck.rules.finding import Finding

# What XML 1.0 cannot hold, written however.
_UNSPEAKABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(files: Iterable[Checked], *, places: Places | None = None) -> str:
    """Return the XML of one test suite for each file.

    A finding that makes the command fail is a failure, one below that level (`Checked.fails`) a skipped test case,
    a problem an error.
    """
    places = places or Places()
    root = xml.Element("testsuites", {"name": "tapecheck"})
    totals = {"tests": 0, "failures": 0, "errors": 0}
    for file in files:
        failures = sum(file.fails(finding) for finding in file.findings)
        counts = {
            "tests": max(len(file.findings) + len(file.problems), 1),
            "failures": failures,
            "errors": len(file.problems),
        }
        for key, number in counts.items():
            totals[key] += number
        path = places.path(file.path)
        suite = xml.SubElement(root, "testsuite", {"name": _clean(path), **_texts(counts)})
        suite.set("skipped", str(len(file.findings) - failures))
        for problem in file.problems:
            where = f"{problem.file or file.path}:{problem.line}:{problem.column}"
            case = xml.SubElement(suite, "testcase", {"name": problem.kind, "classname": _clean(path), "time": "0"})
            error = xml.SubElement(case, "error", {"type": problem.kind, "message": _clean(problem.message)})
            error.text = _clean(where)
        for finding in file.findings:
            name = f"{finding.code} {finding.name} (line {finding.span.line})"
            case = xml.SubElement(suite, "testcase", {"name": name, "classname": _clean(path), "time": "0"})
            what = xml.SubElement(case, "failure" if file.fails(finding) else "skipped")
            what.set("type", f"{finding.severity} {finding.code}")
            what.set("message", _clean(finding.message.partition("\n")[0]))
            what.text = _told(finding)
        if not file.findings and not file.problems:
            xml.SubElement(suite, "testcase", {"name": "tapecheck", "classname": _clean(path), "time": "0"})
    for key, value in _texts(totals).items():
        root.set(key, value)
    xml.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + xml.tostring(root, encoding="unicode") + "\n"


def _told(finding: Finding) -> str:
    first, *notes = finding.message.splitlines() or [""]
    rows = [f"{finding.span.file}:{finding.span.line}:{finding.span.column}: {first}", *notes]
    rows += [f"  {label.span.file}:{label.span.line}: {label.message}" for label in finding.labels]
    rows += finding.notes
    rows += [f"help: {finding.help}"] if finding.help else []
    return "\n".join(map(_clean, [*rows, finding.url]))


def _texts(counts: dict[str, int]) -> dict[str, str]:
    return {key: str(number) for key, number in counts.items()}


def _clean(text: str) -> str:
    return _UNSPEAKABLE.sub("\ufffd", printable(text))
