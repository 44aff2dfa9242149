"""Comments that switch rules off: `# tapecheck: ignore[TAPE101]` on a line, `# tapecheck: ignore-file[TAPE101]`.

What stands in brackets are codes, beginnings of codes or names of rules, parted by commas; without brackets every
rule is meant. A comment on a line holds for what is reported anywhere in the statement that the line is part of.
"""

from __future__ import annotations

import ast
import difflib
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tapecheck.source.nodes import children, walk
from tapecheck.source.text import split_lines

if TYPE_CHECKING:
    from tapecheck.source.text import Source

ALL_RULES = "ALL"
"""The name that means every rule."""
EXPECTING = frozenset(["raises", "assertRaises", "assertRaisesRegex"])
"""Contexts that want the exception: what raises in them is meant to."""
_COMMENT = re.compile(r"#\s*tapecheck:\s*(?P<what>ignore-file|ignore)(?![\w-])(?:\s*\[(?P<rules>[^\]\n]*)\]|(?!\s*\[))")
_CODE = re.compile(r"(?i)all|tape[0-9]*")
_ANY_OF_OURS = re.compile(
    r"#\s*(?:tapecheck\s*:\s*(?P<word>[\w-]*)(?P<rest>[^#]*)|tapecheck\s+(?P<bare>ignore-file|ignore)(?![\w-])(?P<more>[^#]*))",
    re.IGNORECASE,
)
_RULES = re.compile(r"(?i)\btape[0-9]+\b|\ball\b")
_NAMED = re.compile(r"(?i)[=:(,]?\s*tape[0-9]+")
_VERBS = {
    "ignore": "ignore", "noqa": "ignore", "disable": "ignore", "skip": "ignore", "off": "ignore", "suppress": "ignore",
    "ignore-file": "ignore-file", "disable-file": "ignore-file", "skip-file": "ignore-file",
    "ignore-line": "ignore", "ignore-next-line": "ignore", "disable-line": "ignore",
}  # fmt: skip
"""What people write, by the habits of other linters, and the verb that is read here."""
_BODIES = (ast.stmt, ast.excepthandler, ast.match_case)
_CODING = re.compile(r"^[ \t\f]*#.*?coding[:=][ \t]*[-\w.]+")


@dataclass(frozen=True, slots=True)
class Suppressions:
    """What the comments of one file switch off: names of rules for the whole file, and for single lines.

    `expected` are the lines of a test that wants an exception.
    """

    file: frozenset[str] = frozenset()
    lines: dict[int, frozenset[str]] = field(default_factory=dict)
    statements: tuple[tuple[int, int], ...] = ()
    expected: tuple[tuple[int, int], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.file or self.lines or self.expected)

    def hide(self, code: str, name: str, line: int, end_line: int, raises: bool) -> bool:
        """Return whether a finding of a rule on some lines is switched off; `raises` says that the line raises."""
        if names_rule(self.file, code, name):
            return True
        if raises and any(first <= line and end_line <= last for first, last in self.expected):
            return True
        if not self.lines:
            return False
        around = [one for one in self.statements if one[0] <= line and end_line <= one[1]]
        first, last = min(around, key=lambda one: one[1] - one[0], default=(line, end_line))
        return any(
            names_rule(self.lines[row], code, name)
            for row in range(min(first, line), max(last, end_line) + 1)
            if row in self.lines
        )


def rule_name(text: str) -> str:
    """Return the name of a rule, or a code or its beginning, as it is compared: codes are written in any case."""
    return text.upper() if _CODE.fullmatch(text) else text


def names_rule(names: Iterable[str], code: str, name: str) -> bool:
    """Whether one of `names` is a rule's code, the beginning of its code, its name, or all rules."""
    return any(one in (ALL_RULES, name) or (one and code.startswith(one)) for one in names)


def suppressions(source: Source) -> Suppressions:
    """Return what the comments of a file switch off."""
    expected = tuple(_expecting(source.tree)) if any(f"{name}(" in source.text for name in EXPECTING) else ()
    if "tapecheck:" not in source.text:
        return Suppressions(expected=expected)
    file: set[str] = set()
    lines: dict[int, frozenset[str]] = {}
    for line, comment in _comments(source.text, source.lines):
        for match in _COMMENT.finditer(comment):
            names = _names(match["rules"])
            if match["what"] == "ignore-file":
                file |= names
            else:
                lines[line] = lines.get(line, frozenset()) | names
    statements = tuple(_simple_statements(source.tree)) if lines else ()
    return Suppressions(frozenset(file), lines, statements, expected)


@dataclass(frozen=True, slots=True)
class Unused:
    """A comment, or a part of one, that switches nothing off: `text` replaces columns `start` to `end` of a line.

    `names` are the rules it names in vain, `unknown` those of them that do not exist; neither where it names none.
    """

    line: int
    start: int
    end: int
    text: str
    names: tuple[str, ...]
    unknown: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Hidden:
    """What a comment hides: the rule and the lines of a finding."""

    code: str
    name: str
    line: int
    end_line: int


def unused(source: Source, hidden: Iterable[Hidden], known: Iterable[tuple[str, str]]) -> list[Unused]:
    """Return the comments of a file that hide none of `hidden`; `known` are the codes and names of all rules.

    A comment is only judged as far as what it could hide is known: the caller says nothing of unknown programs.
    """
    if "tapecheck:" not in source.text:
        return []
    rules, findings = list(known), list(hidden)
    statements = list(_simple_statements(source.tree))
    found: list[Unused] = []
    for row, comment in _comments(source.text, source.lines):
        start = source.lines[row - 1].rfind(comment)
        for match in _COMMENT.finditer(comment) if start >= 0 else ():
            here = [one for one in findings if match["what"] == "ignore-file" or row in _rows(one, statements)]
            names = sorted(_names(match["rules"]))
            idle = [name for name in names if not any(names_rule([name], one.code, one.name) for one in here)]
            if not idle:
                continue
            unknown = [name for name in idle if not any(names_rule([name], *rule) for rule in rules)]
            named = tuple(name for name in idle if name != ALL_RULES)
            first, last, text = start + match.start(), start + match.end(), ""
            if len(idle) < len(names):
                first, last = start + match.start("rules"), start + match.end("rules")
                text = ", ".join(name for name in names if name not in idle)
            elif not source.lines[row - 1][last:].strip():
                # Nothing is left of the comment: the blanks in front of it go with it.
                first, last = len(source.lines[row - 1][:first].rstrip()), len(source.lines[row - 1])
            elif not source.lines[row - 1][last:].lstrip().startswith("#"):
                text = "#"
            found.append(Unused(row, first + 1, last + 1, text, named, tuple(unknown)))
    return found


@dataclass(frozen=True, slots=True)
class Misspelt:
    """A comment that is addressed to Tapecheck and switches nothing off, since it is not of the form that is read.

    It stands at columns `start` to `end` of a line (from 1, end exclusive). `text` is what was probably meant.
    """

    line: int
    start: int
    end: int
    text: str


def misspelt(source: Source) -> list[Misspelt]:
    """Return the comments that look like ours and are not read: another verb, brackets missing or left open."""
    if "tapecheck" not in source.text.lower():
        return []
    found: list[Misspelt] = []
    for row, comment in _comments(source.text, source.lines):
        start = source.lines[row - 1].rfind(comment)
        for match in _ANY_OF_OURS.finditer(comment) if start >= 0 else ():
            read = _COMMENT.match(comment, match.start())
            rest = (match["rest"] if match["rest"] is not None else match["more"]).strip()
            # Behind a comment that is read with its brackets anything may stand: a reason.
            if read is not None and (read["rules"] is not None or not _NAMED.match(rest)):
                continue
            meant = _meant(match["word"] or match["bare"] or "", rest)
            if meant is not None:
                end = match.start() + len(match.group().rstrip())
                found.append(Misspelt(row, start + match.start() + 1, start + end + 1, meant))
    return found


def _meant(word: str, rest: str) -> str | None:
    """Return the comment that was probably meant by one that is not read; None for what is no attempt at one."""
    named = [rule_name(name) for name in _RULES.findall(rest)]
    near = difflib.get_close_matches(word.lower(), _VERBS, 1, 0.6)
    if not near and not named:
        return None
    verb = _VERBS[near[0]] if near else "ignore"
    return f"# tapecheck: {verb}" + (f"[{', '.join(named)}]" if named else "")


def _rows(finding: Hidden, statements: list[tuple[int, int]]) -> range:
    """Return the lines on which a comment hides a finding."""
    around = [one for one in statements if one[0] <= finding.line and finding.end_line <= one[1]]
    first, last = min(around, key=lambda one: one[1] - one[0], default=(finding.line, finding.end_line))
    return range(min(first, finding.line), max(last, finding.end_line) + 1)


def rules_at(source: Source, line: int, column: int) -> tuple[str, ...] | None:
    """Return the rules that the comment at a place switches off; None where there is no such comment."""
    if "tapecheck:" not in source.text:
        return None
    for row, comment in _comments(source.text, source.lines):
        start = source.lines[row - 1].rfind(comment)
        for match in _COMMENT.finditer(comment) if row == line and start >= 0 else ():
            if start + match.start() < column <= start + match.end():
                return tuple(sorted(_names(match["rules"])))
    return None


def named_rules(source: Source) -> Iterator[tuple[int, int, int, str]]:
    """Yield the names in comments that switch rules off, with row and columns (from 1, end exclusive)."""
    if "tapecheck:" not in source.text:
        return
    for row, comment in _comments(source.text, source.lines):
        start = source.lines[row - 1].rfind(comment)
        for match in _COMMENT.finditer(comment) if start >= 0 else ():
            for name in re.finditer(r"[^\s,]+", match["rules"] or ""):
                first = start + match.start("rules") + name.start() + 1
                yield row, first, first + len(name.group()), name.group()


def expects(manager: ast.expr) -> bool:
    """Whether a context is `pytest.raises(...)` or `self.assertRaises(...)`."""
    function = manager.func if isinstance(manager, ast.Call) else None
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)
    return name in EXPECTING


def _expecting(tree: ast.Module) -> Iterator[tuple[int, int]]:
    for node in walk(tree):
        if isinstance(node, (ast.With, ast.AsyncWith)) and any(expects(item.context_expr) for item in node.items):
            yield node.lineno, node.end_lineno or node.lineno


def ignore_line(source: Source, code: str, line: int, end_line: int) -> tuple[int, int, int, str] | None:
    """Return the edit that switches a rule off for what is reported on some lines: line, columns from and to, text.

    A comment that is there already gets the rule added. None where no line of the statement can carry a comment
    (all of them end inside a text or with a backslash).
    """
    comments = dict(_comments(source.text, source.lines))
    around = [one for one in _simple_statements(source.tree) if one[0] <= line and end_line <= one[1]]
    first, last = min(around, key=lambda one: one[1] - one[0], default=(line, end_line))
    for row in range(first, last + 1):
        found = _add_to(source.lines, comments, row, "ignore", code)
        if found is not None:
            return found
    inside = _inside_texts(source.text)
    for row in [end_line, *range(end_line + 1, last + 1), *range(end_line - 1, first - 1, -1)]:
        text = source.lines[row - 1] if row <= len(source.lines) else ""
        if row not in inside and not (text.rstrip().endswith("\\") and row not in comments):
            end = len(text.rstrip()) + 1
            return row, end, end, f"  # tapecheck: ignore[{code}]"
    return None


def ignore_file(source: Source, code: str) -> tuple[int, int, int, str] | None:
    """Return the edit that switches a rule off in a whole file: line, columns from and to, text.

    None for a notebook all of whose cells begin with a magic that must stay first.
    """
    comments = dict(_comments(source.text, source.lines))
    for row in comments:
        found = _add_to(source.lines, comments, row, "ignore-file", code)
        if found is not None:
            return found
    row = 1
    if source.cells is not None:
        first = ((cell, next((line for line in cell.lines if line.strip()), "")) for cell in source.cells.parts)
        free = (cell.first for cell, line in first if not line.lstrip().startswith("%%"))
        row = next(free, 0)
        if row == 0:
            return None
    # Python reads these two only where they stand first.
    for text in source.lines[:2] if source.cells is None else ():
        if (row == 1 and text.startswith("#!")) or _CODING.match(text):
            row += 1
        else:
            break
    newline = "\r\n" if "\r\n" in source.text else "\n"
    return row, 1, 1, f"# tapecheck: ignore-file[{code}]{newline}"


def _add_to(
    lines: list[str], comments: dict[int, str], row: int, what: str, code: str
) -> tuple[int, int, int, str] | None:
    """Return the edit that adds a rule to the brackets of a comment, where there is one with brackets."""
    if row not in comments:
        return None
    start = lines[row - 1].rfind(comments[row])
    for match in _COMMENT.finditer(comments[row]):
        if match["what"] == what and match["rules"] is not None and start >= 0:
            at = start + match.end("rules") + 1
            return row, at, at, f", {code}" if match["rules"].strip() else code
    return None


def _names(rules: str | None) -> frozenset[str]:
    if rules is None:
        return frozenset([ALL_RULES])
    return frozenset(rule_name(name) for part in rules.split(",") if (name := part.strip()))


def _comments(text: str, lines: list[str]) -> Iterator[tuple[int, str]]:
    """Return the comments of a text by line; behind what Python cannot read, whatever looks like one of ours."""
    last = 0
    try:
        for token in tokenize.generate_tokens(io.StringIO("\n".join(lines)).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string
            if token.type != tokenize.ENDMARKER:
                last = token.end[0]
    except (tokenize.TokenError, SyntaxError):
        for row in range(last + 1, len(lines) + 1):
            match = _COMMENT.search(lines[row - 1])
            if match is not None:
                yield row, lines[row - 1][match.start() :]


def _inside_texts(text: str) -> set[int]:
    """Return the lines that end inside a string."""
    inside: set[int] = set()
    opened: list[int] = []
    starts = {getattr(tokenize, name, -1) for name in ("FSTRING_START", "TSTRING_START")}
    ends = {getattr(tokenize, name, -1) for name in ("FSTRING_END", "TSTRING_END")}
    try:
        for token in tokenize.generate_tokens(io.StringIO("\n".join(split_lines(text))).readline):
            if token.type == tokenize.STRING:
                inside.update(range(token.start[0], token.end[0]))
            elif token.type in starts:
                opened.append(token.start[0])
            elif token.type in ends and opened:
                inside.update(range(opened.pop(), token.end[0]))
    except (tokenize.TokenError, SyntaxError):
        pass
    return inside


def _simple_statements(tree: ast.Module) -> Iterator[tuple[int, int]]:
    """First and last line of every statement without a body, and of the header of every one with a body."""
    for node in walk(tree):
        if not isinstance(node, ast.stmt):
            continue
        if isinstance(getattr(node, "body", None), list) or isinstance(node, ast.Match):
            header = [child for child in children(node) if not isinstance(child, _BODIES)]
            ends = [getattr(child, "end_lineno", None) or node.lineno for child in header]
            yield node.lineno, max([node.lineno, *ends])
        else:
            yield node.lineno, node.end_lineno or node.lineno
