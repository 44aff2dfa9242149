"""Who of a project may call what a file defines, by the names that stand in the texts of its files."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path

from tapecheck.source.environment import installed
from tapecheck.source.importers import Importers
from tapecheck.source.kept import KeptByPath
from tapecheck.source.modules import SOURCES
from tapecheck.source.nodes import of_kind, walk
from tapecheck.source.project import Project, Projects
from tapecheck.source.recording import SWITCHES, SWITCHING_ON, may_be_unrecorded, times_named
from tapecheck.source.text import Source, from_text

_MOST_FILES = 500
"""Files whose words are looked at for the callers of one file; where more are around it, one of them may call."""
_MOST_WORDS = 2_000_000
"""Words that are kept, of all files together."""
_MOST_BYTES = 1_000_000
_WORD = re.compile(r"[^\W\d]\w*")
_COMMENT = re.compile(
    r'''"""(?:[^"\\]|\\.|"(?!""))*"""|'''
    r"""'''(?:[^'\\]|\\.|'(?!''))*'''|"""
    r""""(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|(?P<comment>\#[^\n]*)""",
    re.DOTALL,
)
"""A comment, or a text, in which a # begins none."""
_TRAINING = frozenset(("backward", "manual_backward", "autograd", "fit"))
"""Names by which a program starts a backward, or has it started."""
_WORDS: KeptByPath[frozenset[str]] = KeptByPath(_MOST_WORDS, len)


class Callers:
    """Finds whether anybody in a project names a function of a file, to call it or to hand it on.

    Args:
        project: what holds for the file.
        open_files: sources by absolute path that stand for the files of that path.
    """

    def __init__(self, project: Project, open_files: Mapping[str, str]) -> None:
        self._path = str(Path(project.path).absolute())
        self._project = project
        self._open = open_files
        self._named: dict[bool, frozenset[str] | None] = {}

    def may_name(self, name: str, *, method: bool) -> bool:
        """Return whether a file that can come to a function holds its name.

        A function is named by those that import its file; an object comes to whatever these import, and a method of
        it may be called by its class's base. A special method is called without its name: by whoever has the object.
        """
        words = self._words(around=method)
        if words is None:
            return True
        if method and name.startswith("__"):
            return not SWITCHES.isdisjoint(words)
        return name in words

    def may_be_unrecorded(self, name: str, *, method: bool) -> bool:
        """Return whether a file that can come to a function may call it where recording is off, or hand it on."""
        if not self.may_name(name, method=method):
            return False
        files = self._files(around=method)
        if files is None or name.startswith("__"):
            return True
        return may_be_unrecorded(name, (self._path, *files), self._source, self._words_of)

    def places_of(self, line: int) -> frozenset[tuple[str, int]] | None:
        """Return the files and lines that name the function which is defined on a line, other than to define or import
        it; None where it has no name of its own, or too many files may name it.
        """
        found = self._naming(line)
        if found is None:
            return None
        name, sources = found
        return frozenset((file, line) for file, one in sources for line in _lines_naming(one, name))

    def calls_unrecorded(self, line: int) -> bool:
        """Return whether the texts name the function that is defined on a line only to call it, where they have
        switched recording off, and nothing beside it switches that on again.
        """
        if not SWITCHING_ON.isdisjoint(self._words_of(self._path)):
            return False
        name, sources = self._naming(line) or ("", [])
        called = 0
        for _, source in sources:
            named, calls, unrecorded = (found[name] for found in source.notes.of(source.tree, times_named))
            # A text may be what something is called by.
            if not named == calls == unrecorded or len([*_lines_naming(source, name)]) != named:
                return False
            called += calls
        return called > 0

    def _naming(self, line: int) -> tuple[str, list[tuple[str, Source]]] | None:
        """Return the name of the function that is defined on a line, with the files that hold it; None where it has
        none of its own, or too many files may name it.
        """
        source = self._source(self._path)
        if source is None:
            return None
        functions: list[ast.FunctionDef | ast.AsyncFunctionDef] = []
        functions += [*of_kind(source.tree, ast.FunctionDef), *of_kind(source.tree, ast.AsyncFunctionDef)]
        found = next((one for one in functions if one.lineno == line), None)
        # An object calls these without their names.
        if found is None or found.name.startswith("__") or found.name == "forward":
            return None
        method = any(found in one.body for one in of_kind(source.tree, ast.ClassDef))
        files = self._files(around=method)
        if files is None:
            return None
        holding = [file for file in dict.fromkeys((self._path, *files)) if found.name in self._words_of(file)]
        return found.name, [(file, one) for file in holding if (one := self._source(file)) is not None]

    def _source(self, path: str) -> Source | None:
        return from_text(self._open[path], path) if path in self._open else SOURCES.get(path)

    def may_train(self, but: Collection[str]) -> bool:
        """Return whether a file that imports this one, and is none of some others, may start a backward."""
        files = [one for one in self._importers().of(self._path) if one not in but]
        return len(files) > _MOST_FILES or any(not _TRAINING.isdisjoint(self._words_of(one)) for one in files)

    def _importers(self) -> Importers:
        # A project is looked through once for all files of a command.
        return self._project.shared.one(Importers, lambda: Importers(Projects(self._project.setup)))

    def _files(self, *, around: bool) -> list[str] | None:
        """Return the files that can come to one; None where too many can, and of what is installed: whoever uses it."""
        if installed(self._path):
            return None
        importers = self._importers()
        files = importers.around(self._path) if around else importers.of(self._path)
        return files if len(files) <= _MOST_FILES else None

    def _words(self, *, around: bool) -> frozenset[str] | None:
        """Return the words of the files that can come to one, None where nobody knows which can."""
        if around not in self._named:
            files = self._files(around=around)
            self._named[around] = None if files is None else frozenset().union(*map(self._words_of, files))
        return self._named[around]

    def _words_of(self, path: str) -> Iterable[str]:
        if path in self._open:
            return _words(self._open[path])
        try:
            stat = Path(path).stat()
            stamp = (stat.st_mtime_ns, stat.st_size)
            known = _WORDS.get(path, stamp)
            if known is not None:
                return known
            text = Path(path).read_bytes()[:_MOST_BYTES].decode(errors="replace")
            return _WORDS.put(path, stamp, _words(text))
        except (OSError, ValueError):
            return ()


class Texts:
    """What the texts of projects say of functions, each known by its file and line.

    Args:
        project_of: what holds for a file.
        open_files: sources by absolute path that stand for the files of that path.
    """

    def __init__(self, project_of: Callable[[str], Project], open_files: Mapping[str, str]) -> None:
        self._project_of = project_of
        self._open = open_files

    def places_of(self, function: tuple[str, int]) -> frozenset[tuple[str, int]] | None:
        """Return where a function is named, other than to define or import it; None where nobody knows."""
        return self._callers(function).places_of(function[1])

    def calls_unrecorded(self, function: tuple[str, int]) -> bool:
        """Return whether a function is named only to call it, where recording is switched off around that."""
        return self._callers(function).calls_unrecorded(function[1])

    def _callers(self, function: tuple[str, int]) -> Callers:
        return Callers(self._project_of(function[0]), self._open)


def _words(text: str) -> frozenset[str]:
    """Return the words of a file, without those of its comments: what is commented out calls nothing."""
    return frozenset(_WORD.findall(_COMMENT.sub(lambda found: "" if found["comment"] else found[0], text)))


def _lines_naming(source: Source, name: str) -> Iterator[int]:
    """Yield the lines that name a function, other than to define or import it; in a text as well, but no sentence."""
    yield from (number for number in source.blanked if name in _WORD.findall(source.lines[number - 1]))
    for node in walk(source.tree):
        match node:
            case ast.Name(id=found) | ast.Attribute(attr=found) if found == name:
                yield node.lineno
            case ast.ImportFrom(names=names) if any(one.name == name and one.asname for one in names):
                yield node.lineno
            case ast.Constant(value=str(text)) if name in text and " " not in text and name in _WORD.findall(text):
                yield node.lineno
