"""What holds for all rules: choosing them, one finding a place, pages that are current."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tapecheck.check import check
from tapecheck.rules import ALL, judge, pages
from tapecheck.source import from_text

ROOT = Path(__file__).resolve().parents[2]


def two_faults(build: Any) -> Any:
    w = build.leaf(1)
    loss = build.node(2, w, saves=[0], name="loss")
    build.backward(3, loss)
    build.backward(4, loss)
    build.change(5, w, "add_", leaf=w)
    return build.end()


def test_no_tapes_no_findings() -> None:
    assert judge([]) == []


def test_findings_come_in_the_order_of_the_source(build: Any) -> None:
    assert [(finding.code, finding.span.line) for finding in judge([two_faults(build)])] == [
        ("TAPE101", 4),
        ("TAPE104", 5),
    ]


@pytest.mark.parametrize(
    ("options", "codes"),
    [
        ({"select": ["TAPE104"]}, ["TAPE104"]),
        ({"select": ["leaf-inplace"]}, ["TAPE104"]),
        ({"select": ["TAPE1"]}, ["TAPE101", "TAPE104"]),
        ({"select": ["TAPE2"]}, []),
        ({"select": []}, []),
        ({"ignore": ["TAPE101"]}, ["TAPE104"]),
        ({"select": ["TAPE1"], "ignore": ["backward-twice"]}, ["TAPE104"]),
    ],
)
def test_rules_are_chosen_by_code_prefix_or_name(build: Any, options: dict[str, Any], codes: list[str]) -> None:
    assert [finding.code for finding in judge([two_faults(build)], **options)] == codes


def test_codes_and_names_are_unique_and_in_order() -> None:
    codes = [rule.code for rule in ALL]
    assert codes == sorted(set(codes))
    assert len({rule.name for rule in ALL}) == len(ALL)


@pytest.mark.parametrize("rule", ALL, ids=lambda rule: rule.code)
def test_every_rule_has_a_page_and_examples(rule: Any) -> None:
    for heading in ("## Why PyTorch does that", "## What to do", "## What is not a finding"):
        assert heading in rule.page.text
    assert 2 <= len(rule.page.invalid) <= 7
    assert 2 <= len(rule.page.valid) <= 4


def test_the_pages_in_docs_are_current(capsys: pytest.CaptureFixture[str]) -> None:
    assert pages.main([str(ROOT / "docs" / "rules"), "--check"]) == 0, capsys.readouterr().err


def test_writing_the_pages_leaves_other_files_alone(tmp_path: Path) -> None:
    (tmp_path / "tape999-gone.md").write_text("old")
    (tmp_path / "notes.md").write_text("mine")
    assert pages.main([str(tmp_path), "--check"]) == 1
    assert pages.main([str(tmp_path)]) == 0
    assert pages.main([str(tmp_path), "--check"]) == 0
    assert not (tmp_path / "tape999-gone.md").exists()
    assert (tmp_path / "notes.md").read_text() == "mine"
    (tmp_path / "index.md").write_text("edited")
    assert pages.main([str(tmp_path), "--check"]) == 1


def test_what_several_starts_find_is_told_once() -> None:
    """An uncalled function is a start of its own, and runs the module before it."""
    text = """\
import torch
from torch import nn


def train(shared, steps=3):
    optimizer = torch.optim.SGD(shared.parameters(), lr=0.1)
    for step in range(steps):
        optimizer.zero_grad()
        shared(torch.randn(2, 3)).sum().backward()
        optimizer.step()


net = nn.Linear(3, 1)
for _ in range(3):
    print(net(torch.randn(2, 3)).sum().item())
"""
    assert [(one.code, one.span.line) for one in check(from_text(text, "main.py")).findings] == [("TAPE302", 14)]
