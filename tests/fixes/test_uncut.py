"""Who else reads a value that gets its graph back: a safe fix runs, and prints what was printed, by torch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tapecheck.fixes import fixes_for
from tests.cases import under_torch
from tests.fixes.support import fixed, report_of, run_texts, safe_fixes

PROGRAM = """\
import copy, json
import numpy as np
import torch
w = torch.full((3,), 0.5, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
class Box: pass
box = Box()
def hand(x):
    return x
def read(x):
    print(round(float(np.asarray(x)), 2))
def encode():
    {cut}
    return h
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
    "written into": "print(torch.mul(h, 2, out=torch.empty(())))",
    "an index": "d = {0: 1}; print(d.get(0), [1, 2, 3][round(float(h)) % 2], {str(h): 1} != {})",
    "elements": "print(json.dumps([round(float(k), 3) for k in (h, 2)]))",
    "given back": "read(hand(h))",
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


SWITCHED = """\
import copy
import numpy as np
import torch
w = torch.full((3,), 0.5, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
def evaluate():
    torch.set_grad_enabled(False)
    print(round(float((w * 2).sum()), 3))
for _ in range(2):
    optimizer.zero_grad()
    evaluate()
    h = (w * 2).exp()
    {read}
    loss = h.sum()
    loss.backward()
    optimizer.step()
"""
SEEN = {
    "nothing": "pass",
    "computed": "print(round(float(h.sum()), 3))",
    "an array": "print(np.asarray(h))",
    "an array of its own": "print(h.numpy())",
    "copied": "print(round(float(copy.deepcopy(h).sum()), 3))",
    "written into": "print(torch.mul(h, 2, out=torch.empty(3)).shape)",
    "made a leaf": "h.requires_grad_()",
    "asked": "print(torch.is_grad_enabled(), h.requires_grad)",
}


@pytest.mark.skipif(not under_torch.has_torch(), reason="torch is not installed")
def test_recording_is_switched_on_again_where_nothing_refuses_a_graph(tmp_path: Path) -> None:
    tried = {name: list(safe_fixes(SWITCHED.format(read=read))) for name, read in SEEN.items()}
    programs = [
        p for name, found in tried.items() for _, after in found for p in (SWITCHED.format(read=SEEN[name]), after)
    ]
    outcomes = run_texts(programs, tmp_path)
    for was, now, after in zip(outcomes[::2], outcomes[1::2], programs[1::2], strict=True):
        assert now["exception"] is None, f"{after}\n{now['message']}"
        assert now["output"].startswith(was["output"]), after
    assert tried["nothing"] and tried["computed"]


IN_NUMPY = """\
import numpy as np
import torch
w = torch.full((3,), 0.5, requires_grad=True)
for _ in range(2):
    a, b = (w * 2).sum(), (w * 3).exp()
    loss = torch.tensor({value})
    loss.sum().backward()
"""
VALUES = (
    "np.mean([a.item(), a.item() * 2])", "np.sum([k.item() for k in (a, a)])", "np.mean(b.detach().numpy())",
    "np.maximum(b.detach().numpy(), 0.0)", "np.maximum(b.detach().numpy(), b.detach().numpy() * 2)",
    "np.clip(b.detach().numpy(), 0.5, 4.0)", "np.clip(b.detach().numpy(), a_min=0.5, a_max=4.0)",
    "np.sum(b.detach().numpy(), axis=0)", "np.sum(b.detach().numpy(), keepdims=True)",
    "np.where(b.detach().numpy() > 1, b.detach().numpy(), 0.0)", "np.exp(a.item())", "np.prod(b.detach().numpy(), 0)",
    "np.dot(b.detach().numpy(), np.ones(3))", "np.log([a.item(), 2.0])", "np.mean(b.detach().numpy(), dtype=float)",
)  # fmt: skip


@pytest.mark.skipif(not under_torch.has_torch(), reason="torch is not installed")
def test_what_stays_in_torch_is_what_torch_takes(tmp_path: Path) -> None:
    offered: list[tuple[str, str]] = []
    for value in VALUES:
        text = IN_NUMPY.format(value=value)
        report = report_of(text)
        fixes = [fix for finding in report.findings for fix in fixes_for(report, finding)]
        offered += [(value, fixed(text, fix)) for fix in fixes if fix.title.startswith("Stay in torch")]
    outcomes = run_texts([after for _, after in offered], tmp_path)
    for (_, after), now in zip(offered, outcomes, strict=True):
        assert now["exception"] is None, f"{after}\n{now['message']}"
    assert {VALUES[0], VALUES[2], VALUES[5]} <= {value for value, _ in offered}
