"""A rule's page: one Markdown file beside it, whose text and programs `explain`, the site and the tests use."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

INVALID, VALID = "## Programs with this finding", "## Programs without"
_TITLE, _BEGIN, _END = "### ", "```python\n", "\n```"
_RAISES = re.compile(r"(With CUDA graphs )?PyTorch raises on line (\d+)(, which is told as possible)?: `(.+)`")


@dataclass(frozen=True, slots=True)
class Example:
    """A whole runnable program for a rule's page and tests.

    `line` is the line (from 1) that carries the finding, None for a valid program. `raises` is the start of
    the message that real torch raises, None where the program runs to its end. `possible` says that the finding is
    a possible one: PyTorch only raises in CUDA graphs, or the page says so.
    """

    title: str
    program: str
    line: int | None = None
    raises: str | None = None
    possible: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """The parts of a page: the text, the programs that the rule reports, and those that it does not."""

    text: str
    invalid: tuple[Example, ...]
    valid: tuple[Example, ...]


def parsed(markdown: str, code: str) -> Page:
    """Return the parts of a rule's page; raises ValueError where it is not written as its programs must be.

    After the text come the sections `INVALID` and `VALID` with a heading of their own for each program. `# TAPE101` at
    the end of a line is no part of the program: the rule reports that line. The exception that PyTorch raises there
    follows the program.
    """
    text, found, rest = markdown.partition(f"\n{INVALID}\n")
    invalid, separated, valid = rest.partition(f"\n{VALID}\n")
    if not (found and separated):
        raise ValueError(f"the page of {code} lacks {INVALID!r} or, after it, {VALID!r}")
    page = Page(text.strip("\n"), tuple(_examples(invalid, code)), tuple(_examples(valid, code)))
    if any(one.line is None for one in page.invalid) or any(one.line is not None for one in page.valid):
        raise ValueError(f"# {code} belongs on one line of each program under {INVALID!r}, and on no other")
    return page


def _examples(section: str, code: str) -> Iterator[Example]:
    before, *parts = section.split(f"\n{_TITLE}")
    if before.strip():
        raise ValueError(f"the page of {code} has text before its first program: {before.strip()!r}")
    for part in parts:
        title, _, rest = part.partition("\n")
        fenced, closed, after = rest.strip("\n").partition(_END)
        if not fenced.startswith(_BEGIN) or not closed:
            raise ValueError(f"the page of {code} has no program under {title!r}")
        lines = fenced.removeprefix(_BEGIN).split("\n")
        marks = [number for number, line in enumerate(lines, 1) if line.endswith(f"  # {code}")]
        raised = _RAISES.fullmatch(after.strip("\n"))
        if len(marks) > 1 or (after.strip("\n") and (raised is None or [int(raised[2])] != marks)):
            raise ValueError(f"{title!r} on the page of {code} names no one line, or says something else below it")
        program = "\n".join(line.removesuffix(f"  # {code}") for line in lines) + "\n"
        replayed, _, told, message = raised.groups() if raised is not None else (None, None, None, None)
        yield Example(title, program, marks[0] if marks else None, message, bool(replayed or told))
