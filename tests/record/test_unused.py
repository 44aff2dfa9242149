"""What a loop saves for a backward that never comes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.record import RunResult, judge
from tapecheck.rules.finding import Evidence
from tapecheck.source import from_text

Record = Callable[..., RunResult]

HEAD = """\
import torch
from torch import nn

net = nn.Sequential(nn.Linear(64, 128), nn.Tanh(), nn.Linear(128, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


def epoch(training):
    for step in range(6):
        out = net(torch.randn(100, 64))
        if training:
            optimizer.zero_grad()
            out.mean().backward()
            optimizer.step()


epoch(True)
"""
LINE = 9
# What the layers save that is no parameter, 100 rows in: the input and the result of the tanh, 4 bytes a number.
SAVED = 100 * (64 + 128) * 4


def verdict(record: Record, folder: Path, call: str) -> Evidence | None:
    """Return what a run says of the finding that a plain second call has."""
    findings = check(from_text(HEAD + "epoch(False)\n", "script.py")).findings
    (finding,) = [each for each in findings if each.code == "TAPE302"]
    assert finding.span.line == LINE
    result = record(HEAD + call, watch={(str(folder / "script.py"), LINE)})
    judged = judge([finding], result.tape, directory=str(folder))
    return next(each.evidence for each in judged if each.code == "TAPE302")


def test_what_each_forward_pass_keeps_is_measured(record: Record, tmp_path: Path) -> None:
    evidence = verdict(record, tmp_path, "epoch(False)\n")
    assert evidence is not None and evidence.verdict == "confirmed"
    assert evidence.measured == {
        "calls": 4, "looks": 4, "looks_with_graph": 4, "nodes": 5, "saved_bytes": SAVED,
    }  # fmt: skip
    assert "4 module calls" in evidence.detail and "76.8 kB" in evidence.detail


SOMETIMES = """\
plain, calls = net.forward, []


def sometimes(x):
    calls.append(x)
    with torch.set_grad_enabled(len(calls) in {recorded}):
        return plain(x)


net.forward = sometimes
"""


@pytest.mark.parametrize(
    ("recorded", "walked", "expected", "said"),
    [
        # Of 24 iterations the first three are looked at, the fourth, the eighth and the sixteenth.
        ("(2, 7)", "", "confirmed", "in 1 of 6 iterations that were looked at a graph was recorded"),
        ("(7, 9)", "", "refuted", "the 6 module calls that were looked at recorded no graph"),
        ("range(30)", "len(calls) == 16", "refuted", "a backward walked 1 of the graphs"),
    ],
)
def test_it_is_said_how_often_a_graph_was_recorded(
    record: Record, tmp_path: Path, recorded: str, walked: str, expected: str, said: str
) -> None:
    later = "for round in range(24):\n    values = net(torch.randn(100, 64)).mean()\n"
    text = HEAD + SOMETIMES.format(recorded=recorded) + later
    plain = HEAD + "\n" * (text.count("\n") - HEAD.count("\n") - 2) + later
    (finding,) = [each for each in check(from_text(plain, "script.py")).findings if each.code == "TAPE302"]
    text += f"    if {walked}:\n        values.backward()\n" if walked else ""
    lines = {(str(tmp_path / "script.py"), line) for line in range(finding.span.line, finding.span.end_line + 1)}
    (judged,) = judge([finding], record(text, watch=lines).tape, directory=str(tmp_path))
    assert judged.evidence is not None and judged.evidence.verdict == expected, judged.evidence
    assert judged.evidence.detail.startswith(said)


def test_what_an_exception_left_may_have_been_for_a_backward_to_come(record: Record, tmp_path: Path) -> None:
    kept = "found = []\nplain = net.forward\nnet.forward = lambda x: found.append(plain(x)) or found[-1]\n"
    assert verdict(record, tmp_path, kept + "epoch(False)\nraise ValueError\n") is None
    evidence = verdict(record, tmp_path, "epoch(False)\nraise ValueError\n")
    assert evidence is not None and evidence.verdict == "confirmed"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("with torch.no_grad():\n    epoch(False)\n", "a backward walked 4 of the graphs"),
        ("epoch(True)\n", "a backward walked 8 of the graphs"),
    ],
)
def test_what_is_walked_or_not_recorded_refutes(record: Record, tmp_path: Path, call: str, said: str) -> None:
    evidence = verdict(record, tmp_path, call)
    assert evidence is not None and evidence.verdict == "refuted"
    assert evidence.detail.startswith(said)


def test_hooks_are_gone_after_the_first_iterations(record: Record, tmp_path: Path) -> None:
    hooks = "torch.nn.modules.module._global_forward_hooks"
    watch = {(str(tmp_path / "script.py"), LINE)}
    result = record(HEAD + f"epoch(False)\nprint('left', len({hooks}))\n", watch=watch)
    assert "left 0" in result.stdout


def test_a_run_that_watches_no_loop_hooks_no_module(record: Record) -> None:
    line = "        print('hooks', len(torch.nn.modules.module._global_forward_hooks))\n"
    text = HEAD.replace("        if training:", f"{line}        if training:")
    printed = record(text).stdout
    assert "hooks 0" in printed and "hooks 1" not in printed


@pytest.mark.parametrize(
    "loop",
    [
        "values = [net(x).item() for x in data]",
        "values = {\n    i: net(x).detach()\n    for i, x in enumerate(data)\n}",
        "print(sum(score(x) for x in data))",
        "for x in data: score(x)",
    ],
)
def test_a_loop_that_no_line_event_shows(record: Record, tmp_path: Path, loop: str) -> None:
    more = "data = [torch.randn(100, 64) for _ in range(5)]\n\n\ndef score(x):\n    return net(x).sum().item()\n\n\n"
    text = HEAD + more + loop + "\n"
    (finding,) = [each for each in check(from_text(text, "script.py")).findings if each.code == "TAPE302"]
    rows = range(finding.span.line, finding.span.end_line + 1)
    result = record(text, watch={(str(tmp_path / "script.py"), row) for row in rows})
    (judged,) = [each for each in judge([finding], result.tape, directory=str(tmp_path)) if each.code == "TAPE302"]
    assert judged.evidence is not None and judged.evidence.verdict == "confirmed"
    assert judged.evidence.measured["saved_bytes"] == SAVED


def test_a_comprehension_whose_graphs_a_backward_walks_is_no_waste(record: Record, tmp_path: Path) -> None:
    text = HEAD + "data = [torch.randn(100, 64) for _ in range(5)]\nvalues = [net(x).mean().item() for x in data]\n"
    (finding,) = [each for each in check(from_text(text, "script.py")).findings if each.code == "TAPE302"]
    used = text.replace(".item()", "") + "sum(values).backward()\n"
    result = record(used, watch={(str(tmp_path / "script.py"), finding.span.line)})
    (judged,) = [each for each in judge([finding], result.tape, directory=str(tmp_path)) if each.code == "TAPE302"]
    assert judged.evidence is not None and judged.evidence.verdict == "refuted"


PASS = """\
import torch
from torch import nn

net = nn.Sequential(nn.Linear(64, 128), nn.Tanh(), nn.Linear(128, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.randn(100, 64)


def accuracy(rows):
    net.eval()
    out = net(
        rows,
    )
    net.train()
    return (out > 0).float().mean()


for step in range(6):
    loss = net(x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(accuracy(x).item())
"""


@pytest.mark.parametrize(
    ("old", "new", "verdict", "said"),
    [
        ("", "", "confirmed", "no backward walked the graphs of the 3 module calls"),
        ("    net.eval()\n", "    net.eval(), torch.set_grad_enabled(False)\n", "refuted", "3 module calls"),
        (
            "    net.train()\n",
            "    net.train(), out.mean().backward()\n",
            "refuted",
            "a backward walked 3 of the graphs",
        ),
    ],
    ids=["confirmed", "without-gradients", "walked"],
)
def test_a_single_forward_pass_is_looked_at_by_itself(
    record: Record, tmp_path: Path, old: str, new: str, verdict: str, said: str
) -> None:
    (finding,) = [each for each in check(from_text(PASS, "script.py")).findings if each.code == "TAPE302"]
    text = PASS.replace(old, new, 1)
    lines = {(str(tmp_path / "script.py"), line) for line in range(finding.span.line, finding.span.end_line + 1)}
    if "enabled" in new:
        text = text.replace("    loss = net", "    torch.set_grad_enabled(True)\n    loss = net")
    judged = judge([finding], record(text, watch=lines, passes=lines).tape, directory=str(tmp_path))
    evidence = next(each.evidence for each in judged if each.code == "TAPE302")
    assert evidence is not None and evidence.verdict == verdict, evidence
    assert said in evidence.detail
