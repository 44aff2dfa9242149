"""Which ops give back the very tensor that they are given, against the torch that is installed."""

from __future__ import annotations

import importlib.metadata
import json

import pytest

from tools.torchlab.itself import STORED, measure


def test_the_table_holds_for_the_torch_that_is_installed() -> None:
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    if importlib.metadata.version("torch").partition("+")[0] != stored["torch"]:
        pytest.skip("measured with another torch")
    assert measure() == stored
