"""A name that nothing defines may be anything once it is defined: less is found than where a hidden module has it."""

from __future__ import annotations

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

IMPORTED = "from hidden import given\n"
PROGRAM = """\
import torch
from torch import nn

net, head = nn.Linear(3, 3), nn.Linear(3, 1)
shifts = [torch.zeros(3, requires_grad=True) for _ in range(2)]
optimizer = torch.optim.SGD([*head.parameters(), *shifts], lr=0.1)
bound = sum(s.norm() for s in shifts).item()
for x in torch.randn(10, 4, 3):
    USED
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
USED = {
    "computes the loss": "loss = given(net(x) + bound)",
    "computes a part of it": "loss = net(x).pow(2).mean() + given(bound)",
    "computes with a module": "loss = given.loss(head, x.detach()).detach() + net(x).sum()",
    "moves": "net.bias.data = given(net.bias); loss = net(x).sum()",
    "moves by its object": "given.apply(optimizer); loss = net(x).sum() * bound",
    "has the model": "given(head); loss = net(x).mean()",
    "wraps it": "loss = given(head)(net(x).detach()).mean()",
    "is a context": "with given(head):\n        loss = net(x).mean()",
}


@pytest.mark.parametrize("used", USED.values(), ids=USED)
def test_what_nothing_defines_is_code_that_is_not_visible(used: str) -> None:
    body = PROGRAM.replace("USED", used)
    hidden, undefined = (
        {(one.code, one.certain) for one in check(from_text(text, "train.py")).findings}
        for text in (IMPORTED + body, body)
    )
    assert {code for code, _ in undefined} <= {code for code, _ in hidden}
    assert not any(certain for _, certain in undefined)
