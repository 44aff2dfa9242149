"""What a path takes for granted where code is not visible."""

from __future__ import annotations

import ast

from tapecheck.interpret.state.position import Position
from tapecheck.interpret.state.writer import TapeWriter
from tapecheck.interpret.values import Value
from tapecheck.tape import Assumed, AssumptionKind


class Assumptions:
    """The answers that the dry run has gone on with, and what tells opaque code from the program's own."""

    def __init__(self, writer: TapeWriter, position: Position) -> None:
        self._writer = writer
        self._position = position
        self.passed: dict[int, Value] = {}
        """The unknown arguments that a function was started with, by id, and what calls of them return."""
        self.decorated: dict[int, str] = {}
        """The functions that a decorator which is not visible was given, by the id of their node."""

    def note(self, kind: AssumptionKind, text: str, node: ast.AST, about: tuple[int, ...] = ()) -> None:
        """Note that the dry run goes on with one of several answers; `text` completes "assumes that"."""
        self._writer.emit(Assumed(self._position.site(node), kind, text, about))
