"""Rewriting expressions and small statements with their formatting kept: places from `ast`, separators from `tokenize`.

Every function takes and returns source text. They raise RewriteError where the text has not the expected form.
"""

from __future__ import annotations

import ast
import io
import re
import token
import tokenize
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import ParamSpec, TypeVar, Union

_SIGNS: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.MatMult: "@",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
}
_PRODUCTS = (ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.MatMult, ast.Pow)
_ATOMS = (
    ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp,
    ast.SetComp, ast.GeneratorExp,
)  # fmt: skip
_BLANK = (
    token.NEWLINE, token.INDENT, token.DEDENT, token.ENDMARKER, tokenize.COMMENT, tokenize.NL, tokenize.ENCODING,
)  # fmt: skip
_STRINGS = (token.STRING, getattr(token, "FSTRING_START", token.STRING))
_OPEN, _CLOSE = frozenset("([{"), frozenset(")]}")

_Given = ParamSpec("_Given")
_Node = TypeVar("_Node", bound=ast.AST)
_Argument = Union[ast.expr, ast.keyword]


class RewriteError(ValueError):
    """The text is not of the form that the rewrite is for."""


@dataclass(frozen=True, slots=True)
class _Token:
    """A token of the text: what it says, where it is (offsets), and how many brackets are open before it."""

    text: str
    start: int
    end: int
    depth: int
    string: bool


@dataclass(frozen=True, slots=True)
class _Slot:
    """The place of one argument or element, with the parentheses around it: offsets, and those of its value."""

    node: _Argument
    start: int
    end: int
    value: int


class _Text:
    """A piece of source text with its tokens."""

    def __init__(self, text: str) -> None:
        self.text = text
        # The same length: `ast` takes a lone carriage return for the end of a line and `tokenize` does not.
        self._read = re.sub(r"\r(?!\n)", "\n", text)
        self._lines = self._read.split("\n")
        self._starts = [0, *accumulate(len(line) + 1 for line in self._lines)]
        self.tokens = self._tokens()

    def parse(self) -> ast.Module:
        try:
            return ast.parse(self._read)
        except (SyntaxError, ValueError, RecursionError) as error:
            raise RewriteError(self.text) from error

    def _tokens(self) -> list[_Token]:
        found: list[_Token] = []
        depth = 0
        try:
            for one in tokenize.generate_tokens(io.StringIO(self._read).readline):
                if one.type in _BLANK:
                    continue
                operator = one.type == token.OP
                depth -= operator and one.string in _CLOSE
                start, end = (self._starts[line - 1] + column for line, column in (one.start, one.end))
                found.append(_Token(one.string, start, end, depth, one.type in _STRINGS))
                depth += operator and one.string in _OPEN
        except (tokenize.TokenError, SyntaxError, IndexError) as error:
            raise RewriteError(self.text) from error
        return found

    def offset(self, line: int, column: int) -> int:
        """Return the offset of a place that `ast` names: line from 1, column in bytes."""
        text = self._lines[line - 1]
        return self._starts[line - 1] + (column if text.isascii() else len(text.encode()[:column].decode()))

    def start(self, node: ast.AST) -> int:
        return self.offset(node.lineno, node.col_offset)  # type: ignore[attr-defined]

    def end(self, node: ast.AST) -> int:
        return self.offset(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def before(self, offset: int) -> _Token:
        """Return the last token that ends at or before an offset."""
        return next(one for one in reversed(self.tokens) if one.end <= offset)

    def between(self, start: int, end: int) -> list[_Token]:
        return [one for one in self.tokens if start <= one.start and one.end <= end]

    def opening(self, closing: _Token) -> _Token:
        """Return the bracket that a closing one belongs to."""
        place = self.tokens.index(closing)
        return next(one for one in reversed(self.tokens[:place]) if one.depth == closing.depth)

    def slots(self, nodes: Sequence[_Argument], start: int, end: int) -> list[_Slot]:
        """Return the places of arguments or elements that commas part, between two offsets."""
        slots = []
        for index, node in enumerate(nodes):
            # A lambda has commas of its own: only those behind one node and before the next part them.
            low = start if index == 0 else self._comma(nodes[index - 1], self.start(node)).end
            high = self._comma(node, self.start(nodes[index + 1])).start if index + 1 < len(nodes) else end
            inner = self.between(low, high)
            if index + 1 == len(nodes) and inner and inner[-1].text == "," and inner[-1].start >= self.end(node):
                inner = inner[:-1]
            if not inner:
                raise RewriteError(self.text)
            value = inner[0].start
            if isinstance(node, ast.keyword) and node.arg is not None:
                value = inner[2].start
            slots.append(_Slot(node, inner[0].start, inner[-1].end, value))
        return slots

    def _comma(self, node: _Argument, before: int) -> _Token:
        found = [one for one in self.between(self.end(node), before) if one.text == ","]
        if len(found) != 1:
            raise RewriteError(self.text)
        return found[0]


class _Expression(_Text):
    """An expression, which may go over several lines: `first` and `last` are its offsets in `text`."""

    def __init__(self, text: str) -> None:
        # Within parentheses line breaks mean nothing, as they do where the text was taken from.
        super().__init__(f"({text}\n)")
        around = self.tokens[0], self.tokens[-1]
        inner = self.tokens[1:-1]
        if around[1].text != ")" or not inner or self.opening(around[1]) is not around[0]:
            raise RewriteError(text)
        body = self.parse().body
        if len(body) != 1 or not isinstance(body[0], ast.Expr):
            raise RewriteError(text)
        self.node = body[0].value
        self.first, self.last = inner[0].start, inner[-1].end
        self._strings = sum(one.string and one.depth == 1 for one in inner)

    @property
    def parenthesized(self) -> bool:
        """Return whether there are parentheses around the whole."""
        start = self.start(self.node)
        if isinstance(self.node, ast.Tuple) and start >= self.first:
            return self.text[start] == "("
        return start > self.first

    @property
    def is_atom(self) -> bool:
        """Return whether a suffix can follow as it stands: `x`, `f(x)`, `"text"`, but no number and no operation."""
        node = self.node
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes))):
            # Behind strings that stand side by side it would belong to all of them, and read as if to the last.
            return self._strings == 1
        if isinstance(node, ast.Constant):
            return node.value is None or isinstance(node.value, bool)
        return isinstance(node, _ATOMS)

    def within(self, kind: type[_Node]) -> _Node:
        if not isinstance(self.node, kind):
            raise RewriteError(self.text)
        return self.node

    def edited(self, start: int, end: int, new: str) -> str:
        """Return the expression with the text between two offsets replaced."""
        return self.text[self.first : start] + new + self.text[end : self.last]

    def kept(self, start: int, end: int) -> str:
        return self.text[start:end]


class _Call(_Expression):
    """A call with the places of its arguments, in the order of the text."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.call = self.within(ast.Call)
        self.close = self.before(self.end(self.call))
        self.open = self.opening(self.close)
        nodes: list[_Argument] = [*self.call.args, *self.call.keywords]
        nodes.sort(key=self.start)
        self.arguments = self.slots(nodes, self.open.end, self.close.start)

    def find(self, name: str, position: int | None) -> int | None:
        for index, slot in enumerate(self.arguments):
            if isinstance(slot.node, ast.keyword) and slot.node.arg == name:
                return index
        if position is not None and position < len(self.arguments):
            leading = self.arguments[: position + 1]
            if all(not isinstance(slot.node, (ast.keyword, ast.Starred)) for slot in leading):
                return position
        return None

    def separator(self) -> str:
        """Return what to put before one more argument: as between the last two, without their comment."""
        if len(self.arguments) < 2 or self.before(self.close.start).text != ",":
            return ", "
        between = self.text[self.arguments[-2].end : self.arguments[-1].start]
        # What stands on a line of its own between them (a comment) belongs to the last one.
        lines = re.search(r"(?:\r\n|\n|\r)[ \t]*$", between)
        return "," + (lines.group() if lines is not None else between.partition(",")[2])


def tried(rewrite: Callable[_Given, str], *given: _Given.args, **named: _Given.kwargs) -> str | None:
    """Return what a rewrite makes of a text; None where that is not of its form."""
    try:
        return rewrite(*given, **named)
    except RewriteError:
        return None


def parenthesized(text: str) -> str:
    """Return the expression, in parentheses unless it stands as an operand of anything already."""
    found = _Expression(text)
    return text if found.is_atom or found.parenthesized else f"({text})"


def with_suffix(text: str, suffix: str) -> str:
    """Rewrite `x` to `x.detach()`, `a + b` to `(a + b).detach()`."""
    return parenthesized(text) + suffix


def receiver(text: str) -> str:
    """`x.detach()` or `x.data` to `x`."""
    found = _Expression(text)
    node = found.node.func if isinstance(found.node, ast.Call) else found.node
    if not isinstance(node, ast.Attribute):
        raise RewriteError(text)
    dot = found.before(found.before(found.end(node)).start)
    return found.kept(found.start(node), found.before(dot.start).end)


def only_argument(text: str) -> str:
    """Rewrite `torch.tensor(x, dtype=...)` to `x`."""
    call = _Call(text)
    first = call.arguments[0] if call.arguments else None
    if first is None or isinstance(first.node, (ast.Starred, ast.keyword)):
        raise RewriteError(text)
    return call.kept(first.value, first.end)


def argument(text: str, name: str, position: int | None = None) -> str | None:
    """Return the text of a call's argument, by keyword or else by position; None where there is none."""
    call = _Call(text)
    index = call.find(name, position)
    return None if index is None else call.kept(call.arguments[index].value, call.arguments[index].end)


def without_argument(text: str, name: str, position: int | None = None) -> str:
    """Return the call without that argument; the formatting of the others stays."""
    call = _Call(text)
    index = call.find(name, position)
    if index is None:
        raise RewriteError(text)
    slots = call.arguments
    # Arguments behind a dropped positional one would move up into its place.
    keyword = isinstance(slots[index].node, ast.keyword)
    if not keyword and any(not isinstance(slot.node, (ast.keyword, ast.Starred)) for slot in slots[index + 1 :]):
        raise RewriteError(text)
    if len(slots) == 1:
        return call.edited(call.open.end, call.close.start, "")
    if index + 1 == len(slots):
        return call.edited(slots[index - 1].end, slots[index].end, "")
    return call.edited(slots[index].start, slots[index + 1].start, "")


def with_argument(
    text: str, name: str, value: str, *, position: int | None = None, replacing: Collection[str] = ()
) -> str:
    """Return the call with `name=value`: in the place of the argument it has, of one in `replacing`, or at the end."""
    call = _Call(text)
    slots = call.arguments
    index = call.find(name, position)
    if index is not None:
        return call.edited(slots[index].value, slots[index].end, value)
    for other in replacing:
        index = call.find(other, None)
        if index is not None:
            slot = slots[index]
            return call.edited(slot.start, slot.end, name + call.kept(slot.start + len(other), slot.value) + value)
    if any(isinstance(slot.node, ast.keyword) and slot.node.arg is None for slot in slots):
        # What is unpacked may give it already.
        raise RewriteError(text)
    if not slots:
        return call.edited(call.open.end, call.open.end, f"{name}={value}")
    if len(slots) == 1 and isinstance(slots[0].node, ast.GeneratorExp) and call.start(slots[0].node) < slots[0].start:
        raise RewriteError(text)
    return call.edited(slots[-1].end, slots[-1].end, f"{call.separator()}{name}={value}")


def out_of_place(text: str) -> str:
    """Rewrite `x += y` to `x = x + y`."""
    found = _Text(text)
    body = found.parse().body
    statement = body[0] if body else None
    if not isinstance(statement, ast.AugAssign):
        raise RewriteError(text)
    sign = _SIGNS[type(statement.op)]
    after = found.end(statement.target)
    operator = next(one for one in found.tokens if one.start >= after and one.text == f"{sign}=")
    first = next(one for one in found.tokens if one.start >= operator.end)
    target = text[found.start(statement) : found.before(operator.start).end]
    right = text[first.start : found.end(statement)]
    if not _Expression(right).parenthesized and not _binds_tighter(_Expression(right), statement.op):
        right = f"({right})"
    spaces = text[found.before(operator.start).end : operator.start], text[operator.end : first.start]
    return f"{target}{spaces[0]}={spaces[1]}{target} {sign} {right}"


def elements(text: str, change: Callable[[str], str | None]) -> str:
    """Return a tuple or list display with each element passed through `change`; None keeps the element."""
    found = _Expression(text)
    if not isinstance(found.node, (ast.Tuple, ast.List)):
        raise RewriteError(text)
    start, end = found.start(found.node), found.end(found.node)
    result, last = "", found.first
    for slot in found.slots(found.node.elts, start + 1, end - 1):
        new = None if isinstance(slot.node, ast.Starred) else change(found.kept(slot.start, slot.end))
        if new is not None:
            _Expression(new)
            result += found.kept(last, slot.start) + new
            last = slot.end
    return result + found.kept(last, found.last)


def _binds_tighter(right: _Expression, operator: ast.operator) -> bool:
    """Return whether `right` needs no parentheses as the right operand of the operator."""
    node = right.node
    if right.is_atom or (isinstance(node, ast.Constant) and type(node.value) in (int, float)):
        return True
    product = isinstance(node, ast.BinOp) and isinstance(node.op, _PRODUCTS)
    return product and isinstance(operator, (ast.Add, ast.Sub))
