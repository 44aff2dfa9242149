"""The dry run against torch on generated programs whose models are wrapped; the long run is `wrapped.py`."""

from __future__ import annotations

import importlib.util

import pytest

from tests.differential.truth import Outcome, Truth
from tests.differential.wrapped import compare

SEEDS = range(30_000, 30_024)


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_dry_run_and_torch_agree_on_wrapped_models() -> None:
    told: dict[int, str] = {}

    def tell(seed: int, text: str, outcome: Outcome) -> None:
        told[seed] = f"torch {outcome.kind} at line {outcome.line}"

    with Truth() as truth:
        found = compare(SEEDS, truth, tell)
    assert not told
    # Programs that never fail, or always do, would show nothing.
    assert found.kinds["runs"] >= 3
    assert found.counts["agree"] - found.kinds["runs"] >= 3
