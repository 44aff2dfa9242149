"""Processes that a program starts: spawned ones are recorded, forked ones that train are mentioned."""

from __future__ import annotations

import multiprocessing
import sys
from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.cli.main import main
from tapecheck.record import RunRequest, RunResult, judge, run
from tapecheck.source import read_source
from tapecheck.tape import Backward, End, read_tape
from tapecheck.tape.ranks import parts

PROGRAM = """\
import multiprocessing
import sys

import torch
from torch import nn


def work(number, mode):
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(6):
        loss = model(torch.ones(2, 4)).pow(2).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if mode == "fail" and number == 1 and step == 3:
            loss.backward()
    print("worker", number, sys.argv[1:], __name__, flush=True)


if __name__ == "__main__":
    mode = sys.argv[1]
    if mode == "own":
        work(9, mode)
    context = multiprocessing.get_context("fork" if mode == "fork" else "spawn")
    processes = [context.Process(target=work, args=(number, mode)) for number in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    print("exit codes", [process.exitcode for process in processes])
"""


def _run(folder: Path, mode: str, **options: object) -> RunResult:
    (folder / "train.py").write_text(PROGRAM)
    request = RunRequest("train.py", args=[mode], cwd=str(folder), timeout=120.0, **options)  # type: ignore[arg-type]
    return run(request)


def test_spawned_processes_are_ranks(tmp_path: Path) -> None:
    kept = tmp_path / "run.tape"
    result = _run(tmp_path, "fail", tape=str(kept))
    assert (result.how_ended, result.exit_code, result.unrecorded) == ("finished", 0, 0), result.stderr
    assert "exit codes [0, 1]" in result.stdout and "worker 0 ['fail'] __mp_main__" in result.stdout
    assert "a second time" in result.stderr and "probe" not in result.stderr
    with kept.open() as file:
        ranks = parts(read_tape(file))
    calls = {rank: sum(isinstance(event, Backward) for event in tape.events) for rank, tape in ranks.items()}
    assert calls[0] >= 5 and calls[1] == 5
    ends = {rank: [event for event in tape.events if isinstance(event, End)] for rank, tape in ranks.items()}
    assert [end.detail for end in ends[1]] == ["exit code 1"] and ends[0][0].how == "finished"
    findings = judge(check(read_source(str(tmp_path / "train.py"))).findings, result.tape, directory=str(tmp_path))
    (failing,) = [finding for finding in findings if finding.code == "TAPE101"]
    assert failing.evidence is not None and failing.evidence.verdict == "found-by-run"
    assert failing.evidence.detail.startswith("on rank 1 of 2: raised in iteration 4")


def test_the_first_process_is_a_rank_if_it_trains(tmp_path: Path) -> None:
    result = _run(tmp_path, "own")
    assert sorted(parts(result.tape)) == [0, 1, 2] and result.how_ended == "finished"


def test_a_limit_in_a_spawned_process_ends_the_program(tmp_path: Path) -> None:
    result = _run(tmp_path, "spawn", max_iterations=2)
    assert result.how_ended == "stopped" and "after 2 iterations of the loop on line 11" in result.detail
    assert "exit codes" not in result.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_forked_processes_that_train_are_mentioned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    assert main(["run", "train.py", "fork"]) == 3
    shown = capfd.readouterr()
    assert "2 forked processes ran backward calls, which were not recorded" in shown.err
    assert "The training was not recorded: it ran in forked processes." in shown.out


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_what_may_have_run_in_a_process_that_was_not_recorded_is_not_known(tmp_path: Path, method: str) -> None:
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"there is no {method} here")
    file = tmp_path / "train.py"
    file.write_text(
        PROGRAM.replace("backward()", "backward(retain_graph=True)").replace(
            '"fork" if mode == "fork" else "spawn"', "mode"
        )
    )
    kept = tmp_path / "run.tape"
    result = run(RunRequest("train.py", args=[method], cwd=str(tmp_path), timeout=120.0, tape=str(kept)))
    with kept.open() as written:
        tapes = [result.tape, read_tape(written)]
    findings = [one for one in check(read_source(str(file))).findings if one.code == "TAPE301"]
    assert findings
    for tape in tapes:
        for one in judge(findings, tape, directory=str(tmp_path)):
            assert one.evidence is None and one.notes[-1].endswith("were not recorded"), one.notes


STARTS = {
    "subprocess": (
        "import subprocess, sys\n"
        "work = 'import time\\nwhile time.process_time() < 1.5: pass'\n"
        "subprocess.run([sys.executable, '-c', work], check=True)\n"
    ),
    "forkserver": (
        "import multiprocessing\nimport os\n"
        "if __name__ == '__main__':\n"
        "    child = multiprocessing.get_context('forkserver').Process(target=os.getpid)\n"
        "    child.start()\n    child.join()\n"
    ),
    "a launcher whose program fails": (
        "import subprocess, sys\n"
        "work = 'import time\\nwhile time.process_time() < 1.5: pass\\nraise SystemExit(1)'\n"
        "subprocess.run([sys.executable, '-c', work], check=True)\n"
    ),
    "nothing": "import subprocess, sys\nsubprocess.run([sys.executable, '-S', '-c', ''], check=True)\n",
}


@pytest.mark.parametrize("how", STARTS)
def test_where_only_processes_that_are_not_recorded_may_train_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], how: str
) -> None:
    if how == "forkserver" and how not in multiprocessing.get_all_start_methods():
        pytest.skip("there is no fork server here")
    (tmp_path / "launch.py").write_text(STARTS[how])
    monkeypatch.chdir(tmp_path)
    assert main(["run", "launch.py"]) == 3
    shown = capfd.readouterr().out
    elsewhere = (
        "Nothing was trained in this process. Those that it started were not recorded: run the script that trains, "
        "with `--launcher` for what starts it."
    )
    assert ("Nothing was trained: no backward ran." if how == "nothing" else elsewhere) in shown
