"""TAPE407: terms of a loss that train nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tapecheck.check import check
from tapecheck.fixes import fixes_for
from tapecheck.source import from_text

PROGRAM = """\
import torch
from torch import nn

model, other = nn.Linear(4, 3), nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
second = torch.optim.SGD(other.parameters(), lr=0.1)
for step in range(4):
    out = model(torch.randn(6, 4))
    fit = out.pow(2).mean()
    term = other(out.detach()).mean()
    loss = fit + 0.5 * term
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    second.zero_grad()
    other(out.detach()).pow(2).mean().backward()
    second.step()
"""
TERM, SUM = "term = other(out.detach()).mean()", "loss = fit + 0.5 * term"
LINE = 11


def found(*edits: tuple[str, str]) -> list[tuple[str, int, str]]:
    text = PROGRAM
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    findings = check(from_text(text, "train.py")).findings
    return [(each.code, each.span.line, each.severity) for each in findings if each.code == "TAPE407"]


def test_a_term_that_reaches_another_optimizer_and_is_cleared_there() -> None:
    assert found() == [("TAPE407", LINE, "warning")]


@pytest.mark.parametrize(
    "sum_",
    ["loss = fit - term", "loss = (term + fit) / 2", "loss = sum([fit, term])", "loss = -(-fit - (1 - term))",
     "loss = 0.5 * (fit + term) + out.abs().mean()", "loss = fit\n    loss += term"],
)  # fmt: skip
def test_forms_of_sums(sum_: str) -> None:
    assert [code for code, _, _ in found((SUM, sum_))] == ["TAPE407"]


@pytest.mark.parametrize(
    "edits",
    [
        [("other(out.detach()).mean()\n", "other(out).mean()\n")],
        [("    second.zero_grad()\n", "")],
        [("    second.zero_grad()\n", "    print(other.weight.grad.norm())\n    second.zero_grad()\n")],
        [("    second.step()\n", "")],
        [("    loss.backward()", "    loss = loss.clamp(min=0)\n    loss.backward()")],
        [("    loss.backward()", "    torch.autograd.backward(fit)")],
        [(TERM, "term = unknown(out)"), ("import torch\n", "import torch\nfrom elsewhere import unknown\n")],
        [(TERM, "term = other(torch.randn(2, 3)).mean()"), ("loss.backward()", "loss.backward()\n    second.step()")],
        [(TERM, "term = 3.0")],
        [(TERM, "term = torch.ones(())")],
    ],
)  # fmt: skip
def test_what_has_an_effect_or_may(edits: list[tuple[str, str]]) -> None:
    assert found(*edits) == []


@pytest.mark.parametrize(
    ("term", "severity"),
    [
        ("term = out.pow(2).mean().item()", "warning"),
        ("term = (out.argmax(1) == 0).float().mean()", "warning"),
        ("with torch.no_grad():\n        term = model.weight.pow(2).sum()", "warning"),
        ("term = torch.tensor([row.sum() for row in out]).mean()", "warning"),
        ("term = out.abs().mean().detach()", "info"),
    ],
)
def test_constants_that_were_cut_from_what_is_trained(term: str, severity: str) -> None:
    assert [(code, level) for code, _, level in found((TERM, term))] == [("TAPE407", severity)]


def test_a_constant_is_told_by_its_own_name() -> None:
    text = PROGRAM.replace(TERM, "with torch.no_grad():\n        term = model.weight.pow(2).sum()")
    (finding,) = [each for each in check(from_text(text, "train.py")).findings if each.code == "TAPE407"]
    assert finding.message == "`term` in `loss` has no effect on what its step trains"


def test_detached_where_it_is_added_it_is_meant_as_a_constant() -> None:
    assert found((SUM, "loss = fit + 0.1 * out.abs().mean().detach()")) == []


def test_a_penalty_without_create_graph_is_another_rule() -> None:
    term = "term = torch.autograd.grad(out.sum(), model.weight, retain_graph=True)[0].pow(2).sum()"
    assert found((TERM, term)) == []


def test_parameters_that_are_cut_off_from_every_loss_are_another_rule() -> None:
    text = PROGRAM.replace("fit = out.pow(2).mean()", "fit = extra(torch.ones(2, 4)).mean()")
    text = text.replace("other(out.detach()).pow(2).mean().backward()", "other(torch.ones(2, 3)).mean().backward()")
    text = text.replace("model, other", "extra = nn.Linear(4, 1)\nmodel, other")
    text = text.replace("SGD(model.parameters(), lr", "SGD([*model.parameters(), *extra.parameters()], lr")
    assert {each.code for each in check(from_text(text, "train.py")).findings} == {"TAPE402"}


def test_the_fix_takes_the_cut_out() -> None:
    report = check(from_text(PROGRAM, "train.py"))
    (finding,) = [each for each in report.findings if each.code == "TAPE407"]
    (fix,) = fixes_for(report, finding)
    assert fix.title == "Take out `.detach()` on line 10: gradients flow again"


OTHER = "the gradients it gives to other parameters are cleared before their own step"
NONE = "it gives gradients to parameters that are in no optimizer: `teacher.weight` and `teacher.bias`"


@pytest.mark.parametrize(
    ("term", "notes"),
    [
        ("other(out.detach())", (OTHER,)),
        ("teacher(out.detach())", (NONE,)),
        ("teacher(other(out.detach()).expand(6, 3))", (OTHER, NONE)),
    ],
)
def test_what_becomes_of_the_gradients_that_a_term_gives(term: str, notes: tuple[str, ...]) -> None:
    text = PROGRAM.replace("model, other", "teacher = nn.Linear(3, 3)\nmodel, other")
    text = text.replace(TERM, f"term = {term}.mean()")
    (finding,) = [each for each in check(from_text(text, "train.py")).findings if each.code == "TAPE407"]
    assert finding.notes == notes


@pytest.mark.parametrize(
    ("beside", "told"), [("target * model(torch.randn(6, 4)).log_softmax(1)", 0), ("out.log_softmax(1)", 1)]
)
def test_the_entropy_of_a_detached_target_is_a_constant_of_the_divergence(beside: str, told: int) -> None:
    cut = "target = out.softmax(1).detach()\n    fit = out.pow(2).mean()"
    term = f"term = (target * target.log()).sum() - ({beside}).sum()"
    assert len(found(("fit = out.pow(2).mean()", cut), (TERM, term))) == told


LATE = """\
import torch
from torch import nn

model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
kept = []
for step in range(4):
    loss = model(torch.randn(6, 4)).pow(2).mean()
    penalty = model.weight.pow(2).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    loss = loss + 0.1 * penalty
    print(loss.item())
"""
ADDED = "    loss = loss + 0.1 * penalty\n"


def too_late(text: str) -> list[tuple[str, int, str]]:
    findings = check(from_text(text, "train.py")).findings
    return [(each.message, each.span.line, each.severity) for each in findings if each.code == "TAPE407"]


@pytest.mark.parametrize("added", [ADDED, "    loss += penalty\n", "    if step != 1:\n        loss -= penalty\n"])
def test_a_term_that_is_added_after_the_backward(added: str) -> None:
    (found,) = too_late(LATE.replace(ADDED, added))
    assert found[0].endswith("`penalty` is added to `loss` after its backward") and found[2] == "info"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    loss.backward()\n", ADDED + "    loss.backward()\n"),
        (ADDED, ADDED + "    penalty.backward()\n"),
        (ADDED, ADDED + "    kept.append(loss)\nsum(kept).backward()\n"),
        (ADDED, "    with torch.no_grad():\n    " + ADDED),
        (ADDED, ADDED.replace("penalty", "penalty.detach()")),
        (ADDED, ADDED + "    unknown(loss)\n"),
        (ADDED, ADDED.replace("loss = ", "model.loss = ")),
        ("model.weight.pow(2).sum()", "torch.ones((), requires_grad=True) * 2"),
        ("loss.backward()\n", "loss.backward(retain_graph=True)\n    (loss + penalty).backward()\n"),
        (ADDED, ""),
    ],
)
def test_terms_that_are_walked_or_kept(old: str, new: str) -> None:
    text = LATE.replace(old, new).replace("import torch\n", "import torch\nfrom elsewhere import unknown\n", 1)
    assert too_late(text) == []


LEFT_OUT = """\
import torch
from torch import nn

net_a, net_b = nn.Linear(4, 1), nn.Linear(4, 1)
made = nn.Linear(4, 4)
others = torch.optim.SGD(made.parameters(), lr=0.1)
optimizer = torch.optim.SGD(net_a.parameters(), lr=0.1)


def term(net, x):
    return net(x).pow(2).mean()


for step in range(4):
    x = made(torch.randn(8, 4))
    loss = LOSS
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    "loss",
    [
        "term(net_a, x.detach()) + term(net_b, x.detach())",
        "net_a(x.detach()).mean() + net_b(x.detach()).pow(2).mean()",
    ],
)
def test_a_network_that_no_optimizer_has_is_named_and_no_cut_is_blamed(loss: str) -> None:
    [finding] = check(from_text(LEFT_OUT.replace("LOSS", loss), "train.py")).findings
    assert (finding.code, finding.severity) == ("TAPE407", "warning")
    assert "`net_b.weight` and `net_b.bias`" in finding.notes[0] and "optimizer" in finding.help
    assert not any(label.role == "cut" for label in finding.labels)


def test_a_term_that_is_computed_of_what_the_step_trains_is_cut_all_the_same() -> None:
    text = LEFT_OUT.replace("made(torch.randn(8, 4))", "torch.randn(8, 4)")
    loss = "term(net_a, x) + (net_a(x).detach() - net_b(x)).pow(2).mean()"
    [finding] = check(from_text(text.replace("LOSS", loss), "train.py")).findings
    assert finding.code == "TAPE407" and any(label.role == "cut" for label in finding.labels)


_PENALTIES = {
    "none": "",
    "of the scores by the critic": (
        "    grads = torch.autograd.grad(scores, critic.parameters(), create_graph=True)\n"
        "    loss = loss + 0.1 * sum(g.pow(2).sum() for g in grads)\n"
    ),
    "of the scores by what is made": (
        "    (grad,) = torch.autograd.grad(scores, fake, create_graph=True)\n    loss = loss + grad.norm()\n"
    ),
    "of another loss": (
        "    grads = torch.autograd.grad(critic(fake).exp().sum(), critic.parameters(), create_graph=True)\n"
        "    loss = loss + 0.1 * sum(g.pow(2).sum() for g in grads)\n"
    ),
}
_SCORED = """\
import torch
from torch import nn

torch.manual_seed(0)
maker = nn.Linear(2, 3)
critic = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
made = torch.optim.SGD(maker.parameters(), lr=0.1)
judged = torch.optim.SGD(critic.parameters(), lr=0.1)
for step in range(3):
    noise, data = torch.randn(8, 2), torch.randn(8, 3)
    judged.zero_grad()
    (critic(maker(noise).detach()) - critic(data)).mean().backward()
    judged.step()
    fake = maker(noise)
    scores = critic(fake).mean() + TERM
    loss = scores
PENALTY    made.zero_grad()
    loss.backward()
    made.step()
"""


@pytest.mark.parametrize(
    "term", ["critic(data).sigmoid().mean()", "critic[0].weight.pow(2).sum()", "fake.abs().mean()"]
)
@pytest.mark.parametrize("penalty", _PENALTIES)
def test_a_term_has_no_effect_where_torch_learns_the_same_without_it(term: str, penalty: str) -> None:
    torch = pytest.importorskip("torch")
    program = _SCORED.replace("PENALTY", _PENALTIES[penalty])

    def learned(added: str) -> list[object]:
        run: dict[str, object] = {}
        exec(program.replace("TERM", added), run)
        return [one.detach() for one in run["maker"].parameters()]  # type: ignore[attr-defined]

    pairs = zip(learned(term), learned("0 * data.sum()"), strict=True)
    same = all(torch.equal(one, other) for one, other in pairs)
    found = check(from_text(program.replace("TERM", term), "program.py")).findings
    assert [one.code for one in found if one.code == "TAPE407"] == (["TAPE407"] if same else [])


@pytest.mark.parametrize("created", ["", "create_graph=True", "retain_graph=True, create_graph=True"])
def test_a_constant_has_no_effect_though_gradients_have_a_graph(created: str) -> None:
    term = "with torch.no_grad():\n        term = model.weight.pow(2).sum()"
    assert [code for code, *_ in found((TERM, term), ("    loss.backward()", f"    loss.backward({created})"))] == [
        "TAPE407"
    ]


def test_a_term_may_train_by_its_gradients_where_they_have_a_graph() -> None:
    assert found(("    loss.backward()", "    loss.backward(create_graph=True)")) == []


_UNPACKED = """\
import torch
from torch import nn


def losses(out):
    return out.pow(2).mean(), out.argmax().float()


model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    TARGETS = losses(model(torch.randn(6, 4)))
    loss = fit + term
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("targets", "expected"), [("fit, term", [13]), ("fit, term, more", []), ("fit, term, *more", [13])]
)
def test_nothing_is_said_of_parts_that_an_unpacking_cannot_give(targets: str, expected: list[int]) -> None:
    report = check(from_text(_UNPACKED.replace("TARGETS", targets), "train.py"))
    assert [one.span.line for one in report.findings if one.code == "TAPE407"] == expected


EARLY = """\
import torch
from torch import nn

models = nn.Linear(4, 3), nn.Linear(4, 2), nn.Linear(4, 1), nn.Linear(4, 5)
optimizer = torch.optim.SGD([one.weight for one in models], lr=0.1)
for model in models:
    loss = model(torch.randn(6, 4)).pow(2).mean()
    penalty = model.weight.pow(2).sum()
    BEFORE
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    AFTER
    print(total.item())
"""


@pytest.mark.parametrize("made", ["loss + 0.1 * penalty", "loss - penalty", "penalty + loss"])
def test_a_sum_that_is_there_before_the_backward_is_another_loss(made: str) -> None:
    early = EARLY.replace("BEFORE", f"total = {made}").replace("AFTER", "")
    late = EARLY.replace("BEFORE", "").replace("AFTER", f"total = {made}")
    assert too_late(early) == []
    assert [line for _, line, _ in too_late(late)] == [13]


BY_HAND = """\
import torch
from torch import nn
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
past = [(None, torch.zeros(4, 4, requires_grad=True) * 1)]
for step in range(8):
    before = past[-1][1].detach().requires_grad_()
    now = net(before) + {term}
    past.append((before, now))
    if step % 2 == 0:
        optimizer.zero_grad()
        now.mean().backward(retain_graph=True)
        past[-2][1].backward({gradient})
        optimizer.step()
learned = [p.detach().clone() for p in net.parameters()]
"""


@pytest.mark.parametrize(
    ("gradient", "told"), [("before.grad", False), ("before.grad.clone()", False), ("torch.ones(4, 4)", True)]
)
def test_a_gradient_that_is_walked_on_by_hand_is_an_effect_in_another_iteration(gradient: str, *, told: bool) -> None:
    torch = pytest.importorskip("torch")
    learned = []
    for term in ("before", "before.detach()"):
        names: dict[str, Any] = {}
        exec(BY_HAND.format(term=term, gradient=gradient), names)
        learned.append(names["learned"])
    assert told == all(map(torch.equal, *learned))
    found = check(from_text(BY_HAND.format(term="before", gradient=gradient), "train.py")).findings
    assert [one.code for one in found if one.code == "TAPE407"] == ["TAPE407"] * told


UNDER_NO_GRAD = """\
import torch
from torch import nn

model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    x = torch.randn(6, 4)
    with torch.no_grad():
        scores = model(x).softmax(1)
        {names}
    loss = (model(x).sum(1) - {target}).pow(2).mean() - 0.01 * {term}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("names", "target", "term"),
    [
        ("label, entropy = scores.argmax(1).float() + scores.sum(1), scores.log().sum(1)", "label", "entropy.mean()"),
        ("entropy, label = scores.log().sum(1), scores.sum(1)", "label", "entropy.mean()"),
        ("entropy = scores.log().sum(1)", "scores.sum(1)", "entropy.mean()"),
        ("best = scores.amax(1)", "best", "scores.log().mean()"),
    ],
)
def test_no_other_value_is_called_the_term(names: str, target: str, term: str) -> None:
    """What is computed under one no_grad is told apart by no tape: a name is said only where there is one."""
    text = UNDER_NO_GRAD.format(names=names, target=target, term=term)
    (message,) = (one.message for one in check(from_text(text, "train.py")).findings if one.code == "TAPE407")
    assert message.startswith(("a term in `loss`", f"`{term.partition('.')[0]}` in `loss`"))
