"""How programs end that somebody ends, that fail early, or that leave others behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tapecheck.record import Output, RunRequest, RunResult, run
from tapecheck.record.run import whole_file
from tapecheck.tape import End
from tests.record.harness import PYTHON, QUIET, Write

Record = Callable[..., RunResult]

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")


@pytest.fixture
def python() -> str:
    """An interpreter that starts anew."""
    return PYTHON


CAREFUL = """
import signal, sys, time, torch

def on_term(*_):
    print("got SIGTERM", flush=True)
    sys.exit(143)

signal.signal(signal.SIGTERM, on_term)
w = torch.ones(1, requires_grad=True)
try:
    while True:
        (w * 2).backward()
        print("ran", flush=True)
        time.sleep(0.01)
except KeyboardInterrupt:
    time.sleep(0.3)
    print("saved", flush=True)
    sys.exit(1)
finally:
    print("finally", flush=True)
"""
STUBBORN = """
import signal, time, torch

signal.signal(signal.SIGINT, lambda *_: print("not now", flush=True))
w = torch.ones(1, requires_grad=True)
while True:
    (w * 2).backward()
    print("ran", flush=True)
    time.sleep(0.01)
"""


def interrupted(path: str, folder: Path, number: int, grace: float = 60.0) -> RunResult:
    """Run a script and pass a signal on to it once it has written that it ran."""
    ran = False

    def on_event(event: object) -> None:
        nonlocal ran
        ran = ran or (isinstance(event, Output) and "ran" in event.text)

    request = RunRequest(path, cwd=str(folder), python=PYTHON, env=QUIET, grace=grace)
    return run(request, on_event, signalled=lambda: number if ran else 0)


@pytest.mark.parametrize(
    ("number", "said", "code"),
    [(signal.SIGINT, ["saved", "finally"], 1), (signal.SIGTERM, ["got", "SIGTERM", "finally"], 143)],
)
def test_a_signal_reaches_the_programs_own_handlers(
    write: Write, tmp_path: Path, number: int, said: list[str], code: int
) -> None:
    result = interrupted(write(CAREFUL), tmp_path, number)
    assert result.stdout.replace("ran\n", "").split() == said
    assert (result.how_ended, result.exit_code, result.interrupted) == ("cancelled", code, number)
    end = result.tape.events[-1]
    assert isinstance(end, End) and not result.tape.complete, "it is not the end the program would have come to"
    # The signal may come in an iteration before its backward.
    assert not result.lost and result.iterations > 0 and result.iterations - result.backwards in (0, 1)


def test_a_program_that_does_not_end_is_killed_after_the_grace_period(write: Write, tmp_path: Path) -> None:
    result = interrupted(write(STUBBORN), tmp_path, signal.SIGINT, grace=0.5)
    assert "not now" in result.stdout
    assert (result.how_ended, result.exit_code, result.lost) == ("cancelled", None, True)


def test_a_detached_child_that_keeps_the_output_open_costs_no_time(record: Record) -> None:
    began = time.monotonic()
    result = record("""
        import subprocess, sys, torch

        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(30)"], start_new_session=True)
        torch.ones(1, requires_grad=True).backward()
        print(child.pid)
    """)
    took = time.monotonic() - began - result.seconds
    os.kill(int(result.stdout), signal.SIGKILL)
    assert result.how_ended == "finished" and took < 5


def test_a_tape_without_room_does_not_end_the_program(record: Record, tmp_path: Path) -> None:
    result = record(
        """
        import resource, torch

        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        import signal
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        w, kept = torch.ones(3, requires_grad=True), []
        for i in range(400):
            loss = (w * i).sum()
            loss.backward(retain_graph=True)
            kept.append(loss)
        print("done")
        """,
        tape=str(tmp_path / "kept.tape"),
    )
    assert (result.stdout, result.how_ended, result.exit_code) == ("done\n", "finished", 0)
    assert result.lost and "could not be written" in result.detail
    assert 0 < result.backwards < 400


def test_standard_input_is_the_programs_where_it_is_wanted(write: Write, tmp_path: Path) -> None:
    script = write("""
        import torch
        number = int(input())
        for i in range(number):
            torch.ones(1, requires_grad=True).backward()
        print(number)
    """)
    command = [sys.executable, "-m", "tapecheck", "run", "--python", PYTHON, "--stdin", script]
    done = subprocess.run(command, input="3\n", capture_output=True, text=True, cwd=tmp_path, check=False)
    assert "3 backward calls" in done.stderr and done.stdout.startswith("3\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import argparse\np = argparse.ArgumentParser()\np.add_argument('--data', required=True)\np.parse_args()\n",
         "the following arguments are required: --data"),
        ("x = 1\n", "Nothing was trained: no backward ran."),
    ],
    ids=["argparse", "nothing"],
)  # fmt: skip
def test_a_program_that_trains_nothing_says_so(write: Write, tmp_path: Path, text: str, said: str) -> None:
    command = [sys.executable, "-m", "tapecheck", "run", "--python", PYTHON, write(text)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 3
    assert said in done.stdout + done.stderr.partition("tapecheck: ")[2]


def test_a_module_that_does_not_exist(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tapecheck", "run", "--python", PYTHON, "-m", "nosuchmodule"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 3
    assert "No module named nosuchmodule" in done.stderr.partition("tapecheck: ")[2]
    assert "Nothing found in what was seen (0 files checked)." in done.stdout


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "tape"
    path.write_text("before")
    with pytest.raises(ValueError, match="midway"), whole_file(path) as file:
        file.write("half")
        raise ValueError("midway")
    assert path.read_text() == "before" and list(tmp_path.iterdir()) == [path]
    with whole_file(path) as file:
        file.write("after")
    assert path.read_text() == "after" and list(tmp_path.iterdir()) == [path]


def test_a_program_that_removes_the_folder_of_its_tape_keeps_its_run(write: Write, tmp_path: Path) -> None:
    script = write("""
        import os, shutil, sys
        import torch

        w, kept = torch.ones(3, requires_grad=True), []
        for step in range(8):
            kept.append((w * w).sum())
            kept[-1].backward()
            if step == 3:
                command = open("/proc/self/cmdline").read().split("\\0")
                shutil.rmtree(os.path.dirname(command[command.index("--tape") + 1]))
        print(len(kept))
    """)
    result = run(RunRequest(script, python=PYTHON, cwd=str(tmp_path), env=QUIET))
    assert (result.how_ended, result.stdout, result.exit_code) == ("finished", "8\n", 0)
    assert result.backwards == 8
    assert isinstance(result.tape.events[-1], End) and result.tape.events[-1].how == "finished"
