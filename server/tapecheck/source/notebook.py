"""Notebooks as one program: the Python cells in the order of the document, joined.

IPython's magics and shell lines become statements that do nothing, so that lines and columns stay where they are.
What a cell magic hands to another interpreter (`%%bash`) is left out. A cell that does not parse loses its broken
statements and takes nothing away from the cells after it.
"""

from __future__ import annotations

import io
import json
import re
import tokenize
from collections.abc import Iterable, Sequence
from dataclasses import replace

from tapecheck.source.cells import Cell, Cells
from tapecheck.source.recovery import recover
from tapecheck.source.text import Source, SourceError, from_text, read_bytes, require_size, split_lines

MAX_NOTEBOOK_BYTES = 200_000_000
"""Notebooks hold pictures, too: what counts as a large program is asked of their cells."""

_PYTHON = ("", "python", "ipython")
"""The languages of notebooks that are read; one that says none is taken for Python."""
# Magics whose text is Python that runs in the notebook's own namespace.
_PYTHON_MAGICS = "time|timeit|prun|memit|mprun|lprun|debug"
_CELL_MAGIC = re.compile(r"\s*%%(\w*)")
_PYTHON_CELL = re.compile(rf"(?:{_PYTHON_MAGICS}|capture|python3?|pypy)$")
_TIMED = re.compile(rf"(\s*)%(?:{_PYTHON_MAGICS})\s+(?:-[nrp]\s*\d+\s+|-[a-zA-Z]\s+)*(?=\S)")
_LINE_MAGIC = re.compile(r"\s*(?:%|!|\?)|\s*[\w.]+\s*\?{1,2}\s*$")
_ASSIGNED = re.compile(r"(\s*[A-Za-z_][\w.\[\]'\", ]*=\s*)[!%](?!=)\S")


def join(path: str, cells: Iterable[tuple[int, str, str]], before: Source | None = None) -> Source:
    """Return the program of a notebook from its Python cells: number, text and key of each.

    `before` is an earlier state of it: the statements that have not changed share their nodes with that.
    """
    parts: list[Cell] = []
    lines: list[str] = []
    first_error: tuple[str, int, int | None] | None = None
    blanked: set[int] = set()
    for number, text, key in cells:
        own = split_lines(text)
        parts.append(Cell(number, len(lines) + 1, tuple(own), key))
        found = recover(_without_magics(own))
        if found.error is not None and first_error is None:
            first_error = (found.error, len(lines) + (found.error_line or 1), found.error_column)
        blanked.update(len(lines) + row for row in found.blanked)
        lines += found.parsed.lines
    source = from_text("\n".join(lines), path, joined=True, before=before)
    if first_error is not None:
        error, line, column = first_error
        source = replace(source, error=f"line {line}: {error}", error_line=line, error_column=column)
    source.blanked |= blanked
    source.cells = Cells(tuple(parts))
    return source


def read_notebook(path: str) -> Source:
    """Return the program of a notebook file; raises SourceError where it is none or not one of Python."""
    return parse_notebook(read_bytes(path, MAX_NOTEBOOK_BYTES), path)


def parse_notebook(data: bytes, path: str) -> Source:
    """Return the program of a notebook in the JSON of Jupyter, format 4; raises SourceError where it is none."""
    require_size(len(data), path, MAX_NOTEBOOK_BYTES)
    try:
        content = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{path}: not a notebook: {error}") from error
    if not isinstance(content, dict) or not isinstance(content.get("cells"), list):
        old = isinstance(content, dict) and isinstance(content.get("worksheets"), list)
        how = "notebook format 3: convert it with `jupyter nbconvert --to notebook`" if old else "not a notebook"
        raise SourceError(f"{path}: {how}")
    language = _language(content)
    if language not in _PYTHON:
        raise SourceError(f"{path}: a notebook of {language}, not of Python")
    found = [
        (number, _text(cell.get("source")), "")
        for number, cell in enumerate(content["cells"], 1)
        if isinstance(cell, dict) and cell.get("cell_type") == "code" and _cell_language(cell) in ("", "python")
    ]
    require_size(sum(len(text) for _, text, _ in found), path)
    return join(path, found)


def of_another_language(path: str) -> bool:
    """Return whether a file is a notebook that says it is not of Python; False where it cannot be read as one."""
    try:
        data = read_bytes(path, MAX_NOTEBOOK_BYTES)
        # One of Python has that in the name of its kernel: the others alone are parsed for it.
        content = {} if b"python" in data else json.loads(data.decode("utf-8-sig"))
    except (SourceError, ValueError, RecursionError):
        return False
    return isinstance(content, dict) and _language(content) not in _PYTHON


def _text(source: object) -> str:
    if isinstance(source, list):
        return "".join(part for part in source if isinstance(part, str))
    return source if isinstance(source, str) else ""


def _language(content: dict[str, object]) -> str:
    metadata = content.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    for part, name in (("language_info", "name"), ("kernelspec", "language")):
        inner = metadata.get(part)
        if isinstance(inner, dict) and isinstance(inner.get(name), str):
            return str(inner[name]).lower()
    return ""


def _cell_language(cell: dict[str, object]) -> str:
    metadata = cell.get("metadata")
    own = metadata.get("vscode") if isinstance(metadata, dict) else None
    language = own.get("languageId") if isinstance(own, dict) else None
    return language.lower() if isinstance(language, str) else ""


def _without_magics(lines: Sequence[str]) -> list[str]:
    """Return a cell's lines as Python: as many, with columns of what stays Python unmoved."""
    first = next((number for number, line in enumerate(lines) if line.strip()), None)
    if first is None:
        return list(lines)
    plain = list(lines)
    magic = _CELL_MAGIC.match(lines[first])
    if magic is not None:
        if not _PYTHON_CELL.match(magic[1]):
            return [""] * len(lines)
        plain[first] = ""
    if not any(_LINE_MAGIC.match(line) or _ASSIGNED.match(line) for line in plain):
        return plain
    going_on = False
    for number, line in enumerate(plain):
        if going_on:
            # A shell command over several lines.
            plain[number], going_on = "", line.rstrip().endswith("\\")
            continue
        if (_LINE_MAGIC.match(line) or _ASSIGNED.match(line)) and not _continues(plain[:number]):
            plain[number] = _in_place_of(line)
            going_on = line.rstrip().endswith("\\") and not _TIMED.match(line)
    return plain


def _in_place_of(line: str) -> str:
    """Return the Python that stands for a line with a magic or a shell command."""
    indent = line[: len(line) - len(line.lstrip())]
    timed, assigned = _TIMED.match(line), _ASSIGNED.match(line)
    if timed is not None:
        return f"{indent}pass;".ljust(timed.end()) + line[timed.end() :]
    # What IPython makes of it, and nothing that anybody here knows the value of.
    return f"{assigned[1]}get_ipython()" if assigned is not None else f"{indent}pass"


def _continues(before: Sequence[str]) -> bool:
    """Whether a statement is still open after some lines: in brackets, in a text, behind a backslash."""
    if before and before[-1].endswith("\\"):
        return True
    try:
        for _ in tokenize.generate_tokens(io.StringIO("\n".join(before) + "\n").readline):
            pass
    except tokenize.TokenError:
        return True
    except SyntaxError:
        pass
    return False
