"""The source as the fixes see it: where an expression, its statement, block, loop and function are.

Nodes are found in the syntax tree that the dry run used, so that spans agree, and a file with a syntax error
somewhere still has its places. Changes return None where the text has not the form they need.
"""

from __future__ import annotations

import ast
import builtins
import io
import tokenize
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import takewhile
from typing import Concatenate, ParamSpec, Union

from tapecheck.fixes.edit import Change, TextIndex
from tapecheck.fixes.rewrite import tried
from tapecheck.source import Source
from tapecheck.source.nodes import (
    Part,
    expression_of,
    first_line,
    is_docstring,
    is_read,
    last_line,
    of_kind,
    statements_at,
    taken_apart,
)
from tapecheck.tape import Site, Span

Function = Union[ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.Module]
LoopNode = Union[ast.For, ast.AsyncFor, ast.While]
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
LOOPS = (ast.For, ast.AsyncFor, ast.While)
_SPACE = " \t\f"
_P = ParamSpec("_P")


class Code:
    """One file's text with its syntax tree, for finding places and writing changes."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.text = source.text
        self.tree = source.tree
        self.index = TextIndex(source.text)
        self._parents: dict[ast.AST, ast.AST] = {}
        self._at: dict[tuple[int, int, int, int], list[ast.expr | ast.stmt]] = {}
        self._listed: set[ast.stmt] = set()
        self._in_string: set[int] | None = None

    def _list(self, first: int, last: int) -> list[ast.stmt]:
        """List the nodes of the top-level statements that have some of the lines; returns these statements."""
        statements = statements_at(self.tree, first, last)
        for statement in statements:
            if statement in self._listed:
                continue
            self._listed.add(statement)
            self._parents[statement] = self.tree
            for node in self.source.nodes_in(statement):
                for child in ast.iter_child_nodes(node):
                    self._parents[child] = node
                if isinstance(node, (ast.expr, ast.stmt)) and node.end_lineno is not None:
                    assert node.end_col_offset is not None
                    key = (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
                    self._at.setdefault(key, []).append(node)
        return statements

    # -- places -------------------------------------------------------------------------------------------------

    def start(self, node: ast.AST) -> int:
        """Return the offset where a node's text starts; that of a definition behind its decorators."""
        line, column = node.lineno, node.col_offset  # type: ignore[attr-defined]
        return self.index.offset(line, self.source.column(line, column))

    def end(self, node: ast.AST) -> int:
        line, column = node.end_lineno, node.end_col_offset  # type: ignore[attr-defined]
        return self.index.offset(line, self.source.column(line, column))

    def span(self, node: ast.AST) -> Span:
        """Return where a node is, as tapes and findings name places."""
        return self.index.span(self.source.path, self.start(node), self.end(node))

    def segment(self, node: ast.AST) -> str:
        """Return the text of a node, without parentheses around it."""
        return self.text[self.start(node) : self.end(node)]

    def nodes_at(self, span: Span) -> list[ast.expr | ast.stmt]:
        """Return the nodes with exactly this span, expressions before statements, outermost first."""
        if span.file != self.source.path:
            return []
        key = (
            span.line,
            self._byte(span.line, span.column),
            span.end_line,
            self._byte(span.end_line, span.end_column),
        )
        self._list(span.line, span.end_line)
        found = self._at.get(key, [])
        return sorted(found, key=lambda node: isinstance(node, ast.stmt))

    def spans(self, node: ast.AST, span: Span) -> bool:
        """Return whether a node has exactly this span."""
        return any(found is node for found in self.nodes_at(span))

    def expression_at(self, span: Span) -> ast.expr | None:
        """Return the outermost expression with exactly this span."""
        found = (node if isinstance(node, ast.expr) else expression_of(node) for node in self.nodes_at(span))
        return next((one for one in found if one is not None), None)

    def statement_at(self, span: Span) -> ast.stmt | None:
        """Return the innermost statement around a span."""
        if span.file != self.source.path:
            return None
        for node in self.nodes_at(span):
            return self.statement(node)
        best: ast.stmt | None = None
        low, high = self.index.range(span)
        for statement in self._list(span.line, span.end_line):
            for part in self.source.nodes_in(statement):
                if isinstance(part, ast.stmt) and self.start(part) <= low and high <= self.end(part):
                    if best is None or self.inside(part, best):
                        best = part
        return best

    def statements(self, at: Site) -> Iterator[ast.stmt]:
        """Yield the innermost statements around a place and around the calls that led there, innermost first."""
        return (found for span in (at.span, *at.stack) if (found := self.statement_at(span)) is not None)

    def statement_in(self, function: ast.AST, at: Site) -> ast.stmt | None:
        """Return the statement of a function in which an event happens, or calls what leads there."""
        return next((one for one in self.statements(at) if self.function(one) is function), None)

    def within(self, span: Span, kind: type[Part]) -> list[Part]:
        """Return the nodes of a kind that lie within a span, outer ones before inner ones."""
        statement = self.statement_at(span)
        low, high = self.index.range(span)
        nodes = of_kind(statement, kind) if statement is not None else []
        return [node for node in nodes if low <= self.start(node) and self.end(node) <= high]

    def calls_in(self, span: Span) -> list[ast.Call]:
        """Return the calls that lie within a span, in the order of the text."""
        return sorted(self.within(span, ast.Call), key=self.start)

    def parent(self, node: ast.AST) -> ast.AST | None:
        if node not in self._parents and node is not self.tree:
            first = getattr(node, "lineno", 0)
            self._list(first, getattr(node, "end_lineno", None) or (first or len(self.source.lines)))
        return self._parents.get(node)

    def parents(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the nodes around a node, innermost first."""
        current = self.parent(node)
        while current is not None:
            yield current
            current = self.parent(current)

    def inside(self, node: ast.AST, outer: ast.AST) -> bool:
        return node is outer or any(parent is outer for parent in self.parents(node))

    def statement(self, node: ast.AST) -> ast.stmt | None:
        """Return the innermost statement that a node is or belongs to."""
        if isinstance(node, ast.stmt):
            return node
        return next((parent for parent in self.parents(node) if isinstance(parent, ast.stmt)), None)

    def function(self, node: ast.AST) -> Function:
        """Return the innermost function around a node, the module at top level."""
        return next((parent for parent in self.parents(node) if isinstance(parent, FUNCTIONS)), self.tree)

    def owner(self, node: ast.AST) -> ast.ClassDef | None:
        """Return the class whose method a node is in."""
        return next((parent for parent in self.parents(node) if isinstance(parent, ast.ClassDef)), None)

    def loops(self, node: ast.AST) -> list[LoopNode]:
        """Return the loops around a node within its function, innermost first."""
        own = takewhile(lambda parent: not isinstance(parent, FUNCTIONS), self.parents(node))
        return [parent for parent in own if isinstance(parent, LOOPS)]

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        """Return the statements that a statement stands among, itself included."""
        parent = self.parent(statement)
        for name in ("body", "orelse", "finalbody"):
            block = getattr(parent, name, None)
            if isinstance(block, list) and statement in block:
                return block
        return [statement]

    def within_block(self, node: ast.AST, block: Sequence[ast.stmt]) -> ast.stmt | None:
        """Return the statement of a block that a node lies in."""
        around = (one for one in (node, *self.parents(node)) if isinstance(one, ast.stmt))
        return next((one for one in around if one in block), None)

    def beside(self, statement: ast.stmt, other: ast.AST) -> ast.stmt | None:
        """Return the other statement of a block that a node lies in."""
        found = self.within_block(other, self.block(statement))
        return found if found is not statement else None

    def between(self, first: ast.stmt, last: ast.stmt) -> list[ast.stmt]:
        """Return what stands between two statements of a block."""
        block = self.block(first)
        return block[block.index(first) + 1 : block.index(last)]

    def same_block(self, one: ast.AST, other: ast.AST) -> tuple[ast.stmt, ast.stmt] | None:
        """Return the statements around two nodes that stand in the same, innermost possible, block."""
        statement = self.statement(one)
        while statement is not None:
            partner = self.within_block(other, self.block(statement))
            if partner is not None:
                return statement, partner
            above = self.parent(statement)
            if above is None or isinstance(above, FUNCTIONS):
                return None
            statement = self.statement(above)
        return None

    # -- names --------------------------------------------------------------------------------------------------

    def stores(self, scope: ast.AST, name: str) -> list[ast.stmt]:
        """Return the statements of a scope, nested functions aside, that store to a name or dotted name."""
        return [node for node in walk(scope) if isinstance(node, ast.stmt) and name in map(dotted, targets(node))]

    def loads(self, scope: ast.AST, name: str) -> list[ast.expr]:
        """Return the expressions of a scope, nested functions included, that read a name or dotted name."""
        return [node for node in of_kind(scope, ast.expr) if is_read(node) and dotted(node) == name]

    def named(self, scope: ast.AST, name: str) -> bool:
        """Return whether a scope, nested functions included, uses a name for anything."""
        read = any(node.id == name for node in of_kind(scope, ast.Name))
        return read or any(node.arg == name for node in of_kind(scope, ast.arg))

    def imported(self) -> set[str]:
        """Return the names that imports bind in this file."""
        return {
            (alias.asname or alias.name).split(".")[0]
            for node in ast.walk(self.tree)
            if isinstance(node, (ast.Import, ast.ImportFrom))
            for alias in node.names
        }

    def path(self, node: ast.expr) -> str:
        """Return the dotted path in libraries that an expression comes from, by the imports and the one place where a
        name is stored: "torch.log", "builtins.print", "logging.getLogger().info"; "" where the text does not show it.
        """
        return self._path(node, frozenset())

    def _path(self, node: ast.expr, through: frozenset[str]) -> str:
        """Return the path of an expression; `through` are names that led to it: `state = state.next()` has none."""
        if isinstance(node, ast.Call):
            return f"{path}()" if (path := self._path(node.func, through)) else ""
        if isinstance(node, (ast.Constant, ast.JoinedStr)):
            return "builtins.str" if isinstance(getattr(node, "value", ""), str) else ""
        name = dotted(node) or ""
        if bound := self._bound.get(name):
            known = bound[0] if len(bound) == 1 and name not in through else None
            return self._path(known, through | {name}) if isinstance(known, ast.expr) else known or ""
        if isinstance(node, ast.Attribute):
            return f"{path}.{node.attr}" if (path := self._path(node.value, through)) else ""
        return f"builtins.{name}" if isinstance(node, ast.Name) and hasattr(builtins, name) else ""

    @cached_property
    def _bound(self) -> dict[str, list[str | ast.expr | None]]:
        """Return what names and attributes are bound to: a path, an expression, or None for what nobody sees."""
        found: dict[str, list[str | ast.expr | None]] = {}
        for node in ast.walk(self.tree):
            for name, value in _bindings(node):
                found.setdefault(name, []).append(value)
        return found

    def torch(self) -> tuple[str, list[Change]]:
        """Return how this file calls torch, with the import that it needs for that."""
        return self.module("torch")

    def module(self, wanted: str) -> tuple[str, list[Change]]:
        """Return how this file calls a module, with the import that it needs for that."""
        imports = [node for node in of_kind(self.tree, ast.Import) if self.function(node) is self.tree]
        for alias in (alias for node in imports for alias in node.names):
            if alias.name == wanted:
                return alias.asname or wanted, []
            if alias.name.startswith(f"{wanted}.") and alias.asname is None:
                return wanted, []
        body = self.tree.body[bool(self.tree.body) and is_docstring(self.tree.body[0]) :]
        first = next((one for one in body if getattr(one, "module", None) != "__future__"), None)
        if first is None:
            return wanted, []
        place = self.index.offset(first_line(first), 1)
        return wanted, [Change(place, place, f"import {wanted}{self.index.newline}")]

    def in_parentheses(self, node: ast.expr) -> bool:
        """Return whether an expression has parentheses of its own around it, which no call or subscript accounts
        for.
        """
        before = self.text[: self.start(node)].rstrip()
        after = self.text[self.end(node) :].lstrip()
        if not before.endswith("(") or not after.startswith(")"):
            return False
        parent = self.parent(node)
        if isinstance(parent, ast.Call):
            return bool(before[:-1].rstrip().endswith(("(", ",", "=")))
        return not isinstance(parent, (ast.ClassDef, ast.FunctionDef))

    # -- changes ------------------------------------------------------------------------------------------------

    def replace(self, node: ast.AST, text: str) -> Change:
        return Change(self.start(node), self.end(node), text)

    def rewritten(
        self, node: ast.AST, rewrite: Callable[Concatenate[str, _P], str], *args: _P.args, **kwargs: _P.kwargs
    ) -> Change | None:
        """Return what a rewrite makes of a node; None where its text is not of the form for that."""
        text = tried(rewrite, self.segment(node), *args, **kwargs)
        return self.replace(node, text) if text is not None else None

    def indent(self, statement: ast.stmt) -> str | None:
        """Return the white space before a statement; None where other text stands before it on its line."""
        line = first_line(statement)
        lead = self._lead(line)
        decorated = line < statement.lineno
        return lead if decorated or self.index.offset(line, 1) + len(lead) == self.start(statement) else None

    def alone(self, statement: ast.stmt) -> bool:
        """Return whether a statement has its lines for itself, comments aside."""
        return self.indent(statement) is not None and self._behind(statement)[:1] in ("", "#")

    def with_its_holders(self, statement: ast.stmt) -> ast.stmt:
        """Return a statement with the loops and tests around it that hold nothing else."""
        while True:
            parent = self.parent(statement)
            if not isinstance(parent, (ast.For, ast.If)) or len(parent.body) > 1 or parent.orelse:
                return statement
            statement = parent

    def neighbours(self, statement: ast.stmt) -> tuple[ast.stmt | None, ast.stmt | None]:
        """Return the statements of the same block that stand before and behind one on its line, as in `a(); b()`."""
        block = self.block(statement)
        place = block.index(statement)
        before = next((one for one in block[:place][-1:] if one.end_lineno == first_line(statement)), None)
        behind = next((one for one in block[place + 1 :][:1] if first_line(one) == statement.end_lineno), None)
        return before, behind

    def on_header_line(self, statement: ast.stmt) -> bool:
        """Return whether a statement stands behind the colon of what it belongs to, as in `for x in y: f(x)`."""
        first: ast.stmt | None = statement
        while first is not None:
            statement, first = first, self.neighbours(first)[0]
        return self.indent(statement) is None

    def block_indent(self, statement: ast.stmt) -> str:
        """Return the white space before the statements of a block, or what it is once they have lines of their own."""
        lead = self._lead(first_line(statement))
        return lead + self._indent_unit() if self.on_header_line(statement) else lead

    def insert_before(self, statement: ast.stmt, lines: Iterable[str]) -> Change | None:
        lines = list(lines)
        if _continues_if(self, statement):
            return None
        indent = self.indent(statement)
        if indent is not None:
            place = self.index.offset(first_line(statement), 1)
            return Change(place, place, "".join(f"{indent}{line}{self.index.newline}" for line in lines))
        if not _are_simple(lines):
            return None
        start = self.start(statement)
        return Change(start, start, "".join(f"{line}; " for line in lines))

    def insert_after(self, statement: ast.stmt, lines: Iterable[str]) -> Change | None:
        lines, last = list(lines), last_line(statement)
        if not _is_compound(statement):
            if self.neighbours(statement)[1] is not None or self.on_header_line(statement):
                place = self.end(statement)
                text = "".join(f"; {line}" for line in lines)
                return Change(place, place, text) if _are_simple(lines) else None
            if not self._ends_line(statement):
                return None
        indent, end = self.block_indent(statement), self.index.line_end(last)
        body = [f"{indent}{line}" for line in lines]
        if end == len(self.text):
            return Change(end, end, "".join(self.index.newline + line for line in body))
        place = self.index.offset(last + 1, 1)
        return Change(place, place, "".join(line + self.index.newline for line in body))

    def insert_first(self, body: Sequence[ast.stmt], lines: Iterable[str]) -> Change | None:
        """Insert at the start of a block, behind a docstring."""
        return self.insert_before(body[len(body) > 1 and is_docstring(body[0])], lines)

    def delete_all(self, statements: Iterable[ast.stmt]) -> list[Change] | None:
        """Take statements out; None where one of them cannot be."""
        changes = [self.delete(statement) for statement in statements]
        return None if None in changes else [change for change in changes if change is not None]

    def delete(self, statement: ast.stmt) -> Change | None:
        """Take a statement out with its lines; the last one of a block becomes `pass`."""
        if len(self.block(statement)) == 1 and not _continues_if(self, statement):
            return Change(self.start(statement), self.end(statement), "pass")
        before, behind = self.neighbours(statement)
        if behind is not None:
            return Change(self.start(statement), self.start(behind), "")
        if before is not None:
            return Change(self.end(before), self.end(statement), "")
        if not self.alone(statement):
            return None
        return Change(*self._lines(first_line(statement), last_line(statement)), "")

    def lines_of(self, statement: ast.stmt) -> list[str] | None:
        """Return a statement's lines without their common indent, for writing it elsewhere; strings stay as they
        are.
        """
        numbers = range(statement.lineno, last_line(statement) + 1)
        if first_line(statement) != statement.lineno:
            return None
        if not self.alone(statement):
            return [self.segment(statement)] if len(numbers) == 1 else None
        if not self._string_lines().isdisjoint(numbers):
            return None
        indent, end = self._lead(statement.lineno), self.end(statement)
        lines = [self.text[self.index.offset(one, 1) : min(self.index.line_end(one), end)] for one in numbers]
        return [line[len(indent) :] if line.startswith(indent) else line.lstrip() for line in lines]

    def wrap(self, first: ast.stmt, last: ast.stmt, header: str) -> list[Change] | None:
        """Put statements of one block under a header such as `with torch.no_grad():`."""
        before, behind = self.neighbours(first)[0], self.neighbours(last)[1]
        if _continues_if(self, first) or not (behind or _is_compound(last) or self._ends_line(last)):
            return None
        newline, unit = self.index.newline, self._indent_unit()
        indent = self.block_indent(first)
        changes: list[Change] = []
        if self.indent(first) is not None:
            place = self.index.offset(first_line(first), 1)
            changes.append(Change(place, place, f"{indent}{header}{newline}"))
            changes.append(Change(place, place, unit))
        else:
            if before is not None and self.on_header_line(first):
                # The statements before it on the line of the header get a line of their own too.
                head = self.block(first)[0]
                changes.append(Change(self._gap(head), self.start(head), f"{newline}{indent}"))
            start = self.end(before) if before is not None else self._gap(first)
            changes.append(Change(start, self.start(first), f"{newline}{indent}{header}{newline}{indent}{unit}"))
        if behind is not None:
            changes.append(Change(self.end(last), self.start(behind), f"{newline}{indent}"))
        for number in range(first_line(first) + 1, last_line(last) + 1):
            start = self.index.offset(number, 1)
            if number not in self._string_lines() and self._line(number).strip():
                changes.append(Change(start, start, unit))
        return changes

    def unwrap(self, statement: ast.With | ast.AsyncWith) -> list[Change] | None:
        """Take a `with` away and move its body out to its place."""
        indent, inner = self.indent(statement), self.indent(statement.body[0])
        if indent is not None and self.on_header_line(statement.body[0]):
            return [Change(self.start(statement), self.start(statement.body[0]), "")]
        if indent is None or inner is None:
            return None
        # A comment above the first statement belongs to the body.
        body = self._line_above(statement.body[0], max(last_line(item.context_expr) for item in statement.items))
        header = Change(*self._lines(statement.lineno, body - 1), "")
        return [header, *self._dedented(body, last_line(statement), len(inner) - len(indent))]

    def without_item(self, statement: ast.With | ast.AsyncWith, item: ast.withitem) -> list[Change] | None:
        """Take one of the items of a `with` away, or the `with` itself where there is nothing else."""
        items = statement.items
        index = items.index(item)
        if len(items) == 1:
            return self.unwrap(statement)
        if index + 1 < len(items):
            return [Change(self.start(item.context_expr), self.start(items[index + 1].context_expr), "")]
        before = items[index - 1]
        return [Change(self.end(before.optional_vars or before.context_expr), self.end(item.context_expr), "")]

    def end_before(self, statement: ast.With | ast.AsyncWith, child: ast.stmt) -> list[Change] | None:
        """End a `with` in front of a statement of its body: that one and those after it move out to its place."""
        indent, inner = self.indent(statement), self.indent(child)
        if indent is None or inner is None or child is statement.body[0]:
            return None
        first = self._line_above(child, last_line(statement.body[statement.body.index(child) - 1]))
        return self._dedented(first, last_line(statement), len(inner) - len(indent))

    def _dedented(self, first: int, last: int, extra: int) -> list[Change]:
        """Move lines to the left, except those that are inside of a string."""
        changes = []
        for number in range(first, last + 1):
            start = self.index.offset(number, 1)
            lead = self.text[start : start + extra]
            if number in self._string_lines():
                continue
            if not lead.strip() and len(lead) == extra and "\n" not in lead and "\r" not in lead:
                changes.append(Change(start, start + extra, ""))
        return changes

    def _line_above(self, statement: ast.stmt, last: int) -> int:
        """Return the first line of a statement, or of the comment above it, that comes after the line `last`."""
        line = first_line(statement)
        while line - 1 > last and self._line(line - 1).lstrip().startswith("#"):
            line -= 1
        return line

    def _gap(self, statement: ast.stmt) -> int:
        """Return the offset behind the colon that a statement on the line of a header follows."""
        start = self.start(statement)
        return len(self.text[:start].rstrip(" \t"))

    def _line(self, line: int) -> str:
        return self.text[self.index.offset(line, 1) : self.index.line_end(line)]

    def _lines(self, first: int, last: int) -> tuple[int, int]:
        """Return the offsets of whole lines, with the break behind the last one."""
        return self.index.offset(first, 1), self.index.offset(last + 1, 1)

    def _lead(self, line: int) -> str:
        text = self._line(line)
        return text[: len(text) - len(text.lstrip(_SPACE))]

    def _behind(self, statement: ast.stmt) -> str:
        """Return what stands behind a statement on its last line."""
        return self.text[self.end(statement) : self.index.line_end(last_line(statement))].strip()

    def _ends_line(self, statement: ast.stmt) -> bool:
        """Return whether no other statement comes behind a statement on its last line."""
        return self._behind(statement).lstrip(";").strip()[:1] in ("", "#")

    def remove_decorator(self, decorator: ast.expr) -> Change | None:
        """Take a decorator away with its line."""
        start, end = self._lines(decorator.lineno, decorator.lineno)
        alone = self.text[start : self.start(decorator)].strip() == "@"
        return Change(start, end, "") if alone and decorator.end_lineno == decorator.lineno else None

    def _indent_unit(self) -> str:
        for node in ast.walk(self.tree):
            body = getattr(node, "body", None)
            if isinstance(node, (ast.stmt, ast.ExceptHandler)) and isinstance(body, list) and body:
                inner = self.indent(body[0])
                outer = self.indent(node) if isinstance(node, ast.stmt) else None
                if inner and outer is not None and inner.startswith(outer) and len(inner) > len(outer):
                    return inner[len(outer) :]
        return "    "

    def _string_lines(self) -> set[int]:
        """Return the lines that begin inside a string: their white space is data."""
        if self._in_string is None:
            self._in_string = set()
            try:
                depth: list[int] = []
                for token in tokenize.generate_tokens(io.StringIO("\n".join(self.source.lines)).readline):
                    kind = tokenize.tok_name[token.type]
                    if kind == "STRING":
                        self._in_string.update(range(token.start[0] + 1, token.end[0] + 1))
                    elif kind == "FSTRING_START":
                        depth.append(token.start[0])
                    elif kind == "FSTRING_END" and depth:
                        self._in_string.update(range(depth.pop() + 1, token.end[0] + 1))
            except (tokenize.TokenError, SyntaxError):
                pass
        return self._in_string

    def _byte(self, line: int, column: int) -> int:
        if not 0 < line <= len(self.source.lines):
            return column - 1
        return len(self.source.lines[line - 1][: column - 1].encode())


def walk(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a scope in no special order, without those of functions and classes nested in it."""
    stack: list[ast.AST] = [scope]
    while stack:
        node = stack.pop()
        yield node
        stack += [child for child in ast.iter_child_nodes(node) if not isinstance(child, (*FUNCTIONS, ast.ClassDef))]


def dotted(node: ast.AST) -> str | None:
    """`self.h`, `cache[idx]` and the like as normalized text; None for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, (ast.Attribute, ast.Subscript)) and root_name(node) is not None:
        return ast.unparse(node)
    return None


def last_part(node: ast.AST) -> str:
    """Return the last part of a dotted name; empty of anything else."""
    return (dotted(node) or "").rpartition(".")[2]


def root_name(node: ast.AST) -> str | None:
    """Return the name that an attribute or subscript chain starts from."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def assigned(statement: ast.stmt) -> list[tuple[ast.expr, ast.expr]]:
    """Return what an assignment stores where: `self.a, self.b = [], []` stores two lists."""
    match statement:
        case ast.Assign(targets=stores, value=value):
            return [pair for store in stores for pair in _side_by_side(store, value)]
        case ast.AnnAssign(target=store, value=ast.expr() as value):
            return [(store, value)]
    return []


def _side_by_side(store: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    if isinstance(store, ast.Tuple) and isinstance(value, ast.Tuple) and len(store.elts) == len(value.elts):
        return list(zip(store.elts, value.elts, strict=True))
    return [(store, value)]


def targets(statement: ast.AST) -> list[ast.expr]:
    """Return the single targets that a statement stores to, tuples taken apart."""
    found: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        found = list(statement.targets)
    elif isinstance(statement, (ast.AugAssign, ast.AnnAssign, ast.For, ast.AsyncFor)):
        found = [statement.target]
    elif isinstance(statement, (ast.With, ast.AsyncWith)):
        found = [item.optional_vars for item in statement.items if item.optional_vars is not None]
    return taken_apart(found)


def stored_pairs(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    """Return what an assignment stores, with its target: element by element where both sides are tuples of one size."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        return list(zip(target.elts, value.elts))
    return [(target, value)]


def _bindings(node: ast.AST) -> Iterator[tuple[str, str | ast.expr | None]]:
    """Yield what a node binds, by name: the dotted path of an import, the value of an assignment, None otherwise."""
    match node:
        case ast.Import() | ast.ImportFrom():
            yield from _imported(node)
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name) | ast.arg(arg=name):
            yield name, None
        case ast.With(items=items) | ast.AsyncWith(items=items):
            given = [(item.optional_vars, item.context_expr) for item in items]
            yield from ((dotted(target) or "", value) for target, value in given if target is not None)
        case ast.NamedExpr(target=target, value=value):
            yield target.id, value
        case ast.comprehension(target=target):
            yield from ((inner.id, None) for inner in of_kind(target, ast.Name))
        case ast.Assign(targets=[target], value=value) if (stored := dotted(target)) is not None:
            yield stored, value
        case ast.stmt():
            yield from ((dotted(target) or "", None) for target in targets(node))


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    """Yield the names that an import binds, and to what: `import a.b` binds `a`, `import a.b as c` another name."""
    for alias in node.names:
        if isinstance(node, ast.ImportFrom):
            yield alias.asname or alias.name, f"{'.' * node.level}{node.module or ''}.{alias.name}"
        elif alias.asname is not None:
            yield alias.asname, alias.name
        else:
            first = alias.name.partition(".")[0]
            yield first, first


def _are_simple(lines: Sequence[str]) -> bool:
    """Return whether lines of code can be joined by semicolons."""
    return all(line == line.lstrip() and not line.rstrip().endswith(":") for line in lines)


def _is_compound(statement: ast.stmt) -> bool:
    return hasattr(statement, "body") or isinstance(statement, ast.Match)


def _continues_if(code: Code, statement: ast.stmt) -> bool:
    """Return whether an `if` is written as the `elif` of the one before."""
    return isinstance(statement, ast.If) and code.text.startswith("elif", code.start(statement))
