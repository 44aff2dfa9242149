"""TAPE604: where a second derivative through compiled code is an error for certain."""

from __future__ import annotations

import functools

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

PROGRAM = """\
import torch
from torch import nn

net = torch.compile(nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1)), backend="aot_eager")
t = torch.rand({first}, 1).clone().requires_grad_()
u = net({before})
v = net(t)
(dv,) = torch.autograd.grad(v.sum(), t, create_graph=True)
(u.mean() + dv.pow(2).mean()).backward()
"""


def raised_by(program: str) -> str:
    """Run a program and return what it raises, empty where it comes to its end."""
    # What other programs have compiled is none of this one's.
    pytest.importorskip("torch")._dynamo.reset()
    try:
        exec(compile(program, "train.py", "exec"), {})
    except RuntimeError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("first", "before", "certain"),
    [(12, "torch.zeros(12, 1)", True), (12, "torch.zeros(1, 1)", False), (1, "torch.zeros(1, 1)", True)],
)
def test_code_for_several_sizes_may_refuse_the_first_gradient(first: int, before: str, certain: bool) -> None:
    # Measured: in the second one `autograd.grad` raises already, "compiled with non-empty donated buffers".
    program = PROGRAM.format(first=first, before=before)
    (finding,) = check(from_text(program, "train.py")).findings
    assert (finding.code, finding.span.line, finding.certain) == ("TAPE604", 9, certain)
    assert any("donated buffers" in note for note in finding.notes) is not certain
    raised = raised_by(program)
    assert ("double backward" if certain else "donated buffers") in raised


ANY = """\
import torch
from torch import nn

other = nn.Parameter(torch.rand(4, 4))
net = torch.compile({network}, backend="aot_eager")
x = torch.rand(4, 4, requires_grad=True)
y = {used}
(g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
{taken}.backward()
"""
NETWORKS = {
    "linear": "nn.Linear(4, 4)",
    "linear and dropout": "nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))",
    "steps": "nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))",
    "curved": "nn.Sequential(nn.Linear(4, 4), nn.Tanh())",
    "doubled": "lambda x: x * 2",
    "shifted": "lambda x: x + other",
    "scaled": "lambda x: x * other",
    "a view of a product": "lambda x: (x * other).t()",
    "convolved": "nn.Sequential(nn.Conv1d(4, 4, 1), nn.Hardtanh())",
}
USED = {"alone": "net(x)", "squared": "net(x).pow(2)", "of a square": "net(x * x)", "beside": "net(x) + other * x"}
TAKEN = ("g.pow(2).mean()", "(y.mean() + g.norm())", "y.pow(2).mean()", "(g.detach() * y).mean()")


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("used", USED)
def test_a_gradient_through_compiled_code_has_a_graph_whatever_is_compiled(network: str, used: str) -> None:
    for taken in TAKEN:
        program = ANY.format(network=NETWORKS[network], used=USED[used], taken=taken)
        found = [(one.code, one.certain) for one in check(from_text(program, "train.py")).findings]
        raised = raised_by(program)
        assert ("double backward" in raised) is bool(raised)
        assert found == ([("TAPE604", True)] if raised else []), program


OF_FUNCTIONS = """\
import torch
from torch import nn

other = nn.Parameter(torch.rand(4, 4))
net = torch.compile({network}, backend="aot_eager")
x = torch.rand(4, 4, requires_grad=True)
taken = torch.autograd.functional.{call}
{walked}.backward()
"""
CALLED = {
    "a Jacobian": ("jacobian(lambda t: {used}, x, create_graph=True)", "taken.pow(2).mean()"),
    "of a sum": ("jacobian(lambda t: ({used}).sum(0), x, create_graph=True)", "(taken.abs().mean() + other.sum())"),
    "a Jacobian that nothing walks": ("jacobian(lambda t: {used}, x, create_graph=True)", "(taken.detach() * x).sum()"),
    "without a graph": ("jacobian(lambda t: {used}, x)", "(taken * other[0, 0]).sum()"),
    "a product": ("vjp(lambda t: {used}, x, torch.ones(4, 4), create_graph=True)", "taken[1].pow(2).mean()"),
    "the value of a product": ("vjp(lambda t: {used}, x, torch.ones(4, 4), create_graph=True)", "taken[0].mean()"),
}


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("called", CALLED)
def test_what_functions_of_autograd_take_of_compiled_code_has_a_graph(network: str, called: str) -> None:
    call, walked = CALLED[called]
    for used in ("net(t)", "net(t).pow(2)", "net(t * t)", "other * t"):
        program = OF_FUNCTIONS.format(network=NETWORKS[network], call=call.format(used=used), walked=walked)
        found = [(one.code, one.certain) for one in check(from_text(program, "train.py")).findings]
        found = [one for one in found if one[0] == "TAPE604"]
        raised = raised_by(program)
        if "a leaf Variable" not in raised:
            # A gradient that lies otherwise is copied in the first derivative, which raises already.
            assert found == ([("TAPE604", True)] if raised else []), program


@pytest.mark.parametrize("view", ["x.t()", "x.view(-1)", "x.view(2, 8).view(4, 4).t()"])
def test_a_view_of_what_a_compiled_call_is_given_is_made_anew_behind_it(view: str) -> None:
    for taken in (*TAKEN[:1], "(g * x).sum()", "(y.mean() + g.norm())"):
        program = ANY.format(network=f"lambda x: {view}", used="net(x)", taken=taken)
        found = [one.code for one in check(from_text(program, "train.py")).findings]
        raised = raised_by(program)
        assert found == (["TAPE103"] if "does not require grad" in raised else []), program
        assert "double backward" not in raised


BESIDE = """\
import torch

net = torch.compile(lambda x, w: (x * w, {view}), backend="aot_eager")
x = torch.randn(4, 4, requires_grad=True)
w = torch.randn(4, requires_grad=True)
product, other = net(x, w)
{then}
"""
VIEWS = (
    "x.t()", "x.view(-1)", "x[1:]", "x[0]", "x.unsqueeze(0).squeeze(0)", "x.expand(4, 4)", "x.diagonal()",
    "x.unfold(0, 2, 2)",
    "x.view(2, 8)[1:].t()", "x.flatten(1)", "x.reshape(16)", "x.t().reshape(16)", "x.permute(1, 0)", "x.clone()",
    "x.chunk(2)[0]", "x.unbind(0)[1]", "x.contiguous()", "(x * w).t()", "x.view(-1) * 2",
)  # fmt: skip
THEN = {
    "a second derivative of it": (
        "(g,) = torch.autograd.grad(other.pow(3).sum(), x, create_graph=True)\ng.pow(2).sum().backward()"
    ),
    "both, one after the other": "other.sum().backward()\nproduct.sum().backward()",
    "the other way round": "product.sum().backward()\nother.sum().backward()",
    "a second derivative of both": (
        "(g,) = torch.autograd.grad((other.sum() + product.sum()).pow(3), x, create_graph=True)\n"
        "g.pow(2).sum().backward()"
    ),
}


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_beside_a_product_is_no_part_of_what_is_compiled(view: str) -> None:
    for then in THEN.values():
        program = BESIDE.format(view=view, then=then)
        found = [(one.code, one.certain) for one in check(from_text(program, "train.py")).findings]
        raised = raised_by(program)
        if raised:
            # What makes a view or a copy, by its input's layout, is told as possible or not at all.
            assert {code for code, _ in found} <= {"TAPE603", "TAPE604"}, program
        else:
            assert not [code for code, certain in found if certain], program


def test_what_is_told_of_products_beside_views_stays_certain() -> None:
    for view in VIEWS:
        program = BESIDE.format(view=view, then=THEN["a second derivative of both"])
        assert raised_by(program) and [one.certain for one in check(from_text(program, "train.py")).findings] == [True]


OF_DATA = """\
import torch
from torch import nn
from hidden import load

def weighed(x):
    return nn.functional.relu(x @ weight)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.compile(nn.Sequential(nn.Linear(2, 2), nn.Tanh()))

    def forward(self, x):
        return self.inner(x.reshape(-1, 2))

weight = torch.ones(2, 2, requires_grad=True)
{made}
{data}
for step in range(4):
    {passed}
    {walked}
"""
COMPILED = [
    "model = torch.compile(nn.Sequential(nn.Linear(2, 2), nn.Tanh()))",
    "model = Net()",
    "model = torch.compile(weighed)",
    "model = torch.compile(Net())",
]
HIDDEN_DATA = [
    "x = load()",
    "x = load()['states']",
    "x = load()['states'].reshape(-1, 2)",
    "x = torch.cat([load()[0], load()[1]])",
    "x, y = load()",
]
PASSED = ["out = model(x)", "out = model(x + 1) * 2", "out = model(x); other = model(x * 2)"]
WALKED = {
    "once": "out.sum().backward()",
    "by its parts": "(out.mean() + out.sum()).backward()",
    "twice": "out.sum().backward()\n    out.mean().backward()",
}


@functools.cache
def errors_of(made: str, data: str, passed: str, walked: str) -> list[str]:
    text = OF_DATA.format(made=made, data=data, passed=passed, walked=WALKED[walked])
    return [one.code for one in check(from_text(text, "train.py")).findings if one.severity == "error"]


@pytest.mark.parametrize("made", COMPILED)
@pytest.mark.parametrize("data", HIDDEN_DATA)
@pytest.mark.parametrize("passed", PASSED)
@pytest.mark.parametrize("walked", WALKED)
def test_data_that_comes_from_elsewhere_is_no_part_of_what_is_compiled(
    made: str, data: str, passed: str, walked: str
) -> None:
    """A graph that nobody knows has its node from the call that first uses it, and each call has one of its own."""
    visible = errors_of(made, "x = torch.ones(3, 2)", passed, walked)
    assert visible == (["TAPE101"] if walked == "twice" else [])
    assert errors_of(made, data, passed, walked) == visible
