"""The layers of the dry run and the rooms of the house: imports go one way, and no two files need each other.

Imports under TYPE_CHECKING and those inside functions count like any other.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "server" / "tapecheck"
HOUSE = "tapecheck"
DRY_RUN = f"{HOUSE}.interpret"

LAYERS = (
    ("limits",),
    ("values",),
    ("world",),
    ("engine",),
    ("objects",),
    ("python", "library"),
    ("machine",),
    ("explore",),
)
"""The parts of `interpret`, lowest first: each imports those before it; parts side by side do not know each other."""

ROOMS: dict[str, set[str]] = {
    "tape": set(),
    "torchfacts": set(),
    "source": {"tape"},
    "rules": {"tape"},
    "interpret": {"source", "tape", "torchfacts"},
    "check": {"interpret", "tape", "rules", "source", "torchfacts"},
    "fixes": {"check", "rules", "source", "tape"},
    "report": {"fixes", "rules", "source", "tape"},
    "record": {"fixes", "report", "rules", "source", "tape"},
}
"""What each room of docs/architecture.md may import."""

LAST = {"cli", "lsp", "pytest_plugin"}
"""The ways in: they may import all of the rooms, and no room imports them."""


def modules(root: Path, name: str) -> dict[str, ast.Module]:
    """The parsed files of a package, by their dotted names."""
    found = {}
    for file in sorted(root.rglob("*.py")):
        parts = file.relative_to(root).with_suffix("").parts
        dotted = ".".join((name, *(parts[:-1] if parts[-1] == "__init__" else parts)))
        found[dotted] = ast.parse(file.read_text(encoding="utf-8"))
    return found


def imports(name: str, tree: ast.Module, known: set[str], packages: set[str]) -> set[str]:
    """The modules among `known` that a file imports, wherever in the file it does."""
    home = name if name in packages else name.rpartition(".")[0]
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
    return (found & known) - {name}


def graph(root: Path, name: str) -> dict[str, set[str]]:
    trees = modules(root, name)
    packages = {one for one in trees if any(other.startswith(one + ".") for other in trees)}
    return {one: imports(one, tree, set(trees), packages) for one, tree in trees.items()}


def cycle(edges: dict[str, set[str]]) -> list[str]:
    """One circle of imports; empty where there is none."""
    done: set[str] = set()
    for start in edges:
        path: list[str] = []
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
    """The room or layer that a module belongs to; nothing where it is the package itself."""
    return name.removeprefix(of).lstrip(".").partition(".")[0]


EDGES = graph(ROOT, HOUSE)


def test_no_two_files_of_the_dry_run_need_each_other() -> None:
    inside = {name: others for name, others in EDGES.items() if name.startswith(DRY_RUN)}
    circle = cycle({name: {other for other in others if other in inside} for name, others in inside.items()})
    assert not circle, " -> ".join(circle)


def test_every_part_of_the_dry_run_has_a_layer() -> None:
    parts = {part(name, DRY_RUN) for name in EDGES if name.startswith(f"{DRY_RUN}.")}
    assert parts == {name for layer in LAYERS for name in layer}


@pytest.mark.parametrize("name", sorted(name for name in EDGES if name.startswith(f"{DRY_RUN}.")))
def test_a_layer_imports_those_below_it_only(name: str) -> None:
    height = {one: place for place, layer in enumerate(LAYERS) for one in layer}
    mine = part(name, DRY_RUN)
    wrong = {
        other
        for other in EDGES[name]
        if other.startswith(DRY_RUN)
        and part(other, DRY_RUN) != mine
        and height.get(part(other, DRY_RUN), len(LAYERS)) >= height[mine]
    }
    assert not wrong


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_a_room_imports_what_architecture_says(room: str) -> None:
    used = {part(other, HOUSE) for name, others in EDGES.items() if part(name, HOUSE) == room for other in others}
    assert used - {room, ""} <= ROOMS[room]


def test_every_room_has_its_place() -> None:
    rooms = {part(name, HOUSE) for name in EDGES} - {"", "__main__"}
    assert rooms == {*ROOMS, "cli", "lsp", "pytest_plugin"}
    assert all(
        part(other, HOUSE) not in ("cli", "lsp", "pytest_plugin")
        for name, others in EDGES.items()
        if part(name, HOUSE) in ROOMS
        for other in others
    )


def test_the_parts_see_an_import_wherever_it_stands(tmp_path: Path) -> None:
    files = {
        "__init__.py": "",
        "a.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.b import B\n",
        "b.py": "def f():\n    from p.inner import c\n",
        "inner/__init__.py": "",
        "inner/c.py": "from .. import a\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    edges = graph(tmp_path, "p")
    assert edges["p.a"] == {"p.b"}
    assert edges["p.b"] == {"p.inner.c"}
    assert edges["p.inner.c"] == {"p.a"}
    assert cycle(edges) == ["p.a", "p.b", "p.inner.c", "p.a"]
    assert not cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()})
