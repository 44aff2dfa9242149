"""The modules of a project: found by the names of files, read and parsed, never imported.

A module beside the importing file or above it is found by its name, else wherever the project keeps a package of
that name. Only names of files are looked at: a resolver that knows more (jedi) imports compiled modules in this
process, and with them the packages around them.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tapecheck.source.disk import exists, is_file
from tapecheck.source.files import holds_code
from tapecheck.source.text import Source, SourceError, read_source

_MAX_PARENTS = 4
_MAX_UP = 8
_MAX_FILES = 5_000


@dataclass(slots=True)
class Project:
    """Find and parse the modules that a file imports; one for each analysed file.

    `sources` is shared between analyses. `open_files` stand for the files of their paths, saved or not. `read` are
    the sources that were asked for so far: whoever asks again sees the same, however long the analysis takes.
    """

    root_file: str
    sources: Sources
    found: dict[tuple[str, str], str | None] = field(default_factory=dict)
    homes: dict[str, set[str]] | None = None
    read: dict[str, Source | None] = field(default_factory=dict)
    open_files: Mapping[str, Source] = field(default_factory=dict)

    def find(self, name: str, level: int, from_file: str) -> str | None:
        """Return the file of a module, None where the project has none of that name."""
        key = (from_file, "." * level + name)
        if key not in self.found:
            self.found[key] = self._find(name, level, from_file)
        return self.found[key]

    def _find(self, name: str, level: int, from_file: str) -> str | None:
        folder = Path(from_file).parent
        parts = [part for part in name.split(".") if part]
        if level:
            for _ in range(level - 1):
                folder = folder.parent
            return self._module_file(folder, parts)
        for _ in range(_MAX_PARENTS):
            found = self._module_file(folder, parts)
            if found is not None:
                return found
            if folder == folder.parent:
                break
            folder = folder.parent
        return self._elsewhere(parts, from_file)

    def _elsewhere(self, parts: list[str], from_file: str) -> str | None:
        """The file of a module that lies elsewhere in the project (a `src` folder, a sibling package)."""
        root = _project_root(Path(from_file))
        if root is None or not parts:
            return None
        if self.homes is None:
            self.homes = _homes(root)
        for home in sorted(self.homes.get(parts[0], ())):
            found = self._module_file(Path(home), parts)
            if found is not None:
                return found
        return None

    def source(self, path: str) -> Source | None:
        """Return the source of a file, None where it cannot be read."""
        if self.open_files:
            shown = self.open_files.get(str(Path(path).absolute()))
            if shown is not None:
                return shown
        if path not in self.read:
            self.read[path] = self.sources.get(path)
        return self.read[path]

    def _module_file(self, folder: Path, parts: list[str]) -> str | None:
        base = folder.joinpath(*parts) if parts else folder
        for candidate in ([base.with_suffix(".py")] if parts else []) + [base / "__init__.py"]:
            if is_file(candidate) or (self.open_files and str(candidate.absolute()) in self.open_files):
                return str(candidate)
        return None


class Sources:
    """Files read and parsed, shared between analyses and threads; the ones used last are kept.

    A file is read again when its time of modification or its size has changed.
    """

    def __init__(self, most: int = 768) -> None:
        self._most = most
        self._kept: OrderedDict[str, tuple[tuple[int, int], Source]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, path: str) -> Source | None:
        """The source of a file; None where it cannot be read."""
        try:
            stat = Path(path).stat()
            stamp = (stat.st_mtime_ns, stat.st_size)
            with self._lock:
                known = self._kept.get(path)
                if known is not None and known[0] == stamp:
                    self._kept.move_to_end(path)
                    return known[1]
            source = read_source(path)
        except (OSError, ValueError, SourceError):
            return None
        with self._lock:
            self._kept[path] = (stamp, source)
            self._kept.move_to_end(path)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return source


SOURCES = Sources()
"""The files read by this process."""


def _project_root(file: Path) -> Path | None:
    """The nearest folder above a file that looks like the root of a project."""
    try:
        parents = file.resolve().parents
    except (OSError, RuntimeError):  # links in a circle are a RuntimeError up to Python 3.12
        return None
    for folder in list(parents)[:_MAX_UP]:
        if any(exists(folder / mark) for mark in ("pyproject.toml", "setup.py", "setup.cfg", ".git")):
            return folder
    return None


def _homes(root: Path) -> dict[str, set[str]]:
    """Where in a project a top-level module of each name lies, three folders deep at most."""
    homes: dict[str, set[str]] = {}
    seen = 0
    for folder, folders, files in os.walk(root):
        depth = len(Path(folder).relative_to(root).parts)
        folders[:] = (
            [name for name in folders if holds_code(Path(folder, name))] if depth < 3 else []
        )
        for name in files:
            if name.endswith(".py"):
                homes.setdefault(name[:-3], set()).add(folder)
        for name in folders:
            homes.setdefault(name, set()).add(folder)
        seen += 1 + len(files)
        if seen > _MAX_FILES:
            break
    return homes
