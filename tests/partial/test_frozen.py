"""Models that are handed in, learn together, and one of which is run again: whoever made them may have frozen any.

Torch runs each program with each choice of frozen models that it can be run with. What is certain is so with every one.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

torch = pytest.importorskip("torch")

HEAD = """\
import torch
from torch import nn


class Trainer:
    def __init__(self, one, other, optimizer, loader):
        self.one, self.other, self.optimizer, self.loader = one, other, optimizer, loader
        self.head = nn.Linear(4, 4)
        self.total = 0.0

    def train(self):
        {modes}
        for x in self.loader:
            {loss}
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

    def run(self):
        self.train()
        for x in self.loader:
            {use}
"""
LOSSES = {
    "difference": "loss = (self.other(x) - self.one(x)).pow(2).mean()",
    "below": "loss = self.other(self.one(x)).pow(2).mean()",
    "above": "loss = self.one(self.other(x)).pow(2).mean()",
    "sum": "loss = self.one(x).mean() + self.other(x).mean()",
    "joined": "loss = torch.cat([self.one(x), self.other(x)]).pow(2).mean()",
    "head": "loss = self.head(self.one(x)).pow(2).mean()",
    "twice": "out = self.one(x)\n            loss = self.one(out).mean() + out.pow(2).mean()",
    "alone": "loss = self.one(x).pow(2).mean()",
}
MODES = {
    "both": "self.one.train(); self.other.train()",
    "one": "self.one.train(); self.other.eval()",
    "asked": "nn.utils.clip_grad_norm_(self.one.parameters(), 1.0); self.other.train()",
    "neither": "pass",
}
USES = {
    "read": "self.total += self.one(x).argmax(1).sum().item()",
    "kept": "self.total += self.one(x).exp().mean()",
    "kept of a difference": "self.total += (self.one(x) - self.other(x)).exp().mean()",
}


def with_graph(text: str, frozen: tuple[str, ...]) -> bool | None:
    """Return whether the last values of the loop have a graph; None where the program does not run."""
    torch.manual_seed(0)
    names: dict[str, Any] = {}
    recorded: list[bool] = []

    class Model(torch.nn.Linear):
        def forward(self, x: Any) -> Any:
            out = super().forward(x)
            recorded.append(out.requires_grad)
            return out

    models = {name: Model(4, 4).requires_grad_(name not in frozen) for name in ("one", "other")}
    exec(text, names)
    parameters = [parameter for model in models.values() for parameter in model.parameters()]
    loader = [torch.randn(2, 4) for _ in range(3)]
    trainer = names["Trainer"](*models.values(), torch.optim.SGD(parameters, lr=0.1), loader)
    try:
        trainer.train()
    except RuntimeError:
        return None
    recorded.clear()
    trainer.run()
    return any(recorded[-2:] if "self.other(x)).exp()" in text else recorded[-1:])


@pytest.mark.parametrize("loss, modes, use", [*itertools.product(LOSSES, MODES, USES)])
def test_what_a_frozen_model_would_not_do_is_not_certain(loss: str, modes: str, use: str) -> None:
    text = HEAD.format(loss=LOSSES[loss], modes=MODES[modes], use=USES[use])
    choices = itertools.chain.from_iterable(itertools.combinations(("one", "other"), count) for count in range(3))
    truths = {with_graph(text, frozen) for frozen in choices} - {None}
    assert True in truths
    found = [one for one in check(from_text(text, "run.py")).findings if one.code in ("TAPE201", "TAPE302")]
    assert not any(one.certain for one in found) or truths == {True}


@pytest.mark.parametrize("use", ["read", "kept"])
@pytest.mark.parametrize("loss", ["alone", "twice"])
def test_what_alone_has_a_loss_learns(loss: str, use: str) -> None:
    text = HEAD.format(loss=LOSSES[loss], modes=MODES["both"], use=USES[use])
    found = [one for one in check(from_text(text, "run.py")).findings if one.code in ("TAPE201", "TAPE302")]
    assert [(one.span.line, one.certain) for one in found] == [(21 + ("\n" in LOSSES[loss]) + (use == "kept"), True)]
