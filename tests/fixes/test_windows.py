"""A graph that several iterations share until a backward: only beside that backward is it cut safely."""

from __future__ import annotations

import pytest

from tapecheck.fixes import fixes_for
from tests.fixes.support import fixed, report_of

HEAD = """\
import torch
from torch import nn

cell, head = nn.GRUCell(3, 4), nn.Linear(4, 1)
opt = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.1)
"""
LOOP = """\
h, total = torch.zeros(2, 4), 0.0
for i in range(6):
    x = torch.randn(2, 3)
{body}
    {condition}
{learn}
"""
LEARN = ("opt.zero_grad()", "total.backward()", "opt.step()", "total = 0.0")
BODIES = {
    "stored": ("h_ = cell(x, h)", "h = h_", "total = total + head(h_).pow(2).mean()"),
    "in place of it": ("h = cell(x, h)", "total = total + head(h).pow(2).mean()"),
}
CONDITIONS = {
    "if": ("if i % 2 == 1:", 8),
    "continue": ("if i % 2 == 0:\n        continue", 4),
    "membership": ("if i in (1, 3, 5):", 8),
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize(("condition", "indent"), CONDITIONS.values(), ids=CONDITIONS)
def test_a_window_is_cut_beside_its_backward_or_unsafely(body: tuple[str, ...], condition: str, indent: int) -> None:
    learn = [" " * indent + line for line in LEARN]
    text = HEAD + LOOP.format(
        body="\n".join(f"    {line}" for line in body), condition=condition, learn="\n".join(learn)
    )
    report = report_of(text, "program.py")
    [finding] = report.findings
    fixes = fixes_for(report, finding)
    assert finding.code == "TAPE101" and fixes
    for fix in fixes:
        lines = [line.strip() for line in fixed(text, fix).splitlines()]
        beside = lines.index("total.backward()") < lines.index("h = h.detach()") if "h = h.detach()" in lines else False
        assert beside or fix.applicability == "unsafe", fix.title


METHOD = """\
class Trainer:
    def __init__(self):
        self.state = {"h": torch.zeros(2, 4)}
        self.total = 0.0

    def step(self, i, x):
        self.state["h"] = cell(x, self.state["h"])
        self.total = self.total + head(self.state["h"]).pow(2).mean()
        if i % 2 == 1:
            opt.zero_grad()
            self.total.backward()
            opt.step()
            self.total = 0.0


trainer = Trainer()
for i in range(6):
    trainer.step(i, torch.randn(2, 3))
"""


def test_beside_a_call_that_learns_at_times_it_is_unsafe() -> None:
    report = report_of(HEAD + METHOD, "program.py")
    [finding] = report.findings
    assert finding.code == "TAPE101"
    assert {fix.applicability for fix in fixes_for(report, finding)} == {"unsafe"}
    each = HEAD + METHOD.replace("if i % 2 == 1:", "if True:")
    report = report_of(each, "program.py")
    assert "safe" in {fix.applicability for fix in fixes_for(report, report.findings[0])}
