"""An open file that a program cannot come by: under a high number, and known again by its device and inode."""

from __future__ import annotations

import os
from typing import Optional, Tuple

try:
    import fcntl
    import resource
except ImportError:  # Windows: files have the numbers they get.
    fcntl = resource = None  # type: ignore[assignment]

_HIGHEST, _BELOW = 4096, 32
_BINARY = getattr(os, "O_BINARY", 0)


class Descriptor:
    """A file for reading and writing, made anew. Raises OSError where it cannot be opened.

    A program may close its number (`os.closerange`) and have another file under it since: each use asks whether the
    number still is this file's, and opens the file again where it is not. No other file is written, cut or closed.
    """

    def __init__(self, path: str) -> None:
        # The program may change its working directory.
        self.path = os.path.abspath(path)
        self._number = _high(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | _BINARY, 0o644))
        self._identity: Optional[Tuple[int, int]] = _identity(self._number)

    @property
    def closed(self) -> bool:
        return self._identity is None

    def number(self) -> int:
        """Return the number of the open file; raises OSError where it was lost and cannot be opened again."""
        if self._is_own():
            return self._number
        if self._identity is None:
            raise OSError("the file is closed")
        number = os.open(self.path, os.O_RDWR | _BINARY)
        if _identity(number) != self._identity:
            os.close(number)
            raise OSError("%s is another file by now" % self.path)
        self._number = _high(number)
        os.lseek(self._number, 0, os.SEEK_END)
        return self._number

    def write(self, data: bytes) -> None:
        """Append all of `data`; raises OSError, and some of it may be written then."""
        view = memoryview(data)
        while view:
            view = view[os.write(self.number(), view) :]

    def cut(self, size: int) -> None:
        """Cut the file to its first `size` bytes."""
        number = self.number()
        os.ftruncate(number, size)
        os.lseek(number, size, os.SEEK_SET)

    def read(self, start: int, size: int) -> bytes:
        """Return up to `size` bytes from `start` on; what is written next goes to the end."""
        number = self.number()
        os.lseek(number, start, os.SEEK_SET)
        parts = []
        while size > 0:
            part = os.read(number, size)
            if not part:
                break
            parts.append(part)
            size -= len(part)
        os.lseek(number, 0, os.SEEK_END)
        return b"".join(parts)

    def close(self) -> None:
        """Close the file; its number is left alone where it is another file's by now."""
        own = self._is_own()
        self._identity = None
        if own:
            os.close(self._number)

    def _is_own(self) -> bool:
        try:
            return self._identity is not None and _identity(self._number) == self._identity
        except OSError:
            return False


def _identity(number: int) -> Tuple[int, int]:
    found = os.fstat(number)
    return found.st_dev, found.st_ino


def _high(number: int) -> int:
    """Move an open file to a number that no other file gets: files get the lowest that is free."""
    if fcntl is None:
        return number
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _HIGHEST if most == resource.RLIM_INFINITY else min(most, _HIGHEST)
    try:
        moved = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, max(most - _BELOW, number))
    except OSError:
        return number
    os.close(number)
    return moved
