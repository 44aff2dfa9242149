"""Parsing a text of which an earlier state was parsed: only the statements around what has changed are parsed again.

The top-level statements above and below a change keep their nodes, with all that was worked out from them. Below a
change of the number of lines everything is parsed again, since nodes hold their line numbers; `moved` says what it was.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from tapecheck.source.lexed import closed
from tapecheck.source.nodes import first_line
from tapecheck.source.parsing import parse

_LEAST = 40
"""Lines below which a text is parsed as a whole."""
_CHUNK = 64
"""Lines that are compared in one step."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """Lines that parse, and their tree. Its nodes may be those of other states of the text: nobody changes them.

    `firsts` and `ends` are the indexes of the first line of each top-level statement and of the line behind its last.
    """

    lines: list[str]
    tree: ast.Module
    firsts: list[int]
    ends: list[int]


def parse_lines(lines: Sequence[str], before: Parsed | None = None) -> Parsed:
    """Parse lines, with the statements of an earlier state of them where these have not changed.

    Raises what `ast.parse` raises for the lines joined.
    """
    lines = list(lines)
    body = _reparsed(lines, before) if before is not None and len(lines) >= _LEAST else None
    tree = ast.Module(body, []) if body is not None else _parse("\n".join(lines))
    return Parsed(
        lines, tree, [first_line(node) - 1 for node in tree.body], [node.end_lineno or 0 for node in tree.body]
    )


def _reparsed(lines: list[str], before: Parsed) -> list[ast.stmt] | None:
    """Return the top-level statements of a text; None where all of it has to be parsed."""
    old = before.lines
    most = min(len(lines), len(old))
    same = _same_above(lines, old, most)
    if same == len(lines) == len(old):
        return list(before.tree.body)
    below = _same_above(lines[same:][::-1], old[same:][::-1], most - same)
    kept, rest = _unchanged(before, same, len(old) - below if len(lines) == len(old) else len(old))
    count = len(before.firsts)
    above = before.tree.body[:kept]
    start = before.ends[kept - 1] if kept else 0
    end = before.firsts[rest] if rest < count else len(lines)
    if (end and lines[end - 1].endswith("\\")) or "\0" in "".join(lines[start:end]):
        return None
    try:
        return [*above, *_part(lines, start, end), *before.tree.body[rest:]]
    except SyntaxError as error:
        found = error
    except (ValueError, RecursionError, MemoryError):
        return None
    if not closed("\n".join(lines[start:end])):
        # What is left open may swallow everything below, or be closed there.
        return None
    if rest < count:
        # What is wrong may be told by the statement that follows, or be put right by it.
        rest = next((index for index in range(rest + 1, count) if _apart(before, index)), count)
        end = before.firsts[rest] if rest < count else len(lines)
        try:
            return [*above, *_part(lines, start, end), *before.tree.body[rest:]]
        except SyntaxError as error:
            found = error
    raise found


def _unchanged(before: Parsed, first: int, last: int) -> tuple[int, int]:
    """Return how many top-level statements stand above a change of some lines, and which is the first below it."""
    # A statement has ended where the next one begins: what begins above the change ends what stands before it.
    kept = count = len(before.firsts)
    while kept and not (kept < count and before.firsts[kept] < first and _apart(before, kept)):
        kept -= 1
    rest = count
    while rest > kept and before.firsts[rest - 1] >= last and _apart(before, rest - 1):
        rest -= 1
    return kept, rest


def _same_above(lines: list[str], old: list[str], most: int) -> int:
    """Return how many lines are the same ones from the first on, `most` at most."""
    same = 0
    while same + _CHUNK <= most and lines[same : same + _CHUNK] == old[same : same + _CHUNK]:
        same += _CHUNK
    while same < most and lines[same] == old[same]:
        same += 1
    return same


def replaced(before: Parsed, after: Parsed) -> list[ast.stmt]:
    """Return the statements that an earlier state has and a later one has not."""
    old, new = before.tree.body, after.tree.body
    most = min(len(old), len(new))
    above = 0
    while above < most and old[above] is new[above]:
        above += 1
    below = 0
    while below < most - above and old[-1 - below] is new[-1 - below]:
        below += 1
    return old[above : len(old) - below]


def moved(before: Parsed, after: Parsed) -> list[tuple[ast.stmt, ast.stmt]]:
    """Return the statements below a change of the number of lines with what they were before it, methods included."""
    by = len(after.lines) - len(before.lines)
    found: list[tuple[ast.stmt, ast.stmt]] = []
    if not by:
        return found
    for number in range(1, min(len(before.firsts), len(after.firsts)) + 1):
        first, end = before.firsts[-number], before.ends[-number]
        if (first + by, end + by) != (after.firsts[-number], after.ends[-number]):
            break
        if before.lines[first:end] != after.lines[first + by : end + by]:
            break
        old, new = before.tree.body[-number], after.tree.body[-number]
        found.append((old, new))
        if isinstance(old, ast.ClassDef) and isinstance(new, ast.ClassDef):
            found += zip(old.body, new.body)
    return found


def _apart(parsed: Parsed, number: int) -> bool:
    """Whether a statement begins on a line of its own."""
    first = parsed.firsts[number]
    if number and parsed.ends[number - 1] > first:
        return False
    return not first or not parsed.lines[first - 1].endswith("\\")


def _part(lines: list[str], start: int, end: int) -> list[ast.stmt]:
    return _parse("\n" * start + "\n".join(lines[start:end])).body


def _parse(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return parse(text)
