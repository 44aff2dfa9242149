"""The survey of checkouts: every file gets an answer, and what changed since the last time is said."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tapecheck.cli.checking import CheckOptions
from tests.ecosystem.__main__ import main
from tests.ecosystem.memory import compare, read
from tests.ecosystem.survey import FileResult, Found, Task, _Worker, measure, survey, tasks

TRAIN = """\
import torch

model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
# one step after the other
for _ in range(10):
    optimizer.zero_grad()
    loss = model(torch.randn(4, 2)).pow(2).mean()
    loss.backward({argument})
    optimizer.step()
"""
NEEDLESS = TRAIN.format(argument="retain_graph=True")
CLEAN = TRAIN.format(argument="")
BROKEN = {
    "binary.py": bytes(range(256)) * 8,
    "comment.py": b"# backward()\n" * 3,
    "deep.py": b"x = " + b"(" * 5000 + b"1" + b")" * 5000 + b"\n",
    "empty.py": b"",
    "latin.py": "# -*- coding: latin-1 -*-\nname = 'caf\xe9'\n".encode("latin-1"),
    "long.py": b"import torch\nx = [" + b"1, " * 50_000 + b"]\n",
    "nested.py": b"import torch\nx = torch.ones(1)\ny = x" + b" + x" * 3000 + b"\n",
    "nul.py": b"import torch\nx = 1\0\n",
    "python2.py": b"print 'hello'\nexec 'x = 1'\n",
    "recursion.py": b"def f(x):\n    return f(x)\n\n\nf(1)\n",
    "unknown_coding.py": b"# coding: klingon\nx = 1\n",
}


@pytest.fixture
def checkouts(tmp_path: Path) -> Path:
    folder = tmp_path / "checkouts"
    for repository, files in {
        "gan": {"train.py": NEEDLESS, "src/model.py": "import torch\n"},
        "rnn": {"main.py": CLEAN, "venv/pyvenv.cfg": "", "venv/lib.py": NEEDLESS},
        ".git": {"hook.py": NEEDLESS},
    }.items():
        for name, text in files.items():
            path = folder / repository / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return folder


def surveyed(folder: Path, **limits: float) -> dict[str, FileResult]:
    results = survey(list(tasks(folder, CheckOptions(fixes=False))), jobs=1, **limits)
    return {f"{result.repository}/{result.path}": result for result in results}


def test_each_sub_folder_is_a_repository_and_only_its_own_code_is_checked(checkouts: Path) -> None:
    results = surveyed(checkouts)
    assert sorted(results) == ["gan/src/model.py", "gan/train.py", "rnn/main.py"]
    [found] = results["gan/train.py"].findings
    assert (found.code, found.line, found.excerpt) == ("TAPE301", 9, "loss.backward(retain_graph=True)")
    assert not results["rnn/main.py"].findings
    assert {name for name, result in results.items() if result.training} == {"gan/train.py", "rnn/main.py"}
    assert results["rnn/main.py"].lines == 8


def test_how_many_errors_and_warnings_have_a_fix_is_counted(
    checkouts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    twice = NEEDLESS.replace("(retain_graph=True)", "()\nloss.backward()")
    (checkouts / "gan" / "twice.py").write_text(twice)
    main([str(checkouts), "--fixes", "--jobs", "1"])
    assert "1 of 1 errors and warnings have a fix that holds" in capsys.readouterr().out
    main([str(checkouts), "--jobs", "1"])
    assert "have a fix" not in capsys.readouterr().out


def test_whatever_a_file_holds_it_gets_an_answer_and_the_others_theirs(checkouts: Path) -> None:
    for name, data in BROKEN.items():
        (checkouts / "gan" / name).write_bytes(data)
    results = surveyed(checkouts)
    assert {name: result.crash for name, result in results.items() if result.crash} == {}
    assert len(results) == len(BROKEN) + 3
    assert results["gan/python2.py"].problems and results["gan/nul.py"].problems
    assert not results["gan/comment.py"].training and results["gan/comment.py"].lines == 0
    assert [found.code for found in results["gan/train.py"].findings] == ["TAPE301"]


def test_a_file_over_its_time_is_told_and_the_next_is_checked(checkouts: Path) -> None:
    (checkouts / "gan" / "slow.py").write_text("import torch\n" + NEEDLESS * 400)
    results = surveyed(checkouts, limit_s=0.001)
    assert {result.crash for result in results.values()} == {"not done after 0.001 s"}
    assert results["rnn/main.py"].lines == 8


def test_a_worker_that_dies_is_told(checkouts: Path) -> None:
    worker = _Worker(memory_gb=4)
    path = checkouts / "gan" / "train.py"
    worker.process.kill()
    worker.process.join()
    worker.start(Task("gan", str(path.parent), str(path), CheckOptions(fixes=False)), 60)
    assert worker.answer().crash == "the process died (SIGKILL)"
    assert not worker.alive
    worker.stop()


@pytest.mark.parametrize(
    ("text", "training"),
    [
        ("import torch\nloss.backward()\n", True),
        ("import torch\noptimizer.step()\n", True),
        ("import torch\noptimizer.step(closure)\n", True),
        ("import torch\ntorch.autograd.grad(y, x)\n", True),
        ("from torch.autograd import grad as g\ng(y, x)\n", True),
        ("import torch\nself.manual_backward(loss)\n", True),
        ("import torch\nstate, reward = env.step(action)\n", False),
        ("import jax\njax.grad(f)\n", False),
        ("import torch\nprint(x.grad, 'loss.backward()')\n", False),
    ],
)
def test_files_that_train(tmp_path: Path, text: str, training: bool) -> None:
    path = tmp_path / "file.py"
    path.write_text(text)
    assert measure(str(path)) == (2, training)


def found(line: int, **changes: object) -> Found:
    base = Found("gan", "train.py", line, "TAPE301", "info", True, "needless, see line 3", "loss.backward()")
    return replace(base, **changes)  # type: ignore[arg-type]


def test_a_finding_whose_line_moved_is_the_same_one() -> None:
    assert not compare([found(9)], [found(12, message="needless, see line 6")])


def test_what_is_new_gone_and_said_otherwise() -> None:
    before = [found(9), found(20), found(30, excerpt="other()")]
    now = [found(10, severity="warning"), found(21), found(5, path="eval.py")]
    changes = compare(before, now)
    assert changes.new == [found(5, path="eval.py")]
    assert changes.gone == [found(30, excerpt="other()")]
    assert changes.changed == [(found(9), found(10, severity="warning"))]


def test_the_command_remembers_and_says_what_changed(checkouts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    memory = checkouts.parent / "memory" / "survey.json"
    arguments = [str(checkouts), "--memory", str(memory), "--jobs", "1"]
    assert main(arguments) == 0
    first = capsys.readouterr().out
    assert "gan/train.py:9: info[TAPE301]" in first or "gan/train.py:9: warning[TAPE301]" in first
    assert "    | loss.backward(retain_graph=True)" in first
    assert "2 repositories, 3 files, 17 lines of code\n16 of these lines in 2 files that train something" in first
    assert "0 crashes" in first and "Since the last survey" not in first

    assert main(arguments) == 0
    assert "Nothing changed since the last survey." in capsys.readouterr().out

    (checkouts / "gan" / "train.py").write_text(CLEAN)
    (checkouts / "rnn" / "main.py").write_text("import os\n" + NEEDLESS)
    assert main([*arguments, "--only", "rnn", "--changes"]) == 0
    told = capsys.readouterr().out
    assert "1 new, 0 gone, 0 changed" in told and "+ rnn/main.py:10" in told
    assert [one.repository for one in read(memory) or []] == ["gan", "rnn"]

    assert main([*arguments, "--changes"]) == 0
    assert "0 new, 1 gone, 0 changed\n- gan/train.py:9" in capsys.readouterr().out
    assert not list(memory.parent.glob("*.part"))


def test_a_crash_is_told_and_makes_the_exit_status(checkouts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(checkouts), "--jobs", "1", "--limit", "0.001"]) == 2
    assert "3 crashes\ncrash: gan/src/model.py: not done after 0.001 s" in capsys.readouterr().out


def test_what_cannot_be_used_is_said(checkouts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    memory = checkouts.parent / "memory.json"
    for text in ("not json", "[]", json.dumps({"version": 1, "findings": [{"path": "x"}]})):
        memory.write_text(text)
        with pytest.raises(SystemExit):
            main([str(checkouts), "--memory", str(memory)])
        assert f"error: {memory}: " in capsys.readouterr().err
        assert memory.read_text() == text
    with pytest.raises(SystemExit):
        main([str(checkouts / "gan" / "src")])
    assert "no Python files in the sub-folders" in capsys.readouterr().err
