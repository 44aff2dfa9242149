"""Modules made anew under the name of one that an optimizer has (TAPE405): torch says whether anything trains them."""

from __future__ import annotations

import pytest

from tapecheck.check import check
from tapecheck.fixes import fixes_for
from tapecheck.source import from_text
from tests.fixes.support import fixed

torch = pytest.importorskip("torch")

MADE = {
    "a layer": "nn.Linear(4, 3)",
    "layers": "nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))",
    "a class": "Head(4, 3)",
}
BY_HAND = (
    "train(3)\nhead = {made}\nfor _ in range(3):\n    train(1)\n    with torch.no_grad():\n"
    "        for p in head.parameters():\n            p -= 0.1 * p.grad\n            p.grad = None"
)
A_LOOK = "train(3)\nold = head\nhead = {made}\nwith torch.no_grad():\n    loss_of()\nhead = old\ntrain(3)"
NORMS = (
    "def norms():\n    head = {made}\n    head(torch.ones(1, 4)).sum().backward()\n"
    "    return [p.grad.norm() for p in head.parameters()]\nfor _ in range(3):\n    norms()\n    train(1)"
)
# How a head comes anew, and whether something trains it then.
ANEW = {
    "behind training": ("train(3)\nhead = {made}\ntrain(3)", False),
    "in a loop": ("for epoch in range(2):\n    if epoch == 1:\n        head = {made}\n    train(2)", False),
    "with its optimizer": ("train(3)\nhead = {made}\nopt = torch.optim.SGD(head.parameters(), lr=0.1)\ntrain(3)", True),
    "as a group": ("train(3)\nhead = {made}\nopt.add_param_group({{'params': head.parameters()}})\ntrain(3)", True),
    "by hand": (BY_HAND, True),
    "never again": ("train(3)", True),
    "for a look": (A_LOOK, True),
    "of another function": (NORMS, True),
}
PROGRAM = """\
import torch
from torch import nn

class Head(nn.Module):
    def __init__(self, size, out):
        super().__init__()
        self.out = nn.Linear(size, out)
    def forward(self, x):
        return self.out(x)

torch.manual_seed(0)
head = {made}
opt = torch.optim.{optimizer}
def loss_of():
    return head(torch.randn(6, 4)).pow(2).mean()
def train(steps):
    for _ in range(steps):
        loss = loss_of()
        opt.zero_grad()
        loss.backward()
        opt.step()
{anew}
"""


def _is_trained(text: str) -> bool:
    """Whether the head has changed since it was made, by torch."""
    kept: dict[str, object] = {}
    exec(text, kept)
    head, made = kept["head"], text.rpartition("head = ")[2].partition("\n")[0]
    assert isinstance(head, torch.nn.Module)
    before = [p.detach().clone() for p in head.parameters()]
    exec("train(2)", kept)
    return "old" in made or any(not torch.equal(a, b) for a, b in zip(before, head.parameters(), strict=True))


@pytest.mark.parametrize("optimizer", ["SGD(head.parameters(), lr=0.1)", "Adam([*head.parameters()])"])
@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("anew", ANEW)
def test_what_the_optimizer_still_has_is_another_one(anew: str, made: str, optimizer: str) -> None:
    body, trained = ANEW[anew]
    text = PROGRAM.format(made=MADE[made], optimizer=optimizer, anew=body.format(made=MADE[made]))
    report = check(from_text(text, "train.py"))
    assert [finding.code for finding in report.findings] == ([] if trained else ["TAPE405"])
    if anew != "by hand":
        assert _is_trained(text) == trained
    for finding in report.findings:
        fixes = fixes_for(report, finding)
        assert fixes
        assert _is_trained(fixed(text, fixes[0]))
