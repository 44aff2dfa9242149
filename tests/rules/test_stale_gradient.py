"""TAPE403 on tapes by hand."""

from __future__ import annotations

import pytest

from tapecheck.check import check
from tapecheck.fixes import fixes_for
from tapecheck.rules import judge
from tapecheck.rules.stale_gradient.rule import StaleGradient
from tapecheck.source import from_text
from tapecheck.tape import Decision, End, GradientRead, GradientSet, LeafEscape, Step, Tape
from tests.fixes.support import fixed
from tests.rules.conftest import Builder


def training(builder: Builder, *, clear: str = "", iterations: int = 3) -> int:
    """A loop with a forward on line 3, a backward on line 4 and a step on line 5; returns the leaf."""
    weight = builder.leaf(1)
    optimizer = builder.optimizer(2, weight)
    with builder.loop(2) as rounds:
        for _ in range(iterations):
            rounds()
            if clear == "before":
                builder.cleared(3, weight)
            loss = builder.node(3, weight, saves=[weight], name="loss")
            builder.backward(4, loss)
            if clear == "between":
                builder.cleared(4, weight)
            builder.step(5, optimizer, weight)
            if clear == "after":
                builder.cleared(6, weight, to_none="no", detached="yes")
            if clear == "set":
                builder.tape.events.append(GradientSet(builder.site(6), weight))
            if clear == "read":
                builder.tape.events.append(GradientRead(builder.site(6), weight))
    return weight


def ended(builder: Builder) -> Tape:
    return builder.tape if isinstance(builder.tape.events[-1], End) else builder.end()


def found(*builders: Builder) -> list[int]:
    findings = judge([ended(builder) for builder in builders], select=[StaleGradient.code])
    return [finding.span.line for finding in findings]


@pytest.mark.parametrize("clear", ["before", "after", "between", "set"])
def test_a_gradient_that_is_cleared_or_set_is_not_stale(clear: str) -> None:
    builder = Builder()
    training(builder, clear=clear)
    assert found(builder) == []


@pytest.mark.parametrize("clear", ["", "read"])
def test_what_a_step_has_used_is_used_again(clear: str) -> None:
    builder = Builder()
    training(builder, clear=clear)
    (finding,) = judge([ended(builder)], select=["TAPE403"])
    assert finding.span.line == 4
    assert finding.message == "`loss.backward()` adds to gradients that a step has already used"
    assert [label.message for label in finding.labels] == ["this step has used them on the previous iteration"]
    assert "nothing clears them" in finding.notes[0]


def test_one_iteration_shows_nothing() -> None:
    builder = Builder()
    training(builder, iterations=1)
    assert found(builder) == []


def test_a_sum_that_no_step_uses_is_not_stale() -> None:
    """The generator's loss adds to the discriminator's gradients; they are cleared before the next step."""
    builder = Builder()
    generator, discriminator = builder.leaf(1, "g"), builder.leaf(2, "d")
    g_step, d_step = builder.optimizer(3, generator), builder.optimizer(4, discriminator)
    with builder.loop(5) as rounds:
        for _ in range(3):
            rounds()
            builder.cleared(6, discriminator)
            builder.backward(7, builder.node(7, discriminator, saves=[discriminator]))
            builder.step(8, d_step, discriminator)
            builder.cleared(9, generator)
            fake = builder.node(10, generator, saves=[generator])
            builder.backward(11, builder.node(10, fake, discriminator, saves=[fake]))
            builder.step(12, g_step, generator)
    assert found(builder) == []


def test_accumulation_has_no_step_between() -> None:
    builder = Builder()
    weight = builder.leaf(1)
    optimizer = builder.optimizer(2, weight)
    with builder.loop(3) as rounds:
        for index in range(1, 5):
            rounds()
            builder.backward(4, builder.node(4, weight, saves=[weight]))
            if index % 2 == 0:
                builder.step(5, optimizer, weight)
                builder.cleared(6, weight)
    assert found(builder) == []


@pytest.mark.parametrize("named", [True, False])
def test_code_that_has_the_optimizer_may_clear(named: bool) -> None:
    builder = Builder()
    weight = training(builder)
    builder.tape.events.insert(2, LeafEscape(builder.site(2), (weight,) if named else (), "Trainer"))
    assert found(builder) == []


def test_a_way_that_clears_in_time_leaves_it_undecided() -> None:
    without, clearing = Builder(), Builder()
    training(without)
    without.tape.events.insert(2, Decision(without.site(2), "args.clear", False))
    training(clearing, clear="before")
    clearing.tape.events.insert(2, Decision(clearing.site(2), "args.clear", True))
    assert found(without) == [4]
    assert found(without, clearing) == []


@pytest.mark.parametrize(("where", "reported"), [("between", False), ("before", True)])
def test_a_condition_that_the_work_limit_left_untried_may_clear(where: str, reported: bool) -> None:
    builder = Builder()
    training(builder)
    events = builder.tape.events
    first = next(number for number, event in enumerate(events) if isinstance(event, Step))
    events.insert(first + 1 if where == "between" else 2, Decision(builder.site(2), "step % every", False))
    assert found(builder) == [4]
    span = builder.site(2).span
    builder.tape.untried = frozenset([(span.file, span.line, span.column)])
    assert found(builder) == ([4] if reported else [])


def test_a_gradient_that_only_may_have_been_added_is_not_said_to_be_stale() -> None:
    builder = Builder()
    weight = builder.leaf(1)
    optimizer = builder.optimizer(2, weight)
    with builder.loop(3) as rounds:
        for _ in range(3):
            rounds()
            builder.backward(4, builder.node(4, weight, saves=[weight], linked="may"))
            builder.step(5, optimizer, weight)
    assert found(builder) == []


TRAINING = """\
import torch
from torch import nn
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{first}
for step in range(4):
    loss = model(torch.randn(5, 4)).pow(2).mean()
    loss.backward()
    optimizer.step()
    {last}
"""


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ("zero = optimizer.zero_grad", "zero()"),
        ("", "[one.zero_grad() for one in [optimizer]]"),
        ("", "torch._foreach_zero_([p.grad for p in model.parameters()])"),
        ("", "[p.grad.fill_(0) for p in model.parameters()]"),
        ("", "[p.grad.data.fill_(0) for p in model.parameters()]"),
        ("", "model.apply(lambda module: module.zero_grad())"),
        ("optimizer.register_step_post_hook(lambda one, args, kwargs: one.zero_grad())", ""),
        ("", "for p in model.parameters(): setattr(p, 'grad', None)"),
        ("", "for p in model.parameters(): del p.grad"),
        ("", "for p in model.parameters(): p.grad[:] = 0"),
        ("", "for p in model.parameters(): p.grad *= 0"),
        ("from mylib import clear", "clear(optimizer)"),
    ],
)
def test_ways_of_clearing(first: str, last: str) -> None:
    text = TRAINING.format(first=first, last=last)
    assert [finding.code for finding in check(from_text(text, "program.py")).findings] == []


VIEWS = (
    "p.grad", "p.grad.data", "p.grad.detach()", "p.grad.view(-1)", "p.grad.flatten()", "p.grad.reshape(-1)",
    "p.grad.unsqueeze(0)", "p.grad[None]", "p.grad.data.view(-1)", "p.grad.view(-1).detach()[:]",
    "torch.as_tensor(p.grad)", "torch.as_tensor(p.grad.data, dtype=torch.float32)", "torch.asarray(p.grad)",
    "torch.from_numpy(p.grad.numpy())", "torch.as_tensor(p.grad.numpy())", "torch.Tensor(p.grad)",
    "torch.from_dlpack(p.grad)",
)  # fmt: skip
WRITES = (
    "g.zero_()", "torch.zero_(g)", "g.fill_(0)", "g.mul_(0)", "g *= 0", "g -= g", "g[...] = 0", "g.copy_(g - g)",
    "torch.mul(g, 0, out=g)", "torch.zeros(g.shape, out=g)", "nn.init.zeros_(g)", "[part.zero_() for part in g]",
    "g.untyped_storage().fill_(0)", "g.storage().fill_(0)", "torch.from_numpy(g.numpy()).zero_()",
    "g.__array__()[...] = 0", "torch.as_tensor(g).zero_()",
)  # fmt: skip
OF_NUMPY = ("g[:] = 0", "g *= 0", "g.fill(0)", "np.copyto(g, 0)", "np.multiply(g, 0, out=g)")


@pytest.mark.parametrize("view", VIEWS)
def test_what_torch_clears_through_a_view_is_cleared(view: str) -> None:
    torch = pytest.importorskip("torch")
    forms = [(view, write) for write in WRITES]
    arrays = [f"{view}.numpy()", f"np.asarray({view})", f"np.atleast_2d({view})"]
    forms += [(array, write) for array in arrays for write in OF_NUMPY]
    for made, write in forms:
        weight = torch.nn.Parameter(torch.ones(2, 2))
        weight.grad = torch.ones(2, 2)
        lines = f"import numpy as np\ng = {made}\n{write}\n"
        exec(lines, {"torch": torch, "nn": torch.nn, "p": weight})
        assert not weight.grad.any(), lines
        clear = f"for p in model.parameters():\n        g = {made}\n        {write}"
        text = TRAINING.format(first="import numpy as np", last=clear)
        assert [finding.code for finding in check(from_text(text, "program.py")).findings] == [], text


@pytest.mark.parametrize(
    "look",
    [
        "g.norm()",
        "g.clone().zero_()",
        "(g * 2).fill_(0)",
        "torch.mul(g, 0)",
        "print(g)",
        "torch.tensor(g).zero_()",
        "np.array(g).fill(0)",
        "np.linalg.norm(g)",
    ],
)
def test_what_torch_leaves_as_it_is_clears_nothing(look: str) -> None:
    last = f"for p in model.parameters():\n        g = p.grad.view(-1)\n        {look}"
    findings = check(from_text(TRAINING.format(first="import numpy as np", last=last), "program.py")).findings
    assert [finding.code for finding in findings] == ["TAPE403"]


def test_without_clearing() -> None:
    findings = check(from_text(TRAINING.format(first="", last="pass"), "program.py")).findings
    assert [(finding.code, finding.span.line) for finding in findings] == [("TAPE403", 8)]


def test_a_step_that_finds_cleared_gradients_has_used_none() -> None:
    text = """\
import torch
from torch import nn

net = nn.Linear(3, 1)
first, second = (torch.optim.SGD(net.parameters(), lr=0.1) for _ in range(2))
for i in range(3):
    net(torch.randn(4, 3)).mean().backward()
    first.zero_grad()
    first.step()
    net(torch.randn(4, 3)).pow(2).mean().backward()
    second.step()
    second.zero_grad()
"""
    assert [one.code for one in check(from_text(text, "train.py")).findings] == ["TAPE404"]
    kept = text.replace("    second.zero_grad()\n", "")
    assert ("TAPE403", 10) not in [(one.code, one.span.line) for one in check(from_text(kept, "train.py")).findings]


@pytest.mark.parametrize(
    ("guard", "titles"),
    [
        ("if True:", ["before the backward"]),
        ("if (step + 1) % 4 == 0:", ["after the step"]),
        # Before each backward would be in vain where the option keeps its default.
        ("if (step + 1) % args.every == 0:", ["after the step"]),
        ("if (step + 1) % args.more == 0:", ["after the step", "before the backward"]),
    ],
)
def test_the_gradients_of_several_batches_are_cleared_after_their_step(guard: str, titles: list[str]) -> None:
    program = f"""\
import argparse
import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--every", type=int, default=4)
parser.add_argument("--more", type=int, required=True)
args = parser.parse_args()
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(40):
    loss = model(torch.randn(8, 4)).pow(2).mean()
    loss.backward()
    {guard}
        optimizer.step()
"""
    report = check(from_text(program, "train.py"))
    (finding,) = report.findings
    assert finding.code == "TAPE403"
    clear = "`optimizer.zero_grad()`"
    assert [fix.title for fix in fixes_for(report, finding)] == [f"Clear {title}: {clear}" for title in titles]
    advice = finding.help.removeprefix(f"clear the gradients for each step: {clear} ")
    assert advice.startswith("before this backward" if guard == "if True:" else "right after the step")


@pytest.mark.parametrize(
    ("made", "call"),
    [
        ("def update():\n    optimizer.step()\n", "update()"),
        ("def outer():\n    inner()\n\n\ndef inner():\n    optimizer.step()\n", "outer()"),
        (
            "class Trainer:\n    def update(self):\n        optimizer.step()\n\n\ntrainer = Trainer()",
            "trainer.update()",
        ),
    ],
)
def test_a_step_that_a_function_makes_now_and_then(made: str, call: str) -> None:
    program = f"""\
import torch
from torch import nn

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{made}
for step in range(40):
    loss = model(torch.randn(8, 4)).pow(2).mean()
    loss.backward()
    if (step + 1) % 4 == 0:
        {call}
"""
    assert [finding.code for finding in check(from_text(program, "train.py")).findings] == ["TAPE403"]
    cleared = program + "        optimizer.zero_grad()\n"
    assert check(from_text(cleared, "train.py")).findings == []


BY_HAND = """\
import torch
from torch import nn

model, free = nn.Linear(3, 1), torch.zeros(1, requires_grad=True)
x, y = torch.randn(20, 3), torch.randn(20, 1)
for epoch in range(5):
    {before}
    loss = (model(x) + free - y).pow(2).mean()
    loss.backward()
    {step}
    {after}
"""
STEPS = (
    "for p in model.parameters(): p.data.add_(p.grad, alpha=-0.1)",
    "for p in model.parameters(): p.data = p.data - 0.1 * p.grad.data",
    "for p in model.parameters(): p.data -= 0.1 * p.grad",
    "free.data.sub_(0.1 * free.grad.sign())",
)


@pytest.mark.parametrize("step", STEPS)
def test_a_step_by_hand_that_clears_nothing(step: str) -> None:
    report = check(from_text(BY_HAND.format(before="pass", step=step, after="pass"), "train.py"))
    (finding,) = report.findings
    assert (finding.code, finding.span.line, finding.certain) == ("TAPE403", 9, True)
    clear = "free.grad = None" if "free" in step else "model.zero_grad()"
    assert f"`{clear}` before this backward" in finding.help
    (fix,) = fixes_for(report, finding)
    assert [edit.content.strip() for edit in fix.edits] == [clear]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("model.zero_grad(); free.grad = None", "pass"),
        ("pass", "for p in [*model.parameters(), free]: p.grad.zero_()"),
        ("pass", "for p in [*model.parameters(), free]: p.grad = None"),
        ("pass", "for p in [*model.parameters(), free]: p.grad *= 0.9"),
    ],
)
def test_a_step_by_hand_that_is_cleared_or_decays(step: str, before: str, after: str) -> None:
    assert check(from_text(BY_HAND.format(before=before, step=step, after=after), "train.py")).findings == []


def test_what_is_changed_by_the_gradient_of_another_is_no_step() -> None:
    text = BY_HAND.format(before="pass", step="free.data.sub_(model.bias.grad)", after="pass")
    assert check(from_text(text, "train.py")).findings == []


@pytest.mark.parametrize(
    "use",
    [
        "free.data.copy_(0.1 * free.grad)",
        "free.data[free.grad.abs() < 1e-3] = 0",
        "free.data.mul_(free.grad)",
        "free.data.sub_(0.1 * free.grad); free.grad.view(-1)[:] = 0",
        "free.data.sub_(0.1 * free.grad); free.grad.detach().zero_()",
        "free.data.sub_(0.1 * free.grad); torch.zeros(1, out=free.grad)",
        "free.data.sub_(0.1 * free.grad); free.grad.numpy()[:] = 0",
    ],
)
def test_a_use_of_a_gradient_that_is_no_step_or_may_clear_it(use: str) -> None:
    assert check(from_text(BY_HAND.format(before="pass", step=use, after="pass"), "train.py")).findings == []


def test_batches_that_come_together_in_a_step_by_hand_are_not_cleared_one_by_one() -> None:
    text = (
        "import torch\nw = torch.zeros(3, requires_grad=True)\nfor step in range(5):\n    for batch in range(4):\n"
        "        loss = (w * torch.randn(3)).pow(2).sum() / 4\n        loss.backward()\n    w.data.sub_(0.1 * w.grad)\n"
    )
    report = check(from_text(text, "train.py"))
    (finding,) = report.findings
    assert finding.code == "TAPE403" and "right after the step, not in between" in finding.help
    assert [fix.title for fix in fixes_for(report, finding)] == ["Clear after the step: `w.grad = None`"]


AGENT = """\
class Agent:
    def __init__(self):
        self.w = torch.zeros(3, requires_grad=True)
    def fit(self):
        weight = self.w
{loop}
Agent().fit()
"""


@pytest.mark.parametrize(
    "inside",
    [
        "def fit(weight):\n{loop}\nw = torch.zeros(3, requires_grad=True)\nfit(w)\n",
        "def main():\n    w = torch.zeros(3, requires_grad=True)\n    fit(w)\ndef fit(weight):\n{loop}\nmain()\n",
        AGENT,
    ],
)
def test_help_and_fix_write_no_name_that_the_function_may_not_have(inside: str) -> None:
    depth = " " * (8 if "class" in inside else 4)
    loop = "".join(
        f"{depth}{line}\n"
        for line in (
            "for step in range(5):", "    loss = (weight * torch.randn(3)).pow(2).sum()", "    loss.backward()",
            "    weight.data.sub_(0.1 * weight.grad)",
        )
    )  # fmt: skip
    report = check(from_text("import torch\n" + inside.format(loop=loop), "train.py"))
    (finding,) = report.findings
    assert finding.code == "TAPE403" and "`" not in finding.help
    # Where it is stepped the function has a name for it.
    assert [fix.title for fix in fixes_for(report, finding)] == ["Clear after the step: `weight.grad = None`"]


@pytest.mark.parametrize(
    "clear", ["optimizer.zero_grad(set_to_none=False)", "[p.grad.zero_() for p in b.parameters()]"]
)
def test_what_clears_a_gradient_that_was_given_away_clears_it_where_it_comes_from(clear: str) -> None:
    text = (
        "import torch\nfrom torch import nn\na, b = nn.Linear(3, 1), nn.Linear(3, 1)\n"
        "optimizer = torch.optim.SGD(b.parameters(), lr=0.1)\nfor p, q in zip(a.parameters(), b.parameters()):\n"
        "    p.grad = torch.zeros_like(p)\n    q.grad = p.grad\nfor step in range(4):\n"
        f"    {clear}\n    a(torch.randn(2, 3)).pow(2).sum().backward()\n    optimizer.step()\n"
    )
    assert check(from_text(text, "train.py")).findings == []


_OWN_OPTIMIZER = """\
import torch
from torch import nn


class Signs(torch.optim.SGD):
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    CHANGE


net = nn.Linear(3, 1)
optimizer = Signs(net.parameters(), lr=0.1)
for step in range(10):
    loss = net(torch.randn(4, 3)).pow(2).mean()
    CLEAR
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("change", "clear", "told"),
    [
        ("p.data.add_(p.grad.sign(), alpha=-group['lr'])", "pass", True),
        ("p.data.add_(p.grad.sign(), alpha=-group['lr'])", "optimizer.zero_grad()", False),
        ("p.data.add_(p.grad.sign(), alpha=-group['lr']); p.grad = None", "pass", False),
        ("p.data = p.data - group['lr'] * p.grad.sign()", "pass", True),
        ("group['lr'] *= 0.9", "pass", False),
        ("m = self.state[p].setdefault('m', torch.zeros_like(p)).add_(p.grad); p.data.sub_(0.1 * m)", "pass", True),
        ("super().step(); self.state[p]['old'].add_(p.grad)", "pass", False),
    ],
)
def test_the_step_of_an_optimizer_that_the_program_writes(change: str, clear: str, told: bool) -> None:
    program = _OWN_OPTIMIZER.replace("CHANGE", change).replace("CLEAR", clear)
    assert [one.code for one in check(from_text(program, "program.py")).findings] == (["TAPE403"] if told else [])


_SHOWN = """\
import torch
from torch import nn
import plots

model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
noise = torch.randn(2, 4).requires_grad_()
shown = []
BEFORE
for i in range(30):
    optimizer.zero_grad()
    score = model(noise)[:, 1].mean()
    score.backward()
    noise.data += noise.grad / 30
    shown.append(score.item())
    WITHIN
BEHIND
"""


@pytest.mark.parametrize("shows", ["plots.lines(shown)", "plots.lines(shown, model=model)", "plots.held.append(noise)"])
@pytest.mark.parametrize("where", ["BEFORE", "WITHIN", "BEHIND"])
def test_unknown_code_that_comes_later_has_cleared_nothing(where: str, shows: str) -> None:
    program = _SHOWN
    for place in ("BEFORE", "WITHIN", "BEHIND"):
        program = program.replace(place, shows if place == where else "pass")
    found = [one.code for one in check(from_text(program, "program.py")).findings]
    # By a list of numbers it comes to no gradient, whenever it has it.
    assert ("TAPE403" in found) == (where == "BEHIND" or shows == "plots.lines(shown)")


_WORKED_OUT = """\
import torch
from torch import nn

def updated(noise, rate):
    made = noise + rate * noise.grad
    WITHIN
    return made

def moved(noise):
    return updated(noise, 0.1)

model = nn.Linear(4, 3)
noise = torch.randn(2, 4).requires_grad_()
for i in range(30):
    model.zero_grad()
    model(noise)[:, 1].mean().backward()
    STEP
    BEHIND
"""


@pytest.mark.parametrize("step", ["noise.data = updated(noise, 0.1)", "noise.data = moved(noise)"])
@pytest.mark.parametrize(
    ("within", "behind", "told"),
    [
        ("pass", "pass", True),
        ("pass", "noise.grad = None", False),
        ("noise.grad.zero_()", "pass", False),
        ("pass", "print(noise.grad.norm())", False),
    ],
)
def test_a_step_by_hand_that_functions_work_out(step: str, within: str, behind: str, told: bool) -> None:
    program = _WORKED_OUT.replace("WITHIN", within).replace("STEP", step).replace("BEHIND", behind)
    assert [one.code for one in check(from_text(program, "program.py")).findings] == (["TAPE403"] if told else [])


TWO_OF_ONE = """\
import torch
from torch import nn

net = nn.Linear(3, 1)
first = torch.optim.Adam(net.parameters(), lr=0.1)
second = torch.optim.OTHER
x = torch.randn(4, 3)


def closure():
    loss = net(x).pow(2).mean()
    loss.backward()
    return loss


for _ in range(3):
    first.zero_grad()
    net(x).pow(2).mean().backward()
    first.step()
second.step(closure)
"""


@pytest.mark.parametrize("other", ["LBFGS(net.parameters(), max_iter=3)", "SGD(net.parameters(), lr=0.1)"])
def test_the_optimizer_that_steps_next_is_named(other: str) -> None:
    report = check(from_text(TWO_OF_ONE.replace("OTHER", other), "train.py"))
    (finding,) = report.findings
    assert "`second.zero_grad()` before this backward" in finding.help
    assert all("first" not in fix.title for fix in fixes_for(report, finding))


HANDED = """\
import torch
from torch import nn

common, local = nn.Linear(4, 2), nn.Linear(4, 2)
optimizer = torch.optim.SGD(common.parameters(), lr=0.1)
for step in range(5):
    local.load_state_dict(common.state_dict())
    FIRST
    local(torch.randn(8, 4)).pow(2).mean().backward()
    for mine, shared in zip(local.parameters(), common.parameters()):
        HANDS
    optimizer.step()
    LAST
"""
ONCE = "if shared.grad is None:\n            shared.grad = mine.grad"


@pytest.mark.parametrize(
    ("first", "hands", "last", "line"),
    [
        ("local.zero_grad()", ONCE, "pass", 12),
        ("local.zero_grad()", "if step == 0:\n            shared.grad = mine.grad", "pass", 12),
        ("pass", ONCE, "local.zero_grad()", 12),
        ("for one in local.parameters(): one.grad = None", ONCE, "pass", 12),
        # What one of two drops is not what both were to keep.
        ("optimizer.zero_grad()", ONCE, "pass", 9),
        ("local.zero_grad()", "shared.grad = mine.grad", "pass", 0),
        ("local.zero_grad(); optimizer.zero_grad()", ONCE, "pass", 0),
        ("local.zero_grad(set_to_none=False)", ONCE, "pass", 0),
        ("local.zero_grad()", "shared.grad = mine.grad.clone()", "pass", 0),
        ("local.zero_grad()", ONCE.replace("mine.grad", "mine.grad.clone()"), "optimizer.zero_grad()", 0),
        ("local.zero_grad()", "shared.grad = mine.grad if step % 2 else mine.grad + 0", "pass", 0),
    ],
)
def test_a_gradient_that_is_handed_over_once_is_used_again(first: str, hands: str, last: str, line: int) -> None:
    torch = pytest.importorskip("torch")
    text = HANDED.replace("FIRST", first).replace("HANDS", hands).replace("LAST", last)
    found = [one for one in check(from_text(text, "train.py")).findings if one.code == "TAPE403"]
    assert [one.span.line for one in found] == ([line] if line else [])
    # What each step uses is what the backward before it has added, and nothing else.
    alone = """before = nn.Linear(4, 2)
    before.load_state_dict(local.state_dict())
    state = torch.get_rng_state()
    before(torch.randn(8, 4)).pow(2).mean().backward()
    torch.set_rng_state(state)
    local("""
    uses = """optimizer.step()
    used += [(one.grad.clone(), own.grad) for one, own in zip(common.parameters(), before.parameters())]"""
    used: list[tuple[object, object]] = []
    exec(text.replace("local(", alone, 1).replace("optimizer.step()", uses), {"used": used})
    assert len(used) == 10
    assert all(torch.equal(one, own) for one, own in used) is (not line)


def test_a_gradient_that_is_handed_over_every_so_many_steps_is_meant_to_be_used_until_then() -> None:
    hands = "if step % 2 == 0:\n            shared.grad = mine.grad"
    text = HANDED.replace("FIRST", "local.zero_grad()").replace("HANDS", hands).replace("LAST", "pass")
    assert not check(from_text(text, "train.py")).findings


_LOSSES = {
    # The loss that another optimizer steps, or an attack reads, and that fills these parameters, too.
    "generator": "    other_loss = net(maker(x)).mean()\n    other.zero_grad()\n    other_loss.backward()\n"
    "    other.step()\n",
    "two": "    a, b = net(maker(x)).mean(), net(maker(x)).pow(2).mean()\n    other.zero_grad()\n    a.backward()\n"
    "    b.backward()\n    other.step()\n",
    "attack": "    moved = x.clone().requires_grad_()\n    for _ in range(2):\n        net(moved).mean().backward()\n"
    "        moved = (moved + moved.grad.sign()).detach().requires_grad_()\n    x = moved.detach()\n",
}
_OWN = {
    "one": "    loss = net(x).pow(2).mean()\n    loss.backward()\n    opt.step()\n",
    "sum": "    loss, more = net(x).pow(2).mean(), net(x + 1).mean()\n    loss.backward()\n    more.backward()\n"
    "    opt.step()\n",
}
_TWO_LOSSES = """\
import torch
from torch import nn

torch.manual_seed(0)
net, maker = nn.Linear(3, 1), nn.Linear(3, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
other = torch.optim.SGD(maker.parameters(), lr=0.1)
for x in torch.randn(6, 4, 3):
"""


@pytest.mark.parametrize("order", ["own first", "other first"])
@pytest.mark.parametrize("own", _OWN)
@pytest.mark.parametrize("other", _LOSSES)
def test_where_two_losses_fill_one_network_it_is_cleared_for_its_own_step(own: str, other: str, order: str) -> None:
    torch = pytest.importorskip("torch")
    mine, others = _OWN[own], _LOSSES[other]
    program = _TWO_LOSSES + (mine + others if order == "own first" else others + mine)
    report = check(from_text(program, "program.py"))
    (finding,) = (one for one in report.findings if one.code == "TAPE403")
    assert program.splitlines()[finding.span.line - 1].strip() == "loss.backward()"
    fixes = fixes_for(report, finding)
    assert fixes and all(fix.title.startswith("Clear before the backward") for fix in fixes)
    loss = "loss" if own == "one" else "loss + more"
    wanted = f"    wanted = [p.detach() for p in torch.autograd.grad({loss}, net.parameters(), retain_graph=True)]\n"
    compared = (
        "    seen.append(all(torch.allclose(p.grad, w) for p, w in zip(net.parameters(), wanted)))\n    opt.step()\n"
    )
    for text, right in ((program, False), (fixed(program, fixes[0]), True)):
        text = text.replace("    loss.backward()\n", f"{wanted}    loss.backward()\n")
        seen: list[bool] = []
        exec(text.replace("    opt.step()\n", f"{compared}    opt.step()\n"), {"seen": seen, "torch": torch})
        assert all(seen) is right, seen
