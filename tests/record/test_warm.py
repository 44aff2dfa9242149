"""The interpreter that has torch loaded stands in for a new one: what goes in and out, and how programs end."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.record.harness import PYTHON, Write
from tests.record.warm import available

pytestmark = pytest.mark.skipif(not available(), reason="needs fork and descriptors of processes")


def started(python: str, script: str, *args: str, **options: object) -> subprocess.CompletedProcess[str]:
    given = {"stdin": subprocess.DEVNULL, **options} if "input" not in options else options
    return subprocess.run([python, script, *args], capture_output=True, text=True, timeout=60, check=False, **given)  # type: ignore[call-overload, no-any-return]


@pytest.mark.parametrize("which", ["new", "warm"])
def test_a_program_has_what_it_was_given(which: str, warm: str, write: Write, tmp_path: Path) -> None:
    script = write("""
        import os, sys
        import torch
        print(sys.argv[1:], os.getcwd(), os.environ["GIVEN"], sys.path[0], sys.stdin.read(), __name__, flush=True)
        os.write(int(sys.argv[2]), b"through")
        print("and", file=sys.stderr)
        import local
    """)
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "local.py").write_text("import torch\nraise SystemExit(int(torch.ones(3).sum()))\n")
    reader, writer = os.pipe()
    done = started(
        warm if which == "warm" else PYTHON, script, "--x", str(writer), cwd=tmp_path / "far", input="typed",
        pass_fds=(writer,), env={**os.environ, "GIVEN": "this", "PYTHONPATH": str(tmp_path / "far")},
    )  # fmt: skip
    os.close(writer)
    with os.fdopen(reader) as pipe:
        assert pipe.read() == "through"
    assert (done.returncode, done.stderr) == (3, "and\n")
    assert done.stdout == f"['--x', '{writer}'] {tmp_path / 'far'} this {tmp_path} typed __main__\n"


@pytest.mark.parametrize("which", ["new", "warm"])
@pytest.mark.parametrize(
    ("last", "status"),
    [("1 / 0", 1), ("os.kill(os.getpid(), 9)", -9), ("os.abort()", -6), ("os._exit(7)", 7), ("sys.exit('no')", 1)],
)
def test_it_ends_as_the_program_ends(which: str, last: str, status: int, warm: str, write: Write) -> None:
    script = write(f"import atexit, os, sys\natexit.register(print, 'at exit')\n{last}\n")
    done = started(warm if which == "warm" else PYTHON, script)
    assert done.returncode == status
    assert done.stdout == ("at exit\n" if status == 1 else "")


def test_signals_reach_the_program_and_its_end_comes_with_what_started_it(warm: str, write: Write) -> None:
    script = write("""
        import os, signal, sys, time
        signal.signal(signal.SIGTERM, lambda number, frame: print("told", flush=True))
        print(os.getpid(), flush=True)
        time.sleep(600)
    """)
    process = subprocess.Popen([warm, script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    process.send_signal(signal.SIGTERM)
    assert process.stdout.readline() == "told\n"
    process.kill()
    process.wait()
    assert process.stdout.read() == ""
    deadline = time.monotonic() + 30
    while os.path.exists(f"/proc/{child}") and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not os.path.exists(f"/proc/{child}")


def test_what_is_asked_of_an_interpreter_goes_to_a_new_one(warm: str) -> None:
    done = subprocess.run([warm, "-c", "import sys; print('torch' in sys.modules)"], capture_output=True, text=True)
    assert done.stdout == "False\n"
