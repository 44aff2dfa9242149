"""Folders for files that one process needs: gone with it, or, where it was killed, with the next one that makes any."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from types import TracebackType

from tapecheck.record.probe.descriptor import Descriptor

try:
    import fcntl
except ImportError:  # Windows has no flock: what a killed process leaves stays there.
    fcntl = None  # type: ignore[assignment]

_PREFIX = "tapecheck-"
_OWNED = "owned"
"""The file that its owner keeps locked; the system lets go of the lock when the process ends, however it does."""


class Scratch:
    """A new folder `path`, removed by `close`, or where the context is left. Raises OSError where none can be made."""

    def __init__(self) -> None:
        remove_abandoned()
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._lock: Descriptor | None = None
        if fcntl is not None:
            # Locked before it has its name: another process must not find it free in between.
            unnamed = self.path / f"{_OWNED}.new"
            with contextlib.suppress(OSError):
                self._lock = Descriptor(str(unnamed))
                fcntl.flock(self._lock.number(), fcntl.LOCK_EX | fcntl.LOCK_NB)
                unnamed.rename(self.path / _OWNED)

    def close(self) -> None:
        """Remove the folder with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def __enter__(self) -> Path:
        return self.path

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def remove_abandoned() -> None:
    """Remove the folders of this user's processes that were killed."""
    if fcntl is None:
        return
    for owned in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_OWNED}"):
        with contextlib.suppress(OSError):
            handle = os.open(owned, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                if os.fstat(handle).st_uid == os.getuid():
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(owned.parent, ignore_errors=True)
            finally:
                os.close(handle)
