"""Classes that nobody is seen to make: a default of None that the constructor cannot do with is never left to stand.

Without the default the argument is whatever a caller hands in. What is told then is told with the default as well.
"""

from __future__ import annotations

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

HEAD = """\
import torch
from torch import nn
import torch.nn.functional as F


class Trainer:
    def __init__(self, model, {options}):
        self.model = model
        {reads}
        self.opt = torch.optim.SGD(self.model.parameters(), lr=self.lr)

    def train(self, data):
        losses = []
        for x, y in data:
            out = self.model(x)
            loss = F.cross_entropy(out, y)
            self.opt.zero_grad()
            loss.backward()
            {mistake}
            self.opt.step()
        return losses
"""
READS = {
    "attribute": "self.lr = options.lr",
    "kept, then read": "self.options = options\n        self.lr = self.options.lr",
    "item": "self.lr = options['lr']",
    "method": "self.lr = options.get('lr')",
    "unpacked": "self.lr, self.rest = options",
    "called": "self.lr = options()",
    "beside what may be left out": "self.lr = options.lr\n        self.extra = extra",
}
MISTAKES = {
    "second backward": "loss.backward()",
    "kept": "losses.append(loss)",
    "kept, where asked for": "if self.model.training:\n                losses.append(loss)",
}


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("reads", READS)
def test_a_default_that_cannot_be_left_hides_nothing(reads: str, mistake: str) -> None:
    def found(options: str) -> list[tuple[str, int, bool, str]]:
        text = HEAD.format(options=options, reads=READS[reads], mistake=MISTAKES[mistake])
        told = check(from_text(text, "train.py")).findings
        return [(one.code, one.span.line, one.certain, one.severity) for one in told]

    needed = found("options, extra")
    assert needed and all(certain for _, _, certain, _ in needed)
    for given in ("options=None, extra=None", "extra=None, options=None", "*, options=None, extra=None"):
        assert found(given) == needed


STAYS = {
    "or": "self.opt = opt or torch.optim.SGD(self.model.parameters(), lr=0.1)",
    "if else": "self.opt = opt if opt is not None else torch.optim.SGD(self.model.parameters(), lr=0.1)",
    "else if": "self.opt = torch.optim.SGD(self.model.parameters(), lr=0.1) if opt is None else opt",
    "asked first": "if opt is None:\n            opt = torch.optim.SGD(self.model.parameters(), lr=0.1)\n"
    "        self.opt = opt",
    "asked not": "if not opt:\n            opt = torch.optim.SGD(self.model.parameters(), lr=0.1)\n"
    "        self.opt = opt",
    "asked, then read": "if opt is not None:\n            opt.zero_grad()\n"
    "        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.1)",
    "read after or": "opt = opt or torch.optim.SGD(self.model.parameters(), lr=0.1)\n        opt.zero_grad()\n"
    "        self.opt = opt",
}


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("stays", STAYS)
def test_a_default_that_can_stay_stays(stays: str, mistake: str) -> None:
    """With the default the constructor makes what it lacks: what is told then is as certain as without the argument."""

    def found(options: str, reads: str) -> list[tuple[str, bool, str]]:
        text = HEAD.format(options=options, reads=reads, mistake=MISTAKES[mistake])
        text = text.replace("        self.opt = torch.optim.SGD(self.model.parameters(), lr=self.lr)\n", "", 1)
        return [(one.code, one.certain, one.severity) for one in check(from_text(text, "train.py")).findings]

    without = found("extra", "self.opt = torch.optim.SGD(self.model.parameters(), lr=0.1)")
    assert without and all(certain for _, certain, _ in without)
    assert found("opt=None", STAYS[stays]) == without
