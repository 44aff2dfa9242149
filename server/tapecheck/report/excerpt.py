"""Source excerpts with underlined spans, as rustc draws them.

Columns of spans count characters; columns of the terminal are something else: a tab is four of them, a wide
character (East Asian, most emoji) two, a combining mark none. What could move the cursor or reorder the line
(control characters, bidirectional overrides) is shown as a replacement character.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tapecheck.source import SourceError, read_source

if TYPE_CHECKING:
    from tapecheck.rules.finding import Severity
    from tapecheck.tape import Span

DEFAULT_WIDTH = 120
"""Columns of a report that no terminal shows."""
TAB = 4
_LONGEST_UNDERLINED = 4
_CUT = "..."
_REPLACEMENT = "\ufffd"
_RESET = "\x1b[0m"
_COLOURS = {
    "error": "\x1b[1;31m",
    "warning": "\x1b[1;33m",
    "info": "\x1b[1;36m",
    "hint": "\x1b[1;36m",
    "gutter": "\x1b[1;34m",
    "strong": "\x1b[1m",
    "removed": "\x1b[31m",
    "added": "\x1b[32m",
}


@dataclass(frozen=True, slots=True)
class Paint:
    """Colours a piece of text, or leaves it as it is."""

    colour: bool = False

    def __call__(self, style: str, text: str) -> str:
        return f"{_COLOURS[style]}{text}{_RESET}" if self.colour and text else text


@dataclass(slots=True)
class Sources:
    """The lines of the files that findings speak of, read when first asked for.

    `texts` holds the lines of files that are not to be read from disk (standard input, an edited buffer).
    """

    texts: dict[str, list[str]] = field(default_factory=dict)

    def lines(self, path: str) -> list[str]:
        """Return the lines of a file; none where it cannot be read (any more)."""
        if path not in self.texts:
            try:
                self.texts[path] = read_source(path).lines
            except SourceError:
                self.texts[path] = []
        return self.texts[path]


@dataclass(frozen=True, slots=True)
class Mark:
    """A span to underline and what to write at it."""

    span: Span
    message: str
    primary: bool = False


@dataclass(slots=True)
class _Stroke:
    """The part of a mark that lies on one line: terminal columns from 0, the end exclusive."""

    start: int
    end: int
    message: str
    primary: bool


def printable(text: str) -> str:
    """Return the text with everything that steers a terminal replaced; tabs and newlines are replaced too."""
    return "".join(_shown(character) for character in text)


def width(text: str) -> int:
    """Return how many terminal columns a text takes."""
    return sum(_width(character) for character in text)


def draw(
    marks: Sequence[Mark], lines: Sequence[str], *, gutter: int, limit: int, severity: Severity, paint: Paint
) -> list[str]:
    """Return the excerpt of one file with all marks that lie in it, in the order of its lines.

    `gutter` is the width of the line numbers, `limit` the most terminal columns for a source line. Lines
    that lie apart are parted by `...`; a single line between two is shown.
    """
    wanted: dict[int, list[Mark]] = {}
    rows = {mark: _underlined(mark, marks) for mark in marks}
    for mark in marks:
        for number in rows[mark]:
            if 0 < number <= len(lines):
                wanted.setdefault(number, []).append(mark)
    if not wanted:
        return []
    bar = paint("gutter", "|")
    blank = " " * gutter
    drawn = [f"{blank} {bar}"]
    previous: int | None = None
    for number in sorted(wanted):
        if previous is not None and number == previous + 2:
            drawn.append(_source_line(number - 1, _window(lines[number - 2], [], limit)[0], gutter, paint))
        elif previous is not None and number > previous + 1:
            drawn.append(paint("gutter", _CUT))
        line = lines[number - 1]
        here = [_stroke(number, mark, line, last=number == rows[mark][-1]) for mark in wanted[number]]
        text, strokes = _window(line, here, limit)
        drawn.append(_source_line(number, text, gutter, paint))
        drawn.extend(f"{blank} {bar} {row}" for row in _underlines(strokes, severity, paint))
        previous = number
    return drawn


def _source_line(number: int, text: str, gutter: int, paint: Paint) -> str:
    return f"{paint('gutter', f'{number:>{gutter}} |')} {text}".rstrip()


def _underlined(mark: Mark, marks: Sequence[Mark]) -> range:
    """Return the lines of a mark to underline: all of a short span, the first of one long or around others."""
    span = mark.span
    last = max(span.line, span.end_line - (span.end_column <= 1 and span.end_line > span.line))
    holds = any(span.line < other.span.line <= last for other in marks)
    return range(span.line, (span.line if holds or last - span.line >= _LONGEST_UNDERLINED else last) + 1)


def _stroke(number: int, mark: Mark, line: str, *, last: bool) -> _Stroke:
    span = mark.span
    indent = len(line) - len(line.lstrip())
    start = span.column - 1 if number == span.line else indent
    end = span.end_column - 1 if number == span.end_line else len(line.rstrip())
    # Blanks at the end of a line are not shown; a mark may stand right behind it.
    most = len(line.rstrip())
    start = max(0, min(start, most))
    end = max(start, min(end, most))
    left = _columns(line[:start])
    return _Stroke(left, max(left + 1, _columns(line[:end])), mark.message if last else "", mark.primary)


def _first_shown(width: int, strokes: list[_Stroke], limit: int) -> int:
    """Return the column from which a line of some width is shown so that its strokes are seen."""
    anchor = next((stroke for stroke in strokes if stroke.primary), strokes[0])
    left = min(stroke.start for stroke in strokes)
    right = max(stroke.end for stroke in strokes)
    if right - left > limit // 2:
        left, right = anchor.start, anchor.end
    return max(0, min(left - limit // 4, width - limit)) if right > limit - len(_CUT) else 0


def _window(line: str, strokes: list[_Stroke], limit: int) -> tuple[str, list[_Stroke]]:
    """Return the line as it is shown, cut to `limit` columns around its strokes, and the strokes moved with it."""
    cells = _cells(line.rstrip())
    if len(cells) <= limit:
        return "".join(cells), strokes
    start = _first_shown(len(cells), strokes, limit) if strokes else 0
    # A wide character's second cell is empty: a cut must not part it from its first.
    while 0 < start < len(cells) and cells[start] == "":
        start += 1
    head = _CUT if start else ""
    room = limit - len(head)
    tail = ""
    if len(cells) - start > room:
        tail = _CUT
        room -= len(tail)
    end = start + room
    while end < len(cells) and cells[end] == "":
        end -= 1
    shift, last = len(head) - start, len(head) + end - start
    moved = [_within(stroke, shift, len(head), last) for stroke in strokes]
    return head + "".join(cells[start:end]) + tail, moved


def _within(stroke: _Stroke, shift: int, first: int, last: int) -> _Stroke:
    """Return a stroke moved, as far as its text is shown; one whose text is cut off stands at the dots of that side."""
    start, end = stroke.start + shift, stroke.end + shift
    if end <= first:
        start, end = 0, 1
    elif start >= last:
        start, end = last, last + 1
    else:
        start, end = max(start, first), min(end, last)
    return _Stroke(start, end, stroke.message, stroke.primary)


def _underlines(strokes: list[_Stroke], severity: Severity, paint: Paint) -> list[str]:
    """Return the rows below a source line: underlines, the rightmost message beside them, the others hung below."""
    if not strokes:
        return []
    ordered = sorted(strokes, key=lambda stroke: (stroke.start, stroke.end, stroke.primary))
    row: dict[int, tuple[str, str]] = {}
    for stroke in sorted(ordered, key=lambda stroke: stroke.primary):
        sign, style = ("^", severity) if stroke.primary else ("-", "gutter")
        for column in range(stroke.start, stroke.end):
            row[column] = (sign, style)
    spoken = [stroke for stroke in ordered if stroke.message]
    beside: _Stroke | None = None
    if spoken and all(other is spoken[-1] or other.end < spoken[-1].start for other in ordered):
        beside = spoken.pop()
    rows = [_paint_row(row, paint)]
    if beside is not None:
        rows[0] += f" {paint(_style(beside, severity), beside.message)}"
    return rows + _hung(spoken, severity, paint) if spoken else rows


def _hung(hung: list[_Stroke], severity: Severity, paint: Paint) -> list[str]:
    """Return the rows with the messages of some strokes, the rightmost one first, each below its stroke."""
    rows = [_bars(hung, severity, paint)]
    while hung:
        last = hung.pop()
        left = _bars([stroke for stroke in hung if stroke.start < last.start], severity, paint)
        lead = left + " " * (last.start - _columns_of(hung, last))
        rows.append(lead + paint(_style(last, severity), last.message))
        if hung and hung[-1].start < last.start:
            rows.append(_bars(hung, severity, paint))
    return rows


def _columns_of(hung: Sequence[_Stroke], before: _Stroke) -> int:
    starts = [stroke.start for stroke in hung if stroke.start < before.start]
    return max(starts) + 1 if starts else 0


def _bars(strokes: Sequence[_Stroke], severity: Severity, paint: Paint) -> str:
    cells = {stroke.start: ("|", _style(stroke, severity)) for stroke in strokes}
    return _paint_row(cells, paint)


def _style(stroke: _Stroke, severity: Severity) -> str:
    return severity if stroke.primary else "gutter"


def _paint_row(cells: dict[int, tuple[str, str]], paint: Paint) -> str:
    if not cells:
        return ""
    pieces: list[str] = []
    run, style = "", ""
    for column in range(max(cells) + 1):
        sign, own = cells.get(column, (" ", ""))
        if own != style:
            pieces.append(paint(style, run) if style else run)
            run, style = "", own
        run += sign
    pieces.append(paint(style, run) if style else run)
    return "".join(pieces)


def _cells(line: str) -> list[str]:
    """Return what stands in each terminal column; a combining mark joins the column before it."""
    cells: list[str] = []
    for character in line:
        if character == "\t":
            cells.extend(" " * TAB)
            continue
        size = _width(character)
        if size == 0:
            if cells:
                base = len(cells) - 1
                while base > 0 and cells[base] == "":
                    base -= 1
                cells[base] += character
            continue
        cells.append(_shown(character))
        cells.extend([""] * (size - 1))
    return cells


def _columns(text: str) -> int:
    if text.isascii() and text.isprintable():
        return len(text)
    return sum(TAB if character == "\t" else _width(character) for character in text)


def _shown(character: str) -> str:
    return _REPLACEMENT if _steers(character) else character


def _width(character: str) -> int:
    if character.isascii() or _steers(character):
        return 1
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _steers(character: str) -> bool:
    """Return whether a character steers the terminal or the order of the text instead of being shown."""
    return unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") or (
        character in "\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
    )
