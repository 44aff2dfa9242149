"""TAPE302: loops whose graphs no backward walks."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tapecheck.check import Memory, check
from tapecheck.cli import main
from tapecheck.fixes import fixes_for
from tapecheck.rules import Finding
from tapecheck.source import from_text, read_source, stored

HEAD = """\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train():
    for step in range(3):
        loss = model(torch.randn(5, 4)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


"""


def found(text: str) -> list[Finding]:
    return [finding for finding in check(from_text(text, "train.py")).findings if finding.code == "TAPE302"]


def told_of(text: str) -> list[str]:
    """Return the expressions of a program that are told, as they are written."""
    lines = text.splitlines()
    spans = [one.span for one in found(text)]
    return [lines[span.line - 1][span.column - 1 : span.end_column - 1] for span in spans]


def lines(body: str) -> list[str]:
    text = HEAD + body
    return [text.splitlines()[finding.span.line - 1].strip() for finding in found(text)]


EVALUATE = """\
def evaluate(batches):
    right = 0
    for x, y in batches:
        right += (model(x).argmax(1) == y).sum().item()
    return right


"""


def test_a_function_that_nobody_calls_is_possibly_run_with_recording_on() -> None:
    (finding,) = found(HEAD + EVALUATE + "if __name__ == '__main__':\n    train()\n")
    assert not finding.certain and finding.message.startswith("possible: graphs built in this loop")
    assert "caller" in {one.kind for one in finding.rests_on}
    assert any("`evaluate` is not called under `torch.no_grad()`" in note for note in finding.notes)


@pytest.mark.parametrize("named", ["RUN = [evaluate]\n", "def run(loop):\n    loop.each_epoch(evaluate)\n"])
def test_a_function_that_its_file_names_may_be_called_with_recording_off(named: str) -> None:
    assert lines(EVALUATE + named) == []


SCORE = """\
import torch


class Scorer:
    def __init__(self, net, data):
        self.net, self.data = net, data

    def score(self):
        self.net.eval()
        right = 0
        for x, y in self.data:
            right += (self.net(x).argmax(1) == y).sum().item()
        return right
"""
CALLERS = {
    "nobody": ({"other.py": "def score():\n    pass\n"}, 1),
    "an importer": (
        {"run.py": "from scores import Scorer\n\n\ndef run(*args):\n    return Scorer(*args).score()\n"},
        1,
    ),
    "an importer that records nothing": (
        {
            "run.py": "import torch\nfrom scores import Scorer\n\n\n@torch.no_grad()\ndef run(*args):\n"
            "    return Scorer(*args).score()\n"
        },
        0,
    ),
    "an importer that hands it on": (
        {"run.py": "import loop\nfrom scores import Scorer\n\nloop.run(Scorer(1, 2).score)\n"},
        0,
    ),
    "who is given the object": (
        {"run.py": "import loop, scores\nloop.run(scores.Scorer)\n", "loop.py": "def run(made):\n    made().score()\n"},
        1,
    ),
    "who is given the object and records nothing": (
        {
            "run.py": "import loop, scores\nloop.run(scores.Scorer)\n",
            "loop.py": "import torch\n\n\ndef run(made):\n    with torch.no_grad():\n        made().score()\n",
        },
        0,
    ),
}


@pytest.mark.parametrize("files, count", CALLERS.values(), ids=CALLERS.keys())
def test_a_method_that_the_project_may_call(files: dict[str, str], count: int, tmp_path: Path) -> None:
    for name, text in {"pyproject.toml": "", "scores.py": SCORE, **files}.items():
        (tmp_path / name).write_text(text)
    findings = check(read_source(str(tmp_path / "scores.py"))).findings
    assert [one.code for one in findings] == ["TAPE302"] * count


def test_a_method_that_a_base_in_another_file_calls(tmp_path: Path) -> None:
    base = (
        "import torch\n\n\nclass Base:\n    def run(self):\n        with torch.no_grad():\n            self.score()\n"
    )
    (tmp_path / "base.py").write_text(base)
    (tmp_path / "scores.py").write_text(
        SCORE.replace("class Scorer:", "from base import Base\n\n\nclass Scorer(Base):")
    )
    assert check(read_source(str(tmp_path / "scores.py"))).findings == []


def test_a_function_that_trains_and_evaluates_is() -> None:
    both = "def run(batches):\n    train()\n    return evaluate(batches)\n"
    assert lines(EVALUATE + both) == ["for x, y in batches:"]


def test_where_one_caller_switches_recording_off_and_one_does_not() -> None:
    body = """\
train()
data = [(torch.randn(2, 4), torch.ones(2))] * 3
with torch.no_grad():
    evaluate(data)
"""
    assert lines(EVALUATE + body) == []
    assert lines(EVALUATE + body + "evaluate(data)\n") == ["for x, y in batches:"]


@pytest.mark.parametrize("switch", ["torch.set_grad_enabled(False)", "model.requires_grad_(False)"])
def test_recording_that_was_switched_off_before(switch: str) -> None:
    assert lines(f"train()\n{switch}\nfor step in range(3):\n    print(model(torch.randn(2, 4)).mean().item())\n") == []


def test_a_mode_that_is_not_known() -> None:
    body = """\
import sys

train()
with torch.set_grad_enabled("grad" in sys.argv):
    for step in range(3):
        print(model(torch.randn(2, 4)).mean().item())
"""
    assert lines(body) == []


def test_a_backward_that_hangs_on_an_undecided_condition() -> None:
    body = """\
import sys

for step in range(3):
    loss = model(torch.randn(2, 4)).pow(2).mean()
    if len(sys.argv) > 1:
        loss.backward()
        optimizer.step()
"""
    assert lines(body) == []


def test_a_loss_that_is_backwarded_behind_the_loop() -> None:
    body = """\
def episode():
    losses = []
    for step in range(3):
        losses.append(model(torch.randn(2, 4)).pow(2).mean())
    return losses


for update in range(2):
    losses = episode()
    optimizer.zero_grad()
    sum(losses).backward()
    optimizer.step()
"""
    assert lines(body) == []


def test_what_unknown_code_is_handed_may_be_backwarded() -> None:
    body = """\
from attacks import Runner

runner = Runner()
train()
for step in range(3):
    runner.consume(model(torch.randn(2, 4)))
"""
    assert lines(body) == []


def test_averages_and_norms_of_parameters_save_no_activations() -> None:
    body = """\
import copy

average = copy.deepcopy(model)
train()
for mean, parameter in zip(average.parameters(), model.parameters()):
    mean.data = 0.9 * mean.data + 0.1 * parameter
for name, parameter in model.named_parameters():
    print(name, parameter.norm().item(), (0.5 * parameter).sum().item())
"""
    assert lines(body) == []


def test_a_model_that_was_handed_in_may_be_frozen() -> None:
    body = """\
def score(net, batches):
    train()
    net.eval()
    for batch in batches:
        print(net(batch).mean().item())
"""
    assert lines(body) == []


def test_of_nested_loops_the_outer_one_is_told() -> None:
    body = """\
train()
for group in range(3):
    x = model(torch.randn(2, 4))
    for part in range(2):
        print(model(torch.randn(2, 4)).mean().item(), x.mean().item())
"""
    assert lines(body) == ["for group in range(3):"]


def test_graphs_that_are_kept_are_told_as_such() -> None:
    body = """\
train()
kept = []
for step in range(3):
    kept.append(model(torch.randn(2, 4)))
print(kept[0].shape)
"""
    assert lines(body) == []


def test_graphs_that_are_kept_for_a_while_and_never_walked() -> None:
    body = """\
train()
for epoch in range(3):
    kept = []
    for net in (model, model):
        kept.append(net(torch.randn(2, 4)))
    print(kept[0].data, kept[1].data)
"""
    assert lines(body) == ["for net in (model, model):"]


def test_what_an_entry_keeps_may_be_walked_by_its_caller() -> None:
    body = """\
class Agent:
    def __init__(self):
        self.log_probs = []

    def rollout(self):
        train()
        for step in range(2):
            self.log_probs.append(model(torch.randn(2, 4)).log_softmax(1)[0])
"""
    assert lines(body) == []


def test_values_of_unknown_code_that_are_no_part_of_the_graph() -> None:
    body = """\
from PIL import Image

train()
for step in range(3):
    picture = Image.fromarray(model(torch.randn(2, 4)).data.numpy()).resize((8, 8))
    picture.save(f"{step}.png")
"""
    assert lines(body) == ["for step in range(3):"]


def test_the_fix_wraps_the_loop_or_the_call() -> None:
    body = "train()\nfor step in range(3):\n    print(model(torch.randn(2, 4)).mean().item())\n"
    report = check(from_text(HEAD + body, "train.py"))
    (finding,) = [each for each in report.findings if each.code == "TAPE302"]
    (fix,) = fixes_for(report, finding)
    assert (fix.title, fix.applicability) == ("Run the loop under `torch.no_grad()`", "safe")


def test_a_loop_that_trains_elsewhere_keeps_its_graphs() -> None:
    body = """\
def epoch(batches, training):
    for x in batches:
        loss = model(x).pow(2).mean()
        if training:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(loss.item())


data = [torch.randn(2, 4) for _ in range(3)]
epoch(data, True)
epoch(data, False)
"""
    assert lines(body) == ["for x in batches:"]
    report = check(from_text(HEAD + body, "train.py"))
    (finding,) = [each for each in report.findings if each.code == "TAPE302"]
    (fix,) = fixes_for(report, finding)
    assert fix.title == "Run the call on line 28 under `torch.no_grad()`"


ATTACKED = """\
def measure(attack):
    for step in range(3):
        x = torch.randn(5, 4)
        if attack:
            x.requires_grad_(True)
            x = x.detach() + torch.autograd.grad(model(x).sum(), x)[0].sign()
        print(model(x).mean().item())


def report(attack=False):
    measure(attack)


train()
"""


@pytest.mark.parametrize("of", ["measure({})", "report({})"])
def test_where_another_call_differentiates_in_the_loop_the_help_names_the_call(of: str) -> None:
    text = HEAD + ATTACKED + of.format("attack=False") + "\n" + of.format("attack=True") + "\n"
    (finding,) = found(text)
    assert "run this call alone under `torch.no_grad()`, not the loop" in finding.help
    (label,) = (label for label in finding.labels if "no backward needs its graphs" in label.message)
    assert text.splitlines()[label.span.line - 1] == of.format("attack=False")


BOTH = """\
import torch
from torch import nn

model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def step(x, y, train):
    losses = 0.0
    for index in range(x.shape[0]):
        loss = nn.functional.mse_loss(model(x[index]), y[index])
        losses += loss if train else loss.item()
    if train:
        optimizer.zero_grad()
        losses.backward()
        optimizer.step()
    return float(losses)


for _ in range(3):
    step(torch.rand(3, 5, 4), torch.rand(3, 5, 2), True)
    print(step(torch.rand(3, 5, 4), torch.rand(3, 5, 2), False))
"""


def test_where_another_call_trains_with_what_the_loop_makes_the_help_names_the_call() -> None:
    (finding,) = found(BOTH)
    assert "run this call alone under `torch.no_grad()`, not the loop" in finding.help
    (label,) = (label for label in finding.labels if "no backward needs its graphs" in label.message)
    assert label.span.line == len(BOTH.splitlines())


SAVED = """\
saved = torch.load("best.pt")
net = saved["net"].to("cpu")
net.eval()
"""
LIBRARY = """\
from torchvision import models

net = models.resnet18(weights="DEFAULT")
net.eval()
"""
PREDICT = """\
right = 0
for batch in range(3):
    out = net(torch.randn(4, 3, 32, 32))
    right += (out.argmax(1) == 1).sum().item()
"""
PARTS = """\
right = 0
for batch in range(3):
    out = net.head(net.body(torch.randn(4, 3, 32, 32)))
    right += (out.argmax(1) == 1).sum().item()
"""


@pytest.mark.parametrize("model", [SAVED, LIBRARY])
@pytest.mark.parametrize("use", [PREDICT, PARTS])
def test_a_model_that_the_program_got_itself_and_does_not_train_possibly_records(model: str, use: str) -> None:
    text = "import torch\n" + model + use
    (finding,) = found(text)
    assert finding.message.startswith("possible") and not finding.certain
    assert fixes_for(check(from_text(text, "train.py")), finding)


@pytest.mark.parametrize("model", [SAVED, LIBRARY])
@pytest.mark.parametrize("use", [PREDICT, PARTS])
@pytest.mark.parametrize(
    "frozen",
    [
        "net.requires_grad_(False)\n",
        "for p in net.parameters():\n    p.requires_grad = False\n",
        "for p in net.parameters():\n    p.requires_grad_(False)\n",
        "for name, p in net.named_parameters():\n    p.requires_grad = False\n",
        "torch.set_grad_enabled(False)\n",
        "body = nn.Sequential(*list(net.children()))\nfor p in body.parameters():\n    p.requires_grad = False\n",
    ],
)
def test_a_frozen_model_out_of_a_library_or_file_records_nothing(model: str, use: str, frozen: str) -> None:
    assert not found("import torch\nfrom torch import nn\n" + model + frozen + use)


def test_what_a_saved_file_holds_besides_models_is_data() -> None:
    text = """\
import torch

saved = torch.load("best.pt")
mean, history = saved["mean"], saved["history"]
total = 0.0
for batch in range(3):
    scaled = saved["scale"](torch.randn(4))
    total += (scaled - mean).pow(2).sum().item() + history[batch]
"""
    assert not found(text)


HANDED_IN = "import torch\n\n\ndef evaluate(net):\n    net.eval()\n{}" + "".join(
    f"    {line}\n" for line in PREDICT.splitlines()
)


def test_a_model_that_was_handed_in_possibly_records() -> None:
    (finding,) = found(HANDED_IN.format(""))
    assert not finding.certain and finding.message.startswith("possible graphs of this loop")


@pytest.mark.parametrize(
    "off",
    [
        "    net.requires_grad_(False)\n",
        "    for p in net.parameters():\n        p.requires_grad = False\n",
        "    torch.set_grad_enabled(False)\n",
        "    net = freeze(net)\n",
    ],
)
def test_a_model_that_was_handed_in_and_may_be_frozen(off: str) -> None:
    assert not found(HANDED_IN.format(off))
    assert not found(HANDED_IN.format("").replace("def ", "@freeze\ndef "))


SCRATCH = """\
import torch

weight = torch.zeros(4, 3)
bias = torch.zeros(3)
weight.requires_grad_()
bias.requires_grad_()


def net(x):
    return (x @ weight + bias).softmax(1)


for step in range(3):
    loss = -net(torch.randn(5, 4)).log()[:, 0].mean()
    loss.backward()
    STEP
right = 0
for batch in range(3):
    right += (net(torch.randn(5, 4)).argmax(1) == 0).sum().item()
"""


@pytest.mark.parametrize(
    "step",
    [
        "for p in (weight, bias):\n        p.data -= 0.1 * p.grad\n        p.grad.zero_()",
        "with torch.no_grad():\n        for p in (weight, bias):\n            p.sub_(0.1 * p.grad)",
    ],
)
def test_parameters_that_are_plain_tensors_learn_too(step: str) -> None:
    (finding,) = found(SCRATCH.replace("STEP", step))
    assert finding.certain and finding.span.line > SCRATCH.count("\n") - 2


def test_leaves_that_never_change_are_no_parameters() -> None:
    assert not found(SCRATCH.replace("STEP", "print(weight.grad.norm())"))


@pytest.mark.parametrize("when", ["epoch % 20 == 0", "not epoch % 20", "(epoch + 1) % 20 == 0"])
def test_evaluation_every_so_many_rounds(when: str) -> None:
    loop = (
        f"for epoch in range(1, 200):\n    train()\n    if {when}:\n        print(evaluate([torch.randn(5, 4)] * 9))\n"
    )
    function = EVALUATE.replace("for x, y in batches", "for x in batches").replace("== y", "== 1")
    assert lines(function + loop) == ["for x in batches:"]


def test_a_report_every_so_many_rounds_is_no_evaluation() -> None:
    report = "def report(epoch):\n    for name in ('a', 'b'):\n        print(name, epoch)\n\n\n"
    loop = "for epoch in range(1, 200):\n    train()\n    if epoch % 20 == 0:\n        report(epoch)\n"
    assert lines(report + loop) == []


@pytest.mark.parametrize(
    "parts", ["*list(backbone.children())[:-1]", "*backbone.features.children()", "backbone.features"]
)
def test_parts_of_a_library_model_do_what_layers_do(parts: str) -> None:
    made = f"nn.Sequential({parts}, nn.Linear(8, 2))"
    head = HEAD.replace("import torch\n", "import torch\nfrom torchvision import models\n", 1)
    text = head.replace(
        "model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))",
        f"backbone = models.vgg16()\nmodel = {made}",
    )
    loop = (
        "train()\nright = 0\nfor i in range(9):\n    right += (model(torch.randn(5, 4)).argmax(1) == 1).sum().item()\n"
    )
    (finding,) = found(text + loop)
    assert finding.certain
    hidden = text.replace("from torchvision import models", "from elsewhere import models")
    assert not any(one.certain for one in found(hidden + loop))


KEPT = """\
import torch
from torch import nn
from torchvision import models


class Net(nn.Module):
    def __init__(self, callback=None):
        super().__init__()
        self.backbone, self.callback = models.resnet18(), callback
        self.head = nn.Linear(1000, 2)

    def forward(self, x):
        return self.head(self.backbone(x))


def run(callback, batches):
    model = Net(callback)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in batches:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    right = 0
    for x, y in batches:
        right += (model(x).argmax(1) == y).sum().item()
    return right
"""


def test_a_kept_library_model_has_not_the_object_that_keeps_it() -> None:
    assert [finding.span.line for finding in found(KEPT)] == [25]


def test_a_kept_function_that_was_handed_in_hardly_has_it() -> None:
    (finding,) = found(KEPT.replace("self.head(self.backbone(x))", "self.callback(self.head(self.backbone(x)))"))
    assert (finding.span.line, finding.certain) == (25, False)
    assert "`callback` has not the object that keeps it" in finding.notes[-1]


ENCODER = """\
import torch
from torch import nn
from elsewhere import Wrapped


class Net(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder, self.head = encoder, nn.Linear(8, 2)

    def forward(self, x):
        return self.head(self.encoder(x))


def run(encoder, batches):
    model = Net(encoder)
    optimizer = torch.optim.SGD([*model.parameters(), *encoder.parameters()], lr=0.1)
    for x, y in batches:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    right = 0
    for x, y in batches:
        right += (model(x).argmax(1) == y).sum().item()
    return right
"""


@pytest.mark.parametrize("made", ["", "    encoder = Wrapped(nn.Linear(4, 8))\n"])
def test_what_has_parameters_is_a_model_and_a_call_of_it_a_forward_pass(made: str) -> None:
    """It has not the object that keeps it, and runs no backward for what it was made from."""
    text = ENCODER.replace("    model = Net(encoder)", f"{made}    model = Net(encoder)")
    assert [finding.span.line for finding in found(text)] == [25 if made else 24]
    # What is not known to be a model is a function that has not the object, as far as anybody knows.
    hidden = found(text.replace(", *encoder.parameters()", ""))
    assert [finding.certain for finding in hidden] == ([] if made else [False])


PASSES = """
import torch
from torch import nn
from elsewhere import hidden

net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x, kept = torch.randn(8, 4), []


class Meter:
    def probabilities(self, model, x):
        return model(x).softmax(1)


def evaluate(model):
    model.eval()
    p = Meter().probabilities(model, x)
    return p.max().item()


for epoch in range(4):
    net.train()
    loss = net(x).pow(2).mean()
    {body}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    {after}
"""


@pytest.mark.parametrize(
    ("body", "after", "told"),
    [
        ("", "net.eval(); out = net(x); print(out.argmax(1))", ["net(x)"]),
        ("", "print(evaluate(net))", ["model(x)"]),
        ("best = evaluate(net)", "", ["model(x)"]),
        # What is used, kept for more than an iteration, read by hidden code, or goes into a loss.
        ("net.eval(); loss = loss + net(-x).mean()", "", []),
        ("net.eval(); loss = loss * (net(-x).detach() ** 2).mean()", "", []),
        ("", "net.eval(); kept.append(net(x))", []),
        ("", "net.eval(); hidden(net(x))", []),
        ("", "net.eval(); print(torch.autograd.grad(net(x).sum(), net[0].weight))", []),
        ("", "net.eval(); out = net(x); print(out.grad_fn)", []),
        # Recording is off, or nobody reads what a pass of training gives: it may have been forgotten.
        ("", "with torch.no_grad():\n        net.eval(); out = net(x)", []),
        ("net(x)", "", []),
        # What is read as data every so many steps is no part of the training; an action of each step may be one.
        ("", "if epoch % 2 == 0:\n        print(net(x).argmax(1).tolist())", ["net(x)"]),
        ("", "if epoch % 2 == 0:\n        print(float(Meter().probabilities(net, x).max()))", ["model(x)"]),
        ("", "if epoch % 2 == 0:\n        net(x)", []),
        ("choice = net(x).argmax(1).tolist()", "", []),
        # A target that is cut off for the loss, and an iteration that goes on without training.
        ("loss = loss + (net(-x) - net(x).detach()).pow(2).mean()", "", []),
        ("if epoch % 2 == 0:\n        continue\n    choice = net(x).argmax(1).tolist()", "", []),
    ],
)
def test_a_single_pass_in_a_loop_that_trains(body: str, after: str, told: list[str]) -> None:
    text = PASSES.format(body=body, after=after)
    assert told_of(text) == told


AGAIN = """\
import torch
from torch import nn
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
{act}
for episode in range(3):
    state = torch.randn(1, 4)
    for step in range(5):
        net.eval()
        action = {pick}
        net.train()
        loss = (net(state) - action).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        state = torch.randn(1, 4)
"""


@pytest.mark.parametrize(
    ("act", "pick", "told"),
    [
        # The inner loop is run once where it is entered again.
        ("", "int(net(state).argmax())", ["net(state)"]),
        ("def act(s):\n    return net(s).argmax(1)", "act(state).item()", ["net(s)"]),
        ("def act(s):\n    with torch.no_grad():\n        return net(s).argmax(1)", "act(state).item()", []),
        ("act = net", "act(state).max()", []),
    ],
)
def test_a_pass_of_an_inner_loop_is_told(act: str, pick: str, told: list[str]) -> None:
    text = AGAIN.format(act=act, pick=pick)
    assert told_of(text) == told


SHARED = """\
import torch
from torch import nn
net = nn.Linear(4, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)


def scores(x):
    return net(x).softmax(1)


for step in range(4):
    loss = scores(torch.randn(3, 4)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 2 == 0:
        print({after})
"""


@pytest.mark.parametrize(("after", "told"), [("scores(torch.randn(3, 4)).max().item()", 17), ("loss.item()", None)])
def test_a_pass_of_a_function_that_trains_elsewhere_is_told_at_its_call(after: str, told: int | None) -> None:
    assert [one.span.line for one in found(SHARED.format(after=after))] == [told] * (told is not None)


LENT = """\
import hidden, torch
from torch import nn
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(3):
    loss = net(torch.randn(3, 4)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
kept = [0.5]
for step in range(9):
    score = net(torch.randn(1, 4)).max()
    {use}
"""


@pytest.mark.parametrize(
    ("use", "told"),
    [
        ("hidden.log([score.item()])", True),
        ("hidden.log({'score': score.item(), 'step': step})", True),
        ("hidden.log(kept)", True),
        ("kept.append(score.item()); hidden.log(kept)", True),
        ("shared = {'score': 1}; hidden.log(shared)", True),
        # Who has a list that others have, too, has what is put into it.
        ("hidden.log(kept); kept.append(net)", False),
        ("hidden.log(kept); kept.insert(0, net)", False),
        ("hidden.log(kept); kept[0] = net", False),
        ("hidden.log(kept); kept[:] = [net]", False),
        ("hidden.log(kept); kept += [net]", False),
        ("hidden.log([net])", False),
        ("hidden.log([score])", False),
    ],
)
def test_a_display_of_data_leads_hidden_code_to_no_graph(use: str, told: bool) -> None:
    assert bool(found(LENT.format(use=use))) == told


ASKED = """\
import atexit, torch
from torch import nn
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
class Box:
    pass
box, last, name = Box(), {{}}, "kept" + str(len("x"))
{before}
for i in range(3):
    model.train()
    loss = model(torch.randn(8, 4)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    model.eval()
{inside}
"""
SINGLE = "    out = model(torch.randn(8, 4)).mean()\n    {use}"
LOOPED = "    for k in range(2):\n        out = model(torch.randn(8, 4)).mean()\n        {use}"
BEFORE = {
    "at the end": "atexit.register(lambda: last['v'].backward())",
    "at the end, decorated": "@atexit.register\ndef ended():\n    last['v'].backward()",
    "at the end, given": "atexit.register(lambda held: held['v'].backward(), last)",
}
USES = {
    "asserted": "assert out.requires_grad", "asked": "print(out.requires_grad)", "leaf": "print(out.is_leaf)",
    "hook": "out.register_hook(print)", "retained": "out.retain_grad()", "node": "print(out.grad_fn)",
    **dict.fromkeys(BEFORE, "last['v'] = out"),
}  # fmt: skip
STORED = {"attribute": "box.kept = out", "by name": "setattr(box, 'kept', out)", "by a name": "setattr(box, name, out)"}


@pytest.mark.parametrize("built", [SINGLE, LOOPED])
@pytest.mark.parametrize("use", [*USES, *STORED])
def test_a_graph_that_something_asks_for_is_not_needless(built: str, use: str) -> None:
    inside = built.format(use={**USES, **STORED}[use])
    program = ASKED.format(before=BEFORE.get(use, ""), inside=inside)
    assert "TAPE302" not in [one.code for one in check(from_text(program, "train.py")).findings]
    plain = ASKED.format(before="", inside=built.format(use="print(out.item())"))
    assert "TAPE302" in [one.code for one in check(from_text(plain, "train.py")).findings]


HOOKS = ["{0}.register_hook(print)", "{0}.retain_grad()", "handle = {0}.register_hook(print)"]
GUARDS = {
    "alone": "if {0}.requires_grad: {hook}",
    "with a flag": "if name and {0}.requires_grad: {hook}",
    "twice": "if {0}.requires_grad and {0}.requires_grad: {hook}; {0}.retain_grad()",
}
OTHERWISE = {
    "says it": "if {0}.requires_grad: {hook}; print('hooked')",
    "says what is not": "if {0}.requires_grad: {hook}\n{indent}else: print('no graph')",
    "the other way round": "if not {0}.requires_grad: print('no graph')",
    "kept": "asked = {0}.requires_grad\n{indent}if asked: {hook}\n{indent}print(asked)",
    "not asked": "{hook}",
    "one of two": "if name or {0}.requires_grad: {hook}",
    "another is hooked": "other = {0} * 1\n{indent}if {0}.requires_grad: other.register_hook(print); print(1)",
}


@pytest.mark.parametrize("built", [SINGLE, LOOPED])
@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("guard", [*GUARDS, *OTHERWISE])
def test_a_hook_where_there_is_a_graph_makes_that_no_use(guard: str, hook: str, built: str) -> None:
    indent = built.rpartition("\n")[2].replace("{use}", "")
    written = {**GUARDS, **OTHERWISE}[guard].format("out", hook=hook.format("out"), indent=indent)
    inside = built.format(use=written)
    findings = check(from_text(ASKED.format(before="", inside=inside), "train.py")).findings
    assert ("TAPE302" in [one.code for one in findings]) == (guard in GUARDS)
    # torch goes on alike without the graph where that is of no use.
    off = inside.replace("        out =", "        with torch.no_grad():\n            out =", 1)
    off = off if built == LOOPED else inside.replace("    out =", "    with torch.no_grad():\n        out =", 1)
    assert (_ran(inside) == _ran(off)) == (guard in GUARDS)


def _ran(inside: str, use: str = "") -> str:
    """Return what a program prints under torch, without its numbers."""
    left: list[Callable[[], None]] = []
    program = ASKED.format(before=BEFORE.get(use, ""), inside=inside).replace("atexit.register", "register")
    names = {"register": lambda function, *given: left.append(partial(function, *given)) or function}
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            exec(compile(program, "train.py", "exec"), names)
            for function in left:
                function()
        except (AssertionError, RuntimeError) as error:
            print(repr(error))
    return re.sub(r"0x\w+|-?\d+\.\d+", "", out.getvalue())


@pytest.mark.parametrize("use", USES)
def test_torch_goes_on_otherwise_without_the_graph(use: str) -> None:
    inside = SINGLE.format(use=USES[use])
    assert _ran(inside, use) != _ran(inside.replace("    out =", "    with torch.no_grad():\n        out ="), use)


def test_what_a_forward_leaves_in_its_module_is_not_kept_for_a_loss() -> None:
    layer = "class Layer(nn.Linear):\n    def forward(self, x):\n        out = super().forward(x)\n"
    layer += "        self.size = out.pow(2).sum()\n        return out\nmodel = nn.Sequential(Layer(4, 1))\n"
    program = ASKED.format(before="", inside=LOOPED.format(use="print(out.item())"))
    program = program.replace("opt = torch", f"{layer}opt = torch")
    assert [one.code for one in check(from_text(program, "train.py")).findings] == ["TAPE302"]


_BLOCKS = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x

    def spread(self, x):
        return torch.chunk(CALL, 2, dim=-1)


mean, scale = Net().spread(torch.rand(3, 4))
print(mean.detach().numpy(), scale.detach().numpy())
"""


@pytest.mark.parametrize("call", ["self(x)", "self.forward(x)", "Net.forward(self, x)"])
def test_the_loops_of_a_forward_are_no_evaluation_however_it_is_called(call: str) -> None:
    assert told_of(_BLOCKS.replace("CALL", call)) == []


_REPLACED = """\
import torch
from diffusers import UNet2DConditionModel
from torch import nn

model = UNet2DConditionModel.from_pretrained("some/model")
for name, module in list(model.named_modules()):
    if isinstance(module, nn.Linear):
        CALL
"""


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("setattr(model.get_submodule(name), 'layer', nn.Identity())", []),
        ("print(model.get_parameter(name).shape)", []),
        ("print(model.encode(name).argmax(1).tolist())", [6]),
        ("print(model.get_submodule(name)(torch.rand(2, 4)).argmax(1).tolist())", [6]),
    ],
)
def test_what_every_module_has_runs_nothing_of_a_pretrained_one(call: str, expected: list[int]) -> None:
    assert [one.span.line for one in found(_REPLACED.replace("CALL", call))] == expected


@pytest.mark.parametrize("use", ["metric.update(out, out > 0)", "print(functional.r2_score(out, out.detach()))"])
def test_metrics_that_switch_recording_off_themselves(use: str) -> None:
    body = f"""\
import torcheval.metrics.functional as functional
from torcheval.metrics import MulticlassAccuracy

train()
metric = MulticlassAccuracy()
for step in range(3):
    out = model(torch.randn(2, 4))
    {use}
"""
    assert lines(body) == ["for step in range(3):"]


def test_what_is_kept_of_a_check_holds_as_long_as_nobody_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "default_folder", lambda: str(tmp_path / "kept"))
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "scores.py").write_text(SCORE)
    asked = ["check", "--output-format", "concise", str(tmp_path / "scores.py")]
    for text, count in (("", 1), ("import scores\nscores.Scorer(1, 2).score()\n", 0), ("", 1)):
        (tmp_path / "run.py").write_text(text)
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            main(asked)
        assert shown.getvalue().count("TAPE302") == count


def test_nobody_is_asked_who_calls_as_long_as_no_file_changes(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "scores.py").write_text(SCORE)
    memory, counts = Memory(), []
    called = "import torch, scores\nwith torch.no_grad():\n    scores.Scorer(1, 2).score()\n"
    for text, changed in (("", False), (called, False), (None, True)):
        if text is not None:
            (tmp_path / "run.py").write_text(text)
        memory.starts.state += changed
        counts.append(len(check(read_source(str(tmp_path / "scores.py")), memory=memory).findings))
    assert counts == [1, 1, 0]


@pytest.mark.parametrize(
    ("base", "count"),
    [
        ("pytorch_lightning.Callback", 0),
        ("transformers.TrainerCallback", 0),
        ("elsewhere.Callback", 0),
        ("torch.utils.data.Dataset", 1),
        ("abc.ABC", 1),
        ("object", 1),
    ],
)
def test_a_framework_calls_the_methods_of_its_classes(base: str, count: int) -> None:
    module = base.rpartition(".")[0]
    derived = SCORE.replace("class Scorer:", f"{f'import {module}' if module else ''}\n\n\nclass Scorer({base}):")
    assert len(found(derived)) == count


REGISTER = """\
TABLE = {}


def register(name):
    def inner(made):
        TABLE[name] = made
        return made

    return inner


"""


def test_what_a_decorator_of_the_program_puts_into_a_table_may_be_called() -> None:
    assert found(HEAD + REGISTER + EVALUATE) and found(REGISTER + SCORE)
    assert not found(HEAD + REGISTER + '@register("score")\n' + EVALUATE)
    assert not found(REGISTER + SCORE.replace("class Scorer", '@register("score")\nclass Scorer'))
    assert not found(REGISTER + SCORE.replace("    def score", '    @register("score")\n    def score'))


TRAINER = """\
import torch
from torch import nn


class Trainer:
    def __init__(self, model, criterion, optimizer, loaders):
        self.model, self.criterion, self.optimizer, self.loaders = model, criterion, optimizer, loaders

    def train(self):
        self.model.train()
        for x, y in self.loaders["train"]:
            self.optimizer.zero_grad()
            loss = self.criterion(self.model(x), y)
            loss.backward()
            self.optimizer.step()

    def validate(self):
        self.model.eval()
        total = 0.0
        for x, y in self.loaders["test"]:
            out = self.model(x)
            total += self.criterion(out, y).item()
        return total

    def fit(self, epochs):
        for epoch in range(epochs):
            self.train()
            print(self.validate())
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("self.criterion(out, y).item()", "(out.argmax(1) == y).sum().item()"),
        ("self.criterion(", "nn.functional.cross_entropy("),
        ("self.model(x)", "self.model.forward(x)"),
        ("        self.model.train()\n", ""),
        ("            self.optimizer.step()", "            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)"),
    ],
)
def test_a_model_that_was_handed_in_and_learns_is_evaluated(old: str, new: str) -> None:
    text = TRAINER.replace(old, new)
    assert [finding.span.line for finding in found(text)] == [text.splitlines().index(TESTED) + 1]


TESTED = '        for x, y in self.loaders["test"]:'


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    def validate", "    @torch.no_grad()\n    def validate"),
        ("        self.model.eval()", "        torch.set_grad_enabled(False)"),
        ("            out = self.model(x)", "            out = self.model(self.attack(self.model, x, y))"),
        ("            out = self.model(x)", "            out = self.model(self.refine(x))"),
        ("            out = self.model(x)", "            out = self.model(x); self.criterion(out, y).backward()"),
        ("        self.model, ", "        model.requires_grad_(False)\n        self.model, "),
        ("        self.model.train()", "        self.model.requires_grad_(False)"),
    ],
)
def test_a_model_that_was_handed_in_and_may_need_its_graphs(old: str, new: str) -> None:
    text = TRAINER.replace(old, new)
    assert text != TRAINER
    assert found(text) == []


COUNTED = """\
import torch
from torch import nn
from elsewhere import amount


def batches():
    for index in range(amount):
        yield torch.randn(5, 4)


class Batches:
    def __iter__(self):
        return self

    def __next__(self):
        if not amount:
            raise StopIteration
        return torch.randn(5, 4)


net = nn.GRUCell(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
counter = 0
for epoch in range(20):
    h = torch.zeros(5, 4)
    for x in {feed}:
        counter += 1
        h = net(x, h.detach())
        loss = h.pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if counter % 10 == 0:
            for y in batches():  # evaluates
                print(net(y, torch.zeros(5, 4)).sum().item())
"""


@pytest.mark.parametrize(
    "feed",
    [
        "batches()",
        "Batches()",
        "map(torch.tanh, batches())",
        "(one + 1 for one in batches())",
        "[torch.randn(5, 4) for _ in range(amount)]",
        "amount",
    ],
)
def test_what_comes_every_so_many_batches_is_evaluated(feed: str) -> None:
    """Nobody knows how many batches a generator gives, nor what it has counted up behind an epoch."""
    text = COUNTED.format(feed=feed)
    assert [one.span.line for one in found(text)] == [text[: text.index("# evaluates")].count("\n") + 1]


PROBED = """\
import torch
import torchvision
from torch import nn

model = torchvision.models.resnet18(num_classes=10)
for name, param in model.named_parameters():
    {frozen}
optimizer = torch.optim.Adam([one for one in model.parameters() if one.requires_grad])
criterion = nn.CrossEntropyLoss()
for epoch in range(10):
    for step in range(10):
        x, y = torch.randn(2, 3, 32, 32), torch.randint(0, 10, (2,))
        loss = criterion({out}, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    correct = 0
    for step in range(5):  # evaluates
        correct += (model(torch.randn(2, 3, 32, 32)).argmax(1) == torch.randint(0, 10, (2,))).sum()
    print(epoch, correct.item())
"""
ALL_BUT_HEAD = 'param.requires_grad = name in ("fc.weight", "fc.bias")'


@pytest.mark.parametrize(
    ("frozen", "out", "told"),
    [
        (ALL_BUT_HEAD, "model(x)", True),
        ("param.requires_grad = False", "nn.Linear(10, 10)(model(x))", False),
        (ALL_BUT_HEAD, "nn.Linear(10, 10)(model(x))", False),
    ],
)
def test_a_loss_that_comes_from_nowhere_else_shows_what_learns(frozen: str, out: str, told: bool) -> None:
    """Of a model that is frozen in part, and of whose parts nobody knows which, some learns."""
    text = PROBED.format(frozen=frozen, out=out)
    place = text[: text.index("# evaluates")].count("\n") + 1
    assert [(one.span.line, one.certain) for one in found(text)] == [(place, False)] * told


TAUGHT = """\
import torch
from torch import nn


class Trainer:
    def __init__(self, one, other, optimizer, loaders):
        self.one, self.other, self.optimizer, self.loaders = one, other, optimizer, loaders

    def train(self):
        {modes}
        for x, y in self.loaders["train"]:
            loss = {loss}
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

    def validate(self):
        self.one.eval()
        hits = 0
        for x, y in self.loaders["test"]:
            hits += (self.one(x).argmax(1) == y).sum().item()
        return hits
"""
FIT = """
    def fit(self):
        for epoch in range(10):
            self.train()
            print(self.validate())
"""


@pytest.mark.parametrize("fit", ["", FIT])
@pytest.mark.parametrize(
    "loss",
    [
        "(self.other(x) - self.one(x)).pow(2).mean()",
        "nn.functional.cross_entropy(self.other(self.one(x)), y)",
        "nn.functional.cross_entropy(self.one(self.other(x)), y)",
    ],
)
@pytest.mark.parametrize(
    ("modes", "told"),
    [
        ("self.other.train(); self.one.eval()", False),
        ("self.other.train()", False),
        ("self.one.train(); self.other.eval()", True),
        ("self.one.train(); self.other.train()", True),
        ("self.other.train(); self.optimizer = torch.optim.SGD(self.one.parameters(), lr=0.1)", True),
        ("self.one.eval(); self.optimizer = torch.optim.SGD(self.other.parameters(), lr=0.1)", False),
    ],
)
def test_of_two_models_that_were_handed_in_one_may_be_frozen(modes: str, loss: str, told: bool, fit: str) -> None:
    """A teacher, or a body below a head: what is shown to be trained is told."""
    text = TAUGHT.format(modes=modes, loss=loss) + fit
    line = text.splitlines().index(TESTED) + 1
    assert [(finding.span.line, finding.certain) for finding in found(text)] == [(line, False)] * told


def test_below_a_head_of_the_program_a_model_that_was_handed_in_may_be_frozen() -> None:
    loss = "nn.functional.cross_entropy(self.head(self.one(x)), y)"
    text = TAUGHT.format(modes="self.head.train()", loss=loss).replace("other, self.opt", "head, self.opt")
    text = text.replace("self.loaders = one, other, ", "self.loaders = one, nn.Linear(4, 3), ")
    assert found(text) == []
    assert len(found(text.replace("self.head.train()", "self.head.train(); self.one.train()"))) == 1


GENERATORS = {
    "a loop": "for x in batches:\n        yield model(x)",
    "a while": "i = 0\n    while i < len(batches):\n        yield model(batches[i])\n        i += 1",
    "of another": "yield from (model(x) for x in batches)",
    "pairs": "for i, x in enumerate(batches):\n        yield i, model(x)",
}


@pytest.mark.parametrize("body", GENERATORS)
def test_what_a_generator_computes_belongs_to_the_loop_that_goes_over_it(body: str) -> None:
    target = "_, out" if body == "pairs" else "out"
    program = f"def predictions(batches):\n    {GENERATORS[body]}\n\n\ntrain()\nhits = 0\n"
    program += f"for {target} in predictions(torch.randn(6, 5, 4)):\n    hits += out.argmax(1).sum().item()\n"
    assert lines(program) == [f"for {target} in predictions(torch.randn(6, 5, 4)):"]
    learns = program.replace("hits += out.argmax(1).sum().item()", "out.sum().backward()")
    assert not lines(learns)


ONCE = {
    "counted": "for _ in range(1):\n    BODY",
    "left": "while True:\n    BODY\n    break",
    "left for": "for _ in range(5):\n    BODY\n    break",
    "condition": "again = True\nwhile again:\n    BODY\n    again = False",
    "nested": "for _ in range(1):\n    for _ in range(1):\n        BODY",
    "returned": "once()",
}


@pytest.mark.parametrize("outer", ("for step in range(4):", "while len(seen) < 4:"))
@pytest.mark.parametrize("kind", ONCE)
def test_a_loop_within_that_goes_round_once_hides_nothing(kind: str, outer: str) -> None:
    def program(body: str) -> str:
        inner = ONCE[kind].replace("    BODY", "    " + body)
        once = f"def once():\n    for _ in range(3):\n        {body}\n        return\n\n\n"
        loop = "\n".join(f"    {line}" for line in inner.splitlines())
        return f"{HEAD}{once}train()\nseen = []\n{outer}\n{loop}\n"

    told = found(program("seen.append(model(torch.randn(5, 4)).argmax().item())"))
    head = program("").splitlines().index(outer) + 1
    assert [(one.span.line, one.certain) for one in told] == [(head, True)]
    # The same loop that trains, and one whose graphs nobody builds.
    step = "optimizer.zero_grad(); model(torch.randn(5, 4)).sum().backward(); seen.append(optimizer.step())"
    assert found(program(step)) == []
    assert found(program("seen.append(model.eval())")) == []


def test_the_loop_within_is_told_where_it_may_go_round_again() -> None:
    text = (
        "import gym\n" + HEAD + "env = gym.make('x')\nstate = env.reset()\nfor step in range(4):\n    while True:\n"
        "        state, done = env.step(model(torch.as_tensor(state)).argmax().item())\n"
        "        if done:\n            break\n"
    )
    (one,) = found(text)
    assert one.span.line == text.splitlines().index("    while True:") + 1


KEPT_COPY = """\
import copy
from copy import deepcopy
import torch
from torch import nn
from elsewhere import Net


class Trainer:
    def __init__(self):
        self.net, self.kept, self.best = Net(), {{}}, None
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def fit(self):
        for step in range(3):
            loss = nn.functional.cross_entropy(self.net(torch.randn(5, 4)), torch.tensor([0, 1, 0, 1, 1]))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        {before}
        {keep}
        {after}

    def test(self):
        correct = 0
        for x in torch.randn(3, 5, 4):
            out = {used}(x)
            correct += (out.argmax(1) == 1).sum().item()
        return correct


trainer = Trainer()
trainer.fit()
print(trainer.test())
"""


@pytest.mark.parametrize(
    ("keep", "used"),
    [
        ("self.best = deepcopy(self.net)", "self.best"),
        ("self.best = copy.deepcopy(self.net).eval()", "self.best"),
        ("self.best = deepcopy(deepcopy(self.net))", "self.best"),
        ("self.kept['best'] = deepcopy(self.net)", "self.kept['best']"),
        ("self.kept = deepcopy({'best': self.net})", "self.kept['best']"),
        ("self.best = self.net", "self.best"),
    ],
)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("pass", "pass"),
        ("pass", "{used}.train(False)"),
        ("pass", "{used}.requires_grad_(False)"),
        ("pass", "for p in {used}.parameters(): p.requires_grad = False"),
        ("self.net.requires_grad_(False)", "pass"),
        ("for p in self.net.parameters(): p.requires_grad_(False)", "pass"),
        ("pass", "self.net.requires_grad_(False)"),
    ],
)
def test_a_copy_of_a_hidden_model_that_is_trained_requires_grad_as_that_does(
    keep: str, used: str, before: str, after: str
) -> None:
    program = KEPT_COPY.format(keep=keep, used=used, before=before, after=after.format(used=used))
    graphs: list[bool] = []
    shown = program.replace(
        "from elsewhere import Net", "Net = lambda: nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2))"
    )
    shown = shown.replace("            correct +=", "            graphs.append(out.requires_grad); correct +=")
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(shown, "train.py", "exec"), {"graphs": graphs})
    assert [finding.certain for finding in found(program)] == ([False] if all(graphs) else [])


TEAM = """\
import torch
from torch import nn


class Player:
    def __init__(self):
        self.actor, self.critic = nn.Linear(4, 2), nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(self.actor.parameters(), lr=0.1)


class Team:
    def __init__(self):
        self.players = [Player(), Player()]

    def update(self, obs, number):
        player = self.players[number]
        player.optimizer.zero_grad()
        {actions}
        loss = player.critic(torch.cat(actions, 1)).mean()
        loss.backward(retain_graph=True)
        player.optimizer.step()
"""


ONE_OF_THEM = """
    def one(self, i, ob, number):
        return self.players[i].actor(ob) if i == number else self.players[i].actor(ob).detach()
"""


@pytest.mark.parametrize(
    "actions",
    [
        "[p[i].actor(ob) if i == number else p[i].actor(ob).detach() for i, ob in enumerate(obs)]",
        "[p[i].actor(ob).detach() if i != number else p[i].actor(ob) for i, ob in enumerate(obs)]",
        "list(p[i].actor(ob).detach() if i != number else p[i].actor(ob) for i, ob in enumerate(obs))",
        "[one.actor(ob) if one is player else one.actor(ob).detach() for one, ob in zip(p, obs)]",
        "[self.one(i, ob, number) for i, ob in enumerate(obs)]",
    ],
)
def test_of_many_values_that_go_into_a_loss_some_may_be_cut_off(actions: str) -> None:
    program = TEAM.format(actions=f"p = self.players\n        actions = {actions}")
    told = found(program + ONE_OF_THEM * ("self.one" in actions))
    assert [finding for finding in told if finding.code == "TAPE302"] == []


def test_values_that_go_into_no_loss_are_told() -> None:
    read = "print([player.actor(ob).sum().item() for ob in obs])\n        actions = [player.actor(obs[0])]"
    told = found(TEAM.format(actions=read))
    assert [(finding.code, finding.span.line) for finding in told if finding.code == "TAPE302"] == [("TAPE302", 18)]


MODES = """\
import argparse
import torch
from torch import nn
from elsewhere import report

parser = argparse.ArgumentParser()
parser.add_argument("--train", action="store_true")
parser.add_argument("--test", action="store_true")
args = parser.parse_args()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x):
        return self.layer(x)


net = Net()
xs = [torch.randn(3, 4)] * 4
if args.train:
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x in xs:
        loss = net(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {training}
{other}
    for x in xs:  # evaluated
        correct = net(x).argmax(1).sum().item()
        {testing}
    {behind}
"""


@pytest.mark.parametrize(
    "training", ["report(net)", "report(loss)", "report(net(x))", "net.register_forward_hook(report)"]
)
@pytest.mark.parametrize("other", ["else:", "elif not args.test:"])
def test_what_hidden_code_is_given_in_another_mode_hides_nothing(training: str, other: str) -> None:
    program = MODES.format(training=training, other=other, testing="pass", behind="pass")
    line = next(number for number, one in enumerate(program.splitlines(), 1) if "# evaluated" in one)
    assert [finding.span.line for finding in found(program)] == [line]


@pytest.mark.parametrize(
    ("testing", "behind"), [("report(net(x))", "pass"), ("kept = net(x)", "report(kept)"), ("report(net)", "pass")]
)
def test_what_hidden_code_is_given_of_a_loop_may_be_learned_from(testing: str, behind: str) -> None:
    assert found(MODES.format(training="pass", other="else:", testing=testing, behind=behind)) == []
