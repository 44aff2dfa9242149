"""What the README says of rules and figures is so."""

from __future__ import annotations

import json
import re

from tapecheck.rules import ALL
from tests.docs.pages import ROOT
from tools.docs import tables

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_table_of_rules_is_current() -> None:
    assert tables.current(README) == README, "run python -m tools.docs.tables"


def test_what_raises_nothing_comes_first() -> None:
    rows = re.findall(r"^\| \[(TAPE\d+)\].*\| (says nothing|raises, later) \|$", README, re.MULTILINE)
    assert {code for code, _ in rows} == {rule.code for rule in ALL}
    raises = [told == "raises, later" for _, told in rows]
    assert raises == sorted(raises) and not raises[0] and raises[-1]


def test_figures_are_no_more_than_what_there_is() -> None:
    truth = [json.loads(path.read_text()) for path in (ROOT / "tests" / "cases" / "programs").glob("*.json")]
    mistakes = sum(len(one["findings"]) for one in truth)
    # Each program with a mistake has a mended twin.
    without = len(truth)
    said = re.search(r"More than (\d+) mistakes in .*?more than (\d+) programs without", README, re.DOTALL)
    assert said is not None
    assert mistakes * 0.7 < int(said[1]) < mistakes
    assert without * 0.7 < int(said[2]) < without


def test_figures_of_other_pages_are_theirs() -> None:
    survey = (ROOT / "docs" / "ecosystem.md").read_text(encoding="utf-8")
    for figure in ("99,015 lines", "of 86\nof the 107", "21 findings at level error or warning", "20 right"):
        assert figure in survey, figure
