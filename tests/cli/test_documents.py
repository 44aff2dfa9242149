"""What the documents show is what the commands print."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tapecheck.check import configuration_problems
from tapecheck.source.configuration import KEYS, parse, tomllib
from tests.cases import under_torch

ROOT = Path(__file__).parents[2]
SHOWN = re.findall(r"```console\n\$ tapecheck (.+?)\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def test_the_readme_shows_commands() -> None:
    assert [command.split()[0] for command, _ in SHOWN] == ["check", "run"]


@pytest.mark.parametrize(("command", "shown"), SHOWN, ids=[command for command, _ in SHOWN])
def test_commands_print_what_is_shown(command: str, shown: str) -> None:
    if command.startswith("run") and not under_torch.has_torch():
        pytest.skip("torch is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "tapecheck", *command.split()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    printed = done.stdout.splitlines()
    if command.startswith("check"):
        assert printed == shown.splitlines()
        return
    # A line of dots stands for what is left out; the other lines come in this order.
    places = [printed.index(line) for line in shown.splitlines() if line != "..."]
    assert places and places == sorted(places)


@pytest.mark.parametrize("path", [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")], ids=lambda path: path.name)
def test_links_lead_to_files(path: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
        assert link.startswith("http") or (path.parent / link).exists(), link


def test_the_configuration_page_has_every_key_and_its_example_is_right() -> None:
    text = (ROOT / "docs" / "configuration.md").read_text()
    listed = re.findall(r"^\| (`[^|]+`) \|", text, re.MULTILINE)
    assert {name for row in listed for name in re.findall(r"`([^`]+)`", row)} == set(KEYS)
    example = re.search(r"```toml\n(.*?)```", text, re.DOTALL)
    assert example is not None
    found = parse(tomllib.loads(example[1]), "tapecheck.toml", own=True)
    assert configuration_problems(found) == [] and found.per_file_ignores and found.severity
