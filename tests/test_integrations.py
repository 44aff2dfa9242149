"""What other systems use of this repository: pre-commit's hooks, the GitHub Action, the documents that show them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tapecheck.cli import main
from tapecheck.cli.main import _parser
from tapecheck.version import __version__

ROOT = Path(__file__).parents[1]
TWICE = """\
import torch

w = torch.ones(3, requires_grad=True)
loss = (w * w).sum()
loss.backward()
print(w.grad); w.grad = None
loss.backward()
"""


def hooks() -> dict[str, list[str]]:
    """The words of each hook's command, by its id."""
    text = (ROOT / ".pre-commit-hooks.yaml").read_text()
    found = re.findall(r"^- id: (\S+)\n(?:  .*\n)*?  entry: (.+)$", text, re.MULTILINE)
    return {name: shlex.split(entry) for name, entry in found}


def test_the_hooks_check_and_fix_what_is_not_excluded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old").mkdir()
    for name in ("train.py", "old/train.py"):
        (tmp_path / name).write_text(TWICE)
    (tmp_path / "tapecheck.toml").write_text('extend-exclude = ["old"]\n')
    commands = hooks()
    assert list(commands) == ["tapecheck", "tapecheck-fix"]
    program, *check = commands["tapecheck"]
    assert program == "tapecheck" and main([*check, "train.py", "old/train.py"]) == 1
    assert "in 1 file: 1 error" in capsys.readouterr().out
    assert main([*commands["tapecheck-fix"][1:], "train.py", "old/train.py"]) == 0
    assert (tmp_path / "train.py").read_text() != TWICE == (tmp_path / "old" / "train.py").read_text()


@pytest.mark.skipif(sys.platform == "win32", reason="the script is bash")
def test_the_action_s_script_passes_inputs_on_and_executes_none_of_them(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TWICE)
    binary = tmp_path / "home" / "tapecheck" / "bin"
    binary.mkdir(parents=True)
    (binary / "tapecheck").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m tapecheck "$@"\n')
    (binary / "tapecheck").chmod(0o755)
    environment = {
        **os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "RUNNER_TEMP": str(tmp_path / "home"),
        "RUNNER_OS": "Linux", "TAPECHECK_PATHS": "train.py\n $(touch${IFS}owned) `touch` *.none",
        "TAPECHECK_ARGS": "--fail-on never  --no-fixes",
        "TAPECHECK_FORMAT": "github", "TAPECHECK_SARIF": "out.sarif",
    }  # fmt: skip
    done = subprocess.run(
        ["bash", str(ROOT / ".ci" / "action"), "check"], cwd=tmp_path, env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert lines[0].startswith("::error title=Tapecheck (TAPE101 backward-twice),file=train.py,line=7")
    # Files that are not there are errors of their own: each word was a name and nothing else.
    assert [re.findall(r"file=([^,]+)", line)[0] for line in lines[1:]] == ["$(touch${IFS}owned)", "`touch`", "*.none"]
    assert done.returncode == 1 and not (tmp_path / "owned").exists()
    assert '"ruleId": "TAPE101"' in (tmp_path / "out.sarif").read_text()


def test_the_action_hands_over_every_input_as_a_variable() -> None:
    text = (ROOT / "action.yml").read_text()
    inputs = re.findall(r"^  ([a-z-]+):\n    description:", text, re.MULTILINE)
    listed = (ROOT / "docs" / "ci.md").read_text()
    assert inputs == re.findall(r"^\| `([a-z-]+)` \|", listed, re.MULTILINE)
    for line in text.splitlines():
        if "run:" in line:
            assert "${{" not in line
    script = (ROOT / ".ci" / "action").read_text()
    assert set(re.findall(r"TAPECHECK_\w+", text)) == set(re.findall(r"TAPECHECK_\w+", script))


@pytest.mark.parametrize("page", ["ci.md", "usage.md", "configuration.md"])
def test_options_that_documents_show_exist(page: str) -> None:
    known = {
        option
        for action in _parser()._actions
        for sub in (getattr(action, "choices", None) or {}).values()
        if hasattr(sub, "_option_string_actions")
        for option in sub._option_string_actions
    }
    shown = re.findall(r"tapecheck (?:check|run|rule|version)((?: [^\n`|]+)?)", (ROOT / "docs" / page).read_text())
    options = {word.partition("=")[0] for words in shown for word in words.split() if word.startswith("-")}
    assert {option.rstrip(".,") for option in options if len(option) > 1} <= known
    assert page == "configuration.md" or options


def test_the_mirror_has_the_same_hooks_and_this_version() -> None:
    mirror = ROOT / ".ci" / "mirror"
    own, mirrored = ((folder / ".pre-commit-hooks.yaml").read_text().partition("\n")[2] for folder in (ROOT, mirror))
    assert mirrored == own
    text = (mirror / "pyproject.toml").read_text()
    assert f'version = "{__version__}"' in text and f'"tapecheck=={__version__}"' in text
    assert f"rev: v{__version__}" in (mirror / "README.md").read_text()


def test_what_is_released_has_checksums_and_says_where_it_was_built() -> None:
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    built, _, published = workflow.partition("  testpypi:")
    assert "sha256sum -- dist/*.whl dist/*.tar.gz *.vsix" in built and "attest-build-provenance" in built
    assert "test.pypi.org" in published and "id-token: write" in published and "password" not in workflow
    # A release candidate goes to TestPyPI alone.
    assert published.count("if: ${{ !contains(github.ref_name, 'a')") == 2
