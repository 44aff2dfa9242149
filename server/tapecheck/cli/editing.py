"""Files as they are edited: a text with its encoding and line ends, or a notebook with the layout of its JSON."""

from __future__ import annotations

import difflib
import io
import json
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tapecheck.fixes.edit import Edit, apply, changes_of, settle
from tapecheck.report.excerpt import printable
from tapecheck.source import Source, SourceError, from_text
from tapecheck.source.cells import SUFFIX, cell_name
from tapecheck.source.notebook import parse_notebook
from tapecheck.tape import Span


class Document(Protocol):
    """A file that edits are made to; edits are in the coordinates of its `source`."""

    @property
    def path(self) -> str:
        """The name of the file in findings."""

    def source(self) -> Source:
        """Return the text that is checked."""

    def edited(self, edits: Sequence[Edit]) -> Document | None:
        """Return the document with some edits made; None where they cannot be made."""

    def data(self) -> bytes | None:
        """Return what the file holds; None where that cannot be written without changing more than was edited."""

    def texts(self) -> dict[str, str]:
        """Return the text by its name, the one of each cell of a notebook."""

    def told(self, line: int, words: str) -> str:
        """Return "NAME:LINE" of a line of the `source`, with words about its lines, as the findings name them."""


def open_document(data: bytes, path: str) -> Document:
    """Return the document that a file's content is; raises SourceError where it cannot be read as such."""
    if path.endswith(SUFFIX):
        return _Notebook(path, json.loads(data.decode("utf-8-sig")), data, parse_notebook(data, path))
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding)
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        raise SourceError(f"{path}: not a text that Python can read: {error}") from error
    return _Text(path, text.removeprefix("\ufeff"), encoding, bom=text.startswith("\ufeff"))


def unified_diff(before: Document, after: Document) -> Iterator[str]:
    """Yield the lines of a unified diff between two states of a document, each with its line end."""
    new = after.texts()
    for name, old in before.texts().items():
        if new[name] == old:
            continue
        rows = difflib.unified_diff(_lines(old), _lines(new[name]), quoted(name), quoted(name))
        for row in rows:
            yield row if row.endswith("\n") else f"{row}\n\\ No newline at end of file\n"


def quoted(name: str) -> str:
    """Return a file's name as git writes it in a patch: quoted where it could break the line or steer a terminal."""
    if printable(name) == name:
        return name
    escaped = (
        chr(byte) if 32 <= byte < 127 and byte not in b'\\"' else f"\\{byte:03o}"
        for byte in name.encode("utf-8", "surrogateescape")
    )
    return f'"{"".join(escaped)}"'


def _lines(text: str) -> list[str]:
    # Only \n ends a line in a patch: a \r before it is part of the line.
    return io.StringIO(text, newline="\n").readlines()


@dataclass(frozen=True, slots=True)
class _Text:
    path: str
    text: str
    encoding: str
    bom: bool = False

    def source(self) -> Source:
        return from_text(self.text, self.path)

    def edited(self, edits: Sequence[Edit]) -> _Text | None:
        text = _apply(self.text, edits)
        return None if text is None else _Text(self.path, text, self.encoding, self.bom)

    def data(self) -> bytes | None:
        try:
            return ("\ufeff" * self.bom + self.text).encode(self.encoding)
        except UnicodeEncodeError:
            return None

    def texts(self) -> dict[str, str]:
        return {self.path: self.text}

    def told(self, line: int, words: str) -> str:
        return f"{self.path}:{line}{words}"


@dataclass(frozen=True, slots=True)
class _Notebook:
    path: str
    content: dict[str, Any]
    original: bytes
    program: Source

    def source(self) -> Source:
        return self.program

    def edited(self, edits: Sequence[Edit]) -> _Notebook | None:
        cells = self.program.cells
        if cells is None or any(cells.crosses(edit.span) for edit in edits):
            return None
        texts: dict[int, list[Edit]] = {}
        for edit in edits:
            cell, span = cells.within(edit.span)
            texts.setdefault(cell.number, []).append(Edit(span, edit.content))
        changed = list(self.content["cells"])
        for number, own in texts.items():
            before = changed[number - 1]["source"]
            text = _apply(_joined(before), own)
            if text is None:
                return None
            lines = text.splitlines(keepends=True) if isinstance(before, list) else text
            changed[number - 1] = {**changed[number - 1], "source": lines}
        content = {**self.content, "cells": changed}
        program = parse_notebook(json.dumps(content).encode(), self.path)
        return _Notebook(self.path, content, self.original, program)

    def data(self) -> bytes | None:
        text = self.original.decode("utf-8-sig")
        before = json.loads(text)
        for style in _styles(text):
            if style(before) == text:
                mark = "\ufeff" if self.original.startswith(b"\xef\xbb\xbf") else ""
                return (mark + style(self.content)).encode()
        return None

    def texts(self) -> dict[str, str]:
        return {
            cell_name(self.path, number): _joined(cell.get("source", ""))
            for number, cell in enumerate(self.content["cells"], 1)
            if isinstance(cell, dict)
        }

    def told(self, line: int, words: str) -> str:
        cells = self.program.cells
        assert cells is not None
        span = cells.within(Span(self.path, line, 1, line, 1))[1]
        return f"{span.file}:{span.line}{cells.words(words)}"


def _joined(source: object) -> str:
    return "".join(source) if isinstance(source, list) else str(source)


class _Style:
    """A way of writing JSON."""

    def __init__(self, newline: str, end: str, encoder: json.JSONEncoder) -> None:
        self.newline, self.end, self.encode = newline, end, encoder.encode

    def __call__(self, content: dict[str, object]) -> str:
        return self.encode(content).replace("\n", self.newline) + self.end


def _styles(text: str) -> Iterator[_Style]:
    """Yield the ways of writing JSON that a text may have been written in."""
    newline = "\r\n" if "\r\n" in text else "\n"
    end = text[len(text.rstrip()) :]
    for indent in (1, 2, 4, "\t", None):
        for ascii_only in (False, True):
            yield _Style(newline, end, json.JSONEncoder(indent=indent, ensure_ascii=ascii_only))
    for ascii_only in (False, True):
        yield _Style(newline, end, json.JSONEncoder(separators=(",", ":"), ensure_ascii=ascii_only))


def _apply(text: str, edits: Iterable[Edit]) -> str | None:
    settled = settle(text, changes_of(text, edits))
    return None if settled is None else apply(text, settled)
