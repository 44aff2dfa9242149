"""Processes that a program starts: those of multiprocessing's "spawn" are recorded, each on a tape of its own.

A forked process is not: what its parent knows of graphs is no longer true of it. One that trains leaves a note.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
from typing import List, Optional

# Whose processes work for the library itself, or do single pieces of work: data-loader workers, pools, managers.
_WORKERS = ("torch.utils.data.", "multiprocessing.", "concurrent.", "joblib.")
_FORKED = "forked"
# Less is what asking for a compiler's version takes: no training.
_LEAST_SECONDS = 1.0
_START = """\
import importlib.util as u
s = u.spec_from_file_location("_tapecheck_start", %r)
m = u.module_from_spec(s)
s.loader.exec_module(m)
m.child(%r, %r, %r, %r)
"""


class Process:
    """The process that is recorded: its command, and the processes around it that are recorded, too."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.command = ""
        # Where forked processes leave notes; which process started this one.
        self.notes = ""
        self.above = 0
        # Whether the recorder has stopped the garbage collector, for as long as it works.
        self.resting = False

    def is_forked(self) -> bool:
        """Return whether this is a fork of the process that is recorded."""
        return os.getpid() != self.pid

    def called_backward(self) -> None:
        """Leave a note, once, where a forked process calls backward."""
        if self.notes and self.is_forked():
            note_forked(self.notes)
            self.notes = ""

    def end_above(self) -> None:
        """End the process that started this one: it would go on with half of its work."""
        if self.above and self.above == os.getppid():
            os.kill(self.above, signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)


def record_spawned(arguments: List[str], path: str) -> None:
    """Have processes that are spawned from now on recorded; `arguments` are the probe's own, `path` is the script's."""
    from multiprocessing import spawn

    plain, numbers = spawn.get_command_line, itertools.count()
    start = os.path.join(os.path.dirname(os.path.abspath(__file__)), "__main__.py")

    def get_command_line(**words: object) -> List[str]:
        line = plain(**words)
        if "-c" in line and _trains(sys._getframe(1).f_locals.get("process_obj")):
            line[line.index("-c") + 1] = _START % (start, arguments, next(numbers), path, words)
        return line

    spawn.get_command_line = get_command_line


def _trains(process: object) -> bool:
    """Return whether a process may train: it runs a function of the program, or of what starts its ranks."""
    target = getattr(process, "_target", None)
    module = getattr(target, "__module__", None) or type(process).__module__
    return process is not None and not str(module + ".").startswith(_WORKERS)


def tape_of(folder: str, number: int) -> str:
    """Return where the process that was spawned as number `number` writes its tape."""
    return os.path.join(folder, "tape.rank%d" % number)


def note_forked(folder: str) -> None:
    """Leave a note that this forked process has called backward."""
    try:
        file = os.open(os.path.join(folder, _FORKED), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.write(file, b"%d\n" % os.getpid())
        os.close(file)
    except OSError:
        pass


def seconds_elsewhere() -> Optional[float]:
    """Return the CPU seconds of processes that this one started and that are not recorded, as far as they have ended.

    None where there were none that did much. Those of a fork server end after this process: they count as none.
    """
    server = getattr(sys.modules.get("multiprocessing.forkserver"), "_forkserver", None)
    try:
        import resource
    except ImportError:
        seconds = 0.0
    else:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = used.ru_utime + used.ru_stime
    if seconds < _LEAST_SECONDS and getattr(server, "_forkserver_pid", None) is None:
        return None
    return seconds
