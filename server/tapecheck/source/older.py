"""Statements of older versions of Python, written as this one has them: each keeps its line, and its columns if it can.

A file that was written for Python 2, or when `async` was a name, does not parse. What such a statement does is known
all the same, so that it costs nothing of what is around it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence

ASYNC = "_sync"
"""What stands for the name `async`, which is as long."""
_MOST_LINES = 8
"""Lines that a statement may go on over."""

_HINT = re.compile(r"\b(?:print|except|raise|async)\b|<>|\d[lL]\b")
_PRINT = re.compile(r"^(\s*|.*?[:;]\s*)print(?=\s*(?:>>|[^\s(=.,:)\]]))")
_TO = re.compile(r"^(\s*)>>")
_CAUGHT = re.compile(r"^(\s*except\s+.+?)\s*,\s*(\w+)(\s*:.*)$")
_RAISED = re.compile(r"^(\s*|.*?[:;]\s*)raise(\s+[\w.]+)\s*,(\s*)(.+)$")
_NAME = re.compile(r"\basync\b(?!\s+(?:def|for|with)\b)")
_LONG = re.compile(r"\b(\d+)[lL]\b")
_BELOW = re.compile(r"(?:elif|else|except|finally)\b")


def translated(lines: Sequence[str], row: int) -> dict[int, str]:
    """Return the lines that stand for a statement on a row, or around it, which no longer parses, by their numbers from
    0: none where this is no such statement.
    """
    for first in range(row, max(-1, row - _MOST_LINES), -1):
        changed = _translated_at(lines, first)
        if changed and max(changed) >= row:
            return changed
    return {}


def translated_all(lines: Sequence[str]) -> dict[int, str]:
    """Return the lines that stand for all such statements of a text, by their numbers from 0."""
    found: dict[int, str] = {}
    for row, line in enumerate(lines):
        if row not in found and _HINT.search(line) and not _parses([line]):
            found |= _translated_at(lines, row)
    return found


def _translated_at(lines: Sequence[str], row: int) -> dict[int, str]:
    """Return what stands for a statement that begins on a row."""
    if not _HINT.search(lines[row]):
        return {}
    written = lines[row : row + _MOST_LINES]
    plain = [_LONG.sub(r"\1 ", _NAME.sub(ASYNC, line).replace("<>", "!=")) for line in written]
    for form in _FORMS:
        for made in form(plain):
            if made != written[: len(made)] and _parses(made):
                return {row + at: text for at, text in enumerate(made) if text != written[at]}
    return {}


def _as_it_is(lines: list[str]) -> Iterator[list[str]]:
    for last in range(len(lines)):
        yield lines[: last + 1]


def _printed(lines: list[str]) -> Iterator[list[str]]:
    """`print x, y` and `print >>f, x`: calls."""
    found = _PRINT.match(lines[0])
    made: list[str] | None = lines
    while found is not None and made is not None:
        at = found.end()
        rest = _TO.sub(r"\1  ", made[0][at:], count=1)
        opened = [f"{made[0][:at]}({rest[1:] if rest[:1] == ' ' else rest}", *made[1:]]
        made = _closed(opened, at)
        if made is not None:
            yield made
            found = _PRINT.match(made[0]) if len(made) == 1 else None


def _closed(lines: list[str], start: int) -> list[str] | None:
    """Return a call that is open from a column of the first line on with its end: the first with which it parses, so
    that each of many statements on a line is tried once. What goes on behind the first line is no more than the call.
    """
    for last, line in enumerate(lines):
        for end in sorted(end for end in set(_ends(line)) if end > start or last):
            head = [*lines[:last], f"{line[:end]})"]
            if _parses(head):
                return [*lines[:last], f"{line[:end]}){line[end:]}"]
    return None


def _ends(line: str) -> Iterator[int]:
    """Yield where a statement may end on a line: at its end, or before what may be a comment."""
    yield len(line.rstrip())
    for found in re.finditer(r"[#;]", line):
        yield len(line[: found.start()].rstrip())


def _caught(lines: list[str]) -> Iterator[list[str]]:
    """`except Error, error:`."""
    found = _CAUGHT.match(lines[0])
    if found is not None:
        yield [f"{found[1]} as {found[2]}{found[3]}"]


def _raised(lines: list[str]) -> Iterator[list[str]]:
    """`raise Error, message`."""
    found = _RAISED.match(lines[0])
    if found is not None:
        head = f"{found[1]}raise{found[2]}({found[3]}"
        for end in _ends(found[4]):
            yield [f"{head}{found[4][:end]}){found[4][end:]}"]


_FORMS: tuple[Callable[[list[str]], Iterator[list[str]]], ...] = (_as_it_is, _printed, _caught, _raised)


def _parses(lines: Sequence[str]) -> bool:
    """Return whether some lines are a statement, or the header of one."""
    first = lines[0]
    indent = len(first) - len(first.lstrip())
    text = "\n".join(line[indent:] if line[:indent].isspace() else line for line in lines).rstrip()
    before = ""
    if found := _BELOW.match(text):
        before = "try:\n    pass\n" if found[0] in ("except", "finally") else "if _:\n    pass\n"
    # What may stand in a function or in a loop is nothing to find fault with.
    inside = "\n".join(f"    {line}" for line in f"{before}{text}".split("\n"))
    for body in ("", "\n        pass"):
        try:
            ast.parse(f"while _:\n{inside}{body}\n")
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        return True
    return False
