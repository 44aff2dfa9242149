"""What the verbs share: exit statuses, usage errors, and how to write to standard output."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TextIO

from tapecheck.report.excerpt import DEFAULT_WIDTH, printable

NOTHING_FOUND, FOUND, FAILED, CUT_SHORT, INTERRUPTED = 0, 1, 2, 3, 130
ANYWHERE = ("--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0")
"""Of the torchrun that `--ranks` starts: its processes meet at a port that is free."""


class UsageError(Exception):
    """The command cannot be carried out as it was given; the message is for the user."""


def colour_wanted(choice: str, *, to_file: bool = False) -> bool:
    """Return whether the report gets colours: `choice` is auto, always or never; NO_COLOR is respected."""
    if choice != "auto" or to_file:
        return choice == "always"
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return bool(os.environ.get("FORCE_COLOR")) or sys.stdout.isatty()


def report_width() -> int:
    """Return the terminal's columns; where output goes elsewhere, a width that fits most code."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else DEFAULT_WIDTH


def write(report: str, stream: TextIO | None = None) -> None:
    """Write to standard output or `stream`; what its encoding cannot say is escaped rather than raised.

    Raises UsageError where it cannot be written (a full disk), BrokenPipeError where the reader has left.
    """
    stream = stream or sys.stdout
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        stream.write(report.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        # What is still buffered would raise once more when Python exits.
        _discard_output()
        raise UsageError(f"cannot write the report: {error.strerror or error}") from error


def say(message: str, *more: str) -> None:
    """Write lines to standard error; what would steer a terminal (in a file's name, say) is replaced."""
    with contextlib.suppress(OSError):
        # The terminal may have been closed.
        print("\n".join(map(printable, (f"tapecheck: {message}", *more))), file=sys.stderr, flush=True)


def _discard_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def deliver(content: str, path: str | None) -> None:
    """Write to a file, or to standard output where none is named."""
    if path is not None:
        write_file(path, content)
    else:
        write(content)


def write_file(path: str, content: str | bytes) -> None:
    """Write a file so that readers see all of it or what was there before; its mode stays as it was.

    Creates folders that are missing. Raises UsageError where it cannot be written.
    """
    data = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
    try:
        if Path(path).exists() and not Path(path).is_file():
            # A device or a pipe cannot be replaced, and a link to a pipe leads to no name.
            Path(path).write_bytes(data)
            return
        target = Path(path).resolve()
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            if target.exists():
                shutil.copymode(target, name)
            else:
                mask = os.umask(0)
                os.umask(mask)
                Path(name).chmod(0o666 & ~mask)
            Path(name).replace(target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from error


def real_path(name: str) -> str:
    """Return a file's absolute name, whatever links and dots lead to it."""
    return os.path.realpath(name)


def reader_left() -> int:
    """Return the exit status once the reader of standard output (a pager, `head`) has left."""
    _discard_output()
    return FOUND
