"""A loop whose iterations take more than the work that is left is left early, and what is behind it is seen."""

from __future__ import annotations

from itertools import product

import pytest

from tapecheck.check import Report, check
from tapecheck.interpret import limits
from tapecheck.source import from_text
from tapecheck.tape import Assumed, Tape

PROGRAM = """\
import torch
from torch import nn

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
done, kept, names = False, None, []
{head}
    for step in range(8):
        loss = model(torch.randn(2, 4)).tanh().exp().sin().mul(2).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    count = len(names)
    if count == 1:
        done = True
    names.append(count)
    kept = model(torch.ones(4)).sum() if kept is None else kept.detach()
if {asked}:
{behind}
"""
HEADS = ("for seed in range(4):", "for seed in (1, 2, 3, 4):", "while len(names) < 4:", "while not len(names) > 3:")
ASKED = (
    "True",
    "not done",
    "done",
    "len(names) > 1",
    "len(names) == 1",
    "kept.requires_grad",
    "count == 0",
    "step == 7",
)
ERROR = "    total = model(torch.ones(4)).sum()\n    total.backward()\n    total.backward()"
EVALUATION = """\
    right = 0
    for batch in torch.randn(9, 2, 4):
        right += (model(batch) > 0).sum().item()
    print(right)
"""
RETAINED = """\
import torch
from torch import nn

model = nn.Linear(4, 1)
w = torch.ones(2, requires_grad=True)
first = (w * w).sum()
for number in range(4):
    for step in range(8):
        loss = model(torch.randn(2, 4)).tanh().exp().sin().mul(2).sum()
        loss.backward()
    if number == 0:
        first.backward(retain_graph=True)
    elif {second}:
        first.backward()
        first = (w * w).sum()
"""
BUDGETS = (600, 500, 450, 400, 350, 300, 250)


def _checked(text: str) -> Report:
    return check(from_text(text, "train.py"))


@pytest.mark.parametrize(("head", "asked"), [*product(HEADS, ASKED)])
def test_what_is_behind_a_heavy_loop_is_no_error_and_never_certain(
    head: str, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for behind in (ERROR, EVALUATION):
        text = PROGRAM.format(head=head, asked=asked, behind=behind)
        whole = {finding.key for finding in _checked(text).findings if finding.certain}
        for budget in BUDGETS:
            with monkeypatch.context() as patched:
                patched.setattr(limits, "RUN_BUDGET", budget)
                findings = _checked(text).findings
            loud = [finding for finding in findings if finding.certain or finding.severity != "info"]
            assert {finding.key for finding in loud} <= whole, (budget, text)


@pytest.mark.parametrize("head", HEADS)
def test_an_evaluation_behind_a_heavy_loop_is_found(head: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = PROGRAM.format(head=head, asked="True", behind=EVALUATION)
    line = text[: text.index("    for batch")].count("\n") + 1
    whole = _checked(text)
    assert ("TAPE302", line) in {(finding.code, finding.span.line) for finding in whole.findings}
    found = []
    for budget in BUDGETS:
        # None of them is enough for three iterations.
        monkeypatch.setattr(limits, "RUN_BUDGET", budget)
        report = _checked(text)
        told = {(finding.code, finding.span.line): finding.certain for finding in report.findings}
        found.append((report.interpretation.exhausted, told.get(("TAPE302", line))))
    assert (False, False) in found and (False, True) not in found[1:], found


@pytest.mark.parametrize("second", ["number == 1", "number > 0", "number == 3"])
def test_a_graph_that_a_later_round_needs_is_kept_for_it(second: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = RETAINED.format(second=second)
    assert not [finding for finding in _checked(text).findings if finding.code == "TAPE301"]
    stopped = 0
    for budget in BUDGETS:
        monkeypatch.setattr(limits, "RUN_BUDGET", budget)
        report = _checked(text)
        assert "TAPE301" not in {finding.code for finding in report.findings}, budget
        stopped += any(one.kind == "rounds" for tape in report.interpretation.tapes for one in _assumed(tape))
    assert stopped


def _assumed(tape: Tape) -> list[Assumed]:
    return [event for event in tape.events if isinstance(event, Assumed)]
