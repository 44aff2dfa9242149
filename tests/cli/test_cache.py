"""Results on disk hold as long as nothing has changed that they come from, and are read without running anything."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from tapecheck import check as checking
from tapecheck.cli import cache, main
from tapecheck.report import Checked
from tapecheck.source import stored

TWICE = """import torch
from helper import step

w = torch.ones(2, requires_grad=True)
loss = (w * w).sum()
step(loss)
loss.backward()
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(stored.FOLDER, str(tmp_path / "cache"))
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "helper.py").write_text("def step(loss):\n    loss.backward()\n")
    (folder / "main.py").write_text(TWICE)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def analysed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were analysed, not taken from the cache."""
    paths: list[str] = []
    analyse = checking.check

    def spy(source, **options):  # type: ignore[no-untyped-def]
        if "cancelled" not in options:  # as the checks of fixes are
            paths.append(Path(source.path).name)
        return analyse(source, **options)

    monkeypatch.setattr(checking, "check", spy)
    return paths


def run(*arguments: str) -> int:
    return main(["check", "--jobs", "1", *arguments])


def test_the_second_check_prints_the_same_without_an_analysis(
    project: Path, analysed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("main.py") == 1
    first = capsys.readouterr().out
    assert analysed == ["main.py"] and "TAPE101" in first and "fix (unsafe)" in first
    assert run("main.py") == 1
    assert analysed == ["main.py"] and capsys.readouterr().out == first


def test_what_was_changed_is_analysed_again(project: Path, analysed: list[str]) -> None:
    assert run("main.py") == 1
    (project / "helper.py").write_text("def step(loss):\n    loss.backward(retain_graph=True)\n")
    assert run("main.py") == 0
    (project / "helper.py").unlink()
    assert run("main.py") == 0
    (project / "helper.py").write_text("def step(loss):\n    loss.backward()\n")
    assert run("main.py") == 1
    (project / "main.py").write_text(TWICE.replace("step(loss)\n", ""))
    assert run("main.py") == 0
    assert len(analysed) == 5


@pytest.mark.parametrize("options", [["--no-cache"], ["--select", "TAPE1"], ["--no-fixes"]])
def test_other_options_share_no_result(project: Path, analysed: list[str], options: list[str]) -> None:
    run("main.py")
    run(*options, "main.py")
    assert len(analysed) == 2


def test_the_configuration_counts(project: Path, analysed: list[str]) -> None:
    assert run("main.py") == 1
    (project / "tapecheck.toml").write_text('ignore = ["TAPE101"]\n')
    assert run("main.py") == 0
    assert len(analysed) == 2


def test_nothing_is_kept_without_a_cache(project: Path) -> None:
    run("--no-cache", "main.py")
    assert not Path(os.environ[stored.FOLDER]).exists()


def entries() -> list[Path]:
    return [path for path in Path(os.environ[stored.FOLDER]).glob("*/*") if path.is_file()]


class Trap:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("trapped",)


@pytest.mark.parametrize(
    "content",
    [b"", b"\x80", b"no pickle", pickle.dumps(Trap()), pickle.dumps(Checked("x")), pickle.dumps([1, 2])],
    ids=["empty", "cut-off", "text", "trap", "other", "list"],
)
def test_an_entry_that_is_none_is_passed_over_and_runs_nothing(
    project: Path, analysed: list[str], content: bytes
) -> None:
    run("main.py")
    (entry,) = entries()
    entry.write_bytes(content)
    assert run("main.py") == 1
    assert len(analysed) == 2
    assert not Path("trapped").exists()


def test_a_folder_that_cannot_be_written_costs_nothing_else(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(stored.FOLDER, str(tmp_path / "file"))
    assert run("main.py") == 1
    assert "TAPE101" in capsys.readouterr().out


def test_old_entries_give_way(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_MOST_ENTRIES", 3)
    for number in range(6):
        (project / f"program{number}.py").write_text(TWICE)
        run(f"program{number}.py")
    assert 1 <= len(entries()) <= 4
