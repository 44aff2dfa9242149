"""Autograd's own threads: on a device, or in a reentrant backward that is deep, the engine runs user code in them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tapecheck.record import judge
from tapecheck.tape import End, Measure, Tape, read_tape
from tests.record.harness import Write, probed

# Beyond 60 reentrant calls the engine goes on in a thread that Python has not started, as it does for a device.
NESTED = """
import threading

import torch
from torch import nn


class Nested(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, depth):
        ctx.depth = depth
        ctx.save_for_backward(x)
        return x * 1.0

    @staticmethod
    def backward(ctx, gradient):
        with torch.enable_grad():
            x = ctx.saved_tensors[0].detach().requires_grad_()
            if ctx.depth:
                torch.autograd.backward(Nested.apply(x, ctx.depth - 1), gradient)
            else:
                threads.add(threading.get_ident())
                innermost(x, gradient)
        return gradient, None


threads = {threading.get_ident()}
model = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
kept = []
"""


def _recorded(write: Write, tmp_path: Path, text: str) -> Tape:
    result = probed(write(NESTED + text), cwd=str(tmp_path), tape=str(tmp_path / "tape.jsonl"))
    assert (result.returncode, result.stdout) == (0, "True\n"), result.stderr
    with (tmp_path / "tape.jsonl").open() as file:
        tape = read_tape(file)
    end = tape.events[-1]
    assert isinstance(end, End) and (end.how, end.detail) == ("finished", "")
    return tape


@pytest.mark.parametrize("before", [0, 400], ids=["a-new-count", "behind-the-count"])
def test_graphs_that_the_engine_s_thread_builds_and_that_are_kept_are_found(
    write: Write, tmp_path: Path, before: int
) -> None:
    tape = _recorded(write, tmp_path, f"""
def innermost(x, gradient):
    kept.append((x.exp() * gradient).sum())

y = torch.ones(3, requires_grad=True)
for _ in range({before}):
    y = y * 1.0
y.sum().backward()
for step in range(8):
    optimizer.zero_grad()
    Nested.apply(model(torch.randn(4, 16)).mean(), 70).backward()
    optimizer.step()
print(len(threads) > 1)
""")  # fmt: skip
    (found,) = [item for item in judge([], tape, directory=str(tmp_path)) if item.code == "TAPE201"]
    assert found.evidence is not None and found.evidence.verdict == "found-by-run"
    nodes = found.evidence.measured["nodes"]
    # Three an iteration; of those that were not looked at when they were new only that they are there is known.
    assert isinstance(nodes, list) and len(nodes) >= 4 and nodes == sorted(set(nodes)) and nodes[-1] >= 15, nodes


def test_what_is_alive_is_counted_though_the_engine_ran_user_code(write: Write, tmp_path: Path) -> None:
    tape = _recorded(write, tmp_path, """
def innermost(x, gradient):
    pass

for step in range(6):
    kept.append(model(torch.randn(64, 16)).exp().mean())
    Nested.apply(model(torch.randn(4, 16)).mean(), 70).backward(retain_graph=True)
print(len(threads) > 1)
""")  # fmt: skip
    saved = [event.value for event in tape.events if isinstance(event, Measure) and event.name == "live-saved-bytes"]
    assert len(saved) >= 3 and saved == sorted(saved) and saved[-1] > saved[0], saved


def test_the_tape_holds_no_node_twice(write: Write, tmp_path: Path) -> None:
    _recorded(write, tmp_path, """
def innermost(x, gradient):
    kept.append((x.exp() * gradient).sum())

for step in range(8):
    optimizer.zero_grad()
    (Nested.apply(model(torch.randn(4, 16)).mean(), 70) + sum(kept, torch.zeros(())).detach()).backward()
    optimizer.step()
sum(kept).backward()
print(len(threads) > 1)
""")  # fmt: skip
    rows = [json.loads(line) for line in (tmp_path / "tape.jsonl").read_text().splitlines()]
    nodes = {row["id"]: row for row in rows if row.get("event") == "Node"}
    assert len(nodes) == sum(row.get("event") == "Node" for row in rows)
    assert all(number > max(row["inputs"], default=0) for number, row in nodes.items())
