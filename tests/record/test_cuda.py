"""The checks of the recorder on a GPU; skipped, and saying so, where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.record.cuda import CHECKS, Check, Machine, gpu_of
from tests.record.harness import PYTHON


@pytest.fixture(scope="module")
def device() -> str:
    """The device, where there is a GPU."""
    try:
        gpu_of(PYTHON)
    except LookupError as error:
        pytest.skip(f"{error}: the same programs run on the CPU by `python tests/record/cuda.py --cpu`")
    return "cuda"


@pytest.mark.parametrize("item", CHECKS, ids=[item.name.replace(" ", "-") for item in CHECKS])
def test_on_a_gpu(item: Check, device: str, tmp_path: Path) -> None:
    assert item.check(Machine(PYTHON, device, tmp_path))


def test_the_same_programs_on_the_cpu(tmp_path: Path) -> None:
    # The one that takes longest to go wrong unseen; the others are rows of the command's table.
    item = next(item for item in CHECKS if item.name == "memory runs out")
    assert "of graphs built at script.py:" in item.check(Machine(PYTHON, "cpu", tmp_path))
