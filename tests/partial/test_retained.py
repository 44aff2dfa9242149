"""Losses that code which is not visible has a part in, retained by each of their backwards.

Torch runs each program without one `retain_graph=True` after the other: where it raises, the argument is needed and
nothing is said. Where it is not, that is possible at most, since hidden code which keeps what it has computed needs it.
"""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

torch = pytest.importorskip("torch")

HEAD = """\
import hidden
import torch
from torch import nn

torch.manual_seed(0)
trunk, head, other = nn.Linear(3, 8), nn.Linear(8, 2), nn.Linear(8, 2)
optimizer = torch.optim.SGD([*trunk.parameters(), *head.parameters(), *other.parameters()], lr=0.0)
"""
LOSSES = {
    "criterion": "hidden.criterion(%s)",
    "criterion's part": "hidden.criterion(%s)[0]",
    "criterion and more": "hidden.criterion(%s) + %s.abs().mean()",
    "sum of two": "hidden.criterion(%s) + hidden.criterion(%s)",
    "weighed": "hidden.settings.weight * %s.pow(2).mean()",
    "divided": "%s.pow(2).mean() / hidden.settings.weight",
    "weighed criterion": "hidden.settings.weight * hidden.criterion(%s)",
    "weighed sum": "%s.mean() + hidden.settings.weight * %s.pow(2).mean()",
}
RUN = ".sum().backward(retain_graph=True)"
PASS = "h = trunk(torch.randn(4, 3)).tanh()"
SHAPES = {
    "one": [PASS, f"({{head}}){RUN}"],
    "two of one pass": [PASS, "first = {head}", "second = {other}", f"first{RUN}", f"second{RUN}"],
    "two, the second made later": [PASS, f"({{head}}){RUN}", f"({{other}}){RUN}"],
    "two passes": [PASS, f"({{head}}){RUN}", PASS, f"({{other}}){RUN}"],
    "cut between": [PASS, f"({{head}}){RUN}", "h = h.detach()", f"({{other}}){RUN}"],
    "cut before": [f"whole = {PASS}", "h = whole.detach()", f"({{head}}){RUN}", "h = whole", f"({{other}}){RUN}"],
    "the same again": [PASS, "loss = {head}", f"loss{RUN}", f"loss{RUN}"],
}
BODIES = {
    "loop": "for step in range(3):\n    optimizer.zero_grad()\n%s\n    optimizer.step()\n",
    "function": "def train(steps):\n    for step in range(steps):\n        optimizer.zero_grad()\n%s\n"
                "        optimizer.step()\n\ntrain(3)\n",
}  # fmt: skip


def program(loss: str, shape: str, body: str) -> str:
    """Return a program in which hidden code has a part in each loss."""
    formed = {name: LOSSES[loss].replace("%s", f"{name}(h)") for name in ("head", "other")}
    indent = "    " if body == "loop" else "        "
    lines = [indent + line.format(**formed) for line in SHAPES[shape]]
    return HEAD + BODIES[body] % "\n".join(lines)


class _Loss:
    """What stands for a hidden criterion: it computes anew, or adds nothing of what it has computed before."""

    def __init__(self, keeps: bool) -> None:
        self._keeps = keeps
        self._last: Any = None

    def __call__(self, x: Any) -> Any:
        loss = x.pow(2).mean().tanh().reshape(1)
        if self._last is not None and self._keeps:
            loss = loss + 0 * self._last
        self._last = loss.exp()
        return loss


def raises(text: str, keeps: bool) -> bool:
    """Return whether torch raises, where hidden code keeps what it has computed, or does not."""
    hidden: Any = ModuleType("hidden")
    hidden.criterion = _Loss(keeps)
    weight = torch.ones(1, requires_grad=True).exp().exp() if keeps else 2.0
    hidden.settings = SimpleNamespace(weight=weight)
    before = sys.modules.get("hidden")
    sys.modules["hidden"] = hidden
    try:
        exec(compile(text, "retained.py", "exec"), {})
    except RuntimeError as error:
        assert "second time" in str(error)
        return True
    finally:
        del sys.modules["hidden"]
        if before is not None:
            sys.modules["hidden"] = before
    return False


def without(text: str, line: int) -> str:
    """Return a program without the argument of the call on a line."""
    lines = text.split("\n")
    lines[line - 1] = lines[line - 1].replace("retain_graph=True", "")
    return "\n".join(lines)


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("loss", LOSSES)
def test_what_torch_needs_is_not_told_and_the_rest_is_possible(loss: str, shape: str, body: str) -> None:
    text = program(loss, shape, body)
    assert not raises(text, keeps=False)
    told = {one.span.line: one.certain for one in check(from_text(text, "train.py")).findings if one.code == "TAPE301"}
    places = [number for number, line in enumerate(text.split("\n"), 1) if "retain_graph=True" in line]
    assert told.keys() == {line for line in places if not raises(without(text, line), keeps=False)}
    assert not any(certain and raises(without(text, line), keeps=True) for line, certain in told.items())


@pytest.mark.parametrize(
    "lines",
    [
        "def step(fake):\n    head(fake).mean().backward(retain_graph=True)",
        "def step(criterion, fake):\n    criterion(fake).mean().backward(retain_graph=True)",
        "def step(criterion, fake):\n    criterion(head(fake)).mean().backward(retain_graph=True)",
        "def step(loss, fake):\n    (loss(head(torch.ones(8))) + loss(fake)).backward(retain_graph=True)",
        "def step(first, second):\n    first.backward(retain_graph=True)\n    second.backward(retain_graph=True)",
        "def step(more):\n    (trunk(torch.ones(3)).mean() + more).backward(retain_graph=True)",
        "def step(terms):\n    for term in terms:\n        term.backward(retain_graph=True)",
        "def step(model):\n    model(torch.ones(3)).sum().backward(retain_graph=True)\n    print(model.explained())",
        "def step(self):\n    (self.first + self.second).backward(retain_graph=True)\n    self.first.backward()",
    ],
)
def test_a_graph_that_was_there_before_is_left_to_the_caller(lines: str) -> None:
    found = check(from_text(f"{HEAD}\n{lines}\n", "train.py")).findings
    assert [one.code for one in found if one.code == "TAPE301"] == []
