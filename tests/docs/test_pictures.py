"""The pictures of the documentation are those that its programs make."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases import under_torch
from tools.docs import pictures

PROGRAMS = pictures.programs()


def test_every_picture_belongs_to_a_program() -> None:
    folder = pictures.PAGE.parent / "images" / "life"
    assert len(PROGRAMS) > 5
    assert set(PROGRAMS) == set(folder.glob("*.svg"))


@pytest.mark.skipif(not under_torch.has_torch(), reason="torch is not installed")
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_pictures_are_current(path: Path) -> None:
    assert pictures.picture(PROGRAMS[path], path.stem) == path.read_text(encoding="utf-8")
