"""Worker processes that import nothing from the checked folder, however they are started.

A process started by "spawn" (macOS, Windows) or "forkserver" (Linux from Python 3.14 on) begins as `python -c`, which
looks for the first modules of multiprocessing in its working directory: a `socket.py` there would be executed.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

_NEUTRAL = Path(os.__file__).parent
"""Where the standard library lies: what is found there by the name of one of its modules is that module."""

_SAFE_PATH = "PYTHONSAFEPATH"
_ENDING = (signal.SIGINT, signal.SIGTERM)
_SECONDS_TO_DIE = 5.0
_MOST = 61  # Windows waits for no more processes at once.


@contextlib.contextmanager
def pool(count: int) -> Iterator[ProcessPoolExecutor]:
    """Yield a pool of `count` processes that work in the present directory; submit to it inside `sheltered`."""
    folder = _present()
    with sheltered():
        # Its queues already start a process where start methods other than fork track them.
        executor = ProcessPoolExecutor(min(count, _MOST), initializer=_begin, initargs=(folder,))
    try:
        yield executor
    except BaseException:
        # An interrupt waits for nothing that is queued or running: what was found so far is not reported.
        _end(executor)
        raise
    executor.shutdown()


def _end(executor: ProcessPoolExecutor) -> None:
    """End a pool at once, with the work that it is at."""
    processes = list((executor._processes or {}).values())
    executor.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.kill()
    for process in processes:
        process.join(_SECONDS_TO_DIE)


@contextlib.contextmanager
def sheltered() -> Iterator[None]:
    """Let processes start in a neutral directory, off the working directory's modules and undisturbed by signals."""
    with _undisturbed(), contextlib.nullcontext() if multiprocessing.get_start_method() == "fork" else _neutral():
        yield


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Put off what ends the command while processes start: one that is half started is known to nobody who could end
    it, or says in a traceback that it was interrupted.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {number: signal.signal(number, lambda number, _: came.append(number)) for number in _ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])


@contextlib.contextmanager
def _neutral() -> Iterator[None]:
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


def _begin(folder: str | None) -> None:
    """Begin a worker: Ctrl+C on a terminal reaches all processes, and the first one ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _enter(folder)


def _enter(folder: str | None) -> None:
    if folder is not None:
        os.chdir(folder)
