"""Objects that are handed in and told to train or to evaluate: modules, or datasets and others with such methods.

Torch runs each program with a module and with an object that has its methods and no parameters. What is found is
possible, and its fix not safe; nothing is found of a call without anything that may be a tensor.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tapecheck.check import check
from tapecheck.fixes import fixes_for
from tapecheck.source import Source, from_text

torch = pytest.importorskip("torch")

HEAD = """\
import json

import torch
from torch import nn


class Meter:
    def __init__(self, thing, loader):
        self.thing, self.loader = thing, loader

    def measure(self):
        {before}
        self.total = 0
        for i, x in enumerate(self.loader):
            self.total += {call}.exp().mean()
        print(self.total / 3)
        {after}

    def other(self):
        {other}
"""
TOLD = {
    "eval": {"before": "self.thing.eval()"},
    "train": {"before": "self.thing.train()"},
    "train(False)": {"before": "self.thing.train(False)"},
    "saved": {"before": "torch.save(self.thing.state_dict(), 'thing.pt')"},
    "eval elsewhere": {"other": "self.thing.eval()"},
    "train elsewhere": {"other": "self.thing.train()"},
    "afterwards": {"before": "self.thing.eval()", "after": "self.thing.train()"},
}
CALLED = {
    "a tensor": "self.thing(x)",
    "by name": "self.thing(x=x)",
    "forward": "self.thing.forward(x)",
    "keywords": "self.thing(**{name: x for name in json.loads('[\"x\"]')})",
    "keywords of forward": "self.thing.forward(**{name: x for name in json.loads('[\"x\"]')})",
    "an index": "self.thing(i)",
    "a constant": "self.thing(3)",
    "nothing": "self.thing()",
    "a method": "self.thing.score(x)",
    "an item": "self.thing[i]",
}
NO_TENSOR = ("an index", "a constant", "nothing", "an item")


class Computing:
    """What has the methods of a module, and no parameters."""

    def train(self, mode: bool = True) -> None: ...

    eval = train

    def state_dict(self) -> dict[str, Any]:
        return {}

    def __call__(self, x: Any = 1) -> Any:
        return torch.as_tensor(x, dtype=torch.float32) * 2

    forward = score = __getitem__ = __call__


class Learning(torch.nn.Linear):
    """A module."""

    def __init__(self) -> None:
        super().__init__(4, 4)

    def forward(self, x: Any = 1) -> Any:
        return super().forward(x if isinstance(x, torch.Tensor) else torch.ones(4))

    score = __getitem__ = forward


def program(told: str, called: str, **more: str) -> str:
    return HEAD.format(
        **{"before": "pass", "after": "pass", "other": "pass", **TOLD[told], **more}, call=CALLED[called]
    )


def has_graph(text: str, thing: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(text, names)
    meter = names["Meter"](thing, [torch.randn(2, 4) for _ in range(3)])
    meter.measure()
    return isinstance(meter.total, torch.Tensor) and meter.total.grad_fn is not None


def found(text: str) -> list[tuple[str, bool, bool]]:
    """Return what is found, each with whether it is certain and whether a fix of it is safe."""
    source: Source = from_text(text, "meter.py")
    report = check(source)
    safe = {
        id(finding): any(fix.applicability == "safe" for fix in fixes_for(report, finding))
        for finding in report.findings
    }
    return [(one.code, one.certain, safe[id(one)]) for one in report.findings]


@pytest.mark.parametrize("told, called", [*itertools.product(TOLD, CALLED)])
def test_what_may_be_no_module_makes_nothing_certain(
    told: str, called: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = program(told, called)
    assert has_graph(text, Learning(), tmp_path, monkeypatch)
    assert not has_graph(text, Computing(), tmp_path, monkeypatch)
    told_of = found(text)
    assert [one for one in told_of if one[1] or one[2]] == []
    assert not told_of or called not in NO_TENSOR


@pytest.mark.parametrize("called", ["a tensor", "keywords", "keywords of forward"])
@pytest.mark.parametrize("told", [*TOLD])
def test_what_is_called_with_a_tensor_is_taken_for_a_module(told: str, called: str) -> None:
    assert ("TAPE201", False, False) in found(program(told, called))


@pytest.mark.parametrize("told", ["eval", "train"])
def test_what_is_asked_for_its_parameters_is_a_module(told: str) -> None:
    asked = "torch.optim.SGD(self.thing.parameters(), lr=0.1)"
    assert ("TAPE201", False, True) in found(program(told, "an index", other=asked))


def test_a_backward_shows_that_it_is_a_module() -> None:
    """Nothing else went into the loss."""
    text = program("train", "a tensor").replace(
        "self.total += self.thing(x).exp().mean()",
        "loss = self.thing(x).exp().mean()\n            loss.backward()\n            self.total += loss",
    )
    report = check(from_text(text, "meter.py"))
    assert [one.code for one in report.findings if one.code == "TAPE201"] == ["TAPE201"]
    assert [
        on.kind for one in report.findings if one.code == "TAPE201" for on in one.rests_on if on.kind == "module"
    ] == []
