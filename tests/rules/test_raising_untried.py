"""Conditions that the work limit has left untried: what may lead past an exception takes its certainty, no others.

Each program is checked whole and with no work for further ways: what is certain then is certain of the whole.
"""

from __future__ import annotations

import itertools

import pytest

from tapecheck.check import check
from tapecheck.interpret import limits
from tapecheck.source import from_text

CONDITIONS = {
    "file": "open('settings').read() == 'yes'",
    "data": "float(torch.randn(3).sum()) > 0",
    "environment": "len(__import__('os').listdir('.')) > 7",
    "both": "open('a').read() and torch.rand(1).item() > 0.5",
}
MISTAKES = {
    "TAPE101": ("loss = model(x).sum()\n    loss.backward()", "loss.backward()"),
    "TAPE102": ("h = model(x).exp()", "h.add_(1)\n    h.sum().backward()"),
    "TAPE103": ("h = model(x)", "h.detach().sum().backward()"),
    "TAPE104": ("w = model.weight", "w.mul_(2)"),
    "TAPE105": ("h = model(x)", "h.sum().backward()\n    print(h.grad.norm())"),
}
"""What makes each exception possible, and what raises it, by the rule that tells it."""
FORMS = {
    "around": "{first}\n    if flag:\n        {second}\n",
    "in front": "{first}\n    if flag:\n        continue\n    {second}\n",
    "another value": "{first}\n    x = x if flag else x * 2\n    {second}\n",
    "for the log": "{first}\n    if flag:\n        print('on')\n    {second}\n",
}
LAYERS = {
    "one layer": "model = nn.Linear(4, 4)",
    "chosen": "model = (nn.Linear if FLAG else Frozen)(4, 4)",
}
PROGRAM = """\
import torch
from torch import nn


class Frozen(nn.Linear):
    def forward(self, x):
        return super().forward(x).detach().requires_grad_()


FLAG = {condition}
{layer}
for step in range(4):
    flag = {condition}
    x = torch.randn(2, 4)
    {body}
"""


def _certain(text: str) -> set[tuple[str, int]]:
    findings = check(from_text(text, "program.py")).findings
    return {(one.code, one.span.line) for one in findings if one.certain and one.code[:5] == "TAPE1"}


def _program(condition: str, form: str, mistake: str, layer: str) -> str:
    first, second = MISTAKES[mistake]
    inner = second.replace("\n", "\n    ") if form == "around" else second
    body = FORMS[form].format(first=first, second=inner)
    return PROGRAM.format(condition=CONDITIONS[condition], layer=LAYERS[layer], body=body)


@pytest.mark.parametrize(("form", "mistake", "layer"), list(itertools.product(FORMS, MISTAKES, LAYERS)))
def test_what_is_certain_without_further_ways_is_certain_of_the_whole(
    form: str, mistake: str, layer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = [_program(condition, form, mistake, layer) for condition in CONDITIONS]
    whole = [_certain(text) for text in programs]
    for name in ("FURTHER_WORK", "FURTHER_TIMES", "PROBE_TIMES"):
        monkeypatch.setattr(limits, name, 0)
    for text, certain in zip(programs, whole, strict=True):
        assert _certain(text) <= certain, text


def test_a_condition_that_matters_to_no_graph_takes_no_certainty(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FURTHER_WORK", "FURTHER_TIMES", "PROBE_TIMES"):
        monkeypatch.setattr(limits, name, 0)
    text = _program("file", "for the log", "TAPE101", "one layer")
    assert [code for code, _ in _certain(text)] == ["TAPE101"]


ROUNDS = {
    "left": "for _ in range(4):\n    loss.backward()\n    if {}:\n        break\n",
    "left, by a function": "def back():\n    loss.backward()\nback()\nif {}:\n    raise SystemExit\nback()\n",
    "changed": "for h in hs:\n    h.sum().backward(retain_graph=True)\n    if {}:\n        break\n    hs[1].add_(1)\n",
    "left, in a loop": "while True:\n    loss.backward()\n    if {}:\n        break\n    print(loss)\n",
}
"""What raises where it has been passed before, unless the answer to a condition between the two leads elsewhere."""


@pytest.mark.parametrize(("kind", "condition"), [*itertools.product(ROUNDS, CONDITIONS)])
def test_a_condition_between_two_times_at_a_place_counts(
    kind: str, condition: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = "import torch\nw = torch.ones(3, requires_grad=True)\nloss, hs = (w * w).sum(), [w.exp(), w.exp()]\n"
    text = made + ROUNDS[kind].format(CONDITIONS[condition])
    whole = _certain(text)
    for name in ("FURTHER_WORK", "FURTHER_TIMES", "PROBE_TIMES"):
        monkeypatch.setattr(limits, name, 0)
    assert _certain(text) <= whole
