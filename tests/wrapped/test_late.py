"""Parameters that become trainable after the wrapping: two processes and the dry run agree on which stay local."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

ROOT = Path(__file__).parents[2]
PROGRAM = """\
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
{before}
model = DistributedDataParallel(net{options})
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
torch.manual_seed(dist.get_rank())
for step in range(3):
    if step == {at}:
        {change}
    optimizer.zero_grad()
    loss = model(torch.randn(4, 4)).pow(2).mean()
    loss.backward()
    {after}
    optimizer.step()
"""
BEFORE = (
    "pass", "net[0].requires_grad_(False)", "net[2].weight.requires_grad = False",
    "net[0].requires_grad_(False)\nDistributedDataParallel(net)\nnet[0].requires_grad_(True)",
)  # fmt: skip
CHANGES = (
    "pass", "net.requires_grad_(True)", "net[0].requires_grad_(True)",
    "net[2].weight.requires_grad_(True); model = DistributedDataParallel(net)",
    "net.append(nn.Linear(1, 1, bias=False)); optimizer.add_param_group({'params': net[5].parameters()})",
    "net.load_state_dict(net.state_dict())", "net[2].weight.data = net[2].weight.data.clone()",
    "net[4].reset_parameters(); model.to('cpu')",
)  # fmt: skip
OPTIONS = ("", ", find_unused_parameters=True", ", static_graph=True")
AFTER = (
    "pass", "for each in net.parameters():\n        if each.grad is not None:\n            dist.all_reduce(each.grad)",
    "net[0].zero_grad(); net[2].zero_grad()",
)  # fmt: skip


def programs() -> list[str]:
    """Return some of the programs, each time the same."""
    draw = random.Random(28)

    def one(texts: tuple[str, ...], weights: tuple[int, ...]) -> str:
        return draw.choices(texts, weights)[0]

    return [
        PROGRAM.format(
            before=one(BEFORE, (1, 3, 3, 1)), change=one(CHANGES, (1, 3, 3, 2, 3, 1, 1, 1)), at=draw.randrange(2),
            options=one(OPTIONS, (1, 1, 1)), after=one(AFTER, (4, 1, 1)),
        ) for _ in range(60)
    ]  # fmt: skip


@cache
def outcomes() -> list[str]:
    """Run every program in two processes."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tools.torchlab.wrappers", "--judge"], input=json.dumps(programs()),
        capture_output=True, text=True, check=True, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    return [what for what, _ in json.loads(done.stdout)]


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("index", range(60))
def test_what_came_late_is_told_where_the_gradients_differ(index: int) -> None:
    program = programs()[index]
    findings = check(from_text(program, "late.py")).findings
    told = any(finding.code == "TAPE601" and finding.certain for finding in findings)
    assert outcomes()[index] == ("gradients differ" if told else "right"), program


def test_both_outcomes_are_among_them() -> None:
    told = [any(one.code == "TAPE601" for one in check(from_text(text, "late.py")).findings) for text in programs()]
    assert min(told.count(True), told.count(False)) >= 10


LATE = PROGRAM.format(
    before="net[0].requires_grad_(False)", options="", at=0, change="net[0].requires_grad_(True)", after=""
)


@pytest.mark.parametrize(("given", "told"), [("", True), (", rank=0, world_size=1", False), (", world_size=2", True)])
def test_one_process_has_nobody_to_average_with(given: str, told: bool) -> None:
    text = LATE.replace('("gloo")', f'("gloo"{given})')
    assert ("TAPE601" in [one.code for one in check(from_text(text, "program.py")).findings]) == told


def test_a_model_without_anything_to_average_is_refused() -> None:
    wrapped = "model = DistributedDataParallel(net)"
    tried = (
        "try:\n    model = DistributedDataParallel(net.requires_grad_(False))\nexcept RuntimeError:\n    "
        "model = DistributedDataParallel(net.requires_grad_(True))"
    )
    text = PROGRAM.format(before="", options="", at=0, change="pass", after="").replace(wrapped, tried)
    assert tried in text
    assert not check(from_text(text, "program.py")).findings
