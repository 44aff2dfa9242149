"""Functions that ask for their own variables, as assertion rewriting has every test do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import tapecheck
from tapecheck.record import RunResult, judge
from tests.record.harness import Write, plain, probed

SNAPSHOTS = """
import torch


def plainly(count):
    first = 1
    own = locals()
    exec("hidden = 5")
    total = 0.0
    for i in range(count):
        total += i
    print(sorted(own), own is locals(), eval("first"))
    exec("print(hidden)")
    print(sorted(vars()), sorted(dir()))


def training(count):
    w = torch.ones(3, requires_grad=True)
    own, kept = locals(), []
    for i in range(count):
        loss = (w * i).sum()
        loss.backward()
        kept.append(loss)
        if i == 9:
            print(sorted(own))
        if i == 14:
            print(sorted(locals()), own["i"])
    w.data += 1
    print(sorted(own), own.get("loss") is kept[14])


plainly(20)
training(20)
plainly(3)
"""


def test_leaks_are_seen_under_assertion_rewriting() -> None:
    net, losses = nn.Linear(4, 1), []
    with tapecheck.record() as tape:
        for _ in range(10):
            loss = net(torch.randn(8, 4)).pow(2).mean()
            loss.backward()
            losses.append(loss)
    assert "py_builtins" in str(test_leaks_are_seen_under_assertion_rewriting.__code__.co_names).lower()
    assert [finding.facts.holder for finding in tape.findings] == ["losses"]


def test_a_clean_block_has_no_findings_under_assertion_rewriting() -> None:
    net, losses = nn.Linear(4, 1), []
    with tapecheck.record() as tape:
        for _ in range(10):
            loss = net(torch.randn(8, 4)).pow(2).mean()
            loss.backward()
            losses.append(loss.item())
    assert not tape.findings


@pytest.mark.parametrize("asks", ["vars(args)", "locals()", "exec('x = 1')", "dir()"])
def test_a_function_that_asks_for_its_variables_is_seen(record: Callable[..., RunResult], asks: str) -> None:
    result = record(f"""
        import argparse, torch

        def main():
            args = argparse.Namespace(lr=0.1)
            {asks}
            w, state = torch.ones(3, requires_grad=True), {{}}
            for i in range(12):
                loss = (w * i).sum()
                loss.backward()
                state.setdefault("loss", []).append(loss)

        main()
    """)
    assert [(f.code, f.facts.holder) for f in judge([], result.tape)] == [("TAPE201", "state['loss']")]


def test_a_function_sees_its_own_variables_as_without_the_recorder(write: Write, tmp_path: Path) -> None:
    script = write(SNAPSHOTS)
    before, after = plain(script, cwd=str(tmp_path)), probed(script, cwd=str(tmp_path))
    assert before.stdout and (after.stdout, after.stderr) == (before.stdout, before.stderr)
