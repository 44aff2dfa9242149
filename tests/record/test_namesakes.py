"""Of two models, optimizers or loops alike one has a mistake: a run tells them apart, whatever they are called."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.record import RunRequest, confirm
from tapecheck.rules import Finding
from tapecheck.source import read_source
from tests.record.harness import QUIET

HEAD = """\
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
"""
CUT = """
def {f}():
    {a}, {b} = nn.Linear(6, 6), nn.Linear(6, 1)
    {o} = torch.optim.SGD([*{a}.parameters(), *{b}.parameters()], lr=0.1)
    for {s} in range(5):
        {h} = {a}(torch.randn(4, 6)){wrong}
        {l} = {b}({h}).pow(2).mean()
        {o}.zero_grad()
        {l}.backward()
        {o}.step()
"""
FROZEN = """
def {f}():
    {a}, {b} = nn.Linear(6, 6), nn.Linear(6, 1)
    {a}.requires_grad_({wrong})
    {o} = torch.optim.SGD([{{"params": {a}.parameters()}}, {{"params": {b}.parameters()}}], lr=0.1)
    for {s} in range(5):
        {l} = {b}({a}(torch.randn(4, 6))).pow(2).mean()
        {o}.zero_grad()
        {l}.backward()
        {o}.step()
"""
LEFT_OUT = """
def {f}():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.trunk, self.kind = nn.Linear(6, 6), nn.Linear(6, 1)
            self.age = nn.Linear(6, 1)

    {a} = Net()
    {o} = torch.optim.SGD([*{a}.trunk.parameters(), *{a}.kind.parameters(){wrong}], lr=0.1)
    for {s} in range(5):
        {h} = {a}.trunk(torch.randn(4, 6))
        {l} = {a}.kind({h}).pow(2).mean() + {a}.age({h}).pow(2).mean()
        {o}.zero_grad()
        {l}.backward()
        {o}.step()
"""
SCALED = """
def {f}():
    {a} = nn.Linear(6, 6)
    {o} = torch.optim.SGD({a}.parameters(), lr=0.1)
    {h} = torch.amp.GradScaler("cpu", init_scale=512.0)
    for {s} in range(5):
        {l} = {a}(torch.randn(4, 6)).pow(2).mean()
        {o}.zero_grad()
        {h}.scale({l}).backward()
        {wrong}
        nn.utils.clip_grad_norm_({a}.parameters(), 1.0)
        {h}.step({o})
        {h}.update()
"""
CHAIN = """
def {f}():
    {a}, {b} = nn.RNNCell(6, 6), nn.Linear(6, 1)
    {o} = torch.optim.SGD({b}.parameters(), lr=0.1)
    {h} = torch.zeros(4, 6)
    for {s} in range(6):
        {h} = {a}(torch.randn(4, 6), {h}{wrong})
        {l} = {b}({h}).pow(2).mean()
        {o}.zero_grad()
        {l}.backward(retain_graph=True)
        {o}.step()
"""
CHECKPOINT = """
def {f}():
    {a}, {b} = nn.Linear(6, 6), nn.Linear(6, 1)
    {o} = torch.optim.SGD([*{a}.parameters(), *{b}.parameters()], lr=0.1)
    for {s} in range(5):
        {h} = torch.randn(4, 6{wrong})
        {l} = {b}(checkpoint({a}, {h}, use_reentrant=True)).pow(2).mean()
        {o}.zero_grad()
        {l}.backward()
        {o}.step()
"""
PAIRS = {
    "cut": (CUT, "TAPE402", ".detach()", ""),
    "frozen": (FROZEN, "TAPE402", "False", "True"),
    "left out": (LEFT_OUT, "TAPE405", "", ", *{a}.age.parameters()"),
    "scaled": (SCALED, "TAPE501", "pass", "{h}.unscale_({o})"),
    "chain": (CHAIN, "TAPE202", "", ".detach()"),
    "checkpoint": (CHECKPOINT, "TAPE406", "", ", requires_grad=True"),
}
"""Of each two alike: the text of one, the rule, what makes the mistake, and what stands there without it."""
EXPECTED = {
    **{(name, True): "confirmed" for name in PAIRS},
    **{(name, False): "refuted" for name in PAIRS},
}
NAMES = ("net", "model", "head", "body", "state", "loss", "out", "total", "optimizer", "step", "h", "g")


def _programs(number: int) -> tuple[str, str, dict[tuple[str, bool], range]]:
    """Return a program with two alike of each kind, all with their mistake and one with only one of each two, and the
    lines of each function.
    """
    chance = random.Random(number)
    kinds = [(kind, wrong) for kind in PAIRS for wrong in (True, False)]
    chance.shuffle(kinds)
    same = dict(zip("abohls", chance.sample(NAMES, 6), strict=True))
    checked = run = HEAD
    lines: dict[tuple[str, bool], range] = {}
    for at, (kind, wrong) in enumerate(kinds):
        text, _, mistake, mended = PAIRS[kind]
        # The same names everywhere, or others for each, often crossed over.
        names = same if number % 2 == 0 else dict(zip("abohls", chance.sample(NAMES, 6), strict=True))
        names = {**names, "f": f"train{at}"}
        first = checked.count("\n") + 1
        checked += text.format(**names, wrong=mistake)
        run += text.format(**names, wrong=mistake if wrong else mended.format(**names))
        lines[kind, wrong] = range(first, checked.count("\n") + 1)
    calls = [f"train{at}()\n" for at in range(len(kinds))]
    chance.shuffle(calls)
    return checked + "".join(calls), run + "".join(calls), lines


@pytest.mark.parametrize("number", range(6))
def test_verdicts_are_of_the_one_that_a_finding_is_about(tmp_path: Path, python: str, number: int) -> None:
    checked, run, lines = _programs(number)
    script = tmp_path / "train.py"
    script.write_text(checked)
    found = check(read_source(str(script))).findings
    script.write_text(run)
    request = RunRequest(str(script), python=python, cwd=str(tmp_path), env=QUIET)
    result, judged = confirm(str(script), request, found)
    assert result.how_ended == "finished", result.stderr
    assert _verdicts(judged, lines) == EXPECTED


def _verdicts(judged: list[Finding], lines: dict[tuple[str, bool], range]) -> dict[tuple[str, bool], str]:
    return {
        (kind, wrong): finding.evidence.verdict if finding.evidence is not None else "inconclusive"
        for finding in judged
        for (kind, wrong), rows in lines.items()
        if finding.span.line in rows and finding.code == PAIRS[kind][1]
    }
