"""Which files of a folder are the project's: configuration, .gitignore files, what the command line adds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tapecheck.source.files import Choice, left_out, walk


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def found(top: str = ".", choice: Choice | None = None) -> list[str]:
    return sorted(Path(path).as_posix() for path in walk(top, choice=choice))


def test_the_configuration_excludes(here: Path) -> None:
    make(here, "a.py", "old/b.py", "src/old/c.py", "src/gen_d.py", "build/e.py", "keep/f.ipynb")
    (here / "tapecheck.toml").write_text('extend-exclude = ["old/", "gen_*.py"]\n')
    assert found() == ["a.py", "keep/f.ipynb"]
    # `exclude` stands in the place of the default, which leaves build outputs out.
    (here / "tapecheck.toml").write_text('exclude = ["/old"]\n')
    assert found() == ["a.py", "build/e.py", "keep/f.ipynb", "src/gen_d.py", "src/old/c.py"]
    # The nearest configuration holds.
    (here / "src" / "tapecheck.toml").write_text('exclude = ["gen_*"]\n')
    assert found() == ["a.py", "build/e.py", "keep/f.ipynb", "src/old/c.py"]


def test_the_command_line_goes_before_the_configuration(here: Path) -> None:
    make(here, "a.py", "old/b.py", "new/c.py", "build/d.py")
    (here / "tapecheck.toml").write_text('exclude = ["old"]\n')
    assert found(choice=Choice(exclude=("new",))) == ["a.py", "build/d.py", "old/b.py"]
    assert found(choice=Choice(extend_exclude=("new",))) == ["a.py", "build/d.py"]


def test_gitignore_files_hold_from_the_root_of_the_repository_down(here: Path) -> None:
    make(here, "a.py", "out/b.py", "src/c.tmp.py", "src/keep.tmp.py", "src/deep/d.py", "src/deep/e.py", "own.py")
    (here / ".git" / "info").mkdir(parents=True)
    (here / ".git" / "info" / "exclude").write_text("own.py\n")
    (here / ".gitignore").write_text("# outputs\nout/\n*.tmp.py\n\n!\n")
    (here / "src" / ".gitignore").write_text("!keep.tmp.py\n/deep/e.py\n")
    assert found() == ["a.py", "src/deep/d.py", "src/keep.tmp.py"]
    os.chdir("src")
    assert found() == ["deep/d.py", "keep.tmp.py"]
    assert found("deep") == ["deep/d.py"]
    os.chdir("..")
    # A folder that is asked for by name is searched though it is ignored.
    assert found("out") == ["out/b.py"]
    everything = ["a.py", "out/b.py", "own.py", "src/c.tmp.py", "src/deep/d.py", "src/deep/e.py", "src/keep.tmp.py"]
    assert set(found(choice=Choice(respect_gitignore=False))) == set(everything)
    (here / "tapecheck.toml").write_text("respect-gitignore = false\n")
    assert set(found()) == set(everything)
    assert found(choice=Choice(respect_gitignore=True)) == ["a.py", "src/deep/d.py", "src/keep.tmp.py"]


def test_a_repository_in_a_repository_begins_anew(here: Path) -> None:
    make(here, "a.py", "inner/b.py", "inner/.git/HEAD")
    (here / ".git").mkdir()
    (here / ".gitignore").write_text("b.py\n")
    assert found() == ["a.py", "inner/b.py"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_a_pipe_called_gitignore_is_not_read(here: Path) -> None:
    make(here, "a.py")
    os.mkfifo(here / ".gitignore")
    assert found() == ["a.py"]


def test_named_files_are_left_out_only_by_force(here: Path) -> None:
    make(here, "old/a.py", "src/b.py", "build/c.py", ".hidden/d.py")
    (here / "tapecheck.toml").write_text('extend-exclude = ["old"]\n')
    names = ("old/a.py", "src/b.py", "build/c.py", ".hidden/d.py")
    assert [left_out(name, Choice()) for name in names] == [False] * 4
    assert [left_out(name, Choice(force_exclude=True)) for name in names] == [True, False, True, True]
    (here / "tapecheck.toml").write_text('extend-exclude = ["old"]\nforce-exclude = true\n')
    assert [left_out(name, Choice()) for name in names] == [True, False, True, True]
    assert not left_out("old/a.py", Choice(force_exclude=False))
