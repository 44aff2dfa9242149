"""A verdict is about the finding's own lines: what another place does under the same names tells nothing of it."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.record import RunRequest, confirm
from tapecheck.rules import Evidence, Finding
from tapecheck.source import read_source
from tests.record.harness import QUIET

Judge = Callable[..., list[Finding]]


@pytest.fixture
def judged(tmp_path: Path, python: str) -> Judge:
    """Check a program and run it with some arguments: its findings with their evidence."""

    def judged(files: dict[str, str] | str, *args: str, code: str = "TAPE201") -> list[Finding]:
        files = {"train.py": files} if isinstance(files, str) else files
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        script = str(tmp_path / "train.py")
        checked = check(read_source(script))
        found = [*checked.findings, *checked.elsewhere]
        request = RunRequest(script, args, python=python, cwd=str(tmp_path), env=QUIET)
        result, findings = confirm(script, request, found)
        assert result.how_ended == "finished", result.stderr
        return [finding for finding in findings if finding.code == code]

    return judged


def _verdict(findings: list[Finding]) -> str:
    (finding,) = findings
    return finding.evidence.verdict if finding.evidence is not None else "inconclusive"


GENERATE = """\
import torch
def generate(net, n):
    h = torch.zeros(1, 8)
    for p in range(n):
        h = net(torch.ones(1, 4), h)
    return h
"""
TRAIN = """\
import sys
import torch
from generation import generate
net = torch.nn.RNNCell(4, 8)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(10):
    h = torch.zeros(2, 8)
    loss = 0
    for c in range(12):
        h = net(torch.randn(2, 4), h)
        loss = loss + h.pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if len(sys.argv) > 1:
        print(generate(net, 50).sum().item())
"""

TRAIN_ALONE = """\
import torch
net = torch.nn.Linear(8, 8)
losses, shown = [], []
for step in range(40):
    loss = net(torch.randn(4, 8)).pow(2).mean()
    losses.append(loss)
    shown.append(loss.detach())
    loss.backward()
for step in range(12):
    shown.append(net(torch.randn(4, 8)).sum())
"""


def test_another_files_variable_of_the_same_name_confirms_nothing(judged: Judge) -> None:
    files = {"generation.py": GENERATE, "train.py": TRAIN}
    (finding,) = judged(files)
    assert finding.evidence == Evidence("not-reached", "line 5 did not run (the program ran to its end)")
    (finding,) = judged(files, "show")
    assert finding.evidence is not None and finding.evidence.verdict == "confirmed"
    assert finding.evidence.detail.startswith("`h` kept ") and "the loop on line 4" in finding.evidence.detail


def test_a_loop_that_records_nothing_is_not_confirmed_by_another_ones_graphs(judged: Judge) -> None:
    text = GENERATE.replace("(net, n)", "(net, n, mode)")
    for line in text.splitlines()[2:]:
        text = text.replace(f"{line}\n", f"    {line}\n")
    files = {
        "modes.py": MODES,
        "generation.py": text.replace(
            "    " * 2 + "h = torch.z", "    with MODES[mode]():\n        h = torch.z"
        ).replace("import torch\n", "import torch\nfrom modes import MODES\n"),
        "train.py": TRAIN.replace("generate(net, 50)", "generate(net, 50, sys.argv[1])"),
    }
    assert _verdict(judged(files, "eval")) == "refuted"
    assert _verdict(judged(files, "train")) == "confirmed"


MODES = """\
import json
import torch
KINDS = json.loads('{"eval": "no_grad", "train": "enable_grad"}')
MODES = {name: getattr(torch, function) for name, function in KINDS.items()}
"""


SHARED_STORE = """\
import sys
import torch
net = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
class Meter:
    def __init__(self):
        self.values = []
    def update(self, value):
        self.values.append(value)
def train():
    meter = Meter()
    for batch in range(20):
        meter.update(net(torch.randn(4, 8)).pow(2).mean())
    optimizer.zero_grad()
    torch.stack(meter.values).mean().backward()
    optimizer.step()
def validate():
    meter = Meter()
    for batch in range(20):
        meter.update(net(torch.randn(4, 8)).pow(2).mean())
    return torch.stack(meter.values).mean().item()
for epoch in range(3):
    train()
    if len(sys.argv) > 1:
        validate()
"""


def test_one_store_that_two_loops_use_tells_of_each_by_itself(judged: Judge) -> None:
    (finding,) = judged(SHARED_STORE)
    assert finding.evidence is not None and finding.evidence.verdict == "not-reached"
    assert _verdict(judged(SHARED_STORE, "validate")) == "confirmed"


BESIDE = """\
import sys
import torch
net = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
first = second = torch.zeros(())
for step in range(20):
    loss = net(torch.randn(4, 8)).pow(2).mean()
    first, second = first + loss.detach(), second + loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_two_holders_on_one_line_are_told_apart(judged: Judge) -> None:
    (finding,) = judged(BESIDE)
    assert finding.facts.holder == "second"
    assert finding.evidence is not None and finding.evidence.verdict == "confirmed"
    assert finding.evidence.detail.startswith("`second` kept ")


def test_what_another_holder_on_the_line_keeps_does_not_confirm(tmp_path: Path, python: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(BESIDE)
    (true,) = check(read_source(str(script))).findings
    wrong = dataclasses.replace(true, facts=dataclasses.replace(true.facts, holder="first"))
    request = RunRequest(str(script), python=python, cwd=str(tmp_path), env=QUIET)
    (finding,) = confirm(str(script), request, [wrong])[1][:1]
    assert finding.evidence is None or finding.evidence.verdict != "confirmed"


TWO_LOOPS = """\
import sys
import torch
net = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
def validate():
    {a} = []
    for {b} in range(12):
        {c} = net(torch.randn(4, 8)).pow(2).mean()
        {a}.append({c})
    return torch.stack({a}).mean().item()
def train():
    {d} = []
    for {e} in range(12):
        {f} = net(torch.randn(4, 8)).pow(2).mean()
        {d}.append({f})
    optimizer.zero_grad()
    torch.stack({d}).mean().backward()
    optimizer.step()
for epoch in range(3):
    train()
    if "validate" in sys.argv:
        validate()
"""
NAMES = ("losses", "step", "loss", "h", "out", "total")


def _shuffled(number: int) -> dict[str, str]:
    """Return names for the two loops: the same ones in both, the same ones crossed over, or all their own."""
    chance = random.Random(number)
    if number % 3 < 2:
        first = chance.sample(NAMES, 3)
        second = list(first) if number % 3 == 0 else chance.choice([*itertools.permutations(first)])
        return dict(zip("abcdef", [*first, *second], strict=True))
    return dict(zip("abcdef", chance.sample(NAMES, 6), strict=True))


@pytest.mark.parametrize("number", range(6))
def test_the_names_of_two_loops_change_no_verdict(judged: Judge, number: int) -> None:
    text = TWO_LOOPS.format(**_shuffled(number))
    said = {
        args: [(f.span.line, f.evidence and f.evidence.verdict) for f in judged(text, *args)]
        for args in ((), ("validate",))
    }
    assert said == {(): [(9, "not-reached")], ("validate",): [(9, "confirmed")]}


CYCLES = """\
import sys
import torch
kw = dict(create_graph=True)
models = {models}
for round in range(models):
    net = torch.nn.Linear(64, 64)
    for step in range(10):
        net.zero_grad(set_to_none=False)
        loss = net(torch.randn(32, 64)).pow(2).mean()
        loss.backward(**kw)
        if len(sys.argv) > 1:
            net.zero_grad()
"""


@pytest.mark.parametrize("models", [3, 4, 12])
def test_cycles_of_an_outer_loop_are_not_refuted_from_the_inner_one(judged: Judge, models: int) -> None:
    (finding,) = judged(CYCLES.format(models=models), code="TAPE203")
    assert finding.facts.loop.line == 5
    assert finding.evidence is not None and finding.evidence.verdict == "confirmed", finding.evidence
    counts = finding.evidence.measured["nodes"]
    assert counts == sorted(set(counts)), "what is alive after each model is more than after the one before"


def test_cycles_that_are_broken_in_time_are_refuted(judged: Judge) -> None:
    assert _verdict(judged(CYCLES.format(models=6), "cleared", code="TAPE203")) == "refuted"


TWO_MODELS = """\
import json
import sys
import torch
class Modes:
    first = torch.no_grad
class {a}(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.{fc}, self.{head} = torch.nn.Linear(4, 3), torch.nn.Linear(3, 1)
class {b}(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.{fc}, self.{head} = torch.nn.Linear(4, 3), torch.nn.Linear(3, 1)
def first():
    {net} = {a}()
    {optimizer} = torch.optim.SGD({net}.parameters(), lr=0.1)
    setattr(Modes, sys.argv[2], torch.enable_grad)
    for step in range(5):
        with Modes.first():
            {h} = {net}.{fc}(torch.randn(2, 4)).tanh()
        {optimizer}.zero_grad()
        {net}.{head}({h}).sum().backward()
        {optimizer}.step()
def second():
    {net} = {b}()
    {optimizer} = torch.optim.SGD({net}.parameters(), lr=0.1)
    mode = getattr(torch, json.loads(sys.argv[1]))
    for step in range(5):
        with mode():
            {h} = {net}.{fc}(torch.randn(2, 4)).tanh()
        {optimizer}.zero_grad()
        {net}.{head}({h}).sum().backward()
        {optimizer}.step()
{calls}
"""
MODELS = ('"enable_grad"', '"no_grad"')
PARTS = ("a", "b", "fc", "head", "net", "optimizer", "h")


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("args", [(mode, other) for mode in MODELS for other in ("first", "none")], ids="-".join)
def test_parameters_of_one_name_in_two_models_are_told_apart(judged: Judge, number: int, args: tuple[str, ...]) -> None:
    chance = random.Random(number)
    names = dict(zip(PARTS, chance.sample(["Net", "Model", "Encoder", "fc", "body", "x", "state"], 7), strict=True))
    calls = "\n".join(chance.sample(["first()", "second()"], 2))
    found = judged(TWO_MODELS.format(**names, calls=calls), *args, code="TAPE402")
    said = {f.span.line: f.evidence.verdict for f in found if f.evidence is not None}
    assert said.get(20) == ("refuted" if "first" in args else "confirmed"), found


METERS = """\
class Meter:
    def __init__(self):
        self.sum = 0.0
        self.values = []

    def update(self, value, n=1):
        {store}
"""
EPOCHS = """\
import torch
from meters import Meter
net = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
meters = {{"loss": Meter(), "reg": Meter()}}
def epoch(meters):
    for _ in range(20):
        loss = net(torch.randn(8, 3)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        meters["loss"].update({first}, 8)
        meters["reg"].update(loss, 8)
for e in range(3):
    epoch(meters)
"""


@pytest.mark.parametrize("store", ["self.sum = self.sum + value * n", "self.values.append(value)"])
@pytest.mark.parametrize(
    ("first", "expected"), [("loss.item()", {13: "reg"}), ("loss.sqrt()", {12: "loss", 13: "reg"})]
)
def test_what_several_calls_store_by_one_statement_is_told_of_the_call_that_stored_it(
    judged: Judge, store: str, first: str, expected: dict[int, str]
) -> None:
    found = judged({"meters.py": METERS.format(store=store), "train.py": EPOCHS.format(first=first)})
    assert {finding.span.line for finding in found} == set(expected) and len(found) == len(expected)
    for finding in found:
        assert finding.evidence is not None and finding.evidence.verdict == "confirmed"
        assert f"`meters['{expected[finding.span.line]}']" in finding.evidence.detail


BY_KEY = """
import torch

net = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


class Meter:
    total = 0.0


def part(x, loss):
    return loss if x.sum() > 5 else loss.detach()


meters = {"loss": Meter(), "other": Meter()}
for x in torch.ones(6, 1, 2):
    loss = net(x).pow(2).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    meters["loss"].total = meters["loss"].total + loss
    meters["other"].total = meters["other"].total + part(x, loss)
"""


KEYS = {"by-key": ("'loss'", "'other'"), "by-index": ("0", "1")}
CONTAINERS = {"by-key": '{"loss": Meter(), "other": Meter()}', "by-index": "(Meter(), Meter())"}


@pytest.mark.parametrize("how", KEYS)
def test_what_is_kept_under_another_key_confirms_nothing(how: str, judged: Judge) -> None:
    first, second = KEYS[how]
    program = BY_KEY.replace('{"loss": Meter(), "other": Meter()}', CONTAINERS[how])
    program = program.replace('["loss"]', f"[{first}]").replace('["other"]', f"[{second}]")
    said = {one.facts.holder: one.evidence.verdict if one.evidence else "" for one in judged(program)}
    assert said.get(f"meters[{first}].total") == "confirmed"
    assert said.get(f"meters[{second}].total") != "confirmed"
