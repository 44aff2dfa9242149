"""Memory that runs out: what held it is told by line, once, with the bytes that it was."""

from __future__ import annotations

from collections.abc import Callable

from tapecheck.record import RunResult
from tapecheck.record.memory import memory_ran_out
from tapecheck.tape import End, Measure, Tape

PROGRAM = """
import torch
from torch import nn

model = nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
history = []


def fill():
    torch.empty(1 << 60)


for step in range(6):
    x = torch.randn(1000, 64)
    y = model(x).exp()
    loss = y.mean()
    loss.backward(retain_graph=True)
    history.append(loss)
    optimizer.step()
    optimizer.zero_grad()
try:
    fill()
except RuntimeError as error:
    print("caught")
y = None
fill()
"""


def test_what_held_the_memory_is_told_by_line(record: Callable[..., RunResult]) -> None:
    result = record(PROGRAM)
    assert result.how_ended == "raised"
    measures = [event for event in result.tape.events if isinstance(event, Measure)]
    # Twice, although the first passes two frames.
    assert [event.at.line for event in measures if event.name == "memory-ran-out"] == [10, 10]
    lines = [(event.at.line, event.value) for event in measures if event.name == "memory-of-line"]
    one = 1000 * 64 * 4
    # `model(x)` saves x, `exp` its result: those of six iterations live, all of them on one line.
    assert lines == [(15, 6 * 2 * one)] * 2
    assert {event.value for event in measures if event.name == "memory-of-parameters"} == {(64 * 64 + 64) * 4}
    graphs = [event.value for event in measures if event.name == "memory-of-graphs"]
    total = [event.value for event in measures if event.name == "memory-ran-out"]
    assert graphs == [12 * one] * 2
    assert all(0 <= rest - 12 * one - (64 * 64 + 64) * 4 < one for rest in total)
    said = list(memory_ran_out(result.tape))
    assert said[0].endswith("script.py:10; live tensors held 3.1 MB:")
    assert said[2].startswith("    3.1 MB of graphs built at ")
    assert said[2].endswith("script.py:15")


def test_nothing_is_said_of_other_errors(record: Callable[..., RunResult]) -> None:
    result = record("""
        import torch
        w = torch.ones(2, requires_grad=True)
        (w * w).sum().backward()
        raise RuntimeError("no room")
    """)
    assert list(memory_ran_out(result.tape)) == []
    assert list(memory_ran_out(Tape("x", [End("finished")]))) == []
