"""The rooms of the house, as docs/architecture.md says: imports go one way, and no two modules need each other."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.imports import EDGES, HOUSE, ROOT, cycle, graph, part

ROOMS: dict[str, set[str]] = {
    "version": set(),
    "agents": set(),
    "tape": set(),
    "torchfacts": set(),
    "source": {"tape"},
    "rules": {"tape"},
    "interpret": {"source", "tape", "torchfacts"},
    "check": {"interpret", "rules", "source", "tape", "torchfacts"},
    "fixes": {"check", "rules", "source", "tape"},
    "report": {"fixes", "rules", "source", "tape", "version"},
    "record": {"fixes", "report", "rules", "source", "tape"},
    "lsp": {"agents", "check", "fixes", "record", "report", "rules", "source", "tape", "torchfacts", "version"},
    "cli": {
        "agents", "check", "fixes", "interpret", "lsp", "record", "report", "rules", "source", "tape", "torchfacts",
        "version",
    },
    "pytest_plugin": {"check", "record", "report", "rules", "source"},
    "__main__": {"cli"},
    "": {"record", "version"},
}  # fmt: skip
"""What each room of docs/architecture.md may import; the last is the package's own `__init__`."""

SERVER = (
    ("client", "places", "settings", "document", "notebook", "frames", "garbage", "closed"),
    ("connection",),
    ("protocol", "running"),
    ("host",),
    ("features", "actions", "commands", "sync", "workspace"),
    ("wiring",),
    ("server",),
    ("__main__",),
)
"""The side of `lsp` that speaks the protocol, lowest first: what serves a message does not know who registers it."""


def test_no_two_modules_need_each_other() -> None:
    circle = cycle(EDGES)
    assert not circle, " -> ".join(circle)


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_a_room_imports_what_architecture_says(room: str) -> None:
    used = {part(other, HOUSE) for name, others in EDGES.items() if part(name, HOUSE) == room for other in others}
    assert used - {room} <= ROOMS[room]


def test_every_room_has_its_place() -> None:
    assert {part(name, HOUSE) for name in EDGES} == ROOMS.keys()


def test_the_rooms_are_in_one_order() -> None:
    assert not cycle(ROOMS)


def test_what_serves_a_message_does_not_know_who_registers_it() -> None:
    height = {name: place for place, layer in enumerate(SERVER) for name in layer}
    assert all((ROOT / "lsp" / f"{name}.py").is_file() for name in height)
    for name, other in itertools.product(height, height):
        if f"{HOUSE}.lsp.{other}" in EDGES[f"{HOUSE}.lsp.{name}"]:
            assert height[other] <= height[name], f"{name} imports {other}"


def test_an_import_is_seen_wherever_it_stands(tmp_path: Path) -> None:
    files = {
        "__init__.py": "",
        "a.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.b import B\n",
        "b.py": "def f():\n    from p.inner import c\n",
        "inner/__init__.py": "from .. import b",
        "inner/c.py": "import importlib\ndef f():\n    return importlib.import_module('p.d')\n",
        "d.py": "from . import a\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    edges = graph(tmp_path, "p")
    assert edges["p.a"] == {"p.b"}
    assert edges["p.b"] == {"p.inner.c"}
    assert edges["p.inner"] == {"p.b"}
    assert edges["p.inner.c"] == {"p.d"}
    assert edges["p.d"] == {"p.a"}
    assert cycle(edges) == ["p.a", "p.b", "p.inner.c", "p.d", "p.a"]
    assert not cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()})
