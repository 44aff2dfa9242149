"""Half-typed code costs its own statement; what stands around it keeps its lines, columns and meaning."""

from __future__ import annotations

import ast
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapecheck.source import from_text, recovery
from tapecheck.source.incremental import Parsed
from tapecheck.source.notebook import join
from tapecheck.source.skipped import SKIPPED, is_call

REST = [f"after_{number}({number})" for number in range(30)]


def calls(text: str) -> list[tuple[str, int, int]]:
    """Return the functions that a program calls, each with its line and column, but what stands for broken text."""
    source = from_text(text, "net.py")
    found = [node for node in ast.walk(source.tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    named = [(node.func.id, node.lineno, node.col_offset) for node in found]  # type: ignore[attr-defined]
    return sorted(one for one in named if one[0] != SKIPPED)


def around(typed: str, indent: str = "") -> str:
    lines = ["before(0)", *(["def f():", "    first(1)"] if indent else [])]
    lines += [indent + line for line in typed.split("\n")] + [indent + line for line in REST]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("indent", ["", "    "])
@pytest.mark.parametrize(
    "typed",
    [
        "for i in y:", "for i in y:  # each", "for i in (1,\n          2):", "while True:", "if x:", "if x: # why",
        "if a[1:2] == {1: 2}:", "with a as b:", "with (a as b,\n      c as d):", "try:", "def step(self, batch):",
        "def step(self,\n         batch):", "class Net:", "async def f():", "match x:", "@torch.no_grad()",
        "@lru_cache(\n    maxsize=None,\n)", "@a\n@b", "else:", "elif x:", "except ValueError:", "finally:", "case 1:",
        "for i in", "for i in y", "if x", "def step(self", "def step(self,", "class Net", "with open(name", "while",
        "x = foo(a", "x = [1, 2", "x =", "x.", "import", "from torch import", "return (", "lambda x:", "x = y +",
        "f'{x", "print('", "foo bar", "del", "\u3000", "\u00a0", "\x85", "  \u00a0 ", "    stray = 1",
        "    stray = 1\n    more = 2", "for i in y:\n\n\n# nothing yet\n", "try:\n    x = 1",
        "try:\n    if a:\n        b = 1", "if x:\nfor i in y:", "for i in y:\nfor j in z:\n", "if x:\nelse:",
        "try:\nexcept ValueError:", "try:\nfinally:",
    ],
)  # fmt: skip
def test_an_unfinished_line_costs_nothing_else(typed: str, indent: str) -> None:
    text = around(typed, indent)
    lines = text.split("\n")
    expected = [(name.partition("(")[0], row, len(name) - len(name.lstrip())) for row, name in enumerate(lines, 1)]
    expected = [(name.strip(), row, column) for name, row, column in expected if name.strip().startswith("after_")]
    source = from_text(text, "net.py")
    assert source.error is not None
    found = [call for call in calls(text) if call[0].startswith("after_")]
    assert found == sorted(expected)


@pytest.mark.parametrize(
    "header", ["for i in y", "def step(self", "class Net(", "with open(name", "try", "while x >", "if ("]
)
def test_the_body_of_a_broken_header_stays(header: str) -> None:
    text = f"before(0)\n{header}\n    inside(1)\n    inside(2)\nafter(3)\n"
    assert [call[:2] for call in calls(text)] == [("after", 5), ("before", 1), ("inside", 3), ("inside", 4)]


def test_the_body_of_a_broken_function_is_not_run_where_it_stands() -> None:
    tree = from_text("def step(self, x\n    inside(1)\n    return 1\nafter(2)\n", "net.py").tree
    assert isinstance(tree.body[0], ast.FunctionDef) and tree.body[0].name == "step"


def test_an_unfinished_function_does_not_stand_for_the_one_below_it() -> None:
    tree = from_text("def f(x):\ndef f(x):\n    return 1\nwhile True:\nafter(2)\n", "net.py").tree
    assert [type(node).__name__ for node in tree.body] == ["Assign", "FunctionDef", "Expr", "Expr"]
    assert all(is_call(node.value) for node in (tree.body[0], tree.body[2]))  # type: ignore[attr-defined]


def test_a_decorator_keeps_its_function() -> None:
    tree = from_text("@torch.no_grad()\nfor i in (\ndef f(x):\n    return 1\n", "net.py").tree
    (function,) = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert len(function.decorator_list) == 1


def test_a_header_without_its_body_is_named_at_its_own_line() -> None:
    source = from_text("x = 1\nfor i in y:\n\nprint(0)\n", "net.py")
    assert (source.error, source.error_line) == ("line 2: expected an indented block after 'for' statement", 2)


@pytest.mark.parametrize(
    "text", ["import torch\ndef f(:\n    pass\n", "x = 1\nif x:\n    y = 'é' é)\n", "x = foo(1,\nbar = 2\n"]
)
def test_an_error_is_named_at_the_character_where_python_names_it(text: str) -> None:
    source = from_text(text, "net.py")
    with pytest.raises(SyntaxError) as refused:
        compile(text, "net.py", "exec")
    assert (source.error_line, source.error_column) == (refused.value.lineno, refused.value.offset)
    assert source.error_column is not None and source.error_column > 1


@pytest.mark.parametrize("text", ["    x = 1\n", "for i in y:\nprint(i)\n", "x = 1\0\n"])
def test_an_indent_or_a_null_byte_is_named_by_its_line_alone(text: str) -> None:
    source = from_text(text, "net.py")
    assert (source.error_line, source.error_column) == (1, None)


def test_an_error_in_a_notebook_is_named_in_its_cell() -> None:
    source = join("train.ipynb", [(1, "import torch\n", "a"), (2, "%matplotlib inline\ny = (1 2)\n", "b")])
    assert (source.error_line, source.error_column) == (4, 6)


def test_many_errors_cost_their_own_statements() -> None:
    text = "".join(f"good_{number}({number})\nbad {number}\n" for number in range(300))
    assert len(calls(text)) == 300
    deep = "good(1)\nx = " + "-" * 200_000 + "1\ngood(2)\n"
    assert [call[:2] for call in calls(deep)] == [("good", 1), ("good", 3)]
    nul = "good(1)\nx = '\x00'\ngood(2)\n"
    assert [call[:2] for call in calls(nul)] == [("good", 1), ("good", 3)]


def test_a_statement_with_many_errors_is_left_out_as_a_whole() -> None:
    inside = "".join(f"    bad {number}\n" for number in range(50))
    assert [call[0] for call in calls(f"good(1)\ndef f():\n{inside}good(2)\n")] == ["good", "good"]


def test_a_large_file_is_mended_within_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[int] = []

    parse = recovery.parse_lines

    def counted(lines: Sequence[str], before: Parsed | None = None) -> Parsed:
        parsed.append(len(lines))
        return parse(lines, before)

    monkeypatch.setattr(recovery, "parse_lines", counted)
    from_text("".join(f"x{number} = f(\n" for number in range(20_000)), "net.py")
    assert sum(parsed) < 25 * 20_000


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            ["if x:", "else:", "try:", "except:", "@a", "def f():", "class A:", "x = (", ")", "    y", "\t z", "for",
             "", "#", "'''", "while 1:", "match x:", "case 1:", "x = \\", "\u00a0", "a b", "  w"]
        ),
        max_size=25,
    )
)  # fmt: skip
def test_no_lines_are_too_broken(lines: list[str]) -> None:
    source = from_text("\n".join(lines), "any.py")
    assert isinstance(source.tree, ast.Module)
    compile(ast.Module(source.tree.body, []), "any.py", "exec", ast.PyCF_ONLY_AST)
    assert (source.error is None) == (not source.blanked)


@pytest.mark.parametrize("decorators", ["@plain\n", "@plain\n@other(1)\n", "@plain\n# said\n"])
def test_a_decorator_of_a_function_that_is_commented_out_is_not_that_of_the_next(decorators: str) -> None:
    text = f"def first():\n    pass\n\n{decorators}# def lost():\n    return 1\n\ndef last():\n    pass\n"
    functions = [one for one in from_text(text, "p.py").tree.body if isinstance(one, ast.FunctionDef)]
    assert [(one.name, len(one.decorator_list)) for one in functions] == [("first", 0), ("last", 0)]
