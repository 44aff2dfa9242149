"""An internal error costs the path or the start it happens in; what the others show is reported, with a note."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

import pytest

from tapecheck import check as check_module
from tapecheck.check import Memory, Report, check, faults_of
from tapecheck.cli.checking import CheckOptions, check_file
from tapecheck.cli.main import main
from tapecheck.interpret.explore.exploration import Exploration
from tapecheck.interpret.machine import Machine
from tapecheck.source import from_text

PROGRAM = dedent("""
    import torch
    from torch import nn

    net = nn.Linear(3, 1)

    def first(x):
        loss = net(x).sum()
        loss.backward()
        loss.backward()

    def second(x):
        fault = slice(1, 2, 3)
        loss = net(x).sum()
        loss.backward()
        loss.backward()

    def third(x):
        loss = net(x).sum()
        loss.backward()
        loss.backward()
    """)
FOUND = [("TAPE101", 10), ("TAPE101", 21)]

pytestmark = pytest.mark.internal_errors


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The call of `slice` raises an error that nothing reckons with."""
    before = Machine.call

    def call(self, function, args, kwargs, node):  # type: ignore[no-untyped-def]
        if getattr(getattr(node, "func", None), "id", "") == "slice":
            raise LookupError("no such handler")
        return before(self, function, args, kwargs, node)

    monkeypatch.setattr(Machine, "call", call)


def places(report: Report) -> list[tuple[str, int]]:
    return sorted((one.code, one.span.line) for one in report.findings)


@pytest.mark.usefixtures("broken")
def test_an_error_in_one_function_leaves_the_findings_of_the_others() -> None:
    report = check(from_text(PROGRAM, "train.py"))
    assert places(report) == FOUND
    (fault,) = faults_of(report)
    assert fault.line == 12
    assert fault.message.startswith(
        "internal error in the analysis of `second`, which is a bug in Tapecheck: LookupError"
    )
    assert "no such handler" in fault.message


@pytest.mark.usefixtures("broken")
def test_what_was_found_before_the_error_stands() -> None:
    report = check(
        from_text(PROGRAM.replace("    fault = slice(1, 2, 3)\n", "") + "\n\nfirst(torch.ones(2, 3))\n", "a.py")
    )
    assert not faults_of(report)
    text = "import torch\nw = torch.ones(2, requires_grad=True)\nw.mul_(2)\nslice(1)\n"
    whole = check(from_text(text.replace("slice(1)", "print(1)"), "train.py"))
    report = check(from_text(text, "train.py"))
    assert places(report) == places(whole) == [("TAPE104", 3)]


def test_an_error_of_the_exploration_costs_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    before = Exploration._note

    def note(self, run):  # type: ignore[no-untyped-def]
        if self.name == "second":
            raise ZeroDivisionError("half-way")
        before(self, run)

    monkeypatch.setattr(Exploration, "_note", note)
    report = check(from_text(PROGRAM, "train.py"))
    assert places(report) == FOUND
    assert [(one.line, "ZeroDivisionError: half-way" in one.message) for one in faults_of(report)] == [(12, True)]


def test_an_error_of_a_rule_costs_the_starts_that_it_judges(monkeypatch: pytest.MonkeyPatch) -> None:
    before = check_module.judge

    def judge(tapes, **options):  # type: ignore[no-untyped-def]
        if tapes and tapes[0].started == "second":
            raise ValueError("not judged")
        return before(tapes, **options)

    monkeypatch.setattr(check_module, "judge", judge)
    report = check(from_text(PROGRAM, "train.py"))
    assert places(report) == FOUND
    assert len(faults_of(report)) == 1


@pytest.mark.usefixtures("broken")
def test_a_failed_start_is_tried_again_and_not_remembered() -> None:
    memory = Memory()
    for _ in range(2):
        report = check(from_text(PROGRAM, "train.py"), memory=memory)
        assert places(report) == FOUND
        assert len(faults_of(report)) == 1


@pytest.mark.usefixtures("broken")
def test_the_command_line_reports_both_and_exits_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "train.py"
    file.write_text(PROGRAM)
    assert main(["check", "--no-cache", "--isolated", "--output-format", "json", str(file)]) == 2
    rows = json.loads(capsys.readouterr().out)
    codes = [row["code"] for row in rows]
    assert codes.count("TAPE101") == 2
    assert codes.count("internal-error") == 1
    checked = check_file(str(file), CheckOptions())
    assert [one.line for one in checked.problems] == [12]
