"""TAPE104: a leaf that requires grad is changed in place outside no_grad."""

from __future__ import annotations

from collections.abc import Sequence

from tapecheck.rules.finding import Finding, Label
from tapecheck.rules.reading import Reading
from tapecheck.rules.rule import Example, Rule
from tapecheck.rules.words import called_from, headline, quoted, span_facts
from tapecheck.tape import InPlace


class LeafInplace(Rule):
    """A leaf tensor that requires grad (a parameter, or an input made with `requires_grad=True`) or a view of
    one is changed in place while autograd records. PyTorch raises "a leaf Variable that requires grad is
    being used in an in-place operation" ("a view of a leaf Variable ..." for a view).

    ## Why PyTorch does that

    A recorded in-place change would turn the leaf into the result of an operation: it would no longer be the
    tensor whose `.grad` is filled and that the optimizer knows. PyTorch refuses instead of guessing.

    ## What to do

    - For an update or an initialisation, put the change under `with torch.no_grad():`, or use
      `torch.nn.init`, which does that itself.
    - If the change is part of the computation, make a new tensor: `y = w * mask` instead of `w *= mask`.

    Writing through `.data` works too, but hides the change from the checks that would find a wrong gradient.

    ## What is not a finding

    - In-place changes under `torch.no_grad()`, `optimizer.step()`, and functions of `torch.nn.init`.
    - In-place changes of tensors that are results of operations (those are recorded).
    """

    code = "TAPE104"
    name = "leaf-inplace"
    severity = "error"
    raises = True
    summary = "A leaf that requires grad is changed in place while autograd records"

    VALID = (
        Example(
            "The update runs under no_grad",
            """\
import torch

w = torch.zeros(3, requires_grad=True)
x, y = torch.randn(20, 3), torch.randn(20)
for step in range(5):
    loss = (x @ w - y).pow(2).mean()
    loss.backward()
    with torch.no_grad():
        w -= 0.1 * w.grad
    w.grad = None
""",
        ),
        Example(
            "The bias is set by torch.nn.init and under no_grad",
            """\
import torch
from torch import nn

head = nn.Conv2d(8, 4, 1)
nn.init.constant_(head.bias, -4.6)
with torch.no_grad():
    head.bias[0] = 0.5
loss = head(torch.randn(1, 8, 2, 2)).pow(2).mean()
loss.backward()
""",
        ),
    )
    INVALID = (
        Example(
            "The update is written without no_grad",
            """\
import torch

w = torch.zeros(3, requires_grad=True)
x, y = torch.randn(20, 3), torch.randn(20)
for step in range(5):
    loss = (x @ w - y).pow(2).mean()
    loss.backward()
    w -= 0.1 * w.grad
""",
            line=8,
            raises="a leaf Variable that requires grad is being used in an in-place operation",
        ),
        Example(
            "The bias of a detection head is initialised through a view",
            """\
import math

import torch
from torch import nn

head = nn.Conv2d(8, 12, 1)
bias = head.bias.view(3, -1)
bias[:, 2] += math.log(8 / 640)
head.bias = nn.Parameter(bias.view(-1), requires_grad=True)
""",
            line=8,
            raises="a view of a leaf Variable that requires grad is being used in an in-place operation",
        ),
    )

    def judge(self, readings: Sequence[Reading]) -> list[Finding]:
        findings = []
        for reading in readings:
            for _, change in reading.changes:
                if change.leaf is not None and change.grad_mode == "yes" and change.bumps != "no":
                    if change.optimizer is None:
                        findings.append(self._finding(readings, reading, change))
        return findings

    def _finding(self, readings: Sequence[Reading], reading: Reading, change: InPlace) -> Finding:
        home = change.at.span
        leaf = reading.ledger.leaves.get(change.leaf) if change.leaf is not None else None
        name = (leaf.name if leaf is not None else "") or change.name
        certain = change.bumps == "yes" and all(
            any(
                other.at.span == home and other.leaf is not None and other.grad_mode == "yes"
                for _, other in far.changes
            )
            for far in readings
            if any(other.at.span == home for _, other in far.changes)
        )
        on_view = change.on_view and (leaf is None or change.name != leaf.name)
        labels = []
        if leaf is not None and leaf.at.span != home:
            what = "parameter" if leaf.parameter else "leaf that requires grad"
            labels.append(Label(leaf.at.span, f"{quoted(name, 'it')} is created here, a {what}", "built"))
        labels += called_from(reading, change.at, change.at)
        return Finding(
            self.code, self.name, self.severity, home, _headline(name, on_view, certain),
            f"put the change under `with torch.no_grad():`, or make a new tensor instead of changing "
            f"{quoted(name, 'the leaf')}",
            tuple(labels), certain,
            facts={"name": name, "how": change.how, "on_view": change.on_view, "change": span_facts(home)},
        )  # fmt: skip


def _headline(name: str, on_view: bool, certain: bool) -> str:
    update = "in-place update" if certain else "possible in-place update"
    if not name:
        return f"{update} of a {'view of a ' if on_view else ''}leaf outside `torch.no_grad()`"
    if on_view:
        forms = [update + " of a view of leaf `{}` outside `torch.no_grad()`"]
        return headline([*forms, update + " of a view of `{}` outside `torch.no_grad()`"], name)
    return headline(update + " of leaf `{}` outside `torch.no_grad()`", name)
