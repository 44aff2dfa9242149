"""TAPE501 in trainers whose scaling, clipping and stepping are methods of their own: fixes hold under torch."""

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
class Trainer:
    def __init__(self):
        self.model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.scaler = torch.amp.GradScaler("cpu")
        self.norms = []
    def backward(self, loss{given}):
        {scaler}.scale(loss / {every}).backward()
    def step(self):
{step}
    def epoch(self):
        for number in range(6):
            loss = self.model(torch.randn(8, 4)).pow(2).mean()
            self.backward(loss{passed})
            if (number + 1) % {every} == 0:
                self.step()
                self.optimizer.zero_grad()
trainer = Trainer()
trainer.epoch()
moved = [p.detach().clone() for p in trainer.model.parameters()]
trainer.epoch()
far = max(float((p - q).abs().max()) for p, q in zip(trainer.model.parameters(), moved))
print(far < 1, all(norm < 1000 for norm in trainer.norms), flush=True)
"""
SCALERS = (("", "self.scaler", ""), (", scaler", "scaler", ", self.scaler"))
STEPS = {
    "clipped": "self.norms.append(nn.utils.clip_grad_norm_(self.model.parameters(), 1.0).item())\n"
    "self.scaler.step(self.optimizer)\nself.scaler.update()",
    "clipped by value": "nn.utils.clip_grad_value_(self.model.parameters(), 0.1)\n"
    "self.scaler.step(self.optimizer)\nself.scaler.update()",
    "measured": "self.norms += [p.grad.norm().item() for p in self.model.parameters()]\n"
    "self.scaler.step(self.optimizer)\nself.scaler.update()",
    "stepped by itself": "self.optimizer.step()",
}


@pytest.mark.skipif(not under_torch.has_torch(), reason="torch is not installed")
@pytest.mark.parametrize("step", STEPS)
def test_gradients_are_unscaled_where_another_method_scales(step: str, tmp_path: Path) -> None:
    body = "\n".join(f"        {line}" for line in STEPS[step].split("\n"))
    mended: list[str] = []
    for (given, scaler, passed), every in product(SCALERS, (1, 2)):
        text = PROGRAM.format(given=given, scaler=scaler, passed=passed, every=every, step=body)
        report = report_of(text)
        fixes = fixes_for(report, finding_of(report, "TAPE501"))
        assert fixes or (step, scaler) == ("stepped by itself", "scaler"), text
        mended += [fixed(text, fix) for fix in fixes]
    for text, now in zip(mended, run_texts(mended, tmp_path), strict=True):
        assert now["exception"] is None, f"{text}\n{now['message']}"
        assert now["output"].split() == ["True", "True"], f"{text}\n{now['output']}"
