"""What a run with `held` tells of the tensors that are alive, and that another run tells nothing of the kind."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.record import RunRequest, judge, run
from tapecheck.record.evidence import asks_for_levels
from tapecheck.record.probe.alive import NODE_BYTES
from tapecheck.report import peak
from tapecheck.source import from_text
from tapecheck.tape import Loop, Measure, Started, Tape
from tests.record.harness import plain

PROGRAM = """\
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(10, 100)
optimizer = torch.optim.Adam(model.parameters())
kept = []
for step in range(6):
    output = model(torch.randn(50, 10)).exp()
    loss = output.mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    kept.append(model(torch.randn(50, 10)).exp())
"""
PARAMETERS = 4 * (10 * 100 + 100)


def _held(tape: Tape) -> list[tuple[str, int, dict[str, int], dict[int, int]]]:
    found: list[tuple[str, int, dict[str, int], dict[int, int]]] = []
    for event in tape.events:
        if isinstance(event, Measure):
            name, _, about = event.name.partition(":")
            if name == "alive":
                found.append((about, int(event.value), {}, {}))
            elif name == "alive-bytes":
                found[-1][2][about] = int(event.value)
            elif name == "alive-line":
                found[-1][3][event.at.line] = int(event.value)
    return found


def _run(folder: Path, held: bool, program: str = PROGRAM) -> Tape:
    (folder / "train.py").write_text(program)
    result = run(RunRequest("train.py", cwd=str(folder), held=held))
    assert result.exit_code == 0, result.stderr
    return result.tape


def test_bytes_by_kind_and_line(tmp_path: Path) -> None:
    tape = _run(tmp_path, held=True)
    (started,) = [event for event in tape.events if isinstance(event, Started)]
    assert started.command == "python train.py" and "torch" in started.versions
    held = _held(tape)
    begins = [one for one in held if one[0] == "backward"]
    ends = [one for one in held if one[0] == "iteration"]
    assert [one[1] for one in begins][:3] == [1, 2, 3] and [one[1] for one in ends][:3] == [1, 2, 3]
    # An exp keeps its result, a linear layer its input.
    one = 4 * (50 * 100 + 50 * 10)
    for number, (_, _, kinds, lines) in enumerate(ends[:5], 1):
        assert kinds["parameters"] == PARAMETERS and kinds["gradients"] == 0
        assert 2 * PARAMETERS <= kinds["optimizer"] < 2 * PARAMETERS + 100
        # What was walked has let go of what it saved, and the variables still have its nodes and values.
        assert (kinds["saved"], kinds["graph"]) == (number * one, (number * 3 + 4) * NODE_BYTES)
        walked = {9: 4 * 50 * 100 + 3 * NODE_BYTES, 10: 4 + NODE_BYTES}
        assert lines == {14: number * (one + 3 * NODE_BYTES), **walked}
    assert begins[0][2]["optimizer"] == 0 and begins[0][3] == {9: one + 3 * NODE_BYTES, 10: NODE_BYTES + 4}
    assert begins[2][3] == {9: one + 3 * NODE_BYTES, 10: NODE_BYTES + 4, 14: 2 * (one + 3 * NODE_BYTES)}


def test_the_peak_is_the_fullest_moment_by_line(tmp_path: Path) -> None:
    tape = _run(tmp_path, held=True)
    (row,) = peak.rows(tape)
    last = {"row": 8, "iteration": 6}
    one = 4 * (50 * 100 + 50 * 10)
    assert (row["iterations"], row["bytes"]) == ([last], sum(row["kinds"].values()))
    assert row["bytes"] == max(moment.total for moment in peak.moments_of(tape))
    # Where the loop ends all six iterations' values are kept.
    assert (row["lines"][0]["row"], row["lines"][0]["bytes"]) == (14, 6 * (one + 3 * NODE_BYTES))


def test_what_grows_to_the_end_of_a_loop_is_looked_at_there(tmp_path: Path) -> None:
    ends = [
        one for one in _held(_run(tmp_path, True, PROGRAM.replace("range(6)", "range(30)"))) if one[0] == "iteration"
    ]
    one = 4 * (50 * 100 + 50 * 10)
    assert [(kinds["saved"], call) for _, call, kinds, _ in ends[-2:]] == [(21 * one, 21), (30 * one, 30)]


def test_a_run_that_is_not_asked_tells_nothing(tmp_path: Path) -> None:
    tape = _run(tmp_path, held=False)
    assert not _held(tape) and peak.rows(tape) == []


# Each loop leaks in another way; what malloc has given out meanwhile is printed.
LEAKS = """\
import ctypes, gc
import torch
from torch import nn

class Info(ctypes.Structure):
    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in names.split()]

libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Info

def used():
    gc.collect()
    found = libc.mallinfo2()
    return found.uordblks + found.hblkhd

torch.set_num_threads(1)
torch.manual_seed(0)

def outputs():
    model, kept = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 10)), []
    for step in range(34):
        if step == 2:
            before = used()
        kept.append(model(torch.randn(64, 64)))
    return used() - before

def total():
    model, whole = nn.Sequential(nn.Linear(64, 512), nn.Tanh(), nn.Linear(512, 10)), 0
    for step in range(34):
        if step == 2:
            before = used()
        loss = model(torch.randn(64, 64)).pow(2).mean()
        whole = whole + loss
        loss.backward(retain_graph=True)
        model.zero_grad()
    return used() - before

def state():
    cell, hidden = nn.GRUCell(32, 128), torch.zeros(32, 128)
    for step in range(34):
        if step == 2:
            before = used()
        hidden = cell(torch.randn(32, 32), hidden)
    return used() - before

def features():
    body, head, bank = nn.Linear(64, 512), nn.Linear(512, 5), []
    for step in range(34):
        if step == 2:
            before = used()
        found = torch.relu(body(torch.randn(64, 64)))
        bank.append(found)
        head(found).mean().backward()
        body.zero_grad()
        head.zero_grad()
    return used() - before

def losses():
    model, history = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1)), []
    for step in range(300):
        if step == 2:
            before = used()
        loss = model(torch.randn(8, 16)).pow(2).mean()
        history.append(loss)
        model.zero_grad()
        loss.backward()
    return used() - before

model = nn.Linear(4, 4)
model(torch.ones(4, 4)).sum().backward()
for leak in (outputs, total, state, features, losses):
    print(leak())
"""


@pytest.mark.skipif(
    not sys.platform.startswith("linux") or not hasattr(ctypes.CDLL(None), "mallinfo2"),
    reason="asks malloc of glibc 2.33",
)
def test_what_lines_hold_is_what_the_process_grew_by(tmp_path: Path) -> None:
    tape = _run(tmp_path, True, LEAKS)
    grown = list(map(int, plain(str(tmp_path / "train.py"), cwd=str(tmp_path)).stdout.split()))
    loops = {event.id: event.at.line for event in tape.events if isinstance(event, Loop)}
    held: dict[int, dict[int, int]] = {}
    for moment in peak.moments_of(tape):
        if moment.moment == "iteration":
            loop, index = moment.at.iteration[-1]
            held.setdefault(loops[loop], {})[index] = sum(size for _, size in moment.lines)
    leaks = [by_index[max(by_index)] - by_index[2] for _, by_index in sorted(held.items()) if 2 in by_index]
    # The last loop is the one that calls the others.
    assert len(grown) == len(leaks) - 1 == 5
    assert [of_lines / of_malloc for of_lines, of_malloc in zip(leaks[:-1], grown, strict=True)] == [
        pytest.approx(1.0, abs=0.2)
    ] * 5


LEVELS = """
import torch

net = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
seen = []
for step in range(12):
    optimizer.zero_grad({none})
    loss = net(torch.randn(4, 8)).pow(2).mean()
    loss.backward({create})
    penalty = net(torch.randn(4, 8)).sum()
    optimizer.step()
    {after}
"""


def test_all_that_lives_is_gone_over_where_somebody_asks_for_it(tmp_path: Path) -> None:
    def recorded(levels: bool, **words: str) -> Tape:
        (tmp_path / "train.py").write_text(LEVELS.format(**{"none": "", "create": "", "after": "pass", **words}))
        return run(RunRequest("train.py", cwd=str(tmp_path), levels=levels)).tape

    def measured(tape: Tape) -> bool:
        return any(isinstance(event, Measure) and event.name == "live-nodes" for event in tape.events)

    assert measured(recorded(True))
    assert not measured(recorded(False))
    # What has a cycle is found by that alone, by a run that nobody has told of it.
    cyclic = recorded(False, none="set_to_none=False", create="create_graph=True", after="net = torch.nn.Linear(8, 8)")
    assert measured(cyclic)
    kept = judge([], recorded(False, after="seen.append(penalty)"))
    assert [(one.code, one.evidence.verdict) for one in kept if one.evidence] == [("TAPE201", "found-by-run")]


def test_findings_about_what_keeps_graphs_ask_for_what_lives() -> None:
    leak = check(from_text(LEVELS.format(none="", create="", after="seen.append(penalty)"), "train.py")).findings
    assert asks_for_levels(leak)
    assert not asks_for_levels(check(from_text(LEVELS.format(none="", create="", after="pass"), "train.py")).findings)
