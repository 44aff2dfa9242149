"""Repairs of public bugs: the table can be read, and a repository of two commits is judged by what they tell."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.ecosystem.repairs import holds, lines_told, repairs
from tests.ecosystem.test_survey import CLEAN, NEEDLESS


def test_each_repair_names_two_commits() -> None:
    kept = repairs()
    assert len(set(kept)) == len(kept) >= 20
    for repair in kept:
        assert re.fullmatch(r"[0-9a-f]{40}", repair.before) and re.fullmatch(r"[0-9a-f]{40}", repair.after)
        assert repair.before != repair.after and re.fullmatch(r"TAPE\d{3}", repair.rule)
        assert "/" in repair.repository and repair.path.endswith((".py", ".ipynb"))


def test_a_repair_holds_where_only_the_bug_is_told(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        done = subprocess.run(["git", *who, "-C", str(tmp_path), *words], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    git("init", "-q")
    commits: list[str] = []
    for text in (NEEDLESS, CLEAN):
        (tmp_path / "train.py").write_text(text)
        git("add", "train.py")
        git("commit", "-q", "-m", "train: a step")
        commits.append(git("rev-parse", "HEAD"))
    told = [lines_told(tmp_path, commit, "train.py", "TAPE301") for commit in commits]
    assert told[0] and told[1] == []
    assert lines_told(tmp_path, commits[0], "other.py", "TAPE301") is None
    assert lines_told(tmp_path, "0" * 40, "train.py", "TAPE301") is None


@pytest.mark.parametrize(
    ("before", "after", "wanted"), [([3], [], True), ([3, 9], [9], True), ([], [], False), ([3], [4], False)]
)
def test_what_holds(before: list[int], after: list[int], wanted: bool) -> None:
    assert holds(before, after) is wanted and holds(None, after) is None
