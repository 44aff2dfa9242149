"""Looking at files of strangers: what may not be looked at is not there, and nothing but a regular file is read."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def is_file(path: str | Path) -> bool:
    """Return whether a regular file, or a link to one, lies there; False where that may not be asked."""
    return os.path.isfile(path)  # noqa: PTH113 - pathlib raises where a folder may not be entered


def is_folder(path: str | Path) -> bool:
    """Return whether a folder, or a link to one, lies there; False where that may not be asked."""
    return os.path.isdir(path)  # noqa: PTH112


def exists(path: str | Path) -> bool:
    """Return whether anything lies there; False where that may not be asked."""
    return os.path.exists(path)  # noqa: PTH110


def read_regular(path: str | Path, most: int) -> bytes:
    """Return the contents of a regular file, at most `most` + 1 bytes of them.

    Raises OSError where it cannot be read, and for what is no regular file: a FIFO or a device would be waited for, or
    be read for ever.
    """
    _refuse_others(os.stat(path))  # noqa: PTH116
    # Not to wait even where it becomes a FIFO in between.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
    with open(os.open(path, flags), "rb") as file:  # noqa: PTH123
        _refuse_others(os.fstat(file.fileno()))
        return file.read(most + 1)


def _refuse_others(found: os.stat_result) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "not a regular file")
