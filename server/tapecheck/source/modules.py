"""The modules of a project: found by the names of files, read and parsed, never imported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tapecheck.source.kept import KeptByPath
from tapecheck.source.project import Project
from tapecheck.source.read import read_source
from tapecheck.source.search import Found, Search
from tapecheck.source.text import Source, SourceError


@dataclass(frozen=True, slots=True)
class Question:
    """A module asked for: with `level` dots in the file `places`, or, below zero, in the folders of a package."""

    name: str
    level: int
    places: tuple[str, ...]


@dataclass(slots=True)
class Basis:
    """What an analysis has asked of the files of its project, with the answers: one for all of its results.

    `asked` are its questions for modules, `texts` tells the texts that it has read, by path, from others.
    """

    asked: dict[Question, Found | None] = field(default_factory=dict)
    texts: dict[str, tuple[int, int] | None] = field(default_factory=dict)


@dataclass(slots=True)
class Modules:
    """Find and parse the modules that a file imports; one for each analysed file.

    `sources` is shared between analyses. `open_files` stand for the files of their paths, saved or not. `read` are
    the sources that were asked for so far: whoever asks again sees the same, however long the analysis takes. `project`
    is what holds for the file.
    """

    root_file: str
    sources: Sources
    project: Project | None = None
    found: dict[tuple[str, str], str | None] = field(default_factory=dict)
    basis: Basis = field(default_factory=Basis)
    read: dict[str, Source | None] = field(default_factory=dict)
    open_files: Mapping[str, Source] = field(default_factory=dict)
    _search: Search | None = None
    _answers: dict[tuple[str, str], Found | None] = field(default_factory=dict)
    _same: dict[int, tuple[Basis, bool]] = field(default_factory=dict)

    def find(self, name: str, level: int, from_file: str) -> str | None:
        """Return the file of a module, None where the project has none of that name."""
        found = self.locate(name, level, from_file)
        return found.file if found is not None else None

    def locate(self, name: str, level: int, from_file: str) -> Found | None:
        """Return what a module's name stands for, namespace packages included; None where the project has no such.

        Args:
            name: the dotted name, empty in `from . import x`.
            level: the number of dots before it.
            from_file: the file with the import.
        """
        found = self._remembered(from_file, "." * level + name, lambda: self.search.find(name, level, from_file))
        self.basis.asked[Question(name, level, (from_file,))] = found
        return found

    def inside(self, folders: tuple[str, ...], name: str) -> Found | None:
        """Return a submodule of the package with those folders; None where there is none of that name."""
        found = self._remembered(folders[0], f"/{name}", lambda: self.search.inside(folders, name))
        self.basis.asked[Question(name, -1, folders)] = found
        return found

    def same(self, basis: Basis) -> bool:
        """Return whether what an earlier analysis asked has the same answers now."""
        known = self._same.get(id(basis))
        if known is None:
            # In another thread that analysis may still go on.
            same = all(self.ask(question) == found for question, found in basis.asked.copy().items())
            same = same and all(self._told(path) == told for path, told in basis.texts.copy().items())
            known = self._same[id(basis)] = (basis, same)
        return known[1]

    def _told(self, path: str) -> tuple[int, int] | None:
        self.source(path)
        return self.basis.texts[path]

    def ask(self, question: Question) -> Found | None:
        """Return the answer to a question of an earlier analysis as the files are now."""
        if question.level < 0:
            return self.inside(question.places, question.name)
        return self.locate(question.name, question.level, question.places[0])

    def _remembered(self, where: str, name: str, look: Callable[[], Found | None]) -> Found | None:
        key = (where, name)
        if key not in self._answers:
            answer = self._answers[key] = look()
            self.found[key] = answer.file if answer is not None else None
        return self._answers[key]

    @property
    def search(self) -> Search:
        """The folders as this analysis sees them."""
        if self._search is None:
            self._search = Search(self.root_file, self.open_files, self.project)
        return self._search

    def source(self, path: str) -> Source | None:
        """Return the source of a file, None where it cannot be read."""
        if path not in self.read:
            shown = self.open_files.get(str(Path(path).absolute())) if self.open_files else None
            source = self.read[path] = shown if shown is not None else self.sources.get(path)
            self.basis.texts[path] = (len(source.text), hash(source.text)) if source is not None else None
        return self.read[path]


class Sources:
    """Files read and parsed, shared between analyses and threads; the ones used last are kept.

    A file is read again when its time of modification or its size has changed.

    Args:
        most: the most characters of source text that are kept; a tree takes about ninety bytes for each of them.
    """

    def __init__(self, most: int = 800_000) -> None:
        self._kept: KeptByPath[Source] = KeptByPath(most, lambda source: len(source.text))

    def get(self, path: str) -> Source | None:
        """Return the source of a file; None where it cannot be read."""
        try:
            stat = Path(path).stat()
            stamp = (stat.st_mtime_ns, stat.st_size)
            known = self._kept.get(path, stamp)
            return known if known is not None else self._kept.put(path, stamp, read_source(path))
        except (OSError, ValueError, SourceError):
            return None


SOURCES = Sources()
"""The files read by this process."""
