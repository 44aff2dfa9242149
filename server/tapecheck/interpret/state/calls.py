"""The functions that are running, and those that were called."""

from __future__ import annotations

import ast

from tapecheck.tape import Span


class Calls:
    """The calls of a path, by the nodes of their functions."""

    def __init__(self) -> None:
        self.running: list[int] = []
        """The running functions, outermost first: ids of their nodes."""
        self.called: set[int] = set()
        """The functions that were called: ids of their nodes."""
        self.called_names: set[str] = set()
        self.recorded: set[tuple[Span, bool, Span | None]] = set()
        """The functions that code calls, whether autograd may record what they build, and the calls."""

    @property
    def depth(self) -> int:
        return len(self.running)

    def note(self, node: ast.AST, name: str) -> None:
        """Note that a function is called."""
        self.called.add(id(node))
        self.called_names.add(name.rsplit(".", 1)[-1])

    def begin(self, node: ast.AST) -> None:
        self.running.append(id(node))

    def end(self) -> None:
        self.running.pop()

    def times_running(self, node: ast.AST) -> int:
        """Return how many calls of a function are running: more than one where it is recursive."""
        return self.running.count(id(node))

    @property
    def recursion(self) -> int:
        """How many calls of the innermost function are running."""
        return self.running.count(self.running[-1]) if self.running else 0
