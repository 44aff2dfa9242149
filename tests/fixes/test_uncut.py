"""Who else reads a value that gets its graph back: a safe fix runs, and prints what was printed, by torch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases import under_torch
from tests.fixes.support import run_texts, safe_fixes

PROGRAM = """\
import copy, json
import numpy as np
import torch
w = torch.full((3,), 0.5, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    {cut}
    {read}
    loss = {loss}
    loss.backward()
    optimizer.step()
"""
CUTS = {
    "detached": ("h = (w * 2).exp().sum().detach()", "h * 2"),
    "data": ("h = (w * 2).exp().sum().data", "h * 2"),
    "unrecorded": ("with torch.no_grad():\n        h = (w * 2).exp().sum()", "h * 2"),
    "a number": ("h = (w * 2).exp().sum().item()", "torch.tensor(h)"),
}
# The first two: by nothing but torch's ops.
READS = {
    "nothing": "pass",
    "computed": "print(f'{float(h * 2):.2f}')",
    "an array": "print(np.asarray(h))",
    "copied": "print(float(copy.deepcopy(h)))",
    "written": "print(json.dumps({'h': float(h)}), type(round(float(h), 2)))",
    "rounded": "print(float(np.round(h, 1)))",
    "asked": "print(getattr(h, 'requires_grad', None), h.requires_grad if hasattr(h, 'shape') else None)",
}


@pytest.mark.skipif(not under_torch.has_torch(), reason="torch is not installed")
def test_a_cut_is_taken_out_where_torch_alone_reads_the_value(tmp_path: Path) -> None:
    tried: list[tuple[str, str, str]] = []
    safe: set[tuple[str, str]] = set()
    for cut, (line, loss) in CUTS.items():
        for name, read in READS.items():
            text = PROGRAM.format(cut=line, read=read, loss=loss)
            found = list(safe_fixes(text))
            safe |= {(cut, name) for _ in found}
            tried += [(title, text, after) for title, after in found]
    programs = [program for _, text, after in tried for program in (text, after)]
    outcomes = run_texts(programs, tmp_path)
    for (title, _, after), was, now in zip(tried, outcomes[::2], outcomes[1::2], strict=True):
        assert now["exception"] is None, f"{title}\n{after}\n{now['message']}"
        assert now["output"].startswith(was["output"]), f"{title}\n{after}"
    assert {(cut, "nothing") for cut in CUTS} <= safe
    assert ("detached", "computed") in safe
