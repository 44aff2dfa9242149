"""Data classes of our own on disk, in the user's cache folder: they are read without executing anything."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import sys
import tempfile
from functools import cache
from pathlib import Path

FOLDER = "TAPECHECK_CACHE_DIR"
"""The environment variable that names the folder."""
_ROOMS = ("tapecheck.fixes.", "tapecheck.report.", "tapecheck.rules.", "tapecheck.source.", "tapecheck.tape.")
_PLAIN = frozenset(("builtins.frozenset", "builtins.set", "builtins.complex", "builtins.range"))


class Unreadable(Exception):
    """What lies on the disk was written by another version, was cut off, or is not one of ours."""


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


def packed(value: object) -> bytes | None:
    """Return a value as it is kept; None where it cannot be."""
    try:
        return pickle.dumps(value, protocol=5)
    except (pickle.PicklingError, RecursionError, TypeError, AttributeError):
        return None


def unpacked(data: bytes, *modules: str) -> object:
    """Return what was packed; `modules` have data classes that belong to it, beside those of the rooms of findings.

    Raises Unreadable.
    """
    try:
        return _Reader(data, modules).load()
    except Exception as error:
        # What is damaged may ask for anything: too long a number, too much memory.
        raise Unreadable(str(error)) from error


def write(place: Path, data: bytes) -> None:
    """Write a file whole or not at all; where that fails (a full disk, no permission) there is none next time."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        number, name = tempfile.mkstemp(dir=place.parent)
        try:
            with os.fdopen(number, "wb") as file:
                file.write(data)
            Path(name).replace(place)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError:
        return


def digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


@cache
def this_version() -> str:
    """Return what this version of Tapecheck is: every file of the package by its size and time of modification."""
    root = Path(__file__).parents[1]
    files = sorted(path for pattern in ("**/*.py", "**/*.json") for path in root.glob(pattern))
    stats = [(path.relative_to(root).as_posix(), path.stat()) for path in files]
    return digest(repr([(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]) + sys.version)


class _Reader(pickle.Unpickler):
    """Reads data classes of our own and nothing else: a file in a cache must not be able to call anything."""

    def __init__(self, data: bytes, modules: tuple[str, ...]) -> None:
        super().__init__(io.BytesIO(data))
        self._modules = modules

    def find_class(self, module: str, name: str) -> object:
        if f"{module}.{name}" in _PLAIN:
            return super().find_class(module, name)
        if "." not in name and (module in self._modules or f"{module}.".startswith(_ROOMS)):
            found = super().find_class(module, name)
            if isinstance(found, type) and found.__module__ == module and hasattr(found, "__dataclass_fields__"):
                return found
        raise pickle.UnpicklingError(f"{module}.{name} does not belong into a cache")
