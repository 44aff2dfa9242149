"""TAPE405 of what is frozen when an optimizer is made of what requires grad, and switched on later: torch judges."""

from __future__ import annotations

from itertools import product

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
