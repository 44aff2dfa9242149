"""What a project's pyproject.toml says, and the edit that adds to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tapecheck.source.configuration import Configuration, configuration_for, ignore_in_project


def project(folder: Path, text: str) -> str:
    (folder / "pyproject.toml").write_bytes(text.encode())
    return str(folder / "src" / "train.py")


def test_the_nearest_table_holds(tmp_path: Path) -> None:
    path = project(tmp_path, '[tool.tapecheck]\nselect = ["TAPE1"]\nignore = ["TAPE104"]\n')
    found = configuration_for(path)
    assert (found.select, found.ignore, found.problems) == (("TAPE1",), ("TAPE104",), ())
    (tmp_path / "src").mkdir()
    project(tmp_path / "src", "[tool.other]\nx = 1\n")
    assert configuration_for(path) == found, "a file without a table says nothing"
    project(tmp_path / "src", "[tool.tapecheck]\n")
    assert configuration_for(path).ignore == ()


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = project(tmp_path, "[tool.tapecheck]\n")
    assert configuration_for(path).ignore == ()
    project(tmp_path, '[tool.tapecheck]\nignore = ["TAPE301"]\n')
    assert configuration_for(path).ignore == ("TAPE301",)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('[tool.tapecheck]\nignore = "TAPE301"\n', "ignore must be a list of texts"),
        ("[tool.tapecheck]\nselect = [1]\n", "select must be a list of texts"),
        ("[tool.tapecheck]\nignored = []\n", "no key 'ignored'"),
        ("[tool.tapecheck\n", "pyproject.toml: "),
    ],
)
def test_what_cannot_be_is_said_and_changes_nothing(tmp_path: Path, text: str, complaint: str) -> None:
    found = configuration_for(project(tmp_path, text))
    (problem,) = found.problems
    assert complaint in problem
    assert (found.select, found.ignore) == (None, ())


def test_documents_without_a_file_have_no_project() -> None:
    assert configuration_for("untitled:Untitled-1") == Configuration()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '\n[tool.tapecheck]\nignore = ["TAPE301"]\n'),
        ("[project]\nname = 'x'", '[project]\nname = \'x\'\n\n[tool.tapecheck]\nignore = ["TAPE301"]\n'),
        ("[tool.tapecheck]\n[tool.x]\n", '[tool.tapecheck]\nignore = ["TAPE301"]\n[tool.x]\n'),
        ("[tool.tapecheck]\nignore = []\n", '[tool.tapecheck]\nignore = ["TAPE301"]\n'),
        ('[tool.tapecheck]\nignore=["A"]\n', '[tool.tapecheck]\nignore=["TAPE301", "A"]\n'),
        (
            '[tool.x]\nignore = ["B"]\n[tool.tapecheck]\r\nignore = [ # why\r\n  "A",\r\n]\r\n',
            '[tool.x]\nignore = ["B"]\n[tool.tapecheck]\r\nignore = ["TAPE301",  # why\r\n  "A",\r\n]\r\n',
        ),
    ],
)
def test_a_rule_is_switched_off_for_the_project(tmp_path: Path, before: str, after: str) -> None:
    path = project(tmp_path, before)
    edit = ignore_in_project(path, "TAPE301")
    assert edit is not None
    file, line, column, added = edit
    assert file == str(tmp_path / "pyproject.toml")
    lines = before.split("\n")
    lines[line - 1] = lines[line - 1][: column - 1] + added + lines[line - 1][column - 1 :]
    assert "\n".join(lines) == after
    project(tmp_path, "\n".join(lines))
    assert "TAPE301" in configuration_for(path).ignore


@pytest.mark.parametrize(
    "text", ["[tool\n", 'tool.tapecheck.ignore = ["A"]\n', "[tool]\ntapecheck = { ignore = [] }\n"]
)
def test_what_cannot_be_edited_with_certainty_is_left(tmp_path: Path, text: str) -> None:
    assert ignore_in_project(project(tmp_path, text), "TAPE301") is None


def test_without_a_project_there_is_nothing_to_edit() -> None:
    assert ignore_in_project("/nowhere/at/all/train.py", "TAPE301") is None


def test_folders_that_imports_are_looked_for_in(tmp_path: Path) -> None:
    path = project(tmp_path, '[tool.tapecheck]\nextra-paths = ["lib", "../shared"]\n')
    assert configuration_for(path).extra_paths == ("lib", "../shared")
    (problem,) = configuration_for(project(tmp_path, '[tool.tapecheck]\nextra-paths = "lib"\n')).problems
    assert "extra-paths must be a list" in problem
