"""What a growing holder keeps decides how much TAPE201 weighs: torch says how many bytes it is in each iteration."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from functools import cache

import pytest

from tapecheck.check import check
from tapecheck.source import from_text
from tests.cases import under_torch

ITERATIONS = (4, 12)
FEW = 64
"""So many bytes an iteration are a few numbers; the smallest activation of the programs is 1280."""

PROGRAM = """\
import torch
from torch import nn
import torch.nn.functional as F
class Meter:
    def __init__(self):
        self.sum, self.count, self.kept = 0, 0, []
    def update(self, value, n=1):
        {update}
        self.count += n
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.SGD(net.parameters(), 0.1)
meter = Meter()
for step in range({steps}):
    x, y = torch.randn(32, 64), torch.randint(0, 10, (32,))
    out = net(x)
    loss = F.cross_entropy(out, y)
    optimizer.zero_grad()
    {body}
"""
UPDATES = (
    "self.sum += value",
    "self.sum += value * n",
    "self.sum = 0.9 * self.sum + 0.1 * value",
    "self.sum += value ** 2",
    "self.kept.append(value)",
    "self.kept.append(value.exp())",
)
BODIES = {
    "after the backward": "loss.backward(); optimizer.step(); meter.update(loss, x.size(0))",
    "before the backward": "meter.update(loss, len(x)); loss.backward(); optimizer.step()",
    "without a backward": "meter.update(loss, x.size(0))",
    "the output": "loss.backward(); optimizer.step(); meter.update(out, x.size(0))",
    "another loss": "loss.backward(); optimizer.step(); meter.update((out - out.mean(0)).pow(2).mean(), len(x))",
    "a number": "loss.backward(); optimizer.step(); meter.update((out.argmax(1) == y).float().mean(), len(x))",
    "retained": "loss.backward(retain_graph=True); optimizer.step(); meter.update(loss, len(x))",
}
CHOICES = list(itertools.product(UPDATES, BODIES))

_MEASURE = """
import json, sys, torch

def kept(values):
    stack = [value.grad_fn for value in values if isinstance(value, torch.Tensor)]
    nodes, sizes = set(), {}
    while stack:
        node = stack.pop()
        if node is None or node in nodes:
            continue
        nodes.add(node)
        for name in dir(node):
            if name.startswith("_saved_"):
                try:
                    saved = getattr(node, name)
                except RuntimeError:  # freed
                    continue
                if isinstance(saved, torch.Tensor) and not isinstance(saved, torch.nn.Parameter):
                    storage = saved.untyped_storage()
                    sizes[storage.data_ptr()] = storage.nbytes()
        stack.extend(before for before, _ in node.next_functions)
    return len(nodes), sum(sizes.values())

answers = []
for pair in json.load(sys.stdin):
    counts = []
    for program in pair:
        names = {"__name__": "__main__"}
        exec(compile(program, "program.py", "exec"), names)
        counts.append(kept([names["meter"].sum, *names["meter"].kept]))
    answers.append(counts)
print(json.dumps(answers))
"""


def program(update: str, body: str, steps: int) -> str:
    return PROGRAM.format(update=update, body=BODIES[body], steps=steps)


@cache
def measured() -> list[tuple[float, float]]:
    """For each choice the nodes and the bytes that one more iteration keeps."""
    asked = [[program(*choice, steps) for steps in ITERATIONS] for choice in CHOICES]
    done = subprocess.run(
        [sys.executable, "-c", _MEASURE], input=json.dumps(asked), capture_output=True, text=True, check=True
    )
    more = ITERATIONS[1] - ITERATIONS[0]
    return [((after[0] - before[0]) / more, (after[1] - before[1]) / more) for before, after in json.loads(done.stdout)]


@pytest.mark.skipif(not under_torch.has_torch(), reason="torch is not installed")
@pytest.mark.parametrize("choice", CHOICES, ids=" | ".join)
def test_kept_activations_are_a_warning_and_freed_graphs_an_info(choice: tuple[str, str]) -> None:
    nodes, size = measured()[CHOICES.index(choice)]
    findings = check(from_text(program(*choice, 100), "program.py")).findings
    said = [(one.code, one.severity, one.span.line) for one in findings if one.code == "TAPE201"]
    severity = "warning" if size > FEW else "info"
    assert said == ([("TAPE201", severity, 8)] if nodes else []), (nodes, size)
