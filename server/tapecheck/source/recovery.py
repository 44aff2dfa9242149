"""Parsing code that is being typed: the broken statement is left out, the rest keeps its lines and columns.

What Python's parser says of an error decides what is mended: a header without its body gets one or is left out, a
`try` without its handlers becomes a plain block, a decorator without its function goes, a broken header in front of a
body becomes one that says nothing. Everything else loses the line of the error. Where that does not end, the
top-level statements around the errors are left out, and those that parse by themselves stay.
"""

from __future__ import annotations
import __future__

import ast
import io
import itertools
import re
import tokenize
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeGuard

from tapecheck.source import older, skipped
from tapecheck.source.incremental import Parsed, parse_lines
from tapecheck.source.nodes import statements_at, walk

TOO_DEEP = "nested too deeply to be parsed"

_LEAST, _MOST = 20, 200
_WORK = 300_000
"""Lines that are parsed to mend one file, within the least and the most repairs."""

_MOST_IN_ONE = 12
"""Repairs of one top-level statement, after which it is left out as a whole."""

_SPACE = " \t\f"
_DETECTED = re.compile(r" \(detected at line \d+\)$")
_NO_BODY = re.compile(r"expected an indented block after .* on line (\d+)")
_HEADER = re.compile(
    r"(?P<word>(?:async\s+)?(?:def|for|with)|class|if|elif|else|while|try|except|finally|match|case)\b"
    r"(?:\s+(?P<name>\w+))?"
)
_CONTINUES = re.compile(r"(?:elif|else|except|finally)\b|[)\]}]")
_DECORATED = re.compile(r"(?:async\s+def|def|class)\b|@")
_KEPT = ("if", "elif", "else", "except", "finally", "case")
"""Headers that others belong to: without a body they get one that does nothing."""
_NEUTRAL = re.compile(r"(?P<word>def|class|except)\s+(?P<name>\w+)(?:\(\*_, \*\*__\))?:")
"""Headers that are made for bodies whose own does not parse."""
_WAYS = 3
"""Ways to indent what stands for what is left out."""
_OURS, _THEIRS = "<" * 7, ">" * 7
"""What begins and ends the two sides of a merge that is not settled."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """What parses of some lines: the tree with the lines it was made of, the first error with its place.

    `error_column` counts characters from 1; it is None where the parser names none, or one that says nothing. `blanked`
    are the numbers of the lines that are left out or stand for something else.
    """

    parsed: Parsed
    error: str | None
    error_line: int | None
    error_column: int | None
    blanked: frozenset[int]


def recover(lines: Sequence[str], *, joined: bool = False, before: Parsed | None = None) -> Recovered:
    """Parse lines, without those that keep the others from being parsed.

    With `joined` they are those of several texts (cells), and imports from `__future__` may stand anywhere. `before` is
    what was made of an earlier state of the lines.
    """
    return _Recovery(list(lines), joined, before).run()


class _Recovery:
    def __init__(self, lines: list[str], joined: bool, before: Parsed | None) -> None:
        self.lines = lines
        self.written = list(lines)
        self.joined = joined
        self.before = before
        self.blanked: set[int] = set()
        self.older: set[int] = set()
        """The numbers of lines of older versions of Python, which stand as this one has them."""
        self.headers: set[int] = set()
        self.error: str | None = None
        self.error_line: int | None = None
        self.error_column: int | None = None
        self.repairs: Counter[int] = Counter()

    def run(self) -> Recovered:
        for _ in range(max(_LEAST, min(_MOST, _WORK // (len(self.lines) + 1)))):
            try:
                parsed = parse_lines(self.lines, self.before)
                if not self.joined:
                    _check_future_imports(parsed)
                return self._result(parsed)
            except (RecursionError, MemoryError):
                self._noted(TOO_DEEP, 1)
                break
            except (SyntaxError, ValueError) as error:
                message, line = str(getattr(error, "msg", error)), getattr(error, "lineno", None) or 1
                # Of an indent the parser names the end of the line, or none.
                told = None if isinstance(error, IndentationError) else getattr(error, "offset", None)
                self._noted(message, line, told)
                before = list(self.lines)
                if not self.blanked:
                    self._without_conflicts()
                    if self.blanked:
                        continue
                self._mend(message, min(line, len(self.lines)) - 1)
                if self.lines == before:
                    break
        return self._statement_by_statement()

    def _noted(self, message: str, line: int, column: int | None = None) -> None:
        if self.error is None:
            # What is broken is the header, not the line that should have been its body.
            found = _NO_BODY.match(message)
            self.error = message if found is None else message[: found.start(1)].removesuffix(" on line ")
            # Python counts that line in the piece which it was given to parse; where the error is, is told beside it.
            self.error = _DETECTED.sub("", self.error)
            self.error_line = line if found is None else int(found[1])
            # What an error of the whole text is told by (a null byte) has no column: it is 0 or None.
            self.error_column = column if column and column > 0 else None

    def _result(self, parsed: Parsed) -> Recovered:
        if self.blanked:
            parsed = self._told(parsed)
        return Recovered(parsed, self.error, self.error_line, self.error_column, frozenset(self.blanked))

    def _told(self, parsed: Parsed) -> Parsed:
        """Return what parses with calls of what nobody can see in the place of what is left out."""
        plain, told = list(self.lines), list(self.lines)
        runs: list[list[int]] = []
        for row in sorted(number - 1 for number in self.blanked - self.older):
            if runs and runs[-1][-1] == row - 1:
                runs[-1].append(row)
            else:
                runs.append([row])
        for run in runs:
            self._tell(told, run, 0)
        made = _parsed(told, self.before)
        if made is not None:
            return made
        found, lines = parsed, plain
        left = max(_LEAST, min(_MOST, _WORK // (len(plain) + 1)))
        for run, way in itertools.islice(((run, way) for run in runs for way in range(_WAYS)), left):
            if any(skipped.SKIPPED in lines[row] for row in run):
                continue
            tried = list(lines)
            self._tell(tried, run, way)
            made = _parsed(tried, self.before)
            if made is not None:
                found, lines = made, tried
        return found

    def _tell(self, lines: list[str], run: list[int], way: int) -> None:
        """Write calls of what nobody can see over the lines of a run that are left out, in one of several ways."""
        row = run[0]
        while row <= run[-1]:
            last = row
            while last < run[-1] and not lines[last + 1].strip():
                last += 1
            texts = [text for text in self.written[row : last + 1] if text.strip() and text.strip()[0] != "#"]
            now = lines[row].strip()
            if texts and (not now or now != self.written[row].strip()):
                lines[row] = self._telling(lines[row], (row, last), texts, way)
            row = last + 1

    def _telling(self, line: str, rows: tuple[int, int], texts: list[str], way: int) -> str:
        """Return the line that stands for the texts from one row to another, given what stands there now."""
        now, indent = line.strip(), self._indent(rows[0])
        if not now:
            return self._indent_near(*rows, way) + skipped.statement_of(texts)
        if now == "pass":
            return indent + skipped.statement_of(texts)
        if now == "if True:" and not texts[0].lstrip().startswith("try"):
            test = f"if {skipped.call_of(texts, anything=True)}:"
            return indent + (skipped.with_of(texts) if way % 2 == 0 else test)
        kept = _NEUTRAL.fullmatch(now)
        if kept is None:
            return _with_body(line, self.written[rows[0]])
        match kept["word"]:
            case "def":
                return f"{indent}def {kept['name']}(*{skipped.SKIPPED}, **__):"
            case "class":
                return f"{indent}class {kept['name']}({skipped.SKIPPED}):"
        return f"{indent}except {skipped.SKIPPED}:"

    def _indent_near(self, first: int, last: int, way: int) -> str:
        """Return how far to indent what stands for lines that are left out as a whole."""
        own = self.written[first]
        above, below = self._before(first), self._after(last)
        near = [own[: len(own) - len(own.lstrip(_SPACE))]]
        near += [self._indent(row) for row in (below, above) if row is not None]
        return near[min(way, len(near) - 1)]

    def _without_conflicts(self) -> None:
        """Leave out what stands between the marks of a merge: a header, where a body follows, else a statement."""
        first = 0
        while first < len(self.lines):
            last = next((row for row in range(first, len(self.lines)) if self.lines[row].startswith(_THEIRS)), None)
            if last is None:
                return
            begun = [row for row in range(first, last) if self.lines[row].startswith(_OURS)]
            if begun:
                self._without_conflict(begun[0], last)
            first = last + 1

    def _without_conflict(self, first: int, last: int) -> None:
        code = [row for row in range(first, last) if not self._empty(row) and self.lines[row][0] not in "<|=>"]
        below = self._after(last)
        near = code[0] if code else below
        indent = self._indent(near) if near is not None else ""
        led = bool(code) and self.lines[code[-1]].rstrip().endswith(":")
        header = led and below is not None and self._deeper(below, code[-1])
        for row in range(first, last + 1):
            self._set(row, "")
        self._set(first, f"{indent}{'if True:' if header else 'pass'}")

    def _mend(self, message: str, index: int) -> None:
        if "null byte" in message:
            for number, line in enumerate(self.lines):
                if "\0" in line:
                    self._set(number, "")
            return
        if self._translate(index):
            return
        start, end = self._statement(index)
        self.repairs[start] += 1
        no_body = _NO_BODY.match(message)
        if self.repairs[start] > _MOST_IN_ONE:
            for number in range(start, end):
                self._set(number, "")
        elif no_body is not None:
            self._without_body(int(no_body[1]) - 1)
        elif message.startswith("expected 'except' or 'finally' block"):
            self._without_handlers(index)
        elif message.startswith("unexpected indent"):
            self._indented(index)
        elif message.startswith("unindent does not match"):
            self._drop(index)
        else:
            self._hide(index)

    def _translate(self, index: int) -> bool:
        """Write all statements of older versions of Python as this one has them, where one is at the place."""
        changed = older.translated(self.lines, index)
        if changed:
            changed |= older.translated_all(self.lines)
        for row, text in changed.items():
            self._set(row, text)
        self.older |= {row + 1 for row in changed}
        return bool(changed)

    def _set(self, index: int, text: str) -> None:
        if self.lines[index] != text:
            self.lines[index] = text
            self.blanked.add(index + 1)

    def _indent(self, index: int) -> str:
        line = self.lines[index]
        return line[: len(line) - len(line.lstrip(_SPACE))]

    def _empty(self, index: int) -> bool:
        text = self.lines[index].strip(_SPACE)
        return not text or text.startswith("#")

    def _before(self, index: int) -> int | None:
        """Return the nearest line above that has code on it."""
        return next((number for number in range(index - 1, -1, -1) if not self._empty(number)), None)

    def _after(self, index: int) -> int | None:
        return next((number for number in range(index + 1, len(self.lines)) if not self._empty(number)), None)

    def _deeper(self, index: int, than: int) -> bool:
        return _width(self._indent(index)) > _width(self._indent(than))

    def _statement(self, index: int) -> tuple[int, int]:
        """Return the range of lines of the top-level statement around a line, as indentation shows it."""
        start = index
        while start > 0 and not self._begins(start):
            start -= 1
        while start > 0 and self.lines[start - 1].startswith("@"):
            start -= 1
        end = index + 1
        while end < len(self.lines) and not self._begins(end):
            end += 1
        return start, end

    def _begins(self, index: int) -> bool:
        line = self.lines[index]
        return bool(line.strip()) and not line[0].isspace() and line[0] != "#" and not _CONTINUES.match(line)

    def _without_body(self, index: int) -> None:
        """Mend a header that no body follows: what is about to be typed below it does nothing yet."""
        found = _HEADER.match(self.lines[index].strip(_SPACE))
        colon = self._colon(index)
        word = found["word"] if found is not None else ""
        following = self._after(colon[0] if colon is not None else index)
        tried = word == "try" and following is not None and self.lines[following].strip(_SPACE).startswith(
            ("except", "finally")
        )  # fmt: skip
        if colon is not None and (word in _KEPT or tried):
            row, column = colon
            line = self.lines[row]
            self._set(row, f"{line[:column]} pass{line[column:]}")
            return
        # A `while True:` that does nothing would never end, a `def` or `class` would stand for the one below it.
        last = colon[0] if colon is not None else index
        text = f"{self._indent(index)}pass"
        for number in range(index, last + 1):
            self._set(number, "")
        self._set(index, text)

    def _colon(self, index: int) -> tuple[int, int] | None:
        """Return the line and the column behind the colon that ends the header that begins on a line."""
        last: tuple[int, int] | None = None
        try:
            for token in tokenize.generate_tokens(io.StringIO("\n".join(self.lines[index:]) + "\n").readline):
                if token.type == tokenize.NEWLINE:
                    return last
                if token.type not in (tokenize.COMMENT, tokenize.INDENT, tokenize.NL):
                    ended = token.type == tokenize.OP and token.string == ":"
                    last = (index + token.end[0] - 1, token.end[1]) if ended else None
        except (tokenize.TokenError, SyntaxError):
            pass
        return None

    def _without_handlers(self, index: int) -> None:
        """Make a plain block of a `try` that has neither handlers nor a `finally` yet."""
        narrowest: int | None = None
        for number in range(index if self._empty(index) else index - 1, -1, -1):
            if self._empty(number):
                continue
            width = _width(self._indent(number))
            is_try = re.match(r"try\s*:", self.lines[number].lstrip(_SPACE)) is not None
            if is_try and (narrowest is None or width < narrowest):
                text = self.lines[number].strip(_SPACE)
                alone = text.partition("#")[0].rstrip(_SPACE) == "try:"
                rest = "" if alone else text.partition(":")[2]
                self._set(number, f"{self._indent(number)}if True:{rest}")
                return
            narrowest = width if narrowest is None else min(narrowest, width)
        self._hide(index)

    def _indented(self, index: int) -> None:
        """Keep lines that are indented for a header that is not there, under one where there is a line for it."""
        above = self._before(index)
        if above is not None and above in self.headers:
            self._set(above, f"{self._indent(above)}if True:")
            return
        between = range((above if above is not None else -1) + 1, index)
        hidden = [number for number in between if number in self.headers]
        if hidden:
            self._set(hidden[0], f"{self._indent(above) if above is not None else ''}if True:")
            return
        while above is not None and self.lines[above].lstrip(_SPACE).startswith("@"):
            # What it decorated is what these lines are the body of, not the function below them.
            self._set(above, "")
            above = self._before(above)
        self._drop(index)

    def _drop(self, index: int) -> None:
        """Leave out a line and those below it that are indented as far."""
        own = _width(self._indent(index))
        number = index
        while number < len(self.lines) and (self._empty(number) or _width(self._indent(number)) >= own):
            if not self._empty(number):
                self._set(number, "")
            number += 1

    def _undecorate(self, index: int, decorator: int) -> None:
        """Leave out what stands between a decorator and its function, else the decorator."""
        following = self._after(index)
        between = following is not None and _DECORATED.match(self.lines[following].lstrip(_SPACE))
        for number in range(index, index + 1) if between else range(decorator, index):
            self._set(number, "")

    def _hide(self, index: int) -> None:
        """Leave out the statement on a line, or what keeps it from being one."""
        if self.lines[index].strip(_SPACE) and not self.lines[index].strip():
            # Nothing but spaces that are none to Python: U+00A0, U+3000, U+0085.
            self._set(index, "")
            return
        while index > 0 and not self.lines[index].strip(_SPACE):
            index -= 1
        text = self.lines[index].strip(_SPACE)
        indent = self._indent(index)
        decorator = self._decorator(index)
        if decorator is not None:
            self._undecorate(index, decorator)
            return
        header = _HEADER.match(text)
        following = self._after(index)
        if following is not None and self._deeper(following, index) and (header or text.endswith(":")):
            # Its body stays under a header that says nothing.
            neutral = indent + _neutral(header)
            if self.lines[index] != neutral:
                self._set(index, neutral)
                return
        if header:
            self.headers.add(index)
        self._set(index, "" if text == "pass" else f"{indent}pass")

    def _decorator(self, index: int) -> int | None:
        """Return the first line of a decorator above a line that is nothing to decorate."""
        if _DECORATED.match(self.lines[index].lstrip(_SPACE)):
            return None
        above = self._before(index)
        while above is not None and not self.lines[above].lstrip(_SPACE).startswith("@"):
            # A decorator over several lines ends with the bracket that it opened.
            inside = self._deeper(above, index) or self.lines[above].lstrip(_SPACE)[:1] in (")", "]", "}")
            if not inside:
                return None
            above = self._before(above)
        return above

    def _statement_by_statement(self) -> Recovered:
        """Keep the top-level statements that parse by themselves."""
        index = 0
        while index < len(self.lines):
            start, end = self._statement(index)
            start, end = max(start, index), max(end, index + 1)
            try:
                parse_lines(self.lines[start:end])
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                for number in range(start, end):
                    self._set(number, "")
            index = end
        try:
            return self._result(parse_lines(self.lines))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            self.lines = [""] * len(self.lines)
            return self._result(parse_lines(self.lines))


def _neutral(header: re.Match[str] | None) -> str:
    """Return a header for the body of a broken one that claims nothing about what was meant."""
    word = header["word"].split()[-1] if header is not None else ""
    name = header["name"] if header is not None else None
    if word == "def":
        return f"def {name if name and name.isidentifier() else '_'}(*_, **__):"
    if word == "class":
        return f"class {name if name and name.isidentifier() else '_'}:"
    return {"try": "try:", "except": "except Exception:", "else": "else:", "finally": "finally:"}.get(word, "if True:")


def _with_body(line: str, written: str) -> str:
    """Return a header with a body that may be anything, where it was given one that does nothing."""
    at = next((at for at in range(len(written) + 1) if f"{written[:at]} pass{written[at:]}" == line), None)
    return line if at is None else f"{written[:at]} {skipped.call_of((), anything=True)}{written[at:]}"


def _parsed(lines: list[str], before: Parsed | None) -> Parsed | None:
    try:
        return parse_lines(lines, before)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _width(indent: str) -> int:
    return len(indent.expandtabs(8))


def _check_future_imports(parsed: Parsed) -> None:
    """Raise SyntaxError for an import from `__future__` that Python's compiler, unlike its parser, refuses."""
    found = _future_imports(parsed)
    if not found:
        return
    tree = parsed.tree
    body = tree.body[1:] if ast.get_docstring(tree, clean=False) is not None else tree.body
    first = list(itertools.takewhile(_is_future_import, body))
    for node in found:
        message = ""
        if node not in first:
            message = "from __future__ imports must occur at the beginning of the file"
        elif unknown := next((item.name for item in node.names if item.name not in __future__.all_feature_names), None):
            message = f"future feature {unknown} is not defined"
        if message:
            raise SyntaxError(message, ("", node.lineno, node.col_offset + 1, None))


def _future_imports(parsed: Parsed) -> list[ast.ImportFrom]:
    """Return the imports from `__future__`, looked for in the statements whose text names it."""
    lines = [number for number, line in enumerate(parsed.lines, 1) if "__future__" in line]
    statements = dict.fromkeys(statement for line in lines for statement in statements_at(parsed.tree, line, line))
    return [node for statement in statements for node in walk(statement) if _is_future_import(node)]


def _is_future_import(node: ast.AST) -> TypeGuard[ast.ImportFrom]:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__" and not node.level
