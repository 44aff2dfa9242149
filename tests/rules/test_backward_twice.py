"""TAPE101 on tapes written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tapecheck.check import check
from tapecheck.fixes import fixes_for
from tapecheck.source import from_text

CODE = "TAPE101"


def lines(finding: Any, role: str) -> list[int]:
    return [label.span.line for label in finding.labels if label.role == role]


def two_losses(build: Any, retain: str | None = None, keeps: str = "yes") -> Any:
    w = build.leaf(1)
    features = build.node(2, w, saves=[0], keeps=keeps, name="features")
    first = build.node(3, features, op="MeanBackward0", name="first")
    second = build.node(4, features, op="SumBackward0", name="second")
    build.backward(5, first, **({"retain": retain} if retain else {}))
    build.backward(6, second)
    return build


def test_two_losses_on_one_forward_pass(build: Any, found: Any, remarks: Any) -> None:
    (finding,) = found(two_losses(build))
    assert (finding.code, finding.severity, finding.span.line, finding.certain) == (CODE, "error", 6, True)
    assert finding.message == "second backward through the graph of `features`"
    assert remarks(finding, "path") == {2: "`features` belongs to both graphs"}
    assert "`(first + second).backward()`" in finding.help
    assert lines(finding, "built") == [2]
    assert lines(finding, "freed") == [5]
    assert finding.facts.kind == "shared"
    assert finding.facts.freed_roots == ("first",)


def test_retained_first_backward_is_fine(build: Any, found: Any) -> None:
    assert found(two_losses(build, retain="yes")) == []


def test_a_graph_that_holds_nothing_may_be_walked_twice(build: Any, found: Any) -> None:
    assert found(two_losses(build, keeps="no")) == []


def test_what_may_hold_nothing_is_not_reported(build: Any, found: Any) -> None:
    assert found(two_losses(build, keeps="may")) == []


def test_what_may_be_retained_is_not_reported(build: Any, found: Any) -> None:
    assert found(two_losses(build, retain="may"), code=CODE) == []


def test_two_models_share_nothing(build: Any, found: Any) -> None:
    for line in (1, 3):
        w = build.leaf(line)
        build.backward(line + 1, build.node(line, w, saves=[0]))
    assert found(build) == []


def carried(build: Any, cut: bool = False) -> Any:
    w = build.leaf(1)
    state = w
    with build.loop(2) as begin:
        for _ in range(2):
            begin()
            state = build.node(3, w, *([] if cut else [state]), saves=[0, w], name="hidden")
            loss = build.node(4, state, op="MseLossBackward0", saves=[state], name="loss")
            build.backward(5, loss)
    return build


def test_state_carried_over_iterations(build: Any, found: Any, remarks: Any) -> None:
    (finding,) = found(carried(build))
    assert finding.span.line == 5
    assert finding.message == "second backward through the graph of `hidden`"
    assert remarks(finding, "freed") == {5: "freed here on the previous iteration, needed again now"}
    assert remarks(finding, "carried") == {3: "`hidden` still refers to the graph of iteration 1"}
    assert "`hidden = hidden.detach()`" in finding.help
    assert lines(finding, "carried") == [3]
    assert lines(finding, "freed") == [5]
    assert finding.facts.kind == "carried"
    assert finding.facts.name == "hidden"


def test_state_cut_between_iterations(build: Any, found: Any) -> None:
    assert found(carried(build, cut=True)) == []


def test_the_holder_is_named_rather_than_a_local_name(build: Any, found: Any, remarks: Any) -> None:
    w = build.leaf(1)
    state = w
    with build.loop(2) as begin:
        for _ in range(3):
            index = begin()
            state = build.node(3, w, state, saves=[0, w], name="out")
            if index < 3:
                build.hold(4, "self.hidden", state)
            loss = build.node(5, state, op="MseLossBackward0", saves=[state], name="loss")
            if index > 1:
                build.backward(6, loss)
    (finding,) = found(build, code=CODE)
    assert finding.message == "second backward through the graph of `self.hidden`"
    assert remarks(finding, "carried") == {4: "`self.hidden` still refers to the graph of iteration 2"}


def test_losses_added_up_and_backwarded_each_time(build: Any, found: Any) -> None:
    w = build.leaf(1)
    total = None
    with build.loop(2) as begin:
        for _ in range(2):
            begin()
            loss = build.node(3, w, saves=[0], name="loss")
            total = build.node(4, *([total] if total else []), loss, op="AddBackward0", name="total")
            build.backward(5, total)
    (finding,) = found(build)
    assert finding.facts.summed is True
    assert "add up the losses in the loop and call backward once after it" in finding.help


def test_a_forward_pass_before_the_loop(build: Any, found: Any, remarks: Any) -> None:
    w, v = build.leaf(1), build.leaf(1, "v")
    features = build.node(2, w, saves=[0], name="features")
    with build.loop(3) as begin:
        for _ in range(2):
            begin()
            loss = build.node(4, features, v, saves=[features, v], name="loss")
            build.backward(5, loss)
    (finding,) = found(build)
    assert finding.facts.kind == "outside"
    assert finding.message == "second backward through the graph of `features`"
    assert remarks(finding, "path") == {2: "`features` is computed once, before the loop"}
    assert "if `features` on line 2 is meant to be a constant" in finding.help
    assert "compute it anew inside the loop" in finding.help


def test_detach_is_advised_where_the_first_loss_does_not_train_the_shared_part(build: Any, found: Any) -> None:
    g, d = build.leaf(1, "g"), build.leaf(1, "d")
    optimizer = build.optimizer(2, d)
    fake = build.node(3, g, saves=[0, g], name="fake")
    d_loss = build.node(4, fake, d, saves=[fake, d], name="d_loss")
    build.backward(5, d_loss)
    build.step(6, optimizer)
    g_loss = build.node(7, fake, d, saves=[fake, d], name="g_loss")
    build.backward(8, g_loss)
    (finding,) = found(build)
    assert finding.facts.detach_first is True
    assert "`fake.detach()`" in finding.help


def test_one_loss_backwarded_twice(build: Any, found: Any) -> None:
    w = build.leaf(1)
    loss = build.node(2, w, saves=[0], name="loss")
    build.backward(3, loss)
    build.backward(4, loss)
    (finding,) = found(build)
    assert finding.facts.kind == "same"
    assert "pass `retain_graph=True` to the one on line 3" in finding.help


def test_a_way_that_passes_makes_it_may(build: Any, another: Any, found: Any) -> None:
    build.decide(4, "first", True)
    two_losses(build)
    other = another()
    other.decide(4, "first", False)
    two_losses(other, retain="yes")
    (finding,) = found(build, other, code=CODE)
    assert finding.certain is False
    assert finding.message == "possible second backward through the graph of `features`"
    assert lines(finding, "path") == [2]
    assert lines(finding, "condition") == [4]


def test_several_tapes_make_one_finding(build: Any, another: Any, found: Any) -> None:
    findings = found(two_losses(build), two_losses(another()))
    assert len(findings) == 1
    assert findings[0].certain is True


def test_a_swallowed_exception_is_said(build: Any, found: Any) -> None:
    two_losses(build)
    build.raised(6, backward=2, caught=True)
    (finding,) = found(build)
    assert finding.notes == ("the exception is swallowed: this step is silently skipped",)


LAST = {
    "if": (
        "    for i, part in enumerate(parts, 1):\n"
        "        if i < len(parts):\n            grad(part, w, retain_graph=True)\n"
        "        else:\n            grad(part, w)\n"
    ),
    "argument": "    for i, part in enumerate(parts):\n        grad(part, w, retain_graph=i != len(parts) - 1)\n",
    "comprehension": "    return [grad(part, w, retain_graph=i < len(parts)) for i, part in enumerate(parts, 1)]\n",
    "before": (
        "    last = len(parts) - 1\n"
        "    for i, part in enumerate(parts):\n        grad(part, w, retain_graph=i < last)\n"
    ),
}


ROWS = """\
import torch
from torch.autograd import grad

w = torch.ones(3, 4, requires_grad=True)


def rows(x):
    parts = (x @ w).tanh().sum(1).unbind()
"""


@pytest.mark.parametrize("made", ["unbind()", "split(1)", "chunk(len(x))"])
@pytest.mark.parametrize("way", LAST)
def test_parts_of_a_tensor_of_which_the_last_frees_the_graph(way: str, made: str) -> None:
    text = ROWS.replace("unbind()", made) + LAST[way]
    assert check(from_text(text, "train.py")).findings == []


def test_parts_of_a_tensor_of_which_the_first_frees_the_graph() -> None:
    text = ROWS + LAST["before"].replace("i < last", "i > 0")
    (finding,) = check(from_text(text, "train.py")).findings
    assert (finding.code, finding.span.line) == ("TAPE101", 11)


CHOSEN = """\
import torch
from torch.autograd import grad

w = torch.ones(3, 4, requires_grad=True)


def rows(xs, last, batches):
    loss = (xs @ w).tanh().sum()
    for i, x in enumerate(xs):
        if CONDITION:
            grad(loss, w, retain_graph=True)
        else:
            grad(loss, w)
"""


@pytest.mark.parametrize("condition", ["i < last - 1", "i != last", "batches.more()", "not x.is_last"])
def test_a_condition_nobody_knows_may_be_there_for_the_last_iteration(condition: str) -> None:
    assert check(from_text(CHOSEN.replace("CONDITION", condition), "train.py")).findings == []


def test_a_condition_whose_answers_are_known_is_there_for_nothing_else() -> None:
    (finding,) = check(from_text(CHOSEN.replace("CONDITION", "i == 0"), "train.py")).findings
    assert (finding.code, finding.span.line) == ("TAPE101", 13)


def test_a_call_that_retains_beside_the_one_that_fails_excuses_nothing() -> None:
    text = CHOSEN.replace("        if CONDITION:\n    ", "").replace("        else:\n    ", "")
    (finding,) = check(from_text(text, "train.py")).findings
    assert (finding.code, finding.span.line) == ("TAPE101", 10)


def test_a_flag_that_is_one_for_all_iterations_may_be_false() -> None:
    (finding,) = check(from_text(CHOSEN.replace("CONDITION", "last"), "train.py")).findings
    assert (finding.code, finding.span.line) == ("TAPE101", 13)


SECOND = """\
import torch

w = torch.ones(3, requires_grad=True)
x = torch.ones(3, requires_grad=True)
u_x = torch.autograd.grad((w * x).tanh().sum(), x, create_graph=True)[0]
u_xx = torch.autograd.grad(u_x.sum(), x)[0]
loss = (USED + u_x).sum()
loss.backward()
"""


@pytest.mark.parametrize(
    ("used", "wanted"),
    [("u_xx", "create_graph"), ("w * u_xx", "create_graph"), ("2 * u_xx.detach()", "retain_graph")],
)
def test_a_gradient_that_the_loss_is_made_of_wants_a_graph(used: str, wanted: str) -> None:
    report = check(from_text(SECOND.replace("USED", used), "train.py"))
    (finding,) = report.findings
    assert (finding.code, finding.span.line, lines(finding, "freed")) == ("TAPE101", 8, [6])
    assert finding.help.startswith(f"pass `{wanted}=True` to the `autograd.grad` on line 6")
    fixes = fixes_for(report, finding)
    assert f"{wanted}=True" in fixes[0].edits[0].content
    assert sum(fix.applicability == "safe" for fix in fixes) == 1
    assert not any("GradientBackward" in label.message for label in finding.labels)


ACTOR_CRITIC = """\
import torch
from torch import nn

actor, critic = nn.Linear(4, 2), nn.Linear(4, 1)
{made}
for step in range(3):
    state = torch.randn(8, 4)
    error = 1 - critic(state)
    critic_loss = error.pow(2).mean()
    first.zero_grad()
    critic_loss.backward()
    first.step()
    actor_loss = (actor(state) * error).mean()
    second.zero_grad()
    actor_loss.backward()
    second.step()
"""


@pytest.mark.parametrize(
    ("made", "detached"),
    [
        ("first, second = (torch.optim.Adam(net.parameters()) for net in (critic, actor))", True),
        ("first = second = torch.optim.Adam([*actor.parameters(), *critic.parameters()])", False),
    ],
)
def test_what_has_had_its_step_is_detached_for_the_second_loss(made: str, detached: bool) -> None:
    """Added up, the losses would train the critic on the actor's loss as well."""
    [finding] = check(from_text(ACTOR_CRITIC.format(made=made), "train.py")).findings
    assert finding.code == "TAPE101"
    assert ("give this loss `error.detach()`" in (finding.help or "")) is detached
    assert ("add the losses" in (finding.help or "")) is not detached


GATHERED = """\
import torch
from torch import nn

net, kept = nn.Linear(4, 1), KEPT
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(4):
    value = net(torch.randn(1, 4)).exp()
    GATHERS
    loss = LOSS
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


@pytest.mark.parametrize(
    ("kept", "gathers", "loss"),
    [
        ("[]", "kept.append(value)", "torch.stack(kept)[:1].sum()"),
        ("[]", "kept += [value]", "torch.cat(kept)[:1].sum()"),
        ("torch.zeros(0, 1)", "kept = torch.cat([kept, value])", "kept[:1].sum()"),
    ],
)
def test_what_is_gathered_over_iterations_is_not_safely_detached(kept: str, gathers: str, loss: str) -> None:
    # The part that the loss takes of it is old from the second iteration on: nothing is learned, and nothing raises.
    text = GATHERED.replace("KEPT", kept).replace("GATHERS", gathers).replace("LOSS", loss)
    report = check(from_text(text, "train.py"))
    (finding,) = report.findings
    assert finding.code == "TAPE101"
    assert not [fix.title for fix in fixes_for(report, finding) if fix.applicability == "safe"]


def test_a_state_that_is_stored_anew_is_safely_detached() -> None:
    text = GATHERED.replace("KEPT", "torch.zeros(1, 4)").replace(
        "net(torch.randn(1, 4))", "net(torch.randn(1, 4) + kept)"
    )
    text = text.replace("GATHERS", "kept = value").replace("LOSS", "kept.sum()")
    report = check(from_text(text, "train.py"))
    (finding,) = report.findings
    assert any(fix.applicability == "safe" and "etach" in fix.title for fix in fixes_for(report, finding))


HANDED_BACK = """\
class Agent:
    def learn(self, states, actions):
        for mine, theirs in zip(self.target.parameters(), self.critic.parameters()):
            mine.data.copy_(theirs.data)
        first, second = self.critic(states, actions)
        TEXT
"""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        # Two critics of one class that nobody can see, or two heads: what they share is not known.
        ("(first - 1).sum().backward(); (second - 1).sum().backward()", 0),
        ("(first - 1).sum().backward(); (first + second).sum().backward()", 1),
        ("(first - 1).sum().backward(); (first - 2).sum().backward()", 1),
    ],
)
def test_values_of_a_hidden_model_may_have_graphs_of_their_own(text: str, told: int) -> None:
    report = check(from_text(HANDED_BACK.replace("TEXT", text), "train.py"))
    assert [one.code for one in report.findings] == ["TAPE101"] * told


RENEWED = """\
import torch
w = torch.ones(3, requires_grad=True)
def run(flag):
    hidden = w.exp()
    loss = hidden.sum()
    BEFORE
    if flag:
        SIDE
    loss.backward()
run(FLAG)
"""
BEFORE = ("loss.backward()", "loss.backward(retain_graph=True)", "hidden.mean().backward()", "(w * 2).sum().backward()")
SIDES = (
    "loss = w.exp().sum()",
    "loss = hidden.mean()",
    "loss = w.sum()",
    "loss = loss + w.sum()",
    "hidden = w.exp(); loss = hidden.abs().sum()",
    "loss = w.detach().requires_grad_().sum()",
    "pass",
)


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("side", SIDES)
def test_a_loss_that_a_condition_renews_may_be_the_old_one(before: str, side: str) -> None:
    torch = pytest.importorskip("torch")
    text = RENEWED.replace("BEFORE", before).replace("SIDE", side)
    raises = []
    for flag in ("True", "False"):
        try:
            exec(text.replace("FLAG", flag), {"torch": torch})
            raises.append(False)
        except RuntimeError:
            raises.append(True)
    for asked in ("len(open('data').read()) > 3", "torch.rand(1) > 0.5", "flag"):
        hidden = text.replace("FLAG", asked).replace("import torch", "import torch\nfrom elsewhere import flag", 1)
        told = [one.certain for one in check(from_text(hidden, "train.py")).findings if one.code == CODE]
        assert told == ([all(raises)] if any(raises) else []), asked
