"""A text that is parsed with an earlier state of it comes to what it comes to without."""

from __future__ import annotations

import ast
import random
from pathlib import Path

import pytest

from tapecheck.source import Source, from_text, incremental

PROGRAMS = sorted((Path(__file__).parents[1] / "cases" / "programs").glob("*.py"))
PIECES = [
    "x", " ", "\n", "    ", "\n    ", "(", ")", "[", "]", "{", "}", ":", "=", "'", '"', '"""', "'''", "#", "\\", "\\\n",
    "@", "@a\n", "def f():\n", "    pass\n", "else:\n", "    else:\n", "try:\n", "except:\n", "if x:\n", "class A:\n",
    ";", "return", "\t", "\f", "f'{", "lambda", "async ", "match x:\n", "    case 1:\n",
    "from __future__ import annotations\n",
    "\u00a0", "\0", "0", "x = 1\n", "\nx = [\n", "# (\n", "'(' ", "not", "\r\n",
]  # fmt: skip


def told(source: Source) -> tuple[object, ...]:
    assert source.parsed is not None
    tree = ast.dump(source.tree, include_attributes=True)
    return tree, source.error, source.error_line, source.blanked, source.parsed.lines


def edited(text: str, choose: random.Random) -> str:
    at = choose.randrange(len(text) + 1)
    if choose.random() < 0.4:
        return text[:at] + text[at + choose.choice((1, 1, 1, 5, 40, 300)) :]
    return text[:at] + choose.choice(PIECES) + text[at:]


@pytest.mark.parametrize("path", random.Random(5).sample(PROGRAMS, 24), ids=lambda path: path.stem)
def test_whatever_is_edited_the_tree_is_that_of_the_whole_text(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incremental, "_LEAST", 0)
    choose = random.Random(path.stem)
    whole = path.read_text()
    source = from_text(whole, path.name)
    text = whole
    for turn in range(60):
        # Errors add up; the next edits are of a program again.
        text = edited(whole if turn % 6 == 0 else text, choose)
        source = from_text(text, path.name, before=source)
        assert told(source) == told(from_text(text, path.name)), f"turn {turn}: {text!r}"


def test_statements_below_an_edit_are_known_again() -> None:
    choose = random.Random(6)
    some = 0
    for path in choose.sample(PROGRAMS, 12):
        whole = path.read_text()
        source = from_text(whole, path.name)
        for _ in range(40):
            after = from_text(edited(whole, choose), path.name)
            assert source.parsed is not None and after.parsed is not None
            for old, new in incremental.moved(source.parsed, after.parsed):
                assert ast.dump(old) == ast.dump(new) and old.col_offset == new.col_offset
                some += 1
    assert some > 200


def test_what_stands_around_an_edit_keeps_its_nodes() -> None:
    text = "\n".join(f"def f{number}():\n    return {number}\n" for number in range(40))
    source = from_text(text, "a.py")
    after = from_text(text.replace("return 20", "return 21"), "a.py", before=source)
    assert [a is b for a, b in zip(source.tree.body, after.tree.body, strict=True)].count(False) <= 2
    typing = from_text(text.replace("return 20", "return 2 +"), "a.py", before=after)
    assert [a is b for a, b in zip(source.tree.body, typing.tree.body, strict=True)].count(False) <= 2
    longer = from_text(text.replace("return 20", "x = 1\n    return 20"), "a.py", before=typing)
    assert [a is b for a, b in zip(source.tree.body, longer.tree.body, strict=True)].count(True) >= 18


@pytest.mark.parametrize(
    "before, after",
    [
        ("x = 1", "x = (1"),
        ("x = 1", "x = 1)"),
        ("x = 1", "'''"),
        ("x = 1", "x = 1 + \\"),
        ("x = 1", "@decorator"),
        ("x = 1", "try:\n    x = 1"),
        ("x = 1", "if x:"),
        ("x = 1", "if x:\n    pass"),
        ("x = 1", "  x = 1"),
        ("x = 1", "from __future__ import division"),
        ("x = 1", "else:"),
        ("x = 1", "for y in x: pass\nelse:"),
    ],
)
@pytest.mark.parametrize(
    "below", ["y = 2", "else = 3", "def f():\n    pass", "if y:\n    pass\nelse:\n    pass", "(y)", ""]
)
def test_edges_of_the_statements_that_are_kept(before: str, after: str, below: str) -> None:
    def text(middle: str) -> str:
        return "".join(f"a{number} = {number}\n" for number in range(50)) + f"{middle}\n{below}\nz = 3\n"

    source = from_text(text(before), "a.py")
    assert told(from_text(text(after), "a.py", before=source)) == told(from_text(text(after), "a.py"))
