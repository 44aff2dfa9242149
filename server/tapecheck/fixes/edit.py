"""Edits of a text, and where lines are once they have been made."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import accumulate
from typing import Literal

from tapecheck.source import split_lines
from tapecheck.tape import Span

_NEWLINE = re.compile(r"\r\n|\n|\r")

Applicability = Literal["safe", "unsafe"]


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the text of `span` (columns in characters from 1, end exclusive) by `content`."""

    span: Span
    content: str


@dataclass(frozen=True, slots=True)
class Fix:
    """A verified quick fix.

    `applicability` is "safe" where what is learned stays as it was wherever the program ran before, else
    "unsafe". `changes` says in a sentence what the fix means for training, `lost` how many parameters get no gradient
    any more, `wasted` how many needless graphs are reported once it is made.
    """

    title: str
    applicability: Applicability
    edits: tuple[Edit, ...]
    changes: str
    lost: int = 0
    wasted: int = 0


@dataclass(frozen=True, slots=True, order=True)
class Change:
    """Replace the characters `start` up to `end` (offsets from 0) of a text by `content`.

    `file` is empty for the text that its maker works on, else another file of the project.
    """

    start: int
    end: int
    content: str
    file: str = ""


class TextIndex:
    """Offsets of a text as rows and columns (both from 1), with lines split as editors split them."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = [0, *(match.end() for match in _NEWLINE.finditer(text))]
        newline = _NEWLINE.search(text)
        self.newline = newline.group() if newline else "\n"

    def offset(self, line: int, column: int) -> int:
        """Return the offset of a place; for places beyond the text its end."""
        if line > len(self.starts):
            return len(self.text)
        return min(self.starts[max(line, 1) - 1] + column - 1, len(self.text))

    def range(self, span: Span) -> tuple[int, int]:
        """Return the offsets at which a span begins and ends."""
        return self.offset(span.line, span.column), self.offset(span.end_line, span.end_column)

    def place(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self.starts, offset)
        return line, offset - self.starts[line - 1] + 1

    def span(self, file: str, start: int, end: int) -> Span:
        line, column = self.place(start)
        end_line, end_column = self.place(end)
        return Span(file, line, column, end_line, end_column)

    def line_end(self, line: int) -> int:
        """Return the offset of the line break that ends a line, or of the end of the text."""
        match = _NEWLINE.search(self.text, self.starts[line - 1]) if line < len(self.starts) else None
        return match.start() if match else len(self.text)


def changes_of(text: str, edits: Iterable[Edit]) -> list[Change]:
    """Return edits as changes of a text, in the same order."""
    index = TextIndex(text)
    return [Change(*index.range(edit.span), edit.content) for edit in edits]


def edits_of(file: str, text: str, changes: Iterable[Change]) -> Iterator[Edit]:
    """Yield changes of a text as edits of a file, in the same order."""
    index = TextIndex(text)
    return (Edit(index.span(file, change.start, change.end), change.content) for change in changes)


def settle(text: str, changes: Iterable[Change]) -> tuple[Change, ...] | None:
    """Return the changes in order of place and as small as they can be; None where two of them overlap."""
    settled: list[Change] = []
    for change in sorted(changes, key=lambda change: (change.start, change.end)):
        if settled and change.start < settled[-1].end:
            return None
        if settled and change.start == settled[-1].end and change.start == settled[-1].start:
            change = replace(change, content=settled.pop().content + change.content)
        settled.append(change)
    return tuple(change for change in (_trim(text, change) for change in settled) if change is not None)


def apply(text: str, changes: Sequence[Change]) -> str:
    """Return the text with settled changes made."""
    for change in reversed(changes):
        text = text[: change.start] + change.content + text[change.end :]
    return text


def _trim(text: str, change: Change) -> Change | None:
    old, new = text[change.start : change.end], change.content
    if old == new:
        return None
    # Trimmed from the front first, so that what is appended to a name reads as an insertion behind it.
    head = 0
    limit = min(len(old), len(new))
    while head < limit and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < limit - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    # A line break of two characters is one thing to an editor: it is never cut in half.
    if head and old[head - 1] == "\r":
        head -= 1
    if tail and old[len(old) - tail] == "\n" and tail < len(old) and old[len(old) - tail - 1] == "\r":
        tail -= 1
    return Change(change.start + head, change.end - tail, new[head : len(new) - tail], change.file)


class LineMap:
    """Where the lines of a text are after changes.

    A line that no change touches has one new place; the lines that a change touches may all be any of the
    lines that came of it.
    """

    def __init__(self, text: str, changes: Sequence[Change]) -> None:
        index = TextIndex(text)
        # (first old line, last old line, first new line, last new line) of each changed stretch.
        self._regions: list[tuple[int, int, int, int]] = []
        shift = 0
        for change in changes:
            first, column = index.place(change.start)
            last, last_column = index.place(change.end)
            added = len(_NEWLINE.findall(change.content))
            removed = last - first
            whole = column == 1 and last_column == 1 and (not change.content or change.content[-1] in "\r\n")
            if whole:
                # Whole lines came or went: the line behind them is not touched.
                self._regions.append((first, last - 1, first + shift, first + shift + added - 1))
            else:
                self._regions.append((first, last, first + shift, first + shift + added))
            shift += added - removed

    def lines(self, line: int) -> range:
        """Return the new lines that an old line may have become, none where it is gone."""
        shift = 0
        found: range | None = None
        for first, last, new_first, new_last in self._regions:
            if first <= line <= last:
                region = range(new_first, new_last + 1)
                found = region if found is None else range(found.start, max(found.stop, region.stop))
            elif last < line:
                shift = new_last - last
        return range(line + shift, line + shift + 1) if found is None else found

    def added(self, line: int) -> bool:
        """Return whether a new line holds text that a change wrote."""
        return any(first <= line <= last for _, _, first, last in self._regions)


class MovedLines:
    """Where the lines of all files are after changes in some of them."""

    def __init__(self, maps: Mapping[str, LineMap], texts: Mapping[str, tuple[str, str]]) -> None:
        self._maps = maps
        self._texts = {path: (split_lines(old), split_lines(new)) for path, (old, new) in texts.items()}

    def lines(self, span: Span) -> range:
        """Return the new lines that the first line of a span may have become."""
        changed = self._maps.get(span.file)
        return changed.lines(span.line) if changed is not None else range(span.line, span.line + 1)

    def before(self, span: Span) -> Span | None:
        """Return where a place of a new text was; None where a change wrote something on its first line."""
        if span.file not in self._maps:
            return span
        if self.added(span.file, span.line):
            return None
        old = range(1, len(self._texts[span.file][0]) + 1)
        line = next((one for one in old if span.line in self._maps[span.file].lines(one)), None)
        return replace(span, line=line, end_line=line) if line is not None else None

    def rewritten(self, span: Span) -> bool:
        """Return whether a change wrote anything on the lines of a span but their indent."""
        changed = self._maps.get(span.file)
        if changed is None:
            return False
        old, new = self._texts[span.file]
        return any(
            not any(old[line - 1].strip() == new[one - 1].strip() for one in changed.lines(line) if one <= len(new))
            for line in range(span.line, min(span.end_line, len(old)) + 1)
        )

    def added(self, file: str, line: int) -> bool:
        """Return whether a new line holds text that a change wrote."""
        changed = self._maps.get(file)
        return changed is not None and changed.added(line)

    def wrote(self, span: Span) -> bool:
        """Return whether the lines of a span of a new text hold text that a change wrote."""
        return any(self.added(span.file, line) for line in range(span.line, span.end_line + 1))


def moved_lines(texts: Mapping[str, tuple[str, str]]) -> MovedLines:
    """Return where the lines of files are after edits that are not known: of each its old and its new text, by path."""
    maps = {path: LineMap(old, _changes(old, new)) for path, (old, new) in texts.items()}
    return MovedLines(maps, texts)


def _changes(old: str, new: str) -> list[Change]:
    """Return the whole lines that were changed, in order."""
    lines, now = old.splitlines(keepends=True), new.splitlines(keepends=True)
    starts = [0, *accumulate(map(len, lines))]
    return [
        Change(starts[first], starts[last], "".join(now[new_first:new_last]))
        for tag, first, last, new_first, new_last in SequenceMatcher(None, lines, now, autojunk=False).get_opcodes()
        if tag != "equal"
    ]
