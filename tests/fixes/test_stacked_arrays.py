"""Losses that NumPy computes of a list of tensors: the fix stays in torch, and the program then trains."""

from __future__ import annotations

from itertools import product
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

policy = nn.Linear(3, 2)
optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
for episode in range(3):
    {made}
    for t in range(4):
        p = torch.softmax(policy(torch.randn(3)), -1)
        logs.append(torch.log(p[0]))
        rewards.append({reward})
    loss = {product}
    loss = {total}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
MADE = ("logs, rewards = [], []", "logs = []\n    rewards = list()", "logs: list = []\n    rewards = []")
REWARDS = ("1.0 + t", "np.float32(t)", "torch.tensor(1.0) * t", "np.sum([torch.tensor(0.5), torch.tensor(1.0)])")
PRODUCTS = (
    "np.array(rewards) * np.array(logs)",
    "np.asarray(logs) * np.asarray(rewards)",
    "-2 * np.array(logs)",
    "np.array(logs) - np.array(rewards)",
)
TOTALS = ("-np.sum(loss) / 4", "np.mean(loss)")


def _run(text: str) -> dict[str, Any]:
    space: dict[str, Any] = {}
    exec(text, space)
    return space


@pytest.mark.parametrize(("made", "reward"), [*product(MADE, REWARDS)])
def test_a_list_of_tensors_is_stacked_and_what_is_beside_it_is_a_tensor(made: str, reward: str) -> None:
    for each, total in product(PRODUCTS, TOTALS):
        text = PROGRAM.format(made=made, reward=reward, product=each, total=total)
        with pytest.raises(RuntimeError):
            _run(text)
        report = report_of(text)
        fixes = fixes_for(report, finding_of(report, "TAPE106"))
        assert fixes, text
        for fix in fixes:
            policy = _run(fixed(text, fix))["policy"]
            assert all(parameter.grad is not None for parameter in policy.parameters()), fix.title


@pytest.mark.parametrize("beside", ["np.ones(4)", "np.arange(4)", "np.array(rewards, dtype=float)"])
def test_beside_another_array_there_is_no_such_fix(beside: str) -> None:
    text = PROGRAM.format(made=MADE[0], reward="1.0", product=f"{beside} * np.array(logs)", total="np.sum(loss)")
    report = report_of(text)
    for fix in fixes_for(report, finding_of(report, "TAPE106")):
        assert "Stay in torch" not in fix.title
