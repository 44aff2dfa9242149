"""TAPE402 of draws and steps that hand back zeros: with the fix a gradient comes back, by torch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tapecheck.fixes import fixes_for
from tests.cases import under_torch
from tests.fixes.support import finding_of, fixed, report_of, run_texts

PROGRAM = """\
import torch
from torch import nn
torch.manual_seed(0)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean, self.spread, self.out = nn.Linear(4, 3), nn.Linear(4, 3), nn.Linear(3, 1)
    def forward(self, x):
        mu, std = self.mean(x), self.spread(x).exp()
        {drawn}
        return self.out(z)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    loss = (net(torch.randn(8, 4)) - 1).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(bool(net.mean.weight.grad.any()), flush=True)
"""
DRAWS = (
    "torch.normal(mu, std)", "torch.normal(mu, 0.5)", "torch.normal(mu * 2 - 1, std + 0.1)", "mu.round()",
    "torch.round(mu)", "mu.sign()", "torch.floor(mu)",
)  # fmt: skip
USES = ("z = {}", "z = {} * 2 - 1", "z = torch.tanh({})", "z = -{}")


@pytest.mark.skipif(not under_torch.has_torch(), reason="torch is not installed")
@pytest.mark.parametrize("draw", DRAWS)
def test_a_gradient_comes_back(draw: str, tmp_path: Path) -> None:
    mended: list[str] = []
    for use in USES:
        text = PROGRAM.format(drawn=use.format(draw))
        report = report_of(text)
        fixes = fixes_for(report, finding_of(report, "TAPE402", 10))
        assert fixes, text
        mended += [fixed(text, fix) for fix in fixes]
    for text, now in zip(mended, run_texts(mended, tmp_path), strict=True):
        assert now["exception"] is None, f"{text}\n{now['message']}"
        assert now["output"].split() == ["True"], text
