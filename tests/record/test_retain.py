"""Whether a retained graph was needed: what a run says, against reruns without the flag."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.record import retain


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the programs are forked from one that has torch loaded")
def test_no_verdict_is_wrong() -> None:
    tally: Counter[str] = Counter()
    problems = retain.wrong(retain.programs(60), tally)
    assert not problems, "\n\n".join(problems)
    assert tally["needed, refuted"] > 20 and tally["needless, confirmed"] > 20, tally
