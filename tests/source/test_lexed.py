"""Comments and blanks at the ends of lines are no code; strings are, whatever is in them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tapecheck.source import lexed
from tapecheck.source.lexed import closed, code_of

PROGRAMS = sorted((Path(__file__).parents[1] / "cases" / "programs").glob("*.py"))


@pytest.mark.parametrize(
    "text, code",
    [
        ("x = 1  # one", "x = 1"),
        ("x = 1 \t\n\n  \ny = 2 # (", "x = 1\n\n\ny = 2"),
        ("x = '# no'  # yes", "x = '# no'"),
        ('x = """ # no  \n  # no """  ', 'x = """ # no  \n  # no """'),
        ("x = '\\'# no'  # yes", "x = '\\'# no'"),
        ("x = r'\\'  # no'", "x = r'\\'  # no'"),
        ("x = ''  # yes ''", "x = ''"),
        ("x = '''a''b # no  '''", "x = '''a''b # no  '''"),
        ("x = 'a\\\n# no' # yes", "x = 'a\\\n# no'"),
        ("x = (1,  # one\n     2)", "x = (1,\n     2)"),
        ("# all", ""),
    ],
)
def test_what_is_code(text: str, code: str) -> None:
    assert code_of(text) == code
    assert ast.dump(ast.parse(text), include_attributes=True) == ast.dump(ast.parse(code), include_attributes=True)


def test_programs_parse_to_the_same_tree_without_what_is_no_code() -> None:
    for path in PROGRAMS:
        text = path.read_text()
        same = ast.dump(ast.parse(code_of(text)), include_attributes=True)
        assert same == ast.dump(ast.parse(text), include_attributes=True), path.name


def test_quotes_in_formatted_strings_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lexed, "_NESTING", True)
    text = "x = f\"{y['a']}\"  # comment"
    assert code_of(text) == text
    assert code_of("x = 'if'  # comment") == "x = 'if'"


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
