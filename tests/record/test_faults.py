"""A fault of the recorder ends the recording and never the program, whichever function of it fails."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tapecheck.record.run import PROBE
from tapecheck.tape import End, read_tape
from tests.record.harness import QUIET

HERE = Path(__file__).parent
SAMPLE = int(os.environ.get("TAPECHECK_TEST_FAULTS", "8"))
"""So many functions of the probe are broken, at two moments each; 0 for all of them."""
ALWAYS_CALLED = "walks.Walks.backward"
OUTSIDE = ("command.", "guard.Guard.")
"""What starts the program, and what catches the faults of all else: nothing is left that could catch their own."""

PROGRAM = """\
import sys, threading
import faults
import torch
from torch import nn

faults.reach("start")
torch.manual_seed(0)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 1)
    def forward(self, x):
        return self.b(self.a(x).relu())
net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
def batches(count):
    for _ in range(count):
        yield torch.randn(3, 4)
losses, state = [], torch.zeros(3, 4)
for step, x in enumerate(batches(9)):
    if step == 4:
        faults.reach("middle")
    optimizer.zero_grad(set_to_none=step % 2 == 0)
    loss = net(x).pow(2).mean()
    losses.append(loss)
    loss.backward(retain_graph=True)
    net.a.weight.grad.clamp_(-1, 1)
    optimizer.step()
    with torch.no_grad():
        net.b.bias.mul_(0.9)
    try:
        loss.backward()
        torch.ones(1).backward()
    except RuntimeError as error:
        print("caught", str(error)[:40])
total = 0
for x in batches(4):
    total = total + net(x).mean()
def beside():
    (net.b.weight * 2).sum().backward()
thread = threading.Thread(target=beside)
thread.start()
thread.join()
(gradient,) = torch.autograd.grad(net(x).sum(), net.a.weight, create_graph=True)
for _ in range(4): gradient.pow(2).sum().backward(retain_graph=True)
print(f"{total.item():.9f} {sum(losses).item():.9f}", [round(p.grad.sum().item(), 6) for p in net.parameters()])
print("to stderr", file=sys.stderr)
sys.exit(3)
"""


def _run(folder: Path, jobs: list[dict[str, object]]) -> str:
    file = folder / "jobs.json"
    file.write_text(json.dumps(jobs))
    return subprocess.run(
        [sys.executable, str(HERE / "faults.py"), str(file), str(PROBE)], cwd=folder, env={**os.environ, **QUIET},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, timeout=3000, check=True,
    ).stdout  # fmt: skip


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[tuple[str, str]]]:
    """Run a program without the probe, with it, and with each of some of its functions broken."""
    folder = tmp_path_factory.mktemp("faults")
    (folder / "train.py").write_text(PROGRAM)
    names = [name for name in json.loads(_run(folder, [])) if not name.startswith(OUTSIDE)]
    assert len(names) > 300
    if SAMPLE:
        # What the sample has may be called by no program like this one; this is, at each backward.
        names = [ALWAYS_CALLED, *random.Random(SAMPLE).sample(names, SAMPLE)]
    kinds = [(name, moment) for name in names for moment in ("start", "middle")]
    jobs: list[dict[str, object]] = []
    for number, (name, moment) in enumerate([("", "plain"), ("", "whole"), *kinds]):
        probe = [] if moment == "plain" else [str(PROBE), "--tape", f"tape{number}.jsonl"]
        jobs.append({
            "function": name, "moment": moment, "probed": bool(probe), "argv": [*probe, "train.py"],
            "output": str(folder / f"out{number}"),
        })  # fmt: skip
    _run(folder, jobs)
    return folder, kinds


def _result(folder: Path, number: int) -> tuple[str, ...]:
    return tuple((folder / f"out{number}.{part}").read_text() for part in ("1", "2", "status"))


def test_no_fault_of_the_recorder_is_seen_by_the_program(broken: tuple[Path, list[tuple[str, str]]]) -> None:
    folder, kinds = broken
    expected = _result(folder, 0)
    assert expected[1:] == ("to stderr\n", "3") and "caught one of the variables" in expected[0]
    assert _result(folder, 1) == expected
    wrong = {kind: _result(folder, at) for at, kind in enumerate(kinds, 2) if _result(folder, at) != expected}
    assert wrong == {}


def test_the_tape_says_where_the_recording_ended(broken: tuple[Path, list[tuple[str, str]]]) -> None:
    folder, kinds = broken
    told = 0
    for number, _ in enumerate(kinds, 2):
        tape = folder / f"tape{number}.jsonl"
        # Where the fault is in what writes the tape, it may have no event.
        events = read_tape(tape.read_text().splitlines()).events if tape.exists() and tape.stat().st_size else []
        end = events[-1] if events else None
        if isinstance(end, End) and "Fault" in end.detail:
            assert end.how == "stopped" and end.detail.startswith("the recording ended"), end
            # What is broken may be called once more, for the summary.
            assert re.search("the recorder failed [12] times, first with Fault: broken", end.detail)
            told += 1
    assert told >= 2
