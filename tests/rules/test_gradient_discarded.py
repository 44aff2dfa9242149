"""TAPE404 on tapes by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tapecheck.check import check
from tapecheck.fixes import fixes_for
from tapecheck.rules import Finding
from tapecheck.source import from_text
from tapecheck.tape import GradientRead, GradientSet, LeafEscape
from tests.fixes.support import fixed
from tests.rules.conftest import Builder

Found = Callable[..., list[Finding]]


def training(builder: Builder, *, between: str = "clear", iterations: int = 3) -> int:
    """Backward on line 4, something on line 5, the step on line 6; answers the leaf."""
    weight = builder.leaf(1)
    optimizer = builder.optimizer(2, weight)
    with builder.loop(3) as rounds:
        for _ in range(iterations):
            rounds()
            loss = builder.node(4, weight, saves=[weight], name="loss")
            builder.backward(4, loss)
            if between == "read":
                builder.tape.events.append(GradientRead(builder.site(5), weight))
            if between == "hook":
                builder.tape.events.append(GradientRead(builder.site(5), loss))
            if between == "set":
                builder.tape.events.append(GradientSet(builder.site(5), weight))
            if between not in ("nothing", "never"):
                builder.cleared(5, weight)
            builder.step(6, optimizer)
            if between == "nothing":
                builder.cleared(7, weight)
    return weight


def test_what_is_cleared_before_the_step_was_computed_in_vain(build: Builder, found: Found) -> None:
    training(build)
    (finding,) = found(build, code="TAPE404")
    assert finding.span.line == 4
    assert finding.message == "the gradients of `loss.backward()` are cleared before any step"
    assert {(label.span.line, label.role) for label in finding.labels} == {(5, "changed"), (6, "step")}


@pytest.mark.parametrize("between", ["nothing", "read", "hook", "set"])
def test_what_a_step_or_the_program_uses(build: Builder, found: Found, between: str) -> None:
    training(build, between=between)
    assert found(build, code="TAPE404") == []


def test_code_that_has_the_model_may_use_them(build: Builder, found: Found) -> None:
    weight = training(build)
    build.tape.events.insert(1, LeafEscape(build.site(1), (weight,), "Trainer"))
    assert found(build, code="TAPE404") == []


def test_a_way_on_which_they_are_used_leaves_it_undecided(
    build: Builder, another: Callable[[], Builder], found: Found
) -> None:
    training(build)
    other = another()
    training(other, between="nothing")
    assert found(build, other, code="TAPE404") == []


def test_a_way_that_clears_nothing_uses_them_too(build: Builder, another: Callable[[], Builder], found: Found) -> None:
    training(build)
    other = another()
    training(other, between="never")
    for several in ((build, other), (other, build)):
        assert found(*several, code="TAPE404") == []


CLEARED = """\
import torch
from torch import nn
from elsewhere import part, COUNT, FLAG

class Loop:
    def __init__(self):
        self.model = nn.Linear(3, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def run(self):
        for i in {loop}:
            loss = self.model(torch.randn(4, 3)).pow(2).mean()
            loss.backward()
            {when}:
                {clear}
            self.optimizer.step()

Loop().run()
"""
LOOPS = ("range(COUNT)", "range(4)", "range(part(3))", "part()")
CLEARS = (
    "self.optimizer.zero_grad()", "self.model.zero_grad(set_to_none=False)",
)  # fmt: skip


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("clear", CLEARS)
@pytest.mark.parametrize(
    "when", ["if part(i)", "if FLAG", "if i % 3 == 2", "if i == COUNT", "if part(i) and i > 1", "if not FLAG or i > 5"]
)
def test_what_only_a_condition_clears_is_not_lost(loop: str, clear: str, when: str) -> None:
    """Torch steps with the gradients wherever the condition does not hold."""
    report = check(from_text(CLEARED.format(loop=loop, when=when, clear=clear), "train.py"))
    assert [one.code for one in report.findings if one.code == "TAPE404"] == []


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("clear", CLEARS)
def test_what_is_always_cleared_is_lost_however_long_the_loop(loop: str, clear: str) -> None:
    report = check(from_text(CLEARED.format(loop=loop, when="if True", clear=clear), "train.py"))
    assert "TAPE404" in [one.code for one in report.findings]


def test_a_part_of_a_backward_that_is_cleared(build: Builder, found: Found) -> None:
    """The generator's loss fills the discriminator's gradients, too."""
    generator, discriminator = build.leaf(1, "g"), build.leaf(2, "d")
    g_step, d_step = build.optimizer(3, generator), build.optimizer(4, discriminator)
    with build.loop(5) as rounds:
        for _ in range(3):
            rounds()
            build.cleared(6, discriminator)
            build.backward(7, build.node(7, discriminator, saves=[discriminator]))
            build.step(8, d_step, discriminator)
            build.cleared(9, generator)
            fake = build.node(10, generator, saves=[generator])
            build.backward(11, build.node(10, fake, discriminator, saves=[fake]))
            build.step(12, g_step, generator)
    assert found(build, code="TAPE404") == []


def test_a_step_of_parameters_that_no_backward_reaches_is_for_another_rule(build: Builder, found: Found) -> None:
    """One detached batch: the generator's loss reaches the critic alone, which is cleared."""
    generator, critic = build.leaf(1, "g"), build.leaf(2, "d")
    g_step, c_step = build.optimizer(3, generator), build.optimizer(4, critic)
    with build.loop(5) as rounds:
        for _ in range(3):
            rounds()
            build.cleared(6, critic)
            build.backward(7, build.node(7, critic, saves=[critic]))
            build.step(8, c_step, critic)
            build.backward(9, build.node(9, critic, saves=[critic]))
            build.step(10, g_step, generator)
    assert found(build, code="TAPE404") == []


CLIPPED = """\
import torch
from torch import nn

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    loss = model(torch.randn(8, 4)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
"""
CLIP = "    nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"


def late(text: str) -> list[tuple[str, int]]:
    findings = check(from_text(text, "train.py")).findings
    return [(finding.message, finding.span.line) for finding in findings if finding.code == "TAPE404"]


@pytest.mark.parametrize(
    "clip",
    [
        CLIP,
        "    nn.utils.clip_grad_value_(model.parameters(), 1.0)\n",
        "    for p in model.parameters(): p.grad.data.clamp_(-1, 1)\n",
        CLIP + "    optimizer.zero_grad()\n",
    ],
)
def test_gradients_that_are_clipped_after_the_step(clip: str) -> None:
    (found,) = late(CLIPPED.replace(CLIP, clip))
    assert found == ("gradients are clipped after the step: nothing uses what that changes", 11)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    optimizer.step()\n" + CLIP, CLIP + "    optimizer.step()\n"),
        (CLIP, CLIP.replace("nn.utils", "norm = nn.utils") + "    print(norm)\n"),
        (CLIP, CLIP.replace("nn.utils", "if nn.utils").replace("1.0)\n", "1.0) > 9: break\n")),
        (CLIP, CLIP + "    optimizer.step()\n"),
        ("    optimizer.zero_grad()\n", "    if step % 2 == 0: optimizer.zero_grad()\n"),
        ("    optimizer.zero_grad()\n", "    if unknown(): optimizer.zero_grad()\n"),
        (CLIP, "    model(torch.randn(8, 4)).mean().backward()\n" + CLIP + "    optimizer.step()\n"),
        (CLIP, "    unknown(model)\n" + CLIP),
        ("    optimizer.zero_grad()\n", ""),
    ],
)
def test_clips_that_a_step_or_the_program_uses(old: str, new: str) -> None:
    text = CLIPPED.replace(old, new).replace("import torch\n", "import torch\nfrom elsewhere import unknown\n", 1)
    assert late(text) == []


EARLY = """\
import torch
from torch import nn
from elsewhere import unknown, FLAG

model, other = nn.Linear(4, 1), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*model.parameters(), *other.parameters()], lr=0.1)
for step in range(4):
    loss = (model(torch.randn(8, 4)) + other(torch.randn(8, 4))).pow(2).mean()
    optimizer.zero_grad()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("clip_grad_norm_", "clip_grad_value_"),
        ("zero_grad()", "zero_grad(set_to_none=False)"),
        ("    optimizer.step()\n", "    optimizer.step()\n    print(model.weight.grad.norm())\n"),
    ],
)
def test_gradients_that_are_clipped_before_the_backward(old: str, new: str) -> None:
    found = late(EARLY.replace(old, new))
    assert found == [("gradients are clipped before the backward: there are none to clip", 10)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    nn.utils", "    norm = nn.utils"),
        ("    optimizer.zero_grad()\n", "    if step % 2 == 0: optimizer.zero_grad()\n"),
        ("    optimizer.zero_grad()\n", "    if step % 10 == 0: optimizer.zero_grad()\n"),
        ("    optimizer.zero_grad()\n", "    if FLAG: optimizer.zero_grad()\n"),
        ("    optimizer.zero_grad()\n", "    other.zero_grad()\n"),
        ("    optimizer.zero_grad()\n", ""),
        ("    optimizer.zero_grad()\n", "    optimizer.zero_grad()\n    unknown(model)\n"),
        ("    optimizer.zero_grad()\n", "    optimizer.zero_grad()\n    model.weight.grad = torch.randn(1, 4)\n"),
        ("    optimizer.zero_grad()\n", "    optimizer.zero_grad()\n    (3 * other.weight.sum()).backward()\n"),
        ("    optimizer.zero_grad()\n", "    model.zero_grad()\n    model(torch.randn(8, 4)).mean().backward()\n"),
    ],
)
def test_a_clip_before_a_backward_that_has_gradients_to_clip(old: str, new: str) -> None:
    told = [
        found
        for found in late(
            EARLY.replace("model.parameters(), 1.0", "CLIPPED, 1.0")
            .replace(old, new)
            .replace("CLIPPED", "optimizer.param_groups[0]['params']")
        )
        if "clipped" in found[0]
    ]
    assert told == []


LOOKS = """\
import torch
from torch import nn

torch.manual_seed(0)
seen = []
model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 1))
weight = model[0].weight
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    loss = 100 * model(torch.randn(8, 4)).pow(2).mean()
    {before}
    optimizer.zero_grad(set_to_none={none})
    loss.backward()
    {taken}
    optimizer.step()
    {clip}
    {after}
{end}
"""
CLIPPING = (
    "nn.utils.clip_grad_norm_(model.parameters(), 0.01)",
    "for p in model.parameters(): p.grad.clamp_(-0.001, 0.001)",
    "for p in optimizer.param_groups[0]['params']: torch.clamp_(p.grad.data, -0.001, 0.001)",
)
READS = (
    "seen.append(weight.grad.norm().item())",
    "for p in model.parameters(): seen.append(float(p.grad.data.sum()))",
    "seen.append([p.grad for p in model.parameters()])",
    "seen.append(getattr(weight, 'grad').tolist())",
    "seen.append(f'{weight.grad}')",
    "seen.append(weight.grad.clone())",
    "seen.append(weight.grad.clamp_(-1, 1).tolist())",
    "seen.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), 5)))",
    "seen.extend(map(lambda p: float(p.grad.norm()), model.parameters()))",
    "weight.data -= 0.1 * weight.grad",
    "weight.grad.mul_(2); seen.append(weight.grad.numpy().tolist())",
    "(lambda g: seen.append(float(g.max())))(weight.grad)",
    "optimizer.zero_grad(seen.append(float(weight.grad.norm())))",
)
TAKEN = ("weight.grad", "weight.grad.data", "weight.grad.view(-1)", "weight.grad.detach()[0]", "[weight.grad][0]")


def judged(**parts: str) -> tuple[bool, list[tuple[str, int]]]:
    """Whether under torch anything hangs on the clip, and what is reported of it."""
    pytest.importorskip("torch")
    with_defaults = {"before": "pass", "taken": "pass", "after": "pass", "end": "pass", "none": "True", **parts}
    ends = []
    for clip in (parts["clip"], "pass"):
        names: dict[str, Any] = {}
        exec(LOOKS.format(**{**with_defaults, "clip": clip}), names)
        ends.append(repr((names["seen"], [one.tolist() for one in names["model"].parameters()])))
    return ends[0] != ends[1], late(LOOKS.format(**with_defaults))


@pytest.mark.parametrize("none", ["True", "False"])
@pytest.mark.parametrize("clip", CLIPPING)
def test_a_clip_on_which_what_the_program_reads_hangs_is_of_use(clip: str, none: str) -> None:
    assert judged(clip=clip, none=none) == (
        False,
        [("gradients are clipped after the step: nothing uses what that changes", 16)],
    )
    for read in READS:
        for place in ({"after": read}, {"before": f"if step > 0:\n        {read}"}, {"end": read}):
            assert judged(clip=clip, none=none, **place) == (True, []), place
    for view in TAKEN:
        read = "seen.append(view.tolist())"
        for place in ({"after": read}, {"before": f"if step > 0:\n        {read}"}, {"end": read}):
            assert judged(clip=clip, none=none, taken=f"view = {view}", **place) == (True, []), (view, place)


CONDITIONS = (
    "step == 9", "step % 10 == 9", "step > 20", "(step + 1) % 10 == 0", "args.log", "step % args.every == 0", "FLAG",
    "FLAG and step == 9", "loss.item() > 5", "unknown(step)",
)  # fmt: skip
LOGS = (
    "print(model.weight.grad)", "seen.append(model.weight.grad.norm().item())", "report(step)",
    "for p in model.parameters(): print(p.grad.norm())", "torch.save(model.weight.grad, 'gradient.pt')",
)  # fmt: skip


@pytest.mark.parametrize("loop", ["range(40)", "range(1000)"])
@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_clip_is_of_use_where_a_condition_has_the_gradients_read(condition: str, loop: str) -> None:
    for log in LOGS:
        text = f"""\
import argparse
import torch
from torch import nn
from elsewhere import FLAG, unknown

parser = argparse.ArgumentParser()
parser.add_argument("--log", action="store_true")
parser.add_argument("--every", type=int, default=100)
args = parser.parse_args()
seen = []
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def train():
    for step in {loop}:
        loss = model(torch.randn(2, 3)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if {condition}:
            {log}

def report(step):
    {"print(model.weight.grad.norm())" if log.startswith("report") else "pass"}

train()
"""
        assert late(text) == [], log
    assert late(text.replace("torch.save(model.weight.grad,", "torch.save(model.weight,")) != []


ROUNDS = """
import torch
from torch import nn
from elsewhere import ready, parts

net = nn.Linear(8, 8)
optimizer = torch.optim.Adam(net.parameters())


def loss_of(x):
    return net(x).pow(2).mean() / 4


for step in range(3):
    for micro in {rounds}:
        {body}
    optimizer.step()
    {after}
"""
EACH = "optimizer.zero_grad(); loss_of(torch.randn(8, 8)).backward()"


@pytest.mark.parametrize(
    ("rounds", "body", "after", "told"),
    [
        ("range(4)", EACH, "", True),
        ("range(100)", EACH, "", True),
        ("parts", EACH, "", True),
        ("range(4)", "loss_of(torch.randn(8, 8)).backward()", "optimizer.zero_grad()", False),
        ("range(1)", EACH, "", False),
        ("range(4)", f"{EACH}; optimizer.step()", "", False),
        # It goes on until a round is good enough, and learns from that one.
        ("range(4)", f"{EACH}\\n        if ready(): break", "", False),
        ("range(4)", f"{EACH}\\n        print(net.weight.grad.norm())", "", False),
    ],
)
def test_what_all_rounds_but_the_last_compute_is_cleared(rounds: str, body: str, after: str, told: bool) -> None:
    report = check(from_text(ROUNDS.format(rounds=rounds, body=body, after=after), "program.py"))
    assert [one.code for one in report.findings] == (["TAPE404"] if told else [])


NO_STEP = """\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.Adam(model.parameters())
scaler = torch.amp.GradScaler("cuda")
for epoch in range(3):
    for step in range(4):
        loss = model(torch.randn(5, 4)).pow(2).mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.zero_grad()
"""
CLIP_IN_LOOP = "        nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        (CLIP_IN_LOOP, CLIP_IN_LOOP.replace("clip_grad_norm_", "clip_grad_value_")),
        ("        loss.backward()", "        scaler.scale(loss).backward()\n        scaler.unscale_(optimizer)"),
        ("        optimizer.zero_grad()", "        for one in model.parameters():\n            one.grad = None"),
        ("        optimizer.zero_grad()", "        if step % 2:\n            optimizer.zero_grad()"),
    ],
)
def test_gradients_are_clipped_for_a_step_that_never_comes(old: str, new: str) -> None:
    findings = check(from_text(NO_STEP.replace(old, new), "train.py")).findings
    assert [(one.code, one.span.line, one.certain) for one in findings] == [("TAPE404", 10, True)]
    assert findings[0].message.startswith("no step uses the gradients of ")
    if "one.grad = None" not in new:
        assert findings[0].help == "call `optimizer.step()` before the gradients are cleared"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # Somebody may measure how long a backward takes.
        (CLIP_IN_LOOP, ""),
        (CLIP_IN_LOOP, f"{CLIP_IN_LOOP}        print([one.grad.norm() for one in model.parameters()])\n"),
        (CLIP_IN_LOOP, f"{CLIP_IN_LOOP}        [one.data.sub_(0.1 * one.grad) for one in model.parameters()]\n"),
        # The norm is what is wanted.
        (CLIP_IN_LOOP, f"        norm = {CLIP_IN_LOOP.strip()}\n        print(norm.item())\n"),
        (CLIP_IN_LOOP, f"        print({CLIP_IN_LOOP.strip()})\n"),
        (CLIP_IN_LOOP, f"        norms = []\n        norms.append({CLIP_IN_LOOP.strip()}.item())\n"),
        (CLIP_IN_LOOP, CLIP_IN_LOOP.replace("1.0", "float('inf')")),
        (CLIP_IN_LOOP, CLIP_IN_LOOP.replace("1.0", "max_norm=torch.inf")),
        (
            CLIP_IN_LOOP,
            f"        if step % 2:\n            print({CLIP_IN_LOOP.strip()})\n        else:\n    {CLIP_IN_LOOP}",
        ),
        (CLIP_IN_LOOP, f"{CLIP_IN_LOOP}        optimizer.step()\n"),
        (CLIP_IN_LOOP, f"{CLIP_IN_LOOP}        if loss < 1:\n            optimizer.step()\n"),
        ("scaler = ", "from elsewhere import begin\nbegin(optimizer)\nscaler = "),
        ("scaler = ", "from elsewhere import Steps\nsteps = Steps(model)\nscaler = "),
        ("for epoch", "def run():\n  for epoch"),
        (CLIP_IN_LOOP, f"{CLIP_IN_LOOP}        from elsewhere import share; share(model)\n"),
    ],
)
def test_gradients_without_a_step_that_may_be_used(old: str, new: str) -> None:
    text = NO_STEP.replace(old, new)
    assert text != NO_STEP
    assert [one.code for one in check(from_text(text, "train.py")).findings if one.code == "TAPE404"] == []


HELPER = """\
def trained(model, optimizer):
    for step in range(3):
        model(torch.randn(5, 4)).pow(2).mean().backward()
        clip(model)
        optimizer.zero_grad()


def clip(model):
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)


trained(model, optimizer)
"""


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("", "", 12),
        ("        optimizer.zero_grad()", "        if step % 2:\n            optimizer.zero_grad()", 13),
        ("        loss = model", "        optimizer.zero_grad()\n        loss = model", 13),
        (NO_STEP[NO_STEP.index("for epoch") :], HELPER, 11),
        # The scaler makes the step; model and loop do not know what the optimizer is called.
        ("        loss.backward()", "        scaler.scale(loss).backward()\n        scaler.unscale_(optimizer)", 0),
        ("optimizer.zero_grad()", "model.zero_grad()", 0),
        ("optimizer = ", "other = torch.optim.SGD(model.parameters())\noptimizer = ", 0),
    ],
)
def test_the_step_that_never_comes_is_made(old: str, new: str, line: int) -> None:
    """Nothing else is offered: to clear nothing would make the gradients useless and the finding silent."""
    text = NO_STEP.replace(old, new)
    if "loss = model" in old:
        text = text.replace("1.0)\n        optimizer.zero_grad()", "1.0)")
    report = check(from_text(text, "train.py"))
    (finding,) = report.findings
    fixes = fixes_for(report, finding)
    assert [fix.applicability for fix in fixes] == ["unsafe"] * bool(line)
    for fix in fixes:
        lines = fixed(text, fix).splitlines()
        assert lines[line - 1].strip() == "optimizer.step()"
        assert len(lines) == len(text.splitlines()) + 1


LOST = """\
import torch
from torch import nn

torch.manual_seed(0)
seen = []


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.out = nn.GRUCell(4, 4), nn.Linear(4, 1)

    def forward(self, x):
        h, outs = torch.zeros(len(x), 4), []
        for t in range(x.size(1)):
            h = self.cell(x[:, t], h)
            outs.append(self.out(h))
        return {joined}


model = Net()
weight = model.cell.weight_hh
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    loss = model(torch.randn(8, 3, 4)[:, 1:]).pow(2).mean()
    loss.backward()
    {between}
    {clearing}
    optimizer.step()
"""
BETWEEN = (
    "pass",
    *CLIPPING,
    "nn.utils.clip_grad_value_(model.parameters(), 0.01)",
    "for p in model.parameters(): p.grad.mul_(0.5)",
    "seen.append(nn.utils.clip_grad_norm_(model.parameters(), 0.01).item())",
    "nn.utils.clip_grad_norm_(model.parameters(), 0.01); seen.append(weight.grad.sum().item())",
    "optimizer.step(); nn.utils.clip_grad_norm_(model.parameters(), 0.01)",
    "seen.extend(p.grad for p in model.parameters()); nn.utils.clip_grad_norm_(model.parameters(), 0.01)",
)


@pytest.mark.parametrize("joined", ["torch.stack(outs, 1)", "torch.cat(outs, 1)", "outs[-1]", "sum(outs)"])
@pytest.mark.parametrize("between", BETWEEN)
def test_what_is_clipped_and_cleared_is_lost(between: str, joined: str) -> None:
    torch = pytest.importorskip("torch")
    ends = []
    for clearing in (
        "optimizer.zero_grad()",
        "optimizer.zero_grad(set_to_none=False)",
        "if step % 2: model.zero_grad()",
    ):
        text = LOST.format(between=between, joined=joined, clearing=clearing)
        names: dict[str, Any] = {}
        exec(text, names)
        torch.manual_seed(0)
        made = names["Net"]().parameters()
        learns = any(one.ne(was).any() for one, was in zip(names["model"].parameters(), made))
        ends.append((bool(names["seen"] or learns), not any("cleared" in message for message, _ in late(text))))
    assert [quiet for _, quiet in ends] == [used for used, _ in ends]


_GIVEN = {
    "context": "with hidden.watch(x) as leaf:\n        BACK",
    "call": "leaf = hidden.leaf(x)\n    BACK",
    "one of two": "leaf, other = hidden.pair(x)\n    BACK",
    "attribute": "box = hidden.Box(x)\n    leaf = box.leaf\n    BACK",
    "next": "leaf = next(hidden.leaves(x))\n    BACK",
    "item": "leaf = hidden.leaves(x)[0]\n    BACK",
}
_READ = {
    "gradient": "seen = leaf.grad",
    "copy": "seen = leaf.grad.clone()",
    "by name": "seen = getattr(leaf, 'grad')",
    "by a function": "seen = take(leaf)",
}
_CLEARING = ("for p in net.parameters():\n        p.grad = None", "opt.zero_grad()")


@pytest.mark.parametrize("read", [*_READ, "nothing"])
@pytest.mark.parametrize("given", _GIVEN)
def test_the_gradient_of_what_hidden_code_has_made_is_used(given: str, read: str) -> None:
    """It may be a leaf of its own: saliency maps and attacks take the gradients of inputs, and clear the rest."""
    for clearing in _CLEARING:
        text = (
            "import hidden\nimport torch\nfrom torch import nn\n\n\ndef take(tensor):\n    return tensor.grad\n\n\n"
            "net = nn.Linear(3, 1)\nopt = torch.optim.Adam(net.parameters(), lr=0.1)\nx = torch.rand(4, 3)\n"
            f"for _ in range(5):\n    {_GIVEN[given].replace('BACK', 'net(leaf).sum().backward()')}\n"
            f"    {_READ.get(read, 'seen = 0.0')}\n    {clearing}\n"
            "    loss = net(x).sum() + (torch.as_tensor(seen) ** 2).sum()\n"
            "    opt.zero_grad()\n    loss.backward()\n    opt.step()\n"
        )
        found = [one.certain for one in check(from_text(text, "train.py")).findings if one.code == "TAPE404"]
        assert found == ([False] if read == "nothing" else []), text
