"""TAPE405 of what is frozen when an optimizer is made of the rest, and switched on later: torch judges."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from tapecheck.check import check
from tapecheck.fixes import fixes_for
from tapecheck.source import from_text
from tests.fixes.support import fixed

PROGRAM = """\
import torch
from torch import nn
torch.manual_seed(0)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8))
        self.head = nn.Linear(8, 2)
    def forward(self, x):
        return self.head(self.body(x).tanh())
net = Net()
{frozen}
{made}
def epoch(number):
    global optimizer
    {thawed}
    for _ in range(3):
        loss = net(torch.randn(6, 4)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
before = [p.detach().clone() for p in net.body.parameters()]
for number in range(3):
    epoch(number)
after = list(net.body.parameters())
moved = [bool((one != other).any()) for one, other in zip(before, after)]
"""
FROZEN = {
    "a part": "net.body.requires_grad_(False)",
    "each parameter": "for p in net.body.parameters():\n    p.requires_grad = False",
    "all but the head": "for n, p in net.named_parameters():\n    p.requires_grad = n.startswith('head')",
}
OF_WHAT_REQUIRES_GRAD = {
    "a filter": "optimizer = torch.optim.Adam(filter(lambda p: p.requires_grad, net.parameters()), lr=0.01)",
    "a comprehension": "optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=0.1)",
    "a list": "params = [p for _, p in net.named_parameters() if p.requires_grad]\n"
    "optimizer = torch.optim.AdamW(params, lr=0.01)",
    "a group": "optimizer = torch.optim.SGD([{'params': (p for p in net.parameters() if p.requires_grad)}], lr=0.1)",
}
ALL = "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)"
THAWED = {
    "the body": "if number == 1: net.body.requires_grad_(True)",
    "its last layer": "if number == 1:\n        for p in net.body[-1].parameters(): p.requires_grad = True",
    "all at once": "if number > 0: net.requires_grad_()",
}
SEEN_TO = {
    "never": "pass",
    "a new optimizer": "if number == 1: net.requires_grad_(); optimizer = torch.optim.SGD(net.parameters(), lr=0.1)",
    "a group": "if number == 1:\n        net.body.requires_grad_()\n"
    "        optimizer.add_param_group({'params': net.body.parameters()})",
    "switched off again": "net.body.requires_grad_(); net.body.requires_grad_(False)",
}


def outcome(text: str) -> tuple[int, int]:
    """How many parameters of the body moved, and how many had a gradient in the end."""
    names: dict[str, object] = {}
    exec(text, names)
    moved, after = names["moved"], names["after"]
    assert isinstance(moved, list) and isinstance(after, list)
    return sum(moved), sum(one.grad is not None for one in after)


@pytest.mark.parametrize(("made", "thawed"), list(product(OF_WHAT_REQUIRES_GRAD, THAWED)))
def test_what_is_switched_on_later_and_is_in_no_optimizer(made: str, thawed: str) -> None:
    for frozen in FROZEN.values():
        text = PROGRAM.format(frozen=frozen, made=OF_WHAT_REQUIRES_GRAD[made], thawed=THAWED[thawed])
        moved, graded = outcome(text)
        assert moved == 0 and graded > 0
        report = check(from_text(text, "train.py"))
        (finding,) = report.findings
        assert (finding.code, finding.certain) == ("TAPE405", True), text
        assert any("switched on later" in note for note in finding.notes), finding.notes
        (fix,) = fixes_for(report, finding)
        assert outcome(fixed(text, fix)) == (graded, graded), fix.title


@pytest.mark.parametrize("seen_to", SEEN_TO)
def test_what_is_seen_to_is_none(seen_to: str) -> None:
    for frozen, made in product(FROZEN.values(), OF_WHAT_REQUIRES_GRAD.values()):
        text = PROGRAM.format(frozen=frozen, made=made, thawed=SEEN_TO[seen_to])
        moved, graded = outcome(text)
        assert moved == graded
        assert not check(from_text(text, "train.py")).findings, text


@pytest.mark.parametrize("thawed", THAWED)
def test_an_optimizer_of_all_parameters_has_what_was_frozen(thawed: str) -> None:
    for frozen in FROZEN.values():
        text = PROGRAM.format(frozen=frozen, made=ALL, thawed=THAWED[thawed])
        moved, graded = outcome(text)
        assert moved == graded > 0
        assert not check(from_text(text, "train.py")).findings, text


HEAD_ALONE = """\
import torch
from torch import nn


class Body(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 4)

    def forward(self, x):
        return self.layer(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = {body}, nn.Linear(4, 1)

    def forward(self, x):
        return self.head(self.body(x))


{made}
before = [one.clone() for one in body.parameters()]
body.requires_grad_(False)
opt = torch.optim.SGD(head.parameters(), lr=0.1)
for step in range(6):
    if step == 2:
        {then}
    loss = model(torch.ones(2, 3)).mean()
    opt.zero_grad()
    loss.backward()
    {use}
    opt.step()
moved = any(not torch.equal(old, new) for old, new in zip(before, body.parameters()))
"""
BODIES = {"layer": "nn.Linear(3, 4)", "own class": "Body()", "in a row": "nn.Sequential(nn.Linear(3, 4), nn.Tanh())"}
MADE = {
    "parts": "body, head = {body}, nn.Linear(4, 1)\nmodel = lambda x: head(body(x))",
    "one model": "model = Net()\nbody, head = model.body, model.head",
    "sequential": "model = nn.Sequential({body}, nn.Linear(4, 1))\nbody, head = model",
}
THEN = {
    "module": "body.requires_grad_(True)",
    "each": "for p in body.parameters(): p.requires_grad = True",
    "handed over": 'body.requires_grad_(True); opt.add_param_group({"params": body.parameters()})',
    "new optimizer": "body.requires_grad_(); opt = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)",
    "not at all": "pass",
}
USED = {
    "nothing": "pass",
    "by hand": "[p.data.sub_(p.grad) for p in body.parameters() if p.grad is not None]",
    "read": "print(sum(p.grad.norm() for p in body.parameters() if p.grad is not None))",
}


@pytest.mark.parametrize("use", USED)
@pytest.mark.parametrize("then", THEN)
@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("body", BODIES)
def test_what_is_switched_on_behind_the_optimizer_is_trained_by_nothing(
    body: str, made: str, then: str, use: str
) -> None:
    text = HEAD_ALONE.format(
        body=BODIES[body], made=MADE[made].format(body=BODIES[body]), then=THEN[then], use=USED[use]
    )
    report = check(from_text(text, "train.py"))
    findings = [one for one in report.findings if one.code == "TAPE405"]
    forgotten = then in ("module", "each") and use == "nothing"
    assert bool(findings) == forgotten
    assert all("switched on later" in one.notes[-1] for one in findings)
    gets, moves = _trained(text)
    assert forgotten == (gets and not moves and use != "read")
    for fix in fixes_for(report, findings[0]) if findings else ():
        assert _trained(fixed(text, fix)) == (True, True), fix.title


def _trained(text: str) -> tuple[bool, bool]:
    """Whether a program's body gets gradients, and whether it moves."""
    ran: dict[str, Any] = {}
    exec(compile(text, "train.py", "exec"), ran)
    return any(one.grad is not None for one in ran["body"].parameters()), ran["moved"]


@pytest.mark.parametrize("head", ["net.head", "net.head = nn.Linear(8, 2)"])
def test_the_body_is_handed_over_beside_the_head(head: str) -> None:
    """Also where the head alone is all that requires grad when the optimizer is made."""
    made = "optimizer = torch.optim.SGD(net.head.parameters(), lr=0.1)"
    for frozen, thawed in product(FROZEN.values(), THAWED.values()):
        text = PROGRAM.format(frozen=f"{frozen}\n{head}", made=made, thawed=thawed)
        report = check(from_text(text, "train.py"))
        (finding,) = report.findings
        moved, graded = outcome(text)
        assert (finding.code, moved) == ("TAPE405", 0)
        (fix, *_) = fixes_for(report, finding)
        assert outcome(fixed(text, fix)) == (graded, graded), fix.title
