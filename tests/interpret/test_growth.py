"""What keeps graphs from one iteration to the next is found at its line, and nothing else is."""

from __future__ import annotations

import pytest

from tapecheck.check import check
from tapecheck.source import from_text
from tests.interpret.programs import growth
from tests.interpret.truth import PRELUDE, nodes_counted

SOURCES = {name: PRELUDE + growth.TRAIN.lstrip("\n") + program for name, program in growth.PROGRAMS.items()}
_LEAKS = ("TAPE201", "TAPE202", "TAPE203")


def growing_lines(source: str) -> list[int]:
    return [number for number, line in enumerate(source.splitlines(), 1) if line.endswith("# grows")]


@pytest.mark.parametrize("name", SOURCES)
def test_growth_is_found_where_it_is_and_nowhere_else(name: str) -> None:
    findings = check(from_text(SOURCES[name], "program.py")).findings
    assert [finding.span.line for finding in findings if finding.code in _LEAKS] == growing_lines(SOURCES[name])
    assert [finding.code for finding in findings if finding.code not in _LEAKS] == []


@pytest.fixture(scope="module")
def counts() -> dict[str, list[int]]:
    pytest.importorskip("torch")
    return nodes_counted(SOURCES)


@pytest.mark.parametrize("name", SOURCES)
def test_torch_keeps_more_in_each_iteration_of_those_alone(name: str, counts: dict[str, list[int]]) -> None:
    half = counts[name][len(counts[name]) // 2 :]
    steps = [after - before for before, after in zip(half, half[1:])]
    assert len(steps) >= 4
    assert all(step > 0 for step in steps) if growing_lines(SOURCES[name]) else set(steps) == {0}


@pytest.mark.parametrize("number", ["random.randrange(4)", "int(input())"])
def test_a_number_made_of_itself_over_and_over(number: str) -> None:
    doubled = "    k = k + k\n" * 40
    program = (
        "import random\nimport torch\nw = torch.ones(3, requires_grad=True)\nstore = {}\nfor i in range(10):\n"
        f"    loss = (w * w).sum()\n    k = {number}\n{doubled}    store[k] = store.get(k, 0) + loss\n"
    )
    assert check(from_text(program, "program.py")).error is None


def test_a_tensor_of_very_many_rows_is_not_taken_apart() -> None:
    program = "import torch\nfor part in torch.zeros(10**11, 3).unbind(0):\n    part.add_(1)\n"
    assert check(from_text(program, "program.py")).error is None


_NEWEST = """\
import torch
from torch import nn

net = nn.Linear(4, 2)
optimizer = torch.optim.Adam(net.parameters())
kept, rewards = [], []
for episode in range(4):
    for step in range(10):
        kept.append(net(torch.randn(4)).sum())
        rewards.append(float(step))
    loss = torch.stack(KEPT).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    rewards.clear()
"""


@pytest.mark.parametrize(
    ("used", "codes"),
    [
        ("kept[-10:]", ["TAPE201"]),
        ("kept[-len(rewards):]", ["TAPE201"]),
        ("kept[-len(torch.tensor(rewards)):]", ["TAPE201"]),
        ("kept[-12:]", ["TAPE101"]),
        ("kept", ["TAPE101"]),
    ],
)
def test_the_newest_of_a_list_are_counted_with_what_a_loop_left_out(used: str, codes: list[str]) -> None:
    findings = check(from_text(_NEWEST.replace("KEPT", used), "program.py")).findings
    assert [finding.code for finding in findings] == codes


_COLLECTED = """\
import torch
from torch import nn

net = nn.Linear(4, 2)
optimizer = torch.optim.Adam(net.parameters())
for episode in range(4):
    kept, rewards = [], []
    for step in range(80):
        kept.append(net(torch.randn(4)).sum())
        rewards.append(float(step))
        if torch.rand(()) > 2:
            break
    loss = 0
    optimizer.zero_grad()
USE
    optimizer.step()
"""
_BACKWARDS = {
    "the returns from the end on": (
        "    for i in reversed(range(len(rewards))):\n        loss = loss - kept[i] * rewards[i]\n    loss.backward()",
        None,
    ),
    "counted down": (
        "    for i in range(len(kept) - 1, -1, -1):\n        loss = loss - kept[i]\n    loss.backward()",
        None,
    ),
    "each alone, from the end on": ("    for i in reversed(range(len(kept))):\n        kept[i].backward()", None),
    "each twice": (
        "    for i in reversed(range(len(kept))):\n        kept[i].backward()\n    kept[len(kept) - 1].backward()",
        "TAPE101",
    ),
    "the last one by its two indices": (
        "    kept[len(kept) - 1].backward()\n    kept[-1].backward()",
        "TAPE101",
    ),
    "what is caught is no end of the list": (
        (
            "    try:\n        last = kept[len(kept) - 1]\n    except IndexError:\n        last = kept[0]\n"
            "    last.backward()\n    kept[-1].backward()"
        ),
        "TAPE101",
    ),
}


@pytest.mark.parametrize("name", _BACKWARDS)
def test_an_index_from_the_end_is_that_of_what_was_stored_last(name: str) -> None:
    used, code = _BACKWARDS[name]
    program = _COLLECTED.replace("USE", used)
    assert [one.code for one in check(from_text(program, "program.py")).findings] == ([code] if code else [])


@pytest.mark.parametrize("name", _BACKWARDS)
def test_torch_comes_to_the_same_element_by_both_indices(name: str) -> None:
    pytest.importorskip("torch")
    used, code = _BACKWARDS[name]
    if code is None:
        exec(_COLLECTED.replace("USE", used), {})
    else:
        with pytest.raises(RuntimeError, match="second time"):
            exec(_COLLECTED.replace("USE", used), {})


COLUMNS = """\
import argparse
import random
from collections import namedtuple

import torch
from torch import nn

T = namedtuple("T", "state reward priority")
parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=4)
args = parser.parse_args()
q = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
opt = torch.optim.Adam(q.parameters())
memory = []
for step in range(20):
    memory.append(T(torch.randn(4), random.random(), 1.0))
    picks = random.choices(range(len(memory)), k=args.batch)
    rows = [memory[i] for i in picks]
    cols = T(*zip(*rows))
    err = q(torch.stack(cols.state)).squeeze(1) - torch.tensor(cols.reward)
    loss = err.pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    for i, e in zip(picks, err.abs()):
        memory[i] = memory[i]._replace(priority=e)
print("no exception")
"""


def test_rows_that_nobody_has_counted_are_turned_into_columns() -> None:
    """`T(*zip(*rows))` mixes no column with another: a priority is in no loss."""
    assert "TAPE101" not in [one.code for one in check(from_text(COLUMNS, "program.py")).findings]
    mixed = COLUMNS.replace("torch.stack(cols.state)", "torch.stack(cols.state) * torch.stack(cols.priority)")
    assert "TAPE101" in [one.code for one in check(from_text(mixed, "program.py")).findings]
