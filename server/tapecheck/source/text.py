"""One file's text and syntax tree: decoding and parsing it."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field

from tapecheck.source.cells import Cells
from tapecheck.source.disk import read_regular
from tapecheck.source.incremental import Parsed, moved, replaced
from tapecheck.source.nodes import walk
from tapecheck.source.notes import Notes
from tapecheck.source.recovery import TOO_DEEP, recover

MAX_BYTES = 4_000_000
_NEWLINE = re.compile(r"\r\n|\n|\r")
# Made for the names of hosts: their time grows with the square of the length.
_SLOW = ("punycode", "idna")


class SourceError(Exception):
    """The file cannot be read: missing, no text, too large. The message is for the user."""


@dataclass(slots=True)
class Source:
    """One file's text and syntax tree.

    `path` is the name used in findings, `module` the dotted name of the file as imports see it. `error` is the
    first syntax error ("line 3: invalid syntax"), `error_line` its line, `error_column` its first character, from 1,
    None where Python names none; `blanked` are the lines that were left out of `tree` because of syntax errors. `cells`
    are those of a notebook, whose program `text` is. `parsed` are the lines that `tree` was made of, `notes` what was
    worked out from its nodes.
    """

    path: str
    text: str
    tree: ast.Module
    error: str | None = None
    error_line: int | None = None
    error_column: int | None = None
    blanked: frozenset[int] = field(default_factory=frozenset)
    lines: list[str] = field(default_factory=list)
    cells: Cells | None = None
    parsed: Parsed | None = None
    notes: Notes = field(default_factory=Notes)

    def nodes(self) -> Iterator[ast.AST]:
        """Yield the nodes of the file but operators and contexts, statement by statement, outer ones first."""
        for statement in self.tree.body:
            yield from self.nodes_in(statement)

    def nodes_near(self, text: str) -> Iterator[ast.AST]:
        """Yield the nodes of the top-level statements that have a text on some line of theirs, outer ones first."""
        for statement in self.tree.body:
            if any(text in line for line in self.lines[statement.lineno - 1 : statement.end_lineno]):
                yield from self.nodes_in(statement)

    def nodes_in(self, statement: ast.stmt) -> list[ast.AST]:
        """Return a top-level statement and the nodes in it."""
        return self.notes.of(statement, walk)

    def column(self, line: int, byte_offset: int) -> int:
        """Return the column in characters, from 1, of a UTF-8 byte offset as `ast` counts them."""
        return column_in(self.lines, line, byte_offset)


def column_in(lines: list[str], line: int, byte_offset: int) -> int:
    """Return the column in characters, from 1, of a UTF-8 byte offset in one of several lines."""
    if not 0 < line <= len(lines):
        return byte_offset + 1
    text = lines[line - 1]
    if text.isascii():
        return byte_offset + 1
    return len(text.encode()[:byte_offset].decode(errors="ignore")) + 1


def read_bytes(path: str, most: int = MAX_BYTES) -> bytes:
    """Return what a file holds; raises SourceError where it cannot be read, is no regular file or too large."""
    try:
        data = read_regular(path, most)
    except (OSError, ValueError) as error:
        raise SourceError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    require_size(len(data), path, most)
    return data


def require_size(size: int, path: str, most: int = MAX_BYTES) -> None:
    """Raise SourceError where a file is too large to be analysed."""
    if size > most:
        raise SourceError(f"{path}: larger than {most // 1_000_000} MB, not analysed")


def parse_source(data: bytes, path: str) -> Source:
    """Decode a program as Python does and parse it; raises SourceError where it is no text or too large."""
    require_size(len(data), path)
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        if encoding in _SLOW:
            raise LookupError(f"unknown encoding: {encoding}")
        text = data.decode(encoding)
    except (SyntaxError, ValueError, LookupError) as error:
        raise SourceError(f"{path}: not a text that Python can read: {error}") from error
    return from_text(text.removeprefix("\ufeff"), path)


def split_lines(text: str) -> list[str]:
    r"""Return the lines of a text without their line ends; `\r\n`, `\n` and `\r` end one, as in editors."""
    return _NEWLINE.split(text) if "\r" in text else text.split("\n")


def from_text(text: str, path: str, *, joined: bool = False, before: Source | None = None) -> Source:
    """Parse a text; a syntax error is kept in the result and never raised.

    With `joined` the text is made of several (cells), each of which may begin with imports from `__future__`. `before`
    is an earlier state of it: the statements that have not changed share their nodes with that.
    """
    lines = split_lines(text)
    found = recover(lines, joined=joined, before=before.parsed if before is not None else None)
    error = found.error
    if error is not None and error != TOO_DEEP:
        error = f"line {found.error_line}: {error}"
    parsed = found.parsed
    place = found.error_line, found.error_column
    notes = Notes()
    if before is not None and before.parsed is not None and before.path == path:
        notes = before.notes.without(before.tree, replaced(before.parsed, parsed))
        notes.take_over(before.notes, moved(before.parsed, parsed))
    return Source(path, text, parsed.tree, error, *place, found.blanked, lines, parsed=parsed, notes=notes)
