"""What a program asks of autocast: a branch of what is off does not run, and who calls a function may have it on."""

from __future__ import annotations

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

STEPS = """\
import torch
from torch import nn

model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")


def train():
    for _ in range(3):
        optimizer.zero_grad()
        with torch.autocast("cuda"ENABLED):
            inside = torch.is_autocast_enabled()
            loss = model(torch.randn(4, 3)).mean()
        if ASKED:
            scaler.scale(loss).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            optimizer.step()
"""


@pytest.mark.parametrize(
    ("asked", "enabled", "expected"),
    [
        ("torch.is_autocast_enabled()", "", []),
        ("torch.is_autocast_enabled('cuda')", "", []),
        ("inside", "", ["TAPE501"]),
        ("inside", ", enabled=False", []),
        ("not torch.is_autocast_enabled()", "", ["TAPE501"]),
    ],
)
def test_what_is_asked_of_autocast(asked: str, enabled: str, expected: list[str]) -> None:
    text = STEPS.replace("ENABLED", enabled).replace("ASKED", asked) + "\n\ntrain()\n"
    assert [one.code for one in check(from_text(text, "train.py")).findings] == expected


def test_who_calls_a_function_may_have_it_on() -> None:
    text = STEPS.replace("ENABLED", "").replace("ASKED", "torch.is_autocast_enabled()")
    assert [one.code for one in check(from_text(text, "train.py")).findings] == ["TAPE501"]
