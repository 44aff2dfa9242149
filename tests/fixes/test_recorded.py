"""A switch of recording is made to ask what the backward asks, and what a step is made of is trained (TAPE103)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixes.support import fixed, fixes_of, run_texts

PROGRAM = """\
import torch
torch.manual_seed(0)
net = torch.nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)


def epoch(batches, phase, evaluate=False, log=False):
    total = 0.0
    for x, y in batches:
        with torch.set_grad_enabled({switch}):
            error = (net(x).squeeze(1) - y).abs().mean()
            {before}
            if {guard}:
                opt.zero_grad()
                error.backward()
                opt.step()
        total += error.item()
    return total


batches = [(torch.randn(4, 3), torch.randn(4)) for _ in range(3)]
for i in range(2):
    print(round(epoch(batches, 'train'), 4), flush=True)
    print(round(epoch(batches, 'val', evaluate=True), 4), flush=True)
"""
OTHERS = (
    ("phase == 'fit'", "phase == 'train'", "phase == 'train'"),
    ("evaluate", "not evaluate", "not evaluate"),
    ("phase == 'Train'", "phase == 'train' and not evaluate", "phase == 'train' and not evaluate"),
    ("log", "phase != 'val' or log", "phase != 'val' or log"),
)


@pytest.mark.parametrize(("switch", "guard", "asked"), OTHERS)
def test_recording_is_switched_on_where_the_backward_is_run(
    tmp_path: Path, switch: str, guard: str, asked: str
) -> None:
    text = PROGRAM.format(switch=switch, guard=guard, before="pass")
    found = [fix for fix in fixes_of(text, "TAPE103") if fix.title.startswith("Record where")]
    assert [fix.title for fix in found] == [f"Record where the backward is run: `set_grad_enabled({asked})`"]
    repaired = PROGRAM.format(switch=asked, guard=guard, before="pass")
    broken, whole, meant = run_texts([text, fixed(text, found[0]), repaired], tmp_path)
    assert broken["exception"] == "RuntimeError"
    assert whole["exception"] is None and whole["output"] == meant["output"] and whole["steps"] == meant["steps"]


@pytest.mark.parametrize(
    ("guard", "before"),
    [
        # The condition has another answer there, or may have, or cannot be asked before.
        ("phase == 'train'", "phase = 'train'"),
        ("decide(error)", "decide = lambda value: True"),
        ("error.item() < 99", "pass"),
        ("(late := True)", "pass"),
    ],
)
def test_what_cannot_be_asked_at_the_switch_is_not_asked(guard: str, before: str) -> None:
    text = PROGRAM.format(switch="phase == 'fit'", guard=guard, before=before)
    assert not [fix for fix in fixes_of(text, "TAPE103") if fix.title.startswith("Record where")]


THRESHOLD = """\
import torch
from torch import nn
torch.manual_seed(0)
score = nn.Linear(3, 3)
level = 0.4
class Bounds:
    low = 0.4
bounds = Bounds()
learned = torch.full((3,), 0.4, requires_grad=True)
opt = torch.optim.SGD(score.parameters(), lr=0.1)
for _ in range(3):
    p = torch.sigmoid(score(torch.ones(2, 3)))
    kept = {compared}.float()
    loss = (1 - kept).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


@pytest.mark.parametrize(
    ("compared", "offered"),
    [
        ("(p > 0.4)", True),
        ("(p > level)", True),
        ("(p >= bounds.low)", True),
        ("p.ge(level)", True),
        ("torch.gt(p, level)", True),
        # What is to be small would be trained the other way.
        ("(p < 0.4)", False),
        ("(p <= level)", False),
        ("p.lt(level)", False),
        ("(p == level)", False),
    ],
)
def test_what_a_comparison_says_is_large_is_trained(tmp_path: Path, compared: str, *, offered: bool) -> None:
    text = THRESHOLD.format(compared=compared)
    fixes = [fix for fix in fixes_of(text, "TAPE103") if "    kept = p\n" in fixed(text, fix)]
    assert [fix.applicability for fix in fixes] == ["unsafe"] * offered
    for fix in fixes:
        broken, whole = run_texts([text, fixed(text, fix)], tmp_path)
        assert broken["exception"] == "RuntimeError" and whole["exception"] is None
