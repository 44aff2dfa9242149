"""The Python files and notebooks of a folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from tapecheck.source.disk import exists
from tapecheck.source.notebook import SUFFIX

SKIPPED = frozenset(
    {"__pycache__", "__pypackages__", "_build", "build", "dist", "node_modules", "site-packages", "venv"}
)


def walk(top: str, on_error: Callable[[OSError], object] | None = None) -> Iterator[str]:
    """The Python files and notebooks under a folder, in the order of names.

    Folders that hold no code of the project (hidden ones, virtual environments, build outputs) are left out, and
    links to folders are not followed. Folders that cannot be read are told to `on_error`.
    """
    waiting = [top]
    while waiting:
        folder = waiting.pop()
        below: list[str] = []
        names: list[str] = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if not _is_folder(entry):
                        names.append(entry.name)
                    elif not entry.is_symlink():
                        below.append(entry.name)
        except OSError as error:
            if on_error is not None:
                on_error(error)
        for name in sorted(names):
            if name.endswith((".py", SUFFIX)):
                # Joined as text: pathlib would drop a leading "./" that the user wrote.
                yield os.path.join(folder, name)  # noqa: PTH118
        # The first one last: it is the next to be taken.
        for name in sorted(below, reverse=True):
            if holds_code(Path(folder, name)):
                waiting.append(os.path.join(folder, name))  # noqa: PTH118


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def holds_code(folder: Path) -> bool:
    """Whether a folder may hold code of the project: it is not hidden, no environment, no build output."""
    if folder.name.startswith(".") or folder.name in SKIPPED:
        return False
    return not exists(folder / "pyvenv.cfg")
