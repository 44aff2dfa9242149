"""The layers of the dry run: each imports those below it only (tests/test_house.py holds the rooms)."""

from __future__ import annotations

import pytest

from tests.imports import EDGES, HOUSE, part

DRY_RUN = f"{HOUSE}.interpret"

LAYERS = (
    ("limits",),
    ("values",),
    ("state",),
    ("engine",),
    ("objects",),
    ("python", "library"),
    ("machine",),
    ("explore",),
)
"""The parts of `interpret`, lowest first: each imports those before it; parts side by side do not know each other."""


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
