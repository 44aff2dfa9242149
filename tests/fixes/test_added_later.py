"""Parts that a model gets once its optimizer is made: each fix that is offered runs under torch, and trains them."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tapecheck.fixes import fixes_for
from tests.cases import under_torch
from tests.fixes.support import finding_of, fixed, report_of, run_texts

PROGRAM = """\
import torch
from torch import nn
torch.manual_seed(0)
class Adapter(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base
        self.down, self.up = nn.Linear(4, 2), nn.Linear(2, 4)
    def forward(self, x):
        return self.base(x) + self.up(self.down(x))
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
    def forward(self, x):
        return self.second(self.first(x).tanh())
def adapted(net):
    for name, child in list(net.named_children()):
        setattr(net, name, Adapter(child))
    return net
model = Net()
{optimizer}
{added}
seen = [p.detach().clone() for p in model.parameters()]
for _ in range(3):
    loss = model(torch.randn(8, 4)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print([bool((a != b).any()) for a, b in zip(seen, model.parameters())].count(False), flush=True)
"""
OPTIMIZERS = (
    "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)",
    "given = list(model.parameters())\noptimizer = torch.optim.SGD(given, lr=0.1)",
)
ADDED = (
    "model = adapted(model)",
    "adapted(model)",
    "model.first = Adapter(model.first)",
    "model.second = nn.Sequential(model.second, nn.Linear(4, 1))",
    "for name in ('first', 'second'):\n    setattr(model, name, Adapter(getattr(model, name)))",
)


@pytest.mark.skipif(not under_torch.has_torch(), reason="torch is not installed")
@pytest.mark.parametrize("added", ADDED)
def test_a_fix_gives_the_optimizer_each_parameter_once(added: str, tmp_path: Path) -> None:
    tried: list[tuple[str, str]] = []
    for optimizer in OPTIMIZERS:
        text = PROGRAM.format(optimizer=optimizer, added=added)
        report = report_of(text)
        tried += [(fix.title, fixed(text, fix)) for fix in fixes_for(report, finding_of(report, "TAPE405"))]
    assert tried
    for (title, after), now in zip(tried, run_texts([after for _, after in tried], tmp_path), strict=True):
        assert now["exception"] is None, f"{title}\n{after}\n{now['message']}"
        assert now["output"].split() == ["0"], f"{title}\n{after}"


TWICE = """\
import torch
from torch import nn
first, second = nn.Linear(2, 2), nn.Linear(2, 2)
{made}
for _ in range(3):
    loss = second(first(torch.randn(3, 2))).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
loss.backward()
"""
MADE = (
    "optimizer = torch.optim.SGD([first.weight], lr=0.1)\noptimizer.add_param_group({'params': second.parameters()})",
    "optimizer = torch.optim.SGD([first.weight], lr=0.1)\noptimizer.add_param_group({'params': first.parameters()})",
    "optimizer = torch.optim.SGD([{'params': first.parameters()}, {'params': [first.bias]}], lr=0.1)",
    "optimizer = torch.optim.SGD([{'params': first.weight}, {'params': [first.bias]}], lr=0.1)",
    "optimizer = torch.optim.SGD([first.weight], lr=0.1)\noptimizer.add_param_group({'params': first.weight})",
)


@pytest.mark.skipif(not under_torch.has_torch(), reason="torch is not installed")
def test_a_parameter_in_two_groups_ends_the_program(tmp_path: Path) -> None:
    texts = [TWICE.format(made=made) for made in MADE]
    for text, now in zip(texts, run_texts(texts, tmp_path), strict=True):
        # The second backward of one graph comes only where the optimizer could be made.
        found = [finding.code for finding in report_of(text).findings]
        assert ("TAPE101" in found) == (now["exception"] == "RuntimeError"), f"{text}\n{now['message']}\n{found}"


PAIR = """\
import torch
from torch import nn
torch.manual_seed(0)
def make():
    coarse = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
    {made}
    {optimizer}
    return coarse, fine, optimizer
coarse, fine, optimizer = make()
seen = [p.detach().clone() for p in fine.parameters()]
for _ in range(3):
    x, y = torch.randn(8, 3), torch.randn(8, 2)
    rough = coarse(x)
    {refined}
    loss = (refined - y).pow(2).mean()
    loss = loss + (rough - y).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print([bool((a != b).any()) for a, b in zip(seen, fine.parameters())].count(False), flush=True)
"""
REFINED = (
    "refined = fine(torch.cat([x, rough.detach()], 1))",
    "with torch.no_grad(): points = rough.argmax(1, keepdim=True)\n    refined = fine(torch.cat([x, rough.data], 1))",
    "refined = fine(torch.cat([x, x[:, :2]], 1))",
)
FINE = ("fine = nn.Linear(5, 2)", "fine = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 2))")
GIVEN = (
    "optimizer = torch.optim.Adam(coarse.parameters(), lr=0.01)",
    "given = list(coarse.parameters())\n    optimizer = torch.optim.SGD(params=given, lr=0.1)",
)


@pytest.mark.skipif(not under_torch.has_torch(), reason="torch is not installed")
@pytest.mark.parametrize("refined", REFINED)
def test_a_network_whose_term_trains_nothing_is_handed_over(refined: str, tmp_path: Path) -> None:
    handed: list[str] = []
    for fine, given in product(FINE, GIVEN):
        text = PAIR.format(made=fine, optimizer=given, refined=refined)
        report = report_of(text)
        finding = finding_of(report, "TAPE407")
        assert finding.help.startswith("give them to the optimizer, or "), finding.help
        assert any("this is the term" in label.message for label in finding.labels), finding.labels
        (after,) = (fixed(text, fix) for fix in fixes_for(report, finding) if fix.title.startswith("Hand `fine` over"))
        assert not report_of(after).findings, after
        handed.append(after)
    for after, now in zip(handed, run_texts(handed, tmp_path), strict=True):
        assert now["exception"] is None, f"{after}\n{now['message']}"
        assert now["output"].split() == ["0"], after
