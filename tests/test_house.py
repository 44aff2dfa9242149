"""The rooms of the house, as docs/architecture.md says: imports go one way, and no two modules need each other."""

from __future__ import annotations

import ast
import itertools
from pathlib import Path

import pytest

from tapecheck.fixes.proposed import strategies_of
from tapecheck.record.decided import verdict_of
from tapecheck.rules import ALL, Rule
from tests import figures
from tests.imports import EDGES, HOUSE, ROOT, cycle, graph, part

ROOMS: dict[str, set[str]] = {
    "version": set(),
    "agents": {"record"},
    "tape": set(),
    "torchfacts": set(),
    "source": {"tape"},
    "rules": {"tape"},
    "interpret": {"source", "tape", "torchfacts"},
    "check": {"interpret", "rules", "source", "tape", "torchfacts"},
    "fixes": {"check", "rules", "source", "tape", "torchfacts"},
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

RULES = {path.parent.name for path in (ROOT / "rules").glob("*/__init__.py")}
"""The folders of rules."""
ELSEWHERE = {"fixes": "fixes", "verdict": "record"}
"""The files of a rule that belong to another room than `rules`."""
ASKS = {
    "gradient_cut": {"term_without_effect", "untrained_parameter"},
    "donated_buffers": {"compiled_double_backward"},
    "graph_kept": {"gradient_cut"},
    "needless_graph": {"backward_without_graph", "gradient_cut", "graph_kept", "growing_chain"},
    "needless_retain_graph": {"missing_create_graph"},
    "term_without_effect": {"untrained_parameter"},
}
"""The rules whose judgement depends on what others find or report."""

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


def room(name: str) -> str:
    """Return the room that a module belongs to."""
    rule = of_rule(name)
    return ELSEWHERE.get(rule[1], "rules") if rule is not None else part(name, HOUSE)


def of_rule(name: str) -> tuple[str, str] | None:
    """Return the rule that a module is part of, and its name in that folder; None for any other module."""
    _, _, rest = name.partition(f"{HOUSE}.rules.")
    folder, _, file = rest.partition(".")
    return (folder, file) if folder in RULES else None


def test_no_two_modules_need_each_other() -> None:
    circle = cycle(EDGES)
    assert not circle, " -> ".join(circle)


@pytest.mark.parametrize("one", sorted(ROOMS))
def test_a_room_imports_what_architecture_says(one: str) -> None:
    used = {room(other) for name, others in EDGES.items() if room(name) == one for other in others}
    assert used - {one} <= ROOMS[one]


def test_every_room_has_its_place() -> None:
    assert {room(name) for name in EDGES} == ROOMS.keys()


def test_the_rooms_are_in_one_order() -> None:
    assert not cycle(ROOMS)


def test_a_rule_imports_what_rules_share_and_no_other_rule_but_those_it_asks() -> None:
    asked: dict[str, set[str]] = {}
    for name, others in EDGES.items():
        mine = of_rule(name)
        for other, theirs in ((other, of_rule(other)) for other in others):
            if room(name) != "rules" or theirs is None or (mine is not None and mine[0] == theirs[0]):
                continue
            assert mine is not None and mine[1] == theirs[1] == "rule", f"{name} imports {other}"
            asked.setdefault(mine[0], set()).add(theirs[0])
    assert asked == ASKS


def test_the_fixes_and_the_verdict_of_a_rule_are_loaded_by_its_name_alone() -> None:
    for name, others in EDGES.items():
        for other in others:
            theirs = of_rule(other)
            if theirs is not None and theirs[1] in ELSEWHERE:
                assert of_rule(name) is not None, f"{name} imports {other}"


@pytest.mark.parametrize("rule", ALL, ids=lambda rule: rule.name)
def test_a_rule_has_all_that_belongs_to_one(rule: Rule) -> None:
    """A rule without fixes has an empty tuple of strategies; what has nothing to say of a run returns None."""
    assert rule.page.invalid and rule.page.valid
    assert isinstance(strategies_of(rule.code), tuple) and all(map(callable, strategies_of(rule.code)))
    assert callable(verdict_of(rule.code))


def test_each_folder_of_rules_is_a_rule() -> None:
    assert {rule.folder.rpartition(".")[2] for rule in ALL if rule.folder.startswith(HOUSE)} == RULES


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


MEAN, ABOVE, MOST = 4.82, 95, 29
"""Complexity: on average, how many functions are above 15, and the largest one."""
ASKED = {"values": 858, "syntax": 195}
"""How often the dry run asks for the kind of a value, and of a node of the text."""
FIELDS, LARGE = 35, 31
"""The fields of the largest class, and how many classes have more than 15."""
ANYTHING = 100
"""How often a type is `Any`."""


def test_functions_do_one_thing() -> None:
    """A limit that the code has come below is lowered; a function that does more is split by what it does."""
    found = dict(figures.functions())
    above = sorted((ways, where) for where, ways in found.items() if ways > 15)
    assert len(above) <= ABOVE and above[-1][0] <= MOST, above
    assert sum(found.values()) / len(found) <= MEAN


def test_objects_have_few_fields() -> None:
    large = sorted((count, where) for where, count in figures.classes() if count > 15)
    assert len(large) <= LARGE and large[-1][0] <= FIELDS, large


def test_what_a_value_does_is_asked_of_it_and_not_of_its_type() -> None:
    """A new kind of value is one file in `interpret/values`: who asks values for their kind has to learn of it."""
    found = figures.asked("interpret")
    assert all(found[what] <= most for what, most in ASKED.items()), found
    assert figures.anything() <= ANYTHING


def test_the_figures_count_as_they_say() -> None:
    text = """
class Pair:
    __slots__ = ("left", "right", "__weakref__")
    kind: ClassVar[str] = ""

    def both(self, given):
        self.seen = [one for one in given if one and self.left]
        def inner():
            if given:
                return 1
        for one in given:
            pass
        else:
            return inner() if one else None
"""
    cls = ast.parse(text).body[0]
    assert isinstance(cls, ast.ClassDef) and figures.fields(cls) == {"left", "right", "seen"}
    methods = {node.name: node for node in ast.walk(cls) if isinstance(node, ast.FunctionDef)}
    assert {name: figures.complexity(node) for name, node in methods.items()} == {"both": 7, "inner": 2}


def test_the_tests_bind_each_constant_once() -> None:
    """A second program under the name of a first takes its place in the tests above: they test something else then."""
    again: list[str] = []
    for path in sorted(Path(__file__).parent.rglob("test_*.py")):
        bound: set[str] = set()
        for statement in ast.parse(path.read_text(encoding="utf-8")).body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if name.isupper():
                    read = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
                    # What is made of what already has the name, `SPAWNED = f"{_HEAD}..."` of its parts, is one program.
                    again += [f"{path.name}: {name}"] if name in bound and not read else []
                    bound.add(name)
    assert again == []
