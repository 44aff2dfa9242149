"""TAPE501: gradients that are read while a GradScaler's scale is on them."""

from __future__ import annotations

import pytest

from tapecheck.check import check
from tapecheck.fixes import fixes_for
from tapecheck.rules import Finding
from tapecheck.source import from_text
from tests.fixes.support import fixed

HEAD = """\
import torch
from torch import nn

model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
for step in range(3):
    loss = model(torch.randn(5, 4)).pow(2).mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
"""
TAIL = "    scaler.step(optimizer)\n    scaler.update()\n"
CLIP = "    nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"


def found(text: str) -> list[Finding]:
    return [finding for finding in check(from_text(text, "train.py")).findings if finding.code == "TAPE501"]


def told(body: str, head: str = HEAD) -> list[tuple[str, str]]:
    lines = (head + body + TAIL).splitlines()
    return [(lines[finding.span.line - 1].strip(), finding.severity) for finding in found(head + body + TAIL)]


@pytest.mark.parametrize(
    ("line", "severity"),
    [
        ("nn.utils.clip_grad_norm_(model.parameters(), 1.0)", "warning"),
        ("torch.nn.utils.clip_grad_value_(model.parameters(), clip_value=1.0)", "warning"),
        ("model.weight.grad.clamp_(-1, 1)", "warning"),
        ("model.weight.grad.data.clamp_(min=-1, max=1)", "warning"),
        ("print(model.weight.grad.norm())", "info"),
        ("print(model.weight.grad.detach().data.norm(2).item())", "info"),
        ("print(torch.norm(model.weight.grad), 1)", "info"),
        ("print(model.weight.grad.clone().flatten().abs().max())", "info"),
    ],
)
def test_what_hangs_on_the_size_of_a_gradient(line: str, severity: str) -> None:
    assert told(f"    {line}\n") == [(line, severity)]


@pytest.mark.parametrize(
    "lines",
    [
        "print(model.weight.grad is None)",
        "print(torch.isfinite(model.weight.grad).all(), torch.isnan(model.weight.grad.sum()))",
        "scaler.unscale_(optimizer)\n    nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
        "nn.utils.clip_grad_norm_(model.parameters(), max_norm=scaler.get_scale())",
        "limit = 0.5 * scaler.get_scale()\n    nn.utils.clip_grad_norm_(model.parameters(), limit)",
        "model.weight.grad.div_(scaler.get_scale())\n    print(model.weight.grad.norm())",
        "model.weight.grad = model.weight.grad / scaler.get_scale()\n    print(model.weight.grad.norm())",
        "helper(model)\n    nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
        "model.zero_grad()\n    loss.detach()\n    nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
        "(norm,) = torch.autograd.grad(model(torch.ones(1, 4)).sum(), [model.bias])\n    print(norm.norm())",
        "model.weight.grad.add_(model.weight.grad.clone())",
    ],
)
def test_what_does_not(lines: str) -> None:
    assert told(f"    {lines}\n", "from helpers import helper\n" + HEAD) == []


@pytest.mark.parametrize(
    ("made", "certain"),
    [
        ('torch.amp.GradScaler("cpu", enabled=False)', None),
        ("torch.cuda.amp.GradScaler(enabled=False)", None),
        ("torch.cuda.amp.GradScaler()", True),
        ("torch.cuda.amp.GradScaler(65536.0, 2.0, 0.5, 2000, False)", None),
        ('torch.amp.GradScaler("cpu", enabled=len(sys.argv) > 1)', False),
        # Where it trains there may be the GPU that the dry run has not.
        ("torch.amp.GradScaler(device, enabled=device == 'cuda')", False),
        ("torch.amp.GradScaler(device, enabled=device != 'cpu')", False),
        ("torch.amp.GradScaler(device, enabled=torch.cuda.is_available())", False),
        ("torch.amp.GradScaler(device, enabled='half' == 'full')", None),
    ],
)
def test_a_scaler_that_may_be_switched_off(made: str, certain: bool | None) -> None:
    device = "device = 'cuda' if torch.cuda.is_available() else 'cpu'\n"
    text = "import sys, torch\n" + device + HEAD.replace('torch.amp.GradScaler("cpu")', made) + CLIP + TAIL
    findings = found(text)
    assert [finding.certain for finding in findings] == ([] if certain is None else [certain])
    assert all(bool(finding.notes) != finding.certain for finding in findings)


def test_a_scaler_that_was_handed_in_is_a_possible_one() -> None:
    text = """\
import torch
from torch import nn


def train(model, batches, optimizer, scaler):
    for x, y in batches:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
"""
    (finding,) = found(text)
    assert not finding.certain and finding.message == "possible clip of scaled gradients (missing `unscale_`)"
    unscaled = text.replace("        nn.utils", "        scaler.unscale_(optimizer)\n        nn.utils")
    assert found(unscaled) == []


def test_an_optimizer_whose_parameters_are_not_all_known_may_have_them() -> None:
    text = HEAD.replace("torch.optim.SGD(model.parameters(), lr=0.1)", "torch.optim.SGD(groups(model), lr=0.1)")
    body = "    scaler.unscale_(optimizer)\n" + CLIP + TAIL
    assert found("from groups import groups\n" + text + body) == []


def test_clipping_is_known_whatever_it_is_imported_as() -> None:
    head = "from torch.nn.utils import clip_grad_norm_ as bound\n" + HEAD
    (finding,) = found(head + "    bound(model.parameters(), 1.0)\n" + TAIL)
    assert (finding.severity, finding.message) == (
        "warning", "gradients are still scaled when they are clipped (missing `unscale_`)",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("body", "title"),
    [
        (CLIP, "Insert `scaler.unscale_(optimizer)` before line 11"),
        (CLIP + "    scaler.unscale_(optimizer)\n", "Move `scaler.unscale_(optimizer)` before line 11"),
        ("    for p in model.parameters():\n        p.grad.clamp_(-1, 1)\n",
         "Insert `scaler.unscale_(optimizer)` before line 11"),
    ],
)  # fmt: skip
def test_the_scaler_unscales_first(body: str, title: str) -> None:
    report = check(from_text(HEAD + body + TAIL, "train.py"))
    (finding,) = [each for each in report.findings if each.code == "TAPE501"]
    assert [fix.title for fix in fixes_for(report, finding)] == [title]


def test_no_fix_where_unscale_would_come_twice() -> None:
    tail = "    if step % 2:\n        scaler.step(optimizer)\n        scaler.update()\n"
    report = check(from_text(HEAD + CLIP + tail, "train.py"))
    (finding,) = [each for each in report.findings if each.code == "TAPE501"]
    assert fixes_for(report, finding) == []


def test_with_accumulation_the_gradients_are_unscaled_in_the_block_of_the_step() -> None:
    clip, tail = (text.replace("    ", " " * 8) for text in (CLIP, TAIL))
    head = HEAD.replace("    optimizer.zero_grad()\n", "").replace("range(3)", "range(8)")
    text = head + "    if (step + 1) % 4 == 0:\n" + clip + tail + "        optimizer.zero_grad()\n"
    report = check(from_text(text, "train.py"))
    (finding,) = report.findings
    (fix,) = fixes_for(report, finding)
    assert "4 == 0:\n        scaler.unscale_(optimizer)\n        nn.utils" in fixed(text, fix)


PLAIN = "    optimizer.step()\n"
FLAG = 'import sys\nmixed = "amp" in sys.argv\n'


def steps(body: str, head: str = HEAD) -> list[str]:
    text = head + body
    return [text.splitlines()[finding.span.line - 1].strip() for finding in found(text)]


@pytest.mark.parametrize(
    ("head", "body"),
    [
        (HEAD, PLAIN),
        (HEAD.replace("SGD(model.parameters(), lr=0.1)", "Adam(model.parameters(), fused=True)"), PLAIN),
        (HEAD, "    optimizer.step(None)\n"),
        (HEAD.replace("    optimizer.zero_grad()\n", ""), PLAIN + "    optimizer.zero_grad()\n"),
        (HEAD, "    print(model.weight.grad is None)\n" + PLAIN),
    ],
)
def test_a_step_without_the_scaler_uses_scaled_gradients(head: str, body: str) -> None:
    (line,) = steps(body, head)
    assert line.startswith("optimizer.step(")


@pytest.mark.parametrize(
    "body",
    [
        TAIL,
        "    scaler.unscale_(optimizer)\n" + PLAIN,
        "    optimizer.grad_scale = scaler.get_scale()\n" + PLAIN,
        "    optimizer.step(grad_scaler=scaler)\n",
        "    for p in model.parameters():\n        p.grad.div_(scaler.get_scale())\n" + PLAIN,
        "    for p in model.parameters():\n        p.grad = p.grad / scaler.get_scale()\n" + PLAIN,
        "    torch._foreach_div_([p.grad for p in model.parameters()], scaler.get_scale())\n" + PLAIN,
        "    torch._foreach_mul_([p.grad for p in model.parameters()], 1 / scaler.get_scale())\n" + PLAIN,
        "    unscale(scaler, optimizer)\n" + PLAIN,
        "    unscale(scaler, model)\n" + PLAIN,
        "    if mixed:\n        scaler.step(optimizer)\n        scaler.update()\n    else:\n    " + PLAIN,
        "    optimizer.zero_grad()\n    model(torch.ones(2, 4)).sum().backward()\n" + PLAIN,
        "    model(torch.ones(2, 4)).sum().backward()\n" + PLAIN,
    ],
)
def test_a_step_of_gradients_that_are_or_may_be_unscaled(body: str) -> None:
    assert steps(body, FLAG + "from helpers import unscale\n" + HEAD) == []


@pytest.mark.parametrize(
    "edit",
    [
        ('GradScaler("cpu")', 'GradScaler("cpu", enabled=False)'),
        ('GradScaler("cpu")', 'GradScaler("cpu", enabled=torch.cuda.is_available())'),
        ('scaler = torch.amp.GradScaler("cpu")', "from helpers import scaler"),
        (
            "for step in",
            "optimizer.register_step_pre_hook(lambda one, args, kwargs: scaler.unscale_(one))\nfor step in",
        ),
        ("for step in", "from helpers import setup\nsetup(scaler)\nfor step in"),
        ("for step in", "from helpers import Watcher\nwatcher = Watcher(optimizer, scaler)\nfor step in"),
        ("scaler.scale(loss).backward()", "(scaler.scale(loss) if mixed else loss).backward()"),
        ("scaler.scale(loss).backward()", "if mixed:\n        loss = scaler.scale(loss)\n    loss.backward()"),
    ],
)
def test_a_step_where_the_scaler_is_off_or_something_unscales(edit: tuple[str, str]) -> None:
    assert steps(PLAIN, FLAG + HEAD.replace(*edit)) == []


def test_one_of_two_optimizers_steps_without_the_scaler() -> None:
    head = HEAD.replace("(5, 4)))", "(5, 4)))").replace(
        "for step in", "other = nn.Linear(2, 1)\nsecond = torch.optim.SGD(other.parameters(), lr=0.1)\nfor step in"
    )
    head = head.replace("loss = model(", "loss = other(model(").replace("5, 4)).pow", "5, 4))).pow")
    assert steps(
        "    second.step()\n" + TAIL, head.replace("optimizer.zero", "second.zero_grad()\n    optimizer.zero")
    ) == ["second.step()"]


def test_the_step_is_handed_to_the_scaler() -> None:
    text = HEAD + PLAIN
    report = check(from_text(text, "train.py"))
    (finding,) = report.findings
    assert finding.message == "`optimizer.step()` uses gradients that are still scaled"
    (fix,) = fixes_for(report, finding)
    assert fix.title == "Step by the scaler: `scaler.step(optimizer)`"
    assert fixed(text, fix) == HEAD + TAIL


OWN = """\
class Divided(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad / 65536


for step in"""


@pytest.mark.parametrize(
    "edit",
    [
        ("optimizer.zero_grad()", "optimizer.zero_grad()\n    print(scaler.get_scale())"),
        ("optimizer.zero_grad()", "optimizer.zero_grad()\n    print(scaler._scale)"),
        ("for step in", "torch.save(scaler.state_dict(), 'scaler.pt')\nfor step in"),
        ("for step in", "scaler.load_state_dict(torch.load('scaler.pt'))\nfor step in"),
        ("for step in", "scaler.update(1.0)\nfor step in"),
        ("for step in", "scaler._scale = torch.ones(1)\nfor step in"),
        ('GradScaler("cpu")', 'GradScaler("cpu", init_scale=1.0)'),
        ('GradScaler("cpu")', 'GradScaler("cpu", 1.0)'),
        ('GradScaler("cpu")', 'GradScaler("cpu", **options)'),
        ("scaler.scale(loss).backward()", "(scaler.scale(loss) / 65536).backward()"),
        ("scaler.scale(loss).backward()", "scaler.scale(loss).backward(torch.tensor(1 / 65536))"),
        ("scaler.scale(loss).backward()", "scaler.scale(loss).backward(gradient=torch.tensor(1 / 65536))"),
        ("scaler.scale(loss).backward()", "torch.autograd.backward(scaler.scale(loss), torch.tensor(1 / 65536))"),
        ("for step in", "for p in model.parameters():\n    p.register_hook(lambda g: g / 65536)\nfor step in"),
        ("for step in", "model.register_full_backward_hook(lambda m, ins, outs: None)\nfor step in"),
        ("for step in", "model.register_full_backward_pre_hook(lambda m, outs: (outs[0] / 65536,))\nfor step in"),
        ("    optimizer.zero_grad()", "    loss.register_hook(lambda g: g / 65536)\n    optimizer.zero_grad()"),
        (
            "optimizer.zero_grad()",
            "optimizer.zero_grad()\n    loss.grad_fn.register_prehook(lambda g: (g[0] / 65536,))",
        ),
        ("for step in", "nn.modules.module.register_module_full_backward_hook(lambda m, ins, outs: None)\nfor step in"),
        (
            "    optimizer.zero_grad()",
            "    loss = loss / scaler.scale(torch.ones(1)).item()\n    optimizer.zero_grad()",
        ),
        ("for step in", OWN, "scale(loss)", "scale(Divided.apply(loss))"),
        ("for step in", "from helpers import engine\nengine.scaler = scaler\nfor step in"),
        ("for step in", "from helpers import engine\nengine.parts['optimizer'] = optimizer\nfor step in"),
        ("for step in", "from helpers import Engine\nengine = Engine()\nengine.step_with = optimizer\nfor step in"),
        ("for step in", "from helpers import Engine\nengine = Engine([{'scaler': scaler}])\nfor step in"),
    ],
)
def test_a_step_where_something_else_may_divide_by_the_scale(edit: tuple[str, ...]) -> None:
    head = HEAD
    for old, new in zip(edit[::2], edit[1::2]):
        head = head.replace(old, new)
    assert steps(PLAIN, "from helpers import options\n" + head) == []


@pytest.mark.parametrize("given", ["512.0", "init_scale=2.0**10", "init_scale=1024", "init_scale=-(-4.0)"])
@pytest.mark.parametrize(
    ("edit", "told"),
    [
        (("", ""), True),
        (("for step in", "start = 512.0\nfor step in"), True),
        (("for step in", "print(scaler.get_scale())\nfor step in"), False),
        (("optimizer.zero_grad()", "optimizer.zero_grad()\n    print(scaler._scale)"), False),
    ],
)
def test_a_scale_that_is_only_written_down_is_one_that_a_rate_may_make_up_for(
    given: str, edit: tuple[str, str], told: bool
) -> None:
    text = HEAD.replace('GradScaler("cpu")', f'GradScaler("cpu", {given})').replace(*edit) + PLAIN
    found = [one for one in check(from_text(text, "train.py")).findings if one.code == "TAPE501"]
    assert [(one.message, one.certain) for one in found] == (
        [("possible step of scaled gradients, `optimizer.step()`", False)] if told else []
    )


@pytest.mark.parametrize("given", ["start", "init_scale=start", "init_scale=float('512')", "init_scale=options.scale"])
def test_a_scale_that_has_a_name_may_be_divided_by(given: str) -> None:
    head = HEAD.replace("for step in", "start = 512.0\nfor step in").replace('"cpu")', f'"cpu", {given})')
    assert steps(PLAIN, "from helpers import options\nstart = 512.0\n" + head) == []


@pytest.mark.parametrize("owner", ["", "self."])
def test_no_second_update_is_written(owner: str) -> None:
    text = f"""\
import torch
from torch import nn


class Trainer:
    def __init__(self):
        self.model = nn.Linear(4, 2)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.scaler = torch.amp.GradScaler("cpu")

    def update(self):
        self.scaler.update()

    def train(self):
        scaler = self.scaler
        for step in range(3):
            self.optimizer.zero_grad()
            {owner}scaler.scale(self.model(torch.randn(5, 4)).pow(2).mean()).backward()
            self.optimizer.step()
            self.update()


Trainer().train()
"""
    report = check(from_text(text, "train.py"))
    (finding,) = report.findings
    assert fixes_for(report, finding) == []
