"""An edit that two findings have in common is analysed once, and what is kept of it is bounded."""

from __future__ import annotations

from tapecheck.check import Report, check
from tapecheck.fixes import Effort, fixes_for
from tapecheck.fixes.analysed import Analysed
from tapecheck.source import from_text

PROGRAM = """\
import torch
model = torch.nn.Linear(2, 1)
seen, sums = [], []
for _ in range(3):
    out = model(torch.ones(4, 2))
    seen.append(out)
    sums.append(out)
"""


def test_findings_share_the_analyses_of_equal_edits() -> None:
    report = check(from_text(PROGRAM, "train.py"))
    first, second = report.findings
    analysed: list[str] = []

    def counted(source, *, open_files=None) -> Report:  # type: ignore[no-untyped-def]
        analysed.append(source.text)
        return check(source, open_files=open_files)

    effort = Effort()
    together = [[fix.title for fix in fixes_for(report, one, check=counted, effort=effort)] for one in (first, second)]
    assert len(analysed) == len(set(analysed))
    once = len(analysed)
    analysed.clear()
    apart = [[fix.title for fix in fixes_for(report, one, check=counted)] for one in (first, second)]
    assert together == apart and once < len(analysed)
    assert effort.left == Effort().left - effort.analysed.work


def test_a_finding_that_no_edit_mends_leaves_the_others_their_fixes() -> None:
    report = check(from_text(PROGRAM, "train.py"))
    first, second = report.findings
    tried: list[str] = []

    def never(source, *, open_files=None) -> Report:  # type: ignore[no-untyped-def]
        tried.append(source.text)
        return report

    assert not fixes_for(report, first, check=never, effort=Effort())
    all_of_them = len(tried)
    tried.clear()
    effort = Effort(for_one=1)
    assert not fixes_for(report, first, check=never, effort=effort)
    assert len(tried) == 1 < all_of_them and effort.untried == [first]
    assert fixes_for(report, second, effort=effort)


def test_what_is_no_warning_leaves_the_rest_of_what_fixes_may_cost_to_the_others() -> None:
    report = check(from_text(PROGRAM, "train.py"))
    effort = Effort(for_light=1)
    for finding, severity in zip(report.findings, ("info", "warning")):
        finding.severity = severity  # type: ignore[assignment]
    light, heavy = report.findings
    every = fixes_for(report, light)
    assert len(every) > 1
    one = fixes_for(report, light, effort=effort)
    assert len(one) == 1 and one[0] in every and effort.for_light <= 0
    spent = effort.left
    assert not fixes_for(report, light, effort=effort) and effort.untried == [light] and effort.left == spent
    assert fixes_for(report, heavy, effort=effort) == fixes_for(report, heavy)


def test_the_oldest_reports_go_where_too_many_events_are_kept() -> None:
    made: list[str] = []

    def report_on(text: str) -> Report:
        made.append(text)
        return check(from_text(text, "train.py"))

    analysed = Analysed(most=1)
    for text in (PROGRAM, PROGRAM, PROGRAM + "x = 1\n", PROGRAM):
        analysed.report(text, (), lambda text=text: report_on(text))  # type: ignore[misc]
    assert made == [PROGRAM, PROGRAM + "x = 1\n", PROGRAM]
