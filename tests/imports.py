"""Which module of a package imports which, read from the text.

Imports under TYPE_CHECKING, those inside functions and those by a name that is written out (`import_module("p.x")`)
count like any other. An import counts for the module that it names, not for the packages above it: each `__init__`
that hands on what is in its package would otherwise be needed by that.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Set
from pathlib import Path

HOUSE = "tapecheck"
ROOT = Path(__file__).parents[1] / "server" / HOUSE


def graph(root: Path, name: str) -> dict[str, set[str]]:
    """Return what each module of a package imports of that package, by dotted names."""
    trees = {}
    packages = set()
    for file in sorted(root.rglob("*.py")):
        parts = file.relative_to(root).with_suffix("").parts
        dotted = ".".join((name, *(parts[:-1] if parts[-1] == "__init__" else parts)))
        trees[dotted] = ast.parse(file.read_text(encoding="utf-8"))
        if parts[-1] == "__init__":
            packages.add(dotted)
    return {one: _imports(one, tree, trees.keys(), one in packages) for one, tree in trees.items()}


def _imports(name: str, tree: ast.Module, known: Set[str], is_package: bool) -> set[str]:
    home = name if is_package else name.rpartition(".")[0]
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = home.rsplit(".", node.level - 1)[0] if node.level > 1 else home
                base = f"{above}.{base}".rstrip(".")
            for alias in node.names:
                whole = f"{base}.{alias.name}"
                found.add(whole if whole in known else base)
        elif isinstance(node, ast.Call) and _called(node) in ("import_module", "__import__") and node.args:
            named = node.args[0]
            found |= {named.value} if isinstance(named, ast.Constant) and isinstance(named.value, str) else set()
    return (found & known) - {name}


def _called(node: ast.Call) -> str:
    function = node.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def cycle(edges: Mapping[str, Set[str]]) -> list[str]:
    """Return one circle of imports, its first module also at its end; empty where there is none."""
    done: set[str] = set()
    for start in edges:
        stack = [(start, iter(sorted(edges[start])))] if start not in done else []
        path = [start] if stack else []
        while stack:
            name, others = stack[-1]
            for other in others:
                if other in path:
                    return [*path[path.index(other) :], other]
                if other not in done:
                    stack.append((other, iter(sorted(edges[other]))))
                    path.append(other)
                    break
            else:
                done.add(name)
                stack.pop()
                path.pop()
    return []


def part(name: str, of: str) -> str:
    """Return the room or layer that a module belongs to; nothing where it is the package itself."""
    return name.removeprefix(of).lstrip(".").partition(".")[0]


EDGES = graph(ROOT, HOUSE)
