"""Expectations written on the lines of programs, as mypy's, pyright's and ty's tests write them.

A line that ends in `# TAPE101` is one where this finding is expected, and no other; several are separated by commas,
`?` marks one that only some runs show ("possible"). `# raises` before them says that torch raises there. With
`pytest --update-expectations` the comments are written anew to what was found; `# raises` is torch's and stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from tapecheck.rules.finding import Finding

_CODES = r"TAPE\d+\??(?:, TAPE\d+\??)*"
_COMMENT = re.compile(rf"[ ]*#( raises)?(?: ({_CODES}))?[ ]*$")
_FILE = re.compile(r"^# file: (\S+)\n", re.MULTILINE)

Place = tuple[str, int, str]
"""File, line, and code with `?` where the finding is only possible."""


@dataclass(slots=True)
class Project:
    """Files by name in their order; the last one is what torch runs."""

    files: dict[str, str] = field(default_factory=dict)

    @property
    def main(self) -> str:
        """Return the name of the file that is run."""
        return list(self.files)[-1]

    @property
    def expected(self) -> set[Place]:
        """Return the findings that the comments expect."""
        return {
            (name, number, code)
            for name, text in self.files.items()
            for number, line in enumerate(text.splitlines(), 1)
            for code in _codes(line)
        }

    @property
    def raises(self) -> tuple[str, int] | None:
        """Return where torch raises."""
        for name, text in self.files.items():
            for number, line in enumerate(text.splitlines(), 1):
                found = _COMMENT.search(line)
                if found is not None and found[1]:
                    return name, number
        return None

    def updated(self, found: Iterable[Place]) -> Project:
        """Return the project with comments that expect what was found."""
        wanted: dict[tuple[str, int], list[str]] = {}
        for name, number, code in sorted(found):
            wanted.setdefault((name, number), []).append(code)
        return Project(
            {
                name: "".join(
                    _with_codes(line, wanted.get((name, number), [])) + "\n"
                    for number, line in enumerate(text.splitlines(), 1)
                )
                for name, text in self.files.items()
            }
        )

    def written(self) -> str:
        """Return the project as its test file holds it."""
        return "".join(f"# file: {name}\n{text}" for name, text in self.files.items())


def read_project(text: str) -> Project:
    """Return the files of a test file, each under a line `# file: NAME`; a text without one is `train.py`."""
    parts = _FILE.split(text)
    return Project(dict(zip(parts[1::2], parts[2::2], strict=True))) if len(parts) > 1 else Project({"train.py": text})


def place_of(finding: Finding, file: str) -> Place:
    """Return a finding as comments name it."""
    return file, finding.span.line, finding.code + ("" if finding.certain else "?")


def _codes(line: str) -> list[str]:
    found = _COMMENT.search(line)
    return found[2].split(", ") if found is not None and found[2] else []


def _with_codes(line: str, codes: list[str]) -> str:
    found = _COMMENT.search(line)
    raises = found is not None and found[1]
    code = line[: found.start()] if found is not None and (found[1] or found[2]) else line
    told = (["raises"] if raises else []) + ([", ".join(codes)] if codes else [])
    return f"{code}  # {' '.join(told)}" if told else code
