"""What a needless `retain_graph=True` keeps, and until when."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tapecheck.record import RunResult, judge
from tapecheck.rules.finding import Evidence, Finding

Record = Callable[..., RunResult]

HEAD = """
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(64, 128), nn.Tanh(), nn.Linear(128, 1))
"""
# What the layers save that is no parameter, 100 rows in: the input, the tanh and what is squared, 4 bytes a number.
SAVED = 100 * (64 + 128 + 1) * 4


def needless(result: RunResult) -> list[tuple[Finding, Evidence]]:
    found = [finding for finding in judge([], result.tape) if finding.code == "TAPE301"]
    return [(finding, finding.evidence) for finding in found if finding.evidence is not None]


@pytest.mark.parametrize(
    ("program", "said", "measured"),
    [
        pytest.param(
            """
for step in range(30):
    x = torch.randn(100, 64)
    loss = net(x).pow(2).mean()
    loss.backward(retain_graph=True)
""",
            "; each time it kept 77.2 kB of saved tensors until line 8 of the next iteration",
            {"kept_bytes": SAVED, "released_on_lines": [8]},
            id="rebound in the next iteration",
        ),
        pytest.param(
            """
for step in range(5):
    loss = net(torch.randn(100, 64)).pow(2).mean()
    loss.backward(retain_graph=True)
    print(step)
    del loss
""",
            "; each time it kept 77.2 kB of saved tensors until line 10",
            {"kept_bytes": SAVED, "released_on_lines": [10]},
            id="deleted",
        ),
        pytest.param(
            """
def one(x):
    net(x).pow(2).mean().backward(retain_graph=True)

for step in range(5):
    one(torch.randn(100, 64))
""",
            "; each time it kept 77.2 kB of saved tensors until that line was done",
            {"kept_bytes": SAVED, "released_on_lines": [7]},
            id="a temporary value",
        ),
        pytest.param(
            """
loss = net(torch.randn(100, 64)).pow(2).mean()
loss.backward(retain_graph=True)
""",
            "; it kept 77.2 kB of saved tensors, still there when the program ran to its end",
            {"kept_bytes": SAVED},
            id="to the end",
        ),
        pytest.param(
            """
for step in range(4):
    loss = net(torch.randn(100 * (step + 1), 64)).pow(2).mean()
    loss.backward(retain_graph=True)
""",
            "; it kept up to 308.8 kB of saved tensors until line 7 of the next iteration",
            {"kept_bytes": 4 * SAVED, "released_on_lines": [7]},
            id="another size each time",
        ),
        pytest.param(
            """
weight = torch.ones(3, requires_grad=True)
for step in range(4):
    loss = (weight * weight).sum()
    loss.backward(retain_graph=True)
""",
            "; it kept no tensors but parameters",
            {"kept_bytes": 0, "released_on_lines": [8]},
            id="parameters alone",
        ),
    ],
)
def test_how_much_a_needless_flag_keeps_and_until_when(
    record: Record, program: str, said: str, measured: dict[str, Any]
) -> None:
    ((_, evidence),) = needless(record(HEAD.lstrip("\n") + program.lstrip("\n")))
    assert evidence.detail.endswith(said), evidence.detail
    assert {key: evidence.measured[key] for key in measured} == measured
    assert ("released_on_lines" in evidence.measured) == ("released_on_lines" in measured)
    assert evidence.measured.get("kept_seconds", 0) >= 0


def test_what_is_kept_for_several_iterations_is_told_so(record: Record) -> None:
    program = """
losses = []
for step in range(6):
    loss = net(torch.randn(100, 64)).pow(2).mean()
    loss.backward(retain_graph=True)
    losses.append(loss)
    del losses[:-2]
del loss, losses
"""
    ((_, evidence),) = needless(record(HEAD.lstrip("\n") + program.lstrip("\n")))
    assert "; each time it kept 77.2 kB of saved tensors" in evidence.detail
    assert set(evidence.measured["released_on_lines"]) == {11, 12}


def test_a_flag_that_is_needed_keeps_something_too(record: Record) -> None:
    program = """
for step in range(3):
    hidden = net[1](net[0](torch.randn(100, 64)))
    hidden.sum().backward(retain_graph=True)
    hidden.pow(2).sum().backward()
"""
    result = record(HEAD.lstrip("\n") + program.lstrip("\n"))
    span = next(event.at.span for event in result.tape.events if getattr(event, "retain", "no") == "yes")
    claim = Finding("TAPE301", "needless-retain-graph", "info", span, "", "")
    evidence = judge([claim], result.tape)[0].evidence
    assert evidence is not None and evidence.verdict == "refuted"
    assert evidence.measured["kept_bytes"] == 100 * (64 + 128) * 4
