"""Loops over texts that conditions ask for, such as the layers of a configuration: each text is run; torch judges."""

from __future__ import annotations

import pytest

from tapecheck.check import check
from tapecheck.source import from_text
from tests.interpret.truth import torch_raises_at

PROGRAM = """\
import torch
from torch import nn
from torch.nn import functional as F

w = nn.Parameter(torch.randn(3, 3))
config = [CONFIG]


def forward(x, weights):
    HEADER
        if NAME == "linear":
            x = F.linear(x, weights)
        elif NAME == "double":
            x = x * 2
        elif NAME in ("flatten", "same"):
            pass
    return x


for task in range(4):
    loss = forward(torch.randn(2, 3), w).pow(2).mean()
    (gradient,) = torch.autograd.grad(loss, [w])
    fast = w - 0.1 * gradient
    for step in range(3):
        loss = forward(torch.randn(2, 3), fast).pow(2).mean()
        (gradient,) = torch.autograd.grad(loss, [fast])
        fast = fast - 0.1 * gradient
"""
FORMS = {
    "pairs": ("for name, _ in config:", "name", '("{}", [])'),
    "numbered": ("for i, (name, _) in enumerate(config):", "name", '("{}", [])'),
    "texts": ("for name in config:", "name", '"{}"'),
    "rows": ("for row in config:", "row[0]", '["{}", 3]'),
}


def _program(form: str, texts: list[str]) -> str:
    header, name, row = FORMS[form]
    program = PROGRAM.replace("HEADER", header).replace("NAME", name)
    return program.replace("CONFIG", ", ".join(row.format(text) for text in texts))


PLACES = (0, 1, 3, 8, 19)


def _with_a_layer(form: str, place: int) -> str:
    texts = ["flatten", "double", "same", "double", "flatten"] * 4
    texts[place] = "linear"
    return _program(form, texts)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("form", FORMS)
def test_what_one_of_many_instructions_does_is_seen_each_time(form: str, place: int) -> None:
    program = _with_a_layer(form, place)
    found = [(one.code, one.certain) for one in check(from_text(program, "config.py")).findings]
    assert [one for one in found if one != ("TAPE201", True)] == []


@pytest.mark.parametrize("form", FORMS)
def test_where_none_of_them_builds_a_graph_that_is_told(form: str) -> None:
    program = _program(form, ["flatten", "double", "same"] * 7)
    assert [(one.code, one.certain) for one in check(from_text(program, "config.py")).findings] == [("TAPE103", True)]


def test_torch_runs_them() -> None:
    made = {f"{form} {place}": _with_a_layer(form, place) for form in FORMS for place in PLACES}
    assert {name: line for name, (line, _) in torch_raises_at(made).items() if line is not None} == {}
