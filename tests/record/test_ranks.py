"""Programs of several processes: a tape for each rank, one story of all, and nothing left running."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.record import RunError, RunRequest, RunResult, judge, run
from tapecheck.record.ranks import merge
from tapecheck.rules import Reading
from tapecheck.source import from_text, read_source
from tapecheck.tape import Backward, End, Node, Tape, read_tape, write_tape
from tapecheck.tape.ranks import parts
from tests.record.harness import PYTHON, QUIET, Write

TRAINING = """
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
kept = []
for step in range(6):
    loss = model(torch.randn(3, 4)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    optimizer.step()
    if rank == 1:
        kept.append(loss)
print("rank", rank, "loss", loss.item(), flush=True)
if "--hang" in sys.argv:
    import subprocess
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    print("children", child.pid, flush=True)
    time.sleep(600)
if rank == 1:
    w = torch.ones(3, requires_grad=True)
    own = (w * w).sum()
    own.backward()
    own.backward()
dist.barrier()
"""
TORCHRUN = ("torchrun", "--nproc-per-node", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0")


def _quiet(folder: Path) -> dict[str, str]:
    # torchrun leaves a folder of logs with the temporary files, whatever it runs.
    return {**QUIET, "TORCHELASTIC_ERROR_FILE": "", "TMPDIR": str(folder)}


def _run(script: str, *args: str, folder: Path, launcher: tuple[str, ...] = TORCHRUN, **options: object) -> RunResult:
    request = RunRequest(
        script, args, PYTHON, cwd=str(folder), env=_quiet(folder), launcher=launcher,
        **options,  # type: ignore[arg-type]
    )  # fmt: skip
    return run(request)


def test_each_rank_has_its_tape_and_findings_say_on_which_they_hold(write: Write, tmp_path: Path) -> None:
    script = write(TRAINING)
    launcher = ("python", "-m", "torch.distributed.run", *TORCHRUN[1:])
    result = _run(script, folder=tmp_path, launcher=launcher, timeout=200.0, tape=str(tmp_path / "run.tape"))
    assert result.stdout.count("loss") == 2
    # The exit code is the launcher's: one of its processes failed.
    assert (result.how_ended, result.exit_code) == ("raised", 1), result.stderr
    assert result.detail.startswith("rank 1: RuntimeError: ")
    ranks = parts(result.tape)
    assert sorted(ranks) == [0, 1]
    assert [sum(isinstance(event, Backward) for event in tape.events) for tape in ranks.values()] == [6, 8]
    # The numbers of both never meet: the whole is one tape that rules can read.
    nodes = [event.id for event in result.tape.events if isinstance(event, Node)]
    assert len(nodes) == len(set(nodes))
    assert len(Reading(result.tape).runs) == 14
    findings = {
        finding.name: finding
        for finding in judge(check(read_source(script)).findings, result.tape, directory=str(tmp_path))
        if finding.evidence is not None and finding.evidence.verdict in ("confirmed", "found-by-run")
    }
    raised = next(finding for finding in findings.values() if finding.code == "TAPE101")
    assert raised.evidence is not None
    assert raised.evidence.measured["ranks"] == [1]
    assert raised.evidence.detail.startswith("on rank 1 of 2: raised")
    kept = next(finding for finding in findings.values() if finding.code == "TAPE201")
    assert kept.evidence is not None
    assert kept.evidence.measured["ranks"] == [1]
    with (tmp_path / "run.tape").open() as file:
        assert read_tape(file).events == result.tape.events


def test_nothing_of_any_rank_is_left_after_the_time_is_up(write: Write, tmp_path: Path) -> None:
    result = _run(write(TRAINING), "--hang", folder=tmp_path, timeout=60.0)
    assert result.how_ended == "timeout"
    assert sorted(parts(result.tape)) == [0, 1]
    children = [int(line.split()[1]) for line in result.stdout.splitlines() if line.startswith("children")]
    assert len(children) == 2
    for _ in range(100):
        if not any(_alive(child) for child in children):
            break
        time.sleep(0.1)
    assert not any(_alive(child) for child in children)


def test_lines_of_several_ranks_do_not_mix(write: Write, tmp_path: Path) -> None:
    script = write(
        "import os\n"
        "import torch\n"
        "w = torch.ones(2, requires_grad=True)\n"
        "for line in range(400):\n"
        "    print('rank', os.environ['RANK'], 'line', line, (w * w).sum().item(), 'end', flush=True)\n"
    )
    result = _run(script, folder=tmp_path, timeout=200.0)
    assert result.how_ended == "finished", result.stderr
    lines = [f"rank {rank} line {line} 2.0 end" for rank in range(2) for line in range(400)]
    assert sorted(result.stdout.splitlines()) == sorted(lines)


def test_a_limit_of_one_rank_ends_all(write: Write, tmp_path: Path) -> None:
    result = _run(write(TRAINING), folder=tmp_path, timeout=200.0, max_backward=3)
    assert result.how_ended == "stopped"
    assert "after 3 backward calls" in result.detail
    assert "loss" not in result.stdout


def test_nothing_of_any_rank_is_left_when_tapecheck_is_killed(write: Write, tmp_path: Path) -> None:
    command = [
        sys.executable, "-m", "tapecheck", "run", "--python", PYTHON, "--ranks", "2", write(TRAINING), "--hang",
    ]  # fmt: skip
    env = {**os.environ, **_quiet(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        children: list[int] = []
        for line in process.stdout:
            if line.startswith("children"):
                children.append(int(line.split()[1]))
            if len(children) == 2:
                break
        process.send_signal(signal.SIGKILL)
    for _ in range(100):
        if not any(_alive(child) for child in children):
            break
        time.sleep(0.1)
    assert len(children) == 2
    assert not any(_alive(child) for child in children)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--ranks", "0"], "expected a positive integer, got '0'"),
        (["--ranks", "2", "--launcher", "torchrun"], "not allowed with argument"),
    ],
)
def test_a_number_of_ranks_stands_for_a_launcher(options: list[str], said: str) -> None:
    command = [sys.executable, "-m", "tapecheck", "run", *options, "train.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert said in done.stderr


def test_ranks_meet_where_a_script_says(write: Write, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = f"tcp://127.0.0.1:{port}"
    script = write(f"""
import os
import torch
import torch.distributed as dist
rank = int(os.environ["RANK"])
dist.init_process_group("gloo", init_method="{place}", rank=rank, world_size=int(os.environ["WORLD_SIZE"]))
weight = torch.ones(2, requires_grad=True)
for step in range(3):
    weight.sum().backward()
    dist.all_reduce(weight.grad)
print("rank", rank, "is through")
""")
    command = [sys.executable, "-m", "tapecheck", "run", "--python", PYTHON, "--ranks", "2", "--timeout", "120", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert "cut short" not in done.stdout
    assert "rank 0 is through" in done.stdout
    assert "rank 1 is through" in done.stdout


@pytest.mark.parametrize("imported", ["import torch.multiprocessing as mp", "from torch import multiprocessing as mp"])
def test_a_script_that_starts_its_own_ranks_is_named(write: Write, tmp_path: Path, imported: str) -> None:
    script = write(f"{imported}\nif __name__ != '__main__':\n    mp.spawn(print, nprocs=2)\nprint('through')\n")
    command = [sys.executable, "-m", "tapecheck", "run", "--launcher", sys.executable, str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert "through" in done.stdout
    assert f"{script}:3 starts processes itself: if the ranks wait for ever, run it without --ranks" in done.stderr


def test_there_is_no_such_launcher(write: Write, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="the launcher 'no-such-launcher' does not exist"):
        _run(write("print()"), folder=tmp_path, launcher=("no-such-launcher",))


def test_a_merged_tape_is_stored_and_parted_again(record: object, tmp_path: Path) -> None:
    one = record("import torch\nw = torch.ones(2, requires_grad=True)\nfor _ in range(3): (w * w).sum().backward()")  # type: ignore[operator]
    merged = merge({0: one.tape, 3: one.tape})
    with (tmp_path / "merged").open("w") as file:
        write_tape(merged, file)
    with (tmp_path / "merged").open() as file:
        again = read_tape(file)
    assert again.events == merged.events
    assert sorted(parts(again)) == [0, 3]
    assert parts(again)[0].events == one.tape.events
    assert parts(Tape("x", [End("finished")])) == {}


KEEPING = """\
import torch
from torch import nn

model, kept = nn.Linear(2, 1), []
for step in range({times}):
    loss = model(torch.ones(2, 2)).sum()
    loss.backward()
    kept.append(loss)
"""


def test_why_the_ranks_are_inconclusive_is_said(record: Callable[..., RunResult], tmp_path: Path) -> None:
    (finding,) = check(from_text(KEEPING.format(times=9), "script.py")).findings
    tape = record(KEEPING.format(times=2), watch={(str(tmp_path / "script.py"), finding.span.line)}).tape
    (alone,) = judge([finding], tape, directory=str(tmp_path))
    assert alone.evidence is None and alone.notes[-1].startswith("too little was seen: ")
    other = Tape("x", tape.events[:1])
    for tapes, where in (({0: tape, 1: tape}, "on both ranks"), ({0: tape, 1: other}, "on rank 0 of 2")):
        (judged, *_) = judge([finding], merge(tapes), directory=str(tmp_path))
        assert judged.evidence is None and judged.notes[len(finding.notes)] == f"{where}: {alone.notes[-1]}"


def test_a_rank_that_was_ended_by_another_s_limit_does_not_hide_it() -> None:
    cut_off = Tape("x", [])
    limit = Tape("x", [End("stopped", "after 2 iterations of the loop on line 11")])
    for tapes in ({0: cut_off, 1: limit}, {0: limit, 1: cut_off}):
        end = merge(tapes).events[-1]
        assert isinstance(end, End) and end.detail.endswith(limit.events[0].detail)  # type: ignore[union-attr]
    died = merge({0: Tape("x", [End("finished")]), 1: cut_off}).events[-1]
    assert isinstance(died, End) and died.detail.startswith("rank 1: the process died")


def _alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


FORKING = """
import os

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
net = nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


def train(forked):
    loss = net(torch.randn(4, 3)).pow(2).mean()
    loss.backward()
    if forked:
        loss.backward()


child = os.fork()
if not child:
    try:
        train(True)
    finally:
        os._exit(0)
os.waitpid(child, 0)
for step in range(4):
    optimizer.zero_grad()
    train(False)
    optimizer.step()
dist.barrier()
"""


def test_forked_processes_of_ranks_are_mentioned(write: Write, tmp_path: Path) -> None:
    script = write(FORKING)
    findings = check(read_source(script)).findings
    (twice,) = [one for one in findings if one.code == "TAPE101"]
    result = _run(script, folder=tmp_path, watch={(script, twice.span.line)}, timeout=200.0)
    assert (result.how_ended, result.unrecorded) == ("finished", 2), result.stderr
    (judged,) = [one for one in judge(findings, result.tape, directory=str(tmp_path)) if one.code == "TAPE101"]
    assert judged.evidence is None
