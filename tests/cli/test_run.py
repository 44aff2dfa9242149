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
TRAINED = "import torch\ntorch.ones(1, requires_grad=True).backward()\n"
CUT = "The run was cut short: what would have come later was not seen.\n"
ENV = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}


_python = ""
"""What runs the scripts: an interpreter that has torch loaded, which takes longer than most of them."""


@pytest.fixture(autouse=True)
def _warm(warm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "_python", warm)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "tapecheck", "run", "--python", _python, "--no-fixes", *arguments]


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


def test_rules_that_are_left_out_are_not_told_by_the_run_either(script: Path) -> None:
    (script / "dynamic.py").write_text(
        "import torch\nw = torch.ones(2, requires_grad=True)\n"
        "import base64\nexec(base64.b64decode('bG9zcyA9IHcuZXhwKCkuc3VtKCk='))\nloss.backward()\n"
        "try:\n    getattr(loss, ''.join(['back', 'ward']))()\nexcept RuntimeError:\n    pass\n"
    )
    found = run(script, "--output-format", "json", "dynamic.py")
    assert verdicts(found)["TAPE101", 7] == "found-by-run"
    left = run(script, "--ignore", "TAPE101", "--output-format", "json", "dynamic.py")
    assert (verdicts(left), left.returncode) == ({}, 0)


def test_text_shows_the_script_s_output_and_then_the_evidence(script: Path) -> None:
    done = run(script, "train.py")
    assert done.returncode == 1
    assert done.stdout.startswith("arguments []\ntotal 18.0\n")
    assert "   = run: confirmed: " in done.stdout
    assert "\ntapecheck: the script ran to its end (6 iterations, 6 backward calls, " in f"\n{done.stderr}"


def test_a_limit_ends_the_script_and_is_said(script: Path) -> None:
    done = run(script, "--max-backward", "2", "train.py")
    assert "tapecheck: the script was stopped after 2 backward calls (" in done.stderr
    assert "total 18.0" not in done.stdout
    (script / "slow.py").write_text("import time\nimport torch\nprint('up', flush=True)\ntime.sleep(600)\n")
    done = run(script, "--timeout", "8", "slow.py")
    assert "tapecheck: the script was stopped after " in done.stderr
    assert done.returncode == 3 and done.stdout.endswith(CUT)


def test_a_clean_script_is_exit_status_0_whatever_its_own(script: Path) -> None:
    (script / "clean.py").write_text(f"import sys\nprint('hello')\n{TRAINED}sys.exit(3)\n")
    done = run(script, "clean.py")
    assert (done.returncode, done.stdout) == (0, "hello\nNo problems found (1 file checked).\n")
    assert "exit code 3" in done.stderr


def test_the_tape_is_kept_where_it_is_wanted(script: Path) -> None:
    from tapecheck.tape import Backward, read_tape

    run(script, "--tape", "out/run.jsonl", "train.py")
    with (script / "out" / "run.jsonl").open() as file:
        tape = read_tape(file)
    assert sum(isinstance(event, Backward) for event in tape.events) == 6
    assert tape.complete


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize(
    ("ending", "said"),
    [
        ("os._exit(7)", "the script died: the process ended itself with exit code 7 before the recorder could close"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "the script died: the process was ended by SIGSEGV"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "the script died: the process was ended by SIGKILL"),
        ("raise ValueError('own')", "the script ended with an exception: ValueError: own"),
        ("raise SystemExit(3)", "the script ended before it trained anything (0 iterations, 0 backward calls, "),
        ("raise MemoryError('no room')", "the script ended with an exception: MemoryError: no room"),
        ("raise MemoryError", "the script ended with an exception: MemoryError (0 iterations, "),
    ],
)
def test_how_a_script_died_is_said(script: Path, ending: str, said: str) -> None:
    # No torch is needed to die: these are fast.
    (script / "dies.py").write_text(f"import os, signal\nprint('up', flush=True)\n{ending}\n")
    done = run(script, "dies.py")
    assert f"tapecheck: {said}" in done.stderr
    left = "Nothing was trained: no backward ran.\n" if "SystemExit" in ending else CUT
    assert (done.returncode, done.stdout) == (3, f"up\nNothing found in what was seen (1 file checked).\n{left}")


def test_a_page_that_cannot_be_written_costs_the_page_alone(script: Path) -> None:
    (script / "clean.py").write_text(f"print('hello')\n{TRAINED}")
    done = run(script, "--html", "clean.py/page.html", "clean.py")
    assert (done.returncode, done.stdout) == (2, "hello\nNo problems found (1 file checked).\n")
    assert "tapecheck: cannot write clean.py/page.html: " in done.stderr
    done = run(script, "--max-iterations", "few", "clean.py")
    assert done.returncode == 2 and "argument --max-iterations: expected a positive integer, got 'few'" in done.stderr


def test_what_a_run_does_not_decide_is_inconclusive(script: Path) -> None:
    (script / "early.py").write_text(
        "import torch\n"
        "w = torch.ones(3, requires_grad=True)\n"
        "for step in range(6):\n"
        "    (w * w).sum().backward(retain_graph=True)\n"
        "    if w.grad[0] > 5:\n"
        "        raise ValueError\n"
    )
    done = run(script, "--select", "TAPE301", "early.py")
    assert done.stdout.count("info[TAPE301]") == done.stdout.count("= run: inconclusive: ") == 1
    assert "ended with an exception: ValueError (3 iterations" in done.stderr and done.returncode == 1


def test_what_the_recorder_could_not_do_is_said(script: Path) -> None:
    (script / "odd.py").write_text(
        "import torch\n"
        "class Odd(torch.Tensor):\n"
        "    @property\n"
        "    def grad_fn(self):\n"
        "        raise RuntimeError('odd')\n"
        "w = torch.ones(1, requires_grad=True)\n"
        "(w * 2).sum().backward()\n"
        "(w * 2).as_subclass(Odd).backward()\n"
    )
    done = run(script, "odd.py")
    assert "may have gaps: the recorder failed 1 times, first with RuntimeError: odd" in done.stdout
    assert "Nothing was trained" not in done.stdout and done.returncode == 3


def test_a_script_that_python_cannot_parse(script: Path) -> None:
    (script / "broken.py").write_text("import torch\nx = 1 +\n")
    done = run(script, "broken.py")
    assert "SyntaxError: invalid syntax" in done.stderr and "error[invalid-syntax]" in done.stdout
    assert done.returncode == 1


def test_tapes_are_checked_and_compared(script: Path) -> None:
    run(script, "--tape", "a.tape", "train.py")
    run(script, "--tape", "b.tape", "train.py", "--twice")

    def tapecheck(*arguments: str) -> subprocess.CompletedProcess[str]:
        whole = [sys.executable, "-m", "tapecheck", *arguments]
        return subprocess.run(whole, cwd=script, env=ENV, capture_output=True, text=True, timeout=60, check=False)

    checked = tapecheck("check", "--output-format", "json", "b.tape")
    assert checked.returncode == 1 and verdicts(checked) == {("TAPE101", 11): "found-by-run"}
    assert not json.loads(tapecheck("check", "--ignore", "TAPE1", "--output-format", "json", "b.tape").stdout)
    differ = tapecheck("diff", "a.tape", "b.tape")
    assert differ.returncode == 1 and "* backward calls: 6 | 2" in differ.stdout
    assert "* only in b: TAPE101 train.py:11: " in differ.stdout and "* only in a: TAPE201 train.py:13" in differ.stdout
    same = tapecheck("diff", "--output-format", "json", "a.tape", "a.tape")
    assert same.returncode == 0 and json.loads(same.stdout)["same"] is True
    refused = tapecheck("diff", "a.tape", "train.py")
    assert refused.returncode == 2 and "train.py: not a tape" in refused.stderr
    (script / "broken.tape").write_text('{"tape": 9, "producer": "x"}\n')
    broken = tapecheck("check", "broken.tape")
    assert broken.returncode == 1


def test_an_interpreter_that_cannot_be_used_is_exit_status_2(script: Path) -> None:
    done = run(script, "--python", "no-such-python", "train.py")
    assert done.returncode == 2 and "no-such-python" in done.stderr and not done.stdout


def test_what_cannot_be_run_is_exit_status_2(script: Path) -> None:
    for arguments, said in (
        (["."], "is a directory"), (["none.py"], "no such file"), ([], "name a script"), (["-m"], "needs the name"),
    ):  # fmt: skip
        done = run(script, *arguments)
        assert done.returncode == 2 and said in done.stderr and not done.stdout


def test_an_option_after_the_script_that_the_script_does_not_know_is_reported(script: Path) -> None:
    done = run(
        script, "train.py", "--twice", "--html=page.html", "--ranks", "2", "--stdin", "--no-fixes", "x", "--tape"
    )
    between = " follows the script and is passed to it; options of `tapecheck run` come before the script: "
    noted = (line.removeprefix("tapecheck: ") for line in done.stderr.splitlines() if between in line)
    said = dict(line.split(between) for line in noted)
    assert said == {
        name: f"`tapecheck run {written} train.py`"
        for name, written in {
            "--html": "--html=page.html", "--ranks": "--ranks 2", "--stdin": "--stdin", "--no-fixes": "--no-fixes",
            "--tape": "--tape",
        }.items()
    }  # fmt: skip
    assert not (script / "page.html").exists() and "--ranks" in done.stdout
    (script / "own.py").write_text(TRAINED + "import sys\nprint('--tape' in sys.argv)\n")
    assert "follows the script" not in run(script, "own.py", "--tape", "x").stderr
    (script / "ranked.py").write_text(
        "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--ranks', type=int)\n"
        f"parser.add_argument('--max-backward')\nparser.parse_args()\n{TRAINED}"
    )
    own = run(script, "ranked.py", "--ranks", "2", "--max-backward=3")
    assert own.returncode == 0 and "follows the script" not in own.stderr


def test_a_script_that_reads_standard_input_is_told_how_to_get_it(script: Path) -> None:
    (script / "asks.py").write_text("name = input('name? ')\nprint('hello', name)\n" + TRAINED)
    done = run(script, "asks.py")
    assert done.returncode == 3 and "it read standard input, which it gets with --stdin only" in done.stderr
    given = subprocess.run(
        command("--stdin", "asks.py"), cwd=script, env=ENV, capture_output=True, text=True, timeout=120, check=False,
        input="you\n",
    )  # fmt: skip
    assert given.returncode == 0 and "hello you" in given.stdout and "standard input" not in given.stderr


def test_modules_and_their_arguments(script: Path) -> None:
    done = run(script, "--output-format", "json", "-m", "train", "--twice", "--select", "x")
    assert verdicts(done)["TAPE101", 11] == "confirmed" and done.returncode == 1
    assert "arguments ['--twice', '--select', 'x']" in done.stderr


NOTEBOOK = {
    "nbformat": 4,
    "metadata": {"kernelspec": {"language": "python"}},
    "cells": [
        {"cell_type": "markdown", "source": "# Training"},
        {"cell_type": "code", "source": ["%matplotlib inline\n", "import torch, helper\n", "files = !ls"]},
        {"cell_type": "code", "source": "w = torch.ones(3, requires_grad=True)\nloss = helper.loss(w)\ndisplay('up')"},
        {"cell_type": "code", "source": "!pip list\nloss.backward()\nloss.backward()"},
    ],
}


def test_notebooks_run_as_one_program_and_are_told_of_their_cells(script: Path) -> None:
    folder = script / "books"
    folder.mkdir()
    (folder / "helper.py").write_text("def loss(w):\n    return (w * w).sum()\n")
    (folder / "train.ipynb").write_text(json.dumps(NOTEBOOK))
    done = run(script, "--output-format", "json", "books/train.ipynb")
    assert done.returncode == 1, done.stderr
    (row,) = json.loads(done.stdout)
    assert (row["code"], row["filename"], row["cell"], row["location"]["row"]) == (
        "TAPE101", "books/train.ipynb", 4, 3,
    )  # fmt: skip
    assert row["evidence"]["verdict"] == "confirmed" and "line 2 of cell 4" in row["evidence"]["detail"]
    assert "up\n" in done.stderr and "    loss.backward()" in done.stderr, "the traceback shows the cell's text"
    (folder / "broken.ipynb").write_text("{}")
    refused = run(script, "books/broken.ipynb")
    assert refused.returncode == 2 and "not a notebook" in refused.stderr


SEEDLESS = """\
import torch

model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
total = 0
for step in range(6):
    loss = model(torch.randn(8, 3)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total += loss
"""


def test_a_fix_is_verified_by_running_it(script: Path) -> None:
    (script / "seedless.py").write_text(SEEDLESS)
    arguments = [*command("--verify-fix", "--output-format", "json", "--html", "out/page.html", "seedless.py")]
    arguments.remove("--no-fixes")
    done = subprocess.run(arguments, cwd=script, env=ENV, capture_output=True, text=True, timeout=240, check=False)
    (row,) = json.loads(done.stdout)
    assert row["code"] == "TAPE201" and row["evidence"]["verdict"] == "confirmed"
    tried = row["fix_run"]
    assert tried["parameters_identical"] is True
    assert tried["before"]["learned"] == tried["after"]["learned"] != ""
    assert tried["before"]["rules"] == ["graph-kept-across-iterations"] and tried["after"]["rules"] == []
    assert tried["text"].startswith("graph-kept-across-iterations no longer happens; the parameters are identical")
    assert tried["verdict"] == "confirmed" and tried["repeats_itself"] is True
    assert tried["before"]["saved"] is not None and "peak memory" not in tried["text"]
    page = (script / "out" / "page.html").read_text()
    assert "seedless.py" in page and "no longer happens" in page


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
    assert "tapecheck: the script was interrupted: SIGINT; the process was ended by SIGINT (" in err


LIBRARY = """\
import torch


class Trainer:
    def __init__(self):
        self.w = torch.ones(3, requires_grad=True)
        self.optimizer = torch.optim.SGD([self.w], lr=0.1)

    def fit(self, rounds):
        for i in range(rounds):
            loss = (self.w * self.w).sum()
            loss.backward(retain_graph=True)
            self.optimizer.step()
            self.optimizer.zero_grad()
        return loss.item()
"""
TESTS = """\
import torch
from library import Trainer


def test_fit():
    assert Trainer().fit(5) > 0


def test_other():
    w = torch.ones(2, requires_grad=True)
    for _ in range(4):
        loss = (w * w).sum()
        loss.backward(retain_graph=True)
    assert loss.item() == 2
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "tests").mkdir()
    (tmp_path / "library.py").write_text(LIBRARY)
    (tmp_path / "conftest.py").write_text("")
    (tmp_path / "tests" / "test_library.py").write_text(TESTS)
    return tmp_path


def rows(done: subprocess.CompletedProcess[str]) -> dict[tuple[str, str, int], dict[str, Any]]:
    return {(row["code"], row["filename"], row["location"]["row"]): row for row in json.loads(done.stdout)}


def test_one_test_runs_and_the_library_s_findings_are_told_with_their_fixes(project: Path) -> None:
    done = subprocess.run(
        [
            sys.executable, "-m", "tapecheck", "run", "--python", _python, "--output-format", "json", "--verify-fix",
            "-m", "pytest", "-q", "tests/test_library.py::test_fit",
        ],
        cwd=project, env=ENV, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert "1 passed" in done.stderr
    assert done.returncode == 1
    found = rows(done)
    row = found["TAPE301", "library.py", 12]
    assert row["evidence"]["verdict"] == "confirmed"
    assert row["evidence"]["measured"]["runs"] == 5
    assert found["TAPE301", "tests/test_library.py", 13]["evidence"]["verdict"] == "not-reached"
    # The fix was made in the library's file, which lies as it was.
    assert row["fix_run"]["before"]["rules"] == ["needless-retain-graph"]
    assert row["fix_run"]["after"]["rules"] == []
    assert row["fix_run"]["after"]["ended"] == "finished"
    assert row["fix_run"]["parameters_identical"] in (True, None)
    assert (project / "library.py").read_text() == LIBRARY


def test_a_file_of_a_library_is_confirmed_by_what_the_project_says_runs_it(project: Path) -> None:
    nothing = run(project, "--confirm", "library.py")
    assert nothing.returncode == 2
    assert "under [tool.tapecheck] in its pyproject.toml" in nothing.stderr
    (project / "pyproject.toml").write_text(
        '[tool.tapecheck]\nrun = ["-m", "pytest", "-q", "tests/test_library.py::test_fit"]\n'
    )
    (project / "inner").mkdir()
    done = run(project / "inner", "--output-format", "json", "--confirm", "../library.py")
    assert done.returncode == 1
    found = rows(done)
    assert {key: row["evidence"]["verdict"] for key, row in found.items()} == {
        ("TAPE301", "library.py", 12): "confirmed"
    }


CARRYING = """\
import torch


class Carrying(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = torch.nn.GRUCell(3, 3)
        self.state = None

    def forward(self, x):
        self.state = self.cell(x, self.state)
        return self.state
"""


def test_what_a_script_does_in_the_files_that_it_imports_is_confirmed(project: Path) -> None:
    (project / "carrying.py").write_text(CARRYING)
    (project / "trainer.py").write_text(
        "class Trainer:\n"
        "    def __init__(self, model):\n"
        "        self.model = model\n"
        "    def step(self, x):\n"
        "        self.model(x).sum().backward()\n"
    )
    (project / "train.py").write_text(
        "import torch\n"
        "from carrying import Carrying\n"
        "from trainer import Trainer\n"
        "trainer = Trainer(Carrying())\n"
        "for step in range(3):\n"
        "    trainer.step(torch.randn(2, 3))\n"
    )
    asked = [part for part in command("--output-format", "json", "train.py") if part != "--no-fixes"]
    done = subprocess.run(asked, cwd=project, env=ENV, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    row = rows(done)["TAPE101", "trainer.py", 5]
    assert row["evidence"]["verdict"] == "confirmed"
    assert "was built on carrying.py:11 in iteration 1" in row["evidence"]["detail"]
    assert "`self.state`" in row["message"]
    assert "carrying.py" in str(row["fix"]), "its fix is that of the check which has found it"


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize("last", ["", "loss 0.3", "loss 0.3\n", "\n", "a\nb"])
def test_what_is_said_begins_on_a_line_of_its_own(tmp_path: Path, stream: str, last: str) -> None:
    (tmp_path / "train.py").write_text(f"import sys\n{TRAINED}sys.{stream}.write({last!r})\nraise SystemExit\n")
    done = run(tmp_path, "train.py")
    written = getattr(done, stream)
    ended = last if not last or last.endswith("\n") else last + "\n"
    assert written.startswith(ended + ("tapecheck: the script ran" if stream == "stderr" else "No problems found"))
    kept = run(tmp_path, "-o", "report", "train.py")
    # The report lies elsewhere: this is the program's alone.
    assert stream == "stderr" or kept.stdout == last


def test_where_the_report_goes_to_a_file_standard_output_is_the_program_s(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(f"{TRAINED}print('through')\nraise ValueError\n")
    done = run(tmp_path, "-o", "report", "train.py")
    assert (done.returncode, done.stdout) == (3, "through\n")
    assert f"tapecheck: {CUT}" in done.stderr
