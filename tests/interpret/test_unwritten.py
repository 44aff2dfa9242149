"""Models that are still to be written: an exercise whose class has no layers yet is not judged by what it lacks."""

from __future__ import annotations

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

EXERCISE = """\
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, size):
        super().__init__()
        # define the layers
    def forward(self, x):
        '''Run the model.'''
        BODY

model = Net(4)
criterion = nn.MSELoss()
for epoch in range(3):
    loss = criterion(model(torch.randn(3, 4)), torch.randn(3, 4))
    loss.backward()
"""


@pytest.mark.parametrize("body", ["return x", "pass", "..."])
def test_an_unfinished_class_is_not_judged(body: str) -> None:
    assert check(from_text(EXERCISE.replace("BODY", body), "exercise.py")).findings == []


def test_a_finished_model_that_records_nothing_is() -> None:
    text = EXERCISE.replace("BODY", "return x.detach() * 2")
    assert [one.code for one in check(from_text(text, "exercise.py")).findings] == ["TAPE103"]


def test_an_identity_within_a_model_is_what_it_is() -> None:
    text = EXERCISE.replace("BODY", "return x").replace(
        "model = Net(4)", "model = nn.Sequential(nn.Linear(4, 4), Net(4))"
    )
    twice = text.replace("    loss.backward()\n", "    loss.backward()\n    loss.backward()\n")
    assert check(from_text(text, "exercise.py")).findings == []
    assert [one.code for one in check(from_text(twice, "exercise.py")).findings] == ["TAPE101"]


PARTS = """\
import torch
from torch import nn

net = nn.Linear(3, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)

def entropy(out):
    OUT

def losses(data):
    out = net(data)
    LOSS
    return loss, entropy(out)

for _ in range(3):
    loss, more = losses(torch.randn(4, 3))
    loss -= 0.1 * more
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


@pytest.mark.parametrize("loss", ["loss = ...", "loss: torch.Tensor = ...", "loss = torch.zeros(1)"])
@pytest.mark.parametrize("out", ["return ...", "made = ...; return torch.mean(made)", "return 0.5"])
def test_a_value_that_is_to_be_written_is_not_judged(loss: str, out: str) -> None:
    found = [one.code for one in check(from_text(PARTS.replace("LOSS", loss).replace("OUT", out), "a.py")).findings]
    assert found == ([] if "..." in loss + out else ["TAPE103"])
