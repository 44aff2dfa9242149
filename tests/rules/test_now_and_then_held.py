"""A pass that is made now and then, and that a variable has until the next one: it is told where no backward comes.

Programs are put together out of when the pass is made, what it is read for, and who learns from it. torch runs each,
and hooks tell whether a backward comes to it.
"""

from __future__ import annotations

import itertools

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

torch = pytest.importorskip("torch")

PROGRAM = """\
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
x, total, best, passes, v = torch.ones(3, 2), 0.0, None, [], None
for t in range(12):
    model.train()
    opt.zero_grad()
    loss = {loss}
    loss.backward()
    opt.step()
    if {when}:
        model.eval()
        v = model(x).sum()
        {read}
{after}
"""
WHEN = ["t % 10 == 0", "t == 2 or t == 11", "t > 0 and t % 5 == 0", "not t % 4", "True"]
READ = [
    "total += v.item()",
    "print('%f' % v)",
    "print(f'{v:.3f}')",
    "best = min(best or 9.0, float(v))",
    "total = total + v.detach()",
]
LEARN = {
    "nobody": ("model(x).mean()", "print(total, best)"),
    "the next step": ("model(x).mean() + (v if v is not None else 0.0)", "print(total)"),
    "the end": ("model(x).mean()", "v.backward()"),
    "a weight": ("model(x).mean() * (1.0 if v is None else v.detach())", "print(total)"),
}
PASS = "v = model(x).sum()"
HOOKED = f"{PASS}; passes.append([]); v.register_hook(passes[-1].append)"


def evaluation(when: str, read: str, learns: str) -> str:
    loss, after = LEARN[learns]
    return PROGRAM.format(when=when, read=read, loss=loss, after=after)


@pytest.mark.parametrize(("when", "read", "learns"), [*itertools.product(WHEN, READ, LEARN)])
def test_what_nobody_learns_from_is_told(when: str, read: str, learns: str) -> None:
    text = evaluation(when, read, learns)
    names: dict[str, object] = {}
    try:
        exec(text.replace(PASS, HOOKED), names)
    except RuntimeError as error:
        assert "modified by an inplace operation" in str(error) or "second time" in str(error)
        return
    walked = names["passes"]
    assert isinstance(walked, list)
    told = [one.code for one in check(from_text(text, "train.py")).findings if one.severity == "info"]
    # Of a weight of the loss nobody says that its graph is needless: it may have been meant to be learned.
    assert told == ([] if any(walked) or learns == "a weight" else ["TAPE302"]), text
