"""Results of `check` on disk: used again as long as nothing that they were worked out from has changed.

An entry is found by the file's path and by what was asked of it, and holds for the text of the file, the configuration,
this version of Tapecheck, the modules that its imports led to and their texts. Entries lie in the user's own cache
folder, never in the folder that is checked, and are read without executing anything.
"""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tapecheck import version
from tapecheck.report import Checked
from tapecheck.source import Source
from tapecheck.source.modules import SOURCES, Modules, Question
from tapecheck.source.project import Project
from tapecheck.source.search import Found, torch_of
from tapecheck.torchfacts.versions import several

if TYPE_CHECKING:
    from tapecheck.check import Report

FOLDER = "TAPECHECK_CACHE_DIR"
"""The environment variable that names the folder."""
_MOST_ENTRIES = 20_000
_ROOMS = ("tapecheck.fixes.", "tapecheck.report.", "tapecheck.rules.", "tapecheck.source.", "tapecheck.tape.")
_PLAIN = frozenset(("builtins.frozenset", "builtins.set", "builtins.complex", "builtins.range"))


def default_folder() -> str | None:
    """Return the folder of the cache; None where there is no place for one."""
    named = os.environ.get(FOLDER)
    if named:
        return named
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
    else:
        base = os.environ.get("XDG_CACHE_HOME")
        home = os.environ.get("HOME")
        if not base and home:
            base = str(Path(home) / ("Library/Caches" if sys.platform == "darwin" else ".cache"))
    return str(Path(base) / "tapecheck") if base else None


@dataclass(frozen=True, slots=True)
class Entry:
    """One result, with the answers that its imports got and digests of the texts that were read."""

    text: str
    imports: tuple[tuple[Question, Found | None], ...]
    texts: tuple[tuple[str, str], ...]
    checked: Checked


def load(folder: str, source: Source, asked: object, project: Project) -> Checked | None:
    """Return the result for a file, None where there is none that still holds."""
    try:
        entry = _read(_place(folder, source, asked, project))
    except (OSError, pickle.UnpicklingError, EOFError, AttributeError, ValueError, TypeError, IndexError, KeyError):
        # Written by another version, or cut off by a full disk.
        return None
    if not isinstance(entry, Entry) or entry.text != _digest(source.text):
        return None
    modules = Modules(source.path, SOURCES, project)
    if any(modules.ask(question) != found for question, found in entry.imports):
        return None
    return entry.checked if all(_digest_of(modules, path) == digest for path, digest in entry.texts) else None


def save(folder: str, source: Source, asked: object, report: Report, checked: Checked) -> None:
    """Keep a result; where that fails (a full disk, a folder that may not be written) there is none next time."""
    interpretation = report.interpretation
    texts = tuple((path, _digest(text) if text is not None else "") for path, text in interpretation.read.items())
    entry = Entry(_digest(source.text), tuple(interpretation.imports.items()), texts, checked)
    place = _place(folder, source, asked, report.project)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        number, name = tempfile.mkstemp(dir=place.parent)
        try:
            with os.fdopen(number, "wb") as file:
                pickle.dump(entry, file, protocol=5)
            Path(name).replace(place)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except (OSError, pickle.PicklingError, RecursionError):
        return


def prune(folder: str) -> None:
    """Delete the oldest half of the entries where they have become too many."""
    try:
        entries = [entry for entry in Path(folder).glob("*/*") if entry.is_file()]
        if len(entries) <= _MOST_ENTRIES:
            return
        entries.sort(key=lambda entry: entry.stat().st_mtime)
        for entry in entries[: len(entries) // 2]:
            entry.unlink(missing_ok=True)
    except OSError:
        return


class _Reader(pickle.Unpickler):
    """Reads data classes of our own and nothing else: a file in a cache must not be able to call anything."""

    def find_class(self, module: str, name: str) -> object:
        if f"{module}.{name}" in _PLAIN:
            return super().find_class(module, name)
        if "." not in name and (module == __name__ or f"{module}.".startswith(_ROOMS)):
            found = super().find_class(module, name)
            if isinstance(found, type) and found.__module__ == module and hasattr(found, "__dataclass_fields__"):
                return found
        raise pickle.UnpicklingError(f"{module}.{name} does not belong into a cache")


def _read(place: Path) -> object:
    return _Reader(io.BytesIO(place.read_bytes())).load()


def _place(folder: str, source: Source, asked: object, project: Project) -> Path:
    torch = torch_of(project) if several() else None
    name = _digest(repr((_version(), str(Path(source.path).absolute()), source.path, asked, project, torch)))
    return Path(folder) / name[:2] / name[2:]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def _digest_of(modules: Modules, path: str) -> str:
    source = modules.source(path)
    return _digest(source.text) if source is not None else ""


@cache
def _version() -> str:
    """Return what this version of Tapecheck is: every file of the package by its size and time of modification."""
    root = Path(version.__file__).parent
    files = sorted(path for pattern in ("**/*.py", "**/*.json") for path in root.glob(pattern))
    stats = [(path.relative_to(root).as_posix(), path.stat()) for path in files]
    return _digest(repr([(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]) + sys.version)
