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


def test_a_backward_that_may_fail_says_where_the_doubt_comes_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = (
        "import torch\nfrom somewhere import make_loss\n\nloss = make_loss(torch.nn.Linear(2, 1))\n"
        "loss.backward()\nloss.backward()\n"
    )
    shown = trace(tmp_path, capsys, program)
    assert "  code   line 5: the graph of `somewhere.make_loss()` is made by unknown code: " in shown
    assert "backward line 6 of `loss`: may fail, " in shown
    assert "was freed by line 5" in shown
    assert "    no error is reported for a may: " in shown
    assert "reported: " not in shown
    stored = 'torch.load("x.pt").loss'
    shown = trace(tmp_path, capsys, program.replace("make_loss(torch.nn.Linear(2, 1))", stored))
    assert shown.count("    what graph it walks nobody knows: unknown code returned it") == 2


def test_a_backward_that_fails_says_why_and_the_way_where_it_ends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = "import torch\n\nw = torch.ones(2, requires_grad=True)\ny = w.exp()\ny.add_(1)\ny.sum().backward()\n"
    shown = trace(tmp_path, capsys, program)
    assert "ends: raised RuntimeError on line 6" in shown
    assert "fails, `ExpBackward0` of line 4 saved `result`, which line 5 changes in place" in shown
    freed = "import torch\n\nw = torch.ones(2, requires_grad=True)\ny = w.exp().sum()\ny.backward()\ny.backward()\n"
    assert "of `y`: fails, `ExpBackward0` of line 4 was freed by line 5" in trace(tmp_path, capsys, freed)
    cut = "import torch\n\nw = torch.ones(2, requires_grad=True)\ny = w.detach().sum()\ny.backward()\n"
    assert "of `y`: fails, `y` has no graph" in trace(tmp_path, capsys, cut)


def test_an_analysis_that_the_limit_ends_names_what_took_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    functions = "def f0(x):\n    return x * w\n" + "".join(
        f"def f{level}(x):\n    return f{level - 1}(x) + f{level - 1}(x * 2)\n" for level in range(1, 20)
    )
    head = "import torch\n\nw = torch.ones(2, requires_grad=True)\n"
    shown = trace(tmp_path, capsys, f"{head}{functions}f19(w).sum().backward()\n")
    assert "ends: budget" in shown
    assert "  limit  most of what was seen is `f0` (" in shown
    assert "limit: line " in shown


def test_what_one_way_shows_alone_and_all_together_do_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = (
        "import sys\nimport torch\n\nw = torch.ones(2, requires_grad=True)\n"
        "opt = torch.optim.SGD([w], lr=0.1)\n"
        "def clear(found):\n    if found:\n        print(found)\n    else:\n        opt.zero_grad()\n"
        "for step in range(5):\n    w.exp().sum().backward()\n    opt.step()\n    clear(sys.stdin.read())\n"
    )
    rows = trace(tmp_path, capsys, program).splitlines()
    alone = [row for row in rows if row.startswith("  alone  ")]
    assert alone, rows
    said = [row for row in rows if row.startswith(("reported: ", "not reported: "))]
    codes = {row.split()[1] for row in alone}
    assert codes == {row.partition(": ")[2].split()[0] for row in said}, said
