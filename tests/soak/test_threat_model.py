"""Every line of the threat model names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "threat-model.md"


def test_what_is_promised_is_tested() -> None:
    held = 0
    for line in PAGE.read_text(encoding="utf-8").partition("## Not promised")[0].splitlines():
        if not line.startswith("| ") or line.endswith("| held by |"):
            continue
        named = re.findall(r"`(tests/[\w/.]+?)(?:::(\w+))?`", line.rsplit("|", 2)[1])
        assert named, line
        for file, test in named:
            text = (ROOT / file).read_text(encoding="utf-8")
            assert not test or f"def {test}(" in text, f"{file} has no {test}"
            held += 1
    assert held > 20
