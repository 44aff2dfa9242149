"""An open file as editors count it: lines end at `\\r\\n`, `\\n` or `\\r` only, places are in client units.

Form feeds, `\\x85` and U+2028 are ordinary characters here: `str.splitlines` breaks lines at them, editors do
not, and every later edit would land on the wrong line.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from dataclasses import dataclass
from typing import Literal

Encoding = Literal["utf-8", "utf-16", "utf-32"]
# One count for all: a file that is closed and opened again must not look like its former self.
_generations = itertools.count(1)
_BREAK = re.compile(r"\r\n|\n|\r")


def digest_of(text: str) -> str:
    """Return what stands for a text in caches and beside recorded runs."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def to_units(line: str, characters: int, encoding: Encoding) -> int:
    """Return how many units of `encoding` the first `characters` characters of a line take."""
    head = line[: max(characters, 0)]
    if encoding == "utf-32" or head.isascii():
        return len(head)
    if encoding == "utf-8":
        return len(head.encode("utf-8", "surrogatepass"))
    return len(head) + sum(character > "\uffff" for character in head)


def to_characters(line: str, units: int, encoding: Encoding) -> int:
    """Return the inverse of `to_units`, held within the line; units that end inside a character round down."""
    if units <= 0:
        return 0
    if encoding == "utf-32" or line.isascii():
        return min(units, len(line))
    taken = 0
    for index, character in enumerate(line):
        if encoding == "utf-8":
            taken += len(character.encode("utf-8", "surrogatepass"))
        else:
            taken += 2 if character > "\uffff" else 1
        if taken > units:
            return index
    return len(line)


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a text: line from 0, `character` from 0 in the units that the client counts in."""

    line: int
    character: int


class Document:
    """The text of an open file. `path` is the name findings carry, `generation` changes with every edit.

    `cells` are those of a notebook, None for any other file. `dirty` says that it was edited and not saved since.
    """

    cells: tuple[tuple[int, str, str], ...] | None = None

    def __init__(self, uri: str, path: str, text: str, version: int | None, language: str = "python") -> None:
        self.uri = uri
        self.path = path
        self.version = version
        self.language = language
        self.dirty = False
        self._set(text)

    def _set(self, text: str) -> None:
        self.text = text
        self.digest = digest_of(text)
        self.generation = next(_generations)
        self._starts: list[int] | None = None

    @property
    def starts(self) -> list[int]:
        """Return the offset in characters at which each line starts."""
        if self._starts is None:
            if "\r" in self.text:
                self._starts = [0, *(match.end() for match in _BREAK.finditer(self.text))]
            else:
                ends = itertools.accumulate([len(line) + 1 for line in self.text.split("\n")])
                self._starts = [0, *ends][:-1]
        return self._starts

    def line(self, number: int) -> str:
        """Return line `number`, from 0, without its line ending; empty outside the text."""
        starts = self.starts
        if not 0 <= number < len(starts):
            return ""
        if number + 1 == len(starts):
            return self.text[starts[number] :]
        return self.text[starts[number] : starts[number + 1]].rstrip("\r\n")

    def offset(self, position: Position, encoding: Encoding) -> int:
        """Return the offset in characters of a position; what lies outside the text is moved to its nearest end."""
        starts = self.starts
        if position.line < 0:
            return 0
        if position.line >= len(starts):
            return len(self.text)
        line = self.line(position.line)
        return starts[position.line] + to_characters(line, position.character, encoding)

    def touch(self) -> None:
        """Make what is known of the present text count as outdated."""
        self.generation = next(_generations)

    def replace(self, text: str, version: int | None) -> None:
        """Take a whole new text."""
        self.version = version
        self.dirty = True
        self._set(text)

    def edit(self, start: Position, end: Position, content: str, encoding: Encoding, version: int | None) -> None:
        """Replace the text between two positions, as one change of an incremental `didChange` does."""
        first = self.offset(start, encoding)
        last = max(first, self.offset(end, encoding))
        self.version = version
        self.dirty = True
        self._set(self.text[:first] + content + self.text[last:])
