"""Places as other programs name them: paths from the working directory with slashes, lines of the file on disk."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from tapecheck.source.cells import split_cell
from tapecheck.tape import Span

_SOURCE = re.compile(r'(?<!\\)"source"\s*:\s*')
_GAP = re.compile(r"[\s,\[]*")


@dataclass(frozen=True, slots=True)
class Place:
    """A span in a file on disk, all from 1, the end exclusive.

    Columns are None in a notebook: its file holds the lines of `cell` as JSON.
    """

    path: str
    line: int
    column: int | None
    end_line: int
    end_column: int | None
    cell: int | None = None


@dataclass(slots=True)
class Places:
    """Turns spans into places.

    `root` is what paths are relative to (the working directory where none is given); files that lie elsewhere are named
    by absolute paths, or with `..` where `upwards` says so.
    """

    root: Path = field(default_factory=lambda: _here())
    upwards: bool = False
    _notebooks: dict[str, dict[int, list[int]]] = field(default_factory=dict)

    def of(self, span: Span) -> Place:
        """Return the place of a span."""
        file, cell = split_cell(span.file)
        if cell is None:
            return Place(self.path(file), span.line, span.column, span.end_line, span.end_column)
        if file not in self._notebooks:
            self._notebooks[file] = _cell_lines(file)
        rows = self._notebooks[file].get(cell, [])
        line, end = (rows[min(number, len(rows)) - 1] if rows else 1 for number in (span.line, span.end_line))
        return Place(self.path(file), line, None, end, None, cell)

    def path(self, file: str) -> str:
        """Return a file's path from the root with slashes; an absolute one where it lies elsewhere."""
        # Links stay as the user wrote them.
        absolute = os.path.normpath(os.path.join(_here(), file))  # noqa: PTH118
        try:
            relative = os.path.relpath(absolute, self.root)
        except ValueError:  # another drive of Windows
            return Path(absolute).as_posix()
        if relative.split(os.sep, 1)[0] == os.pardir and not self.upwards:
            return Path(absolute).as_posix()
        return relative.replace(os.sep, "/")

    def uri(self, file: str) -> str:
        """Return a file's path from the root as a URI reference; a `file:` URI where it lies elsewhere."""
        path = self.path(file)
        return Path(path).as_uri() if Path(path).is_absolute() else quote(_encodable(path))


def _here() -> Path:
    """Return the working directory; the root of the file system where it is gone."""
    try:
        return Path.cwd()
    except OSError:
        return Path(os.sep)


def _encodable(path: str) -> bytes:
    return os.fsencode(path)


def _cell_lines(file: str) -> dict[int, list[int]]:
    """Return the lines of a notebook's file that hold the lines of each cell, by the number of the cell."""
    try:
        text = Path(file).read_text(encoding="utf-8-sig")
        cells = json.loads(text)["cells"]
        sources = [cell.get("source") for cell in cells]
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}
    decoder = json.JSONDecoder()
    found: dict[int, list[int]] = {}
    waiting = [(number, source) for number, source in enumerate(sources, 1) if source is not None]
    for match in _SOURCE.finditer(text):
        if not waiting:
            break
        number, source = waiting[0]
        try:
            value, _ = decoder.raw_decode(text, match.end())
        except ValueError:
            continue
        # Outputs may hold a key of this name, too: only the text of the next cell is taken.
        if value == source:
            waiting.pop(0)
            found[number] = _rows(text, match.end(), source, decoder)
    return found


def _rows(text: str, start: int, source: object, decoder: json.JSONDecoder) -> list[int]:
    line = text.count("\n", 0, start) + 1
    if not isinstance(source, list):
        return [line] * (str(source).count("\n") + 1)
    rows: list[int] = []
    at = start
    for part in source:
        gap = _GAP.match(text, at)
        begin = gap.end() if gap is not None else at
        line += text.count("\n", at, begin)
        _, at = decoder.raw_decode(text, begin)
        rows += [line] * max(str(part).count("\n"), 1)
    if source and str(source[-1]).endswith("\n"):
        rows.append(line)
    return rows
