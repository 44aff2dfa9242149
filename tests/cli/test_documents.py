"""Documents and configuration agree. What documents show of commands is tested in tests/docs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tapecheck.check import configuration_problems
from tapecheck.source.configuration import KEYS, parse, tomllib

ROOT = Path(__file__).parents[2]


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
