"""Conditions of several parts: what some answers to them lead past is possible, as with the parts in conditions of
their own.
"""

from __future__ import annotations

import itertools

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

PARTS = {
    "files": ("open('a').read()", "open('b').read()"), "hidden": ("hidden.one()", "hidden.two()"),
    "data": ("torch.rand(1) > 0.5", "torch.rand(1) > 0.5"),
}  # fmt: skip
TESTS = {
    "one": "{0}", "and": "{0} and {1}", "or": "{0} or {1}", "neither": "not ({0} or {1})",
    "not both": "not ({0} and {1})",
    "but not": "{0} and not {1}", "constant": "({0} and {1}) and True",
}  # fmt: skip
FORMS = {
    "left": "for _ in range(4):\n    loss.backward()\n    if {}:\n        break\n",
    "left early": "for _ in range(4):\n    if {}:\n        break\n    loss.backward()\n",
    "while": "while True:\n    loss.backward()\n    if {}:\n        break\n",
    "around": "loss.backward()\nif {}:\n    loss.backward()\n",
}


WAYS = [
    (parts, test, form)
    for parts, test, form in itertools.product(PARTS, TESTS, FORMS)
    # Data leads to each branch at some time.
    if (parts, form) != ("data", "around")
]


@pytest.mark.parametrize(("parts", "test", "form"), WAYS)
def test_what_an_answer_leads_past_is_possible(parts: str, test: str, form: str) -> None:
    asked = FORMS[form].format(TESTS[test].format(*PARTS[parts]))
    text = f"import torch\nimport hidden\nw = torch.ones(3, requires_grad=True)\nloss = (w * w).sum()\n{asked}"
    found = [one for one in check(from_text(text, "program.py")).findings if one.code == "TAPE101"]
    assert [one.certain for one in found] == [False]
