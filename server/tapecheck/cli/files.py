"""From the paths on a command line to the files to check."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from tapecheck.report import Checked, Problem
from tapecheck.source.disk import is_folder
from tapecheck.source.files import walk

STDIN = "-"


def find_files(paths: Sequence[str]) -> Iterator[str | Checked]:
    """The Python files and notebooks under the paths, each once, folders in the order of names.

    A file named by itself is taken whatever it is called. Folders that hold no code of the project (hidden
    ones, virtual environments, build outputs) are left out, and links to folders are not followed. A path
    that cannot be read is answered as the entry that says so.
    """
    seen: set[str] = set()
    for path in paths:
        if path == STDIN:
            candidates: Iterator[str | Checked] = iter([path])
        elif is_folder(path):
            candidates = _walk(path)
        else:
            candidates = iter([path])
        for candidate in candidates:
            if isinstance(candidate, Checked):
                yield candidate
                continue
            real = os.path.realpath(candidate) if candidate != STDIN else STDIN
            if real not in seen:
                seen.add(real)
                yield candidate


def _walk(top: str) -> Iterator[str | Checked]:
    broken: list[OSError] = []
    yield from walk(top, broken.append)
    for error in broken:
        yield Checked(str(error.filename), problems=[Problem("io-error", str(error.strerror))])
