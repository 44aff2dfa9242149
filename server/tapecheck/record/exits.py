"""Which processes of a launcher ended first: the others may only have followed."""

from __future__ import annotations

import contextlib
import os
import selectors
import threading
from collections.abc import Iterator
from pathlib import Path

_BEGIN_SECONDS, _POLL_SECONDS = 0.2, 0.01


class Exits:
    """Follows the processes that left their numbers beside their tapes; `order` are the ranks in which they ended.

    A launcher ends the others within a tenth of a second: where the system tells of the end of a process, that is
    waited for.
    """

    def __init__(self, tape: Path) -> None:
        self.tape = tape
        self.order: list[int] = []
        self._running: dict[int, int] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    @contextlib.contextmanager
    def followed(self) -> Iterator[None]:
        """Follow them in a thread."""
        self._thread.start()
        try:
            yield
        finally:
            self._over.set()
            self._thread.join()

    def _follow(self) -> None:
        told = hasattr(os, "pidfd_open")
        with selectors.DefaultSelector() as waiting:
            opened: dict[int, int] = {}
            try:
                while not self._over.is_set():
                    for rank in self._begun():
                        with contextlib.suppress(OSError):
                            opened[rank] = _opened(self._running[rank])
                            waiting.register(opened[rank], selectors.EVENT_READ, rank)
                    if told and len(opened) == len(self._running) > 0:
                        waiting.select(_BEGIN_SECONDS)
                    else:
                        self._over.wait(_POLL_SECONDS if self._running else _BEGIN_SECONDS)
                    for rank in self._ended():
                        if rank in opened:
                            waiting.unregister(opened[rank])
                            os.close(opened.pop(rank))
            finally:
                for number in opened.values():
                    os.close(number)

    def _begun(self) -> list[int]:
        """Return the ranks whose processes have begun since the last look."""
        begun = []
        for path in self.tape.parent.glob(f"{self.tape.name}.rank*.pid"):
            rank = path.name.removeprefix(f"{self.tape.name}.rank").removesuffix(".pid")
            if not rank.isdigit() or int(rank) in self._running or int(rank) in self.order:
                continue
            # It may just be being written.
            with contextlib.suppress(OSError, ValueError):
                self._running[int(rank)] = int(path.read_text())
                begun.append(int(rank))
        return begun

    def _ended(self) -> list[int]:
        """Return the ranks whose processes have ended since the last look."""
        ended = [rank for rank, process in self._running.items() if not _runs(process)]
        for rank in ended:
            del self._running[rank]
        self.order += ended
        return ended


def _opened(process: int) -> int:
    """Return a descriptor that can be read once a process has ended; raises OSError."""
    if not hasattr(os, "pidfd_open"):
        raise OSError
    return os.pidfd_open(process)


def _runs(process: int) -> bool:
    """Return whether a process runs: one that has ended, and was not waited for yet, does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (OSError, IndexError):
        if Path("/proc/self/stat").exists():
            return False
    try:
        if os.name != "nt":
            os.kill(process, 0)
    except OSError:
        return False
    return True
