"""Classes that notice what is set: a safe fix sets no attribute more than the program does, by torch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases import under_torch
from tests.fixes.support import run_texts, safe_fixes

CARRIED = """\
import torch
from torch import nn
torch.manual_seed(0)
seen = []
class Cell(nn.Module):
    {noticing}
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.state = torch.zeros(2, 4)
    def forward(self, x):
        self.state = torch.tanh(self.linear(x) + self.state)
        return self.state
cell = Cell()
optimizer = torch.optim.SGD(cell.parameters(), lr=0.1)
for step in range(3):
    loss = sum(cell(torch.ones(2, 4)).pow(2).mean() for _ in range(2))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, len(seen), flush=True)
"""
NOTICING = {
    "nothing": "pass",
    "the class": "def __setattr__(self, name, value):\n        seen.append(name)\n"
    "        super().__setattr__(name, value)",
    "a property": "@property\n    def state(self): return self.__dict__['s']\n    @state.setter\n"
    "    def state(self, value):\n        seen.append(value.shape)\n        self.__dict__['s'] = value",
    "a property by its functions": "def _get(self): return self.__dict__['s']\n"
    "    def _put(self, value):\n        seen.append(value.shape)\n        self.__dict__['s'] = value\n"
    "    state = property(_get, _put)",
    "a descriptor": "class Noting:\n"
    "        def __get__(self, one, owner=None): return self if one is None else one.__dict__['s']\n"
    "        def __set__(self, one, value):\n"
    "            seen.append(value.shape)\n            one.__dict__['s'] = value\n"
    "    state = Noting()",
}


@pytest.mark.skipif(not under_torch.has_torch(), reason="torch is not installed")
def test_a_state_is_set_once_more_where_nothing_notices(tmp_path: Path) -> None:
    texts = {name: CARRIED.format(noticing=noticing) for name, noticing in NOTICING.items()}
    found = {name: list(safe_fixes(text)) for name, text in texts.items()}
    programs = [program for name, fixes in found.items() for _, after in fixes for program in (texts[name], after)]
    outcomes = run_texts(programs, tmp_path)
    for was, now, after in zip(outcomes[::2], outcomes[1::2], programs[1::2], strict=True):
        assert was["exception"] == "RuntimeError" and now["exception"] is None, f"{after}\n{now['message']}"
        counts = [int(line.split()[1]) for line in now["output"].splitlines()]
        # Two steps a round.
        assert counts == [counts[0] + (counts[0] > 0) * 2 * number for number in range(3)], after
        assert now["output"].startswith(was["output"]), after
    assert any("after the backward" in title for title, _ in found["nothing"])
