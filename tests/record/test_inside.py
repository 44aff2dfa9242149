"""Recording a block from within a program."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.record.harness import QUIET, Write

PROGRAM = """
import sys
import tapecheck, torch

engine = torch.autograd.Variable._execution_engine
w = torch.ones(3, requires_grad=True)


def train(steps):
    kept = []
    for step in range(steps):
        kept.append((w * w).sum())
    return kept[-1].backward()


with tapecheck.record(save="run.tape") as tape:
    train(6)
print([(f.code, f.span.file, f.span.line, f.evidence.verdict) for f in tape.findings])
print(tape.complete, "TAPE201" in str(tape))
try:
    with tapecheck.record() as again:
        loss = (w * w).sum()
        loss.backward()
        loss.backward()
except RuntimeError as error:
    print(str(error)[:18])
print([(f.code, f.span.line) for f in again.findings], again.events[-1].how)
print(engine is torch.autograd.Variable._execution_engine, sys.gettrace())


@tapecheck.record()
def few():
    return train(2)


few()
print(few.tape.findings, sum(type(event).__name__ == "Backward" for event in few.tape.events))
try:
    with tapecheck.record(), tapecheck.record():
        pass
except RuntimeError as error:
    print(error)
"""


def test_blocks_functions_and_exceptions(write: Write, tmp_path: Path) -> None:
    write(PROGRAM)
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, **QUIET, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.stdout.splitlines() == [
        "[('TAPE201', 'script.py', 11, 'found-by-run')]",
        "True True",
        "Trying to backward",
        "[('TAPE101', 23)] raised",
        "True None",
        "[] 1",
        "a recording is running already: one at a time",
    ], done.stderr
    checked = subprocess.run(
        [sys.executable, "-m", "tapecheck", "check", "run.tape"], cwd=tmp_path, capture_output=True, text=True,
        timeout=120, check=False, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert "TAPE201" in checked.stdout and "script.py:11" in checked.stdout


OLDER = """
import tapecheck, torch

w = torch.ones(3, requires_grad=True)
loss = (w * w).sum()
try:
    with tapecheck.record() as tape:
        with torch.enable_grad():
            loss.backward()
            loss.backward()
finally:
    print(tape)
"""


def test_a_graph_older_than_the_block_and_an_exception_that_leaves_it(write: Write, tmp_path: Path) -> None:
    env = {**os.environ, **QUIET, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, write(OLDER)], cwd=tmp_path, env=env,
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 1 and "Trying to backward" in done.stderr
    assert "built on a line that was not recorded and freed by the call on line 8" in done.stdout
    assert "1 | import" not in done.stdout and "found at run time: raised: " in done.stdout
    assert "caught" not in done.stdout and "swallowed" not in done.stdout
