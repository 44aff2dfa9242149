"""The conditions that lead to a finding are told wherever other ways through the program do without it."""

from __future__ import annotations

import textwrap

from tapecheck.check import check
from tapecheck.rules import Finding
from tapecheck.source import from_text

HEAD = """\
import sys
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
first, second = "--first" in sys.argv, "--second" in sys.argv
"""


def findings(body: str) -> dict[str, Finding]:
    return {finding.code: finding for finding in check(from_text(HEAD + textwrap.dedent(body), "train.py")).findings}


def conditions(finding: Finding) -> list[tuple[int, str]]:
    return [
        (label.span.line - HEAD.count("\n"), label.message.removeprefix("this happens where "))
        for label in finding.labels
        if label.role == "condition"
    ]


def test_a_condition_away_from_the_line_is_told() -> None:
    found = findings("""\
        losses = []
        for step in range(5):
            loss = model(torch.randn(3, 4)).exp().mean()
            if first:
                loss = loss.detach()
            if second:
                losses.append(loss)
        """)
    # That the line stands under `if second` is there to see.
    assert conditions(found["TAPE201"]) == [(4, "`first` is false")]


def test_both_conditions_are_told_where_it_takes_both() -> None:
    found = findings("""\
        for step in range(5):
            out = model(torch.randn(3, 4))
            out.mean().backward(retain_graph=True)
            if first:
                if second:
                    optimizer.step()
            out.exp().mean().backward()
            optimizer.zero_grad()
        """)
    assert conditions(found["TAPE102"]) == [(4, "`first` is true"), (5, "`second` is true")]
    assert found["TAPE102"].certain is False


def test_the_answer_that_counts_is_told_by_its_turn() -> None:
    found = findings("""\
        state = torch.zeros(3, 1)
        for step in range(5):
            state = model(torch.randn(3, 4)) + state
            state.exp().mean().backward()
            if torch.rand(()) > 0.5:
                state = state.detach()
        """)
    assert found["TAPE101"].certain is False
    ((line, told),) = conditions(found["TAPE101"])
    assert line == 5 and "is false" in told


def test_what_every_way_shows_has_no_condition() -> None:
    found = findings("""\
        loss = model(torch.randn(3, 4)).exp().mean()
        loss.backward()
        if first:
            print("once more")
        loss.backward()
        """)
    assert found["TAPE101"].certain
    assert conditions(found["TAPE101"]) == []


def test_a_gradient_that_is_a_constant_on_one_way_only() -> None:
    found = findings("""\
        x = torch.randn(3, 4, requires_grad=True)
        for step in range(4):
            out = model(x).sum()
            (slope,) = torch.autograd.grad(out, x, create_graph=first)
            loss = slope.pow(2).sum() + model(x).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """)
    assert conditions(found["TAPE401"]) == [(4, "`create_graph` is false")]
