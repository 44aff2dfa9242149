"""The user's modules: resolved to source files of the same project, read and parsed, never imported.

A module beside the importing file or above it is found by its name. Where the project keeps its packages elsewhere
(a `src` folder, a sibling package), jedi is asked. jedi runs in this process and is told not to start the
interpreters it finds in the workspace.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from tapecheck.interpret.values import (
    Class,
    Dict,
    Env,
    Generator,
    Instance,
    Lib,
    List,
    Module,
    Set,
    Tensor,
    Unknown,
    Value,
)
from tapecheck.source import Source, SourceError, read_source

if TYPE_CHECKING:
    from tapecheck.interpret.machine import Machine

_MAX_PARENTS = 4
_MAX_UP = 8
_MAX_FILES = 5_000
_SKIPPED = frozenset(["node_modules", "venv", "env", "build", "dist", "site-packages", "__pycache__"])
_KNOWN = frozenset(
    [
        "torch",
        "numpy",
        "math",
        "os",
        "sys",
        "time",
        "random",
        "collections",
        "functools",
        "itertools",
        "copy",
        "typing",
        "dataclasses",
        "argparse",
        "logging",
        "json",
        "pathlib",
        "re",
        "abc",
        "enum",
        "contextlib",
        "warnings",
        "datetime",
        "glob",
        "pickle",
        "shutil",
        "string",
        "operator",
        "types",
    ]
)


@dataclass(slots=True)
class Project:
    """Finds and parses the modules that a file imports; one for each analysed file.

    `parsed` may be shared between analyses: sources by path with the modification time they were read at.
    `settled` are modules without state of their own, run once for all ways through the program.
    """

    root_file: str
    parsed: dict[str, tuple[float, Source]] = field(default_factory=dict)
    settled: dict[str, Module] = field(default_factory=dict)
    found: dict[tuple[str, str], str | None] = field(default_factory=dict)

    def import_module(self, machine: Machine, name: str, level: int, from_file: str) -> Value:
        """The module of that name: run from its source where it is the user's, else a library name."""
        top = name.split(".")[0]
        if level == 0 and top in _KNOWN:
            return _library(name)
        path = self.find(name, level, from_file)
        if path is None:
            return _library(name) if level == 0 else _library(f"relative.{name}")
        loaded = machine.modules.get(path) or self.settled.get(path)
        if loaded is not None:
            return loaded
        source = self._source(path)
        if source is None:
            return _library(name)
        env = Env(None, None)
        module = Module(name, path, env, source.lines, source)
        env.vars["__module__object"] = module
        machine.modules[path] = module
        before = len(machine.world.tape.events)
        machine.run_module(module, source.tree, name)
        if len(machine.world.tape.events) == before and _stateless(module):
            self.settled[path] = module
        return module

    def settled_module(self, path: str) -> Module | None:
        """A module that has been run and holds no state of its own; its unknown globals are new again."""
        module = self.settled.get(path)
        if module is not None:
            for name, value in module.env.vars.items():
                if isinstance(value, Unknown):
                    fresh = Unknown(value.name, None, value.cuts)
                    fresh.data = value.data
                    module.env.vars[name] = fresh
        return module

    def settle(self, module: Module) -> None:
        """Keep a module for the next way through the program where running it again would change nothing."""
        if _stateless(module, unknown_too=True):
            self.settled[module.path] = module

    def forget(self, path: str) -> None:
        """Run a module anew the next time."""
        self.settled.pop(path, None)

    def find(self, name: str, level: int, from_file: str) -> str | None:
        """The file of a module that lies beside the importing file or above it."""
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
            return _module_file(folder, parts)
        for _ in range(_MAX_PARENTS):
            found = _module_file(folder, parts)
            if found is not None:
                return found
            if folder == folder.parent:
                break
            folder = folder.parent
        return self._ask_jedi(name, from_file)

    def _ask_jedi(self, name: str, from_file: str) -> str | None:
        """The file of a module that lies elsewhere in the project."""
        root = _project_root(Path(from_file))
        if root is None:
            return None
        homes = _homes(str(root)).get(name.split(".")[0])
        if not homes:
            return None
        import jedi

        project = jedi.Project(root, added_sys_path=sorted(homes), load_unsafe_extensions=False, smart_sys_path=False)
        script = jedi.Script(
            f"import {name} as found\n", path=from_file, project=project, environment=jedi.InterpreterEnvironment()
        )
        try:
            definitions = script.goto(1, len(f"import {name} as f"), follow_imports=True)
        except Exception:  # jedi raises what it likes on odd code; an import that can't be resolved is a library's
            return None
        for definition in definitions:
            path = definition.module_path
            if path is not None and path.suffix == ".py" and root in path.parents:
                return str(path)
        return None

    def _source(self, path: str) -> Source | None:
        try:
            changed = Path(path).stat().st_mtime
            known = self.parsed.get(path)
            if known is not None and known[0] == changed:
                return known[1]
            source = read_source(path)
        except (OSError, SourceError):
            return None
        self.parsed[path] = (changed, source)
        return source


def _project_root(file: Path) -> Path | None:
    """The nearest folder above a file that looks like the root of a project."""
    try:
        parents = file.resolve().parents
    except OSError:
        return None
    for folder in list(parents)[:_MAX_UP]:
        if any((folder / mark).exists() for mark in ("pyproject.toml", "setup.py", "setup.cfg", ".git")):
            return folder
    return None


@lru_cache(maxsize=32)
def _homes(root: str) -> dict[str, set[str]]:
    """Where in a project a top-level module of each name lies, three folders deep at most."""
    homes: dict[str, set[str]] = {}
    seen = 0
    for folder, folders, files in os.walk(root):
        depth = len(Path(folder).relative_to(root).parts)
        folders[:] = (
            [name for name in folders if not name.startswith(".") and name not in _SKIPPED] if depth < 3 else []
        )
        for name in files:
            if name.endswith(".py"):
                homes.setdefault(name[:-3], set()).add(folder)
        for name in folders:
            homes.setdefault(name, set()).add(folder)
        seen += len(files)
        if seen > _MAX_FILES:
            break
    return homes


def _module_file(folder: Path, parts: list[str]) -> str | None:
    base = folder.joinpath(*parts) if parts else folder
    for candidate in ([base.with_suffix(".py")] if parts else []) + [base / "__init__.py"]:
        if candidate.is_file():
            return str(candidate)
    return None


def _stateless(module: Module, *, unknown_too: bool = False) -> bool:
    """Whether a module only defines things: no container or object that a run could change.

    An unknown value remembers what it was asked; `unknown_too` allows it among the globals.
    """
    for name, value in module.env.vars.items():
        if name.startswith("__") or (unknown_too and isinstance(value, Unknown) and value.leaf is None):
            continue
        if isinstance(value, Class):
            members = [member for member in value.namespace.values() if isinstance(member, _STATE)]
            if members:
                return False
        elif isinstance(value, _STATE) or (
            isinstance(value, tuple) and any(isinstance(item, _STATE) for item in value)
        ):
            return False
    return True


_STATE = (List, Dict, Set, Instance, Unknown, Tensor, Generator)


def _library(name: str) -> Value:
    return Lib(name)
