"""A statement that does not parse may have been anything: no fix is safe beside it."""

from __future__ import annotations

import pytest

from tapecheck.check import check
from tapecheck.fixes import fixes_for
from tapecheck.source import from_text

KEPT = """\
import torch
from torch import nn

net = nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
total = 0.0
for step in range(5):
    loss = net(torch.randn(4, 3)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total += loss
print(float(total))
"""


@pytest.mark.parametrize("added", ["", "print(1 2)\n", "def report(:\n    pass\n", "<<<<<<< ours\n"])
def test_no_fix_is_safe_in_a_file_that_does_not_parse(added: str) -> None:
    report = check(from_text(KEPT + added, "train.py"))
    (finding,) = report.findings
    fixes = fixes_for(report, finding)
    assert fixes and any(fix.applicability == "safe" for fix in fixes) == (not added)
    assert not added or all("does not parse" in fix.changes for fix in fixes)
