"""What lies in folders: listings that are kept for as long as a folder stays unchanged.

A listing holds the names that an import can ask for and those that mark a project; the thousands of images of a data
set beside them are counted, not kept.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from dataclasses import dataclass

from tapecheck.source.kept import KeptByPath

MARKS = ("pyproject.toml", "tapecheck.toml", "setup.py", "setup.cfg", ".git")
"""Files and folders that mark the root of a project."""
_COMPILED = (".so", ".pyd", ".pyc")
_NAMES = frozenset((*MARKS, "pyvenv.cfg"))
_SUFFIXES = (".py", ".pyi", ".pth", "-stubs", ".dist-info")
_MOST_ENTRIES = 50_000
_KEPT_LISTINGS = 4_096
_SETTLED = 2_000_000_000
"""Nanoseconds after which a time of modification is to be trusted: some file systems keep even seconds only."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The names of one folder.

    `names` are those of Python files, of folders and of what marks a project; `folders` are the folders among them
    that are not links; `compiled` are the modules that have a file of compiled code. `complete` is False where
    the folder has too many entries to list them all.
    """

    names: frozenset[str] = frozenset()
    folders: tuple[str, ...] = ()
    compiled: frozenset[str] = frozenset()
    complete: bool = True


EMPTY = Listing()


class Folders:
    """Listings shared between analyses and threads; those used last are kept.

    A folder is listed again when its time of modification has changed, or is so recent that a later change could
    have left it as it was.
    """

    def __init__(self, most: int = _KEPT_LISTINGS) -> None:
        self._kept: KeptByPath[Listing] = KeptByPath(most)

    def listing(self, folder: str) -> Listing:
        """Return the names in a folder; none where it does not exist or cannot be read."""
        try:
            changed = os.stat(folder).st_mtime_ns
            known = self._kept.get(folder, changed)
            if known is not None:
                return known
            found = _read(folder)
        except (OSError, ValueError):
            return EMPTY
        return self._kept.put(folder, changed, found) if time.time_ns() - changed > _SETTLED else found


FOLDERS = Folders()
"""The listings of this process."""


class View:
    """The folders as one analysis sees them: each is looked at once, and open documents are among its files."""

    def __init__(self, shown: Collection[str] = (), folders: Folders = FOLDERS) -> None:
        self._folders = folders
        self._seen: dict[str, Listing] = {}
        self._files = frozenset(shown)
        self._shown: dict[str, set[str]] = {}
        for path in self._files:
            parent, name = os.path.split(path)
            while name and name not in self._shown.get(parent, ()):
                self._shown.setdefault(parent, set()).add(name)
                parent, name = os.path.split(parent)

    def listing(self, folder: str) -> Listing:
        """Return the names in a folder, those of open documents among them."""
        found = self._seen.get(folder)
        if found is None:
            found = self._folders.listing(folder)
            shown = self._shown.get(folder)
            if shown and not shown <= found.names:
                found = Listing(found.names | shown, found.folders, found.compiled, found.complete)
            self._seen[folder] = found
        return found

    def is_file(self, folder: str, name: str) -> bool:
        """Return whether a folder has a file of that name, written just so."""
        path = folder + os.sep + name
        return self._may_have(folder, name) and (path in self._files or os.path.isfile(path))

    def is_folder(self, folder: str, name: str) -> bool:
        """Return whether a folder has a folder of that name, written just so."""
        path = folder + os.sep + name
        return self._may_have(folder, name) and (path in self._shown or os.path.isdir(path))

    def _may_have(self, folder: str, name: str) -> bool:
        """Whether a folder's listing has a name, or does not say."""
        listing = self.listing(folder)
        return name in listing.names or not listing.complete


def _read(folder: str) -> Listing:
    names: set[str] = set()
    folders: list[str] = []
    compiled: set[str] = set()
    complete = True
    with os.scandir(folder) as entries:
        for count, entry in enumerate(entries):
            if count >= _MOST_ENTRIES:
                complete = False
                break
            name = entry.name
            if name.endswith(_SUFFIXES) or name in _NAMES:
                names.add(name)
                continue
            try:
                if name.endswith(_COMPILED):
                    if entry.is_file():
                        compiled.add(name.partition(".")[0])
                elif entry.is_dir(follow_symlinks=False):
                    names.add(name)
                    folders.append(name)
                elif entry.is_symlink():
                    names.add(name)
            except OSError:
                continue
    return Listing(frozenset(names), tuple(sorted(folders)), frozenset(compiled), complete)
