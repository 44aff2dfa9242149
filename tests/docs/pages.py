"""The pages of the documentation, and the programs and commands that they show."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
OUTSIDE = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
PAGES = sorted(
    [*(ROOT / name for name in OUTSIDE), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/editors/*.md")],
    key=lambda path: path.as_posix(),
)
"""All pages but those of the rules, which are made from the rules and tested with them."""

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_PRINTS = re.compile(r"\n\nIt prints:\n\n```text\n(.*?)```", re.DOTALL)
_RAISES = re.compile(r"\n\nPyTorch raises on line (\d+): `([^`]+)`")
_MARK = re.compile(r"# (TAPE\d+(?:, TAPE\d+)*)$")


@dataclass(frozen=True)
class Program:
    """A Python block of a page: `marks` are the lines with the codes that stand behind them as comments.

    `raises` is the line of the exception and the beginning of its message, `prints` the output, where the page says so.
    """

    page: Path
    line: int
    text: str
    raises: tuple[int, str] | None
    prints: str | None

    @property
    def marks(self) -> set[tuple[int, str]]:
        return {
            (number, code)
            for number, line in enumerate(self.text.splitlines(), 1)
            for match in _MARK.finditer(line)
            for code in match[1].split(", ")
        }

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


@dataclass(frozen=True)
class Command:
    """A `$ tapecheck` line of a page with what is shown below it, "" for nothing."""

    page: Path
    line: int
    arguments: str
    shown: str

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks(page: Path, language: str) -> Iterator[tuple[int, str, int]]:
    """Yield the line, the text and the end of each block of a language."""
    text = page.read_text(encoding="utf-8")
    for match in _BLOCK.finditer(text):
        if match[1] == language:
            yield text.count("\n", 0, match.start()) + 1, match[2], match.end()


def programs() -> list[Program]:
    """Return every Python block of the pages."""
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for line, program, end in blocks(page, "python"):
            raises, prints = _RAISES.match(text, end), _PRINTS.match(text, end)
            found.append(
                Program(
                    page,
                    line,
                    program,
                    (int(raises[1]), raises[2]) if raises else None,
                    prints[1] if prints else None,
                )
            )
    return found


def commands() -> list[Command]:
    """Return every `$ tapecheck` line of the pages' console blocks, in their order."""
    found = []
    for page in PAGES:
        for line, text, _ in blocks(page, "console"):
            for arguments, shown in re.findall(r"^\$ tapecheck (.+)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
                found.append(Command(page, line, arguments, shown))
    return found
