"""What is computed of an array is not always the same of a tensor: a fix that stays in torch holds, or is left out."""

from __future__ import annotations

from typing import Any

import pytest

from tapecheck.fixes import fixes_for
from tests.fixes.support import finding_of, fixed, report_of

torch = pytest.importorskip("torch")
pytest.importorskip("numpy")

PROGRAM = """\
import numpy as np
import torch
from torch import nn

net, x, y = nn.Linear(3, 3), torch.rand(4, 3), torch.rand(4, 3)
pred = net(x).sigmoid()
b = {made}
loss = {total}
loss.backward()
"""
MADE = (
    "pred.numpy()[::-1]", "pred.numpy()[:, ::-1]", "pred.numpy()[::2]", "pred.numpy().view()",
    "pred.numpy().max(axis=1)", "round(pred.numpy().mean(), 3)", "pred.numpy() * np.ones((4, 3))",
    "pred.numpy() - y.numpy()", "pred.numpy() * 2",
    "pred.numpy() @ y.numpy().T", "y.numpy() + pred.numpy()", "pred.numpy().T", "pred.numpy().reshape(-1)",
)  # fmt: skip
TOTALS = ("torch.tensor(b).mean()", "torch.as_tensor(b).float().mean()")


@pytest.mark.parametrize("made", MADE)
def test_what_stays_in_torch_runs(made: str) -> None:
    offered = 0
    for total in TOTALS:
        text = PROGRAM.format(made=made, total=total)
        report = report_of(text)
        for fix in fixes_for(report, finding_of(report, "TAPE106")):
            after = fixed(text, fix)
            names: dict[str, Any] = {}
            exec(compile(after, "train.py", "exec"), names)
            assert names["net"].weight.grad is not None, after
            offered += 1
    if made in ("pred.numpy() * 2", "pred.numpy().T"):
        assert offered
