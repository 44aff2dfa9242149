"""Tensors that are filled part by part while the graph needs them: copies are read, or written into."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tapecheck.fixes import Fix
from tests.cases import under_torch
from tests.fixes.support import fixed, fixes_of, run_texts

FILLED = """\
import torch
from torch import nn
torch.manual_seed(0)
cost = nn.Linear(2, 4)
opt = torch.optim.SGD(cost.parameters(), lr=0.1)


def total(weights):
    table = torch.zeros(5)
    table[0] = 1.0
    for k in range(2, 5):
        {step}
    return table.sum()


for _ in range(2):
    loss = total(cost(torch.ones(2)).abs())
    print(round(float(loss), 4), flush=True)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
STEPS = (
    "table[k] = weights[k - 1] * table[k - 1] + weights[0] * table[k - 2]",
    "table[k] = torch.minimum(table[k - 1] + 1, table[k - 2]) * torch.maximum(table[k - 1], weights[k - 1])",
    "table[k] += torch.hypot(table[k - 1] + weights[0], table[k - 2]) * table[k - 1]",
    "table[k].add_(weights[0] * table[k - 1] * table[k - 2])",
    "one, two = table[k - 1], table[k - 2]; table[k] = torch.logaddexp(one, two) + weights[0] * one",
    "part = table[k - 2:k]; part.mul_(2); table[k] = (weights[k - 2:k] * part * table[k - 1]).sum()",
    "table[k - 1].add_(1); table[k] = weights[0] * table[k - 1] * table[k - 2]",
)

RESET = """\
import torch
from torch import nn
torch.manual_seed(0)
cell, head = nn.GRUCell(2, 4), nn.Linear(4, 1)
opt = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.1)


class Memory:
    def __init__(self):
        self.h = torch.zeros(3, 4)
        self.named = {{"h": torch.zeros(3, 4)}}


memory, total = Memory(), torch.zeros(3, 4)
{defined}
for _ in range(2):
    loss, h = 0.0, torch.zeros(3, 4)
    memory.h, memory.named["h"] = h, h
    for t in range(4):
        {h} = cell(torch.ones(3, 2), {h})
        loss = loss + head({h}).pow(2).mean(){kept}
        {write}
    print(round(float(loss), 4), round(float({h}.sum()), 4), flush=True)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
NAMES = ("h", "memory.h", 'memory.named["h"]')
WRITES = (
    "{h}[t % 3] = 0.0", "{h}[1:] *= 0.5", "{h}[:, 0].zero_()",
    "for k in range(2): {h}[k] = k * {h}[k]", "if t % 2: {h}[0, 1] = 2.0",
)  # fmt: skip


def _run(texts: list[str], folder: Path) -> list[tuple[str, Fix, str]]:
    """Run each text after each of its fixes: none raises, and a safe one computes what was computed."""
    found = [(text, fix, fixed(text, fix)) for text in texts for fix in fixes_of(text, "TAPE102")]
    was, now = run_texts(texts, folder), run_texts([after for _, _, after in found], folder)
    before = dict(zip(texts, was, strict=True))
    assert all(outcome["exception"] is not None for outcome in was)
    for (text, fix, after), outcome in zip(found, now, strict=True):
        assert outcome["exception"] is None, f"{fix.title}\n{after}\n{outcome['message']}"
        # The first loss is computed before any step.
        same = outcome["output"].startswith(before[text]["output"])
        assert same or fix.applicability == "unsafe", f"{fix.title}\n{after}"
    return found


@pytest.mark.skipif(not under_torch.has_torch(), reason="torch is not installed")
def test_tables_are_filled_from_copies_of_their_parts(tmp_path: Path) -> None:
    texts = [FILLED.format(step=step) for step in STEPS]
    found = _run(texts, tmp_path)
    held = {text for text, fix, _ in found if "parts of `table`" in fix.title}
    assert set(texts[:5]) - held <= {texts[2]}
    safe = {text for text, fix, _ in found if fix.applicability == "safe" and "parts" in fix.title}
    assert {texts[0], texts[1]} <= safe
    # What is written into a part is written into the table.
    assert texts[5] not in held


@pytest.mark.skipif(not under_torch.has_torch(), reason="torch is not installed")
def test_a_write_into_a_part_goes_into_a_copy(tmp_path: Path) -> None:
    forms = [*product(NAMES[:1], WRITES), *product(NAMES[1:], WRITES[:2])]
    texts = [RESET.format(h=h, write=write.format(h=h), kept="", defined="") for h, write in forms]
    found = _run(texts, tmp_path)
    copied = {text for text, fix, _ in found if "into a copy" in fix.title}
    assert copied == set(texts)


@pytest.mark.skipif(not under_torch.has_torch(), reason="torch is not installed")
def test_who_else_holds_the_tensor_keeps_a_write_into_a_copy_from_being_safe(tmp_path: Path) -> None:
    kept = ("; row = h[0]", "; memory.h = h", "; rows = [h]")
    reads = ("total += row.sum().detach()", "total += memory.h.detach()", "total += rows[0].detach()")
    texts = [
        RESET.format(h="h", write=f"h[0] = 1.0; {read}", kept=keep, defined="").replace("({h}", "(total")
        for keep, read in zip(kept, reads, strict=True)
    ]
    found = [fix for text, fix, _ in _run(texts, tmp_path) if "into a copy" in fix.title]
    assert found and all(fix.applicability == "unsafe" for fix in found)


HANDED = """\
def reset(state):
    state[0] = 0.0
    {end}
"""


@pytest.mark.skipif(not under_torch.has_torch(), reason="torch is not installed")
def test_a_tensor_that_was_handed_in_is_copied_only_where_it_is_handed_back(tmp_path: Path) -> None:
    calls = {"pass": "reset(h)", "return state": "h = reset(h)", "return state.sum()": "reset(h)"}
    texts = [RESET.format(h="h", write=call, kept="", defined=HANDED.format(end=end)) for end, call in calls.items()]
    found = _run(texts, tmp_path)
    assert texts[1] in {text for text, fix, _ in found if "into a copy" in fix.title}
    assert texts[0] not in {text for text, fix, _ in found if "into a copy" in fix.title}
    assert all(fix.applicability == "unsafe" for _, fix, _ in found if "into a copy" in fix.title)


FLOW = """\
import torch
from torch import nn
torch.manual_seed(0)


class Coupling(nn.Module):
    def __init__(self):
        super().__init__()
        self.net, self.all = nn.Linear(2, 2), nn.Linear(4, 2)

    def forward(self, x):
        assert len(x) == 8
        {read}
        {write}
        return x


layers = [Coupling() for _ in range(3)]
z = torch.randn(8, 4)
for layer in layers:
    z = layer(z)
loss = z.pow(2).mean()
print(round(float(loss), 4), flush=True)
loss.backward()
"""
SCALES = ("s = torch.tanh(self.net(x[:, :2]))", "s = self.all(x).tanh()", "s = self.net(x[:, :2] * x[:, 1:3]).tanh()")
COUPLED = ("x[:, 2:] = x[:, 2:] * s.exp()", "x[:, 2:] = torch.sin(x[:, 2:]) + s", "x[:, 2:].copy_(s * x[:, 2:])")


@pytest.mark.skipif(not under_torch.has_torch(), reason="torch is not installed")
def test_layers_that_write_into_what_they_have_read_read_copies(tmp_path: Path) -> None:
    texts = [FLOW.format(read=read, write=write) for read, write in product(SCALES, COUPLED)]
    found = [(text, fix, after) for text, fix, after in _run(texts, tmp_path) if fix.title.startswith("Read copies")]
    assert {text for text, _, _ in found} == set(texts)
    assert all("len(x)" in after for _, _, after in found)
    # The writes go into the tensor that was handed in, as before.
    was, now = run_texts(texts, tmp_path), run_texts([after for _, _, after in found], tmp_path)
    printed = dict(zip(texts, (outcome["output"] for outcome in was), strict=True))
    assert [outcome["output"] for outcome in now] == [printed[text] for text, _, _ in found]
