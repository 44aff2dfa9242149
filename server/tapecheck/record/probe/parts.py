"""What of a watched line ran: `if again: log(loss)` is one line, the second half of which may never run.

Line events do not tell. From Python 3.11 on the instructions of code have columns: those that a part of a line begins
with are watched, as long as they are worth it.
"""

from __future__ import annotations

import ast
import itertools
from types import CodeType
from typing import Callable, Collection, Dict, FrozenSet, Iterator, List, Optional, Protocol, Set, Tuple, Type, Union

Bytes = Tuple[int, int, int, int]
"""First line, first column, last line, end column: lines from 1, columns from 0 in bytes, as Python has them."""

# So often is a part counted, and so many instructions of a function are looked at where each is an event of its own.
_ENOUGH, _MOST = 64, 1 << 20


class Text(Protocol):
    """The text of a file, as far as it is of interest here; extents are what the tape has, in characters."""

    filename: str
    parts: List[Bytes]

    def extent_of(self, at: Bytes) -> Bytes: ...


def parts_of(node: ast.AST, lines: List[str]) -> Iterator[Bytes]:
    """Yield what of a node may be left out where the line runs that it is on."""
    if isinstance(node, ast.stmt):
        before = lines[node.lineno - 1].encode("utf-8", "replace")[: node.col_offset]
        if before.strip():
            # It stands behind another statement, or behind the head of the one that it is within.
            yield _extent(node)
    for part in _left_out(node):
        yield _extent(part)


def _left_out(node: ast.AST) -> List[ast.expr]:
    """Return the expressions that are not always computed where another one is."""
    rest = _LEFT_OUT.get(type(node))
    if rest is None:
        # The guard of a case of `match`, which Python 3.9 has not.
        rest = ("guard",) if type(node).__name__ == "match_case" else ()
    found: List[ast.expr] = []
    for name in rest:
        value = getattr(node, name)
        found += value[1:] if isinstance(value, list) else [value] if value is not None else []
    return found + _of_generators(getattr(node, "generators", []))


_LEFT_OUT: Dict[Type[ast.AST], Tuple[str, ...]] = {
    ast.BoolOp: ("values",),
    ast.Compare: ("comparators",),
    ast.IfExp: ("body", "orelse"),
    ast.ListComp: ("elt",),
    ast.SetComp: ("elt",),
    ast.GeneratorExp: ("elt",),
    ast.DictComp: ("key", "value"),
    ast.Lambda: ("body",),
    ast.Assert: ("msg",),
}
"""The fields of nodes that hold what may be left out; of a list all but the first."""


def _of_generators(generators: List[ast.comprehension]) -> List[ast.expr]:
    return [test for one in generators for test in one.ifs] + [one.iter for one in generators[1:]]


def _extent(node: Union[ast.stmt, ast.expr]) -> Bytes:
    return (node.lineno, node.col_offset, node.end_lineno or node.lineno, node.end_col_offset or 0)


class Part:
    """A part of a watched line: how often it ran, `unsure` where it may have run more often, or at all.

    `waits` is the number of code objects that have it and have not had an event yet.
    """

    __slots__ = ("at", "extent", "filename", "hits", "unsure", "waits")

    def __init__(self, filename: str, at: Bytes, extent: Bytes) -> None:
        self.filename = filename
        self.at = at
        self.extent = extent
        self.hits = 0
        self.unsure = False
        self.waits = 0

    def known(self) -> Tuple[int, bool]:
        """Return how often it ran, and whether that is all."""
        return self.hits, not (self.unsure or self.waits)

    def holds(self, position: Bytes) -> bool:
        return self.at[:2] <= position[:2] and position[2:] <= self.at[2:]


class Entries:
    """The instructions of one code object that parts begin with, by their offsets; `rows` are the lines they are on."""

    __slots__ = ("_left", "_told", "_waiting", "at", "rows")

    def __init__(
        self, at: Dict[int, List[Tuple[Part, List[int]]]], rows: Set[int], told: Callable[[Part], None]
    ) -> None:
        self.at = at
        self.rows: FrozenSet[int] = frozenset(rows)
        self._told = told
        self._left = _MOST
        # That there are events at all is seen by the first one: others that ask for some can end those.
        self._waiting = {part for begun in at.values() for part, _ in begun}
        for part in self._waiting:
            part.waits += 1

    def ran(self, offset: int) -> bool:
        """Note that an instruction runs, and return whether it is to be looked at again."""
        if self._waiting:
            for part in self._waiting:
                part.waits -= 1
            self._waiting = set()
        begun = self.at.get(offset)
        if begun is None:
            return False
        for part, count in begun:
            count[0] += 1
            if count[0] > part.hits:
                part.hits = count[0]
                part.unsure = part.unsure or part.hits >= _ENOUGH
                if part.hits & (part.hits - 1) == 0:
                    self._told(part)
        if all(part.hits >= _ENOUGH for part, _ in begun):
            self.at.pop(offset, None)
            return False
        return True

    def stepped(self, offset: int) -> None:
        """Note an instruction among others that are all events."""
        self._left -= 1
        self.ran(offset)
        if not self.at:
            self.rows = frozenset()
        elif not self._left:
            self.give_up()

    def give_up(self) -> None:
        """Look no more."""
        for part in {part for begun in list(self.at.values()) for part, _ in begun}:
            part.unsure = True
            self._told(part)
        self.at.clear()
        self.rows = frozenset()


class Parts:
    """The parts of the watched lines of one run."""

    def __init__(self, told: Callable[[Part], None]) -> None:
        self.told = told
        self.of_file: Dict[str, List[Part]] = {}

    def on(self, file: str, line: int) -> Iterator[Part]:
        return (part for part in self.of_file.get(file, ()) if part.at[0] <= line <= part.at[2])

    def entries(self, code: CodeType, text: Text, watched: Collection[Tuple[str, int]]) -> Optional[Entries]:
        """Return where parts of watched lines begin in a code object, None where none does."""
        known = self.of_file.get(text.filename)
        if known is None:
            rows = {line for file, line in watched if file == text.filename}
            known = self.of_file[text.filename] = [
                Part(text.filename, at, text.extent_of(at))
                for at in text.parts
                if any(at[0] <= row <= at[2] for row in rows)
            ]
        return self._begun(code, known) if known else None

    def _begun(self, code: CodeType, parts: List[Part]) -> Optional[Entries]:
        at: Dict[int, List[Tuple[Part, List[int]]]] = {}
        rows: Set[int] = set()
        within: Set[Part] = set()
        placed = False
        operations = code.co_code
        for offset, position in _positions(code):
            placed = True
            now = {part for part in parts if part.holds(position)}
            begun = now - within
            if begun:
                at[offset] = [(part, [0]) for part in begun]
                rows.add(position[0])
            # A prefix of an instruction comes before it, and it is not said which of them an event tells of.
            within = now if operations[offset] != _PREFIX else now - begun
        if not placed:
            # Compiled without columns, or out of something else than the text.
            for part in parts:
                part.unsure = True
        return Entries(at, rows, self.told) if at else None


def _positions(code: CodeType) -> Iterator[Tuple[int, Bytes]]:
    """Yield the offsets of instructions, with where these stand in the text, as far as that is known."""
    positions = getattr(code, "co_positions", tuple)
    # Python 3.13 has the jump past an element of a generator in the columns of that element.
    for operation, index, (first, last, start, end) in zip(code.co_code[::2], itertools.count(), positions()):
        if first is not None and last is not None and start is not None and end is not None:
            if operation not in _NOT_FIRST:
                yield 2 * index, (first, start, last, end)


def _opcodes() -> Tuple[int, FrozenSet[int]]:
    import opcode

    return opcode.EXTENDED_ARG, frozenset([*opcode.hasjrel, *opcode.hasjabs, opcode.opmap.get("CACHE", -1)])


# No expression begins with a jump, or with what an instruction remembers.
_PREFIX, _NOT_FIRST = _opcodes()
