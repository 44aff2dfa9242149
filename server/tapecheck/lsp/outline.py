"""Where things are in a source text: functions, classes, loops, names and what they mean there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cached_property

from tapecheck.source import Source
from tapecheck.source.nodes import given_to, statements_at
from tapecheck.tape import Span

Word = ast.Name | ast.Attribute | ast.arg
"""What a hover can be about: a name, a dotted name, an argument of a function."""

Scope = tuple[int, int]
"""First and last line of a function, or of the whole file."""

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_OWN = ("self", "cls")
_NO_GRAD = re.compile(r"\b(no_grad|inference_mode|set_grad_enabled)\b")


class Outline:
    """One parsed file, indexed when first asked. Lines and columns count from 1, columns in characters."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._around: dict[int, list[Scope]] = {}
        self._stored: dict[tuple[str, Scope], list[Span]] = {}

    def span(self, node: ast.expr | ast.arg) -> Span:
        source = self.source
        end_line, end_offset = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
        return Span(
            source.path,
            node.lineno,
            source.column(node.lineno, node.col_offset),
            end_line,
            source.column(end_line, end_offset),
        )

    def _at(self, line: int) -> Iterator[ast.AST]:
        """Yield the nodes of the top-level statements on a line, outer ones before inner ones."""
        for statement in statements_at(self.source.tree, line, line):
            yield from self.source.nodes_in(statement)

    @property
    def whole(self) -> Scope:
        return 0, len(self.source.lines) + 1

    @cached_property
    def _functions(self) -> list[Scope]:
        return [
            (node.lineno, node.end_lineno or node.lineno)
            for node in self.source.nodes()
            if isinstance(node, _FUNCTIONS)
        ]

    @cached_property
    def _classes(self) -> list[Scope]:
        return [
            (node.lineno, node.end_lineno or node.lineno)
            for node in self.source.nodes()
            if isinstance(node, ast.ClassDef)
        ]

    def scopes_at(self, line: int) -> list[Scope]:
        """Return the functions around a line, innermost first, and last the whole file."""
        known = self._around.get(line)
        if known is None:
            around = [scope for scope in self._functions if scope[0] <= line <= scope[1]]
            around.sort(key=lambda scope: scope[1] - scope[0])
            known = self._around[line] = [*around, self.whole]
        return known

    def meaning(self, name: str, line: int) -> tuple[str, Scope] | None:
        """Return what a name means at a line: the same for two lines where it is the same variable.

        None for a name that nothing in the file stores: one that was imported, or is built in.
        """
        root = name.partition(".")[0]
        if root in _OWN and root != name:
            around = [scope for scope in self._classes if scope[0] <= line <= scope[1]]
            if around:
                return root, max(around)
        for scope in self.scopes_at(line):
            if self.stores(root, scope):
                return root, scope
        return None

    def stores(self, name: str, scope: Scope) -> list[Span]:
        """Return where a name (a dotted one in the whole file) is stored within a scope, in the order of the text."""
        known = self._stored.get((name, scope))
        if known is not None:
            return known
        spans = []
        for word, text in self._stores_of_all:
            if text == name and ("." in name or self.scopes_at(word.lineno)[0] == scope):
                spans.append(self.span(word))
        spans.sort(key=lambda span: (span.line, span.column))
        self._stored[name, scope] = spans
        return spans

    @cached_property
    def _stores_of_all(self) -> list[tuple[Word, str]]:
        found: list[tuple[Word, str]] = []
        for node in self.source.nodes():
            if isinstance(node, ast.arg):
                found.append((node, node.arg))
            elif isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store):
                found.append((node, ast.unparse(node)))
        return found

    def word(self, line: int, column: int) -> Word | None:
        """Return the innermost name, dotted name or argument at a place."""
        best: Word | None = None
        for node in self._at(line):
            if not isinstance(node, (ast.Name, ast.Attribute, ast.arg)):
                continue
            if not node.lineno <= line <= (node.end_lineno or node.lineno):
                continue
            # Walking goes from the outside to the inside: a later hit is within an earlier one.
            if inside(self.span(node), line, column):
                best = node
        return best

    @cached_property
    def loops(self) -> list[Scope]:
        return [
            (node.lineno, node.end_lineno or node.lineno)
            for node in self.source.nodes()
            if isinstance(node, (ast.For, ast.AsyncFor, ast.While))
        ]

    def loops_at(self, line: int) -> set[Scope]:
        """Return the loops around a line that are in the same function."""
        scope = self.scopes_at(line)[0]
        return {loop for loop in self.loops if loop[0] <= line <= loop[1] and self.scopes_at(loop[0])[0] == scope}

    def statement(self, line: int) -> Scope:
        """Return the lines of the assignment at a line: what it binds, it binds after it has read the rest."""
        for node in self._at(line):
            if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
                last = node.end_lineno or node.lineno
                if node.lineno <= line <= last:
                    return node.lineno, last
        return line, line

    def exclusive(self, one: int, other: int) -> bool:
        """Return whether two lines are in branches of which only one is taken."""
        for node in self.source.nodes():
            if isinstance(node, ast.If) and node.orelse:
                cut = node.orelse[0].lineno
                inside_of = [node.lineno <= line <= (node.end_lineno or line) for line in (one, other)]
                if all(inside_of) and (one < cut) != (other < cut):
                    return True
        return False

    @cached_property
    def calls(self) -> set[Span]:
        return {self.span(node) for node in self.source.nodes() if isinstance(node, ast.Call)}

    @cached_property
    def classes(self) -> list[tuple[ast.ClassDef, Span]]:
        """Return the classes of the file, each with the place of its name."""
        found: list[tuple[ast.ClassDef, Span]] = []
        for node in self.source.nodes():
            if isinstance(node, ast.ClassDef):
                written = re.search(rf"\bclass\s+({re.escape(node.name)})\b", self.source.lines[node.lineno - 1])
                if written is not None:
                    start, end = written.start(1) + 1, written.end(1) + 1
                    found.append((node, Span(self.source.path, node.lineno, start, node.lineno, end)))
        return found

    @cached_property
    def added(self) -> dict[tuple[int, int], Span]:
        """Return the targets of augmented assignments by the places where these begin."""
        spans = (self.span(node.target) for node in self.source.nodes() if isinstance(node, ast.AugAssign))
        return {(span.line, span.column): span for span in spans}

    @cached_property
    def assignments(self) -> list[tuple[Span, str]]:
        """Return the values that are assigned to one name or attribute each, with that."""
        found: list[tuple[Span, str]] = []
        for node in self.source.nodes():
            if not isinstance(node, ast.Assign) or len(node.targets) != 1:
                continue
            pairs = [(node.targets[0], node.value)]
            if isinstance(node.targets[0], (ast.Tuple, ast.List)) and isinstance(node.value, (ast.Tuple, ast.List)):
                targets, values = node.targets[0].elts, node.value.elts
                plain = not any(isinstance(one, ast.Starred) for one in (*targets, *values))
                pairs = list(zip(targets, values, strict=True)) if plain and len(targets) == len(values) else []
            for target, value in pairs:
                if isinstance(target, (ast.Name, ast.Attribute)):
                    found.append((self.span(value), ast.unparse(target)))
        return found

    def without_grad(self, span: Span) -> bool:
        """Return whether a place is in the text of a `with torch.no_grad()` or of a function decorated with it."""
        return any(block.holds(span) for block in self._without_grad)

    @cached_property
    def _without_grad(self) -> list[Span]:
        found = []
        for node in self.source.nodes():
            if isinstance(node, (ast.With, ast.AsyncWith)):
                switches = [item.context_expr for item in node.items]
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                switches = node.decorator_list
            else:
                continue
            if any(_NO_GRAD.search(ast.unparse(switch)) for switch in switches):
                first, last = node.body[0], node.body[-1]
                found.append(Span(self.source.path, first.lineno, 1, (last.end_lineno or last.lineno) + 1, 1))
        return found

    def is_returned(self, span: Span) -> bool:
        """Return whether a place is part of what a function returns."""
        return any(returned.holds(span) for returned in self._returned)

    @cached_property
    def _returned(self) -> list[Span]:
        tree = self.source.nodes()
        return [self.span(node.value) for node in tree if isinstance(node, ast.Return) and node.value is not None]

    def called_name(self, call: Span) -> Span | None:
        """Return the name that a call calls: `backward` of `loss.backward()`; None where a call has none."""
        for node in self._at(call.line):
            if isinstance(node, ast.Call) and node.lineno == call.line and self.span(node) == call:
                whole = self.span(node.func)
                if isinstance(node.func, ast.Attribute):
                    start = whole.end_column - len(node.func.attr)
                    return Span(whole.file, whole.end_line, start, whole.end_line, whole.end_column)
                return whole if isinstance(node.func, ast.Name) else None
        return None

    def in_argument(self, call: Span, line: int, column: int) -> bool:
        """Return whether a place within a call is in one of its arguments."""
        for node in self._at(call.line):
            if isinstance(node, ast.Call) and node.lineno == call.line and self.span(node) == call:
                values = given_to(node)
                return any(inside(self.span(value), line, column) for value in values)
        return False


def name_of(word: Word) -> str:
    return word.arg if isinstance(word, ast.arg) else ast.unparse(word)


def inside(span: Span, line: int, column: int) -> bool:
    """Return whether a place (line and column from 1) is in a span."""
    return (span.line, span.column) <= (line, column) < (span.end_line, span.end_column)
