"""Fixes of what one file does in another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tapecheck import check as checking
from tapecheck.check import check
from tapecheck.cli.across import Mender
from tapecheck.fixes import Effort, fixes_for
from tapecheck.source import from_text, read_source
from tapecheck.source.project import Projects

HELPER = """\
import torch


def fit(model, optimizer):
    kept = []
    for step in range(100):
        loss = model(torch.randn(4, 3)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        optimizer.step()
        kept.append(loss)
    return kept
"""
MAIN = """\
import torch

from helper import fit

model = torch.nn.Linear(3, 1)
fit(model, torch.optim.SGD(model.parameters(), lr=0.1))
"""


def test_fixes_of_several_findings_take_one_check_of_the_file_that_found_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "helper.py").write_text(HELPER)
    main = tmp_path / "main.py"
    main.write_text(MAIN)
    report = check(read_source(str(main)))
    assert len(report.elsewhere) == 2
    alone = [fixes_for(report, finding) for finding in report.elsewhere]
    assert any(alone)
    as_they_are: list[str] = []

    def spy(source, **named):  # type: ignore[no-untyped-def]
        if not named.get("open_files"):
            as_they_are.append(source.text)
        return check(source, **named)

    monkeypatch.setattr(checking, "check", spy)
    mender = Mender(Projects())
    assert [mender.mended(str(main), finding, Effort()) for finding in report.elsewhere] == alone
    assert as_they_are == [MAIN]
    assert not mender.mended(str(tmp_path / "gone.py"), report.elsewhere[0], Effort())


LOGGED = """\
import torch
from torch import nn


class Log:
    def __init__(self):
        self.losses = []

    @torch.no_grad()
    def add(self, loss):
        self.losses.append(loss)


model, log = nn.Linear(3, 1), Log()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(10):
    loss = model(torch.randn(4, 3)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    log.add(loss)
"""


def test_a_graph_is_kept_by_code_that_records_nothing_itself() -> None:
    assert [finding.code for finding in check(from_text(LOGGED, "log.py")).findings] == ["TAPE201"]
