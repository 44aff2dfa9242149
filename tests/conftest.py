"""What holds for every test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def _cache_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Commands that tests start keep their results in a folder of this run, not in the user's."""
    before = os.environ.get("TAPECHECK_CACHE_DIR")
    folder: Path = tmp_path_factory.mktemp("cache")
    os.environ["TAPECHECK_CACHE_DIR"] = str(folder)
    yield
    if before is None:
        del os.environ["TAPECHECK_CACHE_DIR"]
    else:
        os.environ["TAPECHECK_CACHE_DIR"] = before
