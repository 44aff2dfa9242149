"""Labels of public code: the table can be read, and findings are held against it place by place."""

from __future__ import annotations

import dataclasses
import re

import pytest

from tests.ecosystem.recall import LABELS, Label, compare, labels
from tests.ecosystem.survey import Found

TABLE = """\
# repository\tcommit\tpath\tline\trule\tverdict
a/b\tc0\ttrain.py\t10\tTAPE201\ttrue
a/b\tc0\ttrain.py\t30\tTAPE201|TAPE302\ttrue
a/b\tc0\tx.ipynb\t3:4\tTAPE301\ttrue
a/b\tc0\ttrain.py\t50\tTAPE301\tfalse
"""


def told(path: str, line: int, code: str) -> Found:
    return Found("a+b", path, line, code, "info", True, "", "")


@pytest.mark.parametrize(("table", "true"), (("labels.tsv", 140), ("later.tsv", 40)))
def test_each_label_is_a_place_at_a_commit(table: str, true: int) -> None:
    kept = labels(LABELS.with_name(table).read_text(encoding="utf-8"))
    assert sum(label.expected for label in kept) >= true and not all(label.expected for label in kept)
    assert all(re.fullmatch(r"[0-9a-f]{40}", label.commit) and label.line > 0 for label in kept)
    assert all(re.fullmatch(r"TAPE\d{3}", rule) for label in kept for rule in label.rules)
    places = [(label.repository, label.path, label.cell, label.line, label.rules) for label in kept]
    assert len(set(places)) == len(places)
    assert [one.commit for one in kept] == [{one.repository: one.commit for one in kept}[o.repository] for o in kept]


def test_findings_are_held_against_labels() -> None:
    wanted = labels(TABLE)
    findings = [
        told("train.py", 12, "TAPE201"), told("train.py", 31, "TAPE301"), told("x.ipynb:cell 3", 4, "TAPE301"),
        told("train.py", 50, "TAPE301"),
    ]  # fmt: skip
    found, missed, wrong = compare(wanted, findings)
    assert [label.line for label in found] == [10, 4]
    assert [label.line for label in missed] == [30]
    assert [label.line for label in wrong] == [50]


def test_another_cell_or_rule_is_no_hit() -> None:
    wanted = [Label("a/b", "c0", "x.ipynb", 3, 4, ("TAPE301",), True)]
    assert compare(wanted, [told("x.ipynb:cell 4", 4, "TAPE301"), told("x.ipynb", 4, "TAPE301")])[1] == wanted
    assert compare(wanted, [told("x.ipynb:cell 3", 4, "TAPE201")])[1] == wanted


def test_a_store_far_down_in_a_loop_tells_a_label_at_its_head() -> None:
    wanted = [Label("a/b", "c0", "train.py", None, 10, ("TAPE201",), True)]
    store = Found("a+b", "train.py", 60, "TAPE201", "warning", True, "", "", loop=10)
    assert compare(wanted, [store])[0] == wanted
    assert compare(wanted, [dataclasses.replace(store, loop=40)])[1] == wanted
    assert compare([dataclasses.replace(wanted[0], expected=False)], [store])[2] == []
