"""Recorded verdicts held against measured truth, over all programs of tests/cases."""

from __future__ import annotations

import os

import pytest

from tests.cases import recorded
from tests.cases.score import PROGRAMS, programs_in

RECALL = PRECISION = 0.98

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="each program is forked from one that has torch loaded")


def test_runs_confirm_what_is_true_and_nothing_else() -> None:
    runs = recorded.record_all(programs_in(PROGRAMS))
    result = recorded.verdicts(runs)
    report = "\n".join([*result.lines, result.table()])
    assert result.total.recall >= RECALL, report
    assert result.total.precision >= PRECISION, report
    raising = recorded.verdicts([run for run in runs if recorded.raises(run.program)])
    assert not raising.total.misses and not raising.total.alarms, "\n".join(raising.lines)
    assert len(recorded.related(runs)) <= 1, recorded.related(runs)
