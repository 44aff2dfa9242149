"""Comments and blanks at the ends of lines are no code; strings are, whatever is in them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tapecheck.source import lexed
from tapecheck.source.lexed import closed, code_lines

PROGRAMS = sorted((Path(__file__).parents[1] / "cases" / "programs").glob("*.py"))


@pytest.mark.parametrize(
    "text, code, rows",
    [
        ("x = 1  # one", "x = 1", (0,)),
        ("x = 1 \t\n\n  \ny = 2 # (", "x = 1\ny = 2", (0, 3)),
        ("x = '# no'  # yes", "x = '# no'", (0,)),
        ('x = """ # no  \n\n  # no """  ', 'x = """ # no  \n\0\n\0  # no """', (0, 1, 2)),
        ("x = '\\'# no'  # yes", "x = '\\'# no'", (0,)),
        ("x = r'\\'  # no'", "x = r'\\'  # no'", (0,)),
        ("x = ''  # yes ''", "x = ''", (0,)),
        ("x = '''a''b # no  '''", "x = '''a''b # no  '''", (0,)),
        ("x = 'a\\\n# no' # yes", "x = 'a\\\n\0# no'", (0, 1)),
        ("x = (1,  # one\n\n # two\n     2)", "x = (1,\n     2)", (0, 3)),
        ("x = y \\\n\n(z)", "x = y \\\n\n(z)", (0, 1, 2)),
        ("# all", "", ()),
    ],
)
def test_what_is_code(text: str, code: str, rows: tuple[int, ...]) -> None:
    assert code_lines(text) == (code, rows)
    assert tree(text) == tree(restored(text))


def restored(text: str) -> str:
    """The code of a text with each line where it stood."""
    code, rows = code_lines(text)
    lines = [""] * (text.count("\n") + 1)
    for row, line in zip(rows, code.split("\n")):
        lines[row] = line.removeprefix("\0")
    return "\n".join(lines)


def tree(text: str) -> str:
    return ast.dump(ast.parse(text), include_attributes=True)


def test_programs_parse_to_the_same_tree_without_what_is_no_code() -> None:
    for path in PROGRAMS:
        text = path.read_text()
        assert tree(restored(text)) == tree(text), path.name


def test_quotes_in_formatted_strings_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lexed, "_NESTING", True)
    text = "x = f\"{y['a']}\"  # comment"
    assert code_lines(text) == (text, (0,))
    assert code_lines(f"if y:\n    # one\n\n    {text} \n") == (f"if y:\n    {text}", (0, 3))
    over = 'x = f"""\n# no\n\n"""\n# yes'
    assert code_lines(over) == (over, (0, 1, 2, 3, 4))
    assert code_lines("x = 'if'  # comment") == ("x = 'if'", (0,))


@pytest.mark.parametrize(
    "text, expected",
    [
        ("f(x[1], {2: '('})  # (", True),
        ("f('a', 'b')", True),
        ("f('a', g('b')", False),
        ("'a', (, 'b'", False),
        ("f(x", False),
        ("f(x])", False),
        ("x)", False),
        ("'", False),
        ('"""a', False),
        ("'''a' '''", True),
    ],
)
def test_what_is_open(text: str, expected: bool) -> None:
    assert closed(text) is expected
