"""Where the work limit ends an analysis the user is told, and what can be bounded without losing anything is."""

from __future__ import annotations

import pytest

from tapecheck.check import check, limits_of
from tapecheck.interpret.explore import paths
from tapecheck.source import from_text

HEAD = "import torch\nfrom torch import nn\nnet = nn.Linear(2, 1)\nx = torch.ones(4, 2)\n"
TWICE = "loss = net(x).mean()\nloss.backward()\nloss.backward()\n"


def nested(depth: int) -> str:
    loops = "".join(f"{'    ' * level}for i{level} in range(5):\n" for level in range(depth))
    return f"{HEAD}{loops}{'    ' * depth}y = net(x).mean()\n{TWICE}"


def call_tree(depth: int) -> str:
    functions = "def f0(x):\n    return net(x).mean()\n" + "".join(
        f"def f{level}(x):\n    f{level - 1}(x)\n    return f{level - 1}(x)\n" for level in range(1, depth)
    )
    return f"{HEAD}{functions}f{depth - 1}(x)\n{TWICE}"


@pytest.mark.parametrize("depth", [2, 7, 8, 12, 16])
def test_nested_loops_hide_nothing_that_comes_after_them(depth: int) -> None:
    report = check(from_text(nested(depth), "nested.py"))
    assert [finding.code for finding in report.findings] == ["TAPE101"]
    assert limits_of(report) == []


def test_a_program_that_is_not_followed_to_its_end_says_where() -> None:
    report = check(from_text(call_tree(40), "tree.py"))
    assert report.findings == []
    (limit,) = limits_of(report)
    assert "stopped here: work limit reached" in limit.message
    assert 1 < limit.line <= len(report.source.lines)


def test_functions_that_were_not_started_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "TOTAL_BUDGET", 100)
    functions = "".join(
        f"def step{number}(model, x):\n    loss = model(x).sum()\n    loss.backward()\n" for number in range(6)
    )
    report = check(from_text(f"import torch\n{functions}", "steps.py"))
    messages = [limit.message for limit in limits_of(report)]
    assert any("`step" in message and "not checked on their own" in message for message in messages), messages


def test_conditions_that_were_not_tried_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "FURTHER_WORK", 0)
    monkeypatch.setattr(paths, "FURTHER_TIMES", 0)
    undecided = "if len(sys.argv) > 5:\n    pass\nelse:\n    loss.backward()\n"
    program = f"import sys\n{HEAD}loss = net(x).mean()\n{undecided}"
    report = check(from_text(program + "loss.backward()\n", "untried.py"))
    assert [limit.message for limit in limits_of(report)] == [
        "work limit reached: 1 condition was not tried both ways in the module"
    ]


def test_work_grows_with_the_program_and_not_with_its_ways() -> None:
    """Twenty undecided conditions on which nothing hangs are answered once."""
    conditions = "".join(f"if len(sys.argv) > {number}:\n    print({number})\n" for number in range(20))
    report = check(from_text(f"import sys\n{HEAD}{conditions}{TWICE}", "conditions.py"))
    assert [finding.code for finding in report.findings] == ["TAPE101"]
    assert report.interpretation.runs == 1
