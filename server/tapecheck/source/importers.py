"""The files of a project that import a file, directly or through others: whose code may call what is in it.

The text of each file says which names its import statements hold. Only a file that holds the name of a module is looked
at closer: its imports are then resolved as an analysis would resolve them. Nothing is parsed or executed.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tapecheck.source.cells import SUFFIX
from tapecheck.source.environment import installed
from tapecheck.source.files import walk
from tapecheck.source.kept import KeptByPath
from tapecheck.source.project import Projects
from tapecheck.source.search import Found, Search

_INIT = "__init__.py"
_ALL = "*"
_MOST_FILES = 2_000
"""Files of a project that are looked through: reading more takes longer than checking the one that was asked for."""
_MOST_BYTES = 1_000_000
"""Bytes of a file whose imports are read."""
_KEPT_FILES = 20_000
"""Files whose import statements are kept, some hundred bytes each."""
_KEYWORD = "import"
# The lines of a notebook's cells are JSON strings.
_STATEMENT = re.compile(
    r"""^[ \t"]*(?:from[ \t]+(\.*)([\w.]*)[ \t]+import[ \t]*(\([^)]*\)|[^\n#;]*)|import[ \t]+([^\n#;]*))""",
    re.MULTILINE,
)
_DOTTED = re.compile(r"[\w.]+|\*")


@dataclass(frozen=True, slots=True)
class Statement:
    """An import statement: the module, the dots before it, and the names that are taken out of it."""

    module: str
    level: int = 0
    names: tuple[str, ...] = ()

    @property
    def words(self) -> set[str]:
        """Return the names that a module which it imports can have; `.` stands for the package of the file."""
        return {*self.module.split("."), *self.names, *("." * bool(self.level and not self.module))} - {""}


def statements_of(text: str) -> tuple[Statement, ...]:
    """Return the import statements in a text, those that only look like one in a string among them."""
    found: dict[Statement, None] = {}
    end, at = 0, text.find(_KEYWORD)
    while at >= 0:
        # Looking for the word is ten times faster than trying the pattern at each line.
        matched = _STATEMENT.match(text, max(end, text.rfind("\n", 0, at) + 1))
        end = max(matched.end() if matched is not None else 0, at + len(_KEYWORD))
        if matched is not None:
            found.update(dict.fromkeys(_statements(*matched.groups(""))))
        at = text.find(_KEYWORD, end)
    return tuple(found)


@lru_cache(maxsize=4_096)
def _statements(dots: str, module: str, names: str, modules: str) -> tuple[Statement, ...]:
    if modules:
        return tuple([Statement(name) for name in _DOTTED.findall(modules) if name != _ALL])
    return (Statement(module, len(dots), tuple(_DOTTED.findall(names))),)


class Texts:
    """The import statements of files, shared between checks and threads; a file is read again once it has changed."""

    def __init__(self, most: int = _KEPT_FILES) -> None:
        self._kept: KeptByPath[tuple[Statement, ...]] = KeptByPath(most)

    def statements(self, path: str) -> tuple[Statement, ...]:
        """Return the import statements of a file; none where it cannot be read."""
        try:
            stat = os.stat(path)
            stamp = (stat.st_mtime_ns, stat.st_size)
            known = self._kept.get(path, stamp)
            if known is not None or stat.st_size > _MOST_BYTES:
                return known or ()
            text = Path(path).read_bytes().decode(errors="replace")
            return self._kept.put(path, stamp, statements_of(text))
        except (OSError, ValueError):
            return ()


TEXTS = Texts()
"""The import statements of the files that this process has read."""


class Importers:
    """Finds who imports the files of some projects; each project is looked through once.

    Args:
        projects: what holds for the files.
        known: real paths of files that are of no interest: a project with no other files has no importers.
        texts: where the import statements of files are kept.
    """

    def __init__(self, projects: Projects, known: Collection[str] = (), texts: Texts = TEXTS) -> None:
        self._projects = projects
        self._known = frozenset(known)
        self._texts = texts
        self._named: dict[str, dict[str, list[str]]] = {}
        self._searches: dict[str, Search] = {}
        self._imported: dict[str, frozenset[str]] = {}

    def of(self, path: str) -> list[str]:
        """Return the absolute paths of the files that import a file, the nearest first; none of an installed one."""
        target = os.path.abspath(path)
        if installed(target):
            return []
        search = self._search(target)
        named = self._named_in(search.root, search.base(target), os.path.dirname(target))
        found: dict[str, None] = {}
        level = [target]
        while level:
            after = sorted({one for file in level for one in _candidates(file, named)} - {target, *found})
            level = [one for one in after if not self._imports(one).isdisjoint(level)]
            found |= dict.fromkeys(level)
        return list(found)

    def around(self, path: str) -> list[str]:
        """Return the absolute paths of the files that import a file, and of those that it and they import in turn."""
        target = os.path.abspath(path)
        found = dict.fromkeys(self.of(target))
        waiting = [target, *found]
        while waiting:
            after = [one for one in sorted(self._imports(waiting.pop())) if one != target and one not in found]
            found |= dict.fromkeys(after)
            waiting += after
        return list(found)

    def _named_in(self, root: str | None, base: str, folder: str) -> dict[str, list[str]]:
        """Return the files of a project by the names that their import statements hold.

        Where nothing marks the root of a project, it is the folder alone, or the package with what stands beside it.
        """
        top = root or base
        named = self._named.get(top)
        if named is None:
            named = self._named[top] = defaultdict(list)
            files = list(_files(top, self._projects, folder, whole=root is not None))
            if all(os.path.realpath(path) in self._known for path in files):
                files = []
            for path in files:
                for word in {word for one in self._texts.statements(path) for word in one.words}:
                    named[word].append(path)
        return named

    def _imports(self, importer: str) -> frozenset[str]:
        """Return the files that the import statements of a file lead to."""
        known = self._imported.get(importer)
        if known is None:
            search = self._search(importer)
            statements = self._texts.statements(importer)
            found = {
                one for statement in statements for one in leads_to(statement, importer, search.find, search.inside)
            }
            known = self._imported[importer] = frozenset(found)
        return known

    def _search(self, path: str) -> Search:
        if path not in self._searches:
            self._searches[path] = Search(path, project=self._projects.of(path))
        return self._searches[path]


def _files(top: str, projects: Projects, folder: str, *, whole: bool) -> Iterator[str]:
    """Yield the files of a project, or those of a folder without its folders and the package that `folder` is in."""
    if not whole:
        try:
            names = sorted(os.listdir(top))[:_MOST_FILES]
        except OSError:
            return
        yield from (os.path.join(top, name) for name in names if name.endswith((".py", SUFFIX)))
        if folder == top:
            return
        top = os.path.join(top, os.path.relpath(folder, top).partition(os.sep)[0])
    for _, path in zip(range(_MOST_FILES), walk(top, projects=projects)):
        yield path


def _candidates(path: str, named: dict[str, list[str]]) -> Collection[str]:
    """Return the files whose import statements hold the name of a module, or may lead to it without one."""
    folder, name = os.path.split(path)
    if name != _INIT:
        return named.get(name.removesuffix(".py"), ())
    beside = [one for one in named.get(".", ()) if os.path.dirname(one).startswith(folder)]
    return [*named.get(os.path.basename(folder), ()), *beside]


def leads_to(
    statement: Statement,
    importer: str,
    find: Callable[[str, int, str], Found | None],
    inside: Callable[[tuple[str, ...], str], Found | None],
) -> Iterator[str]:
    """Yield the files that a statement runs: of the module, the packages around it, the submodules it takes."""
    parts = statement.module.split(".") if statement.module else []
    found: Found | None = None
    for count in range(0 if statement.level else 1, len(parts) + 1):
        found = find(".".join(parts[:count]), statement.level, importer)
        if found is not None and found.file is not None:
            yield found.file
    if found is not None and found.folders:
        for name in statement.names:
            inner = inside(found.folders, name)
            if inner is not None and inner.file is not None:
                yield inner.file
