"""`tapecheck check` in a project that is configured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tapecheck.cli.main import main
from tapecheck.report.checked import DEFAULT_LEVEL
from tapecheck.rules import ALL
from tapecheck.source.configuration import KEYS, configuration_for, parse
from tapecheck.source.selection import Selection
from tests.cli.test_check import TWICE
from tests.cli.test_fix import SEVERAL, check, found, here  # noqa: F401

RETAINED = TWICE.removesuffix("loss.backward()\nloss.backward()\n") + "loss.backward(retain_graph=True)\n"


def rows(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json.loads(check(capsys, "--output-format", "json", *arguments)[1])
    return listed


def test_severities_and_what_fails_are_the_project_s(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "train.py").write_text(RETAINED)
    (here / "tapecheck.toml").write_text('fail-on = "error"\n')
    assert check(capsys, "train.py")[0] == 0
    assert check(capsys, "--fail-on", "info", "train.py")[0] == 1
    (here / "tapecheck.toml").write_text('fail-on = "error"\n[severity]\nTAPE301 = "error"\n')
    assert check(capsys, "train.py")[0] == 1
    assert [row["severity"] for row in rows(capsys, "train.py")] == ["error"]
    assert check(capsys, "--isolated", "train.py")[1].startswith("info[TAPE301]")


def test_files_are_excluded_and_rules_ignored_in_some(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("src/a.py", "tests/b.py", "old/c.py"):
        (here / name).parent.mkdir()
        (here / name).write_text(TWICE)
    (here / "pyproject.toml").write_text(
        '[tool.tapecheck]\nextend-exclude = ["old"]\nper-file-ignores = { "tests/*" = ["TAPE1"] }\n'
    )
    assert [row["filename"] for row in rows(capsys, ".")] == ["src/a.py"]
    assert [row["filename"] for row in rows(capsys, "--exclude", "src,old", ".")] == []
    assert [row["filename"] for row in rows(capsys, "old/c.py")] == ["old/c.py"]
    assert rows(capsys, "--force-exclude", "old/c.py") == []
    status, _, err = check(capsys, "--exclude", "!", ".")
    assert status == 2 and "'!' is not a valid pattern" in err


def test_another_configuration_or_none(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "train.py").write_text(TWICE)
    (here / "tapecheck.toml").write_text('ignore = ["TAPE101"]\n')
    (here / "strict.toml").write_text('ignore = ["TAPE2"]\n')
    assert check(capsys, "train.py")[0] == 0
    assert check(capsys, "--config", "strict.toml", "train.py")[0] == 1
    assert check(capsys, "--isolated", "train.py")[0] == 1
    # What one call chose does not hold for the next, nor for whoever asks in this process.
    assert configuration_for("train.py").ignore == ("TAPE101",)
    assert check(capsys, "train.py")[0] == 0
    status, _, err = check(capsys, "--config", "gone.toml", "train.py")
    assert status == 2 and "gone.toml: no such file" in err


UNUSABLE = {
    "a rule that does not exist": (
        "tapecheck.toml", 'ignore = ["backward-twise", "unused-ignore"]\n',
        "`ignore`: no rule is called 'backward-twise'; did you mean `backward-twice`?",
    ),
    "a prefix of no rule": (
        "tapecheck.toml", 'severity = { TAPE9 = "hint" }\n', "`severity`: no rule is called 'TAPE9'",
    ),
    "no TOML": ("tapecheck.toml", "select = [TAPE101\n", "not valid TOML"),
    "an unknown key": (
        "pyproject.toml", "[tool.tapecheck]\nselct = []\n",
        "unknown key `tool.tapecheck.selct`; did you mean `select`?",
    ),
    "a configuration to inherit from": (
        "tapecheck.toml", 'extend = "base.toml"\n',
        "unknown key `extend`; a configuration does not inherit from another",
    ),
    "keys in Ruff's place": (
        "pyproject.toml", '[tool.tapecheck.lint]\nselect = ["TAPE1"]\n',
        "unknown key `tool.tapecheck.lint`; its keys belong under [tool.tapecheck]",
    ),
    "a value of another type": (
        "pyproject.toml", '[tool.tapecheck]\nselect = "ALL"\n', "`tool.tapecheck.select` must be a list of strings",
    ),
    "no level": (
        "tapecheck.toml", 'fail-on = "warn"\n',
        "`fail-on` must be error, warning, info, hint or never; did you mean `warning`?",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_configuration_that_cannot_be_used_ends_the_command(
    name: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, text, said = UNUSABLE[name]
    (here / "train.py").write_text(TWICE)
    (here / file).write_text(text)
    for arguments in (("train.py",), ("--output-format", "json", "."), ("--exit-zero", "."), ("--fix", ".")):
        status, out, err = check(capsys, *arguments)
        assert (status, out) == (2, "")
        assert f"{file}: " in err and said in err
        assert err.splitlines()[-1] == "tapecheck: nothing was checked: the configuration cannot be used"
    assert (here / "train.py").read_text() == TWICE
    assert main(["run", "train.py"]) == 2
    assert said in capsys.readouterr().err
    assert check(capsys, "--isolated", "train.py")[0] == 1


def test_one_configuration_of_several_that_cannot_be_used_ends_the_command(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder, text in (("a", 'select = ["TAPE1"]\n'), ("b", "odd = 1\n")):
        (here / folder).mkdir()
        (here / folder / "train.py").write_text(TWICE)
        (here / folder / "tapecheck.toml").write_text(text)
    assert check(capsys, "a")[0] == 1
    assert check(capsys, ".")[:2] == (2, "")


@pytest.mark.parametrize("select", ["ALL", "all", "tape1", "TAPE101", "Tape101", "backward-twice"])
def test_rules_are_named_in_any_case_and_all_at_once(
    select: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "train.py").write_text(TWICE)
    assert [row["code"] for row in rows(capsys, "--select", select, "train.py")] == ["TAPE101"]
    assert rows(capsys, "--ignore", select, "train.py") == []
    (here / "tapecheck.toml").write_text(f'select = ["{select}"]\nseverity = {{ {select} = "info" }}\n')
    assert [row["severity"] for row in rows(capsys, "train.py")] == ["info"]
    (here / "tapecheck.toml").write_text(f'per-file-ignores = {{ "train.py" = ["{select}"] }}\n')
    assert rows(capsys, "train.py") == []
    (here / "tapecheck.toml").write_text("")
    (here / "train.py").write_text(TWICE.rstrip() + f"  # tapecheck: ignore[{select}]\n")
    assert rows(capsys, "train.py") == []


def test_rules_are_chosen_as_ruff_chooses_them(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "train.py").write_text(TWICE)
    config = here / "tapecheck.toml"
    for text, arguments, reported in (
        # The more exact name decides, and the command line goes before the file.
        ('select = ["TAPE2"]\n', (), False),
        ('select = ["TAPE2"]\nextend-select = ["TAPE101"]\n', (), True),
        ('select = ["TAPE2"]\n', ("--extend-select", "TAPE1"), True),
        ('ignore = ["TAPE101"]\n', ("--extend-select", "TAPE101"), True),
        ('ignore = ["TAPE101"]\n', ("--select", "TAPE1"), True),
        ('ignore = ["TAPE101"]\n', ("--select", "TAPE1", "--ignore", "tape101"), False),
        ('ignore = ["ALL"]\nselect = ["TAPE101"]\n', (), True),
        ('extend-ignore = ["TAPE1"]\n', (), False),
        ("", ("--extend-ignore", "TAPE101"), False),
        ('select = ["TAPE101"]\n', ("--extend-ignore", "TAPE1"), False),
        ("", ("--ignore", "TAPE1", "--extend-select", "TAPE101"), True),
        ("", ("--per-file-ignores", "*.py:TAPE1"), False),
        ("", ("--per-file-ignores", "lib/*:ALL, train.py:backward-twice"), False),
        ("", ("--per-file-ignores", "lib/*:ALL"), True),
        ('per-file-ignores = { "*.py" = ["TAPE1"] }\n', ("--per-file-ignores", "lib/*:ALL"), True),
        ('per-file-ignores = { "*.py" = ["TAPE1"] }\n', ("--extend-per-file-ignores", "lib/*:ALL"), False),
        ('extend-per-file-ignores = { "*.py" = ["TAPE1"] }\n', ("--select", "ALL"), False),
    ):
        config.write_text(text)
        found = [row["code"] for row in rows(capsys, *arguments, "train.py")]
        assert found == ["TAPE101"] * reported, (text, arguments)
        # What --show-settings prints could stand in the file in the place of both.
        settings = json.loads(check(capsys, "--show-settings", *arguments, "train.py")[1])["settings"]
        known = {key: value for key, value in settings.items() if value is not None}
        wanted = parse(known, str(config), own=True).rules_for(str(here / "train.py"), Selection())
        assert wanted.wants("TAPE101", "backward-twice") is reported, (text, arguments)


def test_what_the_command_line_says_of_files_is_checked(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "train.py").write_text(TWICE)
    for given, said in (("a.py", "expected PATTERN:RULE"), ("!:TAPE1", "'!' is not a valid pattern")):
        with pytest.raises(SystemExit) as ended:
            main(["check", "--per-file-ignores", given, "train.py"])
        assert ended.value.code == 2 and said in capsys.readouterr().err
    status, _, err = check(capsys, "--per-file-ignores", "a.py:TAPE9", "train.py")
    assert status == 2 and "no rule is called 'TAPE9'" in err


NOQA = {
    "# noqa: TAPE101": True,
    "#noqa:tape101": True,
    "# NOQA: E501,TAPE101": True,
    "# noqa: E501 TAPE101": True,
    "# noqa: TAPE1": True,
    "# noqa: TAPE301": False,
    "# noqa: E501": False,
    "# noqa": False,
    "# see noqa: TAPE101": False,
}


@pytest.mark.parametrize("comment", NOQA)
def test_comments_of_linters_that_name_a_rule_switch_it_off(
    comment: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "train.py").write_text(TWICE.rstrip() + f"  {comment}\n")
    assert ("TAPE101" not in [row["code"] for row in rows(capsys, "train.py")]) is NOQA[comment]
    if NOQA[comment]:
        (here / "train.py").write_text(f"{comment.replace('#', '# ruff: ', 1)}\n{TWICE}")
        assert rows(capsys, "train.py") == []
        assert check(capsys, "--ignore", "TAPE101", "--fix", "train.py")[0] == 0


def test_the_unused_codes_of_a_linter_s_comment_are_removed_alone(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = {
        "import torch  # noqa: E501, TAPE101, F401": "import torch  # noqa: E501, F401",
        "import torch  # noqa: TAPE101": "import torch",
        "import torch  # noqa: TAPE101  # type: ignore": "import torch  # type: ignore",
        "import torch  # noqa: E501": "import torch  # noqa: E501",
        "import torch  # noqa": "import torch  # noqa",
    }
    for before, after in lines.items():
        (here / "train.py").write_text(f"{before}\n")
        found = [row["code"] for row in rows(capsys, "train.py")]
        assert found == ["unused-ignore"] * (before != after), before
        check(capsys, "--fix", "train.py")
        assert (here / "train.py").read_text() == f"{after}\n"


def test_a_project_may_want_comments_that_name_their_rules(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blanket = TWICE.rstrip() + "  # tapecheck: ignore\n"
    (here / "train.py").write_text(blanket)
    assert rows(capsys, "train.py") == []
    (here / "tapecheck.toml").write_text("require-codes = true\n")
    status, out, _ = check(capsys, "train.py")
    assert status == 1 and "warning[blanket-ignore]: ignore comment that names no rule" in out
    assert "write `# tapecheck: ignore[TAPE101]`" in out
    assert rows(capsys, "--ignore", "blanket-ignore", "train.py") == []
    check(capsys, "--fix", "train.py")
    assert (here / "train.py").read_text() == blanket.replace("ignore\n", "ignore[TAPE101]\n")
    assert check(capsys, "train.py")[0] == 0
    # One that hides nothing is unused, which is said once.
    (here / "train.py").write_text("import torch  # tapecheck: ignore\n")
    assert [row["code"] for row in rows(capsys, "train.py")] == ["unused-ignore"]
    assert [row["code"] for row in rows(capsys, "--ignore", "unused-ignore", "train.py")] == ["blanket-ignore"]
    (here / "train.py").write_text(f"# tapecheck: ignore-file\n{TWICE}")
    check(capsys, "--fix", "train.py")
    assert (here / "train.py").read_text() == f"# tapecheck: ignore-file[TAPE101]\n{TWICE}"


MISSPELT = {
    "# noqa TAPE101": "# noqa: TAPE101",
    "# tapecheck: ignroe[TAPE101]": "# tapecheck: ignore[TAPE101]",
    "# tapecheck: disable=TAPE101": "# tapecheck: ignore[TAPE101]",
    "# tapecheck: ignore TAPE101": "# tapecheck: ignore[TAPE101]",
    "# tapecheck: ignore[TAPE101": "# tapecheck: ignore[TAPE101]",
    "# tapecheck: ignore=tape101, TAPE2": "# tapecheck: ignore[TAPE101, TAPE2]",
    "# tapecheck ignore[TAPE101]": "# tapecheck: ignore[TAPE101]",
    "# Tapecheck: ignore": "# tapecheck: ignore",
    "# tapecheck: noqa": "# tapecheck: ignore",
    "# tapecheck: ignore_file": "# tapecheck: ignore-file",
    "# noqa: E501  # tapecheck: skip-file": "# tapecheck: ignore-file",
    "# tapecheck: ignore {TAPE101}": "# tapecheck: ignore[TAPE101]",
    "# tapecheck: ignore; TAPE101": "# tapecheck: ignore[TAPE101]",
    "# tapcheck: ignore[TAPE101]": "# tapecheck: ignore[TAPE101]",
    "# tape-check: ignore[TAPE101]": "# tapecheck: ignore[TAPE101]",
    "# tapecheck; ignore[TAPE101]": "# tapecheck: ignore[TAPE101]",
    "# tapecheck= ignore[TAPE101]": "# tapecheck: ignore[TAPE101]",
    "# tapecheck - ignore[TAPE101]": "# tapecheck: ignore[TAPE101]",
    "# noqa[TAPE101]": "# noqa: TAPE101",
    "# noqa: TAPE-101": "# noqa: TAPE101",
    "# ignore: tapecheck[TAPE101]": "# tapecheck: ignore[TAPE101]",
    "# pylint: disable=x  tapecheck: ignore[TAPE101]": "# tapecheck: ignore[TAPE101]",
}


@pytest.mark.parametrize("comment", MISSPELT)
def test_comments_that_are_not_read_as_they_were_meant_are_reported(
    comment: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "train.py").write_text(f"import torch\nx = 1  {comment}\n")
    status, _, _ = check(capsys, "train.py")
    (row,) = [row for row in rows(capsys, "train.py") if row["code"] == "invalid-ignore"]
    assert (status, row["severity"], row["location"]["row"]) == (1, "warning", 2)
    assert f"write `{MISSPELT[comment]}`" in check(capsys, "train.py")[1]
    assert rows(capsys, "--ignore", "invalid-ignore,unused-ignore", "train.py") == []
    (here / "train.py").write_text(f"import torch\nx = 1  {MISSPELT[comment]}\n")
    assert not [row for row in rows(capsys, "train.py") if row["code"] == "invalid-ignore"]


@pytest.mark.parametrize(
    "comment",
    [
        "# tapecheck: ignore[TAPE101] the second call raises TAPE101", "# tapecheck: ignore since the test wants it",
        "# tapecheck: the loop below is fine", "# tapecheck: we ignore all the warnings here",
        "# tape - check the head", "# taped: disable the recorder", "# noqa: E501 TAPE101",
        "# see tapecheck's docs", "# tapecheck finds nothing here",
    ],
)  # fmt: skip
def test_comments_that_are_read_or_no_attempt_are_left_alone(
    comment: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "train.py").write_text(f"import torch\nx = 1  {comment}\n")
    assert not [row for row in rows(capsys, "train.py") if row["code"] == "invalid-ignore"]


def test_brackets_that_name_nothing_are_reported(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "train.py").write_text("import torch\nx = 1  # tapecheck: ignore[]\n")
    assert [row["code"] for row in rows(capsys, "train.py")] == ["invalid-ignore"]
    assert "name the rules in brackets, or remove it" in check(capsys, "train.py")[1]


@pytest.mark.parametrize(
    "text",
    ["[tool]\ntapecheck = 3\n", '[tool."tapecheck"]\nselect = ["TAPE2"]\n[[\n', "tool . tapecheck . select = [\n"],
)
def test_a_table_that_is_none_ends_the_command(text: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "train.py").write_text(TWICE)
    (here / "tapecheck.toml").unlink(missing_ok=True)
    (here / "pyproject.toml").write_text(text)
    status, out, _ = check(capsys, "train.py")
    assert status == 2 and "TAPE101" not in out


def test_the_project_s_baseline_is_used(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "train.py").write_text(TWICE)
    check(capsys, "--write-baseline", "ci/known.json", ".")
    (here / "tapecheck.toml").write_text('baseline = "ci/known.json"\n')
    assert check(capsys, ".")[0] == 0
    (here / "train.py").write_text(SEVERAL)
    assert len(found(capsys, ".")) == 3


UNUSED = """\
import torch  # tapecheck: ignore

w = torch.ones(3, requires_grad=True)
loss = (w * w).sum()
loss.backward(retain_graph=True)  # tapecheck: ignore[TAPE301, TAPE201, nonsense]
"""


def test_an_ignore_comment_with_a_misspelt_rule_says_which_may_be_meant(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "train.py").write_text("import torch  # tapecheck: ignore[backward-twise]\n")
    out = check(capsys, "--output-format", "concise", "train.py")[1]
    assert "unused ignore comment: there is no rule backward-twise, did you mean `backward-twice`?" in out


def test_unused_ignore_comments_are_hints_and_can_be_removed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "train.py").write_text(UNUSED)
    status, out, _ = check(capsys, "--output-format", "concise", "train.py")
    why = "TAPE201 would report nothing here; there is no rule nonsense"
    assert status == 0 and out.splitlines()[:2] == [
        "train.py:1:13: hint[unused-ignore] [*] unused ignore comment: nothing would be reported here",
        f"train.py:5:55: hint[unused-ignore] [*] unused ignore comment: {why}",
    ]
    assert check(capsys, "--fail-on", "hint", "train.py")[0] == 1
    assert check(capsys, "--ignore", "unused-ignore", "train.py")[1].startswith("No problems")
    assert check(capsys, "--select", "TAPE3", "train.py")[1].startswith("No problems")
    (row, _) = rows(capsys, "train.py")
    assert row["code"] == row["name"] == "unused-ignore" and row["url"].endswith("usage/#switching-rules-off")
    assert check(capsys, "--fix", "train.py")[2].startswith("Fixed 2 findings in 1 file:\n")
    fixed = UNUSED.replace("  # tapecheck: ignore\n", "\n").replace("TAPE301, TAPE201, nonsense", "TAPE301")
    assert (here / "train.py").read_text() == fixed


def test_a_comment_for_a_rule_that_is_not_judged_here_may_be_of_use(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "train.py").write_text("import torch  # tapecheck: ignore[TAPE2]\nx = 1  # tapecheck: ignore[TAPE3]\n")
    (here / "tapecheck.toml").write_text('ignore = ["TAPE201"]\n')
    assert [row["location"]["row"] for row in rows(capsys, "train.py")] == [2]


def test_the_settings_of_a_file_are_shown(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "train.py").write_text("x = 1\n")
    text = 'ignore = ["TAPE2"]\nseverity = { TAPE301 = "hint" }\nper-file-ignores = { "a*" = ["TAPE1"] }\n'
    (here / "tapecheck.toml").write_text(text)
    status, out, _ = check(capsys, "--show-settings", ".")
    shown = json.loads(out)
    assert status == 0 and shown["configuration"] == str(here / "tapecheck.toml") and shown["file"] == "train.py"
    assert set(shown["settings"]) == set(KEYS)
    settings = shown["settings"]
    assert settings["ignore"] == ["TAPE2"] and settings["severity"] == {"TAPE301": "hint"}
    # What nobody has set is shown as it holds.
    assert settings["select"] == ["ALL"]
    assert {rule.code for rule in ALL} - set(shown["rules"]) == {"TAPE201", "TAPE202", "TAPE203"}
    assert settings["fail-on"] == DEFAULT_LEVEL and "build" in settings["exclude"] and settings["respect-gitignore"]
    # What is shown could be written into a file as it is, and would hold as it is.
    given = {key: value for key, value in settings.items() if value is not None}
    assert parse(given, shown["configuration"], own=True).settings() == settings
    # The command line goes before the file.
    arguments = ("--select", "TAPE1", "--ignore", "TAPE102", "--fail-on", "hint", "--exclude", "x")
    settings = json.loads(check(capsys, "--show-settings", *arguments, ".")[1])["settings"]
    # `--select` stands in the place of what the file says of rules, as in Ruff.
    selected = [rule.code for rule in ALL if rule.code.startswith("TAPE1") and rule.code != "TAPE102"]
    assert settings["select"] == selected and settings["ignore"] == []
    assert settings["fail-on"] == "hint" and settings["exclude"] == ["x"]
    assert check(capsys, "--show-settings", "--isolated", ".")[1].count('"configuration": null') == 1


TRAINER = """\
class Trainer:
    def __init__(self, model):
        self.model, self.state = model, None

    def step(self, x):
        out, self.state = self.model(x, self.state)
        out.sum().backward()
"""
MAIN = """\
import torch
from trainer import Trainer

trainer = Trainer(torch.nn.GRU(3, 4))
for _ in range(3):
    trainer.step(torch.randn(5, 2, 3))
"""


def test_what_one_file_does_in_another_one_is_reported_there(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "trainer.py").write_text(TRAINER)
    (here / "main.py").write_text(MAIN)
    status, out, err = check(capsys, "--output-format", "json", ".")
    (row,) = json.loads(out)
    assert (status, err) == (1, "")
    assert (row["filename"], row["location"]["row"], row["code"]) == ("trainer.py", 7, "TAPE101")
    assert row["fix"]["edits"] and all("filename" not in edit for edit in row["fix"]["edits"])
    assert [place["filename"] for place in row["related"] if place["role"] == "called"] == ["main.py"]
    # It is of the program that main.py is, which is run where trainer.py alone is asked for.
    (alone,) = rows(capsys, "trainer.py")
    assert (alone["location"], alone["message"], alone["fix"]) == (row["location"], row["message"], row["fix"])
    assert rows(capsys, "main.py") == []
    assert "\n1 fixable with `--fix`.\n" in check(capsys, ".")[1]
    assert "\n1 fixable with `--fix`.\n" in check(capsys, "trainer.py")[1]
    assert "Would fix 1 finding in 1 file:" in check(capsys, "--diff", "trainer.py")[2]
    (here / "trainer.py").write_text(TRAINER.replace("backward()", "backward()  # tapecheck: ignore[TAPE101]"))
    assert rows(capsys, ".") == []


def test_a_fix_names_the_other_files_that_it_edits(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "trainer.py").write_text(TRAINER.replace("        out.sum().backward()\n", "        return out\n"))
    (here / "main.py").write_text(MAIN.replace("5, 2, 3))", "5, 2, 3)).sum().backward()"))
    (row,) = rows(capsys, ".")
    assert row["filename"] == "main.py"
    assert {edit["filename"].rsplit("/")[-1] for edit in row["fix"]["edits"]} == {"trainer.py"}


KEEPING = """\
class Trainer:
    def __init__(self, model, opt):
        self.model, self.opt, self.metrics = model, opt, []

    def fit(self, data):
        for x in data:
            loss = self.model(x).pow(2).mean()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            self.metrics.append(loss)
        return sum(self.metrics) / len(self.metrics)
"""
CALLING = """\
import torch
from trainer import Trainer

model = torch.nn.Linear(3, 1)
print(Trainer(model, torch.optim.SGD(model.parameters(), 0.1)).fit(torch.randn(20, 8, 3)).item())
"""


@pytest.mark.parametrize("asked", [".", "trainer.py", "trainer.py:11"])
def test_what_a_caller_makes_certain_is_told_and_mended_so(
    here: Path, capsys: pytest.CaptureFixture[str], asked: str
) -> None:
    (here / "trainer.py").write_text(KEEPING)
    paths = asked.partition(":")[:1]
    (row,) = rows(capsys, *paths)
    # By itself the module does not know what the model is.
    assert (row["certain"], row["fix"]["applicability"]) == (False, "unsafe")
    assert "No fixes to make." in check(capsys, "--fix", asked)[2]
    assert (here / "trainer.py").read_text() == KEEPING
    (here / "train.py").write_text(CALLING)
    (row,) = rows(capsys, *paths)
    assert (row["code"], row["certain"], row["fix"]["applicability"]) == ("TAPE201", True, "safe")
    _, _, err = check(capsys, "--fix", asked)
    assert "Fixed 1 finding in 1 file" in err and "Not made" not in err
    assert "self.metrics.append(loss.detach())" in (here / "trainer.py").read_text()
    assert (here / "train.py").read_text() == CALLING


_STEPS = """\
import torch


def fit(model, opt, data, target):
    for x in data:
        loss = (model(x) - target()).pow(2).mean()
        opt.zero_grad()
        loss.backward(retain_graph=True)
"""
_PROGRAM = """\
import torch
from steps import fit

model = torch.nn.Linear(3, 1)
start = model(torch.randn(8, 3))
fit(model, torch.optim.SGD(model.parameters(), 0.1), torch.randn(20, 8, 3), lambda: TARGET)
"""


def test_a_flag_that_one_of_several_programs_needs_is_not_needless(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "steps.py").write_text(_STEPS)
    (here / "plain.py").write_text(_PROGRAM.replace("TARGET", "start.detach()"))
    assert [row["code"] for row in rows(capsys, ".")] == ["TAPE301"]
    (here / "towards.py").write_text(_PROGRAM.replace("TARGET", "start"))
    assert rows(capsys, ".") == rows(capsys, "steps.py") == rows(capsys, "plain.py", "towards.py") == []
