"""Values that leave their graphs one by one, and come back as one tensor: each fix is run under torch."""

from __future__ import annotations

import itertools

import pytest

from tapecheck.check import check
from tapecheck.fixes import fixes_for
from tapecheck.source import from_text
from tests.fixes.support import fixed

torch = pytest.importorskip("torch")

TEXT = """\
import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(0)
net = nn.Linear(4, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


def taken(dist, action):
    return FUNCTION


def joined(rows):
    return JOINED


for step in range(3):
    rows, rewards = [], []
    for t in range(5):
        dist = Categorical(logits=net(torch.randn(4)))
        action = dist.sample()
        STORED
        rewards.append(float(action == 1))
    loss = -(LOSS * torch.tensor(rewards)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
STORED = {
    "at once": "rows.append(dist.log_prob(action).item())",
    "under a name": "value = dist.log_prob(action).item()\n        rows.append(value)",
    "by a function": "rows.append(taken(dist, action))",
    "detached": "rows.append(dist.log_prob(action).detach())",
    "as it is": "rows.append(dist.log_prob(action))",
}
JOINED = (
    "torch.tensor(rows)",
    "torch.as_tensor(rows)",
    "torch.asarray(rows)",
    "torch.FloatTensor(rows)",
    "torch.tensor(rows, dtype=torch.float32)",
    "torch.as_tensor(rows, dtype=torch.float64, device='cpu')",
    "torch.stack([torch.as_tensor(row) for row in rows])",
)


def _ends(text: str) -> str:
    names: dict[str, object] = {}
    try:
        exec(text, names)
    except (RuntimeError, TypeError, AttributeError) as error:
        return type(error).__name__
    return "learned" if any(one.grad is not None for one in names["net"].parameters()) else "idle"  # type: ignore[attr-defined]


@pytest.mark.parametrize(("joined", "apart"), itertools.product(JOINED, [True, False]))
@pytest.mark.parametrize("stored", STORED)
def test_what_is_taken_out_and_joined_is_kept_and_stacked(stored: str, joined: str, apart: bool) -> None:
    text = TEXT.replace("STORED", STORED[stored]).replace("LOSS", "joined(rows)" if apart else joined)
    text = text.replace("FUNCTION", "dist.log_prob(action).item()").replace("JOINED", joined)
    report = check(from_text(text, "train.py"))
    told = [one for one in report.findings if one.code == "TAPE103" and one.certain]
    assert bool(told) == (_ends(text) == "RuntimeError")
    for finding in told:
        fixes = fixes_for(report, finding)
        # A copy of tensors that are detached besides has two cuts; what `asarray` takes, arrays may be.
        assert fixes or stored == "detached" or "asarray" in joined
        for fix in fixes:
            assert _ends(fixed(text, fix)) == "learned", fix.title
