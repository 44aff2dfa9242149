"""TAPE405 on tapes by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tapecheck.check import check
from tapecheck.fixes import fixes_for
from tapecheck.rules import Finding
from tapecheck.rules.untrained_parameter import rule
from tapecheck.rules.untrained_parameter.rule import UntrainedParameter
from tapecheck.source import from_text
from tapecheck.tape import GradientRead, GradientSet, InPlace, LeafEscape, LeftOut, Named
from tests.rules.conftest import Builder

Found = Callable[..., list[Finding]]


def training(
    builder: Builder, *, whole: bool = True, registered: bool = False, above: bool = True, iterations: int = 3
) -> tuple[int, int, int]:
    """`body` is in the optimizer made on line 3, `head` (line 2) is not; backward on line 5, step on line 6."""
    body, head = builder.leaf(1, "net.body.weight"), builder.leaf(2, "net.head.weight")
    optimizer = builder.optimizer(3, body)
    with builder.loop(4) as rounds:
        for index in range(iterations):
            rounds()
            first, second = (body, head) if above else (head, body)
            hidden = builder.node(4, first, saves=[first])
            builder.backward(5, builder.node(5, hidden, second, saves=[hidden], name="loss"))
            builder.step(6, optimizer, body)
            if index == 0:
                builder.tape.events.append(LeftOut(builder.site(6), optimizer, (head,), whole, registered))
            builder.cleared(7, body)
    return body, head, optimizer


@pytest.mark.parametrize(("whole", "registered"), [(True, False), (True, True), (False, True)])
def test_a_leaf_with_gradients_that_no_optimizer_has(
    build: Builder, found: Found, whole: bool, registered: bool
) -> None:
    training(build, whole=whole, registered=registered)
    (finding,) = found(build, code="TAPE405")
    assert finding.span.line == 2
    assert finding.message == "`net.head.weight` is in no optimizer: never trained"
    assert {label.span.line for label in finding.labels} == {3, 5}
    said = {
        (True, False): "it is not registered as parameters of `net`",
        (True, True): "it was added to `net` once `optimizer` had been made",
        (False, True): "`optimizer` was given other parts of `net`",
    }[whole, registered]
    assert finding.notes[0].startswith(said)


def test_one_gradient_is_not_training(build: Builder, found: Found) -> None:
    training(build, iterations=1)
    assert found(build, code="TAPE405") == []


def test_a_body_below_the_part_that_is_trained_may_be_meant(build: Builder, found: Found) -> None:
    training(build, whole=False, registered=True, above=False)
    assert found(build, code="TAPE405") == []


@pytest.mark.parametrize("what", ["read", "set", "changed", "escaped", "listed"])
def test_what_the_program_looks_after_itself(build: Builder, found: Found, what: str) -> None:
    _, head, _ = training(build)
    site = build.site(8)
    more = {
        "read": GradientRead(site, head),
        "set": GradientSet(site, head),
        "changed": InPlace(build.site(8), build.storages[head], "data.copy_", bumps="no"),
        "escaped": LeafEscape(site, (head,), "Trainer"),
        "listed": None,
    }[what]
    if what == "listed":
        build.optimizer(8, head)
    elif what == "changed":
        with build.loop(8) as rounds:
            rounds()
            build.change(8, head, "data.copy_", bumps="no")
    elif more is not None:
        build.tape.events.append(more)
    assert found(build, code="TAPE405") == []


def test_another_way_that_hands_it_over_leaves_it_undecided(
    build: Builder, another: Callable[[], Builder], found: Found
) -> None:
    training(build)
    other = another()
    _, head, _ = training(other)
    other.optimizer(8, head)
    assert found(build, other, code="TAPE405") == []


def test_the_rule_is_told_once_for_what_one_attribute_holds(build: Builder, found: Found) -> None:
    body = build.leaf(1, "net.body.weight")
    heads = [build.leaf(2, "Linear.weight"), build.leaf(3, "Linear.bias")]
    for number, head in enumerate(heads):
        build.tape.events.append(Named(head, f"net.heads[{number}].weight"))
    optimizer = build.optimizer(4, body)
    with build.loop(5) as rounds:
        for _ in range(2):
            rounds()
            hidden = build.node(6, body, saves=[body])
            build.backward(7, build.node(6, hidden, *heads, saves=[hidden]))
            build.step(8, optimizer, body)
            build.tape.events.append(LeftOut(build.site(8), optimizer, tuple(heads), True, False))
    (finding,) = found(build, code=UntrainedParameter.code)
    assert finding.message == "`net.heads[0].weight` and 1 more are in no optimizer: never trained"


BESIDE = """\
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

net = nn.Linear(3, 2)
scale = MADE
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(4):
    y = net(torch.randn(4, 3))
    loss = USED
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
NUMBERS = [
    "torch.tensor(2.0, requires_grad=True)",
    "torch.ones(1, requires_grad=True)",
    "torch.ones(1).requires_grad_()",
]


def beside(made: str, used: str, *edits: tuple[str, str]) -> list[tuple[str, int]]:
    text = BESIDE.replace("MADE", made).replace("USED", used)
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return [(finding.code, finding.span.line) for finding in check(from_text(text, "train.py")).findings]


@pytest.mark.parametrize("made", [*NUMBERS, "nn.Parameter(torch.ones(2))"])
@pytest.mark.parametrize("used", ["(y * scale).mean()", "(y / scale.exp()).pow(2).mean()"])
def test_a_number_beside_the_modules_is_to_be_trained(made: str, used: str) -> None:
    assert beside(made, used) == [("TAPE405", 6)]


@pytest.mark.parametrize("made", NUMBERS)
@pytest.mark.parametrize(
    "used",
    [
        "scale + y.mean()",
        "checkpoint(lambda a, b: a.pow(2), y, scale, use_reentrant=True).mean()",
        "(y * scale.detach()).mean()",
        "torch.autograd.grad((y * scale).mean(), scale, create_graph=True)[0].sum() + (y * scale).mean()",
    ],
)
def test_a_number_that_is_not_to_be_trained(made: str, used: str) -> None:
    assert beside(made, used) == []


@pytest.mark.parametrize(
    "edit",
    [
        ("net.parameters()", "[*net.parameters(), scale]"),
        ("    optimizer.step()\n", "    optimizer.step()\n    scale.data -= 0.1 * scale.grad; scale.grad = None\n"),
        ("    optimizer.step()\n", "    optimizer.step()\n    print(scale.grad)\n"),
        ("    y = ", "    scale = torch.tensor(1.0, requires_grad=True)\n    y = "),
        ("torch.tensor(2.0, requires_grad=True)", "torch.randn(4, 2, requires_grad=True)"),
    ],
)
def test_what_is_looked_after_or_may_be_data(edit: tuple[str, str]) -> None:
    assert beside(NUMBERS[0], "(y * scale).mean()", edit) == []


OWN_LOSS = ("    optimizer.step()\n", "    optimizer.step()\n    (-scale * y.detach().mean()).sum().backward()\n")


@pytest.mark.parametrize("made", [*NUMBERS, "nn.Parameter(torch.ones(2))"])
@pytest.mark.parametrize("used", ["y.mean()", "(y * scale.detach()).mean()", "(y * scale.exp().item()).mean()"])
def test_a_number_that_a_loss_of_its_own_tunes(made: str, used: str) -> None:
    used = used.replace("exp().item()", "exp().sum().item()")
    assert beside(made, used, OWN_LOSS) == [("TAPE405", 6)]


@pytest.mark.parametrize(
    "edit",
    [
        ("optimizer = ", "tuned = torch.optim.Adam([scale])\noptimizer = "),
        ("for step", "scale.register_hook(print)\nfor step"),
        (".sum().backward()\n", ".sum().backward()\n    print(scale.grad)\n"),
        (".sum().backward()\n", ".sum().backward()\n    scale.data.sub_(scale.grad)\n    scale.grad = None\n"),
        (".sum().backward()\n", ".sum().backward(inputs=[scale])\n"),
        ("for step", "scale.requires_grad_(False)\nscale.requires_grad_()\nlater(scale)\nfor step"),
    ],
    ids=["an-optimizer-of-its-own", "a-hook", "read", "set-by-hand", "asked-for", "handed-over"],
)
def test_a_number_with_a_loss_of_its_own_that_something_looks_after(edit: tuple[str, str]) -> None:
    assert beside(NUMBERS[0], "y.mean()", OWN_LOSS, edit) == []


LOSS = """\
import torch
from torch import nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.out = nn.Linear(6, 4), nn.Linear(4, 3)


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = MADE
        LAYER

    def forward(self, z, y):
        return FORWARD


net, own = Net(), Own()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(4):
    x, y = torch.randn(8, 6), torch.randint(0, 3, (8,))
    z = net.embed(x)
    loss = F.cross_entropy(net.out(z), y) + own(ARGUMENT, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
CENTERS, WEIGHTS = "nn.Parameter(torch.randn(3, 4))", "nn.Parameter(torch.zeros(2))"


def loss_module(made: str, forward: str, layer: str = "pass", argument: str = "z", given: str = "") -> list[Finding]:
    text = LOSS.replace("MADE", made).replace("FORWARD", forward).replace("LAYER", layer).replace("ARGUMENT", argument)
    text = text.replace("net.parameters(), lr", f"{given or 'net.parameters()'}, lr")
    return list(check(from_text(text, "train.py")).findings)


@pytest.mark.parametrize(
    ("made", "forward"),
    [
        (CENTERS, "(z - self.kept[y]).pow(2).sum(1).mean()"),
        (CENTERS, "F.cross_entropy(F.normalize(z) @ F.normalize(self.kept).t(), y)"),
        (WEIGHTS, "torch.exp(-self.kept[0]) * z.pow(2).mean() + self.kept[0]"),
        (WEIGHTS, "(F.softplus(self.kept) * torch.stack([z.mean(), z.std()])).sum()"),
    ],
)
def test_a_loss_with_parameters_of_its_own_is_left_out(made: str, forward: str) -> None:
    (found,) = [one for one in loss_module(made, forward) if one.code == "TAPE405"]
    assert found.span.line == 15
    assert found.message == "`own.kept` is in no optimizer: never trained"


@pytest.mark.parametrize(
    "given",
    {
        "made": (CENTERS, "F.mse_loss(z, F.linear(x, self.kept.t()))"),
        "layer": (CENTERS, "(self.layer(z) - self.kept[y]).pow(2).mean()", "self.layer = nn.Linear(4, 4)"),
        "handed over": (CENTERS, "(z - self.kept[y]).pow(2).mean()", "pass", "z",
                        "[*net.parameters(), *own.parameters()]"),
        "frozen": (CENTERS.replace("4))", "4), requires_grad=False)"), "(z - self.kept[y]).pow(2).mean()"),
    }.values(),
)  # fmt: skip
def test_a_module_that_is_meant_to_stay_as_it_is(given: tuple[str, ...]) -> None:
    assert [one.code for one in loss_module(*given) if one.code == "TAPE405"] == []


def test_a_custom_teacher_of_raw_weights_is_no_loss() -> None:
    text = LOSS.replace("MADE", "nn.Parameter(torch.randn(4, 6))").replace("LAYER", "pass")
    text = text.replace("FORWARD", "(torch.relu(y @ self.kept.t()) - z).pow(2).mean()").replace(
        "own(ARGUMENT, y)", "own(z, x)"
    )
    assert [one.code for one in check(from_text(text, "train.py")).findings if one.code == "TAPE405"] == []


HEAD_OF_FROZEN = """\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 100))
for p in model.parameters():
    p.requires_grad = False
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model[2] = nn.Linear(16, 3)
for _ in range(3):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(torch.randn(5, 8)), torch.randint(0, 3, (5,)))
    loss.backward()
    optimizer.step()
"""


def test_a_head_that_replaces_one_of_a_frozen_model_is_reported_where_it_is_made() -> None:
    findings = check(from_text(HEAD_OF_FROZEN, "train.py")).findings
    assert [(finding.code, finding.span.line) for finding in findings] == [("TAPE405", 8)]
    assert "once `SGD` had been made" in findings[0].notes[-1]


def test_a_model_that_is_all_frozen_is_told_where_it_is_frozen() -> None:
    text = HEAD_OF_FROZEN.replace("model[2] = ", "other = ").replace("model(torch", "other(torch")
    text = text.replace("(5, 8)", "(5, 16)")
    findings = check(from_text(text, "train.py")).findings
    assert [(finding.code, finding.span.line) for finding in findings] == [("TAPE402", 6)]


def test_a_head_with_an_optimizer_of_its_own_is_trained() -> None:
    second = "second = torch.optim.SGD(model[2].parameters(), lr=0.1)\nfor _"
    text = HEAD_OF_FROZEN.replace("for _", second).replace("    optimizer.step()", "    second.step()")
    assert all(finding.code != "TAPE405" for finding in check(from_text(text, "train.py")).findings)


@pytest.mark.parametrize(
    ("kept", "add"),
    [
        ("nn.ModuleDict()", "self.heads[name] = nn.Linear(4, n)"),
        ("nn.ModuleList()", "self.heads.append(nn.Linear(4, n))"),
    ],
)
def test_a_head_that_a_method_adds_once_the_optimizer_is_made(kept: str, add: str) -> None:
    first, second = ('"a"', '"b"') if "Dict" in kept else ("0", "1")
    program = f"""\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = {kept}

    def add(self, name, n):
        {add}

    def forward(self, name, x):
        return self.heads[name](x)


net = Net()
net.add({first}, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
net.add({second}, 2)
for step in range(4):
    x = torch.randn(8, 4)
    loss = net({first}, x).pow(2).mean() + net({second}, x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    (finding,) = check(from_text(program, "train.py")).findings
    assert (finding.code, finding.span.line) == ("TAPE405", 20)
    assert "made here" in {label.message for label in finding.labels if label.span.line == 11}


@pytest.mark.parametrize(
    "register",
    [
        "self.register_parameter(f'{kind}_{n}', made)",
        "self.register_parameter(name=f'{kind}_{n}', param=made)",
        "setattr(self, f'{kind}_{n}', made)",
    ],
)
def test_a_module_has_what_is_registered_under_a_name_that_nobody_knows(register: str) -> None:
    program = f"""\
import config
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.body, self.made = nn.Linear(4, 4), {{}}
        self.make("scale", n)
        self.make("shift", 2 * n)
        self.make("shift", 3 * n)

    def make(self, kind, n):
        made = nn.Parameter(torch.zeros(4))
        self.made[kind, n] = made
        {register}

    def forward(self, x):
        return self.body(x) * sum(self.made.values())


net = Net(config.n)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(4):
    loss = net(torch.randn(4)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    assert check(from_text(program, "train.py")).findings == []


ONCE = """\
import torch
from torch import nn

w, b = (torch.ones(3, requires_grad=True) for _ in range(2))
{before}
optimizer = torch.optim.SGD({given}, lr=0.1)
{after}
for step in range(4):
    optimizer.zero_grad()
    loss = (w * torch.randn(3) + b).pow(2).sum()
    loss.backward()
    optimizer.step()
"""
ANEW = (
    "w = (w * 2).detach().requires_grad_()",
    "w = (w.detach() * 2).requires_grad_()",
    "w = w.clone().detach().requires_grad_(True)",
    "w = nn.Parameter(w.detach() * 2)",
    "with torch.no_grad(): w = w * 2\nw.requires_grad_()",
)


def _stepped_with_gradients(text: str) -> list[bool]:
    """Return, for each parameter that the optimizer of a program has, whether torch gave it a gradient."""
    names: dict[str, Any] = {}
    exec(compile(text, "train.py", "exec"), names)
    return [one.grad is not None for group in names["optimizer"].param_groups for one in group["params"]]


@pytest.mark.parametrize("given", ["[w]", "[w, b]"])
@pytest.mark.parametrize("anew", ANEW)
def test_a_tensor_made_anew_once_behind_the_optimizer_is_told_once(anew: str, given: str) -> None:
    text = ONCE.format(before="", given=given, after=anew)
    (finding,) = check(from_text(text, "train.py")).findings
    assert (finding.code, finding.message) == ("TAPE405", "`w` is a new tensor, in no optimizer: never trained")
    assert "w" in text.splitlines()[finding.span.line - 1]
    assert _stepped_with_gradients(text) == [False, True][: given.count(",") + 1]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (ANEW[0], ""),
        ("", ANEW[0] + '\noptimizer.add_param_group({"params": [w]})'),
        ("", ANEW[0] + "\noptimizer = torch.optim.SGD([w, b], lr=0.1)"),
        ("", "teacher = (w * 2).detach().requires_grad_()"),
        ("", "with torch.no_grad(): w.mul_(2)"),
    ],
)
def test_a_tensor_that_the_optimizer_has_after_all(before: str, after: str) -> None:
    text = ONCE.format(before=before, given="[w, b]", after=after)
    assert check(from_text(text, "train.py")).findings == []
    assert _stepped_with_gradients(text)[-1]


HEAD = """\
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.fc = nn.Linear(6, 8), nn.Linear(8, 4)

    def forward(self, x):
        return self.fc(self.body(x))

model = Net()
{before}
optimizer = torch.optim.SGD({given}, lr=0.1)
model.fc = nn.Linear(8, 3)
for step in range(4):
    optimizer.zero_grad()
    loss = model(torch.randn(5, 6)).pow(2).mean()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize("before", ["", "model.requires_grad_(False)", "model.body.requires_grad_(False)"])
@pytest.mark.parametrize(
    "given", ["model.parameters()", "[one for one in model.parameters() if one.requires_grad]"], ids=["all", "trained"]
)
def test_a_head_that_is_replaced_behind_the_optimizer_is_told_once(before: str, given: str) -> None:
    if before == "model.requires_grad_(False)" and given != "model.parameters()":
        pytest.skip("torch refuses an empty list")
    text = HEAD.format(before=before, given=given)
    (finding,) = check(from_text(text, "train.py")).findings
    assert (finding.code, finding.span.line) == ("TAPE405", 15)
    assert not any(_stepped_with_gradients(text)[-2:])


AVERAGED = """\
import copy
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(8, 8)
        self.blocks = [nn.Linear(8, 8) for _ in range(2)]

    def forward(self, x):
        h = self.inp(x)
        for b in self.blocks:
            h = h + b(h)
        return h


net = Net()
ema = copy.deepcopy(net).requires_grad_(False)
opt = torch.optim.Adam(net.parameters())
for step in range(3):
    loss = net(torch.randn(8, 8)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


@pytest.mark.parametrize(
    ("then", "told"),
    [
        ("", ["TAPE405"]),
        ("\n    ema.load_state_dict(net.state_dict())", ["TAPE405"]),
        # What a copy has learned may come back.
        ("\n    ema.requires_grad_(True)(torch.randn(8, 8)).sum().backward()", []),
    ],
)
def test_a_copy_that_learns_nothing_trains_no_original(then: str, told: list[str]) -> None:
    text = AVERAGED.rstrip() + then + "\n"
    assert [one.code for one in check(from_text(text, "program.py")).findings if one.code == "TAPE405"] == told


PARTS = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.below = BELOW
        self.above = ABOVE

    def forward(self, x):
        return self.above(self.below(x)).pow(2).mean()


net = Net()
optimizer = torch.optim.SGD(net.GIVEN.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    net(torch.randn(2, 4)).backward()
    optimizer.step()
"""
ONE, TWO = "nn.Linear(4, 4)", "nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))"


@pytest.mark.parametrize(
    ("below", "above", "given", "told"),
    [
        (TWO, ONE, "below", 1),
        # Half of it and more is left as it is: an adapter, or a prompt, in front of what is there.
        (ONE, ONE, "below", 0), (TWO, TWO, "below", 0), (ONE, TWO, "below", 0),
        # A body is left as it is and its head alone trained.
        (ONE, ONE, "above", 0), (TWO, ONE, "above", 0),
    ],
)  # fmt: skip
def test_what_lies_above_all_that_is_trained_is_left_out(below: str, above: str, given: str, told: int) -> None:
    text = PARTS.replace("BELOW", below).replace("ABOVE", above).replace("GIVEN", given)
    assert [one.code for one in check(from_text(text, "train.py")).findings] == ["TAPE405"] * told


LISTED = """\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
LISTS
model[2] = nn.Linear(8, 3)
optimizer = torch.optim.SGD(GIVEN, lr=0.1)
for step in range(5):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(torch.randn(8, 4)), torch.randint(0, 3, (8,)))
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("lists", "given", "told"),
    [
        ("params = list(model.parameters())", "params", ["TAPE405"]),
        ("params = [{'params': model.parameters()}]", "params", ["TAPE405"]),
        ("params = dict(model.named_parameters())", "params.values()", ["TAPE405"]),
        # What was counted was never given, or the head was not to be trained.
        ("print(len(list(model.parameters())))", "model.parameters()", []),
        ("print(len(list(model.parameters())))", "model[0].parameters()", []),
        ("params = list(model[0].parameters())", "params", []),
    ],
)
def test_a_layer_replaced_once_the_parameters_were_listed_is_told(lists: str, given: str, told: list[str]) -> None:
    report = check(from_text(LISTED.replace("LISTS", lists).replace("GIVEN", given), "train.py"))
    assert [one.code for one in report.findings] == told
    for finding in report.findings:
        assert "the parameters that `model` had before" in finding.notes[-1]
        [fix] = fixes_for(report, finding)
        assert "List the parameters after line 6" in fix.title


ALL_FROZEN = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.head = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.encoder(x))


net = Net()
net.encoder.requires_grad_(False)
{optimizers}
for step in range(5):
    loss = net(torch.randn(8, 4)).pow(2).mean()
    net.zero_grad()
    loss.backward()
    {step}
"""


OF_ENCODER = "opt = torch.optim.SGD(net.encoder.parameters(), lr=0.1)"
OF_HEAD = "own = torch.optim.SGD(net.head.parameters(), lr=0.1)"
BY_HAND = "opt.step(); [one.data.sub_(0.1 * one.grad) for one in net.head.parameters()]"


@pytest.mark.parametrize(
    ("optimizers", "step", "told"),
    [
        (OF_ENCODER, "opt.step()", True),
        (OF_HEAD, "own.step()", False),
        ("opt = torch.optim.SGD(net.parameters(), lr=0.1)", "opt.step()", False),
        (f"{OF_ENCODER}\n{OF_HEAD}", "opt.step(); own.step()", False),
        (OF_ENCODER, BY_HAND, False),
        (OF_ENCODER, "opt.step(); net.encoder.requires_grad_(step > 1)", False),
    ],
)
def test_what_an_optimizer_of_frozen_parameters_lacks(optimizers: str, step: str, told: bool) -> None:
    report = check(from_text(ALL_FROZEN.format(optimizers=optimizers, step=step), "train.py"))
    found = [one for one in report.findings if one.code == "TAPE405"]
    assert [one.certain for one in found] == [True] * told
    if told:
        (fix,) = fixes_for(report, found[0])
        assert fix.title == "Hand `head` over, too: `opt.add_param_group`"


IN_GROUPS = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(4, 4) for _ in range(3)]
        self.norm = nn.LayerNorm(4)
        self.out = nn.Linear(4, 1)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).relu()
        return self.out(self.norm(x))


net = Net()
every = EVERY
MADE
optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": plain}], lr=1e-3)
for x in torch.randn(10, 8, 4):
    loss = net(x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
given = {id(p) for group in optimizer.param_groups for p in group["params"]}
"""
CHOSEN = ["p.ndim >= 2", "p.dim() > 1", "p.ndim == 2", "len(p.shape) > 1", "p.numel() > 4", "len(str(p)) % 2 == 0"]
PARTED = {
    "in comprehensions": "decay, plain = [p for p in every if CHOSEN], [p for p in every if not (CHOSEN)]",
    "in a loop": "decay, plain = [], []\nfor p in every:\n    (decay if CHOSEN else plain).append(p)",
    "by filter": "decay, plain = list(filter(lambda p: CHOSEN, every)), [p for p in every if not (CHOSEN)]",
    "in a dict": "named = dict(enumerate(every))\n"
    "decay = [p for n, p in named.items() if CHOSEN]\nplain = [p for n, p in named.items() if not (CHOSEN)]",
}


@pytest.mark.parametrize("made", PARTED.values(), ids=PARTED)
@pytest.mark.parametrize("chosen", CHOSEN)
def test_what_is_picked_of_known_parameters_holds_no_others(chosen: str, made: str) -> None:
    for every in ("list(net.parameters())", "[*net.parameters(), *(p for l in net.layers for p in l.parameters())]"):
        text = IN_GROUPS.replace("MADE", made).replace("CHOSEN", chosen).replace("EVERY", every)
        names: dict[str, Any] = {}
        exec(compile(text, "groups.py", "exec"), names)
        lacks = not all(id(p) in names["given"] for layer in names["net"].layers for p in layer.parameters())
        told = "TAPE405" in [one.code for one in check(from_text(text, "groups.py")).findings]
        assert told == lacks


TURNS = """\
import random

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)
        self.heads = {heads}

    def forward(self, x, at):
        {forward}


net = Net()
{frozen}
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(9):
    at = {at}
    loss = net(torch.randn(8, 4), at).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""

TURNING = "[nn.Linear(4, 2) for _ in range(3)]"
PICKED = "return self.heads[at](self.body(x))"
ADDED = "self.heads.append(torch.zeros(4, requires_grad=True)); return self.body(x + self.heads[-1])"


@pytest.mark.parametrize("frozen", ["pass", "net.body.requires_grad_(False)"])
@pytest.mark.parametrize(
    ("heads", "forward", "at", "told"),
    [
        (TURNING, PICKED, "step % 3", True),
        (TURNING, PICKED, "1", True),
        ('{one: nn.Linear(4, 2) for one in "abc"}', PICKED, 'random.choice("abc")', True),
        ("[nn.Linear(4, 2)]", PICKED, "0", True),
        (f"nn.ModuleList({TURNING})", PICKED, "step % 3", False),
        (f"{TURNING}\n        [one.requires_grad_(False) for one in self.heads]", PICKED, "step % 3", False),
        ("[]", ADDED, "0", False),
    ],
)
def test_layers_of_a_plain_list_take_turns(heads: str, forward: str, at: str, told: bool, frozen: str) -> None:
    """What is told is the list, also where all that the optimizer has is frozen on purpose."""
    text = TURNS.format(heads=heads, forward=forward, at=at, frozen=frozen)
    findings = [one for one in check(from_text(text, "train.py")).findings if one.code in ("TAPE402", "TAPE405")]
    if told:
        assert [(one.code, one.span.line) for one in findings] == [("TAPE405", 11)]
        assert findings[0].notes[-1].startswith("they are not registered as parameters of `net`")
    else:
        assert [one.code for one in findings if one.code == "TAPE405"] == []


def test_a_longer_plain_list_costs_no_more_for_each_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which layers take turns is found out once, not anew for each of them."""
    asked = Counter[int]()
    group, added = rule._group, rule._added
    monkeypatch.setattr(rule, "_group", lambda leaf: asked.update([leaf.id]) or group(leaf))
    monkeypatch.setattr(rule, "_added", lambda reading, leaf: asked.update([leaf]) or added(reading, leaf))
    forward = "return self.heads[at](self.body(x)).sum() + sum(one(x).sum() for one in self.heads)"
    most = []
    for count in (4, 16):
        heads = f"[nn.Sequential(*[nn.Linear(4, 2) for _ in range(3)][:1]) for _ in range({count})]"
        text = TURNS.format(heads=heads, forward=forward, at=0, frozen="pass")
        assert "TAPE405" in [one.code for one in check(from_text(text, "train.py")).findings]
        most.append(max(asked.values()))
        asked.clear()
    assert most[0] == most[1]
