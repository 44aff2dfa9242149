"""Evaluations with a framework's means: metrics that are called, models out of a framework's files."""

from __future__ import annotations

import itertools

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

HEAD = """
import torch
import torchmetrics
import {lightning} as pl
from torch import nn
from torchmetrics import ConfusionMatrix, MeanSquaredError


class Lit(pl.LightningModule):
    def __init__(self, model, size{hyper}):
        super().__init__()
        self.save_hyperparameters(ignore=["model"])
        self.model = model
        self.head = nn.Linear(size, 2)

    def forward(self, x):
        return self.head(self.model(x))

    def training_step(self, batch, batch_idx):
        x, y = batch
        return nn.functional.cross_entropy(self(x), y)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.1)


class Finer(Lit):
    pass


net = nn.Linear(4, 3)
data = torch.utils.data.DataLoader(torch.load("data.pt"))
model = Lit(net, 3)
trainer = pl.Trainer(max_epochs=3)
trainer.fit(model, data)
metric = {metric}
"""
EVALUATION = """
model = {made}
model.eval()
for x, y in data:
    out = model(x)
    {measured}
print(metric.compute())
"""
MADE = (
    "Lit(net, 3)", "Lit.load_from_checkpoint('last.ckpt', model=net)",
    "Lit.load_from_checkpoint('last.ckpt', model=net, size=3)",
    "Finer.load_from_checkpoint('last.ckpt', map_location='cpu', strict=False, model=net)",
    "Lit.load_from_checkpoint(trainer.checkpoint_callback.best_model_path, model=net)",
    "model.load_from_checkpoint('last.ckpt', model=net)",
)  # fmt: skip
MEASURED = (
    "metric(out, y)", "metric.update(out, y)", "acc = metric(out, y)", "print(metric(out.argmax(1), y))",
    "pred = out.argmax(1)\n    metric(pred, y)", "metric(preds=out, target=y)",
)  # fmt: skip
METRICS = (
    "ConfusionMatrix(num_classes=2)",
    "torchmetrics.Accuracy()",
    "torchmetrics.classification.F1Score().to('cpu')",
)


def told(text: str) -> list[tuple[str, str]]:
    lines = text.splitlines()
    findings = check(from_text(text, "program.py")).findings
    return [(finding.code, lines[finding.span.line - 1].strip()) for finding in findings]


@pytest.mark.parametrize(("made", "measured"), [*itertools.product(MADE, MEASURED)])
def test_an_evaluation_builds_graphs_for_nothing(made: str, measured: str) -> None:
    metric = METRICS[len(made + measured) % len(METRICS)]
    text = HEAD.format(lightning="lightning", hyper=", depth=2", metric=metric)
    text += EVALUATION.format(made=made, measured=measured)
    assert told(text) == [("TAPE302", "for x, y in data:")]
    within = text.replace(
        "for x, y in data:\n    out = model(x)", "for x, y in data:\n    with torch.no_grad():\n        out = model(x)"
    )
    assert told(within) == []


@pytest.mark.parametrize("lightning", ["lightning", "pytorch_lightning", "lightning.pytorch"])
@pytest.mark.parametrize("made", MADE[1:])
def test_a_model_out_of_a_checkpoint_is_one_of_its_class(lightning: str, made: str) -> None:
    text = HEAD.format(lightning=lightning, hyper="", metric="None")
    text += f"model = {made}\nloss = model(torch.ones(2, 4)).sum()\nloss.backward()\nloss.backward()\n"
    assert "TAPE101" in [code for code, _ in told(text)]
    changed = text.replace("loss.backward()\nloss.backward()", "model.head.weight.mul_(2)")
    assert ("TAPE104", "model.head.weight.mul_(2)") in told(changed)


@pytest.mark.parametrize("use", ["loss.backward()", "(loss * 2).backward()", "(loss + out.sum()).backward()"])
def test_what_a_metric_gives_may_be_a_loss(use: str) -> None:
    text = HEAD.format(lightning="lightning", hyper="", metric="MeanSquaredError()")
    text += f"for x, y in data:\n    out = model(x)\n    loss = metric(out, y)\n    {use}\n"
    assert not {"TAPE103", "TAPE302"} & {code for code, _ in told(text)}
