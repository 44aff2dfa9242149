"""The dry run against torch on generated programs; a long run is `python -m tests.differential.compare`."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.differential import compare
from tests.differential.generate import generate
from tests.differential.truth import Truth

PROGRAMS = 150
SEED = 20_000
ROOT = Path(__file__).parents[2]
FLOOR = 0.985
"""Agreement that must be reached: what was measured over 1,000 programs is in the README, less what chance does."""

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")


@pytest.fixture(scope="module")
def truth() -> Iterator[Truth]:
    with Truth() as server:
        yield server


def test_a_seed_always_gives_the_same_program() -> None:
    assert [generate(seed) for seed in range(20)] == [generate(seed) for seed in range(20)]
    assert len({generate(seed) for seed in range(20)}) == 20


def test_a_seed_gives_the_same_program_in_every_process() -> None:
    script = "from tests.differential.generate import generate; print(hash(1), [generate(s) for s in range(40)])"
    told = {
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": f"{ROOT / 'server'}{os.pathsep}{ROOT}"},
        ).stdout
        for seed in ("1", "2", "3")
    }  # fmt: skip
    assert len(told) == 1


@needs_torch
def test_dry_run_and_torch_agree(truth: Truth) -> None:
    told: list[str] = []
    score = compare.compare(
        range(SEED, SEED + PROGRAMS),
        truth,
        lambda seed, text, outcome, verdict: told.append(
            f"seed {seed}: torch {outcome.kind} at line {outcome.line}, dry run {verdict.kind} at line {verdict.line}"
        ),
        retain=False,
        leaks=False,
        sequels=False,
    )
    assert score.compared >= 0.8 * PROGRAMS, f"too few programs are sound: {score.text()}"
    assert score.agreement >= FLOOR, "\n".join([score.text(), *told])
    # Programs that never fail, or always do, would show nothing.
    assert min(score.agree[kind] for kind in ("clean", "second", "stale", "no-graph", "unused")) >= 3


@needs_torch
def test_needless_retain_graph_is_what_can_be_removed(truth: Truth) -> None:
    found = Counter[tuple[str, str]]()
    for seed in range(SEED, SEED + 60):
        for one in compare.retains(generate(seed), truth):
            if one.reached:
                found["needless" if one.needless else "needed", "reported" if one.reported else "quiet"] += 1
    assert found["needed", "reported"] == 0, found
    assert found["needless", "reported"] >= 0.9 * (found["needless", "reported"] + found["needless", "quiet"]), found
    assert found["needless", "reported"] and found["needed", "quiet"], found


@needs_torch
@pytest.mark.parametrize(
    ("program", "kind", "line"),
    [
        (
            "import torch\nw = torch.ones(2, requires_grad=True)\ny = w.exp().sum()\ny.backward()\ny.backward()\n",
            "second",
            5,
        ),
        ("import torch\nw = torch.ones(2, requires_grad=True)\ny = w.exp()\ny += 1\ny.sum().backward()\n", "stale", 5),
        ("import torch\nw = torch.ones(2, requires_grad=True)\nw += 1\n", "leaf", 3),
        ("import torch\nimport torch.autograd\ntorch.ones(2).sum().backward()\n", "no-graph", 3),
        ("import torch\nw = torch.ones(2, requires_grad=True)\nw.sum().backward()\n", None, None),
        ("import torch\ntorch.ones(2) @ torch.ones(3)\n", "other", 2),
        ("import os\nos._exit(3)\n", "other", None),
    ],
)
def test_the_truth_is_told(truth: Truth, program: str, kind: str | None, line: int | None) -> None:
    outcome = truth.run(program)
    assert (outcome.kind, outcome.line) == (kind, line)


@needs_torch
def test_a_disagreement_is_noticed_and_shrunk(truth: Truth) -> None:
    text = (
        "import torch\nx = 1\nw = torch.ones(2, requires_grad=True)\nif x:\n    w.exp().sum().backward()\n    w += 1\n"
    )
    outcome = truth.run(text)
    wrong = compare.Verdict(None, None)
    assert compare.judge(outcome, compare.predict(text)) == "agree"
    assert compare.judge(outcome, wrong) == "differ"
    assert compare.judge(outcome, compare.Verdict(None, None, frozenset({("leaf", 6)}))) == "unsure"
    small = compare.shrink(text, lambda candidate: truth.run(candidate).kind == "leaf")
    assert small == "import torch\nw = torch.ones(2, requires_grad=True)\nw += 1"


@needs_torch
def test_the_digest_sees_a_gradient(truth: Truth) -> None:
    text = "import torch\nw = torch.ones(2, requires_grad=True)\n(w * 2).sum().backward()\n"
    digest = truth.run(text, digest=True).digest
    assert digest == truth.run(text, digest=True).digest
    assert digest != truth.run(text + "w.sum().backward()\n", digest=True).digest


@needs_torch
def test_programs_that_go_on_raise_where_torch_raises(truth: Truth) -> None:
    found = Counter[bool]()
    told = []
    for seed in range(SEED, SEED + 60):
        text = generate(seed)
        outcome = truth.run(text)
        if outcome.kind in (None, "other") or truth.ways(text):
            continue
        going = compare.sequel(text, truth)
        if going is not None:
            found[going.real == going.said] += 1
            if going.real != going.said:
                told.append(f"seed {seed}: missed {going.real - going.said}, false {going.said - going.real}")
    assert found[True] >= 15, found
    assert found[False] <= 0.05 * found.total(), told


ON_DATA = """
import torch
w = torch.ones(2, requires_grad=True)
y = w.exp().sum()
y.backward()
if w.sum() > 100:
    y.backward()
"""


@needs_torch
def test_conditions_on_data_are_taken_both_ways(truth: Truth) -> None:
    ways = truth.ways(ON_DATA)
    assert {way.kind for way in ways} == {None, "second"}
    assert truth.ways(ON_DATA.replace("w.sum()", "len(w)")) == []
    outcome = truth.run(ON_DATA)
    either = compare.Verdict("second", 7, endings=frozenset({(None, None), ("second", 7)}))
    assert compare.judge(outcome, either, ways) == "agree"
    assert compare.judge(outcome, compare.Verdict(None, None, endings=frozenset({(None, None)})), ways) == "agree"
    never = compare.Verdict("stale", 7, endings=frozenset({(None, None), ("stale", 7)}))
    assert compare.judge(outcome, never, ways) == "differ"
    assert compare.judge(outcome, compare.predict(ON_DATA), ways) == "agree"


GROWING = """
import torch
w = torch.ones(2, requires_grad=True)
total = 0
for step in range(3):
    loss = w.exp().sum()
    loss.backward()
    total = total + loss
"""


@needs_torch
@pytest.mark.parametrize(
    ("old", "new", "leaks"),
    [("", "", True), ("+ loss", "+ loss.item()", False), ("loss.backward()", "pass", True),
     ("    total = total + loss", "    total = total + loss\ntotal.backward()", False)],
)  # fmt: skip
def test_what_a_loop_keeps_is_measured(truth: Truth, old: str, new: str, leaks: bool) -> None:
    text = GROWING.replace(old, new)
    if "total.backward" in text:
        text = text.replace("    loss.backward()\n", "")
    found = compare.leak(text, truth)
    assert found is not None
    assert found.leaks is leaks
    assert bool(found.reported) is leaks


STARVED = """
import contextlib
import torch
from torch import nn
encoder, head = nn.Linear(2, 2), nn.Linear(2, 2)
optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.1)
loss = head(encoder(torch.ones(1, 2)).detach()).sum()
loss.backward()
optimizer.step()
"""


@needs_torch
def test_what_a_cut_starves_is_measured(truth: Truth) -> None:
    found = compare.starved(STARVED, truth)
    assert found is not None
    assert (found.lines, found.reported, found.unfed) == ((6,), (6,), True)
    found = compare.starved(STARVED.replace(".detach()", ""), truth)
    assert found is not None
    assert (found.lines, found.reported, found.unfed) == ((), (), False)
