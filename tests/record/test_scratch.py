"""Folders for a run's files: nothing is left of a process that was killed, nothing is taken from one that lives."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tapecheck.record.scratch import Scratch

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no flock")

HOLDS = """
import sys
from tapecheck.record.scratch import Scratch
scratch = Scratch()
(scratch.path / "tape.jsonl").write_text("a tape")
print(scratch.path, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def holder() -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_a_folder_goes_with_its_context(temporary: Path) -> None:
    with Scratch() as path:
        assert path.parent == temporary and path.is_dir()
        (path / "below").mkdir()
        (path / "below" / "file").write_text("text")
    assert list(temporary.iterdir()) == []


def test_the_folder_of_a_killed_process_goes_with_the_next_one_that_of_a_living_stays(temporary: Path) -> None:
    killed, left = holder()
    living, kept = holder()
    with killed, living:
        killed.kill()
        killed.wait()
        assert left.is_dir()
        with Scratch() as path:
            assert not left.exists()
            assert (kept / "tape.jsonl").read_text() == "a tape"
            assert {kept, path} == set(temporary.iterdir())
        living.kill()


def test_folders_that_are_not_its_own_are_left_alone(temporary: Path) -> None:
    other = temporary / "tapecheck-of-the-user"
    other.mkdir()
    (other / "notes.txt").write_text("mine")
    aim = temporary / "aim"
    aim.mkdir()
    (aim / "owned").write_text("")
    (temporary / "tapecheck-link").symlink_to(aim)
    with Scratch():
        assert (other / "notes.txt").exists() and (aim / "owned").exists()
