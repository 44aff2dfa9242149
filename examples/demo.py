"""What Tapecheck does, shown on the programs beside this file: `make demo` runs it.

It checks all examples, records one of them, applies the fix that is offered for what was found, and checks and
records the fixed program. It ends with an error if any of this does not come out as it should.
"""

from __future__ import annotations

import difflib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

EXAMPLES = Path(__file__).parent
STARRING = "char_rnn.py"


def tapecheck(*arguments: str, expected: int) -> None:
    """Run a command as it would be typed, and insist on its exit status."""
    print(f"\n$ tapecheck {' '.join(arguments)}", flush=True)
    status = subprocess.run([sys.executable, "-m", "tapecheck", *arguments], cwd=EXAMPLES.parent).returncode
    if status != expected:
        sys.exit(f"demo: exit status {status} where {expected} was expected")


def preferred_fix(program: str) -> dict:
    """The first fix of the first finding, as an editor would get it."""
    command = [sys.executable, "-m", "tapecheck", "check", "--output-format", "json", program]
    findings = json.loads(subprocess.run(command, capture_output=True, text=True, cwd=EXAMPLES.parent).stdout)
    return next(finding["fix"] for finding in findings if finding["fix"])


def apply(text: str, edits: list[dict]) -> str:
    """The text with edits made; rows and columns count from 1, columns in characters."""
    lines = text.splitlines(keepends=True)

    def offset(place: dict) -> int:
        return sum(map(len, lines[: place["row"] - 1])) + place["column"] - 1

    for edit in sorted(edits, key=lambda edit: offset(edit["location"]), reverse=True):
        start, end = offset(edit["location"]), offset(edit["end_location"])
        text = text[:start] + edit["content"] + text[end:]
    return text


def main() -> None:
    tapecheck("check", "examples", expected=1)

    program = EXAMPLES / STARRING
    name = str(program.relative_to(EXAMPLES.parent))
    tapecheck("run", "--no-fixes", name, expected=1)

    fix = preferred_fix(name)
    before = program.read_text()
    after = apply(before, fix["edits"])
    print(f"\nThe fix: {fix['message']}")
    print("".join(difflib.unified_diff(before.splitlines(True), after.splitlines(True), name, "fixed.py")), end="")

    with tempfile.TemporaryDirectory() as folder:
        fixed = Path(folder) / "fixed.py"
        fixed.write_text(after)
        tapecheck("check", str(fixed), expected=0)
        tapecheck("run", str(fixed), expected=0)


if __name__ == "__main__":
    main()
