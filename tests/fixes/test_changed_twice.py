"""Several changes in place that spoil one backward (TAPE102): each fix is run under torch, and computes the same."""

from __future__ import annotations

import random

import pytest

from tapecheck.check import check
from tapecheck.fixes import fixes_for
from tapecheck.source import from_text
from tests.fixes.support import fixed

torch = pytest.importorskip("torch")

HEAD = """\
import torch
from torch import nn
torch.manual_seed(0)
net = nn.Linear(3, 3)
x = torch.rand(4, 3)
h = torch.sigmoid(net(x))
"""
MADE = (
    "g = torch.exp(h)",
    "g = torch.tanh(h)",
    "g = h * h",
    "g = h",
    "g = h.detach()",
    "g = h[:2]",
    "g = h.view(3, 4).t()",
)
CHANGES = (
    "h *= 2",
    "h.add_(x)",
    "h.mul_(h.detach())",
    "h.clamp_(0, 1).neg_()",
    "g += 1",
    "g.mul_(0.5)",
    "g -= 2",
    "g.sigmoid_()",
    "h[0] = 0",
    "g[:, 1] *= 3",
)
READ = ("k = g * g", "h = torch.exp(h)", "k = h + 1", "g = torch.sqrt(g.abs() + 1)", "seen = h.sum().item()")


def _loss(text: str) -> tuple[bool, float | None]:
    """Whether a program raises, and the loss that it has before its backward."""
    names: dict[str, object] = {}
    try:
        exec(text, names)
    except RuntimeError as error:
        assert "modified by an inplace operation" in str(error) or "view" in str(error)
        return True, names.get("told")  # type: ignore[return-value]
    return False, names["told"]  # type: ignore[return-value]


def _program(seed: int) -> str:
    draw = random.Random(seed)
    lines = [draw.choice(MADE), *draw.choices([*CHANGES, *READ], k=draw.randint(2, 5))]
    end = "loss = h.sum() + g.mean()\ntold = loss.item()\nloss.backward()\n"
    return f"{HEAD}k = h\n" + "\n".join(lines) + f"\nh = h + k.sum()\n{end}"


@pytest.mark.parametrize("start", range(0, 80, 8))
def test_a_fix_of_several_changes_computes_the_same(start: int) -> None:
    for seed in range(start, start + 8):
        text = _program(seed)
        raises, told = _loss(text)
        report = check(from_text(text, "run.py"))
        found = [one for one in report.findings if one.code == "TAPE102" and one.certain]
        assert told is None or bool(found) == raises, text
        for finding in found:
            for fix in fixes_for(report, finding):
                mended = fixed(text, fix)
                if fix.applicability == "safe":
                    fails, now = _loss(mended)
                    assert not fails, mended
                    assert now == pytest.approx(told), mended
