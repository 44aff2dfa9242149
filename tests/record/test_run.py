"""Limits, cancelling, dying programs, missing interpreters, full disks."""

from __future__ import annotations

import os
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tapecheck.record import Output, Progress, RunError, RunRequest, RunResult, run
from tapecheck.tape import Backward, End, Iteration, Measure, read_tape
from tests.record.harness import PYTHON, QUIET, Write, plain, probed

Record = Callable[..., RunResult]

ENDLESS = """
import atexit, subprocess, sys, time, torch

atexit.register(lambda: print("handler"))
helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(helper.pid, flush=True)
w = torch.ones(1, requires_grad=True)
step = 0
try:
    while True:
        step += 1
        (w * 2).backward()
        time.sleep(0.01)
finally:
    print("finally")
"""


def _is_gone(pid: int) -> bool:
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        # A killed process whose new parent has not waited for it yet is gone all the same.
        if Path(f"/proc/{pid}/stat").exists() and ") Z " in Path(f"/proc/{pid}/stat").read_text():
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("limit", [{"max_iterations": 4}, {"max_backward": 5}])
def test_limits_end_the_program_without_its_handlers(record: Record, limit: dict[str, int]) -> None:
    result = record(ENDLESS, **limit)
    assert result.how_ended == "stopped" and "as asked" in result.detail
    assert result.stdout.split() == [result.stdout.split()[0]], "no handler and no finally ran"
    assert _is_gone(int(result.stdout)), "what the program started is killed too"
    backwards = [event for event in result.tape.events if isinstance(event, Backward)]
    iterations = [event.index for event in result.tape.events if isinstance(event, Iteration)]
    assert len(backwards) == limit.get("max_backward", limit.get("max_iterations"))
    assert max(iterations) >= 4 and result.iterations >= 4
    assert isinstance(result.tape.events[-1], End) and not result.tape.complete


@pytest.mark.parametrize("way", ["timeout", "cancelled"])
def test_timeout_and_cancelling_kill_the_whole_tree(write: Write, tmp_path: Path, way: str) -> None:
    script = write(ENDLESS)
    started = threading.Event()
    seen: list[Output | Progress] = []

    def on_event(event: Output | Progress) -> None:
        seen.append(event)
        if isinstance(event, Progress) and event.backwards >= 3:
            started.set()

    # The timeout counts from the start, importing torch included.
    request = RunRequest(script, python=PYTHON, cwd=str(tmp_path), env=QUIET, timeout=40 if way == "timeout" else None)
    result = run(request, on_event, cancelled=started.is_set if way == "cancelled" else None)
    assert result.how_ended == way
    assert result.exit_code is None and result.signal is None
    output = "".join(event.text for event in seen if isinstance(event, Output))
    assert _is_gone(int(output)) and "finally" not in output
    assert sum(isinstance(event, Backward) for event in result.tape.events) >= 3
    assert isinstance(result.tape.events[-1], End)


@pytest.mark.parametrize(
    ("ending", "code", "number"),
    [("os._exit(7)", 7, None), ("os.kill(os.getpid(), signal.SIGKILL)", None, 9), ("os.abort()", None, 6)],
)
def test_whatever_kills_the_program_leaves_a_whole_tape(
    record: Record, ending: str, code: int | None, number: int | None
) -> None:
    result = record(f"""
        import os, signal, torch
        w = torch.ones(1, requires_grad=True)
        for step in range(3):
            (w * 2).backward()
        {ending}
    """)
    assert (result.how_ended, result.exit_code, result.signal) == ("died", code, number)
    assert sum(isinstance(event, Backward) for event in result.tape.events) == 3
    end = result.tape.events[-1]
    assert isinstance(end, End) and end.how == "stopped" and end.detail
    assert (signal.Signals(number).name in result.detail) if number else "exit code 7" in result.detail


def test_watched_lines_are_counted(record: Record, tmp_path: Path) -> None:
    script = str(tmp_path / "script.py")
    result = record(
        """
        import torch
        for step in range(5):
            x = step + 1
            if x > 10:
                x = 0
        os = None
        """,
        watch=[(script, line) for line in (3, 5, 6)],
    )
    counts = [event for event in result.tape.events if isinstance(event, Measure) and event.name == "line-hits"]
    assert {event.at.line: event.value for event in counts} == {3: 5, 6: 1}


PIECES = """
import os, sys, time

def put(stream, data):
    os.write(stream, data)
    time.sleep(0.02)

for _ in range(3):
    put(1, b"total")
    put(2, b"warn")
    put(1, b" 18.0 \\xc3")
    put(2, b"ing\\n")
    put(1, b"\\xa9\\n")
put(2, b"\\r 10%|#  |")
put(1, b"one\\ntwo\\n")
put(2, b"\\r 20%|## |")
put(1, b"ready? ")
time.sleep(1)
put(2, b"no answer\\n")
put(1, b"the end \\xff\\xc3")
"""


def test_output_is_passed_on_in_whole_lines_and_nothing_is_lost(write: Write, tmp_path: Path) -> None:
    seen: list[tuple[str, str]] = []

    def on_event(event: Output | Progress) -> None:
        if isinstance(event, Output):
            seen.append((event.stream, event.text))

    script = write(PIECES)
    result = run(RunRequest(script, python=PYTHON, cwd=str(tmp_path), env=QUIET), on_event)
    for stream, whole in (("stdout", result.stdout), ("stderr", result.stderr)):
        assert "".join(text for name, text in seen if name == stream) == whole
    lines = [text for name, text in seen if name == "stdout"]
    assert lines[:3] == ["total 18.0 é\n"] * 3
    assert lines[3:] == ["one\ntwo\n", "ready? ", "the end \ufffd\ufffd"]
    errors = [text for name, text in seen if name == "stderr"]
    assert errors == ["warning\n"] * 3 + ["\r 10%|#  |", "\r 20%|## |", "no answer\n"]
    assert seen.index(("stdout", "ready? ")) < seen.index(("stderr", "no answer\n"))


def test_a_receiver_that_fails_ends_the_run(write: Write, tmp_path: Path) -> None:
    def on_event(event: Output | Progress) -> None:
        if isinstance(event, Output):
            raise BrokenPipeError("the reader has left")

    script = write("import time\nprint('up')\nfor _ in range(100_000):\n    print('x' * 100)\ntime.sleep(600)\n")
    with pytest.raises(BrokenPipeError):
        run(RunRequest(script, python=PYTHON, cwd=str(tmp_path), env=QUIET), on_event)


def test_there_is_no_such_interpreter(write: Write) -> None:
    script = write("print(1)")
    with pytest.raises(RunError, match="no-such-python"):
        run(RunRequest(script, python="no-such-python"))
    with pytest.raises(RunError, match="no such file"):
        run(RunRequest(script + "x", python=PYTHON))


@pytest.mark.skipif(os.name == "nt", reason="the stand-ins are shell scripts")
def test_interpreters_that_cannot_record(write: Write, tmp_path: Path) -> None:
    script = write("print('must not run')")

    def stand_in(name: str, text: str) -> str:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    without = stand_in("without-torch", f'exec "{sys._base_executable}" -I -S "$@"')  # type: ignore[attr-defined]
    with pytest.raises(RunError, match="has no torch"):
        run(RunRequest(script, python=without))
    other = stand_in("no-python", "echo I am no Python >&2; exit 3")
    with pytest.raises(RunError, match="I am no Python"):
        run(RunRequest(script, python=other))


LONG = """
import torch
w = torch.ones(3, requires_grad=True)
for step in range(60):
    (w * 2).exp().sum().backward()
print(w.grad.tolist())
"""


@pytest.mark.skipif(os.name == "nt", reason="limits on file sizes are POSIX")
def test_a_full_disk_never_reaches_the_program(write: Write, tmp_path: Path) -> None:
    import resource

    script = write(LONG)
    recorded = probed(
        script, cwd=str(tmp_path), preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8000, 8000))
    )
    without = plain(script, cwd=str(tmp_path))
    assert (recorded.stdout, recorded.stderr, recorded.returncode) == (without.stdout, "", 0)
    tape = read_tape((tmp_path / "tape.jsonl").read_text().splitlines())
    assert sum(isinstance(event, Backward) for event in tape.events) >= 3
    end = tape.events[-1]
    assert isinstance(end, End) and end.how == "stopped" and "could not be written" in end.detail
    nowhere = probed(script, cwd=str(tmp_path), tape=str(tmp_path / "missing" / "tape.jsonl"))
    assert (nowhere.stdout, nowhere.stderr, nowhere.returncode) == (without.stdout, "", 0)


def test_the_tape_is_bounded(write: Write, tmp_path: Path) -> None:
    script = write(LONG)
    recorded = probed(script, cwd=str(tmp_path), options=("--max-tape-bytes", "6000"))
    assert recorded.returncode == 0 and recorded.stdout.startswith("[")
    assert (tmp_path / "tape.jsonl").stat().st_size < 12_000
    end = read_tape((tmp_path / "tape.jsonl").read_text().splitlines()).events[-1]
    assert isinstance(end, End) and "limit of 6000 bytes" in end.detail


def test_a_failing_recorder_is_noted_and_harms_nothing(write: Write, tmp_path: Path) -> None:
    script = write("""
        import torch

        class Odd(torch.Tensor):
            @property
            def grad_fn(self):
                raise RuntimeError("odd")

        w = torch.ones(1, requires_grad=True)
        for k in range(3):
            (w * 2).as_subclass(Odd).backward()
        print(w.grad)
    """)
    without, recorded = plain(script, cwd=str(tmp_path)), probed(script, cwd=str(tmp_path))
    assert (recorded.stdout, recorded.stderr, recorded.returncode) == (without.stdout, without.stderr, 0)
    end = read_tape((tmp_path / "tape.jsonl").read_text().splitlines()).events[-1]
    assert isinstance(end, End) and "the recorder failed 3 times, first with RuntimeError: odd" in end.detail
