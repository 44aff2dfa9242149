"""TAPE401 on tapes written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tapecheck.check import check
from tapecheck.source import from_text
from tapecheck.tape import Root

CODE = "TAPE401"


def penalty(build: Any, *, how: str | None = None, terms: bool = True) -> Any:
    """A gradient without graph that is added to a loss, detached on the way where `how` says so."""
    x, w = build.leaf(1, "x", parameter=False), build.leaf(1)
    score = build.node(2, x, w, saves=[x, w], name="score")
    build.grad(3, score, x)
    gradient = build.cut(3, "grad", score, name="gradient")
    constant = build.cut(4, how, sources=[gradient]) if how else gradient
    fit = build.node(5, w, saves=[0], name="fit")
    loss = build.node(6, fit, op="AddBackward0", name="loss", cuts=[constant])
    build.backward(8, Root(loss, name="loss", constant_terms=(gradient,) if terms else ()))
    return build


def test_a_constant_penalty(build: Any, found: Any) -> None:
    (finding,) = found(penalty(build))
    assert (finding.code, finding.severity, finding.span.line) == (CODE, "warning", 6)
    assert finding.message == "gradient penalty in `loss` has no effect (missing `create_graph=True`)"
    assert "`create_graph=True`" in finding.help
    assert [label.span.line for label in finding.labels if label.role == "cut"] == [3]
    assert finding.facts.kind == "silent"


def test_a_gradient_that_scales_is_meant_as_a_number(build: Any, found: Any) -> None:
    assert found(penalty(build, terms=False)) == []


def test_an_explicit_detach_says_that_a_constant_is_meant(build: Any, found: Any) -> None:
    assert found(penalty(build, how="detach")) == []


def test_a_second_derivative_raises(build: Any, found: Any) -> None:
    x, w = build.leaf(1, "x", parameter=False), build.leaf(1)
    build.grad(3, build.node(2, x, w, saves=[x, w], name="u"), x)
    cut = build.cut(3, "grad", 3)
    build.grad(4, Root(None, "no", "du", (cut,)), x)
    (finding,) = found(build)
    assert (finding.severity, finding.span.line, finding.certain) == ("error", 4, True)
    assert finding.message == "`du` cannot be differentiated: missing `create_graph=True`"
    assert finding.facts.kind == "raises"


def test_an_input_that_only_the_cut_gradient_reaches(build: Any, found: Any) -> None:
    w, weights = build.leaf(1), build.leaf(1, "weights", parameter=False)
    inner = build.node(2, w, weights, saves=[w, weights])
    build.grad(3, inner, w)
    cut = build.cut(3, "grad", inner)
    outer = build.node(4, w, saves=[0], cuts=[cut], name="outer")
    build.grad(5, outer, weights)
    (finding,) = found(build)
    assert (finding.code, finding.severity, finding.span.line) == (CODE, "error", 5)
    assert finding.message == "`weights` is unreachable from `outer`: missing `create_graph=True`"


def test_an_unused_input_alone_is_no_finding(build: Any, found: Any) -> None:
    w, other = build.leaf(1), build.leaf(1, "other")
    build.grad(3, build.node(2, w, saves=[0]), other)
    assert found(build) == []


NORM = """\
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 4), nn.Sigmoid(), nn.Linear(4, 4))
out = net(torch.ones(2, 4)).mean()
TAKEN
penalty = sum(gradient.pow(2).sum() for gradient in gradients)
(net(torch.ones(2, 4)).mean() + penalty).backward()
"""
"""The gradient of the last bias is a constant, whatever is asked for."""
BY_GRAD = "gradients = torch.autograd.grad(out, list(net.parameters()), create_graph=True)"
BY_BACKWARD = """\
out.backward(create_graph=True)
gradients = [parameter.grad for parameter in net.parameters()]
net.zero_grad()"""


@pytest.mark.parametrize("taken", [BY_GRAD, BY_BACKWARD])
def test_a_gradient_that_hangs_on_nothing_lacks_no_create_graph(taken: str) -> None:
    source = NORM.replace("TAKEN", taken)
    assert check(from_text(source, "program.py")).findings == []
    without = source.replace("create_graph", "retain_graph")
    assert [finding.code for finding in check(from_text(without, "program.py")).findings] == [CODE]


@pytest.mark.parametrize("taken", [BY_GRAD, BY_BACKWARD])
def test_torch_learns_from_the_penalty_though_one_gradient_hangs_on_nothing(taken: str) -> None:
    pytest.importorskip("torch")
    learned = []
    for way in ("create_graph", "retain_graph"):
        scope: dict[str, Any] = {}
        exec(NORM.replace("TAKEN", taken).replace("create_graph", way), scope)
        learned.append(scope["net"][0].weight.grad)
        assert not scope["gradients"][-1].requires_grad
    assert not learned[0].equal(learned[1])


def test_a_gradient_that_was_kept_of_a_value_has_a_graph() -> None:
    source = (
        "import torch\nw = torch.ones(3, requires_grad=True)\nh = w * 2\nh.retain_grad()\n"
        "h.pow(3).sum().backward(create_graph=True)\npenalty = h.grad.pow(2).sum()\nw.grad = None\npenalty.backward()\n"
    )
    assert check(from_text(source, "program.py")).findings == []
    pytest.importorskip("torch")
    exec(source, {})


@pytest.mark.parametrize("number", ["3", "given.N"])
def test_a_loss_of_a_list_of_unknown_length_is_no_weight_of_a_constant(number: str) -> None:
    text = f"""
import torch
from torch import nn
import given
heads = nn.ModuleList([nn.Linear(8, 1) for _ in range({number})])
trunk = nn.Linear(4, 8)
hidden = trunk(torch.randn(6, 4))
losses = [head(hidden).pow(2).mean() for head in heads]
norms = [torch.autograd.grad(loss, trunk.weight, retain_graph=True)[0].norm() for loss in losses]
total = sum(norm * loss for norm, loss in zip(norms, losses))
total.backward()
"""
    assert check(from_text(text, "train.py")).findings == []


@pytest.mark.parametrize("weight", ["strength=4.0", "strength"])
def test_an_unknown_weight_leaves_the_place_where_a_penalty_is_added(weight: str) -> None:
    text = f"""
import torch
from torch import nn
def train({weight}):
    net = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(3):
        x = torch.randn(4, 3, requires_grad=True)
        out = net(x).mean()
        penalty = strength * torch.autograd.grad(net(x).sum(), x)[0].norm()
        loss = out + penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
    (finding,) = check(from_text(text, "train.py")).findings
    assert (finding.code, finding.span.line) == ("TAPE401", 11)


ASCENT = """\
import torch
from torch import nn
from torch.autograd import Variable

torch.manual_seed(0)
model = nn.Linear(3, 1)
x, momentum = torch.rand(3), torch.zeros(3)
leaf = {leaf}
for step in range(4):
    leaf.grad = None
    y = (x * 2).sum() + (leaf ** 2).sum() + model(leaf).sum()
    {taken}
    {ascent}
    {again}
"""
LEAVES = (
    "Variable(x, requires_grad=True)",
    "x.detach().requires_grad_()",
    "x.clone().requires_grad_()",
    "nn.Parameter(x)",
)
ASCENTS = (
    "x = x + 0.1 * g", "x = x + 0.1 * g.sign()", "x = torch.clamp(x + 0.1 * g, 0, 1)", "x = leaf.data + 0.1 * g",
    "momentum = 0.9 * momentum + g; x = x - 0.1 * momentum", "x = x + 0.1 * g / g.norm()",
)  # fmt: skip


@pytest.mark.parametrize("taken", ["y.backward(); g = leaf.grad", "g, = torch.autograd.grad(y, leaf)"])
@pytest.mark.parametrize("leaf", LEAVES)
def test_what_climbs_is_data_in_the_next_iteration(leaf: str, taken: str) -> None:
    """Torch runs it, and each iteration takes the gradient by the leaf alone."""
    pytest.importorskip("torch")
    for ascent in ASCENTS:
        for again in ("pass", f"leaf = {leaf}"):
            text = ASCENT.format(leaf=leaf, taken=taken, ascent=ascent, again=again)
            exec(text, {})
            codes = [finding.code for finding in check(from_text(text, "attack.py")).findings]
            assert CODE not in codes, text


def test_what_was_made_a_leaf_is_data_without_a_loop() -> None:
    text = """\
import torch

x = torch.rand(3)
leaf = torch.autograd.Variable(x, requires_grad=True)
(leaf ** 2).sum().backward()
x = x + 0.1 * leaf.grad
{leaf}
loss = (x * 2).sum() + (leaf ** 2).sum()
loss.backward()
"""
    for leaf, codes in (("leaf = torch.autograd.Variable(x, requires_grad=True)", []), ("pass", [CODE])):
        assert [one.code for one in check(from_text(text.format(leaf=leaf), "attack.py")).findings] == codes


@pytest.mark.parametrize("penalty", ["g.pow(2).sum()", "g.norm()", "total"])
def test_a_penalty_of_the_same_iteration_stays_told(penalty: str) -> None:
    text = f"""\
import torch
from torch import nn

model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    x = torch.rand(5, 3, requires_grad=True)
    total = 0
    for part in range(2):
        g, = torch.autograd.grad(model(x).pow(2).sum(), x)
        total = total + g.pow(2).sum()
    loss = model(x).pow(2).mean() + {penalty}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    assert CODE in [finding.code for finding in check(from_text(text, "penalty.py")).findings]


UNRECORDED = """\
import torch
from torch import nn

model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.rand(5, 3, requires_grad=True)
g, = torch.autograd.grad(model(x).pow(2).sum(), x)


def compute(value):
    return TERM


with SWITCH:
    term = compute(g)
(model(x).pow(2).mean() + term.sum()).backward()
optimizer.step()
"""
OFF = ["torch.no_grad()", "torch.set_grad_enabled(False)", "torch.inference_mode()", "torch.autograd.no_grad()"]
ON = ["torch.enable_grad()", "torch.set_grad_enabled(True)"]


@pytest.mark.parametrize("term", ["value * value", "value.pow(2) + 1", "(2 * value).exp()", "value.norm().sqrt()"])
@pytest.mark.parametrize(("switch", "told"), [*((one, False) for one in OFF), *((one, True) for one in ON)])
def test_what_is_computed_of_a_gradient_unrecorded_is_a_constant_with_any_graph(
    term: str, switch: str, told: bool
) -> None:
    text = UNRECORDED.replace("TERM", term).replace("SWITCH", switch)
    assert (CODE in [one.code for one in check(from_text(text, "penalty.py")).findings]) == told
    graphs = {}
    for given in ("", ", create_graph=True"):
        names: dict[str, Any] = {}
        head = text.replace("sum(), x)", f"sum(), x{given})").partition("(model(x).pow(2).mean()")[0]
        exec(compile(f"import torch\ntorch.manual_seed(0)\n{head}", "penalty.py", "exec"), names)
        graphs[given] = names["term"].requires_grad
    assert graphs[", create_graph=True"] == told
