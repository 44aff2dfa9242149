"""A window that is emptied is no leak, wherever the looks fall; a list that is never emptied is one."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.cases.recorded import record_all

PROGRAM = """
from collections import deque
import torch
from torch import nn

net = nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
recent, count = {made}, 0
for step in range({steps}):
    loss = net(torch.randn(8, 4)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    recent.append(loss)
    count += 1
    if count == {size}:
        {empty}
        count = 0
"""
EMPTIED = [
    PROGRAM.format(made=made, steps=steps, size=size, empty=empty)
    for size, steps in ((9, 20), (15, 40), (20, 60), (30, 95), (34, 100))
    for made, empty in (("[]", "recent.clear()"), ("[]", "recent = []"), ("deque()", "recent = deque()"))
]
LEAKING = [PROGRAM.format(made=made, steps=60, size=20, empty="pass") for made in ("[]", "deque()", "[torch.ones(())]")]


def test_a_window_is_no_leak_wherever_the_looks_fall(tmp_path: Path) -> None:
    programs = [*EMPTIED, *LEAKING]
    paths = [tmp_path / f"p{number}.py" for number in range(len(programs))]
    for path, text in zip(paths, programs, strict=True):
        path.write_text(text.lstrip("\n"))
    told = [
        any(
            one.code == "TAPE201" and one.evidence is not None and one.evidence.verdict in ("confirmed", "found-by-run")
            for one in item.findings
        )
        for item in record_all(paths)
    ]
    assert told == [False] * len(EMPTIED) + [True] * len(LEAKING)
