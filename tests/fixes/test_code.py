"""Places in the source, and the changes written there, with the file's own layout."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from textwrap import dedent

import pytest

from tapecheck.fixes import rewrite
from tapecheck.fixes.code import Code
from tapecheck.fixes.edit import Change, apply, settle
from tapecheck.source import from_text
from tapecheck.tape import Site, Span


def _code(text: str) -> Code:
    return Code(from_text(text, "train.py"))


def _after(code: Code, changes: Change | Iterable[Change] | None) -> str:
    assert changes is not None
    settled = settle(code.text, [changes] if isinstance(changes, Change) else changes)
    assert settled is not None
    return apply(code.text, settled)


def _statement(code: Code, line: int) -> ast.stmt:
    return code.statement_at(Span("train.py", line, 1, line, 1)) or next(
        node for node in ast.walk(code.tree) if isinstance(node, ast.stmt) and node.lineno == line
    )


def _on(code: Code, text: str, kind: type[ast.AST] = ast.expr) -> ast.AST:
    return next(node for node in ast.walk(code.tree) if isinstance(node, kind) and code.segment(node) == text)


def test_expressions_are_found_by_their_span_in_characters() -> None:
    code = _code("é = '😀'; y = f(x)\n")
    call = code.expression_at(Span("train.py", 1, 14, 1, 18))
    assert isinstance(call, ast.Call)
    assert code.segment(call) == "f(x)"
    assert code.expression_at(Span("other.py", 1, 14, 1, 18)) is None


def test_the_indent_of_tabs_and_windows_line_ends_are_kept() -> None:
    code = _code("for i in x:\r\n\tloss.backward()\r\n\topt.step()\r\n")
    step = _on(code, "opt.step()", ast.Expr)
    assert isinstance(step, ast.stmt)
    expected = code.text + "\th = h.detach()\r\n"
    assert _after(code, code.insert_after(step, ["h = h.detach()"])) == expected
    assert _after(code, code.wrap(step, step, "with torch.no_grad():")).endswith(
        "\twith torch.no_grad():\r\n\t\topt.step()\r\n"
    )


def test_the_last_line_without_a_line_break_gets_one() -> None:
    code = _code("a()\nb()")
    last = code.tree.body[-1]
    assert _after(code, code.insert_after(last, ["c()"])) == "a()\nb()\nc()"


@pytest.mark.parametrize(
    ("text", "of", "how", "after"),
    [
        ("a(); b()\n", "a()", "before", "n()\na(); b()\n"),
        ("a(); b()\n", "b()", "before", "a(); n(); b()\n"),
        ("a(); b()\n", "a()", "after", "a(); n(); b()\n"),
        ("a(); b()  # why\n", "b()", "after", "a(); b()  # why\nn()\n"),
        ("a(); b();\n", "b()", "after", "a(); b();\nn()\n"),
        ("if x: a()\n", "a()", "before", "if x: n(); a()\n"),
        ("if x: a()  # why\n", "a()", "after", "if x: a(); n()  # why\n"),
        ("if x:\n\ta(); b()\n", "b()", "after", "if x:\n\ta(); b()\n\tn()\n"),
        ("a(); b()\n", "a()", "delete", "b()\n"),
        ("a(); b()  # why\n", "b()", "delete", "a()  # why\n"),
        ("a(); b(); c()\n", "b()", "delete", "a(); c()\n"),
        ("if x: a()\n", "a()", "delete", "if x: pass\n"),
        ("a(); b(); c()\n", "b()", "wrap", "a()\nwith g:\n    b()\nc()\n"),
        ("a(); b()\n", "a()", "wrap", "with g:\n    a()\nb()\n"),
        ("if x:\n  a(); b()  # why\n", "b()", "wrap", "if x:\n  a()\n  with g:\n    b()  # why\n"),
        ("if x: b()\n", "b()", "wrap", "if x:\n    with g:\n        b()\n"),
        ("for x in y: a(); b(); c()\n", "b()", "wrap", "for x in y:\n    a()\n    with g:\n        b()\n    c()\n"),
        ("if x: a()\r\nelse: b()\r\n", "b()", "wrap",
         "if x: a()\r\nelse:\r\n    with g:\r\n        b()\r\n"),
    ],
)  # fmt: skip
def test_statements_that_share_a_line(text: str, of: str, how: str, after: str) -> None:
    code = _code(text)
    statement = _on(code, of, ast.Expr)
    assert isinstance(statement, ast.stmt)
    changes = {
        "before": lambda: code.insert_before(statement, ["n()"]),
        "after": lambda: code.insert_after(statement, ["n()"]),
        "delete": lambda: code.delete(statement),
        "wrap": lambda: code.wrap(statement, statement, "with g:"),
    }[how]()
    assert _after(code, changes) == after


def test_a_compound_line_does_not_go_among_statements_of_one_line() -> None:
    code = _code("a(); b()\n")
    assert code.insert_after(code.tree.body[0], ["if h:", "    c()"]) is None
    assert code.insert_before(code.tree.body[1], ["if h:", "    c()"]) is None


def test_an_elif_takes_nothing_before_it() -> None:
    code = _code("if a:\n    x()\nelif b:\n    y()\n")
    inner = code.tree.body[0].orelse[0]  # type: ignore[attr-defined]
    assert code.insert_before(inner, ["z()"]) is None
    assert code.wrap(inner, inner, "with c:") is None


def test_a_deleted_statement_takes_its_lines_and_comment_along() -> None:
    code = _code("a()\nb(1,\n  2)  # why\nc()\n")
    assert _after(code, code.delete(code.tree.body[1])) == "a()\nc()\n"


def test_the_only_statement_of_a_block_becomes_pass() -> None:
    code = _code("if a:\n    b()\n")
    inner = code.tree.body[0].body[0]  # type: ignore[attr-defined]
    assert _after(code, code.delete(inner)) == "if a:\n    pass\n"


def test_wrapping_leaves_the_insides_of_strings_alone() -> None:
    text = 'for x in y:\n  s = f("""\n  one\n""", x)\n'
    code = _code(text)
    loop = code.tree.body[0]
    assert isinstance(loop, ast.For)
    expected = 'for x in y:\n  with g:\n    s = f("""\n  one\n""", x)\n'
    assert _after(code, code.wrap(loop.body[0], loop.body[0], "with g:")) == expected


def test_unwrapping_moves_the_body_out() -> None:
    text = "with torch.no_grad():\n    a()\n\n    if b:\n        c()\nd()\n"
    code = _code(text)
    assert isinstance(code.tree.body[0], ast.With)
    assert _after(code, code.unwrap(code.tree.body[0])) == "a()\n\nif b:\n    c()\nd()\n"


def test_unwrapping_a_with_on_one_line_leaves_its_body_there() -> None:
    code = _code("with torch.no_grad(): a(); b()\n")
    assert isinstance(code.tree.body[0], ast.With)
    assert _after(code, code.unwrap(code.tree.body[0])) == "a(); b()\n"


def test_a_comment_above_the_body_moves_out_with_it() -> None:
    code = _code("with g:\n    # why\n    a()\n")
    assert isinstance(code.tree.body[0], ast.With)
    assert _after(code, code.unwrap(code.tree.body[0])) == "# why\na()\n"


def test_a_decorator_goes_with_its_line() -> None:
    text = "class A:\n    @torch.no_grad()\n    def f(self): ...\n"
    code = _code(text)
    function = code.tree.body[0].body[0]  # type: ignore[attr-defined]
    assert _after(code, code.remove_decorator(function.decorator_list[0])) == "class A:\n    def f(self): ...\n"


@pytest.mark.parametrize(
    ("text", "name", "after"),
    [
        ("import torch\n", "torch", "import torch\n"),
        ("import torch as t\n", "t", "import torch as t\n"),
        ("import torch.nn\n", "torch", "import torch.nn\n"),
        ("from torch import nn\n", "torch", "import torch\nfrom torch import nn\n"),
        ("import torch.nn as nn\n", "torch", "import torch\nimport torch.nn as nn\n"),
        (
            '"""Doc."""\nfrom __future__ import annotations\n\nx = 1\n',
            "torch",
            '"""Doc."""\nfrom __future__ import annotations\n\nimport torch\nx = 1\n',
        ),
    ],
)
def test_torch_is_called_as_the_file_calls_it_or_imported(text: str, name: str, after: str) -> None:
    code = _code(text)
    found, changes = code.torch()
    assert found == name
    assert _after(code, changes) == after


def test_own_parentheses_are_told_from_those_of_a_call() -> None:
    code = _code("x = (a + b)\ny = f(c + d)\nz = f((e + g), h)\n")
    assert code.in_parentheses(_on(code, "a + b", ast.BinOp))  # type: ignore[arg-type]
    assert not code.in_parentheses(_on(code, "c + d", ast.BinOp))  # type: ignore[arg-type]
    assert code.in_parentheses(_on(code, "e + g", ast.BinOp))  # type: ignore[arg-type]


def test_blocks_loops_and_functions_around_a_node() -> None:
    text = dedent("""\
        def train(loader):
            for x in loader:
                loss = f(x)
                if loss > 0:
                    loss.backward()
                opt.step()
    """)
    code = _code(text)
    backward, step = _on(code, "loss.backward()", ast.Call), _on(code, "opt.step()", ast.Call)
    pair = code.same_block(backward, step)
    assert pair is not None
    assert isinstance(pair[0], ast.If) and isinstance(pair[1], ast.Expr)
    assert len(code.loops(backward)) == 1
    assert isinstance(code.function(backward), ast.FunctionDef)


def test_the_other_statement_of_a_block_and_what_stands_between() -> None:
    code = _code("for x in data:\n    a(x)\n    b(x)\n    if x:\n        c(x)\nd()\n")
    call = _on(code, "c(x)", ast.Call)
    last = next(node for node in ast.walk(code.tree) if isinstance(node, ast.If))
    first, middle, _ = code.block(last)
    assert code.beside(first, call) is last
    assert code.beside(last, call) is None
    assert code.beside(first, _on(code, "d()", ast.Call)) is None
    assert code.between(first, last) == [middle]


def test_an_event_is_in_the_statements_that_led_to_it() -> None:
    code = _code("def f(x):\n    return g(x)\n\nf(1)\n")
    inner, outer = _on(code, "g(x)", ast.Call), _on(code, "f(1)", ast.Call)
    at = Site(code.span(inner), "f", (code.span(outer), Span("other.py", 1, 1, 1, 5)))
    assert [one.lineno for one in code.statements(at)] == [2, 4]
    assert code.statement_in(code.tree, at) is _statement(code, 4)
    assert code.within(code.span(inner), ast.Name) == [_on(code, "g"), _on(code, "x", ast.Name)]


def test_a_rewrite_of_what_has_not_its_form_is_no_change() -> None:
    code = _code("x += 1\ny = 2\n")
    assert _after(code, code.rewritten(_statement(code, 1), rewrite.out_of_place)) == "x = x + 1\ny = 2\n"
    assert code.rewritten(_statement(code, 2), rewrite.out_of_place) is None


def test_a_file_with_a_syntax_error_still_has_its_places() -> None:
    code = _code("def f(:\n    pass\n\nloss.backward(retain_graph=True)\n")
    call = _on(code, "loss.backward(retain_graph=True)", ast.Call)
    assert code.expression_at(Span("train.py", 4, 1, 4, 33)) is call


@pytest.mark.parametrize(
    "text", ["s = s.step()", "a = b()\nb = a()", "x = x", "env.s = env.s.next()", "a = b.c\nb = a.d", "f = f"]
)
def test_a_name_that_is_made_of_itself_comes_from_nowhere(text: str) -> None:
    code = _code(text)
    assert {code.path(node) for node in ast.walk(code.tree) if isinstance(node, ast.expr)} == {""}
