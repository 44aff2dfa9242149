"""From the paths on a command line to the files to check."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from tapecheck.report import Checked, Problem
from tapecheck.source.cells import SUFFIX
from tapecheck.source.disk import is_folder
from tapecheck.source.files import Choice, left_out, walk
from tapecheck.source.notebook import of_another_language
from tapecheck.source.project import Projects

STDIN = "-"


def find_files(
    paths: Sequence[str], choice: Choice | None = None, projects: Projects | None = None
) -> Iterator[str | Checked]:
    """Yield the Python files and notebooks under the paths, each once, folders in the order of names.

    A file named by itself is taken whatever it is called, unless excluded files are to be left out even then. What is
    left out of folders is said in `walk`, and so are notebooks of other languages. A path that cannot be read yields
    the entry that says so.
    """
    choice = choice or Choice()
    seen: set[str] = set()
    for path in paths:
        if path == STDIN:
            candidates: Iterator[str | Checked] = iter([path])
        elif is_folder(path):
            candidates = _walk(path, choice, projects)
        else:
            candidates = iter([] if left_out(path, choice, projects) else [path])
        for candidate in candidates:
            if isinstance(candidate, Checked):
                yield candidate
                continue
            real = os.path.realpath(candidate) if candidate != STDIN else STDIN
            if real not in seen:
                seen.add(real)
                yield candidate


def _walk(top: str, choice: Choice, projects: Projects | None) -> Iterator[str | Checked]:
    """Yield what is in a folder, named as imports name it: without a leading `./`."""
    broken: list[OSError] = []
    here = f".{os.sep}"
    for path in walk(top, broken.append, choice, projects):
        if not (path.endswith(SUFFIX) and of_another_language(path)):
            yield path.removeprefix(here)
    for error in broken:
        yield Checked(str(error.filename).removeprefix(here), problems=[Problem("io-error", str(error.strerror))])
