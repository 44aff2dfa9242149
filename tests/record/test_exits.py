"""A rank that died is named, and not one that was ended since it had, or failed since it was gone."""

from __future__ import annotations

import itertools
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tapecheck.record import RunRequest, run
from tapecheck.record.exits import Exits
from tapecheck.record.ranks import merge
from tapecheck.tape import End, Tape
from tests.record.harness import PYTHON, QUIET, Write

LOST = End("raised", "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer")
RAISED = End("raised", "ValueError: broken batch")
CODE = End("finished", "exit code 3")
LIMIT = End("stopped", "after 2 iterations of the loop on line 11")
BLIND = End("stopped", "the tape reached its limit of 9 bytes, the program ran on")
WELL = End("finished")
KILLED = None


def _merged(ends: tuple[End | None, ...], order: tuple[int, ...]) -> str:
    tapes = {rank: Tape("x", [] if end is None else [end]) for rank, end in enumerate(ends)}
    last = merge(tapes, order).events[-1]
    assert isinstance(last, End)
    return last.detail.partition(":")[0]


@pytest.mark.parametrize("own", [KILLED, RAISED, CODE], ids=["killed", "raised", "code"])
def test_the_rank_that_ended_of_itself_is_named(own: End | None) -> None:
    # Whatever becomes of the others since it has: their launcher ends them, they fail, they saw nothing of it.
    for others in itertools.product((KILLED, LOST, BLIND, WELL), repeat=2):
        for place in range(3):
            ends = (*others[:place], own, *others[place:])
            rest = [rank for rank in range(3) if rank != place]
            for after in itertools.permutations(rest):
                assert _merged(ends, (place, *after)) == f"rank {place}"
            if KILLED not in others:
                # Nobody has seen them end.
                assert _merged(ends, ()) == f"rank {place}"


def test_an_exception_and_a_limit_go_before_who_was_first() -> None:
    for end in (RAISED, LIMIT):
        for other in (KILLED, LOST, CODE):
            assert _merged((other, end), (0, 1)) == "rank 1"
            assert _merged((end, other), (1, 0)) == "rank 0"


@pytest.mark.skipif(sys.platform == "win32", reason="launchers are followed by their processes' numbers")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("told", [True, False], ids=["told", "looked"])
def test_the_order_in_which_processes_end_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, told: bool
) -> None:
    if not told:
        monkeypatch.delattr("os.pidfd_open", raising=False)
    chance = random.Random(seed)
    exits, order = Exits(tmp_path / "tape"), list(range(4))
    chance.shuffle(order)
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    processes = [subprocess.Popen(command) for _ in order]
    try:
        with exits.followed():
            for rank, process in enumerate(processes):
                (tmp_path / f"tape.rank{rank}.pid").write_text(str(process.pid))
                time.sleep(chance.random() / 5)
            time.sleep(0.5)
            for rank in order:
                # Not all are waited for at once.
                processes[rank].send_signal(signal.SIGKILL)
                if chance.random() < 0.5:
                    processes[rank].wait()
                time.sleep(0.08)
            time.sleep(0.3)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert exits.order == order


DYING = """
import os, signal, time
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
w = torch.ones(4, requires_grad=True)
for step in range(400):
    w.grad = None
    (w * w).sum().backward()
    if dist.get_rank() == 1 and step == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.05)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such signal")
def test_a_rank_that_is_killed_is_named_and_not_the_one_that_its_launcher_ends(write: Write, tmp_path: Path) -> None:
    launcher = ("torchrun", "--nproc-per-node", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0")
    env = {**QUIET, "TORCHELASTIC_ERROR_FILE": "", "TMPDIR": str(tmp_path)}
    result = run(RunRequest(write(DYING), (), PYTHON, cwd=str(tmp_path), env=env, launcher=launcher, timeout=200.0))
    assert result.detail.startswith("rank 1: the process died"), (result.detail, result.stderr)
