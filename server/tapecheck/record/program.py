"""What a program consists of: the files of its own that it brings in, and what runs a file of a library."""

from __future__ import annotations

import ast
import itertools
import os
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tapecheck.source import Source
from tapecheck.source.disk import is_file
from tapecheck.source.folders import MARKS
from tapecheck.source.modules import Modules, Sources
from tapecheck.source.nodes import id_of
from tapecheck.source.project import Setup

_MAX_FILES = 60
_LIBRARY = sys.stdlib_module_names | {"torch", "numpy"}
_FOREIGN = ("site-packages", "dist-packages", ".venv", "node_modules")


@dataclass(frozen=True, slots=True)
class Entry:
    """What `run` in the project's pyproject.toml says: a script or, with `module`, a module, and its arguments.

    It is run in `folder`, the one that the pyproject.toml lies in.
    """

    folder: str
    script: str
    args: tuple[str, ...] = ()
    module: bool = False
    launcher: tuple[str, ...] = ()


def entry_for(path: str, setup: Setup | None = None) -> Entry | None:
    """Return the command that the project of a file is configured to be run by; None where there is none."""
    project = (setup or Setup()).configuration_for(path)
    if not project.run or project.file is None:
        return None
    first, *rest = project.run
    module = first == "-m"
    if module and not rest:
        return None
    script, arguments = (rest[0], rest[1:]) if module else (first, rest)
    return Entry(str(Path(project.file).parent), script, tuple(arguments), module, project.launcher)


def runs_itself(source: Source) -> bool:
    """Return whether running a file does more than to define what others use: calls, loops, a `__main__` part."""
    if source.cells is not None:
        return True
    return any(
        isinstance(statement, (ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith))
        or (isinstance(statement, ast.Expr) and isinstance(statement.value, (ast.Call, ast.Await)))
        or (isinstance(statement, ast.If) and any(id_of(node) == "__name__" for node in ast.walk(statement.test)))
        for statement in source.tree.body
    )


def own_of(start: str, named: Iterable[str] = ()) -> list[str]:
    """Return the files and folders that are a program's own wherever it is started: what is `named`, and what belongs
    to the program of `start`, its first file or the folder it begins in, and of each named file.
    """
    files = sorted({str(Path(file).absolute()) for file in named})
    folders = {folder for file in (start, *files) for folder in own_folders(file)}
    return [*files, *sorted(folders)]


def own_folders(path: str, setup: Setup | None = None) -> list[str]:
    """Return the folders whose files belong to the program of a file: its package or else its folder, its project, the
    configured extra paths. `path` may be a folder, too.
    """
    place = Path(path).resolve()
    above = [place, *place.parents] if place.is_dir() else list(place.parents)
    packages = list(itertools.takewhile(lambda folder: is_file(folder / "__init__.py"), above))
    found = packages[-1:] or above[:1]
    home = Path(os.path.expanduser("~"))  # noqa: PTH111 - where there is no home, that stays as it is
    # What marks a whole home directory, or all of a disk, marks no project.
    wide = {above[-1], home, *home.parents}
    for marks in (MARKS, (".git",)):
        marked = (folder for folder in above if any((folder / mark).exists() for mark in marks))
        found += [folder for folder in itertools.islice(marked, 1) if folder not in wide]
    project = (setup or Setup()).configuration_for(str(place))
    if project.file is not None:
        found += [(Path(project.file).parent / folder).resolve() for folder in project.extra_paths]
    return list(dict.fromkeys(map(str, found)))


def files_of(
    start: Iterable[str], arguments: Sequence[str] = (), directory: str | None = None, setup: Setup | None = None
) -> list[str]:
    """Return the project's own files that a program leads to, by their imports; `start` are its first ones and come
    first.

    They lie in the working directory or in the project of the first one. Arguments that name Python files
    (`tests/test_x.py::test_y`) are such, too. Names are relative to the working directory where the files lie below it.
    Only text is read, nothing is imported.
    """
    root = Path(directory or ".").resolve()
    named = [path for argument in arguments for path in _named(argument, root)]
    queue = deque(dict.fromkeys([*(str((root / path).resolve()) for path in start), *named]))
    seen = dict.fromkeys(queue)
    sources = Sources()
    first = next(iter(queue), str(root))
    modules = Modules(first, sources, setup.project_of(first) if setup is not None else None)
    roots = [root, *map(Path, own_folders(first, setup))]
    found: list[str] = []
    while queue and len(found) < _MAX_FILES:
        path = queue.popleft()
        source = sources.get(path)
        if source is None:
            continue
        found.append(os.path.relpath(path, root) if Path(path).is_relative_to(root) else path)
        for resolved in _led_to(source.tree, path, modules):
            if resolved not in seen and any(_own(Path(resolved), one) for one in roots):
                seen[resolved] = None
                queue.append(resolved)
    return found


def _led_to(tree: ast.AST, path: str, modules: Modules) -> Iterator[str]:
    """Yield the files that the imports of a file lead to, those of the standard library left out."""
    for name, level in _imports(tree):
        if level or name.partition(".")[0] not in _LIBRARY:
            other = modules.find(name, level, path)
            if other is not None:
                yield str(Path(other).resolve())


def _named(argument: str, root: Path) -> Iterator[str]:
    name = argument.partition("::")[0]
    if name.endswith(".py") and not name.startswith("-") and is_file(root / name):
        yield str((root / name).resolve())


def _own(path: Path, root: Path) -> bool:
    return path.is_relative_to(root) and not any(part in _FOREIGN for part in path.relative_to(root).parts)


def _imports(tree: ast.AST) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, 0
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if base:
                yield base, node.level
            for alias in node.names:
                # What is imported from a package may be a module of it.
                yield f"{base}.{alias.name}" if base else alias.name, node.level
