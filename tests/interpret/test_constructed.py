"""Methods that the constructor of their class alone calls run once for each object: a second call is none of theirs."""

from __future__ import annotations

from typing import Any

import pytest

from tapecheck.check import check
from tapecheck.source import from_text
from tests.cases import under_torch

RUNS = {
    "changes a leaf in place": (
        "self.x = torch.zeros(3)",
        "self.x.add_(1)\n        self.x.requires_grad_()",
        "TAPE104",
    ),
    "walks its graph": (
        "self.x = torch.ones(3, requires_grad=True).exp()",
        "self.x.sum().backward()",
        "TAPE101",
    ),
    "gives it up": (
        "self.x = torch.ones(3, requires_grad=True)",
        "self.x.sum().backward()\n        self.x = self.x.detach()",
        "TAPE103",
    ),
}  # fmt: skip
AGAIN = {
    "nobody": ("", "Part()", False),
    "a method": ("def again(self):\n        self.run()", "Part().again()", True),
    "another class": ("", "part = Part()\npart.run()", True),
}
PROGRAM = """\
import torch


class Part:
    def __init__(self):
        {made}
        self.run()

    def run(self):
        {run}

    {again}
"""


@pytest.mark.skipif(not under_torch.has_torch(), reason="needs torch")
@pytest.mark.parametrize("called", AGAIN)
@pytest.mark.parametrize("run", RUNS)
def test_what_only_the_constructor_calls_is_called_once(run: str, called: str) -> None:
    (made, body, code), (again, use, fails) = RUNS[run], AGAIN[called]
    text = PROGRAM.format(made=made, run=body, again=again)
    space: dict[str, Any] = {}
    exec(text, space)
    if fails:
        with pytest.raises(RuntimeError):
            exec(use, space)
    else:
        exec(use, space)
    checked = text if called == "a method" or not fails else f"{text}\n\n{use}\n"
    told = [one.code for one in check(from_text(checked, "part.py")).findings]
    assert told == ([code] if fails else []), checked
