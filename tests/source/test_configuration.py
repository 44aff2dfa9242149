"""What a project's pyproject.toml says, and the edit that adds to it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tapecheck.source.configuration import KEYS, Configuration, configuration_for, ignore_in_project, parse
from tapecheck.source.project import Setup
from tapecheck.source.schema import schema
from tapecheck.source.selection import Selection


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
        ('[tool.tapecheck]\nignore = "TAPE301"\n', "`tool.tapecheck.ignore` must be a list of strings"),
        ("[tool.tapecheck]\nselect = [1]\n", "`tool.tapecheck.select` must be a list of strings"),
        ("[tool.tapecheck]\nignored = []\n", "unknown key `tool.tapecheck.ignored`; did you mean `ignore`?"),
        ("[tool.tapecheck]\nextend_exclude = []\n", "did you mean `extend-exclude`?"),
        ("[tool.tapecheck]\nxyz = []\n", "unknown key `tool.tapecheck.xyz`"),
        ("[tool.tapecheck]\nexclude = ['a', '!']\n", "`tool.tapecheck.exclude`: '!' is not a valid pattern"),
        ("[tool.tapecheck]\nforce-exclude = 1\n", "`tool.tapecheck.force-exclude` must be true or false"),
        ("[tool.tapecheck]\nbaseline = []\n", "`tool.tapecheck.baseline` must be a string"),
        ("[tool.tapecheck]\nfail-on = 'warn'\n", "info, hint or never; did you mean `warning`?"),
        ("[tool.tapecheck]\nseverity = 'error'\n", "`tool.tapecheck.severity` must be a table"),
        ("[tool.tapecheck.severity]\nTAPE301 = 'hin'\n", "`tool.tapecheck.severity.TAPE301` must be error, warning,"),
        ("[tool.tapecheck.per-file-ignores]\n'a*' = 'TAPE1'\n", 'per-file-ignores."a*"` must be a list'),
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
        ("[project]\nname = 'x'", "[project]\nname = 'x'\n\n[tool.tapecheck]\nignore = [\"TAPE301\"]\n"),
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
    assert "`tool.tapecheck.extra-paths` must be a list" in problem


def test_a_file_of_its_own_goes_before_pyproject_and_a_nearer_one_before_both(tmp_path: Path) -> None:
    path = project(tmp_path, '[tool.tapecheck]\nignore = ["TAPE104"]\n')
    (tmp_path / "tapecheck.toml").write_text('ignore = ["TAPE2"]\n')
    assert configuration_for(path).ignore == ("TAPE2",)
    (tmp_path / "src").mkdir()
    project(tmp_path / "src", "[tool.tapecheck]\n")
    assert configuration_for(path).ignore == ()
    (tmp_path / "src" / "tapecheck.toml").write_text("ignor = [")
    assert "tapecheck.toml: " in configuration_for(path).problems[0]
    (tmp_path / "src" / "tapecheck.toml").write_text("ignor = []")
    assert configuration_for(path).problems[0].endswith("unknown key `ignor`; did you mean `ignore`?")


def test_files_have_rules_of_their_own(tmp_path: Path) -> None:
    table = """
[tool.tapecheck]
ignore = ["TAPE104"]
[tool.tapecheck.per-file-ignores]
"tests/**" = ["TAPE1", "needless-retain-graph"]
"*.ipynb" = ["TAPE2"]
"""
    project(tmp_path, table)
    found = configuration_for(str(tmp_path / "x.py"))
    assert not found.problems

    def ignored(name: str) -> tuple[str, ...]:
        return found.rules_for(str(tmp_path / name), Selection()).ignored

    assert ignored("train.py") == ignored("src/tests/a.py") == ()
    assert ignored("tests/deep/a.py") == ("TAPE1", "needless-retain-graph")
    assert ignored("a/b.ipynb") == ("TAPE2",)
    assert found.rules_for("/elsewhere/tests/a.py", Selection()).ignored == ()


def test_the_most_exact_name_gives_the_severity(tmp_path: Path) -> None:
    project(tmp_path, '[tool.tapecheck.severity]\nTAPE = "hint"\nTAPE3 = "info"\nneedless-retain-graph = "error"\n')
    found = configuration_for(str(tmp_path / "x.py"))
    assert found.severity_of("TAPE301", "needless-retain-graph") == "error"
    assert found.severity_of("TAPE302", "other") == "info"
    assert found.severity_of("TAPE101", "backward-twice") == "hint"
    assert Configuration().severity_of("TAPE101", "backward-twice") is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", 'ignore = ["TAPE301"]\n'),
        ('fail-on = "error"\n', 'ignore = ["TAPE301"]\nfail-on = "error"\n'),
        ('ignore = ["A"]\n[severity]\n', 'ignore = ["TAPE301", "A"]\n[severity]\n'),
        ('[severity]\nTAPE1 = "hint"\n', 'ignore = ["TAPE301"]\n[severity]\nTAPE1 = "hint"\n'),
    ],
)
def test_a_rule_is_switched_off_in_a_file_of_its_own(tmp_path: Path, before: str, after: str) -> None:
    (tmp_path / "tapecheck.toml").write_text(before)
    edit = ignore_in_project(str(tmp_path / "train.py"), "TAPE301")
    assert edit is not None
    file, line, column, added = edit
    lines = before.split("\n")
    lines[line - 1] = lines[line - 1][: column - 1] + added + lines[line - 1][column - 1 :]
    assert (Path(file).name, "\n".join(lines)) == ("tapecheck.toml", after)


def test_one_file_or_none_can_be_chosen_for_all(tmp_path: Path) -> None:
    path = project(tmp_path, '[tool.tapecheck]\nignore = ["TAPE104"]\n')
    (tmp_path / "other.toml").write_text('ignore = ["TAPE2"]\n')
    assert Setup(str(tmp_path / "other.toml")).project_of(path).configuration.ignore == ("TAPE2",)
    assert Setup(isolated=True).project_of(path).configuration == Configuration()
    assert Setup().project_of(path).configuration.ignore == ("TAPE104",)


def test_the_published_schema_is_current_and_says_what_the_reader_says() -> None:
    published = json.loads((Path(__file__).parents[2] / "docs" / "tapecheck.schema.json").read_text())
    assert published == schema()
    assert set(published["properties"]) == set(KEYS)
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft7Validator.check_schema(published)
    validator = jsonschema.Draft7Validator(published)
    values: list[object] = [
        [], ["TAPE1"], [1], "error", "never", "hint", "", 1, True, {}, {"TAPE301": "hint"}, {"TAPE301": "never"},
        {"a/*": ["TAPE1"]}, {"a/*": "TAPE1"}, {"a": [1]},
    ]  # fmt: skip
    told = 0
    for key in [*KEYS, "unknown"]:
        for value in values:
            problems = parse({key: value}, "x.toml").problems
            assert validator.is_valid({key: value}) == (not problems), (key, value, problems)
            told += bool(problems)
    assert told > 100
