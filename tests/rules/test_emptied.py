"""TAPE201 and a container that some condition empties: whether the loop lets go of the graphs in time."""

from __future__ import annotations

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

PROGRAM = """\
import argparse

import torch
from torch import nn

args = argparse.ArgumentParser().parse_args()
window, flush = args.window, args.flush

class State:
    n = 0

state = State()
model = nn.Linear(3, 1)
recent, n = [], 0
for i, x in enumerate(torch.randn(100, 4, 3)):
"""


def kept(body: str) -> list[tuple[str, bool]]:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    report = check(from_text(PROGRAM + lines, "program.py"))
    return [(found.code, found.certain) for found in report.findings if found.code == "TAPE201"]


@pytest.mark.parametrize(
    "body",
    [
        "recent.append(model(x).mean())\nif len(recent) == window:\n    sum(recent).backward()\n    recent.clear()",
        "recent.append(model(x).mean())\nif (i + 1) % window == 0:\n    sum(recent).backward()\n    recent = []",
        "recent.append(model(x).mean())\nif len(recent) > window:\n    del recent[0]",
        "recent.append(model(x).mean())\nn += 1\nif n >= window:\n    recent.clear()",
        "recent.append(model(x).mean())\nn += 1\nif n == window:\n    sum(recent).backward()\n    recent, n = [], 0",
        "state.n += 1\nrecent.append(model(x).mean())\nif state.n > window:\n    recent.clear()\n    state.n = 0",
        "v = model(x).mean()\nif len(recent) < window:\n    recent.append(v)\nelse:\n    recent[i % window] = v",
    ],
)
def test_what_each_iteration_asks_anew_empties_it_in_time(body: str) -> None:
    assert kept(body) == []


@pytest.mark.parametrize("condition", ["flush", "torch.isnan(x).any()", "x.mean() > window", "flush >= window"])
def test_a_flag_or_the_data_may_never_empty_it(condition: str) -> None:
    body = f"recent.append(model(x).mean())\nn += 1\nif {condition}:\n    recent.clear()"
    assert kept(body) == [("TAPE201", False)]


@pytest.mark.parametrize(
    "condition", ["i > 0 and torch.isnan(x).any()", "(i + 1) % window == 0", "len(recent) > window"]
)
def test_what_leaves_the_loop_empties_nothing(condition: str) -> None:
    assert kept(f"recent.append(model(x).mean())\nif {condition}:\n    break") == [("TAPE201", True)]


@pytest.mark.parametrize(
    "body",
    [
        "recent.append(model(x).mean())\nif i % window == 0:\n    print(sum(one.item() for one in recent))",
        "loss = model(x).mean()\nif torch.isnan(loss):\n    continue\nrecent.append(loss)",
        "loss = model(x).mean()\nif i % window == 0:\n    recent.append(loss)",
        "recent.append(model(x).mean())\nif i % window == 0:\n    n = 0",
    ],
)
def test_a_condition_that_empties_nothing_changes_nothing(body: str) -> None:
    assert kept(body) == [("TAPE201", True)]


@pytest.mark.parametrize("condition", ["i % 3 == 2", "i % 2 == 0", "i % 10 == 0", "i > 2", "i % 10 == 9"])
def test_what_is_kept_now_and_then_grows(condition: str) -> None:
    assert kept(f"loss = model(x).mean()\nif {condition}:\n    recent.append(loss)") == [("TAPE201", True)]


@pytest.mark.parametrize("condition", ["len(recent) < 5", "i < 4", "i < 1", "not i > 5"])
def test_what_is_kept_of_the_first_iterations_ends_growing(condition: str) -> None:
    assert kept(f"loss = model(x).mean()\nif {condition}:\n    recent.append(loss)") == []
