"""What goes wrong in a recorded run is told, and the docs say what (the faults: faults.py)."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.record.warm import Warm, available
from tests.soak import faults

pytestmark = pytest.mark.skipif(sys.platform != "linux" or not available(), reason="faults of Linux")
DOCS = Path(__file__).parents[2] / "docs" / "robustness.md"
SHORT = (
    "the program crashes", "the program is killed, as", "the program closes every open file", "no descriptors are left",
    "no room for the tape", "takes no files", "where a device is", "standard output is closed from the start",
    "SIGHUP", "Tapecheck itself is killed",
)  # fmt: skip


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pytest.importorskip("torch")
    with Warm(sys.executable, str(tmp_path_factory.mktemp("warm"))) as warm:
        yield warm.python


@pytest.mark.parametrize("part", SHORT)
def test_a_fault_is_told_and_leaves_nothing_behind(part: str, python: str) -> None:
    (fault,) = [one for one in faults.FAULTS if part in one.name]
    seen = faults.tried(fault, python)
    assert not seen.wrong, seen


def test_the_docs_have_every_fault_with_its_exit_status() -> None:
    rows = re.findall(r"^\| (.+?) \| .+ \| (-?\d+) \|$", DOCS.read_text(encoding="utf-8"), re.M)
    assert [row for row in rows if row[0] in {one.name for one in faults.FAULTS}] == [
        (one.name, str(one.status)) for one in faults.FAULTS
    ]
