"""pytest plugin: `pytest --tapecheck` records every test, the fixture `tape` records one.

A test fails where its code keeps, reuses or corrupts autograd graphs, with the line that does.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tapecheck.record.inside import Recording
    from tapecheck.rules.finding import Finding


class TapeOfTest:
    """What the fixture `tape` gives to a test: its recording.

    `ignore` are rules that are not reported: codes, prefixes or names. A test that calls `stop` judges by itself, any
    other one fails where there are findings of `fail_on` or a higher severity.
    """

    def __init__(self, item: pytest.Item, *, gives_way: bool = False) -> None:
        from tapecheck.record.inside import Recording

        self.ignore = _ignored(item)
        self.fail_on = _level(item)
        self.findings: list[Finding] = []
        self.stopped = False
        self._recording: Recording | None = Recording(gives_way=gives_way)
        self._recording.start(str(item.path), beside=True)

    def stop(self) -> list[Finding]:
        """End the recording and return its findings."""
        self.stopped = True
        return self._end()

    def _end(self) -> list[Finding]:
        recording, self._recording = self._recording, None
        if recording is not None:
            recording.__exit__(None, None, None)
            self.findings = _wanted(recording.tape.findings, self.ignore)
        return self.findings

    def report(self) -> tuple[str, bool]:
        """End the recording; return what was found, and whether the test fails for it.

        It is empty where nothing was found or the test has judged it.
        """
        from tapecheck.report import Checked, Sources, text

        found = Checked("this test", self._end(), fail_on=self.fail_on)
        if self.stopped or not found.findings:
            return "", False
        return text.render([found], Sources()), any(map(found.fails, found.findings))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("tapecheck", "autograd graphs")
    group.addoption(
        "--tapecheck", action="store_true",
        help="record every test that uses torch; fail where it keeps, reuses or corrupts autograd graphs",
    )  # fmt: skip
    group.addoption(
        "--tapecheck-ignore", default="", metavar="RULES", help="comma-separated codes of rules to leave out"
    )
    group.addoption(
        "--tapecheck-fail-on", choices=("error", "warning", "info", "hint", "never"), default=None,
        help="the least severity that fails a test (default: the project's `fail-on`, else warning)",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", "tapecheck(ignore=[...]): rules of Tapecheck to leave out for this test")


@pytest.fixture
def tape(request: pytest.FixtureRequest) -> Generator[TapeOfTest, None, None]:
    """Record a test; it fails where its code keeps, reuses or corrupts autograd graphs."""
    recording = TapeOfTest(request.node)
    request.node.stash[_TAPE] = recording
    yield recording
    # Where the test was never called, or raised.
    recording.stop()


_TAPE = pytest.StashKey[TapeOfTest]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Record the call of a test, and fail it for what was found."""
    recording = item.stash.get(_TAPE, None)
    if recording is None and item.config.getoption("--tapecheck") and "torch" in sys.modules:
        recording = TapeOfTest(item, gives_way=True)
    if recording is None:
        return (yield)
    try:
        result = yield
    except BaseException:
        if report := recording.report()[0]:
            item.add_report_section("call", "tapecheck", report)
        raise
    report, fails = recording.report()
    if fails:
        pytest.fail(report, pytrace=False)
    if report:
        item.add_report_section("call", "tapecheck", report)
    return result


def _wanted(findings: list[Finding], ignore: set[str]) -> list[Finding]:
    """Return the findings that are not switched off, by the project, its comments or the test; with its severities."""
    from tapecheck.check import severity_of, split_suppressed
    from tapecheck.source import SourceError, read_source, suppressions
    from tapecheck.source.project import Projects
    from tapecheck.source.selection import Selection

    asked, projects = Selection(ignore=tuple(ignore)), Projects()
    found = []
    for finding in findings:
        file = finding.span.file
        project = projects.of(file)
        if not project.rules(asked).wants(finding.code, finding.name):
            continue
        with contextlib.suppress(SourceError):
            if not split_suppressed([finding], suppressions(read_source(file)))[0]:
                continue
        finding.severity = severity_of(finding, project.configuration)
        found.append(finding)
    return found


def _level(item: pytest.Item) -> str:
    """Return the least severity that fails a test."""
    from tapecheck.source.configuration import configuration_for

    option = item.config.getoption("--tapecheck-fail-on")
    return str(option or configuration_for(str(item.path)).fail_on or "warning")


def _ignored(item: pytest.Item) -> set[str]:
    marks: Iterable[pytest.Mark] = item.iter_markers("tapecheck")
    option = str(item.config.getoption("--tapecheck-ignore"))
    from tapecheck.source.suppress import rule_name

    given = {code.strip() for code in option.split(",") if code.strip()}
    return set(map(rule_name, given.union(*(mark.kwargs.get("ignore", ()) for mark in marks))))
