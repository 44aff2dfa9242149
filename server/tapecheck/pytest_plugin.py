"""pytest plugin: `pytest --tapecheck` records every test, the fixture `tape` records one.

A test fails where its code keeps, reuses or corrupts autograd graphs, with the line that does.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tapecheck.record.inside import Recording
    from tapecheck.rules.finding import Finding


class TapeOfTest:
    """What the fixture `tape` gives to a test: its recording.

    `ignore` are codes of rules that are not reported. A test that calls `stop` judges by itself, any other one fails
    where there are findings.
    """

    def __init__(self, item: pytest.Item, *, gives_way: bool = False) -> None:
        from tapecheck.record.inside import Recording

        self.ignore = _ignored(item)
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
            self.findings = [finding for finding in recording.tape.findings if finding.code not in self.ignore]
        return self.findings

    def report(self) -> str:
        """End the recording and return what was found, empty where nothing was or the test has judged it."""
        from tapecheck.report import Checked, Sources, text

        found = self._end()
        return text.render([Checked("this test", found)], Sources()) if found and not self.stopped else ""


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
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Record the call of a test, and fail it for what was found."""
    recording = item.stash.get(_TAPE, None)
    if recording is None and item.config.getoption("--tapecheck") and "torch" in sys.modules:
        recording = TapeOfTest(item, gives_way=True)
    if recording is None:
        return (yield)
    try:
        result = yield
    except BaseException:
        if report := recording.report():
            item.add_report_section("call", "tapecheck", report)
        raise
    if report := recording.report():
        pytest.fail(report, pytrace=False)
    return result


def _ignored(item: pytest.Item) -> set[str]:
    marks: Iterable[pytest.Mark] = item.iter_markers("tapecheck")
    option = str(item.config.getoption("--tapecheck-ignore"))
    given = {code.strip() for code in option.split(",") if code.strip()}
    return given.union(*(mark.kwargs.get("ignore", ()) for mark in marks))
