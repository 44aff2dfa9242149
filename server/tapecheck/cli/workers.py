"""Worker processes that import nothing from the checked folder, however they are started.

A process started by "spawn" (macOS, Windows) or "forkserver" (Linux from Python 3.14 on) begins as `python -c`, which
looks for the first modules of multiprocessing in its working directory: a `socket.py` there would be executed.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

_NEUTRAL = Path(os.__file__).parent
"""Where the standard library lies: what is found there by the name of one of its modules is that module."""

_SAFE_PATH = "PYTHONSAFEPATH"
_MOST = 61  # Windows waits for no more processes at once.


@contextlib.contextmanager
def pool(count: int) -> Iterator[ProcessPoolExecutor]:
    """Yield a pool of `count` processes that work in the present directory; submit to it inside `sheltered`."""
    folder = _present()
    with sheltered():
        # Its queues already start a process where start methods other than fork track them.
        executor = ProcessPoolExecutor(min(count, _MOST), initializer=_enter, initargs=(folder,))
    with executor:
        yield executor


@contextlib.contextmanager
def sheltered() -> Iterator[None]:
    """Let processes start in a neutral directory and off the working directory's modules."""
    if multiprocessing.get_start_method() == "fork":
        yield
        return
    folder, safe = _present(), os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    if folder is not None:
        os.chdir(_NEUTRAL)
    try:
        yield
    finally:
        _enter(folder)
        if safe is None:
            del os.environ[_SAFE_PATH]
        else:
            os.environ[_SAFE_PATH] = safe


def _present() -> str | None:
    """Return the working directory; None where it is gone or could not be entered again."""
    try:
        folder = os.getcwd()  # noqa: PTH109
        os.chdir(folder)
    except OSError:
        return None
    return folder


def _enter(folder: str | None) -> None:
    if folder is not None:
        os.chdir(folder)
