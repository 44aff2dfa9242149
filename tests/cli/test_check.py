"""`tapecheck check` as a user runs it: a process, its output and its exit status."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tapecheck.check as checking
import tapecheck.fixes as fixes
from tapecheck.cli import checking as checking_files
from tapecheck.cli import fixing, main
from tapecheck.cli.checking import CheckOptions, check_files
from tapecheck.rules import ALL

TWICE = """\
import torch

w = torch.ones(3, requires_grad=True)
loss = (w * w).sum()
loss.backward()
loss.backward()
"""
# Two backwards that are both meant: the graph may be kept without another gradient coming out.
MEANT_TWICE = TWICE.removesuffix("loss.backward()\n") + "print(w.grad); w.grad = None\nloss.backward()\n"
ONCE = TWICE.removesuffix("loss.backward()\n")
BROKEN = "def f(:\n    pass\n\n" + TWICE


def tapecheck(*arguments: str, cwd: Path, stdin: bytes = b"", **env: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "tapecheck", *arguments],
        cwd=cwd,
        input=stdin,
        capture_output=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **env},
    )


def rows(done: subprocess.CompletedProcess[bytes]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)


def test_a_finding_is_told_and_makes_the_exit_status_1(tmp_path: Path) -> None:
    write(tmp_path, train=TWICE)
    done = tapecheck("check", "train.py", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout.startswith(b"error[TAPE101]: ")
    assert b" --> train.py:6:1\n" in done.stdout
    assert b"Found 1 finding in 1 file: 1 error.\n" in done.stdout
    assert done.stderr == b""


def test_nothing_found_is_exit_status_0(tmp_path: Path) -> None:
    write(tmp_path, train=ONCE)
    done = tapecheck("check", ".", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, b"No problems found (1 file checked).\n")


def test_json_is_a_list_with_fixes_that_hold(tmp_path: Path) -> None:
    write(tmp_path, train=TWICE)
    done = tapecheck("check", "--output-format", "json", "train.py", cwd=tmp_path)
    assert done.returncode == 1
    (row,) = rows(done)
    assert (row["code"], row["name"], row["severity"]) == ("TAPE101", "backward-twice", "error")
    assert (row["filename"], row["location"]) == ("train.py", {"row": 6, "column": 1})
    assert {related["location"]["row"] for related in row["related"]} >= {4, 5}
    assert row["fix"]["edits"]
    assert "evidence" not in row


def test_no_fixes_leaves_them_out(tmp_path: Path) -> None:
    write(tmp_path, train=TWICE)
    (row,) = rows(tapecheck("check", "--no-fixes", "--output-format", "json", "train.py", cwd=tmp_path))
    assert (row["fix"], row["alternatives"]) == (None, [])


def test_a_broken_file_is_reported_and_the_rest_of_it_and_the_others_are_judged(tmp_path: Path) -> None:
    write(tmp_path, broken=BROKEN, fine=TWICE)
    (tmp_path / "binary.py").write_bytes(b"\xff\xfe\x00x")
    names = ("binary.py", "broken.py", "fine.py", "gone.py")
    done = tapecheck("check", "--output-format", "json", *names, cwd=tmp_path)
    assert done.returncode == 1
    assert [(row["filename"], row["code"], row["location"]["row"]) for row in rows(done)] == [
        ("binary.py", "io-error", 1),
        ("broken.py", "invalid-syntax", 1),
        ("broken.py", "TAPE101", 9),
        ("fine.py", "TAPE101", 6),
        ("gone.py", "io-error", 1),
    ]
    told = done.stderr.decode()
    assert "gone.py:1: No such file" in told and "broken.py:1: " in told and "binary.py:1: " in told


def test_a_file_that_cannot_be_read_alone_is_exit_status_1(tmp_path: Path) -> None:
    done = tapecheck("check", "gone.py", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout.startswith(b"error[io-error]: No such file")


def test_folders_are_walked_without_what_holds_no_code_of_the_project(tmp_path: Path) -> None:
    for folder in ("pkg", ".hidden", "node_modules", "build", "__pycache__", "env/lib", "venv"):
        (tmp_path / folder).mkdir(parents=True)
        write(tmp_path / folder, train=TWICE)
    (tmp_path / "env" / "pyvenv.cfg").touch()
    (tmp_path / "notes.txt").write_text(TWICE)
    (tmp_path / "loop").symlink_to(tmp_path)
    found = rows(tapecheck("check", "--output-format", "json", ".", "pkg/train.py", cwd=tmp_path))
    assert [row["filename"] for row in found] == [os.path.join("pkg", "train.py")]


def test_a_skipped_folder_and_any_name_are_checked_when_named(tmp_path: Path) -> None:
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "script").write_text(TWICE)
    write(tmp_path / "build", train=TWICE)
    assert tapecheck("check", "build/script", cwd=tmp_path).returncode == 1
    assert b"Found 1 finding" in tapecheck("check", "build", cwd=tmp_path).stdout


def test_notebooks_of_other_languages_are_left_out_of_folders(tmp_path: Path) -> None:
    (tmp_path / "once.py").write_text(ONCE)
    for language, text in (("R", "x <- c(1, 2)"), ("python", ONCE)):
        notebook = {
            "nbformat": 4,
            "metadata": {"kernelspec": {"language": language}},
            "cells": [{"cell_type": "code", "source": text}],
        }
        (tmp_path / f"{language}.ipynb").write_text(json.dumps(notebook))
    whole = tapecheck("check", ".", cwd=tmp_path)
    assert (whole.returncode, b"2 files checked" in whole.stdout) == (0, True)
    named = tapecheck("check", "R.ipynb", cwd=tmp_path)
    assert (named.returncode, b"a notebook of r, not of Python" in named.stdout + named.stderr) == (1, True)


def test_no_python_files_is_said(tmp_path: Path) -> None:
    done = tapecheck("check", ".", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, b"")
    assert done.stderr.splitlines() == [b"tapecheck: no Python files found under the given paths"]
    assert rows(tapecheck("check", "--output-format", "json", ".", cwd=tmp_path)) == []


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("chekc",), b"did you mean `check`?"),
        (("check", "--fxi"), b"unrecognized arguments: --fxi; did you mean `--fix`?"),
        (("check", "--frob"), b"unrecognized arguments: --frob\n"),
        (("check", "--output-fromat=json"), b"did you mean `--output-format`?"),
        (("check", "--output-format", "sarfi"), b"did you mean `sarif`?"),
        (("run", "--tpae", "a.tape", "train.py"), b"did you mean `--tape`?"),
    ],
)
def test_a_mistyped_word_is_told_with_the_one_it_is_nearest_to(
    tmp_path: Path, arguments: tuple[str, ...], hint: bytes
) -> None:
    done = tapecheck(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, b"") and hint in done.stderr
    assert done.stderr.startswith(b"usage: tapecheck")
    nothing_near = tapecheck("check", "--zzzzz", cwd=tmp_path).stderr
    assert b"unrecognized arguments: --zzzzz\n" in nothing_near


def test_standard_input_is_checked_under_a_name(tmp_path: Path) -> None:
    done = tapecheck("check", "-", "--stdin-filename", "a/train.py", cwd=tmp_path, stdin=TWICE.encode())
    assert done.returncode == 1
    assert b" --> a/train.py:6:1\n" in done.stdout
    assert b"6 | loss.backward()\n" in done.stdout
    assert tapecheck("check", "-", cwd=tmp_path, stdin=b"\xff\xfe").stdout.startswith(b"error[io-error]")


def test_select_and_ignore_take_codes_beginnings_and_names(tmp_path: Path) -> None:
    write(tmp_path, train=TWICE)
    for options, status in (
        (("--select", "TAPE3"), 0),
        (("--select", "TAPE3,backward-twice"), 1),
        (("--ignore", "TAPE1"), 0),
        (("--select", "TAPE", "--ignore", "TAPE101"), 0),
    ):
        assert tapecheck("check", *options, "train.py", cwd=tmp_path).returncode == status, options


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("check", "--select", "TAPE9", "a.py"), "no rule is called 'TAPE9': `tapecheck rule` lists"),
        (("check", "--select", "tape1019", "a.py"), "no rule is called 'TAPE1019'; did you mean `TAPE101`?"),
        (("check", "--diff", "--output-format", "json", "a.py"), "--diff prints a patch, not a report as json"),
        (("check", "--select", "forward-once", "a.py"), "no rule is called 'forward-once': `tapecheck rule` lists"),
        (("check", "--jobs", "0", "a.py"), "expected a positive integer, got '0'"),
        (("run", "--timeout", "nan", "a.py"), "expected a number of seconds, got 'nan'"),
        (("run", "gone.py"), "gone.py: no such file"),
        (("explain", "backward-twic"), "did you mean backward-twice?"),
        (("explain", "tape10"), "did you mean one of TAPE101, TAPE102"),
    ],
)
def test_wrong_usage_is_exit_status_2(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    done = tapecheck(*arguments, cwd=tmp_path)
    assert done.returncode == 2 and said in done.stderr.decode() and not done.stdout


def test_the_user_s_code_is_not_executed(tmp_path: Path) -> None:
    trap = "import pathlib\npathlib.Path('executed').touch()\n"
    names = ("models", "torch", "conftest", "sitecustomize", "jedi", "argparse", "json", "difflib")
    write(tmp_path, train="import models\n" + trap + TWICE, **dict.fromkeys(names, trap))
    assert tapecheck("check", ".", cwd=tmp_path).returncode in (0, 1)
    assert not (tmp_path / "executed").exists()


def test_torch_is_not_needed_and_not_imported(tmp_path: Path) -> None:
    write(tmp_path, train=TWICE)
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from tapecheck.cli import main\n"
        "status = main(['check', 'train.py'])\n"
        "assert sys.modules['torch'] is None\n"
        "sys.exit(status)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, check=False,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})  # fmt: skip
    assert done.returncode == 1, done.stderr


def test_an_internal_error_is_one_file_s_and_exit_status_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, bad="x = 1", good=TWICE)
    real = checking.check

    def failing(source: Any, **options: Any) -> Any:
        if source.path.endswith("bad.py"):
            raise RecursionError("too deep")
        return real(source, **options)

    monkeypatch.setattr(checking, "check", failing)
    assert main(["check", "--output-format", "json", str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert [row["code"] for row in json.loads(out)] == ["internal-error", "TAPE101"]
    assert "a bug in Tapecheck: RecursionError: too deep" in err


def test_a_failing_fix_leaves_the_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, train=TWICE)

    def failing(*_: object, **__: object) -> Any:
        raise ValueError("no")

    monkeypatch.setattr("tapecheck.fixes.fixes_for", failing)
    assert main(["check", str(tmp_path)]) == 2
    out = capsys.readouterr().out
    assert "error[TAPE101]" in out and "working out fixes of TAPE101, line 6 failed" in out


def test_where_not_all_fixes_can_be_tried_errors_come_first_and_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    needless = "for _ in range(3):\n    w.exp().sum().backward(retain_graph=True)\n"
    write(tmp_path, train=f"import torch\nw = torch.ones(3, requires_grad=True)\n{needless}{TWICE}")
    monkeypatch.setattr("tapecheck.fixes.Effort", functools.partial(fixes.Effort, left=1))
    assert main(["check", "--no-cache", "--output-format", "json", str(tmp_path)]) == 1
    out, _ = capsys.readouterr()
    found = {row["code"]: row for row in json.loads(out)}
    assert found["TAPE101"]["fix"] is not None and found["TAPE301"]["fix"] is None
    assert main(["check", "--no-cache", str(tmp_path)]) == 1
    assert "not every fix was tried for 1 of 2 findings" in capsys.readouterr().out
    monkeypatch.setattr(fixing, "Effort", functools.partial(fixes.Effort, left=0))
    assert main(["check", "--no-cache", "--fix", "--select", "TAPE101", str(tmp_path)]) == 1
    assert "not every fix was tried for 1 of 1 findings" in "".join(capsys.readouterr())


def test_many_files_in_processes_come_back_in_order(tmp_path: Path) -> None:
    write(tmp_path, **{f"f{number:03}": TWICE if number % 3 else ONCE for number in range(40)})
    options = ("--jobs", "3", "--no-fixes", "--output-format", "json")
    found = rows(tapecheck("check", *options, ".", cwd=tmp_path))
    wanted = [f"f{number:03}.py" for number in range(40) if number % 3]
    assert [row["filename"] for row in found] == wanted


def test_one_job_starts_no_process_for_the_files_that_import_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, model="def loss_of(model, x):\n    return model(x).sum()\n")
    write(tmp_path, **{f"f{number:03}": "import model\n" + TWICE for number in range(4)})
    asked: list[int] = []
    monkeypatch.setattr(checking_files, "pool", lambda jobs: asked.append(jobs))
    monkeypatch.setattr(checking_files, "_SECONDS_ALONE", 0.0)
    assert main(["check", "--no-cache", "--jobs", "1", str(tmp_path / "model.py")]) == 0
    assert not asked
    with pytest.raises(TypeError):
        main(["check", "--no-cache", "--jobs", "2", str(tmp_path / "model.py")])
    assert asked == [2]
    capsys.readouterr()


@pytest.mark.skipif(sys.platform == "win32", reason="the trap needs fork")
def test_a_file_that_kills_its_process_takes_no_other_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, **{f"f{number:03}": TWICE for number in range(30)})
    real = checking.check

    def deadly(source: Any, **options: Any) -> Any:
        if source.path.endswith("f007.py"):
            os._exit(11)
        return real(source, **options)

    monkeypatch.setattr(checking, "check", deadly)
    import multiprocessing

    if multiprocessing.get_start_method() != "fork":
        pytest.skip("the trap is set in this process and reaches only forked ones")
    paths = [str(path) for path in sorted(tmp_path.glob("*.py"))]
    entries = list(check_files(paths, CheckOptions(fixes=False), jobs=2))
    assert [entry.path for entry in entries] == paths
    dead = [entry for entry in entries if entry.problems]
    assert [Path(entry.path).name for entry in dead] == ["f007.py"]
    assert dead[0].problems[0].kind == "internal-error"
    assert all(len(entry.findings) == 1 for entry in entries if entry not in dead)


def test_few_files_that_take_long_are_checked_in_several_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, **{f"f{number}": TWICE for number in range(5)})
    paths = [str(path) for path in sorted(tmp_path.glob("*.py"))]
    counts: list[int] = []
    pool = checking_files.pool

    def spy(count: int) -> Any:
        counts.append(count)
        return pool(count)

    monkeypatch.setattr(checking_files, "pool", spy)
    monkeypatch.setattr(checking_files, "_SECONDS_ALONE", 1e9)
    here = list(check_files(paths, CheckOptions(), jobs=2))
    assert not counts and [entry.path for entry in here] == paths
    monkeypatch.setattr(checking_files, "_SECONDS_ALONE", 0.0)
    apart = list(check_files(paths, CheckOptions(), jobs=2))
    assert counts == [2]
    assert [(entry.path, entry.findings, entry.fixes) for entry in apart] == [
        (entry.path, entry.findings, entry.fixes) for entry in here
    ]
    assert len(list(check_files(paths, CheckOptions(), jobs=1))) == 5 and counts == [2]


def test_a_reader_that_leaves_ends_it_quietly(tmp_path: Path) -> None:
    write(tmp_path, **{f"f{number}": TWICE for number in range(20)})
    command = [sys.executable, "-m", "tapecheck", "check", "--jobs", "1", "--no-fixes", "."]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env) as process:
        assert process.stdout and process.stderr
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_said(tmp_path: Path) -> None:
    write(tmp_path, train=TWICE)
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "tapecheck", "check", "train.py"], cwd=tmp_path, stdout=full,
            stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, check=False,
        )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == b"tapecheck: cannot write the report: No space left on device\n"


def test_an_encoding_that_lacks_a_character_escapes_it(tmp_path: Path) -> None:
    write(tmp_path, train=TWICE.replace("loss", "损失"))
    done = tapecheck("check", "train.py", cwd=tmp_path, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 1 and done.stdout.isascii() and b"\\u635f" in done.stdout


def test_colour_only_where_it_is_wanted(tmp_path: Path) -> None:
    write(tmp_path, train=TWICE)
    assert b"\x1b[" not in tapecheck("check", "train.py", cwd=tmp_path).stdout
    assert b"\x1b[" in tapecheck("check", "--color", "always", "train.py", cwd=tmp_path).stdout
    assert b"\x1b[" in tapecheck("check", "train.py", cwd=tmp_path, FORCE_COLOR="1").stdout
    assert b"\x1b[" not in tapecheck("check", "train.py", cwd=tmp_path, FORCE_COLOR="1", NO_COLOR="1").stdout


def test_explain_prints_a_rule_s_page_and_lists_all(tmp_path: Path) -> None:
    page = tapecheck("explain", "backward-twice", cwd=tmp_path)
    assert page.returncode == 0 and page.stdout.startswith(b"TAPE101 backward-twice (error)\n")
    assert tapecheck("explain", "tape101", cwd=tmp_path).stdout == page.stdout
    assert b"An ignore comment switches nothing off" in tapecheck("explain", "unused-ignore", cwd=tmp_path).stdout
    listed = tapecheck("explain", cwd=tmp_path).stdout.decode().splitlines()
    assert [line.split()[0] for line in listed] == sorted(rule.code for rule in ALL)
    assert len(listed) > 10


def test_version(tmp_path: Path) -> None:
    from tapecheck import __version__

    assert tapecheck("--version", cwd=tmp_path).stdout.decode() == f"tapecheck {__version__}\n"


def notebook(*cells: str) -> str:
    listed = [{"cell_type": "code", "metadata": {}, "source": cell.splitlines(True)} for cell in cells]
    return json.dumps({"nbformat": 4, "metadata": {}, "cells": listed})


@pytest.mark.parametrize("by", ["name", "folder", "stdin"])
def test_a_notebook_is_checked_as_one_program(tmp_path: Path, by: str) -> None:
    first, last = TWICE.rsplit("loss.backward()\n", 1)[0], "%time loss.backward()\n"
    text = notebook("%matplotlib inline", first, last)
    (tmp_path / "train.ipynb").write_text(text)
    arguments = {"name": ["train.ipynb"], "folder": ["."], "stdin": ["-", "--stdin-filename", "train.ipynb"]}[by]
    done = tapecheck("check", *arguments, "--output-format", "json", cwd=tmp_path, stdin=text.encode())
    assert done.returncode == 1
    (row,) = rows(done)
    assert (row["code"], Path(row["filename"]).name, row["cell"]) == ("TAPE101", "train.ipynb", 3)
    assert (row["location"], row["end_location"]) == ({"row": 1, "column": 7}, {"row": 1, "column": 22})
    assert [(one["cell"], one["location"]["row"], one["role"]) for one in row["related"]] == [
        (2, 4, "built"), (2, 5, "freed"),
    ]  # fmt: skip
    assert all(edit["cell"] in (2, 3) for edit in row["fix"]["edits"])


def test_what_was_not_followed_of_a_notebook_is_said_of_its_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tapecheck.interpret.limits.RUN_BUDGET", 26)
    loop = "for _ in range(3):\n    total = w.exp().sum()\n"
    file = tmp_path / "train.ipynb"
    file.write_text(notebook("import torch\nw = torch.ones(3, requires_grad=True)\n", f"x = 1\n{loop}", loop * 9))
    assert main(["check", "--no-cache", "--output-format", "json", str(file)]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["code"], row["cell"], row["location"]["row"]) == ("incomplete-analysis", 2, 3)
    main(["check", "--no-cache", str(file)])
    assert "note[incomplete-analysis]" in (out := capsys.readouterr().out) and "train.ipynb:cell 2:3: " in out
    # What was not checked to its end is not called free of problems.
    assert out.endswith("Nothing found in what was checked (1 file checked in part).\n")
    other = tmp_path / "other.py"
    other.write_text("x = 1\n")
    main(["check", "--no-cache", str(file), str(other)])
    assert capsys.readouterr().out.endswith("Nothing found in what was checked (2 files checked, 1 of them in part).\n")


def test_a_notebook_s_report_shows_its_cells(tmp_path: Path) -> None:
    (tmp_path / "train.ipynb").write_text(notebook("x = (", TWICE))
    done = tapecheck("check", "train.ipynb", cwd=tmp_path)
    assert b" --> train.ipynb:cell 1:1:5\n" in done.stdout
    assert b" --> train.ipynb:cell 2:6:1\n" in done.stdout
    assert b"6 | loss.backward()\n" in done.stdout


def test_comments_switch_findings_off(tmp_path: Path) -> None:
    write(tmp_path, line=TWICE[:-1] + "  # tapecheck: ignore[TAPE101]\n")
    write(tmp_path, file="# tapecheck: ignore-file[backward-twice]\n" + TWICE)
    done = tapecheck("check", ".", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, b"No problems found (2 files checked).\n")


def test_the_project_says_which_rules_it_wants(tmp_path: Path) -> None:
    write(tmp_path, train=TWICE)
    (tmp_path / "pyproject.toml").write_text('[tool.tapecheck]\nignore = ["backward-twice"]\n')
    done = tapecheck("check", "train.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, b"No problems found (1 file checked).\n")
    (tmp_path / "pyproject.toml").write_text('[tool.tapecheck]\nselect = ["TAPE3"]\n')
    assert tapecheck("check", "train.py", cwd=tmp_path).returncode == 0
    assert tapecheck("check", "--select", "TAPE1", "train.py", cwd=tmp_path).returncode == 1


def test_what_a_file_does_in_those_it_imports_is_told_below_the_report(tmp_path: Path) -> None:
    write(
        tmp_path,
        trainer="def fit(model, x):\n    loss = model(x).pow(2).sum()\n    loss.backward()\n    loss.backward()\n",
        train="import torch\nfrom trainer import fit\nfit(torch.nn.Linear(3, 1), torch.ones(2, 3))\n",
    )
    told = "In files that are imported, by what is done with them: 1 finding.\n  trainer.py:4:5: error[TAPE101]: "
    done = tapecheck("check", "train.py", cwd=tmp_path)
    assert (
        done.stdout.decode().startswith(f"No problems found in this file itself (1 file checked).\n{told}")
        and done.returncode == 0
    )
    as_json = tapecheck("check", "--output-format", "json", "train.py", cwd=tmp_path)
    assert rows(as_json) == [] and as_json.stderr.decode().startswith(told)
    assert b"imported" not in tapecheck("check", "--ignore", "TAPE101", "train.py", cwd=tmp_path).stdout


def test_what_an_imported_file_says_itself_or_switches_off_is_told_once(tmp_path: Path) -> None:
    write(tmp_path, model=TWICE, train="import torch\nimport model\nprint(model.w)\n")
    both = tapecheck("check", "train.py", "model.py", cwd=tmp_path).stdout
    assert both.count(b"TAPE101") == 1 and b"imported" not in both
    assert b"imported" in tapecheck("check", "train.py", cwd=tmp_path).stdout
    write(tmp_path, model=TWICE.removesuffix("\n") + "  # tapecheck: ignore[TAPE101]\n")
    assert tapecheck("check", "train.py", cwd=tmp_path).stdout == b"No problems found (1 file checked).\n"


def test_without_a_path_the_working_directory_is_checked(tmp_path: Path) -> None:
    write(tmp_path, train=TWICE)
    done = tapecheck("check", "--output-format", "concise", cwd=tmp_path)
    assert done.returncode == 1 and b"train.py:6:1: error" in done.stdout


def test_what_could_not_be_read_is_not_called_free_of_problems(tmp_path: Path) -> None:
    done = tapecheck("check", "gone.py", cwd=tmp_path)
    assert done.returncode == 1 and b"No problems found" not in done.stdout
    assert done.stdout.endswith(b"\n1 file could not be checked completely.\n")


def test_a_configuration_that_is_no_toml_is_named_as_that(tmp_path: Path) -> None:
    write(tmp_path, train="x = 1\n")
    (tmp_path / "tapecheck.toml").write_text("select = = 3\n")
    done = tapecheck("check", cwd=tmp_path)
    assert b"tapecheck.toml: not valid TOML, so that nothing in it is used" in done.stdout + done.stderr


def test_what_nothing_is_left_of_is_not_called_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, data, note in (("none", b"\0\1", "nothing else"), ("some", b"x = 1\0\ny = 2\n", "the rest of the file")):
        (tmp_path / f"{name}.py").write_bytes(data)
        assert main(["check", "--no-cache", str(tmp_path / f"{name}.py")]) == 1
        assert f"skipped this statement; {note}" in capsys.readouterr().out


def test_why_there_is_no_fix_is_said_where_edits_were_tried() -> None:
    program = Path(__file__).parent.parent / "cases" / "programs" / "learned_range_by_item.py"
    (checked,) = check_files([str(program)], CheckOptions())
    assert [checked.fixes_of(index) for index, _ in enumerate(checked.findings)] == [[]]
    assert "no fix: each edit that was tried leaves the finding or makes another" in checked.findings[0].notes


BEHIND = """\
import torch
from torch import nn

net = nn.Linear(3, 1)
image = torch.rand(2, 3, requires_grad=True)
target = net(torch.rand(2, 3))
optimizer = torch.optim.SGD([image], lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    image.clamp_(0, 1)
    LATER
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("later", "why"),
    [
        ("loss = (net(image) - target).pow(2).mean()", "line 12 raises the error of TAPE101"),
        ("loss = (net(image) - target).mean().detach()", "line 12 raises the error of TAPE103"),
        ("loss = (net(image) - target.detach()).pow(2).mean()", ""),
    ],
)
def test_what_lies_behind_a_mistake_is_why_there_is_no_fix(tmp_path: Path, later: str, why: str) -> None:
    (tmp_path / "train.py").write_text(BEHIND.replace("LATER", later))
    (checked,) = check_files([str(tmp_path / "train.py")], CheckOptions())
    fixes, notes = checked.fixes_of(0), checked.findings[0].notes
    assert [one.code for one in checked.findings] == ["TAPE104"]
    assert notes[-1:] == (f"no fix: with the edit that was tried, {why}",) if why else fixes


@pytest.mark.parametrize("name", ["gitlab", "junit", "rdjson"])
def test_a_report_without_a_place_for_limits_leaves_them_to_standard_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    monkeypatch.setattr("tapecheck.interpret.limits.RUN_BUDGET", 40)
    monkeypatch.chdir(tmp_path)
    for number in range(2):
        loop = "for _ in range(3):\n    total = w.exp().sum()\n"
        Path(f"train{number}.py").write_text(f"import torch\nw = torch.ones(3, requires_grad=True)\n{loop * 9}")
    assert main(["check", "--no-cache", "--output-format", name, "."]) == 0
    assert capsys.readouterr().err == "tapecheck: work limit reached, checked in part: train0.py, train1.py\n"
