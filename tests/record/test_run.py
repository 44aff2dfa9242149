"""Limits, cancelling, dying programs, missing interpreters, full disks."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from tapecheck.record import InterpreterError, Output, Progress, RunError, RunRequest, RunResult, judge, run
from tapecheck.record.compare import summary
from tapecheck.record.run import _Lines
from tapecheck.rules import Finding
from tapecheck.tape import Backward, End, Iteration, Measure, Node, Raised, Span, read_tape
from tests.record.harness import PYTHON, QUIET, Write, plain, probed

Record = Callable[..., RunResult]


@pytest.fixture
def python() -> str:
    """An interpreter that starts anew."""
    return PYTHON


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
    assert result.how_ended == "stopped" and result.detail.startswith("after ")
    assert result.stdout.split() == [result.stdout.split()[0]], "no handler and no finally ran"
    assert _is_gone(int(result.stdout)), "what the program started is killed too"
    backwards = [event for event in result.tape.events if isinstance(event, Backward)]
    iterations = [event.index for event in result.tape.events if isinstance(event, Iteration)]
    assert len(backwards) == limit.get("max_backward", limit.get("max_iterations"))
    assert max(iterations) >= 4 and result.iterations >= 4
    assert isinstance(result.tape.events[-1], End) and not result.tape.complete


def test_every_iteration_counts_in_every_run_of_a_loop(record: Record) -> None:
    # Calls of later epochs pass without a word on the tape, some of their iterations are on it all the same.
    result = record("""
        import torch

        w = torch.ones(3, requires_grad=True)
        for epoch in range(5):
            for batch in range(4):
                (w * batch).sum().backward()
    """)
    assert (result.iterations, result.backwards) == (20, 20)
    told = summary(result.tape)
    assert (told.iterations, told.backward_calls) == (20, 20)


@pytest.mark.parametrize(("outer", "inner"), [(5, 3), (15, 40)])
def test_iterations_are_those_of_the_loops_that_call_backward(outer: int, inner: int, record: Record) -> None:
    # Inner loops take gradients: their calls are counted, their iterations are not. Most of the longer run passes.
    result = record(f"""
        import torch

        w = torch.ones(3, requires_grad=True)
        for step in range({outer}):
            fast = w
            for part in range({inner}):
                (slope,) = torch.autograd.grad((fast * part).sin().sum(), fast, create_graph=True)
                fast = fast - 0.1 * slope.tanh()
            fast.sum().backward()
        """)
    assert (result.iterations, result.backwards) == (outer, outer * (inner + 1))
    told = summary(result.tape)
    assert (told.iterations, told.backward_calls) == (result.iterations, result.backwards)


def test_without_a_backward_iterations_are_those_that_take_gradients(record: Record) -> None:
    result = record("""
        import torch

        x = torch.ones(3, requires_grad=True)
        for step in range(70):
            (slope,) = torch.autograd.grad(x.exp().sum(), x)
            x = (x - 0.1 * slope).detach().requires_grad_()
    """)
    assert (result.iterations, result.backwards) == (70, 70)
    assert summary(result.tape).iterations == 70


def test_what_a_test_runner_catches_is_not_swallowed_by_the_program(write: Write, tmp_path: Path) -> None:
    write(
        """
        import unittest
        import torch

        class Case(unittest.TestCase):
            def test_fails(self):
                w = torch.ones(3, requires_grad=True)
                loss = (w * w).sum()
                loss.backward()
                loss.backward()

            def test_swallows(self):
                w = torch.ones(3, requires_grad=True)
                loss = (w * w).sum()
                for step in range(2):
                    try:
                        loss.backward()
                    except RuntimeError:
                        pass
        """,
        "case.py",
    )
    result = run(RunRequest("unittest", ("case",), python=PYTHON, cwd=str(tmp_path), env=QUIET, module=True))
    raised = {event.at.line: (event.caught, event.left) for event in result.tape.events if isinstance(event, Raised)}
    assert raised == {9: (True, True), 16: (True, False)}
    notes = {finding.span.line: " ".join(finding.notes) for finding in judge([], result.tape, directory=str(tmp_path))}
    assert "swallowed" not in notes[9] and "swallowed" in notes[16]


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


def test_output_is_passed_on_in_whole_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Output | Progress] = []
    clock = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    lines = _Lines(seen.append)

    def added(stream: Literal["stdout", "stderr"], data: bytes) -> list[str]:
        seen.clear()
        lines.add(stream, data)
        return [event.text for event in seen if isinstance(event, Output)]

    # A print is several writes, and a character may be two.
    assert added("stdout", b"total") == added("stderr", b"warn") == added("stdout", b" 18.0 \xc3") == []
    assert added("stderr", b"ing\n") == ["warning\n"]
    assert added("stdout", b"\xa9\nnext") == ["total 18.0 é\n"]
    # The beginning of a line goes on once nothing more came for a moment, a progress bar at once.
    clock[0] += 0.1
    lines.flush_idle()
    assert len(seen) == 1
    assert added("stderr", b"\r 10%|#  |") == ["\r 10%|#  |"]
    clock[0] += 10
    lines.flush_idle()
    assert seen[-1] == Output("stdout", "next")
    # Nothing is lost at the end.
    assert added("stdout", b"the end \xff\xc3") == []
    lines.flush("stdout")
    assert seen == [Output("stdout", "the end \ufffd\ufffd")]


def test_no_output_is_lost(write: Write, tmp_path: Path) -> None:
    texts: list[str] = []
    pieces = (
        "import time\nprint('ready? ', end='', flush=True)\ntime.sleep(2)\nprint('x' * 200_000)\nprint('end', end='')\n"
    )
    request = RunRequest(write(pieces), python=PYTHON, cwd=str(tmp_path), env=QUIET)
    run(request, lambda event: texts.append(event.text) if isinstance(event, Output) else None)
    assert texts[0] == "ready? " and "".join(texts) == "ready? " + "x" * 200_000 + "\nend"


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
    (tmp_path / "old" / "torch").mkdir(parents=True)
    (tmp_path / "old" / "torch" / "__init__.py").write_text("raise SystemExit('must not be imported')\n")
    (tmp_path / "old" / "torch" / "version.py").write_text("debug = False\n__version__ = '2.1.2+cu121'\n")
    old = stand_in("old-torch", f'PYTHONPATH="{tmp_path}/old" exec "{sys.executable}" "$@"')
    with pytest.raises(InterpreterError, match=r"recording needs torch 2\.2 or later, .* has 2\.1"):
        run(RunRequest(script, python=old))
    other = stand_in("no-python", "echo I am no Python >&2; exit 3")
    with pytest.raises(RunError, match="no-python is not a Python interpreter: I am no Python"):
        run(RunRequest(script, python=other))
    with pytest.raises(RunError, match="does not exist or is not executable"):
        run(RunRequest(script, python=str(tmp_path)))
    with pytest.raises(RunError, match="is a directory: name a script in it"):
        run(RunRequest(str(tmp_path), python=PYTHON))


MODULE = """
import os, sys, torch
from . import helper

print(sys.argv, __name__, __package__, __spec__.name, os.path.basename(__file__), sys.path[0] == os.getcwd())
w = torch.ones(2, requires_grad=True)
loss = helper.loss(w)
loss.backward()
loss.backward()
"""


def test_modules_run_as_python_runs_them(write: Write, tmp_path: Path) -> None:
    (tmp_path / "pack").mkdir()
    write("print('package', __name__)", "pack/__init__.py")
    write("def loss(w):\n    return (w * w).sum()\n", "pack/helper.py")
    write(MODULE, "pack/train.py")
    without = plain("-m", "pack.train", "--flag", cwd=str(tmp_path))
    result = run(RunRequest("pack.train", ["--flag"], python=PYTHON, cwd=str(tmp_path), env=QUIET, module=True))
    assert (result.stdout, result.exit_code) == (without.stdout, 1)
    assert "package pack" in result.stdout and without.stderr.splitlines()[-1] == result.stderr.splitlines()[-1]
    backwards = [event.at.span for event in result.tape.events if isinstance(event, Backward)]
    assert [Path(span.file).name for span in backwards] == ["train.py"] * 2 and backwards[0].line == 7
    built = [event.at.span for event in result.tape.events if isinstance(event, Node)]
    assert {(Path(span.file).name, span.line) for span in built} == {("helper.py", 2)}
    missing = run(RunRequest("pack.nothing", python=PYTHON, cwd=str(tmp_path), env=QUIET, module=True))
    assert missing.exit_code == 1 and "No module named pack.nothing" in missing.stderr
    with pytest.raises(RunError, match="not the name of a module"):
        run(RunRequest("pack/train.py", python=PYTHON, module=True))


ORPHAN = """
import sys
from tapecheck.record import RunRequest, run
run(RunRequest(sys.argv[1], python=sys.argv[2]), lambda event: print(getattr(event, "text", ""), end="", flush=True))
"""


@pytest.mark.skipif(os.name == "nt", reason="a pipe tells the child, POSIX only")
def test_the_program_ends_when_tapecheck_is_killed(write: Write, tmp_path: Path) -> None:
    script = write(ENDLESS)
    process = subprocess.Popen(
        [sys.executable, "-c", ORPHAN, script, PYTHON], cwd=tmp_path, stdout=subprocess.PIPE, text=True,
        env={**os.environ, **QUIET, "TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    with process:
        assert process.stdout is not None
        helper = int(process.stdout.readline())
        child = int(Path(f"/proc/{helper}/stat").read_text().split()[3]) if Path("/proc").exists() else helper
        process.kill()
    assert _is_gone(child) and _is_gone(helper)


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
    assert isinstance(end, End) and end.how == "stopped"
    assert end.detail.startswith("the recording ended on line 10 of script.py, the program ran on; ")
    assert "the recorder failed 1 times, first with RuntimeError: odd" in end.detail


def test_what_was_not_seen_after_a_fault_decides_nothing(record: Record, tmp_path: Path) -> None:
    result = record("""
        import torch

        class Odd(torch.Tensor):
            @property
            def grad_fn(self):
                raise RuntimeError("odd")

        w = torch.ones(3, requires_grad=True)
        for step in range(6):
            loss = (w * w).sum()
            loss.backward(retain_graph=True)
        try:
            loss.as_subclass(Odd).backward()
        finally:
            print("over")
    """)
    assert (result.how_ended, result.stdout) == ("finished", "over\n")
    place = Span(str(tmp_path / "script.py"), 11, 5, 11, 37)
    never = Span(str(tmp_path / "script.py"), 15, 5, 15, 18)
    said = [
        Finding("TAPE101", "backward-twice", "error", place, "predicted", "help"),
        Finding("TAPE301", "needless-retain-graph", "info", place, "predicted", "help"),
        Finding("TAPE101", "backward-twice", "error", never, "predicted", "help"),
    ]
    judged = judge(said, result.tape, directory=str(tmp_path))
    assert [finding.code for finding in judged] == ["TAPE101", "TAPE301", "TAPE101"]
    for finding in judged:
        assert finding.evidence is None
        assert finding.notes[-1].startswith("the recording ended on line 13 of script.py, the program ran on; ")
        assert finding.notes[-1].endswith(": what came later was not seen")


@pytest.mark.parametrize(("first", "every", "count"), [(16, 1, 20), (16, 3, 40), (1, 4, 50), (90, 1, 200)])
def test_iterations_before_the_first_backward_count(record: Record, first: int, every: int, count: int) -> None:
    """A replay buffer that is filled first: the iterations are those that findings speak of."""
    result = record(
        """
        import sys
        import torch
        first, every, count = map(int, sys.argv[1:])
        net = torch.nn.Linear(2, 2)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for step in range(1, count + 1):
            x = torch.randn(3, 2)
            if step >= first and step % every == 0:
                optimizer.zero_grad()
                net(x).sum().backward()
                optimizer.step()
        """,
        str(first), str(every), str(count),
    )  # fmt: skip
    assert result.how_ended == "finished", result.stderr
    assert result.iterations == count
