"""TAPE604: where a second derivative through compiled code is an error for certain."""

from __future__ import annotations

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

PROGRAM = """\
import torch
from torch import nn

net = torch.compile(nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1)), backend="aot_eager")
t = torch.rand({first}, 1).clone().requires_grad_()
u = net({before})
v = net(t)
(dv,) = torch.autograd.grad(v.sum(), t, create_graph=True)
(u.mean() + dv.pow(2).mean()).backward()
"""


@pytest.mark.parametrize(
    ("first", "before", "certain"),
    [(12, "torch.zeros(12, 1)", True), (12, "torch.zeros(1, 1)", False), (1, "torch.zeros(1, 1)", True)],
)
def test_code_for_several_sizes_may_refuse_the_first_gradient(first: int, before: str, certain: bool) -> None:
    # Measured: in the second one `autograd.grad` raises already, "compiled with non-empty donated buffers".
    program = PROGRAM.format(first=first, before=before)
    (finding,) = check(from_text(program, "train.py")).findings
    assert (finding.code, finding.span.line, finding.certain) == ("TAPE604", 9, certain)
    assert any("donated buffers" in note for note in finding.notes) is not certain
    # What other programs have compiled is none of this one's.
    pytest.importorskip("torch")._dynamo.reset()
    try:
        exec(compile(program, "train.py", "exec"), {})
        raised = ""
    except RuntimeError as error:
        raised = str(error)
    assert ("double backward" if certain else "donated buffers") in raised
