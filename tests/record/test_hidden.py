"""Loops that no line event shows: on one line, in a comprehension, in a library."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from tapecheck.record import RunResult, judge
from tapecheck.tape import Iteration, Loop, Raised, Span

Record = Callable[..., RunResult]

HEAD = """
import sys, torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
kept = []


def step(i=0):
    loss = net(torch.randn(8, 4)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    kept.append(loss)
    return loss.item()
"""
LIBRARY = """
def run(function, count):
    for i in range(count):
        function(i)


def train(net, opt, batches, after=lambda loss: None):
    for x in batches:
        loss = net(x).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        after(loss)
"""


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A library whose functions loop, where libraries are installed."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "engine_lib.py").write_text(LIBRARY)
    return folder


def found(result: RunResult) -> list[tuple[str, int]]:
    return [(finding.code, finding.span.line) for finding in judge([], result.tape)]


@pytest.mark.parametrize(
    "loop",
    [
        "for i in range(12): step()",
        "losses = [step() for i in range(12)]",
        "list(map(step, range(12)))",
        "losses = [\n    step(i)\n    for i in range(12)\n]",
        "i = 0\nwhile i < 12: i += 1; step()",
    ],
    ids=["one line", "comprehension", "map", "comprehension over lines", "while"],
)
def test_iterations_are_counted_and_leaks_measured(record: Record, loop: str) -> None:
    result = record(HEAD + loop + "\nprint(len(kept))\n")
    assert (result.iterations, result.backwards) == (12, 12)
    assert result.stdout == "12\n"
    assert [code for code, _ in found(result)] == ["TAPE201"]


def test_a_loop_on_one_line_without_functions_or_optimizers(record: Record) -> None:
    result = record("""
        import torch

        w, kept = torch.ones(3, requires_grad=True), []
        for i in range(12): loss = (w * i).sum(); loss.backward(); kept.append(loss)
    """)
    assert (result.iterations, result.backwards) == (12, 12)
    assert found(result) == [("TAPE201", 4)]


@pytest.mark.parametrize(
    "call",
    [
        "engine_lib.run(step, 12)",
        "engine_lib.train(net, opt, [torch.randn(8, 4) for i in range(12)], kept.append)",
        "for epoch in range(2):\n    engine_lib.run(step, 6)",
    ],
    ids=["callback", "library trains", "epochs"],
)
def test_a_loop_in_a_library(record: Record, library: Path, call: str) -> None:
    result = record(f"{HEAD}\nsys.path.insert(0, {str(library)!r})\nimport engine_lib\n{call}\n")
    assert (result.iterations, result.backwards) == (12, 12)
    assert [code for code, _ in found(result)] == ["TAPE201"]


def test_an_iteration_of_two_optimizers_ends_with_the_last_one(record: Record, library: Path) -> None:
    result = record(f"""
        import sys, torch
        from torch import nn

        sys.path.insert(0, {str(library)!r})
        import engine_lib

        first, second = nn.Linear(4, 4), nn.Linear(4, 1)
        one, two = (torch.optim.SGD(part.parameters(), lr=0.1) for part in (first, second))
        states = [torch.zeros(4)]


        def step(i):
            second(torch.randn(8, 4)).mean().backward()
            two.step()
            hidden = torch.tanh(first(torch.randn(4)) + (states[-1] if i == 8 else 0))
            if i in (7, 8):
                states.append(hidden)
            hidden.sum().backward()
            one.step()


        engine_lib.run(step, 10)
    """)
    assert result.how_ended == "raised"
    raised = next(event for event in result.tape.events if isinstance(event, Raised))
    assert [index for _, index in raised.at.iteration] == [9]


@pytest.mark.parametrize("limit", [2, 5])
def test_a_limit_of_iterations_ends_them(record: Record, library: Path, limit: int) -> None:
    result = record(
        f"{HEAD}\nsys.path.insert(0, {str(library)!r})\nimport engine_lib\nengine_lib.run(step, 1000)\n",
        max_iterations=limit,
    )
    assert result.how_ended == "stopped" and result.backwards == limit


def test_what_is_called_twice_on_a_line_is_no_loop(record: Record) -> None:
    result = record(HEAD + "step(); step()\nfirst, second = step(), step()\n")
    assert not [event for event in result.tape.events if isinstance(event, Loop)]


def test_two_optimizers_that_step_by_turns_on_a_line_are_no_loop(record: Record) -> None:
    result = record("""
        import torch
        from torch import nn

        nets = [nn.Linear(4, 1) for _ in range(3)]
        optimizers = [torch.optim.SGD(net.parameters(), lr=0.1) for net in nets]
        for i in range(6):
            sum(net(torch.randn(8, 4)).mean() for net in nets).backward()
            for optimizer in optimizers: optimizer.step()
    """)
    loops = [event for event in result.tape.events if isinstance(event, Loop)]
    assert [(loop.at.span.line, loop.hidden) for loop in loops] == [(6, False)]
    assert result.iterations == 6


def test_what_a_class_keeps_for_all_of_its_objects_is_found(record: Record, library: Path) -> None:
    result = record(f"""
        import sys, torch
        from torch import nn

        sys.path.insert(0, {str(library)!r})
        import engine_lib

        net = nn.Linear(4, 1)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)


        class Trainer:
            kept = []

            def log(self, loss):
                Trainer.kept.append(loss)


        engine_lib.train(net, opt, [torch.randn(8, 4) for i in range(12)], Trainer().log)
    """)
    (finding,) = judge([], result.tape)
    assert (finding.code, finding.facts.holder) == ("TAPE201", "Trainer.kept")


def test_iterations_of_a_loop_over_lines_stay_those_of_its_lines(record: Record) -> None:
    result = record(HEAD + "for i in range(4):\n    step()\n    [step() for _ in range(3)]\n")
    outer = next(e for e in result.tape.events if isinstance(e, Loop) and not e.hidden)
    assert max(e.index for e in result.tape.events if isinstance(e, Iteration) and e.loop == outer.id) == 4


TRAINER = """
import torch


class Trainer:
    def __init__(self, module):
        self.strategy = Strategy(module)

    def fit(self, batches):
        for batch in batches:
            loss = self.strategy.module.training_step(batch)
            self.strategy.optimizer.zero_grad()
            loss.backward()
            self.strategy.optimizer.step()
        # What is built behind the last step is no iteration.
        self.last = self.strategy.module.net(batch).sum()


class Strategy:
    def __init__(self, module):
        self.module = module
        self.optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
"""
TRAINED = """
import torch
from torch import nn
from trainer_lib import Trainer


class Task(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 1)
        self.history = []

    def training_step(self, batch):
        loss = self.net(batch).pow(2).mean()
        self.history.append(KEPT)
        return loss


trainer = Trainer(Task())
trainer.fit([torch.randn(8, 4) for _ in range(20)])
"""


@pytest.mark.parametrize("leaks", [True, False])
def test_what_the_program_gave_to_a_library_is_looked_at(record: Record, library: Path, leaks: bool) -> None:
    (library / "trainer_lib.py").write_text(TRAINER)
    text = TRAINED.replace("KEPT", "loss" if leaks else "loss.item()")
    result = record(text, env={"PYTHONPATH": str(library)})
    assert (result.iterations, result.backwards) == (20, 20), result.stderr
    assert found(result) == ([("TAPE201", 14)] if leaks else [])
    if leaks:
        (finding,) = judge([], result.tape)
        assert "`self.history`" in finding.message


def test_a_failure_in_a_library_confirms_the_finding_of_its_graph(
    record: Record, library: Path, tmp_path: Path
) -> None:
    (library / "trainer_lib.py").write_text(TRAINER)
    text = TRAINED.replace("self.history.append(KEPT)", "loss.backward()")
    result = record(text, env={"PYTHONPATH": str(library)})
    assert result.how_ended == "raised"
    (alone,) = judge([], result.tape)
    # Said of another line, as a dry run that knows the library says it.
    labels = [label for label in alone.labels if label.role in ("built", "freed")]
    assert len(labels) == 2
    span = Span(labels[0].span.file, 16, 9, 16, 20)
    static = dataclasses.replace(alone, span=span, evidence=None)
    (one,) = judge([static], result.tape)
    assert one.evidence is not None and one.evidence.verdict == "confirmed" and one.span == span
    other = dataclasses.replace(static, labels=tuple(dataclasses.replace(label, span=span) for label in labels))
    assert [one.evidence.verdict for one in judge([other], result.tape) if one.evidence] != ["confirmed"]
