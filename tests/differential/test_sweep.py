"""A sample of the sweep over all forms; the whole of it is `python -m tests.differential.sweep`."""

from __future__ import annotations

import importlib.util
import random

import pytest

from tests.differential import sweep
from tests.differential.truth import Truth

PROGRAMS = 200
SEED = 1
FLOOR = 0.985

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")


def test_every_case_is_a_program_of_its_own() -> None:
    texts = [case.text for case in sweep.cases()]
    assert len(texts) > 5_000
    assert len(set(texts)) > 0.99 * len(texts)


@needs_torch
def test_forms_by_themselves_are_judged_as_torch_judges_them() -> None:
    chosen = random.Random(SEED).sample(list(sweep.cases()), PROGRAMS)
    with Truth() as truth:
        answers = [(sweep.judge(case, truth)[0], case) for case in chosen]
    judged = [(answer, case) for answer, case in answers if answer != "discarded"]
    wrong = [f"{answer}: {case.form} | {case.question}" for answer, case in judged if answer != "agree"]
    assert len(judged) > 0.9 * PROGRAMS
    assert len(wrong) <= (1 - FLOOR) * len(judged), "\n".join(wrong)
