"""Imports: the user's modules are run from their source, every other one is a name of a library."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tapecheck.interpret.engine import Engine
from tapecheck.interpret.values import Env, Lib, Module, Unknown, Value, behaviour
from tapecheck.source.modules import Modules
from tapecheck.source.search import Found

LIBRARIES = frozenset((
    "torch", "numpy", "math", "os", "sys", "time", "random", "collections", "functools", "itertools", "copy",
    "typing", "dataclasses", "argparse", "logging", "json", "pathlib", "re", "abc", "enum", "contextlib",
    "warnings", "datetime", "glob", "pickle", "shutil", "string", "operator", "types",
))  # fmt: skip
"""Libraries that no file of a project stands for, whatever its name."""


@dataclass(slots=True)
class Imports:
    """Runs the modules that a program imports; one for each analysed file.

    `settled` are modules without state of their own, run once for all ways through the program.
    """

    project: Modules
    settled: dict[str, Module] = field(default_factory=dict)

    def import_module(self, machine: Engine, name: str, level: int, from_file: str) -> Value:
        """Return the module of that name: run from its source where it is the user's, else a library name."""
        top = name.split(".")[0]
        if level == 0 and top in LIBRARIES:
            return Lib(name)
        if level and "torch" in from_file:
            package = self._within_torch(from_file, level)
            if package:
                # Torch's own files import each other: what is in them is known as to every other program.
                return Lib(f"{package}.{name}" if name else package)
        found = self.project.locate(name, level, from_file)
        if found is None:
            return Lib(name) if level == 0 else Lib(f"relative.{name}")
        return self._load(machine, name, found)

    def _within_torch(self, file: str, level: int) -> str:
        """The package that a relative import in one of torch's own files goes out from; empty for any other file."""
        folder, names = Path(file).resolve().parent, []
        for _ in range(level - 1):
            folder = folder.parent
        while folder.name != "torch" and (folder / "__init__.py").is_file():
            names.append(folder.name)
            folder = folder.parent
        if folder.name != "torch" or not (folder / "_tensor.py").is_file():
            return ""
        return ".".join(["torch", *reversed(names)])

    def submodule(self, machine: Engine, package: Module, name: str) -> Value | None:
        """Return a submodule of a user's package, run from its source; None where the package has none of that name."""
        found = self.project.inside(package.folders, name) if package.folders else None
        return self._load(machine, f"{package.name}.{name}".lstrip("."), found) if found is not None else None

    def _load(self, machine: Engine, name: str, found: Found) -> Value:
        path = found.file or found.folders[0]
        loaded = machine.modules.get(path) or self.settled_module(path)
        if loaded is not None:
            machine.modules[path] = loaded
            return loaded
        if found.file is None:
            module = machine.modules[path] = Module(name, path, Env(None, None), None, found.folders)
            return module
        source = self.project.source(path)
        if source is None:
            return Lib(name)
        env = Env(None, None)
        module = Module(name, path, env, source, found.folders)
        machine.modules[path] = module
        events, modes = machine.world.writer.tape.events, machine.world.modes
        before = len(events), modes.in_force
        machine.run_module(module, source.tree, name)
        if (len(events), modes.in_force) == before and _stateless(module):
            self.settled[path] = module
        return module

    @property
    def imported(self) -> frozenset[str]:
        """The absolute paths of the files that imports have led to."""
        return frozenset(str(Path(path).absolute()) for path in self.project.found.values() if path is not None)

    def settled_module(self, path: str) -> Module | None:
        """Return a module that has been run and holds no state of its own; its unknown globals are new again."""
        module = self.settled.get(path)
        if module is not None:
            for name, value in module.env.vars.items():
                if isinstance(value, Unknown):
                    module.env.vars[name] = value.anew()
        return module

    def settle(self, module: Module) -> None:
        """Keep a module for the next way through the program where running it again would change nothing."""
        if _stateless(module, unknown_too=True):
            self.settled[module.path] = module

    def forget(self, path: str) -> None:
        """Run a module anew the next time."""
        self.settled.pop(path, None)


def _stateless(module: Module, *, unknown_too: bool = False) -> bool:
    """Whether a module only defines things: no container, object, closure or global that a run could change.

    An unknown value remembers what it was asked; `unknown_too` allows it among the globals, where it is renewed.
    """
    return not any(line.lstrip().startswith("global ") for line in module.lines) and all(
        name.startswith("__")
        or (unknown_too and isinstance(value, Unknown) and value.kept.leaf is None)
        or behaviour(value).is_inert()
        for name, value in module.env.vars.items()
    )
