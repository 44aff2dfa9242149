"""`tapecheck check --watch`: the report again whenever a file of the project changes."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tapecheck.cli.check import check_paths
from tapecheck.cli.files import STDIN
from tapecheck.cli.shared import UsageError, say
from tapecheck.source.configuration import FILE, OWN_FILE

if TYPE_CHECKING:
    from watchfiles import Change

_ENDS = (".py", ".ipynb", FILE, OWN_FILE, ".gitignore")


def watch_paths(options: argparse.Namespace) -> int:
    """Check what the command line names, again and again until Ctrl+C; raises UsageError without watchfiles."""
    try:
        from watchfiles import watch
    except ImportError as error:
        raise UsageError("--watch needs the package watchfiles: pip install watchfiles") from error
    if STDIN in options.paths:
        raise UsageError("standard input cannot be watched")
    if options.output_file is None and sys.stdout.isatty():
        _clear()
    _check(options)
    for _ in watch(*_places(options.paths), watch_filter=_concerns, debounce=200, raise_interrupt=True):
        if options.output_file is None and sys.stdout.isatty():
            _clear()
        _check(options)
    return 0


def _check(options: argparse.Namespace) -> None:
    try:
        check_paths(options)
    except UsageError as error:
        # An edit in progress may leave a baseline or a configuration that cannot be read.
        say(str(error))
    say(f"{time.strftime('%H:%M:%S')}: waiting for changes (Ctrl+C ends it)")


def _places(paths: list[str]) -> list[str]:
    """Return the folders to watch: those of the paths, since editors replace files by new ones."""
    found = {str(Path(path).absolute() if Path(path).is_dir() else Path(path).absolute().parent) for path in paths}
    return sorted(folder for folder in found if Path(folder).is_dir())


def _concerns(_: Change, path: str) -> bool:
    return path.endswith(_ENDS) and "/.git/" not in path


def _clear() -> None:
    print("\x1b[2J\x1b[H", end="", flush=True)
