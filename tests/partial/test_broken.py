"""A statement that does not parse may have been anything: it makes no finding, no certain one and no safe fix."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.fixes import fixes_for
from tapecheck.rules import ALL
from tapecheck.source import from_text
from tapecheck.source.notebook import parse_notebook
from tapecheck.source.skipped import SKIPPED, statement_of, with_of
from tests.cases import score
from tests.partial.broken import Broken, broken
from tests.partial.judge import LOUD

KEPT = """\
import torch
from torch import nn

net = nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
total = 0.0
for step in range(5):
    loss = net(torch.randn(4, 3)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total += loss
print(float(total))
"""
TRAINED = KEPT.replace("    total += loss\n", "")
MERGED = """\
<<<<<<< ours
    loss.backward()
=======
    (loss / 2).backward()
>>>>>>> theirs
"""
ABSENCE = frozenset(rule.code for rule in ALL if rule.of_absence)


@pytest.mark.parametrize("added", ["", "print(1 2)\n", "def report(:\n    pass\n", "<<<<<<< ours\n"])
def test_no_fix_is_safe_in_a_file_that_does_not_parse(added: str) -> None:
    report = check(from_text(KEPT + added, "train.py"))
    (finding,) = report.findings
    fixes = fixes_for(report, finding)
    assert fixes and any(fix.applicability == "safe" for fix in fixes) == (not added)
    assert not added or all("does not parse" in fix.changes for fix in fixes)


@pytest.mark.parametrize(("cell", "safe"), [("print('unfinished", True), ("losses.append(loss", False)])
def test_a_fix_may_be_safe_in_a_notebook_whose_broken_cell_has_no_part_in_it(cell: str, safe: bool) -> None:
    twice = "import torch\nnet = torch.nn.Linear(3, 1)\nloss = net(torch.randn(4, 3)).mean()\nloss.backward()"
    cells = [twice + "\nnet.zero_grad()", "loss.backward()", cell]
    if not safe:
        cells[1:] = [cell, cells[1]]
    content = {"cells": [{"cell_type": "code", "source": text} for text in cells]}
    source = parse_notebook(json.dumps(content).encode(), "train.ipynb")
    assert source.error is not None
    report = check(source)
    (finding,) = report.findings
    assert finding.code == "TAPE101"
    assert any(fix.applicability == "safe" for fix in fixes_for(report, finding)) == safe


@pytest.mark.parametrize(
    ("statement", "instead"),
    [
        ("    loss.backward()\n", "    loss.backward(\n"),
        ("    loss.backward()\n", MERGED),
        ("    loss.backward()\n", "    with scaler loss.backward():\n"),
        ("    optimizer.zero_grad()\n", "    optimizer.zero_grad(\n"),
        ("    optimizer.zero_grad()\n", "    for group in optimizer.param_groups\n        group.clear()\n"),
        ("    optimizer.step()\n", "    optimizer.\n"),
        ("    loss = net", "    if step % 2:\n    loss = net"),
    ],
)
def test_what_is_broken_is_not_missing(statement: str, instead: str) -> None:
    text = TRAINED.replace(statement, instead)
    assert text != TRAINED and not check(from_text(TRAINED, "train.py")).findings
    source = from_text(text, "train.py")
    assert source.error is not None and not check(source).findings


@pytest.mark.parametrize(("inside", "found"), [("", True), ("    total = total.detach(\n", False)])
def test_what_is_broken_in_a_loop_may_end_what_it_keeps(inside: str, found: bool) -> None:
    source = from_text(f"{KEPT.replace('print', f'{inside}print', 1)}print(", "train.py")
    assert source.error is not None
    assert [(one.code, one.certain) for one in check(source).findings] == ([("TAPE201", False)] if found else [])


def test_what_is_broken_in_a_cell_is_not_missing() -> None:
    first, _, rest = TRAINED.partition("total")
    cells = [first, "total" + rest.replace("loss.backward()", "loss.backward("), "print(loss"]
    content = {"cells": [{"cell_type": "code", "source": text} for text in cells]}
    source = parse_notebook(json.dumps(content).encode(), "train.ipynb")
    assert source.error is not None and not check(source).findings


def test_what_is_found_beside_a_broken_statement_rests_on_it() -> None:
    whole = KEPT.replace("net(torch.randn(4, 3)).pow(2).mean()", "net(torch.randn(4, 3)).pow(2).mean() + total")
    (before,) = (one for one in check(from_text(whole, "train.py")).findings if one.code == "TAPE101")
    (after,) = (
        one
        for one in check(from_text(whole.replace("optimizer.zero_grad()", "reset(net, total"), "train.py")).findings
        if one.code == "TAPE101"
    )
    assert before.certain and not after.certain and after.span == before.span
    assert any(one.kind == "skipped" for one in after.rests_on)


@pytest.mark.parametrize(
    ("text", "stands"),
    [
        ("loss.backward(", "(loss)"),
        ("loss = criterion(model(x), y", "loss = {}(criterion, model, x, y)"),
        ("total += loss.item(", "total = {}(total, loss)"),
        ("a, self.b, c[i] = f(x", "a = {}(self, c, i, f, x)"),
        ("x: torch.Tensor = f(", "x = {}(torch, f)"),
        ("opt = SGD(net.parameters(), lr=0.1", "opt = {}(SGD, net, lr)"),
        ("import a.b as c, d as", "c = d = {}(a, anything=True)"),
        ("return f(x", "{}(f, x, anything=True)"),
        ("print(a == b", "{}(print, a, b)"),
    ],
)
def test_what_stands_for_a_statement_has_its_names(text: str, stands: str) -> None:
    assert statement_of([text]) == (stands if "{}" in stands else "{}" + stands).format(SKIPPED)


def test_what_stands_for_a_header_binds_what_it_binds() -> None:
    assert with_of(["for x, y in loader"]) == f"with {SKIPPED}(loader, anything=True) as [x, y]:"
    assert with_of(["with open(path) as file"]) == f"with {SKIPPED}(open, path, anything=True) as [file]:"


def test_a_broken_statement_makes_nothing_certain_missing_or_safe() -> None:
    chance = random.Random(5)
    judged, kept = 0, 0
    for program in chance.sample(score.programs_in(score.PROGRAMS), 40):
        judged_here, kept_here = _judge(program, chance)
        judged, kept = judged + judged_here, kept + kept_here
    assert judged > 250 and kept > 10


def _judge(program: Path, chance: random.Random) -> tuple[int, int]:
    """Hold what is found in a program with broken statements against it; return how many, and what is found of it."""
    text = program.read_text()
    whole = {(one.code, one.span.line): one.certain for one in check(from_text(text, "program.py")).findings}
    made = list(broken(text))
    judged = kept = 0
    for one in chance.sample(made, min(10, len(made))):
        source = from_text(one.text, "program.py")
        if source.error is None:
            continue
        judged += 1
        kept += _judge_one(program, one, whole)
    return judged, kept


def _judge_one(program: Path, one: Broken, whole: dict[tuple[str, int], bool]) -> int:
    report = check(from_text(one.text, "program.py"))
    where = program.name, one.way, one.line
    assert not report.interpretation.faults, where
    kept = 0
    for finding in report.findings:
        known = whole.get((finding.code, one.original(finding.span.line)))
        kept += known is not None
        assert known or not finding.certain, (where, finding.code, finding.message)
        missing = finding.code in ABSENCE and finding.severity in LOUD
        assert known is not None or not missing, (where, finding.code, finding.message)
        assert all(fix.applicability != "safe" for fix in fixes_for(report, finding)), (where, finding.code)
    return kept
