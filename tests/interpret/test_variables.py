"""`Variable(x)` shares the data of a value and not its graph, whoever has made that."""

from __future__ import annotations

import itertools

import pytest

from tapecheck.check import check
from tapecheck.source import from_text
from tests.interpret.truth import torch_raises_at

CUTS = {
    "Variable": "Variable({value})",
    "of autograd": "torch.autograd.Variable({value})",
    "requires no grad": "Variable({value}, requires_grad=False)",
    "by keyword": "Variable(data={value})",
    "detach": "{value}.detach()",
    "nothing": "{value}",
}
MODELS = {
    "visible": "nets = [nn.Linear(4, 2), nn.Linear(4, 2)]",
    "hidden": "nets = [create() for _ in range(2)]",
    "many": "nets = []\nfor name in NAMES:\n    nets.append(create())",
    "handed in": "nets = MODELS",
}
PROGRAM = """\
import torch
from torch import nn
from torch.autograd import Variable
from hidden import MODELS, NAMES, create

{models}
optimizers = [torch.optim.SGD(net.parameters(), lr=0.1) for net in nets]
for step in range(3):
    outputs = []
    for net in nets:
        outputs.append(net(torch.randn(3, 4)))
    for i in range(2):
        loss = outputs[i].pow(2).mean()
        for j in range(2):
            if i != j:
                loss = loss + (outputs[i] * {cut}).mean()
        optimizers[i].zero_grad()
        loss.backward()
        optimizers[i].step()
"""
STUB = """\
import sys, types
import torch
create = lambda: torch.nn.Linear(4, 2)
sys.modules["hidden"] = types.SimpleNamespace(MODELS=[create(), create()], NAMES="ab", create=create)
"""


def program(models: str, cut: str) -> str:
    return PROGRAM.format(models=MODELS[models], cut=CUTS[cut].format(value="outputs[j]"))


@pytest.mark.parametrize(("models", "cut"), [*itertools.product(MODELS, CUTS)])
def test_no_backward_runs_through_what_a_variable_has(models: str, cut: str) -> None:
    found = [one.code for one in check(from_text(program(models, cut), "train.py")).findings]
    assert ("TAPE101" in found) == (cut == "nothing" and models != "handed in"), found
    assert not set(found) - {"TAPE101", "TAPE102"}


def test_torch_raises_where_nothing_is_cut() -> None:
    programs = {str(key): STUB + program(*key) for key in itertools.product(MODELS, CUTS)}
    raises = {key for key, (line, _) in torch_raises_at(programs).items() if line is not None}
    assert raises == {str((models, "nothing")) for models in MODELS}
