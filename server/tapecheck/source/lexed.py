"""What Python reads of a text, told by its strings, comments and brackets alone."""

from __future__ import annotations

import re
import sys

_STRING = (
    r'"""(?:[^\\]|\\.)*?"""|' + r"'''(?:[^\\]|\\.)*?'''"
    r'|"(?!"")(?:[^\\\n"]|\\.)*"|' + r"'(?!'')(?:[^\\\n']|\\.)*'"
)
_PARTS = re.compile(rf"#[^\n]*|{_STRING}|[()\[\]{{}}\"']", re.DOTALL)
_UNREAD = re.compile(rf"({_STRING})|[ \t]*(?:#[^\n]*)?(?=\n|\Z)", re.DOTALL)
_NESTING = sys.version_info >= (3, 12)
_FORMATTED = re.compile(r"(?i)\b(?:f|rf|fr|t|rt|tr)[\"']")
_OVER_LINES = re.compile(r"\"\"\"|'''|\\\n")
_CLOSES = {")": "(", "]": "[", "}": "{"}


def closed(text: str) -> bool:
    """Return whether every bracket and string that begins in a text ends in it."""
    opened: list[str] = []
    for found in _PARTS.finditer(text):
        one = found.group()
        if len(one) > 1:
            continue
        if one in "\"'" or (one in _CLOSES and (not opened or opened.pop() != _CLOSES[one])):
            return False
        if one in "([{":
            opened.append(one)
    return not opened


def code_lines(text: str) -> tuple[str, tuple[int, ...]]:
    """Return the lines of a text that parses which Python reads anything of, and their numbers in it, from 0.

    Texts have the same lines where nothing but comments, blank lines and blanks at the ends of lines tells them apart.
    """
    if _NESTING and _FORMATTED.search(text):
        # Quotes in the braces of a formatted string may be those that it is quoted with.
        if _OVER_LINES.search(text):
            return text, tuple(range(text.count("\n") + 1))
        # Every string ends on its line: a line that begins with a comment is in none.
        told = ["" if line.lstrip().startswith("#") else line.rstrip() for line in text.split("\n")]
    else:
        # A line in a string is marked, so that it is not blank.
        told = _UNREAD.sub(lambda found: (found.group(1) or "").replace("\n", "\n\0"), text).split("\n")
    # A blank line ends what a backslash goes on with.
    read = [row for row, line in enumerate(told) if line or (row and told[row - 1].endswith("\\"))]
    return "\n".join([told[row] for row in read]), tuple(read)
