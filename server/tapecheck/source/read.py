"""Reading a file as what its name says it is: Python, or a notebook."""

from __future__ import annotations

from pathlib import Path

from tapecheck.source.cells import SUFFIX
from tapecheck.source.notebook import read_notebook
from tapecheck.source.text import Source, parse_source, read_bytes


def read_source(path: str) -> Source:
    """Read a file of Python, or a notebook as one program; raise SourceError where it cannot be read as that."""
    if Path(path).suffix == SUFFIX:
        return read_notebook(path)
    return parse_source(read_bytes(path), path)
