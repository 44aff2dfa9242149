"""Comments that switch rules off: where they hold, and the edits that write them."""

from __future__ import annotations

import pytest

from tapecheck.source import from_text, suppressions
from tapecheck.source.suppress import ignore_file, ignore_line

TWICE = "backward-twice"


def hidden(text: str, line: int, code: str = "TAPE101", end_line: int | None = None) -> bool:
    raises = code.startswith("TAPE1")
    return suppressions(from_text(text, "t.py")).hide(code, TWICE, line, end_line or line, raises)


@pytest.mark.parametrize(
    ("comment", "expected"),
    [
        ("# tapecheck: ignore[TAPE101]", True),
        ("#tapecheck:ignore[TAPE101]", True),
        ("# tapecheck: ignore[TAPE301, TAPE101]", True),
        ("# tapecheck: ignore[TAPE1]", True),
        ("# tapecheck: ignore[backward-twice]", True),
        ("# tapecheck: ignore", True),
        ("# why  # tapecheck: ignore[TAPE101]", True),
        ("# tapecheck: ignore[TAPE301]", False),
        ("# tapecheck: ignore[]", False),
        ("# tapecheck: ignored", False),
        ("# tapecheck ignore", False),
    ],
)
def test_what_a_comment_on_the_line_says(comment: str, expected: bool) -> None:
    assert hidden(f"x()\ny()  {comment}\n", 2) is expected
    assert not hidden(f"x()\ny()  {comment}\n", 1)


def test_a_comment_for_the_file() -> None:
    text = "# tapecheck: ignore-file[TAPE101]\nx()\n"
    assert hidden(text, 2)
    assert not hidden(text, 2, "TAPE301")
    assert hidden("x()\n\n# tapecheck: ignore-file\n", 1, "TAPE301")


def test_a_text_is_no_comment() -> None:
    assert not hidden('x("# tapecheck: ignore[TAPE101]")\n', 1)
    assert not hidden('"""\n# tapecheck: ignore-file\n"""\nx()\n', 4)


def test_a_comment_holds_for_the_whole_statement_and_not_for_the_block_below() -> None:
    text = "train(\n    loss.backward(),  # tapecheck: ignore[TAPE101]\n    more,\n)\nx()\n"
    assert hidden(text, 1, end_line=4)
    assert hidden(text, 3)
    assert not hidden(text, 5)
    loop = "for step in range(3):  # tapecheck: ignore[TAPE101]\n    a()\n    b()\n"
    assert hidden(loop, 1)
    assert not hidden(loop, 2)
    assert not hidden("if x:\n    # tapecheck: ignore[TAPE101]\n    a()\n", 1)


def test_comments_hold_while_a_line_is_being_typed() -> None:
    text = "x()  # tapecheck: ignore[TAPE101]\ndef half(\n    'text\ny()  # tapecheck: ignore[TAPE101]\n"
    assert hidden(text, 1)
    assert hidden(text, 4)


def edited(text: str, edit: tuple[int, int, int, str] | None) -> str:
    assert edit is not None
    row, start, end, content = edit
    lines = text.split("\n")
    lines[row - 1] = lines[row - 1][: start - 1] + content + lines[row - 1][end - 1 :]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "line", "end_line", "expected"),
    [
        ("x()\n", 1, 1, "x()  # tapecheck: ignore[TAPE101]\n"),
        ("x()   \n", 1, 1, "x()  # tapecheck: ignore[TAPE101]   \n"),
        ("x()  # why\n", 1, 1, "x()  # why  # tapecheck: ignore[TAPE101]\n"),
        ("x() # tapecheck: ignore[TAPE3]\n", 1, 1, "x() # tapecheck: ignore[TAPE3, TAPE101]\n"),
        ("x() # tapecheck: ignore[]\n", 1, 1, "x() # tapecheck: ignore[TAPE101]\n"),
        ("x(\n  1,\n)\n", 1, 3, "x(\n  1,\n)  # tapecheck: ignore[TAPE101]\n"),
        ("x.y() \\\n  .z()\n", 1, 1, "x.y() \\\n  .z()  # tapecheck: ignore[TAPE101]\n"),
        ('x("""\n""", 1)\n', 1, 1, 'x("""\n""", 1)  # tapecheck: ignore[TAPE101]\n'),
        ('x(f"""{\na}\n""", 1)\n', 1, 1, 'x(f"""{\na}\n""", 1)  # tapecheck: ignore[TAPE101]\n'),
        ("é = '🎉'; x()\n", 1, 1, "é = '🎉'; x()  # tapecheck: ignore[TAPE101]\n"),
    ],
)
def test_the_edit_for_a_line_hides_what_is_there(text: str, line: int, end_line: int, expected: str) -> None:
    after = edited(text, ignore_line(from_text(text, "t.py"), "TAPE101", line, end_line))
    assert after == expected
    assert not hidden(text, line, end_line=end_line)
    assert hidden(after, line, end_line=end_line)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x()\n", "# tapecheck: ignore-file[TAPE101]\nx()\n"),
        ("", "# tapecheck: ignore-file[TAPE101]\n"),
        ('"""What it does."""\n', '# tapecheck: ignore-file[TAPE101]\n"""What it does."""\n'),
        (
            "#!/usr/bin/env python\n# -*- coding: utf-8 -*-\nx()\n",
            "#!/usr/bin/env python\n# -*- coding: utf-8 -*-\n# tapecheck: ignore-file[TAPE101]\nx()\n",
        ),
        ("# tapecheck: ignore-file[TAPE3]\nx()\n", "# tapecheck: ignore-file[TAPE3, TAPE101]\nx()\n"),
        ("x()  # tapecheck: ignore\n", "# tapecheck: ignore-file[TAPE101]\nx()  # tapecheck: ignore\n"),
    ],
)
def test_the_edit_for_a_file(text: str, expected: str) -> None:
    after = edited(text, ignore_file(from_text(text, "t.py"), "TAPE101"))
    assert after == expected
    assert hidden(after, after.count("\n"))
