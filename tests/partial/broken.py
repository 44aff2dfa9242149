"""Programs of which one statement does not parse: as it is typed, cut off, or in two versions of a merge."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from tapecheck.source.nodes import walk

HEADERS = (ast.For, ast.While, ast.If, ast.With, ast.FunctionDef, ast.ClassDef, ast.Try)


@dataclass(frozen=True, slots=True)
class Broken:
    """A program with one statement broken in one way; `added` lines stand below its first `before` lines."""

    way: str
    line: int
    text: str
    before: int = 0
    added: int = 0
    behind: int = 0
    """Lines of the program, from the first on, behind which as many lines again were added."""
    more: int = 0

    def original(self, line: int) -> int:
        """Return the line of the program that stands on a line now."""
        if line > self.behind + self.added and self.more:
            line -= self.more
        return line - self.added if line > self.before else line


def broken(program: str) -> Iterator[Broken]:
    """Yield a program with each of its statements broken in each way."""
    lines = program.split("\n")
    for node in walk(ast.parse(program)):
        if not isinstance(node, ast.stmt):
            continue
        first, last = node.lineno, node.end_lineno or node.lineno
        if isinstance(node, HEADERS):
            yield from _headers(lines, first)
            continue
        row = lines[last - 1]
        if row.rstrip().endswith((")", "]")):
            yield _with(lines, "open", first, last, row.rstrip()[:-1])
        if first == last:
            indent = len(row) - len(row.lstrip())
            yield _with(lines, "cut", first, first, row[: indent + max(2, (len(row) - indent) * 2 // 3)])
            yield _with(lines, "typed", first, first, f"{row} )")
        merged = ["<<<<<<< ours", *lines[first - 1 : last], "=======", *lines[first - 1 : last], ">>>>>>> theirs"]
        text = "\n".join([*lines[: first - 1], *merged, *lines[last:]])
        yield Broken("merge", first, text, first - 1, 1, last, last - first + 3)


def _headers(lines: list[str], line: int) -> Iterator[Broken]:
    row = lines[line - 1]
    if row.rstrip().endswith(":"):
        yield _with(lines, "header", line, line, row.rstrip()[:-1])
        yield _with(lines, "half a header", line, line, f"{row.rstrip()[:-1]} (:")


def _with(lines: list[str], way: str, line: int, at: int, row: str) -> Broken:
    return Broken(way, line, "\n".join([*lines[: at - 1], row, *lines[at:]]))
