"""TAPE201 on tapes written by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tapecheck.check import check
from tapecheck.source import from_text, read_source
from tapecheck.tape import LoopEnd
from tests.interpret.truth import full

CODE = "TAPE201"
NEVER_WALKED = "TAPE302"
"""What is said of graphs that do not pile up, and that no backward ever walks."""


def total_of_losses(build: Any, *, backward: bool = True, count: int = 3, after: bool = False) -> Any:
    """`total += loss` in a loop, with a backward on each loss, on the total after the loop, or none."""
    w = build.leaf(1)
    total = None
    with build.loop(2) as begin:
        for _ in range(count):
            begin()
            loss = build.node(3, w, saves=[0], name="loss")
            if backward:
                build.backward(4, loss)
            total = build.node(5, *([total] if total else []), loss, op="AddBackward0", name="total")
            build.hold(5, "total", total)
    if after:
        build.backward(7, total)
    return build


def test_a_total_after_backward_is_an_info(build: Any, found: Any, remarks: Any) -> None:
    (finding,) = found(total_of_losses(build))
    assert (finding.code, finding.severity, finding.span.line, finding.certain) == (CODE, "info", 5, True)
    assert finding.message == "`total` keeps every iteration's graph alive"
    assert "at least 2 more graph nodes per iteration" in finding.notes[0]
    assert remarks(finding, "freed") == {4: "their saved tensors are freed here"}
    assert finding.facts.saved_tensors_kept is False
    assert finding.facts.nodes_per_iteration == 2


def test_without_any_backward_it_is_a_warning(build: Any, found: Any) -> None:
    (finding,) = found(total_of_losses(build, backward=False))
    assert finding.severity == "warning"
    assert "no backward frees them" in finding.notes[0]
    assert "torch.no_grad()" in finding.help


def test_where_the_loop_trains_it_is_not_advised_to_record_no_graph(build: Any, found: Any) -> None:
    w = build.leaf(1)
    kept: list[int] = []
    with build.loop(2, more="may") as begin:
        for _ in range(4):
            begin()
            build.backward(3, build.node(3, w, saves=[0]))
            kept.append(build.node(4, w, saves=[0]))
            build.hold(5, "outputs", *kept)
    (finding,) = found(build)
    assert finding.severity == "warning" and finding.help == "store `.detach()` of the value in `outputs`"


def test_losses_backwarded_after_the_loop_are_fine(build: Any, found: Any) -> None:
    assert found(total_of_losses(build, backward=False, after=True)) == []


def test_two_iterations_are_no_growth(build: Any, found: Any) -> None:
    assert found(total_of_losses(build, count=2)) == []


def test_another_way_that_backwards_after_the_loop_excuses(build: Any, another: Any, found: Any) -> None:
    total_of_losses(build, backward=False)
    assert found(build, total_of_losses(another(), backward=False, after=True)) == []


def listed(
    build: Any, *, bound: int | None = None, more: str = "may", forward: bool = False, holder: str = "outputs"
) -> list[int]:
    w = build.leaf(1)
    kept: list[int] = []
    with build.loop(2, more=more, forward=forward) as begin:
        for _ in range(4):
            begin()
            kept.append(build.node(3, w, saves=[0]))
            build.hold(4, holder, *kept, bound=bound)
    return kept


def test_a_list_of_outputs(build: Any, found: Any) -> None:
    listed(build)
    (finding,) = found(build)
    assert (finding.span.line, finding.severity, finding.facts.kind) == (4, "warning", "container")
    assert "`.detach()`" in finding.help


def test_a_small_window_is_bounded(build: Any, found: Any) -> None:
    listed(build, bound=3)
    assert [finding.code for finding in found(build)] == [NEVER_WALKED]


def test_a_window_that_the_whole_loop_never_fills_keeps_all(build: Any, found: Any) -> None:
    listed(build, bound=50, more="no")
    assert [finding.code for finding in found(build)] == [CODE]


def test_a_large_window_is_a_leak(build: Any, found: Any) -> None:
    listed(build, bound=10_000)
    assert [finding.code for finding in found(build)] == [CODE]


def test_a_loop_within_a_forward_pass(build: Any, found: Any) -> None:
    listed(build, forward=True)
    assert found(build) == []


def test_handed_to_an_unknown_caller_it_may_still_be_backwarded(build: Any, found: Any) -> None:
    kept = listed(build)
    build.escape(6, *kept)
    assert found(build) == []


def test_handed_out_after_a_backward_it_is_for_a_log(build: Any, found: Any) -> None:
    total_of_losses(build)
    build.escape(7, build._ids)
    assert [finding.code for finding in found(build)] == [CODE]


def test_one_value_overwritten_each_time(build: Any, found: Any) -> None:
    w = build.leaf(1)
    with build.loop(2) as begin:
        for _ in range(4):
            begin()
            build.hold(4, "self.last", build.node(3, w, saves=[0]))
    assert CODE not in [finding.code for finding in found(build)]


def test_a_list_that_is_emptied_now_and_then(build: Any, found: Any) -> None:
    w = build.leaf(1)
    kept: list[int] = []
    with build.loop(2) as begin:
        for _ in range(6):
            if begin() % 4 == 0:
                kept = []
            kept.append(build.node(3, w, saves=[0]))
            build.hold(4, "window", *kept)
    assert [finding.code for finding in found(build)] == [NEVER_WALKED]


def test_a_value_computed_from_the_holder_is_not_a_second_finding(build: Any, found: Any) -> None:
    w = build.leaf(1)
    total = None
    with build.loop(2) as begin:
        for _ in range(3):
            begin()
            loss = build.node(3, w, saves=[0])
            build.backward(4, loss)
            total = build.node(5, *([total] if total else []), loss, op="AddBackward0")
            average = build.node(6, total, op="DivBackward0", keeps="yes")
            build.hold(5, "meter.sum", total)
            build.hold(6, "meter.avg", average)
    (finding,) = found(build)
    assert finding.facts.holder == "meter.sum"


def test_the_first_of_two_assignments_carries(build: Any, found: Any) -> None:
    w = build.leaf(1, "x", parameter=False)
    x = w
    with build.loop(2) as begin:
        for _ in range(3):
            begin()
            x = build.node(3, x, op="AddBackward0", name="x")
            x = build.node(4, x, saves=[x], name="x")
            build.hold(4, "x", x)
    (finding,) = found(build)
    assert finding.span.line == 3
    assert [label.span.line for label in finding.labels if label.role == "kept"] == [4]


def test_a_loop_over_layers_is_one_forward_pass(build: Any, found: Any) -> None:
    layers = [build.leaf(1, f"layers.{number}.weight") for number in range(4)]
    x = None
    with build.loop(2) as begin:
        for weight in layers:
            begin()
            x = build.node(3, *([x] if x else []), weight, saves=[weight], name="x")
            build.hold(3, "x", x)
    assert found(build) == []


def test_a_failing_backward_tells_the_story_alone(build: Any, found: Any) -> None:
    w = build.leaf(1)
    state = w
    with build.loop(2) as begin:
        for _ in range(3):
            index = begin()
            state = build.node(3, w, state, saves=[0, w], name="h")
            number = build.backward(5, build.node(4, state, saves=[state], name="loss"))
            if index > 1:
                build.raised(5, number, caught=True)
            build.hold(3, "h", state)
    assert [finding.code for finding in found(build)] == ["TAPE101"]


def test_kept_for_a_constant_of_a_later_loss(build: Any, found: Any) -> None:
    kept = listed(build)
    stacked = build.node(6, *kept, op="StackBackward0")
    cut = build.cut(6, "detach", stacked)
    build.backward(8, build.node(7, build.leaf(1, "v"), saves=[0], cuts=[cut]))
    assert found(build) == []


@pytest.mark.parametrize("linked", ["may", "no"])
def test_nodes_that_may_not_exist_do_not_count(build: Any, found: Any, linked: str) -> None:
    kept: list[int] = []
    with build.loop(2) as begin:
        for _ in range(4):
            begin()
            kept.append(build.node(3, keeps="may", linked=linked))
            build.hold(4, "outputs", *kept)
    assert found(build) == []


def test_a_way_on_which_it_does_not_grow_makes_it_may(build: Any, another: Any, found: Any) -> None:
    listed(build)
    other = another()
    w = other.leaf(1)
    with other.loop(2) as begin:
        for _ in range(4):
            begin()
            other.hold(4, "outputs", other.node(3, w, saves=[0]))
    (finding,) = found(build, other)
    assert finding.certain is False
    assert finding.message == "possible leak: `outputs` keeps every iteration's graph alive"


def test_a_window_that_slides_is_bounded(build: Any, found: Any) -> None:
    w = build.leaf(1)
    kept: list[int] = []
    with build.loop(2) as begin:
        for _ in range(8):
            begin()
            kept = [*kept[-3:], build.node(3, w, saves=[0])]
            build.hold(4, "recent", *kept)
    assert [finding.code for finding in found(build)] == [NEVER_WALKED]


def test_a_list_of_totals_hangs_on_the_total(build: Any, found: Any) -> None:
    w = build.leaf(1)
    history: list[int] = []
    with build.loop(2) as begin:
        for _ in range(3):
            begin()
            total = None
            with build.loop(3) as inner:
                for _ in range(3):
                    inner()
                    loss = build.node(4, w, saves=[0])
                    build.backward(5, loss)
                    total = build.node(6, *([total] if total else []), loss, op="AddBackward0")
                    build.hold(6, "total", total)
            history.append(build.node(7, total, op="DivBackward0", keeps="yes"))
            build.hold(7, "history", *history)
    assert [finding.facts.holder for finding in found(build)] == ["total"]


@pytest.mark.parametrize(("more", "reported"), [("no", 0), ("may", 1)])
def test_a_window_that_its_last_step_backwards(build: Any, found: Any, more: Any, reported: int) -> None:
    w = build.leaf(1)
    total = None
    with build.loop(2, more=more) as begin:
        for step in range(4):
            begin()
            loss = build.node(3, w, saves=[0], name="loss")
            total = build.node(4, *([total] if total else []), loss, op="AddBackward0", name="total")
            if step == 3:
                build.backward(5, total)
            build.hold(4, "total", total)
    assert len([finding for finding in found(build) if finding.code == CODE]) == reported


PARTS = """\
import torch
from torch import nn

discriminator, optimizer = nn.Linear(3, 3), None


def train(loader, generator):
    for batch in loader:
        features, goals = [], []
        for step in range(8):
            features.append(discriminator(batch).tanh())
            goals.append(generator(batch) - features[step - 1])
        loss = torch.stack(goals).mean()
        USE
"""


@pytest.mark.parametrize(
    ("use", "codes"),
    [("torch.autograd.grad(loss, generator.parameters())", []), ("print(loss.item())", [CODE])],
)
def test_a_gradient_that_may_fail_walks_what_was_kept(use: str, codes: list[str]) -> None:
    found = check(from_text(PARTS.replace("USE", use), "program.py")).findings
    assert sorted({finding.code for finding in found if finding.code == CODE}) == codes


def test_a_short_call_before_a_long_one_excuses_nothing() -> None:
    program = (
        "import torch\nfrom torch import nn\nmodel = nn.Linear(3, 3)\n"
        "def run(count):\n    outs = []\n    for i in range(count):\n        outs.append(model(torch.randn(3)))\n"
        "    print(len(outs))\n"
    )
    for warm_up in ("", "run(1)\n", "run(2)\n", "run(5)\n"):
        report = check(from_text(f"{program}{warm_up}run(100000)\n", "program.py"))
        assert CODE in [finding.code for finding in report.findings], warm_up


TRUNCATED = """\
import torch
from torch import nn
from elsewhere import part, COUNT

cell = nn.GRUCell(3, 3)
state, total = torch.zeros(2, 3), 0
for step in range({count}):
    state = cell(torch.randn(2, 3), state)
    total = total + state.sum()
    if {when}:
        {first}
        total.backward()
        state, total = state.detach(), 0
{after}
"""
FAILING = "loss = cell(torch.randn(2, 3)).sum()\nloss.backward()\nloss.backward()"


@pytest.mark.parametrize("count", ["4", "COUNT", "part()"])
@pytest.mark.parametrize("when", ["part(step)", "step % 2 == 1", "COUNT > step", "torch.rand(1) > 0.5"])
@pytest.mark.parametrize(
    ("first", "after"), [("pass", "pass"), ("pass", FAILING), ("torch.ones(2).sum().backward()", "pass")]
)
def test_what_a_condition_cuts_back_is_not_certain_to_grow_whatever_fails_later(
    count: str, when: str, first: str, after: str
) -> None:
    text = TRUNCATED.format(count=count, when=when, first=first, after=after)
    found = check(from_text(text, "train.py")).findings
    assert [one.span.line for one in found if one.code == "TAPE201" and one.certain] == []
    assert any(one.severity == "error" for one in found) == (first != after)


def test_a_loop_that_differentiates_for_another_caller_is_not_told_to_record_nothing() -> None:
    text = """\
import torch
from torch import nn
net = nn.Linear(3, 2)
opt = torch.optim.SGD(net.parameters(), 0.1)
def evaluate(attack=False):
    total = 0
    for _ in range(4):
        x = torch.randn(5, 3)
        if attack:
            x.requires_grad_(True)
            x = x.detach() + torch.autograd.grad(net(x).sum(), x)[0].sign()
        total += net(x).mean()
    return total / 4
for epoch in range(3):
    net(torch.randn(5, 3)).pow(2).mean().backward()
    opt.step()
    opt.zero_grad()
    print(evaluate().item())
"""
    for calls in ("", "    print(evaluate(attack=True).item())\n"):
        (finding,) = (one for one in check(from_text(text + calls, "train.py")).findings if one.code == CODE)
        assert finding.help == "detach `total` before the next iteration uses it"


GATHERED = """\
import torch
from torch import nn

model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = [torch.randn(4, 3) for _ in range(12)]


def step():
    kept = []
    {gathered}
    {used}


for epoch in range(3):
    step()
"""
WAYS = {
    "a loop": "for x in data: kept.append(model(x).pow(2).mean())",
    "a comprehension": "kept = [model(x).pow(2).mean() for x in data]",
    "a generator": "kept = list(model(x).pow(2).mean() for x in data)",
    "a dict": "kept = {i: model(x).pow(2).mean() for i, x in enumerate(data)}; kept = list(kept.values())",
    "a map": "kept = list(map(lambda x: model(x).pow(2).mean(), data))",
}


@pytest.mark.parametrize("gathered", WAYS.values(), ids=WAYS.keys())
@pytest.mark.parametrize(
    "used",
    [
        "sum(kept).backward()",
        "torch.stack(kept).mean().backward()",
        "[one.backward() for one in kept]",
        "kept[0].backward()",
        "min(kept).backward()",
        "sorted(kept)[0].backward()",
        "best, *rest = sorted(kept); best.backward()",
        "kept[max(range(len(kept)), key=lambda i: kept[i].item())].backward()",
        "loss = torch.tensor(kept).mean(); loss.backward()",
        "loss = torch.tensor([one.item() for one in kept]).sum(); loss.backward()",
    ],
)
def test_what_is_gathered_to_be_learned_from_is_no_leak(gathered: str, used: str) -> None:
    """However it is gathered, and where the way from it to the loss is cut, too."""
    text = GATHERED.format(gathered=gathered, used=f"optimizer.zero_grad(); {used}; optimizer.step()")
    found = {finding.code for finding in check(from_text(text, "train.py")).findings}
    assert not found & {"TAPE201", "TAPE302"}


@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize("backward", [False, True])
def test_what_comes_behind_a_loop_that_a_limit_ended_was_not_seen(
    build: Any, found: Any, backward: bool, within: bool
) -> None:
    total_of_losses(build, backward=backward)
    if within:
        build.tape.events[:] = [event for event in build.tape.events if not isinstance(event, LoopEnd)]
    assert bool(found(build.end("budget"))) is backward


ADAPTED = """\
import torch
from torch import nn
from elsewhere import STEPS
net = nn.Linear(1, 1)
opt = torch.optim.Adam(net.parameters())
def adapt(x, y):
    fast = [p.detach().clone().requires_grad_() for p in net.parameters()]
    for i in range(STEPS):
        loss = (x @ fast[0] + fast[1] - y).pow(2).mean()
        grads = torch.autograd.grad(loss, fast, create_graph=True)
        fast = [w - 0.1 * g for w, g in zip(fast, grads)]
    return (x @ fast[0] + fast[1] - y).pow(2).mean()
for it in range(3):
    loss = adapt(torch.randn(8, 1), torch.randn(8, 1))
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


def test_steps_from_detached_copies_of_what_is_trained_are_kept_for_the_later_backward() -> None:
    report = check(from_text(ADAPTED, "program.py"))
    assert [one.code for one in report.findings] == ["TAPE402"]


MOVED_BY_HAND = """
import torch

start = torch.randn(4, 3, requires_grad=True)
for outer in range(4):
    moved = start
    for step in range(6):
        (slope,) = torch.autograd.grad(moved.pow(4).sum(), moved, create_graph=True)
        moved = moved - 0.01 * slope
    LATER
"""


@pytest.mark.parametrize(
    ("later", "codes"),
    [
        # The gradient at what the steps began with is what they were kept for, whoever applies it.
        ("(total,) = torch.autograd.grad(moved.pow(2).sum(), [start])", []),
        ("(total,) = torch.autograd.grad(moved.pow(2).sum(), start)", []),
        # At the last of them it is not.
        ("(total,) = torch.autograd.grad(moved.pow(2).sum(), [moved])", [CODE]),
        ("print(moved.sum().item())", [CODE]),
    ],
)
def test_a_gradient_at_the_leaf_that_steps_began_with_is_what_they_were_kept_for(later: str, codes: list[str]) -> None:
    findings = check(from_text(MOVED_BY_HAND.replace("LATER", later), "moved.py")).findings
    assert [finding.code for finding in findings if finding.code == CODE] == codes


METER = """
class Meter:
    def __init__(self):
        self.sum = 0.0

    def update(self, value):
        self.sum = self.sum + value
"""
METERED = """
import torch
from meter import Meter

net = torch.nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
meters = {"loss": Meter()}
for _ in range(20):
    loss = net(torch.randn(8, 3)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    meters["loss"].update(loss)
"""


def test_what_another_file_keeps_is_called_what_the_loop_can_call_it(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "meter.py").write_text(METER)
    (tmp_path / "train.py").write_text(METERED)
    (finding,) = check(read_source(str(tmp_path / "train.py"))).findings
    assert finding.message == "`meters['loss'].sum` keeps every iteration's graph alive"
    assert "meters['loss'].sum" in finding.help
    (stored,) = [label for label in finding.labels if label.role == "kept"]
    assert stored.message == "`self.sum` is stored for the next iteration"


OWN_CALL = """
import torch
from torch import nn


class Levels(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def METHOD(self, x):
        history = []
        for level in range(3):
            history.append(self.layer(x).softmax(-1))
        return history


net = Levels()
_ = USE
"""


@pytest.mark.parametrize(
    ("method", "use", "codes"),
    [
        ("forward", "net(torch.randn(4, 3))", []),
        ("__call__", "net(torch.randn(4, 3))", []),
        ("sample", "net.sample(torch.randn(4, 3))", ["TAPE201"]),
    ],
)
def test_what_a_module_gathers_when_it_is_called_is_one_graph(method: str, use: str, codes: list[str]) -> None:
    text = OWN_CALL.replace("METHOD", method).replace("USE", use)
    assert [finding.code for finding in check(from_text(text, "program.py")).findings] == codes


OVER_PARTS = """\
import torch
from torch import nn


def update(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    kept = []
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    total = 0
    for one in LOOP:
        TEXT
    return float(total), len(kept)
"""


@pytest.mark.parametrize(
    ("loop", "text", "told"),
    [
        ("model.parameters()", "total += (one - 1).norm() ** 2", 0),
        ("[*model.parameters()]", "kept.append((one - 1).norm())", 0),
        ("model.named_parameters()", "total += (one[1] - 1).norm() ** 2", 0),
        ("model.modules()", "kept.append(one(torch.ones(2)).sum())", 0),
        # There are as many as there are data.
        ("loader", "total += model(one[0]).sum()", 1),
    ],
)
def test_there_are_only_so_many_parameters_to_go_over(loop: str, text: str, told: int) -> None:
    report = check(from_text(OVER_PARTS.replace("LOOP", loop).replace("TEXT", text), "train.py"))
    assert [one.code for one in report.findings] == ["TAPE201"] * told


OVER_EPOCHS = """\
from torch import nn, optim
from unseen import read

model = nn.Linear(3, 4)
optimizer = optim.SGD(model.parameters(), lr=0.1)
inputs, targets = read()
for epoch in range(50):
    total = 0.0
    kept = []
    for index in range(len(inputs)):
        loss = nn.functional.mse_loss(model(inputs[index]), targets[index])
        TEXT
    STEP
"""


@pytest.mark.parametrize(
    ("text", "step", "told"),
    [
        # The next epoch's backward comes to the same data, not to what was kept of them.
        ("optimizer.zero_grad(); loss.backward(); optimizer.step(); total += loss", "print(total)", 1),
        ("optimizer.zero_grad(); loss.backward(); optimizer.step(); kept.append(loss)", "print(kept)", 1),
        ("total += loss", "optimizer.zero_grad(); total.backward(); optimizer.step()", 0),
        ("kept.append(loss)", "optimizer.zero_grad(); sum(kept).backward(); optimizer.step()", 0),
    ],
)
def test_data_that_come_again_are_no_graph_that_was_kept(text: str, step: str, told: int) -> None:
    report = check(from_text(OVER_EPOCHS.replace("TEXT", text).replace("STEP", step), "train.py"))
    assert [one.code for one in report.findings] == [CODE] * told


IN_GROUPS = """\
import torch
from torch import nn
from unseen import batches, every

model = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1))
optimizer = torch.optim.Adam(model.parameters())
total, kept, count = 0.0, [], 0
for x in batches:
    loss = model(x).pow(2).mean()
    total = total + loss
    kept.append(loss)
    count += 1
    if CONDITION:
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        total = 0.0
        RESET
print(sum(kept).item())
"""


@pytest.mark.parametrize(
    ("condition", "reset", "severity"),
    [
        *((f"count % {each} == 0", "", "info") for each in (2, 3, 4, 7, 50)),
        *((f"count == {each}", "count = 0", "info") for each in (2, 3, 4, 7)),
        ("len(kept) % 3 == 0", "", "info"),
        ("count % every == 0", "", "info"),
        # The first group alone is freed.
        ("count == 1", "", "warning"),
    ],
)
def test_what_is_walked_once_for_several_iterations_is_freed(condition: str, reset: str, severity: str) -> None:
    text = IN_GROUPS.replace("CONDITION", condition).replace("RESET", reset)
    report = check(from_text(text, "train.py"))
    told = {(one.code, one.severity) for one in report.findings if "kept" in one.message}
    assert told == {(CODE, severity)}


TWO_CALLS = """\
import torch
from torch import nn
from unseen import batches


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(3, 3)

    def scores(self, x):
        h, found = x, []
        for k in range(6):
            STEP
        return RESULT

    def forward(self, x):
        return self.scores(x)

    def decode(self, x):
        return self.scores(x).argmax(1)


net = Net()
optimizer = torch.optim.Adam(net.parameters())
for x in batches:
    loss = LOSS
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
for x in batches:
    print(net.decode(x))
"""


@pytest.mark.parametrize(
    ("step", "result"),
    [
        ("h = torch.tanh(self.one(h))", "h"),
        ("h = h + self.one(x).tanh()", "h"),
        ("found.append(self.one(x).tanh())", "sum(found)"),
    ],
)
@pytest.mark.parametrize(
    ("loss", "told"),
    [
        ("net(x).pow(2).mean()", NEVER_WALKED),
        ("net.scores(x).pow(2).mean()", NEVER_WALKED),
        ("net.one(x).pow(2).mean()", CODE),
    ],
)
def test_the_steps_of_what_another_call_learns_through_are_to_be_kept(
    step: str, result: str, loss: str, told: str
) -> None:
    text = TWO_CALLS.replace("STEP", step).replace("RESULT", result).replace("LOSS", loss)
    assert told in {one.code for one in check(from_text(text, "train.py")).findings}
    assert told == CODE or CODE not in {one.code for one in check(from_text(text, "train.py")).findings}


INNER = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call

net, rate = nn.Linear(3, 1), nn.Parameter(torch.tensor(0.1))
meta = torch.optim.Adam([*net.parameters(), rate])


def adapt(x, y, steps, second):
    fast = dict(net.named_parameters())
    for _ in range(steps):
        loss = F.mse_loss(functional_call(net, fast, (x,)), y)
        grads = torch.autograd.grad(loss, list(fast.values()), create_graph=second)
        fast = {name: p - rate * g for (name, p), g in zip(fast.items(), grads)}
    return fast


def attack(x, y, steps, second):
    fast = x
    for _ in range(steps):
        fast = fast.requires_grad_() if fast.is_leaf else fast
        (g,) = torch.autograd.grad(F.mse_loss(net(fast), y), fast, create_graph=second)
        fast = fast + 0.1 * g.sign()
    return {"weight": net.weight, "bias": net.bias + fast.mean()}


for step in range(6):
    x, y = torch.randn(5, 3), torch.randn(5, 1)
    TRAINED
    if step % 2:
        fast = INNER(x, y, 4, False)
        with torch.no_grad():
            print(F.mse_loss(functional_call(net, fast, (x,)), y))
"""
_LEARNED = "meta.zero_grad(); F.mse_loss(functional_call(net, INNER(x, y, 4, True), (x,)), y).backward(); meta.step()"


@pytest.mark.parametrize(
    ("inner", "trained", "told"),
    [
        ("adapt", _LEARNED, False),
        ("adapt", _LEARNED.replace("True", "False"), False),
        # Nobody learns through the steps, or they only search an input.
        ("adapt", "meta.zero_grad(); F.mse_loss(net(x), y).backward(); meta.step()", True),
        ("attack", _LEARNED.replace("True", "False"), True),
    ],
)
def test_the_steps_of_an_inner_loop_that_is_learned_through_are_to_be_kept(
    inner: str, trained: str, told: bool
) -> None:
    text = INNER.replace("TRAINED", trained).replace("INNER", inner)
    assert (CODE in {one.code for one in check(from_text(text, "train.py")).findings}) is told


_EPISODES = """\
import torch
from torch import nn

policy = nn.Linear(4, 2)
optimizer = torch.optim.Adam(policy.parameters())
kept = []


def act(x):
    choice = torch.distributions.Categorical(logits=policy(x))
    action = choice.sample()
    kept.append(STORED)
    return action.item()


def learn():
    terms = [USED for value in kept]
    loss = torch.stack(terms).sum().requires_grad_()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    EMPTIED


for episode in range(5):
    for step in range(20):
        act(torch.randn(4))
    learn()
"""


@pytest.mark.parametrize("emptied", ["kept.clear()", "del kept[:]", "pass"])
@pytest.mark.parametrize(
    "used", ["torch.tensor((-value).item())", "-value.detach()", "-value.data", "torch.tensor(float(-value))"]
)
def test_what_is_kept_for_a_loss_that_is_cut_from_it_is_one_mistake(used: str, emptied: str) -> None:
    """The repair of the cut is what lets go of the graphs: detached where it is kept, the cut would only move."""
    program = _EPISODES.replace("STORED", "choice.log_prob(action)").replace("USED", used).replace("EMPTIED", emptied)
    assert [one.code for one in check(from_text(program, "program.py")).findings] == ["TAPE402"]


_STACK = """\
import torch
from torch import nn

net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))
layers = list(net.children())


def widths(x):
    z, found = x, []
    LOOP
        z = LAYER(z)
        found.append(z.numel())
    return found


print(widths(torch.rand(1, 3, 8, 8)))
"""


@pytest.mark.parametrize(
    "loop, layer",
    [
        ("for i in range(len(layers)):", "layers[i]"),
        ("for i in range(4):", "net[i]"),
        ("for i in range(len(net)):", "net[i]"),
        ("for layer in net:", "layer"),
        ("for i, layer in enumerate(layers):", "layer"),
    ],
)
def test_layers_that_are_called_one_after_the_other_are_one_forward_pass(loop: str, layer: str) -> None:
    program = _STACK.replace("LOOP", loop).replace("LAYER", layer)
    assert [one.code for one in check(from_text(program, "program.py")).findings if one.code == "TAPE201"] == []


def test_one_layer_that_is_called_again_and_again_is_not() -> None:
    program = _STACK.replace("LOOP", "for i in range(9):").replace(
        "LAYER(z)", "net[3](z.view(1, -1)[:, :1].expand(1, 144))"
    )
    assert [one.code for one in check(from_text(program, "program.py")).findings] == ["TAPE201"]


POINTS = """\
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 5), nn.Tanh(), nn.Linear(5, 1))
{frozen}
points = []
for k in range(4):
    leaf = torch.linspace(k, k + 1, 9{made})
    points.append({kept})
slopes = []
for x in points:
    out = net(x)
    {asked}
    slopes.append(slope.detach())
"""
KEPT_POINTS = (
    "leaf.reshape(-1, 1)",
    "leaf.view(9, 1)",
    "leaf[:, None]",
    "leaf.reshape(-1, 1) * 2",
    "leaf.unsqueeze(1)",
)
ASKED = (
    "slope, = torch.autograd.grad(out.sum(), x)",
    "slope, = torch.autograd.grad(out, x, torch.ones_like(out), create_graph=True)",
    "first, = torch.autograd.grad(out.sum(), x, create_graph=True)\n    slope, = torch.autograd.grad(first.sum(), x)",
)


@pytest.mark.parametrize("kept", KEPT_POINTS)
@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("frozen", ["pass", "net.requires_grad_(False)"])
def test_points_that_gradients_are_taken_at_are_kept_for_it(kept: str, asked: str, frozen: str) -> None:
    program = POINTS.format(frozen=frozen, made=", requires_grad=True", kept=kept, asked=asked)
    assert not [one for one in check(from_text(program, "points.py")).findings if one.code == "TAPE201"]
    exec(program, {})
    without = POINTS.format(frozen=frozen, made=", requires_grad=True", kept=f"({kept}).detach()", asked=asked)
    with pytest.raises(RuntimeError, match="require grad"):
        exec(without, {})


def test_points_that_nothing_is_asked_of_keep_their_graphs() -> None:
    program = POINTS.format(
        frozen="pass", made=", requires_grad=True", kept="net(leaf.reshape(-1, 1))", asked="slope = x.sum()"
    )
    assert "TAPE201" in [one.code for one in check(from_text(program, "points.py")).findings]


@pytest.mark.parametrize(
    "log", ['{"train": {"loss": []}, "val": {"loss": []}}', "dict(train=dict(loss=[]), val=dict(loss=[]))"]
)
@pytest.mark.parametrize("phases", ['("train",)', '("train", "val")'])
def test_a_container_in_a_container_is_told_once(log: str, phases: str) -> None:
    program = f"""
net = nn.Linear(3, 1)
log = {log}
for epoch in range(3):
    for phase in {phases}:
        for i in range(3):
            loss = net(torch.randn(5, 3)).pow(2).mean()
            loss.backward()
            net.zero_grad()
            log[phase]["loss"].append(loss)
"""
    findings = check(from_text(full(program), "train.py")).findings
    kept = [one for one in findings if one.code == "TAPE201"]
    assert kept and {full(program).splitlines()[one.span.line - 1].strip() for one in kept} == {
        'log[phase]["loss"].append(loss)'
    }
