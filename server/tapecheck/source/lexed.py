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


def code_of(text: str) -> str:
    """Return a text that parses without its comments and what is blank at the ends of its lines; lines stay lines."""
    if _NESTING and _FORMATTED.search(text):
        # Quotes in the braces of a formatted string may be those that it is quoted with.
        return text
    return _UNREAD.sub(lambda found: found.group(1) or "", text)
