"""Reading source: encodings, columns in characters, syntax errors that do not wipe the rest."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapecheck.source import MAX_BYTES, SourceError, from_text, read_source

PROGRAM = """\
import torch

def first(x):
    return x + 1

def broken(x):
    y = x +
    return y

class Net:
    def forward(self, x):
        return x * 2
"""


def names(tree: ast.Module) -> set[str]:
    return {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef))}


def test_a_syntax_error_leaves_the_rest() -> None:
    source = from_text(PROGRAM, "net.py")
    assert source.error is not None and source.error_line == 7
    assert {"first", "Net", "forward"} <= names(source.tree)
    assert 7 in source.blanked


@pytest.mark.parametrize(
    "broken",
    [
        "for x in :\n    pass\n",
        "print 'hello'\n",
        "x = (1,\n",
        "def f(:\n    return 1\n",
        "  stray\n",
        "if x\n    y = 1\n",
    ],
)
def test_broken_statements_do_not_hide_what_stands_before(broken: str) -> None:
    source = from_text("def before():\n    return 1\n" + broken, "net.py")
    assert source.error is not None
    assert "before" in names(source.tree)


def test_columns_count_characters() -> None:
    source = from_text("größe = x.backward()\n", "net.py")
    call = source.tree.body[0].value  # type: ignore[attr-defined]
    assert source.column(1, call.col_offset) == 9


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_line_endings(ending: str, tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_bytes(ending.join(["x = 1", "y = 2", ""]).encode())
    source = read_source(str(file))
    assert source.lines[:2] == ["x = 1", "y = 2"] and len(source.tree.body) == 2


def test_declared_encoding(tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_bytes("# -*- coding: latin-1 -*-\nname = 'größe'\n".encode("latin-1"))
    assert "größe" in read_source(str(file)).text


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"missing\.py"):
        read_source(str(tmp_path / "missing.py"))
    binary = tmp_path / "binary.py"
    binary.write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(SourceError, match="not a text"):
        read_source(str(binary))
    huge = tmp_path / "huge.py"
    huge.write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(SourceError, match="larger"):
        read_source(str(huge))


@settings(max_examples=80, deadline=None)
@given(st.text(alphabet="abx=():\n \t'\"#\\.+[]\x0c\u2028é", max_size=60))
def test_no_text_is_too_broken(text: str) -> None:
    source = from_text(text, "any.py")
    assert isinstance(source.tree, ast.Module)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("import os\nfrom __future__ import annotations\nx = 1\n", 2),
        ("x = 1; from __future__ import annotations\n", 1),
        ("def f():\n    from __future__ import annotations\n", 2),
        ('"""Page."""\n\nfrom __future__ import annotations\n"text"\nfrom __future__ import division\n', 5),
        ("from __future__ import time_travel\n", 1),
    ],
)
def test_a_future_import_that_python_refuses_is_a_syntax_error(text: str, line: int) -> None:
    with pytest.raises(SyntaxError) as refused:
        compile(text, "x.py", "exec", dont_inherit=True)
    source = from_text(text, "x.py")
    assert (source.error_line, source.error) == (refused.value.lineno, f"line {line}: {refused.value.msg}")


@pytest.mark.parametrize(
    "text",
    [
        "from __future__ import annotations, division\nfrom __future__ import generators\nimport os\n",
        '"""Page."""\n# comment\nfrom __future__ import annotations\n',
        "import __future__\nprint('__future__')\n",
    ],
)
def test_future_imports_at_the_beginning_are_none(text: str) -> None:
    compile(text, "x.py", "exec", dont_inherit=True)
    assert from_text(text, "x.py").error is None
