"""TAPE104 on tapes written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tapecheck.check import check
from tapecheck.source import from_text
from tests.fixes.support import fixes_of

CODE = "TAPE104"


def test_a_leaf_changed_while_autograd_records(build: Any, found: Any) -> None:
    w = build.leaf(1, "w", parameter=False)
    build.change(3, w, "sub_", leaf=w, name="w")
    (finding,) = found(build)
    assert (finding.code, finding.severity, finding.span.line, finding.certain) == (CODE, "error", 3, True)
    assert finding.message == "in-place update of leaf `w` outside `torch.no_grad()`"
    assert "no_grad" in finding.help
    assert [(label.role, label.span.line) for label in finding.labels] == [("built", 1)]


def test_a_view_of_a_parameter(build: Any, found: Any, remarks: Any) -> None:
    bias = build.leaf(1, "head.bias")
    build.change(3, bias, "fill_", leaf=bias, name="bias", on_view=True)
    (finding,) = found(build)
    assert finding.message == "in-place update of a view of leaf `head.bias` outside `torch.no_grad()`"
    assert remarks(finding, "built") == {1: "`head.bias` is created here, a parameter"}


@pytest.mark.parametrize(
    "options",
    [{"grad_mode": "no"}, {"grad_mode": "may"}, {"bumps": "no"}, {"leaf": None}, {"optimizer": 1, "grad_mode": "no"}],
)
def test_what_torch_allows_or_nobody_knows(build: Any, found: Any, options: dict[str, Any]) -> None:
    w = build.leaf(1)
    build.change(3, w, "sub_", **{"leaf": w, **options})
    assert found(build, code=CODE) == []


def test_a_way_under_no_grad_makes_it_may(build: Any, another: Any, found: Any) -> None:
    for builder, mode in ((build, "yes"), (other := another(), "no")):
        w = builder.leaf(1, "w")
        builder.change(3, w, "sub_", leaf=w, name="w", grad_mode=mode)
    (finding,) = found(build, other)
    assert finding.certain is False
    assert finding.message == "possible in-place update of leaf `w` outside `torch.no_grad()`"


@pytest.mark.parametrize(
    ("index", "certain"),
    [
        ("0", True),
        ("slice(0, 2)", True),
        ("hidden()", False),
        ("hidden(), 1", False),
        ("random.randrange(5)", True),
        ("[0, 1]", None),
    ],
)
def test_an_index_that_nobody_knows_may_be_an_array_which_copies(index: str, certain: bool | None) -> None:
    text = "import random, torch\nfrom elsewhere import hidden\nw = torch.randn(5, 5, requires_grad=True)\n"
    report = check(from_text(f"{text}w[{index}].add_(1.0)\n", "program.py"))
    found = [finding.certain for finding in report.findings if finding.code == CODE]
    assert found == ([] if certain is None else [certain])


AVERAGE = """
import copy
import torch

class Average:
    def __init__(self, model):
        self.model = copy.deepcopy(model)

    def update(self, model):
        for old, new in zip(self.model.parameters(), model.parameters()):
            old.mul_(0.9).add_(new.data)

net = torch.nn.Sequential()
net.{layer} = torch.nn.Linear(3, 1)
average = Average(net)
average.update(net)
"""


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ("fc", "in-place update of leaf `self.model.fc.weight` outside `torch.no_grad()`"),
        ("embed", "in-place update of `self.model.embed.weight` outside `torch.no_grad()`"),
    ],
)
def test_a_copy_is_told_from_the_argument_of_its_name(layer: str, message: str) -> None:
    report = check(from_text(AVERAGE.format(layer=layer), "average.py"))
    assert [finding.message for finding in report.findings if finding.code == CODE] == [message]


_ADAPTED = """\
import torch
from torch import nn
import hidden

model = nn.Sequential(LAYER, nn.Linear(4, 1))
losses = []
for task in range(2):
    loss = model(torch.randn(8, 4)).pow(2).mean()
    GRADS
    for p, g in zip(model[1].parameters(), grads):
        p -= 0.05 * g
    losses.append(model(torch.randn(8, 4)).pow(2).mean())
"""


_KEPT = "grads = torch.autograd.grad(loss, list(model[1].parameters()), retain_graph=True)"
_FREED = "loss.backward(); grads = [p.grad for p in model[1].parameters()]"


@pytest.mark.parametrize(
    ("layer", "grads", "safe"),
    [("hidden.layer()", _KEPT, False), ("hidden.layer()", _FREED, True), ("nn.Linear(4, 4)", _FREED, True)],
)
def test_a_graph_of_hidden_code_may_have_saved_the_leaf(layer: str, grads: str, safe: bool) -> None:
    program = _ADAPTED.replace("LAYER", layer).replace("GRADS", grads)
    fixes = [fix for fix in fixes_of(program, CODE) if "no_grad" in fix.title]
    assert [fix.applicability == "safe" for fix in fixes[:1]] == [safe]


_GATE = """\
import torch
from torch import nn


class Gate(nn.Module):
    def __init__(self, size, prior=None):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size) if prior is None else prior)

    def close(self):
        self.weight *= torch.full((3,), 0.5)
        self.weight.requires_grad = False

    def update(self):
        with MODE:
            if self.weight.sum() > 3:
                self.close()
            else:
                self.weight.requires_grad = True
                self.weight.grad = self.weight.clone()
"""


@pytest.mark.parametrize(
    ("mode", "after", "expected"),
    [
        ("torch.no_grad()", "", []),
        ("torch.inference_mode()", "", []),
        ("torch.enable_grad()", "", [11]),
        ("torch.no_grad()", "\n\ndef shut(gate):\n    gate.close()\n", [11]),
        ("torch.no_grad()", "\n\ndef shut(gate, then):\n    then(gate.close)\n", [11]),
    ],
)
def test_a_method_that_is_called_where_nothing_records_alone(mode: str, after: str, expected: list[int]) -> None:
    findings = check(from_text(_GATE.replace("MODE", mode) + after, "gate.py")).findings
    assert [finding.span.line for finding in findings if finding.code == CODE] == expected


AS_ITS_MODEL = """\
import torch
from torch import nn
from torchvision import transforms
from unseen import read

net = nn.Linear(3, 3)


def padded(img):
    x = torch.zeros(5, 5, requires_grad=img.requires_grad)
    x[1:4, 1:4] = img
    return x


padded(GIVEN)
"""


@pytest.mark.parametrize(
    ("given", "told"),
    [
        # Taken for data, they do not require grad either.
        ("transforms.ToTensor()(open('cat.jpg'))", []),
        ("read('cat.jpg')", []),
        ("torch.load('cat.pt')", []),
        ("torch.rand(3, 3)", []),
        ("torch.rand(3, 3, requires_grad=True)", [True]),
        ("net(torch.rand(3, 3))", [True]),
        ("net.weight", [True]),
    ],
)
def test_what_is_made_as_data_are_requires_no_grad(given: str, told: list[bool]) -> None:
    report = check(from_text(AS_ITS_MODEL.replace("GIVEN", given), "train.py"))
    assert [one.certain for one in report.findings if one.code == "TAPE104"] == told


def test_what_nobody_calls_is_given_data() -> None:
    assert not check(from_text(AS_ITS_MODEL.replace("padded(GIVEN)", ""), "train.py")).findings


RECORDED = """\
import torch

w, v = torch.randn(4, requires_grad=True), torch.nn.Parameter(torch.randn(4))
opt = torch.optim.{make}
for step in range(2):
    w.pow(2).sum().backward()
    {step}
"""
MAKES = {
    "SGD([w], lr=0.1, differentiable=True)": True,
    "SGD([v, w], lr=0.1, momentum=0.9, differentiable=True)": True,
    "Adam([w], differentiable=True)": True,
    "RMSprop([w], differentiable=True)": True,
    "Adagrad([{'params': [w]}], differentiable=True)": True,
    "SGD([v], lr=0.1, differentiable=True)": False,
    "SGD([w], lr=0.1, differentiable=False)": False,
    "AdamW([w])": False,
}
STEPS = ("opt.step()", "with torch.no_grad(): opt.step()")


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("make", MAKES)
def test_an_optimizer_that_records_its_step_changes_no_leaf(make: str, step: str) -> None:
    text = RECORDED.format(make=make, step=step)
    findings = [finding for finding in check(from_text(text, "train.py")).findings if finding.code == CODE]
    assert [(finding.span.line, finding.certain) for finding in findings] == [(7, True)] * MAKES[make]
    assert all("differentiable=True" in finding.help for finding in findings)
    pytest.importorskip("torch")
    if MAKES[make]:
        with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
            exec(text, {})
    else:
        exec(text, {})
