"""Notebooks as one program: magics, broken cells, and the way back to the cells."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tapecheck.source import SourceError, read_source
from tapecheck.source.cells import split_cell
from tapecheck.source.notebook import join, parse_notebook
from tapecheck.tape import Span


def program(*cells: str) -> list[str]:
    source = join("n.ipynb", [(number, text, "") for number, text in enumerate(cells, 1)])
    assert source.error is None
    return source.lines


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("%matplotlib inline\nx = 1", ["pass", "x = 1"]),
        ("!pip install torch \\\n  numpy\nx = 1", ["pass", "", "x = 1"]),
        ("?x\nx??\nx.y?\ny = 1", ["pass", "pass", "pass", "y = 1"]),
        ("if a:\n    %run other.py\n    !ls", ["if a:", "    pass", "    pass"]),
        ("files = !ls *.py\na[0] = %time x", ["files = get_ipython()", "a[0] = get_ipython()"]),
        ("%time loss.backward()", ["pass; loss.backward()"]),
        ("    %timeit -n 10 -r3 -q f()\n", ["    pass;                f()", ""]),
        ("%%time\nx = 1", ["", "x = 1"]),
        ("\n%%capture out\nx = 1", ["", "", "x = 1"]),
        ("%%bash\nfor i in *; do echo $i; done", ["", ""]),
        ("%%writefile train.py\nimport torch", ["", ""]),
        ("x = (a\n     % b)\ny = a \\\n% b", ["x = (a", "     % b)", "y = a \\", "% b"]),
        ('text = """\n%time\n!ls\n"""', ['text = """', "%time", "!ls", '"""']),
        ("x = a != b", ["x = a != b"]),
        ("# !ls\nx = y %z", ["# !ls", "x = y %z"]),
        ("await f()", ["await f()"]),
        ("", [""]),
    ],
)
def test_magics_become_statements_that_do_nothing(cell: str, expected: list[str]) -> None:
    if cell.startswith("    "):
        cell, expected = "if x:\n" + cell, ["if x:", *expected]
    assert program(cell) == expected


def test_a_broken_cell_takes_nothing_from_the_next_ones() -> None:
    source = join("n.ipynb", [(1, "x = 1", ""), (4, "y = (1,\nz = 2", ""), (5, "w = 3\n'''", ""), (6, "v = 4", "")])
    assert source.error is not None and source.error.startswith("line 2: ")
    assert {"x = 1", "w = 3", "v = 4"} <= set(source.lines)
    assert source.blanked


def test_places_are_those_of_the_cells() -> None:
    cells = join("n.ipynb", [(2, "a\nbc", "one"), (3, "d", "two"), (7, "é\nf\n", "three")]).cells
    assert cells is not None
    cell, span = cells.within(Span("n.ipynb", 5, 1, 5, 2))
    assert (cell.key, span) == ("three", Span("n.ipynb:cell 7", 2, 1, 2, 2))
    assert cells.within(Span("n.ipynb", 2, 1, 3, 1))[1] == Span("n.ipynb:cell 2", 2, 1, 2, 3)
    assert not cells.crosses(Span("n.ipynb", 2, 1, 3, 1)), "up to the end of the cell"
    assert cells.crosses(Span("n.ipynb", 2, 1, 3, 2))
    assert split_cell(span.file) == ("n.ipynb", 7)
    assert split_cell("odd:cell 7") == ("odd:cell 7", None)


def test_messages_speak_of_cells() -> None:
    cells = join("n.ipynb", [(2, "a\nb", ""), (3, "c\nd", "")]).cells
    assert cells is not None
    assert cells.words("built on line 2, freed on line 3") == "built on line 2 of cell 2, freed on line 1 of cell 3"
    assert cells.words("lines 1–2 and lines 2–4") == "lines 1–2 of cell 2 and line 2 of cell 2 to line 2 of cell 3"
    assert cells.words("`print('line 3')` and other.py:3") == "`print('line 3')` and other.py:3"


def notebook(*cells: dict[str, object], **more: object) -> bytes:
    return json.dumps({"nbformat": 4, "metadata": {}, "cells": list(cells)} | more).encode()


def test_only_python_cells_are_read(tmp_path: Path) -> None:
    file = tmp_path / "n.ipynb"
    file.write_bytes(
        notebook(
            {"cell_type": "markdown", "source": ["# x = 1"]},
            {"cell_type": "code", "source": ["a = 1\n", "b = 2"]},
            {"cell_type": "code", "source": "c = 3", "metadata": {"vscode": {"languageId": "shellscript"}}},
            {"cell_type": "code", "source": "d = 4\n", "metadata": {"vscode": {"languageId": "python"}}},
            {"cell_type": "code"},
        )
    )
    source = read_source(str(file))
    assert source.lines == ["a = 1", "b = 2", "d = 4", "", ""]
    assert source.cells is not None
    assert [cell.number for cell in source.cells.parts] == [2, 4, 5]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{", "not a notebook"),
        (b"[]", "not a notebook"),
        (b"\xff\xfe", "not a notebook"),
        (json.dumps({"worksheets": []}).encode(), "nbconvert"),
        (notebook(metadata={"kernelspec": {"language": "R"}}), "of r, not of Python"),
        (notebook({"cell_type": "code", "source": "x" * 5_000_000}), "larger than 4 MB"),
    ],
)
def test_what_is_no_python_notebook_is_said(data: bytes, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        parse_notebook(data, "n.ipynb")


def test_an_empty_notebook_has_no_program() -> None:
    source = parse_notebook(notebook(), "n.ipynb")
    assert source.tree.body == [] and source.cells is not None
    assert source.cells.words("line 1") == "line 1"
