"""Loops that go through data with a model, and hand what it computes to code that is not visible.

What that code does decides whether the graphs are needless. Torch runs each program with code that only looks, and
with code that learns wherever it comes to a graph: a finding is there where the first needs no graph and hardly anybody
writes the second, and it is a possible one.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

torch = pytest.importorskip("torch")

HEAD = """\
import hidden
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 8)
        self.last = nn.Linear(8, 2)

    def forward(self, x):
        {forward}

model = Net()
{before}
{mode}
total = 0.0
for step in range(3):
    x = torch.randn(4, 3{leaf})
    out = model(x)
    total += out.mean().item()
    {use}
print(total)
{after}
"""
LOOP = HEAD[: HEAD.index("for step")].count("\n") + 1
PLAIN = "return self.last(self.first(x).relu())"
MODES = {
    "evaluating": "model.eval()",
    "train(False)": "model.train(False)",
    "training": "model.train()",
    "neither": "pass",
    "back to training": "model.eval()\nmodel.train()",
}
HANDED = {
    "the output": {"use": "total += hidden.score(out)"},
    "a loss": {"use": "total += hidden.score(out.pow(2).mean())"},
    "a part": {"use": "total += hidden.score(out[0])"},
    "beside data": {"use": "right = hidden.score(out, x)"},
    "for a condition": {"use": "if hidden.score(out) > 1:\n        print(step)"},
    "to an object that is called": {"before": "meter = hidden.Meter()", "use": "total += meter(out)"},
}
"""What gives hidden code a graph of the loop, and reads what it makes of that."""
ELSEWHERE = {
    "by a forward": {"forward": "return self.last(hidden.arranged(self.first(x)))"},
    "last in a forward": {"forward": "return hidden.arranged(self.last(self.first(x)))"},
    "the model before": {"before": "hidden.describe(model)"},
    "the model behind": {"after": "hidden.describe(model)"},
    "an object with the model before": {"before": "shown = hidden.Shown(model)"},
}
"""What gives it none, or one in the middle of a pass: whatever mode the model is in, it is hardly learned from."""
LEARNS = {
    "the output, for its effect": {"use": "hidden.score(out)"},
    "the output, to a method": {"before": "meter = hidden.Meter()", "use": "meter.update(out)"},
    "the model": {"use": "hidden.describe(model)"},
    "an object with the model": {"before": "shown = hidden.Shown(model)", "use": "hidden.score(shown)"},
    "to an object with the model": {"before": "shown = hidden.Shown(model)", "use": "shown.look(x)"},
    "an input that learns": {"leaf": ", requires_grad=True", "use": "hidden.score(out)"},
    "kept and handed on": {
        "before": "kept = []",
        "use": "kept.append(out)",
        "after": "model.train()\nhidden.score(kept)",
    },
}
"""What makes it likely that it learns, or differentiates, in whatever mode."""


def program(mode: str, **parts: str) -> str:
    plain = {"forward": PLAIN, "before": "pass", "use": "pass", "leaf": "", "after": "pass"}
    return HEAD.format(mode=MODES[mode], **plain | parts)


def told(text: str) -> list[tuple[int, bool]]:
    """Return the lines of the needless graphs that are told, each with whether it is certain."""
    found = check(from_text(text, "program.py")).findings
    return [(one.span.line, one.certain) for one in found if one.code == "TAPE302"]


def ran(text: str, *, learns: bool, grad: bool) -> str:
    """Return what a program prints with hidden code of one kind, or how it fails."""

    def score(value: Any, _: Any = None) -> float:
        if learns:
            value.sum().backward(retain_graph=True)
        return float(value.sum().item())

    hidden: Any = ModuleType("hidden")
    hidden.score, hidden.arranged, hidden.describe = score, lambda value: value * 1, lambda model: None
    hidden.Meter, hidden.Shown = lambda: score, lambda model: None
    said: list[float] = []
    sys.modules["hidden"] = hidden
    torch.manual_seed(0)
    try:
        with torch.set_grad_enabled(grad):
            exec(compile(text, "program", "exec"), {"print": said.append})
    except RuntimeError as error:
        return str(error)[:40]
    finally:
        del sys.modules["hidden"]
    return repr(said)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", HANDED)
def test_what_is_handed_a_graph_is_taken_to_look_where_a_model_evaluates(name: str, mode: str) -> None:
    text = program(mode, **HANDED[name])
    evaluates = mode in ("evaluating", "train(False)")
    assert told(text) == ([(LOOP, False)] if evaluates else []), text


HIDDEN = """\
model = hidden.make()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    model(torch.randn(4, 3)).pow(2).mean().backward()
    optimizer.step()
"""
"""A model whose class is not visible, which learns first."""


def of_hidden_model(mode: str, parts: dict[str, str]) -> tuple[str, int]:
    """Return a program whose model is hidden, and the line of its loop."""
    text = program(mode, **parts | {"before": HIDDEN + parts.get("before", "")})
    return text, text[: text.index("for step")].count("\n") + 1


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", HANDED)
def test_a_model_that_is_hidden_is_told_to_evaluate_like_any_other(name: str, mode: str) -> None:
    text, loop = of_hidden_model(mode, HANDED[name])
    evaluates = mode in ("evaluating", "train(False)")
    assert told(text) == ([(loop, False)] if evaluates else []), text


@pytest.mark.parametrize("mode", ("evaluating", "neither"))
@pytest.mark.parametrize("name", LEARNS)
def test_nothing_is_told_of_a_hidden_model_that_hidden_code_may_train(name: str, mode: str) -> None:
    text, _ = of_hidden_model(mode, LEARNS[name])
    assert told(text) == [], text


@pytest.mark.parametrize("mode", ("evaluating", "neither"))
@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_has_no_graph_of_the_loop_leaves_a_possible_finding(name: str, mode: str) -> None:
    text = program(mode, **ELSEWHERE[name])
    assert told(text) == [(LOOP, False)], text


@pytest.mark.parametrize("mode", ("evaluating", "neither"))
@pytest.mark.parametrize("name", LEARNS)
def test_nothing_is_told_where_hidden_code_is_likely_to_differentiate(name: str, mode: str) -> None:
    text = program(mode, **LEARNS[name])
    assert told(text) == [], text


@pytest.mark.parametrize("name", (*HANDED, *ELSEWHERE))
def test_what_is_told_is_true_of_code_that_looks(name: str) -> None:
    text = program("evaluating", **(HANDED | ELSEWHERE)[name])
    assert ran(text, learns=False, grad=True) == ran(text, learns=False, grad=False) != "[]"
    if name in HANDED:
        # It is possible for a reason.
        assert ran(text, learns=True, grad=True) != ran(text, learns=True, grad=False)
