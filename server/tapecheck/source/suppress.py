"""Comments that switch rules off: `# tapecheck: ignore[TAPE101]` on a line, `# tapecheck: ignore-file[TAPE101]`.

What stands in brackets are codes, beginnings of codes or names of rules, parted by commas; without brackets every
rule is meant. A comment on a line holds for what is reported anywhere in the statement that the line is part of.
`# noqa: TAPE101` and `# ruff: noqa: TAPE101` mean the same; a `# noqa` that names no code of ours is for other linters.
"""

from __future__ import annotations

import ast
import difflib
import io
import re
import tokenize
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tapecheck.source.nodes import children, of_kind, walk
from tapecheck.source.text import split_lines

if TYPE_CHECKING:
    from tapecheck.source.text import Source

ALL_RULES = "ALL"
"""The name that means every rule."""
EXPECTING = frozenset(["raises", "assertRaises", "assertRaisesRegex"])
"""Contexts that want the exception: what raises in them is meant to."""
_COMMENT = re.compile(r"#\s*tapecheck:\s*(?P<what>ignore-file|ignore)(?![\w-])(?:\s*\[(?P<rules>[^\]\n]*)\]|(?!\s*\[))")
_NOQA = re.compile(
    r"(?i)#\s*(?P<file>(?:ruff|flake8)\s*:\s*)?noqa\s*:\s*(?P<rules>[a-z]+[0-9]+(?:(?:\s*,\s*|\s+)[a-z]+[0-9]+)*)"
)
_TOOL = re.compile(r"(?i)tapecheck")
_OURS = re.compile(r"(?i)tape[0-9]+")
_HALF_NOQA = re.compile(r"(?i)#\s*noqa(?:\s+|\s*[\[(=:]\s*)(?P<rules>tape-?[0-9]+(?:[\s,]+tape-?[0-9]+)*)\s*[\])]?")
_NEARLY = re.compile(r"(?i)#\s*(?P<tool>tap[\w-]{3,10})\s*(?P<mark>[:;=-])\s*(?P<word>[\w-]*)(?P<rest>[^#]*)")
"""What may be meant for Tapecheck, by another mark behind the name or by a name that is nearly its own."""
_INSIDE = re.compile(
    r"(?i)(?<=[\w\s,;:])tapecheck\s*(?::\s*(?P<verb>ignore-file|ignore)\s*)?[\[(](?P<rules>[^\])\n]*)[\])]"
)
"""What would be read if it stood behind a `#` of its own, and in the right order."""
_CODE = re.compile(r"(?i)all|tape[0-9]*")
_ANY_OF_OURS = re.compile(
    r"#\s*(?:tapecheck\s*:\s*(?P<word>[\w-]*)(?P<rest>[^#]*)|tapecheck\s+(?P<bare>ignore-file|ignore)(?![\w-])(?P<more>[^#]*))",
    re.IGNORECASE,
)
_RULES = re.compile(r"(?i)\btape[0-9]+\b|(?<=[\[({=,:])\s*\ball\b")
_NAMED = re.compile(r"(?i)[=:(,{;<|-]?\s*tape[0-9]+")
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
    if not may_suppress(source.text):
        return Suppressions(expected=expected)
    file: set[str] = set()
    lines: dict[int, frozenset[str]] = {}
    for line, comment in _comments(source.lines):
        for one in _directives(comment):
            if one.whole_file:
                file |= one.names
            else:
                lines[line] = lines.get(line, frozenset()) | one.names
    statements = tuple(_simple_statements(source.tree)) if lines else ()
    return Suppressions(frozenset(file), lines, statements, expected)


def may_suppress(text: str) -> bool:
    """Return whether a text may have comments that switch rules off: False is certain."""
    return "tapecheck:" in text or _NOQA.search(text) is not None


@dataclass(frozen=True, slots=True)
class _Directive:
    """A part of a comment that switches rules off, as Tapecheck writes it or for linters together (`noqa`).

    It stands at characters `start` to `end` of the comment, its list of rules at `first` to `last`: both are `end`
    where it has none. `others` are the codes of other linters in that list.
    """

    names: frozenset[str]
    whole_file: bool
    start: int
    end: int
    first: int
    last: int
    noqa: bool = False
    others: tuple[str, ...] = ()

    @property
    def blanket(self) -> bool:
        """Whether it names no rules and so means all of them."""
        return self.first == self.last == self.end

    def without(self, idle: Collection[str], comment: str) -> str:
        """Return the list of rules without those that switch nothing off; empty where none is left."""
        if not self.noqa:
            return ", ".join(sorted(self.names.difference(idle)))
        listed = re.findall(r"[^\s,]+", comment[self.first : self.last])
        return ", ".join(one for one in listed if rule_name(one) not in idle)


def _directives(comment: str) -> Iterator[_Directive]:
    """Yield what a comment switches off, in its order."""
    for match in _COMMENT.finditer(comment):
        first, last = match.span("rules") if match["rules"] is not None else (match.end(), match.end())
        whole = match["what"] == "ignore-file"
        yield _Directive(_names(match["rules"]), whole, match.start(), match.end(), first, last)
    for match in _NOQA.finditer(comment):
        listed = re.findall(r"[^\s,]+", match["rules"])
        ours = frozenset(rule_name(one) for one in listed if _OURS.fullmatch(one))
        if ours:
            others = tuple(one for one in listed if not _OURS.fullmatch(one))
            first, last = match.span("rules")
            yield _Directive(ours, match["file"] is not None, match.start(), match.end(), first, last, True, others)


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

    @property
    def names_nothing(self) -> bool:
        """Whether it names rules, and none that exists."""
        return bool(self.names) and self.names == self.unknown


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
    if not may_suppress(source.text):
        return []
    rules, findings = list(known), list(hidden)
    statements = list(_simple_statements(source.tree))
    found: list[Unused] = []
    for row, start, comment, one in _placed(source):
        here = [(other.code, other.name) for other in findings if one.whole_file or row in _rows(other, statements)]
        names = sorted(one.names)
        idle = _naming_none(names, here)
        if not idle:
            continue
        unknown = _naming_none(idle, rules)
        named = tuple(name for name in idle if name != ALL_RULES)
        if len(idle) < len(names) or one.others:
            first, last, text = start + one.first, start + one.last, one.without(idle, comment)
        else:
            first, last, text = _without_comment(source.lines[row - 1], start + one.start, start + one.end)
        found.append(Unused(row, first + 1, last + 1, text, named, tuple(unknown)))
    return found


def _naming_none(names: list[str], rules: Sequence[tuple[str, str]]) -> list[str]:
    """Return those of some names that name none of some rules, given by code and name."""
    return [name for name in names if not any(names_rule([name], *rule) for rule in rules)]


def _without_comment(line: str, first: int, last: int) -> tuple[int, int, str]:
    """Return the edit of a line that takes out a comment which stands from `first` to `last`."""
    if not line[last:].strip():
        # Nothing is left of the comment: the blanks in front of it go with it.
        return len(line[:first].rstrip()), len(line), ""
    if line[last:].lstrip().startswith("#"):
        # The next comment takes its place.
        return first, len(line) - len(line[last:].lstrip()), ""
    return first, last, "#"


def blankets(source: Source, hidden: Iterable[Hidden]) -> list[Misspelt]:
    """Return the comments of a file that name no rule, each with the rules of `hidden` that it hides in brackets."""
    if not may_suppress(source.text):
        return []
    statements, findings = list(_simple_statements(source.tree)), list(hidden)
    found: list[Misspelt] = []
    for row, start, _, one in _placed(source):
        if one.blanket:
            here = {other.code for other in findings if one.whole_file or row in _rows(other, statements)}
            verb = "ignore-file" if one.whole_file else "ignore"
            text = f"# tapecheck: {verb}[{', '.join(sorted(here))}]" if here else ""
            found.append(Misspelt(row, start + one.start + 1, start + one.end + 1, text, blanket=True))
    return found


def _placed(source: Source) -> Iterator[tuple[int, int, str, _Directive]]:
    """Yield what comments switch off: row, where the comment starts in it (from 0), the comment, the directive."""
    for row, comment in _comments(source.lines):
        start = source.lines[row - 1].rfind(comment)
        for one in _directives(comment) if start >= 0 else ():
            yield row, start, comment, one


@dataclass(frozen=True, slots=True)
class Misspelt:
    """A comment that is addressed to Tapecheck and switches nothing off, since it is not of the form that is read.

    It stands at columns `start` to `end` of a line (from 1, end exclusive). `text` is what was probably meant. With
    `blanket` it is read, but names no rule where the project wants one: `text` names those that it hides, if any.
    """

    line: int
    start: int
    end: int
    text: str
    blanket: bool = False

    @property
    def message(self) -> str:
        """The headline."""
        return f"ignore comment that {'names no rule' if self.blanket else 'is not read as it is written'}"

    @property
    def help(self) -> str:
        """What to do about it."""
        return f"write `{self.text}`" if self.text else "name the rules in brackets, or remove it"


def misspelt(source: Source) -> list[Misspelt]:
    """Return the comments that look like ours and are not read: another verb, brackets missing or left open."""
    if not any(pattern.search(source.text) for pattern in (_TOOL, _HALF_NOQA, _NEARLY)):
        return []
    found: list[Misspelt] = []
    for row, comment in _comments(source.lines):
        start = source.lines[row - 1].rfind(comment)
        for first, last, meant in sorted(_attempts(comment)) if start >= 0 else ():
            found.append(Misspelt(row, start + first + 1, start + last + 1, meant))
    return found


def _attempts(comment: str) -> Iterator[tuple[int, int, str]]:
    """Yield where a comment has what is not read, from and to, and what was probably meant: empty where it is open."""
    yield from _unread(comment)
    for match in _NEARLY.finditer(comment):
        tool = match["tool"].lower()
        if (tool, match["mark"]) == ("tapecheck", ":") or (_TOOL.match(tool) is None and not _is_near(tool)):
            continue
        meant = _meant(match["word"], match["rest"])
        if meant is not None and (match["word"].lower() in _VERBS or _OURS.search(match["rest"])):
            yield match.start(), match.start() + len(match.group().rstrip()), meant
    for match in _HALF_NOQA.finditer(comment):
        # Without the colon it is a bare `noqa`, which is for other linters.
        if _NOQA.match(comment, match.start()) is None:
            named = _OURS.findall(match["rules"].replace("-", ""))
            yield match.start(), match.end(), f"# noqa: {', '.join(map(rule_name, named))}"
    for match in _INSIDE.finditer(comment):
        named = [rule_name(name) for name in _OURS.findall(match["rules"])]
        if named and not comment[: match.start()].rstrip().endswith("#"):
            yield match.start(), match.end(), f"# tapecheck: {match['verb'] or 'ignore'}[{', '.join(named)}]"


def _unread(comment: str) -> Iterator[tuple[int, int, str]]:
    """Yield what of those has the name of Tapecheck and is not read, or has empty brackets."""
    for match in _ANY_OF_OURS.finditer(comment):
        read = _COMMENT.match(comment, match.start())
        rest = (match["rest"] if match["rest"] is not None else match["more"]).strip()
        # Behind a comment that is read with its brackets anything may stand: a reason.
        if read is not None and read["rules"] is not None and not read["rules"].strip():
            yield read.start(), read.end(), ""
        if read is not None and (read["rules"] is not None or not _NAMED.match(rest)):
            continue
        meant = _meant(match["word"] or match["bare"] or "", rest)
        if meant is not None:
            yield match.start(), match.start() + len(match.group().rstrip()), meant


def _is_near(tool: str) -> bool:
    """Return whether a name is Tapecheck's but for a slip of the keyboard."""
    return difflib.SequenceMatcher(None, tool.replace("-", "").replace("_", ""), "tapecheck").ratio() >= 0.85


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
    if not may_suppress(source.text):
        return None
    for row, start, _, one in _placed(source):
        if row == line and start + one.start < column <= start + one.end:
            return tuple(sorted(one.names))
    return None


def named_rules(source: Source) -> Iterator[tuple[int, int, int, str]]:
    """Yield the names in comments that switch rules off, with row and columns (from 1, end exclusive)."""
    if not may_suppress(source.text):
        return
    for row, start, comment, one in _placed(source):
        for name in re.finditer(r"[^\s,]+", comment[one.first : one.last]):
            if rule_name(name.group()) in one.names:
                first = start + one.first + name.start() + 1
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
    comments = dict(_comments(source.lines))
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
    comments = dict(_comments(source.lines))
    for row in comments:
        found = _add_to(source.lines, comments, row, "ignore-file", code)
        if found is not None:
            return found
    first = _first_free_row(source)
    newline = "\r\n" if "\r\n" in source.text else "\n"
    return (first, 1, 1, f"# tapecheck: ignore-file[{code}]{newline}") if first is not None else None


def _first_free_row(source: Source) -> int | None:
    """Return the first row of a file that a comment may be put in front of; None for a notebook that has none."""
    if source.cells is not None:
        first = ((cell, next((line for line in cell.lines if line.strip()), "")) for cell in source.cells.parts)
        return next((cell.first for cell, line in first if not line.lstrip().startswith("%%")), None)
    row = 1
    # Python reads these two only where they stand first.
    for text in source.lines[:2]:
        if (row == 1 and text.startswith("#!")) or _CODING.match(text):
            row += 1
        else:
            break
    return row


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


def _comments(lines: list[str]) -> Iterator[tuple[int, str]]:
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
            starts = [match.start() for form in (_COMMENT, _NOQA) if (match := form.search(lines[row - 1]))]
            if starts:
                yield row, lines[row - 1][min(starts) :]


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
    for node in of_kind(tree, ast.stmt):
        if isinstance(getattr(node, "body", None), list) or isinstance(node, ast.Match):
            header = [child for child in children(node) if not isinstance(child, _BODIES)]
            ends = [getattr(child, "end_lineno", None) or node.lineno for child in header]
            yield node.lineno, max([node.lineno, *ends])
        else:
            yield node.lineno, node.end_lineno or node.lineno
