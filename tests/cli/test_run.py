"""`tapecheck run` on real scripts, in an interpreter that has torch."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cases import under_torch

pytestmark = pytest.mark.skipif(not under_torch.has_torch(), reason="torch is not installed")

TRAINING = """\
import sys
import torch

print("arguments", sys.argv[1:])
w = torch.ones(3, requires_grad=True)
total = 0.0
for step in range(6):
    loss = (w * w).sum()
    loss.backward()
    if "--twice" in sys.argv:
        loss.backward()
    w.grad = None
    total += loss
print("total", float(total))
"""
ENV = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "tapecheck", "run", "--no-fixes", *arguments]


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments), cwd=folder, env=ENV, capture_output=True, text=True, timeout=120, check=False
    )


def verdicts(done: subprocess.CompletedProcess[str]) -> dict[tuple[str, int], str]:
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return {(row["code"], row["location"]["row"]): row["evidence"]["verdict"] for row in rows if row["evidence"]}


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(TRAINING)
    return tmp_path


def test_arguments_reach_the_script_and_decide_the_verdict(script: Path) -> None:
    refuted = run(script, "--output-format", "json", "train.py")
    assert verdicts(refuted)["TAPE201", 13] == "confirmed"
    assert verdicts(refuted).get(("TAPE101", 11)) != "confirmed"
    assert "arguments []" in refuted.stderr and "total 18.0" in refuted.stderr

    confirmed = run(script, "--output-format", "json", "train.py", "--twice", "--select", "nothing")
    assert verdicts(confirmed)["TAPE101", 11] == "confirmed"
    assert "arguments ['--twice', '--select', 'nothing']" in confirmed.stderr
    assert "the script ended with an exception: RuntimeError: Trying to backward" in confirmed.stderr
    assert refuted.returncode == confirmed.returncode == 1


def test_text_shows_the_script_s_output_and_then_the_evidence(script: Path) -> None:
    done = run(script, "train.py")
    assert done.returncode == 1
    assert done.stdout.startswith("arguments []\ntotal 18.0\n")
    assert "   = run: confirmed: " in done.stdout
    assert "\ntapecheck: the script ran to its end (6 iterations, 6 backward calls, " in f"\n{done.stderr}"


def test_a_limit_ends_the_script_and_is_said(script: Path) -> None:
    done = run(script, "--max-backward", "2", "train.py")
    assert "tapecheck: the script was stopped: " in done.stderr and "2 backward calls" in done.stderr
    assert "total 18.0" not in done.stdout
    (script / "slow.py").write_text("import time\nimport torch\nprint('up', flush=True)\ntime.sleep(600)\n")
    done = run(script, "--timeout", "8", "slow.py")
    assert "tapecheck: the script was stopped: " in done.stderr
    assert done.returncode == 0


def test_a_clean_script_is_exit_status_0_whatever_its_own(script: Path) -> None:
    (script / "clean.py").write_text("import sys\nprint('hello')\nsys.exit(3)\n")
    done = run(script, "clean.py")
    assert (done.returncode, done.stdout) == (0, "hello\nNothing found in 1 file.\n")
    assert "exit code 3" in done.stderr


def test_the_tape_is_kept_where_it_is_wanted(script: Path) -> None:
    from tapecheck.tape import Backward, read_tape

    run(script, "--tape", "out/run.jsonl", "train.py")
    with (script / "out" / "run.jsonl").open() as file:
        tape = read_tape(file)
    assert sum(isinstance(event, Backward) for event in tape.events) == 6
    assert tape.complete


def test_an_interpreter_that_cannot_be_used_is_exit_status_2(script: Path) -> None:
    done = run(script, "--python", "no-such-python", "train.py")
    assert done.returncode == 2 and "no-such-python" in done.stderr and not done.stdout


def test_what_cannot_be_run_is_exit_status_2(script: Path) -> None:
    for arguments, said in (
        (["."], "is a directory"), (["none.py"], "no such file"), ([], "name a script"), (["-m"], "needs the name"),
    ):  # fmt: skip
        done = run(script, *arguments)
        assert done.returncode == 2 and said in done.stderr and not done.stdout


def test_modules_and_their_arguments(script: Path) -> None:
    done = run(script, "--output-format", "json", "-m", "train", "--twice", "--select", "x")
    assert verdicts(done)["TAPE101", 11] == "confirmed" and done.returncode == 1
    assert "arguments ['--twice', '--select', 'x']" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_ends_the_script_and_still_reports(script: Path) -> None:
    marker = script / "ready"
    text = TRAINING.replace("range(6)", "range(10**9)").replace(
        "    total += loss\n",
        "    total += loss\n    if step == 5:\n        open('ready', 'w').close()\n    time.sleep(0.01)\n",
    )
    (script / "endless.py").write_text("import time\n" + text)
    with subprocess.Popen(
        command("--output-format", "json", "endless.py"), cwd=script, env=ENV, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        deadline = time.monotonic() + 60
        while not marker.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert marker.exists()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert any(row["code"] == "TAPE201" for row in json.loads(out))
    assert "tapecheck: the script was interrupted" in err
