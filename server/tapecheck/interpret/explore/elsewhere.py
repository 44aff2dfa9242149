"""What the code of other files can do to graphs: what a piece of code calls of theirs, and what an import brings."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Container, Iterable, Iterator, Set

from tapecheck.interpret import limits
from tapecheck.interpret.explore.effects import Effect, Facts, speaks_of_autograd
from tapecheck.interpret.explore.index import index_of
from tapecheck.interpret.explore.present import Present, newest
from tapecheck.interpret.explore.shapes import Shapes, Side
from tapecheck.interpret.objects.syntax import root_of
from tapecheck.interpret.python.imports import LIBRARIES
from tapecheck.interpret.values import Dict, List, Module, Value, behaviour, function_of, user_class
from tapecheck.source import Source
from tapecheck.source.environment import installed
from tapecheck.source.importers import leads_to, statements_of
from tapecheck.source.modules import Modules
from tapecheck.source.nodes import bound_by_import, of_kind, walk

_BUILTINS = frozenset(dir(builtins))
_SCRIPT = "__main__"
_TRAINING = (".backward(", "autograd", "from torch", "import torch", "lightning")
"""What stands in the text of a module by which it takes part in training; prose alone does not count."""


def leads_to_autograd(source: Source, project: Modules) -> bool:
    """Return whether a file, or what a script imports of its project, has any of the names that lead to graphs."""
    if speaks_of_autograd(source):
        return True
    if _SCRIPT not in source.text and (installed(source.path) or not _acts(source, project)):
        return False
    seen, waiting = {source.path}, [source]
    while waiting and len(seen) <= limits.MOST_FOLLOWED:
        importer = waiting.pop(0)
        for path in _imported(importer, project):
            imported = project.source(path) if path not in seen else None
            if imported is None:
                continue
            if any(mark in imported.text for mark in _TRAINING):
                return True
            seen.add(path)
            waiting.append(imported)
    return False


def _imported(importer: Source, project: Modules) -> Iterator[str]:
    """Yield the files of the project that a file imports."""
    for one in statements_of(importer.text):
        if one.level or one.module.partition(".")[0] not in LIBRARIES:
            yield from leads_to(one, importer.path, project.locate, project.inside)


def _acts(source: Source, project: Modules) -> bool:
    """Return whether a module calls something of its own or of its project as it is run, for the sake of the call."""
    imported, called = _imported_and_called(source)
    for name in called - _BUILTINS:
        module, level = imported.get(name, ("", -1))
        library = not level and module.partition(".")[0] in LIBRARIES
        if level < 0 or (not library and project.find(module, level, source.path) is not None):
            return True
    return False


def _imported_and_called(source: Source) -> tuple[dict[str, tuple[str, int]], set[str]]:
    """Return the names that a module imports, with the module and level of the import, and those that it calls."""
    waiting: list[tuple[ast.stmt, bool]] = [(statement, False) for statement in source.tree.body]
    imported: dict[str, tuple[str, int]] = {}
    called: set[str] = set()
    while waiting:
        statement, looping = waiting.pop()
        imported.update(bound_by_import(statement))
        kind = type(statement)
        if kind is ast.Expr or (looping and kind in _ASSIGNMENTS):
            called |= _roots_called(statement)
        elif kind in _COMPOUND:
            within = [part for part in ast.iter_child_nodes(statement) if isinstance(part, ast.stmt)]
            waiting += [(part, looping or kind in _LOOPS) for part in within]
    return imported, called


_ASSIGNMENTS = (ast.Assign, ast.AugAssign)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_COMPOUND = (*_LOOPS, ast.If, ast.With, ast.AsyncWith, ast.Try)


def _roots_called(statement: ast.stmt) -> set[str]:
    """Return the names that the calls in a statement start with."""
    return {root_of(part.func) for part in of_kind(statement, ast.Call)} - {""}


def of_import(project: Modules, statement: ast.ImportFrom, file: str, loaded: Container[str]) -> int | None:
    """Return the effects of what an import brings, None where it leads to a file that speaks of autograd.

    `loaded` are the files that the path has run: an import runs none of them again.
    """
    effects = 0
    brings = _brings_names_of(project, statement, file)
    waiting = [(name, level, file) for name, level in _modules_of(statement)]
    seen = {file}
    while waiting:
        name, level, importer = waiting.pop()
        found = project.locate(name, level, importer)
        if found is None or (found.file is None and not found.folders):
            # Nobody looks into a library.
            continue
        asked_for = importer == file and name in brings
        if found.file in loaded and not asked_for:
            continue
        source = project.source(found.file) if found.file is not None else None
        if source is None or speaks_of_autograd(source):
            return None
        if source.path not in seen:
            seen.add(source.path)
            for body in index_of(source).defined.bodies:
                effects |= int(body.facts.effects)
            waiting += [(name, level, source.path) for name, level in _imported_by(source)]
    return effects


def _imported_by(source: Source) -> Iterator[tuple[str, int]]:
    """Yield the modules that a file may import, wherever in it, by name and level."""
    for part in walk(source.tree):
        if isinstance(part, (ast.Import, ast.ImportFrom)):
            yield from _modules_of(part)


def _brings_names_of(project: Modules, statement: ast.ImportFrom, file: str) -> set[str]:
    """Return the modules of an import that its names come from or are; of a package, submodules may be all it gives."""
    module, *within = [name for name, _ in _modules_of(statement)] or [""]
    submodules = all(project.locate(name, statement.level, file) is not None for name in within)
    return {*within} if within and submodules else {module, *within}


def of_calls(side: Side, present: Present, shapes: Shapes) -> int:
    """Return the effects of the functions of other files, and of methods of their objects, that a side calls.

    Opaque code may run a backward through whatever it is given.
    """
    effects = int(Effect.START) if present.asks_opaque(side) else 0
    return effects | of_names(side.read, side.facts, present, shapes)


def of_names(names: Iterable[str], facts: Facts, present: Present, shapes: Shapes) -> int:
    """Return the effects of what some names stand for: functions of other files, objects with methods of theirs and
    containers of such, modules with functions.
    """
    effects = 0
    for name in names if facts.called else ():
        effects |= of_value(present.value(name), facts.attributes, shapes, limits.DEPTH_OF_MEMBERS)
    return effects


def of_value(value: Value, attributes: Set[str], shapes: Shapes, depth: int) -> int:
    """Return the effects of what one value stands for, where code asks it and what is in it for some attributes."""
    if function_of(value) is not None:
        return _of_function(value, shapes)
    called: list[Value] = []
    if (made := user_class(value)) is not None:
        called = [cls.namespace[name] for cls in made.mro() for name in attributes & cls.namespace.keys()]
    elif isinstance(value, Module):
        called = [value.env.vars[name] for name in attributes & value.env.vars.keys()]
    effects = 0
    for one in called:
        effects |= _of_function(one, shapes)
    if depth and isinstance(value, (tuple, List, Dict)):
        for one in behaviour(newest(value)).children():
            effects |= of_value(one, attributes, shapes, depth - 1)
    return effects


def _of_function(value: Value, shapes: Shapes) -> int:
    """Return what a function of another file than the shapes are of does with all that it calls there."""
    function = function_of(value)
    if function is None or function.module.source is None:
        return 0
    index = index_of(function.module.source)
    # What stands in the same file is in the effects of the side itself.
    body = index.defined.body_of(function.node) if index is not shapes.index else None
    return int(index.calls.closure(body)) if body is not None else 0


def _modules_of(statement: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, int]]:
    """Yield the modules that an import may run, by name and level: a name that it brings may be one, too."""
    if isinstance(statement, ast.Import):
        names = [(alias.name, 0) for alias in statement.names]
    else:
        module = statement.module or ""
        within = [".".join(filter(None, (module, alias.name))) for alias in statement.names if alias.name != "*"]
        names = [(name, statement.level) for name in (module, *within)]
    for name, level in names:
        if level or name.partition(".")[0] not in LIBRARIES:
            yield name, level
