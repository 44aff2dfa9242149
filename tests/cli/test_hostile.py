"""Folders that nobody meant well: what cannot be read is one line, and the rest goes on."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tapecheck.cli import checking, main
from tapecheck.cli.checking import CheckOptions, check_file, check_files
from tapecheck.report.excerpt import _COLOURS
from tapecheck.report.formats import FORMATS

TWICE = "import torch\nw = torch.ones(3, requires_grad=True)\nloss = (w * w).sum()\nloss.backward()\nloss.backward()\n"
SERVER = Path(__file__).parents[2] / "server"
SECONDS = 300
# Root may enter every folder: it is asked to give up just that.
_GIVE_UP = "-dac_override,-dac_read_search"
_AS_ANYBODY = ["setpriv", "--bounding-set", _GIVE_UP, "--inh-caps", _GIVE_UP]
posix = pytest.mark.skipif(os.name == "nt", reason="needs FIFOs and modes of folders")


def tapecheck(folder: Path, *arguments: str, anybody: bool = False) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "import sys; from tapecheck.cli import main; sys.exit(main())", *arguments]
    if anybody and os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("root may enter every folder, and there is no setpriv to give that up")
        command = [*_AS_ANYBODY, *command]
    env = {**os.environ, "PYTHONPATH": str(SERVER)}
    return subprocess.run(
        command, cwd=folder, env=env, capture_output=True, timeout=SECONDS, check=False, encoding="utf-8"
    )


@posix
def test_a_folder_that_may_not_be_entered_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\n')
    (tmp_path / "train.py").write_text(TWICE.replace("torch\n", "torch\nimport somewhere.inside\n", 1))
    closed = tmp_path / "data"
    closed.mkdir()
    (closed / "x.py").write_text(TWICE)
    for mode in (0o000, 0o444):
        closed.chmod(mode)
        try:
            whole = tapecheck(tmp_path, "check", "--no-fixes", ".", anybody=True)
            one = tapecheck(tmp_path, "check", "--no-fixes", "train.py", anybody=True)
            inside = tapecheck(tmp_path, "check", "--no-fixes", "train.py", "data/x.py", anybody=True)
        finally:
            closed.chmod(0o755)
        assert (whole.returncode, one.returncode, inside.returncode) == (1, 1, 1), (oct(mode), whole, one, inside)
        for done in (whole, one, inside):
            assert done.stdout.count("error[TAPE101]") == 1 and done.stderr == ""
        assert whole.stdout.count("error[io-error]: Permission denied") == 1
        assert inside.stdout.count("error[io-error]: Permission denied") == 1


@posix
def test_what_is_no_regular_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "helper.py")
    os.mkfifo(tmp_path / "book.ipynb")
    (tmp_path / "zero.py").symlink_to("/dev/zero")
    (tmp_path / "circle.py").symlink_to("circle.py")
    (tmp_path / "round").symlink_to(tmp_path)
    (tmp_path / "train.py").write_text(TWICE.replace("torch\n", "torch, helper, zero, circle\n", 1))
    done = tapecheck(tmp_path, "check", "--no-fixes", ".")
    assert done.returncode == 1
    assert done.stdout.count("error[TAPE101]") == 1
    assert done.stdout.count("error[io-error]: not a regular file") == 3
    assert done.stdout.count("error[io-error]") == 4
    for name in ("helper.py", "book.ipynb", "zero.py", "/dev/zero"):
        alone = tapecheck(tmp_path, "check", name)
        assert alone.returncode == 1 and "error[io-error]: not a regular file" in alone.stdout
    os.mkfifo(tmp_path / "pyproject.toml")
    done = tapecheck(tmp_path, "check", "--no-fixes", ".")
    assert done.returncode == 2 and "pyproject.toml: not a regular file" in done.stderr


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a = " + "[" * 5_000, "nested too deeply to be read"),
        ("a = " + "{x=" * 5_000, "nested too deeply to be read"),
        ("x" * 600_000, "larger than 500 kB, not read"),
        ("a" + ".a" * 100_000 + " = 1\n", "a line with more than 100 parts of a key, not read"),
        ("[" + '"a".' * 100_000 + "a]\n", "a line with more than 100 parts of a key, not read"),
        ("[tool.tapecheck]\nignore = [1", "pyproject.toml: "),
        ("[tool.tapecheck]\nignore = 1" + "0" * 5_000, "pyproject.toml: "),
        ("[tool.tapecheck]\n" + "k = 1\n" * 10_000, "pyproject.toml: "),
        ("[tool.tapecheck]\n\x00", "pyproject.toml: "),
    ],
    ids=["deep", "tables", "large", "parts", "quoted", "broken", "number", "twice", "nul"],
)
def test_a_hostile_pyproject_ends_the_command_with_a_message(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    (tmp_path / "train.py").write_text(TWICE)
    done = tapecheck(tmp_path, "check", "--no-fixes", "train.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr and len(done.stderr.splitlines()) == 2, done.stderr[:500]
    assert done.stderr.endswith("tapecheck: nothing was checked: the configuration cannot be used\n")


def test_a_long_line_of_values_is_no_long_key(tmp_path: Path) -> None:
    wanted = ", ".join('"numpy>=1.2.3"' for _ in range(200))
    own = '[tool.tapecheck]\nignore = ["TAPE1"]\n'
    (tmp_path / "pyproject.toml").write_text(f"[project]\ndependencies = [{wanted}]\n{own}")
    (tmp_path / "train.py").write_text(TWICE)
    done = tapecheck(tmp_path, "check", "--no-fixes", "train.py")
    assert (done.returncode, done.stderr) == (0, "")


NAME = "a\x1b[31mb\x07\nFound 0 findings\n::set-output name=x::y\r\u202ec"


@posix
def test_names_with_escape_codes_are_printed_harmlessly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / NAME
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "pyproject.toml").write_text("[tool.tapecheck]\nodd = 1\n")
    (folder / f"{NAME}.py").write_text(TWICE)
    (folder / "broken.py").write_text("x = (\n")
    (folder / "bytes.py").write_bytes(b"\xff\n")
    for arguments in (
        *(["check", "--output-format", name, str(folder)] for name in FORMATS),
        ["check", "--color", "always", str(folder)], ["check", "--statistics", str(folder)],
        ["check", str(folder / "missing.py")], ["check", f"--{NAME}"], ["check", "--select", NAME, "."],
        ["check", "--jobs", NAME, "."], ["run", NAME], ["run", "-m", NAME], ["diff", NAME, NAME], ["explain", NAME],
        ["check", "--output-file", f"{folder}/{NAME}.py/x", "."], ["check", "--diff", str(folder)],
        ["check", "--baseline", NAME, "."], ["check", "--write-baseline", f"{folder}/{NAME}", str(folder)],
        ["check", "--baseline", f"{folder}/{NAME}", str(folder)], ["check", "--fix", str(folder)],
    ):  # fmt: skip
        try:
            status = main(arguments)
        except SystemExit as ended:
            status = int(str(ended.code))
        assert status in (1, 2), arguments
        for text in capsys.readouterr():
            for colour in ("\x1b[0m", *_COLOURS.values()) if "always" in arguments else ():
                text = text.replace(colour, "")
            assert not set("\x1b\x07\r\u202e") & set(text), (arguments, text)
            assert not any(line.startswith(("Found 0", "::set")) for line in text.splitlines()), (arguments, text)


@pytest.mark.parametrize("error", [MemoryError(), RecursionError("deep"), ValueError("x")])
@pytest.mark.parametrize("where", ["check", "by_cell"])
def test_no_error_leaves_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, where: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("tapecheck.check.check" if where == "check" else "tapecheck.cli.checking.by_cell", fail)
    cell = {"cell_type": "code", "metadata": {}, "source": TWICE}
    (tmp_path / "book.ipynb").write_text(json.dumps({"nbformat": 4, "metadata": {}, "cells": [cell]}))
    entry = check_file(str(tmp_path / "book.ipynb"), CheckOptions(fixes=False))
    assert [problem.kind for problem in entry.problems] == ["internal-error"]
    assert type(error).__name__ in entry.problems[0].message


class Unsendable:
    """A result that breaks while it is sent from one process to another."""

    def __reduce__(self) -> str:
        raise pickle.PicklingError("too deep")


def _unsendable(path: str, _: CheckOptions) -> object:
    return Unsendable() if path.endswith("f7.py") else check_file(path, CheckOptions(fixes=False))


def test_a_result_that_cannot_be_sent_costs_its_own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(30):
        (tmp_path / f"f{number}.py").write_text(TWICE)
    paths = sorted(map(str, tmp_path.glob("*.py")))
    monkeypatch.setattr(checking, "check_file", _unsendable)
    entries = list(check_files(paths, CheckOptions(fixes=False), jobs=2))
    assert [Path(entry.path).name for entry in entries if entry.problems] == ["f7.py"]
    assert sum(len(entry.findings) for entry in entries) == 29


def test_many_folders_within_one_another_are_walked(tmp_path: Path) -> None:
    deepest = tmp_path
    for _ in range(900):
        deepest = deepest / "d"
    os.makedirs(deepest)
    (deepest / "train.py").write_text(TWICE)
    done = tapecheck(tmp_path, "check", "--no-fixes", ".")
    assert done.returncode == 1 and done.stdout.count("error[TAPE101]") == 1, done.stderr[-500:]


SHAPES = (
    "x = " + "(" * 5_000,
    "x = " + "-" * 200_000 + "1",
    "x = " + "1+" * 100_000 + "1",
    "x" + ".y" * 100_000,
    "x" + "[0]" * 50_000,
    "f" + "()" * 50_000,
    "x = " + "[" * 90 + "]" * 90,
    "if a:\n" + "".join(" " * (n + 1) + "if a:\n" for n in range(95)) + " " * 97 + "pass\n",
    "a = " + "b = " * 20_000 + "1",
    "x = " + "lambda: " * 20_000 + "1",
    "x = " + "a if b else " * 20_000 + "c",
    "x = " + "not " * 50_000 + "1",
    "x = " + "f'{" * 100 + "1" + "}'" * 100,
    "x = '" + "a" * 1_000_000 + "'",
    "x = " + "9" * 1_000_000,
    "x = 0x" + "f" * 1_000_000,
    "def f(" + ", ".join(f"a{n}" for n in range(5_000)) + "): pass\nf()",
    "# coding: punycode\n" + "-a" * 100_000,
    "# coding: undefined\n",
    "# coding: zlib\n",
    "\x00" * 1000,
    "match x:\n" + " case " + "[" * 80 + "]" * 80 + ": pass\n",
    "if a: pass\n" + "elif a: pass\n" * 5_000,
    "async def f():\n  await " + "await " * 20_000 + "x\n",
    "x: " + "list[" * 90 + "int" + "]" * 90 + " = 1",
    "@a\n" * 5_000 + "def f(): pass\nf()",
    "with " + ", ".join("a" for _ in range(5_000)) + ": pass",
    "try:\n pass\n" + "except a:\n pass\n" * 500,
    "x = {" + "**{}," * 20_000 + "}",
    "del " + "a," * 20_000 + "a",
    "from a import " + ",".join(f"b{n}" for n in range(5_000)),
)


def test_programs_of_hostile_shapes_cost_no_other_file(tmp_path: Path) -> None:
    for number, text in enumerate(SHAPES):
        (tmp_path / f"a{number}.py").write_text(text)
        (tmp_path / f"b{number}.py").write_text(f"import a{number}\n{TWICE}")
    done = tapecheck(tmp_path, "check", "--no-fixes", "--jobs", "1", ".")
    assert done.returncode == 1, done.stderr[-1000:]
    assert "internal-error" not in done.stdout and done.stderr == "", done.stderr
    found = {line.split(":")[0] for line in done.stdout.splitlines() if line.startswith(" --> b")}
    assert len(found) == len(SHAPES) == done.stdout.count("error[TAPE101]")
