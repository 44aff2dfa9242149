"""What a path went on past: exceptions that Python would raise, and calls that were not followed."""

from __future__ import annotations

import ast

from tapecheck.interpret.state.position import Position
from tapecheck.interpret.values import Value
from tapecheck.tape import Span


class Omissions:
    """Exceptions and calls that the dry run has passed over."""

    def __init__(self, position: Position) -> None:
        self._position = position
        self.mistakes: set[tuple[str, Span]] = set()
        """Every such exception, by its kind."""
        self.gaps: set[tuple[str, Span]] = set()
        """Exceptions of Python's own that no handler expects: gaps of the interpreter."""
        self.supposed: set[Span] = set()
        """Where methods of tensors were called on what need not be a tensor."""
        self.handed: set[Span] = set()
        """Where values were cut from their graph that code which is not visible was handed."""
        self.missing: dict[int, Value] = {}
        """What stands for values that the program does not have, by id: names that nothing gives, sums with None."""
        self.not_followed: dict[Span, None] = {}
        """Calls that lie too deep in other calls, in order."""

    def mistake(self, kind: str, node: ast.AST, *, missed: bool) -> bool:
        """Note an exception that the path goes on past: a gap of the interpreter's, or what a guess has `missed`.

        Returns whether it is the first of its kind there.
        """
        place = (kind, self._position.span(node))
        first = place not in self.mistakes
        self.mistakes.add(place)
        if not missed:
            self.gaps.add(place)
        return first

    def is_unbound(self, node: ast.Name) -> bool:
        """Return whether nothing binds a name."""
        at = self._position.span(node)
        return any((kind, at) in self.gaps for kind in ("NameError", "UnboundLocalError"))
