"""The cells of a notebook's program: which cell a line or a span of the program is in, and what cells are called."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # The tape has many kinds of events: a language server answers before it needs one.
    from tapecheck.tape import Span

SUFFIX = ".ipynb"
_LINES = re.compile(r"`[^`]*`|\blines? (\d+)(?:–(\d+))?")


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a program: its number among all cells of the notebook, its first line there, its own text.

    `key` is whatever the maker of the program knows the cell by, such as the address of its document.
    """

    number: int
    first: int
    lines: tuple[str, ...]
    key: str = ""


@dataclass(frozen=True, slots=True)
class Cells:
    """The cells of a program, in its order."""

    parts: tuple[Cell, ...]

    def at(self, line: int) -> Cell:
        """Return the cell that a line of the program is in."""
        index = bisect_right([cell.first for cell in self.parts], line) - 1
        return self.parts[max(index, 0)]

    def within(self, span: Span) -> tuple[Cell, Span]:
        """Return a span of the program as one of its cell, cut off at the end of that cell."""
        cell = self.at(span.line)
        last = len(cell.lines)
        start, end, column = span.line - cell.first + 1, span.end_line - cell.first + 1, span.end_column
        if end > last:
            end, column = last, len(cell.lines[-1]) + 1
        return cell, replace(span, file=cell_name(span.file, cell.number), line=start, end_line=end, end_column=column)

    def crosses(self, span: Span) -> bool:
        """Whether text of more cells than one lies in a span."""
        last = self.at(span.end_line)
        return self.at(span.line) is not last and (span.end_line, span.end_column) > (last.first, 1)

    def words(self, text: str) -> str:
        """Return a message that speaks of lines of the program, speaking of lines of cells."""
        if not self.parts:
            return text
        return _LINES.sub(self._place, text)

    def _place(self, found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0]
        first, last = int(found[1]), int(found[2] or found[1])
        cell, other = self.at(first), self.at(last)
        start, end = first - cell.first + 1, last - other.first + 1
        if cell is not other:
            return f"line {start} of cell {cell.number} to line {end} of cell {other.number}"
        lines = f"line {start}" if start == end else f"lines {start}–{end}"
        return f"{lines} of cell {cell.number}"


def cell_name(path: str, number: int) -> str:
    """How a cell is called where a file's name is wanted: "train.ipynb:cell 3"."""
    return f"{path}:cell {number}"


def split_cell(name: str) -> tuple[str, int | None]:
    """Return a file's name and the number of the cell in it, None where the name is that of a whole file."""
    path, separator, number = name.rpartition(":cell ")
    return (path, int(number)) if separator and path.endswith(SUFFIX) and number.isdecimal() else (name, None)
