"""What was worked out from the nodes of a parsed file: the tree itself is data, and stays as the parser made it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

from tapecheck.source.nodes import first_line, walk

_UNKNOWN = object()

Node = TypeVar("Node", bound=ast.AST)
Answer = TypeVar("Answer")
Given = ParamSpec("Given")
_PLACELESS: set[Callable[..., object]] = set()


def placeless(work: Callable[Given, Answer]) -> Callable[Given, Answer]:
    """Mark what makes the same of a node wherever its lines stand: the answer holds no node and no place."""
    _PLACELESS.add(work)
    return work


class Notes:
    """Answers about the nodes of one file, each worked out once; a later state of the text takes over what still holds.

    What is asked is a function of a node, which hangs on nothing that changes while the file stays as it is.
    """

    __slots__ = ("_answers", "_earlier", "_of_file")

    def __init__(self) -> None:
        self._answers: dict[Callable[..., object], dict[ast.AST, Any]] = {}
        self._of_file: dict[Callable[..., object], Any] = {}
        self._earlier: dict[Callable[..., object], Any] = {}

    def of(
        self, node: Node, work: Callable[Concatenate[Node, Given], Answer], *args: Given.args, **kwargs: Given.kwargs
    ) -> Answer:
        """Return what `work` makes of a node, and of the other arguments where it is not known yet."""
        known = self._answers.get(work)
        if known is None:
            known = self._answers.setdefault(work, {})
        answer: Answer = known.get(node, _UNKNOWN)
        if answer is _UNKNOWN:
            answer = known[node] = work(node, *args, **kwargs)
        return answer

    def of_file(
        self, work: Callable[Concatenate[Answer | None, Given], Answer], *args: Given.args, **kwargs: Given.kwargs
    ) -> Answer:
        """Return what `work` makes of the file as a whole, given first what it made of an earlier state, or None."""
        answer: Answer = self._of_file.get(work, _UNKNOWN)
        if answer is _UNKNOWN:
            answer = self._of_file[work] = work(self._earlier.get(work), *args, **kwargs)
            # What is taken over is in the answer: states of a text that is edited for hours are not kept.
            self._earlier.pop(work, None)
        return answer

    def without(self, tree: ast.Module, gone: Sequence[ast.stmt]) -> Notes:
        """Return notes with the answers about nodes that are in none of the statements of a tree which are gone."""
        left = Notes()
        left._earlier = {**self._earlier, **self._of_file}
        few = 2 * len(gone) < len(tree.body)
        nodes = {node for statement in gone for node in walk(statement)} if few else set()
        first, last = (first_line(gone[0]), gone[-1].end_lineno or 0) if gone else (0, 0)
        for work, known in self._answers.copy().items():
            kept = known.copy()
            if few:
                kept.pop(tree, None)
                for node in nodes & kept.keys():
                    del kept[node]
            else:
                # Of what has no line the statements around it are not known.
                kept = {node: kept[node] for node in kept if not first <= getattr(node, "lineno", first) <= last}
            left._answers[work] = kept
        return left

    def take_over(self, before: Notes, moved: Iterable[tuple[ast.AST, ast.AST]]) -> None:
        """Answer for nodes what earlier notes say of the same ones on other lines, as far as no place is in that."""
        pairs = list(moved)
        for work in _PLACELESS & before._answers.keys() if pairs else ():
            known = before._answers[work]
            mine = self._answers.setdefault(work, {})
            for old, new in pairs:
                answer = known.get(old, _UNKNOWN)
                if answer is not _UNKNOWN:
                    mine[new] = answer


__all__ = ["Notes", "placeless"]
