"""What torchvision makes pictures of, it reads as data: it runs without recording and keeps nothing."""

from __future__ import annotations

import itertools

import pytest

from tapecheck.check import check
from tapecheck.source import from_text
from tests.interpret.truth import nodes_counted

READS = {
    "saved": "save_image(fake, 'fake.png')",
    "saved, by module": "vutils.save_image(fake, 'fake.png', nrow=4)",
    "a grid": "pictures.append(vutils.make_grid(fake, padding=2))",
    "a grid of a list": "pictures.append(make_grid([fake, real]))",
    "shown": "print(torchvision.utils.make_grid(fake).max())",
    "data": "pictures.append(fake.data)",
    "kept": "pictures.append(fake)",
}
PLACES = {
    "after eval": "net.eval()\n    {draw}\n    {read}\n    net.train()",
    "every so many steps": "if step % 2 == 0:\n        {draw}\n        {read}",
}
PROGRAM = """\
import torch
import torchvision
import torchvision.utils as vutils
from torch import nn
from torchvision.utils import make_grid, save_image

net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 9))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
fixed, real, pictures = torch.randn(2, 4), torch.randn(2, 9), []
for step in range(4):
    loss = net(torch.randn(3, 4)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    {sampled}
    del loss
    fake = None
    pass  # count
"""
STUB = """\
import sys, types
import torch
made = types.ModuleType("torchvision.utils")
made.make_grid = torch.no_grad()(lambda *a, **k: torch.cat(a[0]) if isinstance(a[0], list) else a[0] * 1)
made.save_image = torch.no_grad()(lambda *a, **k: None)
whole = types.ModuleType("torchvision")
whole.utils = made
sys.modules.update({"torchvision": whole, "torchvision.utils": made})
"""


def program(read: str, place: str, draw: str = "fake = net(fixed)") -> str:
    return PROGRAM.format(sampled=PLACES[place].format(draw=draw, read=READS[read]))


def found(text: str) -> list[str]:
    return [one.code for one in check(from_text(text, "train.py")).findings]


# Of four steps two keep one: that is not seen to grow.
MANY = [one for one in itertools.product(READS, PLACES) if one != ("kept", "every so many steps")]


@pytest.mark.parametrize(("read", "place"), MANY)
def test_a_sample_that_is_pictured_needs_no_graph(read: str, place: str) -> None:
    assert found(program(read, place)) == (["TAPE201"] if read == "kept" else ["TAPE302"])
    unrecorded = "with torch.no_grad(): fake = net(fixed)"
    assert found(program(read, place, unrecorded)) == []


def test_torch_keeps_no_graph_of_a_picture() -> None:
    programs = {str(key): STUB + program(*key) for key in MANY}
    counted = nodes_counted(programs)
    for key, nodes in counted.items():
        assert (max(nodes) > 0) == key.startswith("('kept'"), (key, nodes)
