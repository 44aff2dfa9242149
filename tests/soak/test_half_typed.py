"""An unfinished line in a real program costs next to none of its findings (the long form: half_typed.py)."""

from __future__ import annotations

import pytest

from tests.soak.half_typed import HEADERS, SIMPLE, trials


@pytest.mark.parametrize("texts", [HEADERS, SIMPLE], ids=["headers", "simple"])
def test_the_findings_of_the_rest_stay(texts: tuple[str, ...]) -> None:
    made = list(trials(100, 1, texts))
    losses = [trial for trial in made if trial.gone]
    # Some stand within the statement of a finding or change what the program means.
    assert len(losses) <= 3, losses
    assert sum(bool(trial.new) for trial in made) <= 3
