"""What `match` asks of a value that hidden code gives: a condition as any other, the same one as `is` and `==` ask."""

from __future__ import annotations

import itertools

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

SUBJECTS = ("flag", "cfg.flag", "ask()", "cfg['flag']")
PATTERNS = ("True", "False", "None", "'a'", "3", "True | 'a'", "[True, *_]", "{'on': True}")
BEHIND = "    case {pattern}:\n        again = True\n    case _:\n        again = False\n"
BEFORE = "    case {pattern} if now:\n        again = True\n    case _:\n        again = False\n"
HEAD = "import torch\nfrom hidden import ask, cfg, flag, now\n\nw = torch.ones(2, requires_grad=True)\n"
TAIL = "loss = (w * w).sum()\nloss.backward(retain_graph=True)\nif again:\n    loss.backward()\n"


def _certain(program: str) -> set[str]:
    return {one.code for one in check(from_text(program, "train.py")).findings if one.certain}


@pytest.mark.parametrize(("subject", "cases"), [*itertools.product(SUBJECTS, (BEHIND, BEFORE))])
def test_hidden_values_may_fit_any_pattern(subject: str, cases: str) -> None:
    for pattern in PATTERNS:
        program = f"{HEAD}match {subject}:\n{cases.format(pattern=pattern)}{TAIL}"
        assert not _certain(program), program


def test_what_a_pattern_asks_is_known_where_it_is_asked_again() -> None:
    """What fits `case True` is True: the second backward and the missing `retain_graph` exclude each other."""
    retains = "retain = False\nmatch flag:\n    case True:\n        retain = True\nloss = (w * w).sum()\n"
    again = "loss.backward(retain_graph=retain)\nif flag is True:\n    loss.backward()\n"
    found = check(from_text(HEAD + retains + again, "train.py")).findings
    assert "TAPE101" not in {one.code for one in found}


def test_known_values_fit_as_they_are() -> None:
    program = f"{HEAD}match 3:\n{BEHIND.format(pattern='True')}{TAIL}"
    assert _certain(program) == {"TAPE301"}
