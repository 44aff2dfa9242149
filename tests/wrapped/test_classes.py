"""What class a wrapper makes of a model: the dry run answers `isinstance` and `hasattr` as torch does."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from importlib.util import find_spec

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

HEAD = """
import copy

import torch
import torch.distributed as dist
from torch import nn
from torch._dynamo.eval_frame import OptimizedModule
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.nn.parallel import DistributedDataParallel


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x):
        return self.layer(x)


dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (1,))
parts = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))
fully_shard(parts[0], mesh=mesh)
fully_shard(parts, mesh=mesh)
net = fully_shard(Net(), mesh=mesh)
several = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2)])
fully_shard([several[0], several[1]], mesh=mesh)
averaged = DistributedDataParallel(Net())
compiled = torch.compile(Net(), backend="aot_eager")
plain = Net()
"""
MODELS = (
    "parts", "parts[0]", "parts[1]", "parts[2]", "net", "net.layer", "several", "several[0]", "several[1]",
    "several[2]", "averaged", "averaged.module", "copy.deepcopy(averaged)", "compiled", "compiled._orig_mod", "plain",
    "plain.layer",
)  # fmt: skip
CLASSES = ("FSDPModule", "DistributedDataParallel", "OptimizedModule", "nn.Linear", "nn.Sequential", "nn.Module", "Net")
NAMES = ("module", "no_sync", "_orig_mod", "reshard", "unshard", "set_requires_gradient_sync")
QUESTIONS = [f"isinstance({model}, {kind})" for model in MODELS for kind in CLASSES] + [
    f"hasattr({model}, {name!r})" for model in MODELS for name in NAMES
]
ASKS = """
leaf = torch.ones(2, requires_grad=True)
loss = (leaf * leaf).sum()
loss.backward()
if {question}:
    loss.backward()
else:
    loss.backward()
"""


@cache
def answers() -> dict[str, bool]:
    """Ask torch."""
    program = HEAD + "".join(f"print(int({question}))\n" for question in QUESTIONS)
    begun = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "0", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=True,
        env={**os.environ, **begun},
    )  # fmt: skip
    return dict(zip(QUESTIONS, [line == "1" for line in done.stdout.split()], strict=True))


def dry(question: str) -> bool | None:
    """Ask the dry run: None where it takes both ways."""
    program = HEAD + ASKS.format(question=question)
    findings = check(from_text(program, "classes.py")).findings
    lines = program.splitlines()
    ways = {lines[finding.span.line - 2] != "else:" for finding in findings if finding.code == "TAPE101"}
    assert ways, question
    return ways.pop() if len(ways) == 1 else None


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.parametrize("model", MODELS)
def test_a_wrapped_model_is_of_the_class_that_torch_says(model: str) -> None:
    asked = [question for question in QUESTIONS if f"({model}, " in question]
    found = {question: dry(question) for question in asked}
    # What is asked of DistributedDataParallel may be found in the model: frameworks have wrappers that do so.
    lenient = [f"hasattr({model}, {name!r})" for name in NAMES[2:] if model.endswith(("averaged", "averaged)"))]
    found = {question: answer for question, answer in found.items() if question not in lenient}
    wrong = [question for question, answer in found.items() if answer is not None and answer != answers()[question]]
    assert not wrong
    assert not [question for question, answer in found.items() if answer is None and "isinstance" in question]
