"""The pytest plugin: tests that fail for what their code does to graphs."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from tests.record.harness import QUIET, Write

TESTS = """
import pytest, torch
import tapecheck


def train(kept, detach):
    w = torch.ones(3, requires_grad=True)
    for i in range(8):
        (w * i).sum().backward()
        out = (w * i).exp()
        kept.append(out.detach() if detach else out)
    assert len(kept) == 8


def test_leaks():
    train([], False)


def test_clean():
    train([], True)


@pytest.mark.tapecheck(ignore=["TAPE201"])
def test_excused():
    train([], False)


def test_raises():
    loss = (torch.ones(3, requires_grad=True) ** 2).sum()
    loss.backward()
    with pytest.raises(RuntimeError):
        loss.backward()


def test_fails_by_itself():
    train([], False)
    assert False, "of its own"


def test_records_a_block_itself():
    with tapecheck.record() as tape:
        train([], True)
    assert not tape.findings
"""
WITH_FIXTURE = """
import torch


def train(detach):
    kept, w = [], torch.ones(3, requires_grad=True)
    for i in range(8):
        (w * i).sum().backward()
        out = (w * i).exp()
        kept.append(out.detach() if detach else out)


def test_leaks(tape):
    train(False)


def test_clean(tape):
    train(True)


def test_judges_itself(tape):
    train(False)
    assert [finding.code for finding in tape.stop()] == ["TAPE201"]


def test_plain():
    train(False)
"""


def run_tests(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rA", "-q"]
    if not any(one.name == "tapecheck" for one in entry_points(group="pytest11")):
        # A checkout on the path is not installed: pytest is told where the plugin is.
        command += ["-p", "tapecheck.pytest_plugin"]
    env = {**os.environ, **QUIET, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [*command, *options], cwd=folder, env=env, capture_output=True, text=True, timeout=200, check=False
    )


def outcomes(done: subprocess.CompletedProcess[str], name: str) -> dict[str, str]:
    rows = [line.split(" - ")[0].split() for line in done.stdout.splitlines() if f" {name}::" in line]
    return {row[1].partition("::")[2]: row[0] for row in rows}


def test_every_test_is_recorded(write: Write, tmp_path: Path) -> None:
    write(TESTS, "test_training.py")
    done = run_tests(tmp_path, "--tapecheck", "test_training.py")
    assert outcomes(done, "test_training.py") == {
        "test_leaks": "FAILED", "test_clean": "PASSED", "test_excused": "PASSED", "test_raises": "PASSED",
        "test_fails_by_itself": "FAILED", "test_records_a_block_itself": "PASSED",
    }, done.stdout  # fmt: skip
    assert "TAPE201" in done.stdout and "test_training.py:10:9" in done.stdout, "the user's own line"
    assert "TAPE101" not in done.stdout, "a test that wants the exception, as `check` has it"
    assert "of its own" in done.stdout


LEVELS = """
import torch


def keep():
    kept, w = [], torch.ones(3, requires_grad=True)
    for i in range(8):
        loss = (w * i).sum()
        loss.backward()
        kept.append(loss)


def test_keeps_nodes_without_saved_tensors():
    keep()


def test_excused():
    kept, w = [], torch.ones(3, requires_grad=True)
    for i in range(8):
        (w * i).sum().backward()
        kept.append((w * i).exp())  # tapecheck: ignore[TAPE201]
"""


def test_an_info_is_told_and_fails_no_test(write: Write, tmp_path: Path) -> None:
    write(LEVELS, "test_levels.py")
    keeps = "test_keeps_nodes_without_saved_tensors"
    passed = {keeps: "PASSED", "test_excused": "PASSED"}
    done = run_tests(tmp_path, "--tapecheck", "test_levels.py")
    assert outcomes(done, "test_levels.py") == passed, done.stdout
    assert "info[TAPE201]" in done.stdout and "test_levels.py:9:9" in done.stdout
    failing = run_tests(tmp_path, "--tapecheck", "--tapecheck-fail-on", "info", "test_levels.py")
    assert outcomes(failing, "test_levels.py") == passed | {keeps: "FAILED"}, failing.stdout
    write('fail-on = "info"\n', "tapecheck.toml")
    assert outcomes(run_tests(tmp_path, "--tapecheck", "test_levels.py"), "test_levels.py")[keeps] == "FAILED"
    excused = run_tests(tmp_path, "--tapecheck", "--tapecheck-ignore", "graph-kept-across-iterations", "test_levels.py")
    assert outcomes(excused, "test_levels.py") == passed and "TAPE201" not in excused.stdout


def test_one_test_is_recorded_by_the_fixture(write: Write, tmp_path: Path) -> None:
    write(WITH_FIXTURE, "test_one.py")
    done = run_tests(tmp_path, "test_one.py")
    assert outcomes(done, "test_one.py") == {
        "test_leaks": "FAILED", "test_clean": "PASSED", "test_judges_itself": "PASSED", "test_plain": "PASSED",
    }, done.stdout  # fmt: skip
    assert "test_one.py:9:9" in done.stdout


@pytest.mark.skipif(hasattr(sys, "monitoring"), reason="coverage and the recorder do not meet there")
def test_another_tracer_has_its_tracing_back(write: Write, tmp_path: Path) -> None:
    write("import sys\n\n\ndef other(*_):\n    return None\n\n\nsys.settrace(other)\n", "conftest.py")
    write("import sys, torch, conftest\n\n\ndef test_first(tape):\n    pass\n\n\ndef test_then():\n"
          "    assert sys.gettrace() is not None\n", "test_traced.py")  # fmt: skip
    done = run_tests(tmp_path, "test_traced.py")
    assert outcomes(done, "test_traced.py") == {"test_first": "PASSED", "test_then": "PASSED"}, done.stdout
