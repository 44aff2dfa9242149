"""Which file a name that is imported stands for, found as Python's import system and mypy find it.

Names of files are all that is looked at. The places are tried in Python's order: the folder of the program (for a file
of a package the folder that the package lies in), `PYTHONPATH`, the configured `extra-paths`, the standard library,
the folders of `conftest.py`, the root of the project and its `src`, the environment with the user's own editable
projects. What lies in none of them may still be reached in ways that no file tells of (`sys.path.append`): it is then
looked for above the importing file and all over the project, and taken where there is no doubt which is meant.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tapecheck.source.environment import Environment, Place, installed, prefix_for, read_environment
from tapecheck.source.files import SKIPPED
from tapecheck.source.folders import MARKS, Listing, View
from tapecheck.source.project import Project, Setup

_MOST_UP = 8
_MOST_ABOVE = 4
_MOST_DEPTH = 3
_MOST_FOLDERS = 800
_KEPT_PROJECTS = 8
_MOST_PARTS = 32
_INIT = "__init__.py"
_RECORDS = ".dist-info"
"""How the folder ends that every installer writes beside a package."""
_STDLIB = sys.stdlib_module_names
_BUILTIN = frozenset(sys.builtin_module_names)


@dataclass(frozen=True, slots=True)
class Found:
    """What a name stands for.

    `file` is the source of a module or a package; None for a namespace package, which has none, and for a library,
    which is not looked into. `folders` are those that the submodules lie in; none for a module, and for a library.
    """

    file: str | None
    folders: tuple[str, ...] = ()


_LIBRARY = Found(None)


_projects: dict[str, tuple[dict[str, Listing], dict[str, list[str]]]] = {}
"""By the roots of projects: the folders that were looked through, and where each name was seen."""


@dataclass(slots=True)
class _Trail:
    """What a search came by: `stubbed` where there is a stub of the name, so that it is a library's."""

    stubbed: bool = False


@dataclass(slots=True)
class _Path:
    """Where the modules that a file imports are looked for.

    `before` are the places that come before the standard library, `after` those that come after it.
    """

    before: list[Place] = field(default_factory=list)
    after: list[Place] = field(default_factory=list)


class Search:
    """Finds the modules that one program imports; it sees the folders as they are when it first looks at each.

    Args:
        root_file: the program's file, from which the places to look in are worked out.
        shown: absolute paths of documents that are open in an editor; they count as files.
    """

    def __init__(self, root_file: str, shown: Collection[str] = (), project: Project | None = None) -> None:
        self._project = project or Setup().project_of(root_file)
        self.view = View(shown)
        self._relative = not os.path.isabs(root_file)
        self._given = root_file
        self._here = _working_directory() if self._relative else ""
        self._root_file = self._absolute(root_file)
        self._folder = os.path.dirname(self._root_file)
        self._root = self._project_root(self._folder)
        self._roots: dict[str, str] = {}
        self._paths: dict[str, _Path] = {}
        self._environment: Environment | None = None
        self._homes: dict[str, list[str]] | None = None

    # -- what is asked ----------------------------------------------------------------------------------------

    def find(self, name: str, level: int, from_file: str) -> Found | None:
        """Return what a module's name stands for; None where it is no module of the user's.

        Args:
            name: the dotted name, empty in `from . import x`.
            level: the number of dots before it.
            from_file: the file with the import.
        """
        parts = [part for part in name.split(".") if part]
        if len(parts) > _MOST_PARTS or not all(part.isidentifier() for part in parts) or not (parts or level):
            return None
        importer = self._absolute(from_file)
        if level:
            found = self._relative_module(parts, level, importer)
        else:
            found = self._absolute_module(parts, importer)
        return self._as_given(found)

    def inside(self, folders: Sequence[str], name: str) -> Found | None:
        """Return the submodule of a package, by the folders of the package; None where there is none."""
        if not name.isidentifier():
            return None
        places = [Place(self._absolute(folder), True) for folder in folders]
        return self._as_given(self._next(places, name, "", _Trail()))

    def version_of(self, distribution: str) -> str | None:
        """Return the version of a distribution in the environment of the program, None where it has none.

        It is the one in the name of the folder that every installer writes beside the package; nothing is read.
        """
        start = f"{distribution}-"
        for place in self._installed().places:
            for name in self.view.listing(place.folder).names if not place.own else ():
                if name.startswith(start) and name.endswith(_RECORDS):
                    return name.removeprefix(start).removesuffix(_RECORDS)
        return None

    def _installed(self) -> Environment:
        if self._environment is None:
            self._environment = read_environment(
                prefix_for(self._folder, self._root, self._project.setup.interpreters), self.view
            )
        return self._environment

    @property
    def root(self) -> str | None:
        """Return the root of the project that the program lies in; None where nothing marks one."""
        return self._root

    # -- names ------------------------------------------------------------------------------------------------

    def _relative_module(self, parts: list[str], level: int, importer: str) -> Found | None:
        folder = os.path.dirname(importer)
        for _ in range(level - 1):
            folder = os.path.dirname(folder)
        found = self._package(folder)
        if parts:
            found = self._walk([Place(folder, True)], parts, _Trail(), absolute=False)
            if found is None and not self.view.is_file(folder, _INIT):
                # A namespace package may go on elsewhere on the path.
                path = self._path_for(importer)
                places = [*path.before, *path.after]
                for place in places:
                    above = self._dotted(folder, place.folder)
                    if above and found is None:
                        found = self._walk(places, [*above, *parts], _Trail())
        if found is not None and found.file is not None:
            self._roots.setdefault(found.file, self._root_of(importer))
        return found

    def _dotted(self, folder: str, place: str) -> list[str]:
        """Return the name of the package that a folder below a place on the path is; empty where it is none."""
        start = place.rstrip(os.sep) + os.sep
        parts = folder[len(start) :].split(os.sep) if folder.startswith(start) else []
        return parts if all(part.isidentifier() for part in parts) else []

    def _package(self, folder: str) -> Found | None:
        """Return what a folder is as a package."""
        if self.view.is_file(folder, _INIT):
            return Found(folder + os.sep + _INIT, (folder,))
        return Found(None, (folder,)) if os.path.isdir(folder) or self.view.listing(folder).names else None

    def _absolute_module(self, parts: list[str], importer: str) -> Found | None:
        top = parts[0]
        if top in _BUILTIN:
            return None
        trail = _Trail()
        path = self._path_for(importer)
        space: Found | None = None
        if top in _STDLIB:
            # A folder without __init__.py does not hide a module of the standard library.
            found = self._tried(path.before, parts, trail)
            return found if found is not None and (found.file is not None or len(parts) > 1) else None
        found = self._tried([*path.before, *path.after], parts, trail)
        if found is _LIBRARY:
            return None
        if found is not None:
            if found.file is not None or self._holds_modules(found.folders):
                return found
            space = found
        if trail.stubbed:
            return space
        return self._guessed(parts, importer) or space

    def _tried(self, places: list[Place], parts: list[str], trail: _Trail) -> Found | None:
        """Look for a module along a path; where a package lacks it, in what comes after that package, too.

        Python would look no further, but the program is to be taken for one that works: a place that has only another
        package of the name is then not on its path.
        """
        while places:
            top = self._next(places, parts[0], parts[0], trail)
            if top is None or top is _LIBRARY:
                return top
            found = self._walk(places, parts, trail)
            if found is not None:
                self._note_root(found, places)
                return found
            at = os.path.dirname(top.folders[0] if top.folders else top.file or "")
            behind = next((index + 1 for index, place in enumerate(places) if place.folder == at), 0)
            if top.file is None or not behind:
                return None
            places = places[behind:]
        return None

    def _note_root(self, found: Found, places: list[Place]) -> None:
        """Remember from which place a file was found: its own imports are looked for there as well."""
        if found.file is not None and found.file not in self._roots:
            under = [place.folder for place in places if found.file.startswith(place.folder.rstrip(os.sep) + os.sep)]
            if under:
                self._roots[found.file] = max(under, key=len)

    def _walk(
        self, places: Sequence[Place], parts: Sequence[str], trail: _Trail, *, absolute: bool = True
    ) -> Found | None:
        """Go from a path to the module of a dotted name, package by package, as Python does.

        `absolute` names are looked up among those that the environment maps to other folders, too.
        """
        found: Found | None = None
        for index, part in enumerate(parts):
            found = self._next(places, part, ".".join(parts[: index + 1]) if absolute else "", trail)
            if found is None or found is _LIBRARY:
                return found
            places = [Place(folder, True) for folder in found.folders]
        return found

    def _next(self, places: Sequence[Place], part: str, name: str, trail: _Trail) -> Found | None:
        """Return the module `part` in the first place that has one; `name` is its whole name, "" if unknown.

        A package goes before a module, and each before a namespace package, whose folders may lie in several places.
        """
        spaces: list[str] = []
        own = False
        for place in places:
            if (found := self._in_place(place, part, trail)) is not None:
                return found
            if self._has(place.folder, part) and self.view.is_folder(place.folder, part):
                spaces.append(place.folder + os.sep + part)
                own = own or place.own
        environment = self._environment
        if environment is not None and name:
            mapped = self._mapped(environment.mapping.get(name))
            if mapped is not None:
                return mapped
            more = environment.namespaces.get(name, ())
            own = own or bool(more)
            spaces += [folder for folder in more if folder not in spaces]
        if not spaces:
            return None
        return Found(None, tuple(spaces)) if own else _LIBRARY

    def _in_place(self, place: Place, part: str, trail: _Trail) -> Found | None:
        """Return the package or module `part` that a place has; a folder of a namespace package is none."""
        view, folder = self.view, place.folder
        inner = folder + os.sep + part
        if self._has(folder, part):
            if view.is_file(inner, _INIT):
                return self._judged(Found(inner + os.sep + _INIT, (inner,)), place)
            if "__init__" in view.listing(inner).compiled:
                return _LIBRARY
        if view.is_file(folder, part + ".py"):
            return self._judged(Found(inner + ".py"), place)
        listing = view.listing(folder)
        if part in listing.compiled:
            return _LIBRARY
        if part + ".pyi" in listing.names or part + "-stubs" in listing.names:
            trail.stubbed = True
        return None

    def _has(self, folder: str, name: str) -> bool:
        """Return whether a folder may have something of a name in it."""
        listing = self.view.listing(folder)
        return name in listing.names or not listing.complete

    def _mapped(self, target: str | None) -> Found | None:
        """Return the package or module that a finder of an editable project maps a name to."""
        if target is None:
            return None
        if self.view.is_file(target, _INIT):
            return Found(target + os.sep + _INIT, (target,))
        is_module = self.view.is_file(os.path.dirname(target), os.path.basename(target) + ".py")
        return Found(target + ".py") if is_module else None

    def _judged(self, found: Found, place: Place) -> Found:
        """Return what was found, or a library where it is an installed package other than the program's own."""
        path = found.folders[0] if found.folders else found.file or ""
        if not place.own:
            return _LIBRARY
        if installed(path) and not self._same_package(path):
            return _LIBRARY
        return found

    def _same_package(self, path: str) -> bool:
        """Whether an installed file belongs to the package that the program itself lies in."""
        own = self.base(self._root_file)
        below = os.path.relpath(self._root_file, own).split(os.sep)[0]
        package = own + os.sep + below
        return path == package or path.startswith(package + os.sep)

    # -- places -----------------------------------------------------------------------------------------------

    def _path_for(self, importer: str) -> _Path:
        root = self._root_of(importer)
        folder = os.path.dirname(importer)
        path = self._paths.get(root + "\0" + folder)
        if path is None:
            path = self._paths[root + "\0" + folder] = self._path(root, folder)
        return path

    def _path(self, root: str, folder: str) -> _Path:
        before = [self._root_of(self._root_file), root]
        if os.path.islink(self._root_file):
            # Python starts from the file that a link leads to.
            before.insert(0, self.base(os.path.realpath(self._root_file)))
        named = [os.path.abspath(one) for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one]
        filled = {one for one in named if one not in before and self._holds_libraries(one)}
        before += named
        configuration = self._project.configuration
        if configuration.file is not None:
            home = os.path.dirname(os.path.abspath(configuration.file))
            before += [os.path.normpath(os.path.join(home, one)) for one in configuration.extra_paths]
        first = _by_folder(Place(one, one not in filled) for one in before)
        after = _by_folder(self._after_library(folder))
        return _Path(list(first.values()), [place for one, place in after.items() if one not in first])

    def _holds_libraries(self, folder: str) -> bool:
        """Return whether `pip install --target` filled a folder: it holds libraries, wherever it lies."""
        return any(name.endswith(_RECORDS) for name in self.view.listing(folder).names)

    def _after_library(self, folder: str) -> Iterator[Place]:
        """Yield the places that are looked into after the standard library."""
        for one in self._conftest_roots(folder):
            yield Place(one, True)
        if self._root is not None:
            yield from _with_src(self._root)
        environment = self._installed()
        yield from environment.places
        for project in environment.projects:
            yield from _with_src(project)

    def _root_of(self, file: str) -> str:
        """Return the place that a file was found from, or would be."""
        root = self._roots.get(file)
        if root is None:
            root = self._roots[file] = self.base(file)
        return root

    def base(self, file: str) -> str:
        """Return the folder that holds the outermost package of a file, by the `__init__.py` files above it."""
        folder = os.path.dirname(file)
        while self.view.is_file(folder, _INIT) and os.path.basename(folder).isidentifier():
            if os.path.dirname(folder) == folder:
                break
            folder = os.path.dirname(folder)
        return folder

    def _conftest_roots(self, folder: str) -> Iterator[str]:
        """Yield the folders that pytest puts on the path for `conftest.py` files above a file, innermost first."""
        for _ in range(_MOST_UP):
            if self.view.is_file(folder, "conftest.py"):
                yield self.base(folder + os.sep + "conftest.py")
            if folder == self._root or os.path.dirname(folder) == folder:
                return
            folder = os.path.dirname(folder)

    def _project_root(self, folder: str) -> str | None:
        """Return the nearest folder, from one upwards, that looks like the root of a project."""
        for _ in range(_MOST_UP):
            names = self.view.listing(folder).names
            if any(mark in names for mark in MARKS):
                return folder
            if os.path.dirname(folder) == folder:
                return None
            folder = os.path.dirname(folder)
        return None

    # -- guesses ----------------------------------------------------------------------------------------------

    def _guessed(self, parts: list[str], importer: str) -> Found | None:
        """Return what lies above the importing file, else the one nearest to it in the project; None in doubt."""
        folder = os.path.dirname(importer)
        trail = _Trail()
        for _ in range(_MOST_ABOVE):
            found = self._walk([Place(folder, True)], parts, trail, absolute=False)
            if found is not None and found.file is not None:
                self._roots.setdefault(found.file, folder)
                return found
            if ".git" in self.view.listing(folder).names or os.path.dirname(folder) == folder:
                break
            folder = os.path.dirname(folder)
        if self._root is None:
            return None
        if self._homes is None:
            self._homes = self._modules_of(self._root)
        here = os.path.dirname(importer)
        best: list[tuple[Found, str]] = []
        nearest = -1
        for home in self._homes.get(parts[0], ()):
            shared = _shared(home, here)
            if shared < nearest:
                continue
            found = self._walk([Place(home, True)], parts, trail, absolute=False)
            if found is None or found.file is None:
                continue
            if shared > nearest:
                nearest, best = shared, []
            best.append((found, home))
        if len(best) != 1:
            return None
        found, home = best[0]
        if found.file is not None:
            self._roots.setdefault(found.file, home)
        return found

    def _modules_of(self, root: str) -> dict[str, list[str]]:
        """Where in a project a module or package of each name lies, some folders deep."""
        known = _projects.get(root)
        if known is not None and all(self.view.listing(folder) is listing for folder, listing in known[0].items()):
            return known[1]
        homes: dict[str, list[str]] = {}
        seen: dict[str, Listing] = {}
        level = [root]
        for depth in range(_MOST_DEPTH + 1):
            below: list[str] = []
            for folder in level:
                if len(seen) >= _MOST_FOLDERS:
                    break
                listing = seen[folder] = self.view.listing(folder)
                if "pyvenv.cfg" in listing.names:
                    continue
                for name in listing.names:
                    homes.setdefault(name.removesuffix(".py"), []).append(folder)
                if depth < _MOST_DEPTH:
                    below += [
                        folder + os.sep + name
                        for name in listing.folders
                        if not name.startswith(".") and name not in SKIPPED
                    ]
            level = below
        while len(_projects) >= _KEPT_PROJECTS:
            _projects.pop(next(iter(_projects), root), None)
        _projects[root] = (seen, homes)
        return homes

    def _holds_modules(self, folders: Sequence[str]) -> bool:
        """Whether a namespace package has anything in it that can be imported, right there or a folder below."""
        for folder in folders:
            listing = self.view.listing(folder)
            if any(name.endswith(".py") for name in listing.names):
                return True
            for name in listing.folders[:50]:
                if any(inner.endswith(".py") for inner in self.view.listing(folder + os.sep + name).names):
                    return True
        return False

    # -- paths ------------------------------------------------------------------------------------------------

    def _absolute(self, path: str) -> str:
        return path if os.path.isabs(path) else os.path.normpath(os.path.join(self._here or _working_directory(), path))

    def _as_given(self, found: Found | None) -> Found | None:
        """Return what was found, with its file written as the program's file was given: relative where that was."""
        if found is None or found is _LIBRARY or found.file is None:
            return None if found is _LIBRARY else found
        if found.file == self._root_file:
            return Found(self._given, found.folders)
        if not self._relative:
            return found
        for top in (self._here, self._folder):
            if found.file.startswith(top.rstrip(os.sep) + os.sep):
                return Found(os.path.relpath(found.file, self._here), found.folders)
        return found


def _with_src(folder: str) -> tuple[Place, Place]:
    """Return the places that a project's folder stands for."""
    return Place(folder, True), Place(folder + os.sep + "src", True)


def _by_folder(places: Iterable[Place]) -> dict[str, Place]:
    """Return the first place of each folder."""
    found: dict[str, Place] = {}
    for place in places:
        found.setdefault(place.folder, place)
    return found


def _working_directory() -> str:
    try:
        return os.getcwd()
    except OSError:
        # It was deleted.
        return os.sep


def _shared(left: str, right: str) -> int:
    """How many folders two paths have in common, from the top."""
    pairs = zip(left.split(os.sep), right.split(os.sep))
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def torch_of(project: Project) -> str | None:
    """Return the torch that a program runs with: as its project says, else as its environment has it, else None."""
    return project.configuration.torch_version or Search(project.path, project=project).version_of("torch")
