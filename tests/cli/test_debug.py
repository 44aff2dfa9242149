"""`tapecheck debug trace` shows the ways that were tried and what a verdict hangs on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tapecheck.cli import main

PROGRAM = """import sys
import torch

w = torch.ones(2, requires_grad=True)
losses = []
for step in range(5):
    loss = (w * w).sum()
    if len(sys.argv) > 1:
        print(step)
    if len(sys.argv) > 2:
        loss = loss.detach()
    losses.append(loss)
"""


def trace(tmp_path: Path, capsys: pytest.CaptureFixture[str], program: str, *options: str) -> str:
    file = tmp_path / "program.py"
    file.write_text(program)
    assert main(["debug", "trace", str(file), *options]) == 0
    return capsys.readouterr().out


def test_each_condition_says_what_hangs_on_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = trace(tmp_path, capsys, PROGRAM).splitlines()
    assert rows[0] == "way 1: the module"
    (logging,) = {row for row in rows if "line 8:" in row and "way" not in row}
    assert logging.endswith("taken as true: nothing hangs on it, the other answer is not tried")
    assert any("line 10:" in row and "a verdict can hang on it, the other answer is tried" in row for row in rows)
    assert "way 2: the module, other answer on line 10" in rows
    assert any(row.startswith("  cut    line 11: detach") for row in rows)
    assert any(row.startswith("  keep   line 12: `losses` keeps") for row in rows)
    assert any(row.startswith("reported: TAPE201 line 12 (") for row in rows), rows[-3:]


def test_a_line_chooses_the_ways_in_which_it_plays_a_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    functions = "import torch\ndef one(loss):\n    loss.backward()\ndef two(loss):\n    loss.backward()\n"
    every = trace(tmp_path, capsys, functions)
    assert "`one`" in every and "`two`" in every
    chosen = trace(tmp_path, capsys, functions, "--line", "5")
    assert "`one`" not in chosen and "`two`" in chosen


def test_a_file_without_ways_and_one_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert trace(tmp_path, capsys, "x = 1\n").startswith("No way was tried")
    assert main(["debug", "trace", str(tmp_path / "missing.py")]) == 2
