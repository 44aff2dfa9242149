"""A program ends where an optimizer raises of what it is given; what it takes changes nothing."""

from __future__ import annotations

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

PROGRAM = """\
import torch
from torch import nn

class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

class Iterable(Own):
    def __iter__(self):
        return iter(self.layer.parameters())

layer = nn.Linear(3, 3)
weight = torch.randn(3, requires_grad=True)
optimizer = {made}
hidden = layer(torch.randn(2, 3)) * weight
for step in range(3):
    hidden.sum().backward()
"""
RAISED = {
    "torch.optim.Adam(weight)": "TypeError",
    "torch.optim.SGD(layer.weight, lr=0.1)": "TypeError",
    "torch.optim.LBFGS(weight)": "TypeError",
    "torch.optim.Adam(torch.tensor(1.0, requires_grad=True))": "TypeError",
    "torch.optim.Adam(layer)": "TypeError",
    "torch.optim.Adam(Own())": "TypeError",
    "torch.optim.Adam(nn.Sequential(layer))": "TypeError",
    "torch.optim.Adam(nn.ModuleList([layer]))": "TypeError",
    "torch.optim.Adam(nn.ParameterDict({'a': weight}))": "TypeError",
    "torch.optim.Adam(None)": "TypeError",
    "torch.optim.Adam(3)": "TypeError",
    "torch.optim.Adam('weight')": "TypeError",
    "torch.optim.Adam(layer.parameters)": "TypeError",
    "torch.optim.Adam([layer.parameters()])": "TypeError",
    "torch.optim.Adam([layer])": "TypeError",
    "torch.optim.Adam([[weight]])": "TypeError",
    "torch.optim.Adam([weight, 3])": "TypeError",
    "torch.optim.Adam({'params': [weight]})": "TypeError",
    "torch.optim.Adam(layer.state_dict())": "TypeError",
    "torch.optim.Adam([{'params': {weight}}])": "TypeError",
    "torch.optim.Adam([{'params': layer}])": "TypeError",
    "torch.optim.Adam([{'params': layer.parameters()}, weight])": "TypeError",
    "torch.optim.Adam([{'weights': [weight]}])": "KeyError",
    "torch.optim.Adam([weight]).add_param_group(layer.weight)": "TypeError",
    "torch.optim.Adam([weight]).add_param_group({'params': [[layer.weight]]})": "TypeError",
    "torch.optim.Adam(**{'params': None})": "TypeError",
    "torch.optim.Adam([None])": "TypeError",
    "torch.optim.Adam([weight])": "",
    "torch.optim.Adam(**{'params': [weight]})": "",
    "torch.optim.Adam((weight,))": "",
    "torch.optim.Adam({weight})": "",
    "torch.optim.Adam([{'params': weight}])": "",
    "torch.optim.Adam([{'params': []}])": "",
    "torch.optim.Adam([torch.zeros(3)])": "",
    "torch.optim.Adam(Iterable())": "",
    "torch.optim.Adam(nn.ParameterList([weight]))": "",
    "torch.optim.Adam(parameter for parameter in layer.parameters())": "",
    "torch.optim.Adam(layer.named_parameters())": "",
    "torch.optim.Adam(layer.state_dict().values())": "",
    "torch.optim.Adam(layer.state_dict().items())": "",
    "torch.optim.Adam([{'params': layer.parameters()}]).add_param_group({'params': weight})": "",
}


@pytest.mark.parametrize("made", RAISED)
def test_nothing_is_said_behind_what_is_raised(made: str) -> None:
    found = {finding.code: finding.certain for finding in check(from_text(PROGRAM.format(made=made), "p.py")).findings}
    assert found == ({} if RAISED[made] else {"TAPE101": True}), (made, found)


@pytest.mark.parametrize("made", RAISED)
def test_torch_raises_it(made: str) -> None:
    pytest.importorskip("torch")
    raised = ""
    try:
        exec(compile(PROGRAM.format(made=made), "p.py", "exec"), {})
    except Exception as error:
        raised = "" if "a second time" in str(error) else type(error).__name__
    assert raised == RAISED[made]


@pytest.mark.parametrize(
    "made",
    [
        "[group(layer), {'params': [weight]}]",
        "**options(layer)",
        "*options(layer)",
        "[*groups(layer), weight]",
        "parts(layer)",
    ],
)
def test_what_hidden_code_gives_may_be_groups(made: str) -> None:
    program = PROGRAM.format(made=f"torch.optim.Adam({made})").replace(
        "import torch", "from hidden import *\nimport torch", 1
    )
    program = program.replace("*", "group, groups, options, parts", 1)
    found = [finding.code for finding in check(from_text(program, "p.py")).findings]
    assert found == ["TAPE101"], found


def test_what_is_raised_of_them_may_be_caught() -> None:
    groups = "torch.optim.Adam([group(layer), {'params': [weight]}])"
    caught = f"None\ntry:\n    {groups}\nexcept TypeError:\n    layer(torch.ones(3)).sum().backward()"
    program = PROGRAM.format(made=caught).replace("import torch", "from hidden import group\nimport torch", 1)
    found = check(from_text(program.replace("for step in range(3):", "if True:"), "p.py")).findings
    assert [finding.code for finding in found if finding.certain] == []
