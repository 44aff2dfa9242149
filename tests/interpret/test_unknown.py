"""What hangs on values nobody knows: quiet where nothing is wrong, "may" where only some of them are."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

PROGRAMS = Path(__file__).parents[1] / "cases" / "programs"
HEAD = "import pytest\nimport torch\nfrom torch import nn\n"
LOSS = "    y = torch.ones(3, requires_grad=True).exp().sum()\n"
TOLD = {
    "parts of a model, called before the backward": """\
import explained
model = explained.model()
class Extractor:
    def forward(self, x):
        for name, part in model.features._modules.items():
            x = part(x)
            if name == "3":
                x.register_hook(print)
        return model.classifier(x)
x = torch.randn(1, 4)
score = Extractor().forward(x).max()
model.zero_grad()
score.backward(retain_graph=True)
""",
}
QUIET = {
    "a method of the model that built the graph": """\
import explained
class Generator:
    def __init__(self, model):
        self.model = model
    def relevance(self, x):
        score = self.model(x).max()
        self.model.zero_grad()
        score.backward(retain_graph=True)
        return self.model.relprop(alpha=1)
model = explained.model()
for x in torch.randn(3, 4):
    model(x).sum().backward(retain_graph=True)
    print(model.higher_order())
for x in torch.randn(3, 4):
    model(x).sum().backward(retain_graph=True)
    print(model.blocks[-1].attention.relevance(), [block.relevance() for block in model.blocks])
""",
    "a method of the loss that built the graph": """\
import losses
criterion = losses.Perceptual()
net = nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in torch.randn(3, 2, 4):
    loss = criterion(net(x), x)
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    criterion.adapt()
    optimizer.step()
""",
    "a graph that the caller still has": """\
def hypergradients(params, hparams, outer_loss):
    return torch.autograd.grad(outer_loss(params, hparams), hparams, retain_graph=True)
""",
    "a graph that what unknown code computes may share": """\
class Unroll:
    def __init__(self, loss_of, weights, rounds=4):
        self.loss_of, self.weights, self.rounds = loss_of, weights, rounds
    def backward(self, start):
        kept = [part.data for part in start]
        for _ in range(self.rounds):
            moved = [(part + 1).requires_grad_() for part in kept]
            slopes = torch.autograd.grad(self.loss_of(moved), moved + self.weights, retain_graph=True)
            kept = [part - slope.data for part, slope in zip(kept, slopes)]
        return kept
""",
    "a graph that a Function keeps for its backward": """\
class Penalty(torch.autograd.Function):
    @staticmethod
    def forward(ctx, net, x, *weights):
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            out = net(x)
            ctx.out, ctx.x = out, x
            (slope,) = torch.autograd.grad(out.sum(), x, create_graph=True)
            slopes = torch.autograd.grad(slope.pow(2).sum(), (x, *weights), retain_graph=True, allow_unused=True)
        ctx.save_for_backward(*weights)
        return out.detach()
    @staticmethod
    def backward(ctx, grad):
        weights = ctx.saved_tensors[-2:]
        with torch.enable_grad():
            slope, *others = torch.autograd.grad(ctx.out, [ctx.x, *weights], grad)
        return None, slope, *others
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    def forward(self, x):
        return Penalty.apply(self.net, x, *self.net.parameters())
""",
    "a list that nobody knows, walked by a closure": """\
def fixed_point(params, hparams, fp_map, vector, k):
    params = [p.detach().requires_grad_() for p in params]
    mapped = fp_map(params, hparams)
    def applied(xs):
        return torch.autograd.grad(mapped, params, xs, retain_graph=True)
    for _ in range(k):
        vector = applied(vector)
    return torch.autograd.grad(mapped, hparams, vector)
""",
    "an unknown times a parameter": """\
def train(x):
    w = torch.ones(3, requires_grad=True)
    (x @ w).sum().backward()
""",
    "a gradient with create_graph of an unknown input": """\
net = nn.Linear(3, 1)
def train(loader):
    for x in loader:
        x.requires_grad = True
        (slope,) = torch.autograd.grad(net(x).sum(), [x], create_graph=True)
        (slope.norm(dim=1) - 1).pow(2).mean().backward()
""",
    "a model that a module nobody can read has": """\
from parts import model
loss = nn.functional.cross_entropy(model(torch.randn(5, 12)), torch.randint(0, 3, (5,)))
loss.backward()
""",
    "a list that unknown code may empty": """\
from parts import finish
net, kept = nn.Linear(2, 2), []
for episode in range(4):
    kept.append(net(torch.randn(2)).sum())
    torch.stack(kept).sum().backward()
    finish(kept)
""",
    "what a model collects, which unknown code may empty": """\
from collections import namedtuple
from parts import finish
Action = namedtuple("Action", "score value")
net = nn.Linear(2, 2)
net.kept = []
for episode in range(4):
    net.kept.append(Action(net(torch.randn(2)).sum(), 1))
    torch.stack([one.score for one in net.kept]).sum().backward()
    finish(net)
""",
    "what a model collects, which unknown code may run a backward over": """\
from parts import finish
class Agent:
    def __init__(self):
        self.net, self.kept = nn.Linear(2, 2), []
agent = Agent()
for episode in range(4):
    for step in range(5):
        agent.kept.append(agent.net(torch.randn(2)).sum())
    finish(agent)
""",
    "a loss that unknown code may run a backward from": """\
from parts import learn
actor, critic = nn.Linear(3, 1), nn.Linear(3, 1)
of_actor, of_critic = (torch.optim.Adam(net.parameters()) for net in (actor, critic))
for step in range(3):
    x = torch.randn(5, 3)
    values = critic(x)
    of_actor.zero_grad()
    (actor(x) * values).mean().backward()
    of_actor.step()
    of_critic.zero_grad()
    learn(values.pow(2).mean())
    of_critic.step()
""",
    "a model that unknown code may compute something with": """\
from parts import translate
there, back = nn.Linear(6, 6), nn.Linear(6, 6)
of_there, of_back = (torch.optim.Adam(net.parameters()) for net in (there, back))
for step in range(4):
    x = torch.randn(8, 6)
    of_there.zero_grad()
    (back(translate(there, x)) - x).abs().mean().backward()
    of_there.step()
    of_back.zero_grad()
    (back(there(x).detach()) - x).abs().mean().backward()
    of_back.step()
""",
    "an input whose gradient unknown code may be after": """\
from parts import perturbed
net = nn.Linear(8, 3)
optimizer = torch.optim.Adam(net.parameters())
for step in range(5):
    optimizer.zero_grad()
    net(torch.randn(4, 8)).pow(2).mean().backward()
    optimizer.step()
for step in range(4):
    x = torch.randn(4, 8, requires_grad=True)
    net.zero_grad()
    net(x).pow(2).mean().backward()
    print(net(perturbed(x)).argmax(1).sum())
""",
    "a distance that code nobody can read works out of data and the trainer": """\
from parts import distance
pairs = [(torch.randn(3), torch.randn(3)) for _ in range(4)]
loss = torch.stack([torch.relu(1.0 - distance(a, b)) for a, b in pairs]).mean()
loss.backward()
""",
    "equal excludes less": f"""\
def train(a, b):
{LOSS}    if a == b:
        y.backward()
    if a < b:
        y.backward()
""",
    "parameters that an update stored, in a module of which more is unknown": """\
def adapt(net, lr):
    for name in list(net._parameters):
        p = net._parameters[name]
        net._parameters[name] = (p - lr * p.grad).detach().requires_grad_()
""",
    "a chain and what is beyond it": f"""\
def train(e):
{LOSS}    if 3 <= e < 7:
        y.backward()
    if e >= 7:
        y.backward()
""",
    "a Function that reads what it saved only sometimes": """\
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, by):
        ctx.by = by
        ctx.save_for_backward(x)
        return x * 2
    @staticmethod
    def backward(ctx, g):
        if ctx.by:
            (x,) = ctx.saved_tensors
            return g * x, None
        return g * 2, None
y = Scale.apply(torch.ones(3, requires_grad=True), False).sum()
y.backward()
y.backward()
""",
    "a loss that hidden code is given as an attribute": """\
from hidden import engine
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(5):
    optimizer.zero_grad()
    loss = model(torch.randn(2, 3)).exp().sum()
    loss.backward(retain_graph=True)
    engine.loss = loss
    engine.step()
    optimizer.step()
""",
    "a loss that hidden code is given as an item": """\
from hidden import engine
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(5):
    optimizer.zero_grad()
    loss = model(torch.randn(2, 3)).exp().sum()
    loss.backward(retain_graph=True)
    engine.state["loss"] = loss
    engine.step()
    optimizer.step()
""",
    "a parametrization that is taken away": """\
layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 3))
del layer.parametrizations
layer(torch.ones(2, 3)).sum().backward()
""",
    "a test that wants the exception": f"""\
def test_twice():
{LOSS}    y.backward()
    with pytest.raises(RuntimeError):
        y.backward()
test_twice()
""",
}
RAISES = {
    "a state that hidden code may have detached": ("""\
from hidden import engine
weight, state = torch.ones(3, requires_grad=True), torch.zeros(3)
for step in range(5):
    state = state + weight.exp()
    engine.state = state
    engine.detach_()
    state.sum().backward()
""", 10, False),
    "a number between two ints": (f"""\
def train(alpha):
{LOSS}    if alpha > 0:
        y.backward()
    if alpha < 1:
        y.backward()
""", 9, False),
    "at least, and equal": (f"""\
def train(n, m):
{LOSS}    if n >= m:
        y.backward()
    if n == m:
        y.backward()
""", 9, True),
}  # fmt: skip


@pytest.mark.parametrize("name", QUIET)
def test_quiet(name: str) -> None:
    assert [(finding.code, finding.message) for finding in check(from_text(HEAD + QUIET[name], "t.py")).findings] == []


@pytest.mark.parametrize("name", RAISES)
def test_raises(name: str) -> None:
    program, line, certain = RAISES[name]
    (finding,) = check(from_text(HEAD + program, "t.py")).findings
    assert (finding.code, finding.span.line, finding.certain) == ("TAPE101", line, certain)


BANK = """\
import random, sys
from torch import nn
net = nn.Linear(4, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(3):
    bank = {}
    for step in range(4):
        key = KEY
        old = bank.get(key, torch.zeros(4))
        new = net(torch.ones(4)) + old
        opt.zero_grad()
        new.pow(2).sum().backward()
        opt.step()
        bank[key] = new
"""


@pytest.mark.parametrize(
    "key",
    [
        "int(torch.randint(0, 2, (1,)))",
        "torch.randint(0, 2, (1,)).item()",
        "random.randint(0, 1)",
        "random.randrange(2) + 1",
        "('cell', random.randint(0, 1))",
    ],
)
def test_keys_that_chance_draws_come_again_within_a_round(key: str) -> None:
    (finding,) = check(from_text(HEAD + BANK.replace("KEY", key), "t.py")).findings
    assert (finding.code, finding.span.line, finding.certain) == ("TAPE101", 15, False)


def test_keys_that_a_round_goes_over_differ() -> None:
    text = BANK.replace("step in range(4)", "key in list(map(str, sys.argv))").replace("        key = KEY\n", "")
    assert [finding.code for finding in check(from_text(HEAD + text, "t.py")).findings] == ["TAPE201"]


CACHE = """\
import sys
from torch import nn
net = nn.Linear(4, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
made = {}
for key in map(int, sys.argv):
    if key not in made:
        made[key] = net(torch.ones(4))
    opt.zero_grad()
    made[key].pow(2).sum().backward()
    opt.step()
"""


def test_what_is_made_once_for_each_key_does_not_grow_with_the_steps() -> None:
    """No key is in an empty dict; of the keys that follow each may be there, and then its graph was freed."""
    (finding,) = check(from_text(HEAD + CACHE, "t.py")).findings
    assert (finding.code, finding.span.line, finding.certain) == ("TAPE101", 13, False)


SAVED_WITH_STATES = """\
import torch

model = torch.load("model.pt")
model.train()
optimizer = torch.optim.Adam(model.parameters())
memory = ()
for step in range(4):
    out = model(torch.randn(4, 3), *memory)
    loss, memory = out[0], out[1:]
    optimizer.zero_grad()
    loss.mean().backward()
    optimizer.step()
"""


def test_a_saved_model_may_have_cut_the_states_that_it_hands_back() -> None:
    assert not [one for one in check(from_text(SAVED_WITH_STATES, "train.py")).findings if one.certain]
    assert not [one for one in check(from_text(SAVED_WITH_STATES, "train.py")).findings if one.severity == "error"]


BENT = """\
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        x = x.detach().requires_grad_()
        (slope,) = torch.autograd.grad(self.net(x).sum(), x, create_graph=True)
        return torch.autograd.grad(slope.pow(2).sum(), (x, *self.net.parameters()), allow_unused=True)
"""


def test_the_gradient_of_a_model_nobody_sees_may_lead_into_the_graph_of_its_result() -> None:
    """So it does for `tanh`, which saves its result, and not for a linear layer."""
    (tape,) = [tape for tape in check(from_text(BENT, "t.py")).interpretation.tapes if tape.started == "Block.forward"]
    assert tape.ledger is not None
    (net,) = [number for number, node in tape.ledger.nodes.items() if node.op == "net"]
    walked = [traversal.executed.get(net) for traversal in tape.ledger.traversals.values()]
    assert walked == ["yes", "may"]


SETTINGS = """\
import torch
from torch import nn
import elsewhere
from elsewhere import MODE, LIMIT

model = nn.Linear(3, 1)
for step in range(4):
    loss = model(torch.randn(3)).sum()
    if {}:
        loss.backward()
    {}
"""
ASKED = (
    "MODE", "not MODE", "elsewhere.TRAIN", "elsewhere.train.mode", "MODE is None", "MODE is not None", "MODE is True",
    "MODE == 'train'", "MODE != LIMIT", "LIMIT > 3", "step > LIMIT", "3 < LIMIT <= 5",
    "MODE in ('train', 'test')", "'x' in MODE", "MODE and LIMIT", "elsewhere.OPTIONS['train']",
    "getattr(elsewhere, 'TRAIN')", "MODE is elsewhere.OTHER",
)  # fmt: skip


@pytest.mark.parametrize("asked", ASKED)
def test_a_setting_of_a_module_nobody_sees_may_be_anything_and_stays_what_it_is(asked: str) -> None:
    """It may be false or None: what hangs on it is possible; and asked again, it answers as before."""
    twice = check(from_text(SETTINGS.format(asked, "loss.backward()"), "train.py")).findings
    assert [(one.code, one.certain) for one in twice if one.severity == "error"] == [("TAPE101", False)]
    other = check(from_text(SETTINGS.format(asked, f"if not ({asked}):\n        loss.backward()"), "train.py")).findings
    assert [one.code for one in other if one.severity == "error"] == []


def test_two_settings_of_one_table_may_differ() -> None:
    first, second = "elsewhere.OPTIONS['train']", "elsewhere.OPTIONS['test']"
    text = SETTINGS.format(first, f"if not {second}:\n        loss.backward()")
    assert [one.code for one in check(from_text(text, "train.py")).findings] == ["TAPE101"]


@pytest.mark.parametrize("loop", ["x in {}", "i, x in enumerate({})", "x, _ in zip({}, range(3))", "(x, y) in {}"])
@pytest.mark.parametrize("loader", ["loader", "elsewhere.loaders.train", "LOADERS['train']"])
def test_what_a_loader_of_another_module_yields_is_data(loop: str, loader: str) -> None:
    """No batch has a graph that a backward could free; that they share none is taken for granted (TAPE301)."""
    text = HEAD + "import elsewhere\nfrom elsewhere import loader, LOADERS\nmodel = nn.Linear(3, 1)\n"
    text += f"for {loop.format(loader)}:\n    model(x).sum().backward(retain_graph=True)\n"
    assert [(one.code, one.certain) for one in check(from_text(text, "train.py")).findings] == [("TAPE301", False)]


@pytest.mark.parametrize("count", ["LIMIT", "2, LIMIT", "elsewhere.LIMITS['long']", "0, LIMIT, 2"])
def test_a_loop_counts_up_to_a_setting_nobody_sees(count: str) -> None:
    """What is done every other time is done then: no graph grows for longer."""
    text = HEAD + "import elsewhere\nfrom elsewhere import LIMIT\nmodel = nn.Linear(3, 3)\nstate = torch.zeros(3)\n"
    text += f"for step in range({count}):\n    state = torch.tanh(model(state))\n"
    text += "    if step // 2 % 2 == 1:\n        state.sum().backward()\n        state = state.detach()\n"
    assert check(from_text(text, "train.py")).findings == []


class _HandsOver(ast.NodeTransformer):
    """Has an engine that nobody can see into call the backwards of a program."""

    def visit_Call(self, node: ast.Call) -> ast.Call:
        """Turn `loss.backward()` into `self.engine.backward(loss)`."""
        self.generic_visit(node)
        if not isinstance(node.func, ast.Attribute) or node.func.attr != "backward" or node.args or node.keywords:
            return node
        return ast.Call(ast.parse("self.engine.backward", mode="eval").body, [node.func.value], [])


_HANDED_IN = """\
class Runner:
    def __init__(self, engine):
        self.engine = engine

    def run(self):
{}
"""


def test_no_argument_is_needless_where_none_is_written() -> None:
    asked = 0
    for path in sorted(PROGRAMS.glob("*.fixed.py"))[::3]:
        tree = ast.fix_missing_locations(_HandsOver().visit(ast.parse(path.read_text("utf-8"))))
        program = _HANDED_IN.format(textwrap.indent(ast.unparse(tree), " " * 8))
        lines = program.splitlines()
        for one in check(from_text(program, path.name)).findings:
            if one.code == "TAPE301":
                shown = "\n".join(lines[one.span.line - 1 : one.span.end_line])
                assert "retain_graph" in shown, f"{path.name}: {shown}"
        asked += "engine.backward(" in program
    assert asked > 15


CONFIGURED = """\
import json
import torch
from torch import nn
from {library} as Settings
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
settings = {made}
for x in torch.randn(8, 4, 3):
    loss = settings.weight * model(x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("library", "told"),
    [
        ("easydict import EasyDict", True), ("munch import Munch", True), ("yacs.config import CfgNode", True),
        ("omegaconf.OmegaConf import create", True), ("elsewhere import Settings", False),
    ],
)  # fmt: skip
def test_what_a_library_of_settings_holds_has_no_graph_of_its_own(library: str, told: bool) -> None:
    made = "Settings(json.load(open('settings.json')))"
    report = check(from_text(CONFIGURED.format(library=library, made=made), "settings.py"))
    assert [one.code for one in report.findings] == ["TAPE301"] * told
    # What it is given it hands back.
    text = CONFIGURED.format(library=library, made="Settings(weight=model(torch.ones(3)).exp())")
    assert "TAPE301" not in [one.code for one in check(from_text(text, "settings.py")).findings]


@pytest.mark.parametrize("recorded", ["differentiable=True", "differentiable=unknown()"])
def test_a_step_that_is_recorded_may_give_a_parameter_a_graph(recorded: str) -> None:
    program = (
        "import torch\nfrom torch import nn\nfirst = nn.Parameter(torch.randn(3))\n"
        "(slope,) = torch.autograd.grad(first.pow(2).sum(), first, create_graph=True)\n"
        "second = torch.randn(3)\nsecond.grad = slope\n"
        f"torch.optim.SGD([second], lr=0.01, {recorded}).step()\n(second * 2).sum().backward()\n"
    )
    assert not any(one.certain for one in check(from_text(program, "meta.py")).findings)


@pytest.mark.parametrize("name", TOLD)
def test_a_graph_that_nothing_comes_to_later_is_kept_for_nothing(name: str) -> None:
    assert [finding.code for finding in check(from_text(HEAD + TOLD[name], "t.py")).findings] == ["TAPE301"]
