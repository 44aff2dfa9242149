"""TAPE402 on tapes written by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tapecheck.check import check
from tapecheck.fixes import fixes_for
from tapecheck.source import from_text
from tapecheck.tape import Root
from tests.cases import under_torch
from tests.partial.judge import _edited

CODE = "TAPE402"


def detached_encoder(build: Any, *, how: str = "detach", trained: bool = False, end: str = "finished") -> Any:
    encoder, decoder = build.leaf(1, "encoder.weight"), build.leaf(2, "decoder.weight")
    optimizer = build.optimizer(3, encoder, decoder, name="Adam")
    hidden = build.node(4, encoder, saves=[0], name="hidden")
    cut = build.cut(5, how, hidden, name="hidden")
    loss = build.node(6, decoder, *([hidden] if trained else []), saves=[0], cuts=[cut], name="loss")
    build.backward(7, loss)
    build.step(8, optimizer, encoder, decoder)
    build.end(end)
    return build.tape


def test_a_detached_encoder(build: Any, found: Any) -> None:
    (finding,) = found(detached_encoder(build))
    assert (finding.code, finding.severity, finding.span.line) == (CODE, "warning", 5)
    assert finding.message == "`encoder.weight` is never trained: `.detach()` cuts its graph"
    assert "`Adam` steps it here without a gradient" in [label.message for label in finding.labels]
    roles = {label.role: label.span.line for label in finding.labels}
    assert (roles["path"], roles["step"]) == (7, 8)
    assert finding.facts.parameters == ("encoder.weight",)


def test_a_stop_gradient_beside_a_trained_way(build: Any, found: Any) -> None:
    assert found(detached_encoder(build, trained=True)) == []


def test_trained_on_another_way_through_the_program(build: Any, another: Any, found: Any) -> None:
    assert found(detached_encoder(build), detached_encoder(another(), trained=True)) == []


@pytest.mark.parametrize("end", ["raised", "budget", "stopped"])
def test_a_tape_that_breaks_off_says_nothing_of_never(build: Any, found: Any, end: str) -> None:
    assert found(detached_encoder(build, end=end)) == []


def test_a_gradient_without_graph_is_the_other_rule(build: Any, found: Any) -> None:
    assert found(detached_encoder(build, how="grad")) == []


def test_without_a_step_nothing_is_lost(build: Any, found: Any) -> None:
    tape = detached_encoder(build)
    tape.events = [event for event in tape.events if type(event).__name__ != "Step"]
    assert found(tape) == []


def test_parameters_that_the_program_sets_itself(build: Any, found: Any) -> None:
    with build.loop(1) as begin:
        begin()
        momentum, online = build.leaf(1, "momentum.weight"), build.leaf(2, "online.weight")
        optimizer = build.optimizer(3, momentum, online)
        cut = build.cut(5, "no_grad", leaves=[momentum])
        build.backward(7, build.node(6, online, saves=[0], cuts=[cut]))
        build.step(8, optimizer, momentum, online)
        build.change(9, momentum, "copy_", grad_mode="no")
    assert found(build) == []


def test_frozen_parameters_are_meant_to_stay(build: Any, found: Any) -> None:
    backbone, head = build.leaf(1, "backbone.weight"), build.leaf(2, "head.weight")
    optimizer = build.optimizer(3, backbone, head)
    cut = build.cut(4, "frozen", leaves=[backbone])
    build.backward(7, build.node(6, head, saves=[0], cuts=[cut]))
    build.step(8, optimizer, head)
    assert found(build) == []


def test_one_finding_for_a_no_grad_block(build: Any, found: Any) -> None:
    first, second, head = (build.leaf(line, name) for line, name in ((1, "a"), (2, "b"), (3, "head")))
    optimizer = build.optimizer(4, first, second, head)
    inner = build.cut(5, "no_grad", leaves=[first])
    outer = build.cut(6, "no_grad", leaves=[second], sources=[inner])
    build.backward(8, build.node(7, head, saves=[0], cuts=[outer]))
    build.step(9, optimizer, first, second, head)
    assert [finding.span.line for finding in found(build)] == [5]


def test_a_loss_made_a_leaf_again(build: Any, found: Any) -> None:
    w = build.leaf(1, "w")
    optimizer = build.optimizer(2, w)
    cut = build.cut(4, "nondifferentiable", build.node(3, w, saves=[0]))
    loss = build.leaf(5, "loss", parameter=False)
    build.backward(6, Root(loss, name="loss", cuts=(cut,)))
    build.step(7, optimizer, w)
    (finding,) = found(build)
    assert finding.span.line == 5
    assert finding.facts.how == "leaf"
    assert [label.span.line for label in finding.labels if label.role == "cut"] == [4]


def test_what_selects_is_not_to_blame_beside_a_detach() -> None:
    text = """\
import torch
from torch import nn
encoder, codes = nn.Linear(4, 3), nn.Embedding(8, 3)
optimizer = torch.optim.Adam([*encoder.parameters(), *codes.parameters()])
for step in range(5):
    z = encoder(torch.randn(6, 4))
    q = codes(torch.cdist(z, codes.weight).argmin(1))
    loss = (q - z.detach()).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    assert [(one.code, one.span.line) for one in check(from_text(text, "program.py")).findings] == [("TAPE402", 8)]


def test_what_selects_is_to_blame_where_a_term_hangs_on_it_alone() -> None:
    text = """\
import torch
from torch import nn
encoder, codes, decoder = nn.Linear(4, 3), nn.Embedding(8, 3), nn.Linear(3, 4)
optimizer = torch.optim.Adam([*encoder.parameters(), *codes.parameters(), *decoder.parameters()])
for step in range(5):
    x = torch.randn(6, 4)
    z = encoder(x)
    q = codes(torch.cdist(z, codes.weight).argmin(1))
    loss = (decoder(q) - x).pow(2).mean() + (q - z.detach()).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    assert [(one.code, one.span.line) for one in check(from_text(text, "program.py")).findings] == [("TAPE402", 8)]


def test_the_cut_before_the_own_step_is_the_one_to_mend() -> None:
    text = """\
import torch
from torch import nn
net_g, net_d = nn.Linear(4, 3), nn.Linear(3, 1)
opt_d = torch.optim.Adam(net_d.parameters())
opt_g = torch.optim.Adam(net_g.parameters())
for step in range(3):
    fake = net_g(torch.randn(6, 4))
    opt_d.zero_grad()
    net_d(fake.detach()).mean().backward()
    opt_d.step()
    opt_g.zero_grad()
    (-net_d(fake.detach()).mean()).backward()
    opt_g.step()
"""
    (finding,) = check(from_text(text, "program.py")).findings
    assert (finding.code, finding.span.line) == ("TAPE402", 12)
    assert [label.span.line for label in finding.labels if label.role == "step"] == [13]


def test_a_leaf_again_names_the_cut_of_what_is_trained() -> None:
    text = """\
import torch
from torch import nn
policy, target = nn.Linear(4, 2), nn.Linear(4, 2)
optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
for step in range(3):
    q = policy(torch.randn(8, 4))
    with torch.no_grad():
        wanted = target(torch.randn(8, 4))
    loss = nn.functional.mse_loss(q.detach(), wanted).requires_grad_()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    (finding,) = check(from_text(text, "program.py")).findings
    assert (finding.code, finding.span.line) == ("TAPE402", 9)
    assert "remove `.detach()`" in finding.help and "no_grad" not in finding.help


def test_what_is_cleared_before_the_step_is_not_lost_by_a_cut() -> None:
    # The discriminator's detach is right: the generator's own loss is what has lost it.
    text = """\
import torch
from torch import nn
net_g, net_d = nn.Linear(4, 3), nn.Linear(3, 1)
opt_d = torch.optim.Adam(net_d.parameters())
opt_g = torch.optim.Adam(net_g.parameters())
for step in range(3):
    opt_d.zero_grad()
    net_d(net_g(torch.randn(6, 4)).detach()).mean().backward()
    opt_d.step()
    opt_g.zero_grad()
    (-net_d(net_g(torch.randn(6, 4)).data.requires_grad_()).mean()).backward()
    opt_g.step()
"""
    (finding,) = check(from_text(text, "program.py")).findings
    assert (finding.code, finding.span.line) == ("TAPE402", 11)


FROZEN = """\
import torch
from torch import nn
body, head = nn.Linear(4, 4), nn.Linear(4, 2)
body.requires_grad_(False)
optimizer = torch.optim.SGD([{"params": body.parameters()}, {"params": head.parameters()}], lr=0.1)
def unfreeze():
    CALL
for step in range(3):
    loss = head(body(torch.randn(5, 4))).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_group_that_stays_frozen_is_stepped_in_vain() -> None:
    (finding,) = check(from_text(FROZEN.replace("CALL", "pass"), "program.py")).findings
    assert (finding.code, finding.span.line) == ("TAPE402", 4)
    assert finding.message == "`body.*` are never trained: `requires_grad` is switched off"


@pytest.mark.parametrize(
    "call",
    [
        "torch.zeros(3, requires_grad=True)",
        "nn.Parameter(torch.zeros(3), requires_grad=True)",
        "body.requires_grad_(False)",
    ],
)
def test_a_tensor_that_is_made_with_a_gradient_switches_no_other_on(call: str) -> None:
    (finding,) = check(from_text(FROZEN.replace("CALL", f"return {call}"), "program.py")).findings
    assert (finding.code, finding.span.line) == ("TAPE402", 4)


@pytest.mark.parametrize(
    "call",
    [
        "body.requires_grad_(True)",
        "body.requires_grad_()",
        "body.weight.requires_grad = True",
        "switch(body, requires_grad=True)",
        "setattr(body.weight, 'requires_grad', True)",
    ],
)
def test_a_group_that_something_may_switch_on_again(call: str) -> None:
    assert check(from_text(FROZEN.replace("CALL", call), "program.py")).findings == []


def test_a_network_that_is_built_anew_is_not_what_the_optimizer_has() -> None:
    text = """\
import torch
from torch import nn
net = nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
net = nn.Linear(4, 2)
for step in range(3):
    loss = net(torch.randn(5, 4)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    (finding,) = check(from_text(text, "program.py")).findings
    assert (finding.code, finding.span.line) == ("TAPE402", 5)
    assert finding.message == "`net.*` are never trained: replaced after the optimizer was made"


@pytest.mark.parametrize(
    "replacement",
    [
        "model.fc = nn.Linear(4, 3)",
        "model.fc = nn.Sequential(nn.Dropout(), nn.Linear(4, 3))",
        "model.add_module('fc', nn.Linear(4, 3))",
        "setattr(model, 'fc', nn.Linear(4, 3))",
        "model[1] = nn.Linear(4, 3)",
    ],
)
def test_a_head_that_is_replaced_in_its_model_is_told_where_that_happens(replacement: str) -> None:
    head = "[1]" if "[1]" in replacement else ".fc"
    text = f"""\
import torch
from torch import nn
from collections import OrderedDict
model = nn.Sequential(OrderedDict(body=nn.Linear(4, 4), fc=nn.Linear(4, 10)))
optimizer = torch.optim.SGD(model{head}.parameters(), lr=0.1)
{replacement}
for step in range(3):
    loss = model(torch.randn(5, 4)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    report = check(from_text(text, "program.py"))
    (finding,) = report.findings
    assert (finding.code, finding.span.line) == ("TAPE402", 6)
    assert finding.message.startswith("`model.fc.") and "never trained: replaced" in finding.message
    (fix,) = fixes_for(report, finding)
    assert fix.title == "Make the optimizer after line 6: the model is complete there"


def test_what_a_module_has_beside_its_weights_replaces_none_of_them() -> None:
    text = """\
import torch
from torch import nn
model = nn.ModuleDict({"body": nn.Linear(4, 4), "spare": nn.Linear(4, 4)})
optimizer = torch.optim.SGD(model["spare"].parameters(), lr=0.1)
model["head"] = nn.Linear(4, 2)
for step in range(3):
    loss = model["head"](model["body"](torch.randn(5, 4))).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    (finding,) = check(from_text(text, "program.py")).findings
    assert finding.message.endswith("never trained: reached by no loss")


def test_an_optimizer_whose_parameters_are_in_no_loss() -> None:
    text = """\
import torch
from torch import nn
net, other = nn.Linear(4, 2), nn.Linear(4, 2)
optimizer = torch.optim.SGD(other.parameters(), lr=0.1)
for step in range(3):
    loss = net(torch.randn(5, 4)).pow(2).mean()
    loss.backward()
    optimizer.step()
"""
    (finding,) = check(from_text(text, "program.py")).findings
    assert (finding.code, finding.span.line) == ("TAPE402", 4)
    assert finding.message == "`other.weight`, `other.bias` are never trained: reached by no loss"


QUANTIZER = """\
import torch
from torch import nn


class Quantizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.book = nn.Embedding(8, 4)

    def forward(self, x):
        chosen = nn.functional.one_hot(torch.cdist(x, self.book.weight).argmin(1), 8).float()
        codes = chosen @ self.book.weight
        AVERAGED
        return x + (codes - x).detach()


encoder, quantizer, decoder = nn.Linear(4, 4), Quantizer(), nn.Linear(4, 4)
optimizer = torch.optim.Adam(nn.ModuleList([encoder, quantizer, decoder]).parameters())
for step in range(4):
    x = torch.randn(16, 4)
    loss = nn.functional.mse_loss(decoder(quantizer(encoder(x))), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("averaged", "codes"),
    [
        ("pass", [CODE]),
        ("self.book.weight = nn.Parameter(0.9 * self.book.weight + 0.1 * chosen.t() @ x)", []),
        ("self.book.weight.data = 0.9 * self.book.weight.data + 0.1 * (chosen.t() @ x).detach()", []),
        ("self.other = nn.Parameter(0.9 * self.book.weight + 0.1 * chosen.t() @ x)", [CODE]),
    ],
)
def test_a_parameter_that_forward_makes_anew_is_learned_in_its_own_way(averaged: str, codes: list[str]) -> None:
    text = QUANTIZER.replace("AVERAGED", averaged)
    assert [finding.code for finding in check(from_text(text, "program.py")).findings] == codes


THROUGH_DATA = """\
import torch
from torch import nn


class Pool(nn.Module):
    def __init__(self):
        super().__init__()
        self.score, self.value = nn.Linear(6, 1), nn.Linear(6, 6)

    def forward(self, x):
        weights = torch.softmax(self.score(x).data, dim=1)
        return (weights * self.value(x)).sum(1)


pool, head = Pool(), nn.Linear(6, 2)
optimizer = torch.optim.Adam([*pool.parameters(), *head.parameters()])
for step in range(3):
    loss = nn.functional.cross_entropy(head(pool(torch.randn(8, 5, 6))), torch.randint(0, 2, (8,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_attention_weights_through_data() -> None:
    (finding,) = check(from_text(THROUGH_DATA, "train.py")).findings
    assert (finding.code, finding.span.line) == (CODE, 11)


FAST_WEIGHTS = """\
import torch
from torch import nn
from torch.func import functional_call

model = nn.Linear(3, 1)
optimizer = torch.optim.Adam(model.parameters())
for step in range(3):
    x, y = torch.randn(6, 3), torch.randn(6, 1)
    fast = dict(model.named_parameters())
    inner = (functional_call(model, fast, (x,)) - y).pow(2).mean()
    gradients = torch.autograd.grad(inner, list(fast.values()), create_graph=True)
    fast = {
        name: (weight - 0.1 * gradient).detach().requires_grad_()  # TAPE402
        for (name, weight), gradient in zip(fast.items(), gradients)
    }
    outer = (functional_call(model, fast, (x,)) - y).pow(2).mean()
    optimizer.zero_grad()
    outer.backward()
    optimizer.step()
"""


def test_fast_weights_that_are_made_leaves_again() -> None:
    found = check(from_text(FAST_WEIGHTS, "train.py")).findings
    (line,) = [number for number, text in enumerate(FAST_WEIGHTS.splitlines(), 1) if CODE in text]
    assert [(one.code, one.span.line) for one in found] == [(CODE, line)]


TRAINED = {
    "the gradients of the fast weights are handed over": """\
import torch
from torch import nn
from torch.func import functional_call

model = nn.Linear(3, 1)
optimizer = torch.optim.Adam(model.parameters())
for step in range(3):
    x, y = torch.randn(6, 3), torch.randn(6, 1)
    fast = dict(model.named_parameters())
    inner = (functional_call(model, fast, (x,)) - y).pow(2).mean()
    gradients = torch.autograd.grad(inner, list(fast.values()), create_graph=True)
    fast = {
        name: (weight - 0.1 * gradient).detach().requires_grad_()
        for (name, weight), gradient in zip(fast.items(), gradients)
    }
    outer = (functional_call(model, fast, (x,)) - y).pow(2).mean()
    optimizer.zero_grad()
    outer.backward()
    for parameter, weight in zip(model.parameters(), fast.values()):
        parameter.grad = weight.grad
    optimizer.step()
""",
    "the program moves the parameters itself": """\
import torch
from torch import nn

model = nn.Linear(3, 1)
parameters = list(model.parameters())
optimizer = torch.optim.SGD(parameters, lr=0.1, weight_decay=0.01)
for step in range(3):
    loss = (model(torch.randn(6, 3)) - torch.randn(6, 1)).pow(2).mean()
    gradients = torch.autograd.grad(loss, parameters, create_graph=True)
    with torch.no_grad():
        for parameter, gradient in zip(parameters, gradients):
            parameter.add_(gradient, alpha=-0.1)
    optimizer.step()
""",
    "a product with the Hessian is stepped with": """\
import torch
from torch import nn

model = nn.Linear(3, 1)
parameters = list(model.parameters())
optimizer = torch.optim.SGD(parameters, lr=0.1)
for step in range(3):
    x, y = torch.randn(6, 3), torch.randn(6, 1)
    loss = (model(x) - y).pow(2).mean()
    first = torch.autograd.grad(loss, parameters, create_graph=True)
    product = sum((gradient * gradient.detach()).sum() for gradient in first)
    for parameter, second in zip(parameters, torch.autograd.grad(product, parameters)):
        parameter.grad = second
    optimizer.step()
""",
}


@pytest.mark.parametrize("name", TRAINED)
def test_a_gradient_with_a_graph_that_is_used(name: str) -> None:
    assert check(from_text(TRAINED[name], "train.py")).findings == []


def test_networks_that_one_function_makes_are_two() -> None:
    program = """\
import torch
from torch import nn


def mlp(outputs):
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, outputs))


actor, critic = mlp(2), mlp(1)
optimizer = torch.optim.SGD([*actor.parameters(), *critic.parameters()], lr=0.1)
for step in range(4):
    x = torch.randn(8, 4)
    value = critic(x).detach()
    loss = actor(x).pow(2).mean() + (value - 1).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    (finding,) = check(from_text(program, "train.py")).findings
    assert (finding.code, finding.span.line) == ("TAPE402", 13)
    assert check(from_text(program.replace(".detach()", ""), "train.py")).findings == []


FROZEN_BY_A_GENERATOR = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.online, self.neck = nn.Linear(4, 4), nn.Linear(4, 4)
        self.target = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
        for {each} in self.fixed():
            p.requires_grad_(False)

    def fixed(self):
        {body}

    def forward(self, x):
        with torch.no_grad():
            z = self.neck(self.target(x))
        return (self.online(x) - z).pow(2).mean()


net = Net()
optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=0.1)
for step in range(4):
    loss = net(torch.randn(8, 4))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
assert [len(group["params"]) for group in optimizer.param_groups] == [2]
"""


@pytest.mark.parametrize(
    ("each", "body"),
    [
        ("p", "yield from self.target.parameters()\n        yield from self.neck.parameters()"),
        ("p", "for m in (self.target, self.neck):\n            for p in m.parameters():\n                yield p"),
        ("p", "return (p for m in (self.target, self.neck) for p in m.parameters())"),
        ("name, p", "yield from self.target.named_parameters()\n        yield from self.neck.named_parameters()"),
    ],
)
def test_all_parameters_that_a_generator_yields_are_frozen(each: str, body: str) -> None:
    program = FROZEN_BY_A_GENERATOR.format(each=each, body=body)
    assert check(from_text(program, "train.py")).findings == []


def test_a_generator_of_parameters_without_an_end_is_left() -> None:
    body = "while True:\n            yield self.neck.weight"
    report = check(from_text(FROZEN_BY_A_GENERATOR.format(each="p", body=body), "train.py"))
    assert not report.interpretation.exhausted


TWO_CUTS = """\
import torch
from torch import nn

actor = nn.Linear(4, 2)
scale = torch.zeros(1, requires_grad=True)
optimizer = torch.optim.Adam([scale, *actor.parameters()])
for _ in range(5):
    action = torch.tanh(actor(torch.randn(8, 4)))
    entropy = -(action ** 2).sum(-1)
    first = ({first}).mean()
    second = ({second}).mean()
    optimizer.zero_grad()
    (first + second).backward()
    optimizer.step()
"""
MEANT, IDLE = "scale.exp().detach() * entropy - action.sum(-1)", "scale.detach().exp() * (entropy.detach() + 2.0)"


@pytest.mark.parametrize(("first", "second", "line"), [(MEANT, IDLE, 11), (IDLE, MEANT, 10)])
def test_of_two_cuts_the_one_that_makes_a_term_a_constant_is_the_mistake(first: str, second: str, line: int) -> None:
    report = check(from_text(TWO_CUTS.format(first=first, second=second), "train.py"))
    finding = next(one for one in report.findings if one.code == CODE)
    assert finding.span.line == line and len([one for one in finding.labels if one.role == "cut"]) == 1
    assert fixes_for(report, finding)[0].title == f"Take out `.detach()` on line {line}: gradients flow again"


@pytest.mark.parametrize("slip", ["torch.tensor(state.tolist())", "torch.tensor(state.cpu().tolist())"])
def test_a_cut_that_slipped_in_is_the_mistake_beside_one_that_was_written(slip: str) -> None:
    text = f"""\
import torch
from torch import nn

encoder, decoder = nn.Linear(3, 4), nn.Linear(4, 3)
optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.1)
for _ in range(3):
    state = encoder(torch.randn(2, 3))
    size = state.detach().pow(2).mean()
    loss = decoder({slip}).pow(2).mean() + size
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    finding = next(one for one in check(from_text(text, "train.py")).findings if one.code == CODE)
    assert finding.span.line == 9


DRAWN = """\
import torch
from torch import nn
encoder, decoder = nn.Linear(4, 3), nn.Linear(3, 4)
optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.1)
for step in range(3):
    x = torch.rand(5, 4)
    h = encoder(x).sigmoid()
    z = DRAW
    loss = (decoder(z) - x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def _codes_and_gradients(draw: str) -> tuple[list[str], bool]:
    text = DRAWN.replace("DRAW", draw)
    names: dict[str, Any] = {}
    exec(text, names)
    findings = check(from_text(text, "program.py")).findings
    return [one.code for one in findings], bool(names["encoder"].weight.grad.any())


@pytest.mark.parametrize(
    "draw",
    [
        "torch.normal(h, 1.0)",
        "torch.normal(mean=h, std=torch.ones(5, 3))",
        "torch.bernoulli(h)",
        "h.bernoulli()",
        "torch.poisson(h)",
        "h.round()",
        "torch.floor(h * 4) / 4",
        "(h - 0.5).sign()",
        "torch.bernoulli(h) + h.detach()",
    ],
)
def test_what_a_draw_or_a_rounding_hands_back_is_zeros(draw: str) -> None:
    assert _codes_and_gradients(draw) == ([CODE], False)


@pytest.mark.parametrize(
    "draw",
    [
        "h + torch.randn_like(h)",
        "h + (h.round() - h).detach()",
        "h.round() + 0.1 * h",
        "torch.bernoulli(h) * h",
        "h * torch.rand_like(h)",
        "torch.nn.functional.dropout(h, 0.5)",
        "torch.clamp(h, 0.2, 0.8)",
    ],
)
def test_what_leads_past_a_draw_or_a_rounding_has_a_gradient(draw: str) -> None:
    assert _codes_and_gradients(draw) == ([], True)


def test_what_is_said_of_a_draw() -> None:
    (finding,) = check(from_text(DRAWN.replace("DRAW", "torch.normal(h, 1.0)"), "program.py")).findings
    assert finding.message == "`encoder.*` are never trained: their gradient is always zero"
    assert "`mean + std * torch.randn_like(mean)`" in finding.help
    assert {label.message for label in finding.labels} == {
        "this backward gives them zeros", "`SGD` steps them here with zeros",
    }  # fmt: skip


def test_a_policy_whose_draws_are_scored_is_trained() -> None:
    text = DRAWN.replace("DRAW", "torch.bernoulli(h)").replace(
        "    loss =", "    score = (h.log() * z).sum()\n    loss = score +"
    )
    assert check(from_text(text, "program.py")).findings == []


ACTOR = """
import torch


class Actor:
    def __init__(self):
        self.model = torch.nn.Linear(4, 2)
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.scores = []

    def act(self, board):
        score = self.model(board).log_softmax(1).max()
        self.scores.append(score)
        return score

    def learn(self, board, score):
        loss = LOSS * self.model(board)[0].data[0]
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
"""


@pytest.mark.parametrize("loss", ["score", "sum(self.scores)", "sum(one for one in self.scores)"])
def test_what_a_method_is_given_may_lead_to_its_parameters(loss: str) -> None:
    assert check(from_text(ACTOR.replace("LOSS", loss), "actor.py")).findings == []


def test_beside_a_parameter_of_its_own_a_cut_is_told() -> None:
    text = ACTOR.replace("LOSS", "self.scale").replace(
        "        self.scores = []", "        self.scale = torch.nn.Parameter(torch.ones(()))\n        self.scores = []"
    )
    (finding,) = check(from_text(text, "actor.py")).findings
    assert (finding.code, finding.span.line) == (CODE, 18)


TARGET = """
import copy

import torch
from torch import nn


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.original = nn.Linear(4, 2)
        self.target = nn.Linear(4, 2)

    def renew(self):
        self.target = NEW


model = Network()
optimizer = torch.optim.Adam(model.parameters())
model.renew()
for step in range(8):
    state = torch.randn(8, 4)
    expected = 1 + 0.9 * model.target(state).max(-1)[0]
    loss = (model.original(state).max(-1)[0] - expected).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(("new", "codes"), [("copy.deepcopy(self.original)", []), ("nn.Linear(4, 2)", ["TAPE405"])])
def test_a_copy_of_what_is_trained_replaces_nothing(new: str, codes: list[str]) -> None:
    found = check(from_text(TARGET.replace("NEW", new), "program.py")).findings
    assert [finding.code for finding in found] == codes


STEPPED = """
import torch
from torch import nn


class Trainer:
    def __init__(self, scale):
        self.scale = scale
        self.body, self.head = nn.Linear(4, 4), nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD([*self.body.parameters(), *self.head.parameters()], lr=0.1)

    def step(self, x, y, weight=None):
        out = self.head(self.body(x).detach())
        loss = LOSS
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
"""


@pytest.mark.parametrize(
    "loss",
    [
        "(out - y).pow(2).mean()",
        "nn.functional.mse_loss(out, y)",
        "out.mean() * self.scale",
        "(out * weight).sum() / len(y)",
    ],
)
def test_what_a_method_is_given_beside_what_it_trains_excuses_no_cut(loss: str) -> None:
    (finding,) = check(from_text(STEPPED.replace("LOSS", loss), "trainer.py")).findings
    assert (finding.code, finding.span.line, finding.certain) == (CODE, 13, True)


ANEW = """\
import torch
from torch import nn

net = nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
before = [parameter.detach().clone() for parameter in net.parameters()]
x, y = torch.randn(8, 3), torch.randn(8, 1)


def loss_of(weight, bias):
    return (x @ weight.t() + bias - y).pow(2).mean()


for step in range(3):
    optimizer.zero_grad()
{body}
    optimizer.step()
print(any((one - old).abs().max() > 1e-6 for one, old in zip(net.parameters(), before)))
"""

UNTRAINED_BY_A_LEAF = {
    "parameters": """\
    weight, bias = nn.Parameter(net.weight * 1.0), nn.Parameter(net.bias * 1.0)
    loss_of(weight, bias).backward()""",
    "an inner step": """\
    fast = [net.weight, net.bias]
    for _ in range(2):
        grads = torch.autograd.grad(loss_of(*fast), fast, create_graph=True)
        fast = [nn.Parameter(one - 0.1 * grad) for one, grad in zip(fast, grads)]
    loss_of(*fast).backward()""",
    "a copy": """\
    out = torch.tensor(net(x), requires_grad=True)
    (out - y).pow(2).mean().backward()""",
    "a variable": """\
    out = torch.autograd.Variable(net(x), requires_grad=True)
    (out - y).pow(2).mean().backward()""",
    "a method": """\
    out = net(x).detach().requires_grad_()
    (out - y).pow(2).mean().backward()""",
}
TRAINED_BESIDE_A_LEAF = {
    "another loss": """\
    weight, bias = nn.Parameter(net.weight * 1.0), nn.Parameter(net.bias * 1.0)
    (loss_of(weight, bias) + loss_of(net.weight, net.bias)).backward()""",
    "first order": """\
    fast = [nn.Parameter(one * 1.0) for one in net.parameters()]
    loss_of(*fast).backward()
    for one, other in zip(net.parameters(), fast):
        one.grad = other.grad""",
    "its gradient goes on": """\
    out = net(x)
    leaf = out.detach().requires_grad_()
    (leaf - y).pow(2).mean().backward()
    out.backward(leaf.grad)""",
    "an input": """\
    noise = nn.Parameter(torch.zeros(8, 3))
    (net(x + noise) - y).pow(2).mean().backward()""",
    "searched for with the model": """\
    (net(x) - y).pow(2).mean().backward()
    found = nn.Parameter(net(x) * 1.0)
    search = torch.optim.SGD([found], lr=0.1)
    (found - y).pow(2).mean().backward()
    search.step()""",
}


def test_a_leaf_that_each_iteration_makes_of_a_value(tmp_path: Path) -> None:
    texts = {name: ANEW.format(body=body) for name, body in {**UNTRAINED_BY_A_LEAF, **TRAINED_BESIDE_A_LEAF}.items()}
    reports = {name: check(from_text(text, "program.py")) for name, text in texts.items()}
    requests = []
    for number, text in enumerate(texts.values()):
        (tmp_path / f"{number}.py").write_text(text)
        requests.append({"path": tmp_path / f"{number}.py"})
    moved = [outcome["output"].split()[-1] == "True" for outcome in under_torch.run_all(requests)]

    assert moved == [name in TRAINED_BESIDE_A_LEAF for name in texts]
    told = [name for name, report in reports.items() if any(one.code == CODE for one in report.findings)]
    assert told == list(UNTRAINED_BY_A_LEAF)


def test_the_new_leaf_is_taken_out(tmp_path: Path) -> None:
    text = ANEW.format(body=UNTRAINED_BY_A_LEAF["an inner step"])
    report = check(from_text(text, "program.py"))
    (finding,) = report.findings

    assert finding.message == "`net.weight`, `net.bias` are never trained: a new leaf cuts their graph"
    fix = fixes_for(report, finding)[0]
    assert (fix.applicability, fix.title) == ("unsafe", "Take out the new leaf on line 19: gradients flow again")
    (tmp_path / "fixed.py").write_text(_edited(text, fix.edits))
    (outcome,) = under_torch.run_all([{"path": tmp_path / "fixed.py"}])
    assert outcome["output"].split()[-1] == "True"


BOUNDED = """\
import torch
from torch import nn, optim

table = nn.Embedding(10, 4)
net = nn.Linear(4, 4)
optimizer = optim.AdamW([*net.parameters(), *table.parameters()])
for step in range(9):
    rows = table(torch.randint(0, 10, (8,)))
    loss = nn.functional.mse_loss(net(rows.detach()), torch.randn(8, 4))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        norm = table.weight.norm()
        TEXT
"""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("table.weight.data.clamp_(-1, 1)", 1),
        ("table.weight.clamp_(-1, 1).clamp_(max=0.5)", 1),
        # A factor may teach it what is not asked of gradients: exponentiated gradients, schedules, Sinkhorn's steps.
        ("table.weight.mul_(5 / norm)", 0),
        ("table.weight.div_(norm).clamp_(-1, 1)", 0),
        ("table.weight.mul_(torch.exp(-0.1 * rows.mean(0)))", 0),
        ("table.weight.data.mul_(0.95)", 0),
        # An average learns.
        ("table.weight.mul_(0.9).add_(0.1 * rows.mean(0))", 0),
        ("table.weight.copy_(torch.randn(10, 4))", 0),
    ],
)
def test_a_weight_that_is_held_within_bounds_learns_nothing(text: str, told: int) -> None:
    report = check(from_text(BOUNDED.replace("TEXT", text), "train.py"))
    assert [one.code for one in report.findings] == ["TAPE402"] * told


CODEBOOK = """\
import torch
from torch import nn

encoder, codebook, decoder = nn.Linear(8, 4), nn.Embedding(16, 4), nn.Linear(4, 8)
optimizer = torch.optim.Adam([*encoder.parameters(), *codebook.parameters(), *decoder.parameters()])
for step in range(4):
    x = torch.randn(32, 8)
    z = encoder(x)
    index = torch.cdist(z, codebook.weight).argmin(dim=1)
    chosen = {chosen}
    {passed}
    loss = nn.functional.mse_loss(decoder(chosen), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    "chosen", ["codebook(index)", "codebook.weight[index]", "codebook.weight.index_select(0, index)"]
)
def test_what_is_chosen_from_a_codebook_is_to_pass_the_gradient_on(chosen: str) -> None:
    (finding,) = check(from_text(CODEBOOK.format(chosen=chosen, passed="pass"), "vq.py")).findings
    assert "`z + (chosen - z).detach()`" in finding.help
    # What it says mends the program: the encoder learns, and the codebook does by a loss of its own.
    own = CODEBOOK.format(
        chosen=chosen, passed="own = (chosen - z.detach()).pow(2).mean()\n    chosen = z + (chosen - z).detach()"
    )
    mended = own.replace("mse_loss(decoder(chosen), x)", "mse_loss(decoder(chosen), x) + own")
    space: dict[str, Any] = {}
    exec(mended, space)
    learned = [
        p.grad is not None and bool(p.grad.abs().sum() > 0)
        for m in ("encoder", "codebook")
        for p in space[m].parameters()
    ]
    assert all(learned) and check(from_text(mended, "vq.py")).findings == []


LATER = """\
import torch
from torch import nn

teacher, spare, student = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), nn.Linear(4, 3), nn.Linear(4, 3)
first = torch.optim.SGD({given}, lr=0.1)
second = torch.optim.Adam(student.parameters())
for x in torch.randn(5, 2, 4):
    {early}
    loss = teacher(x).pow(2).mean(){also}
    first.zero_grad()
    loss.backward()
    first.step()
for x in torch.randn(5, 2, 4):
    {target}
    loss = (student(x) - target).pow(2).mean()
    second.zero_grad()
    loss.backward()
    second.step()
    {late}
"""
GIVEN = (
    "[*teacher.parameters(), *spare.parameters()]",
    "[{'params': teacher.parameters()}, {'params': spare.parameters(), 'lr': 0.0}]",
    "nn.ModuleList([spare, teacher]).parameters()",
)
TARGETS = (
    "target = spare(teacher(x)).detach()", "target = spare(teacher(x)).data", "target = spare(x.detach()).detach()",
    "with torch.no_grad():\n        target = spare(teacher(x))", "target = torch.tensor(spare(x).tolist())",
)  # fmt: skip


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("target", TARGETS)
def test_what_a_teacher_is_asked_after_its_last_step_is_not_what_it_lacks(target: str, given: str) -> None:
    def places(early: str = "pass", also: str = "", late: str = "pass") -> list[tuple[str, int]]:
        text = LATER.format(given=given, target=target, early=early, also=also, late=late)
        found = [(each.code, each.span.line) for each in check(from_text(text, "phases.py")).findings]
        return [each for each in found if each[0] == CODE]

    assert places() == []
    # Where the graph is cut before its own step, that is told; and where its own step comes behind the student's.
    assert [line for _, line in places("extra = spare(x).detach()", " + extra.mean()")] == [8]
    assert [line for _, line in places(late="first.step()")][:1] in ([14], [15])
