"""Device time by events: the rules of a device that is not there, kept by one that is made up."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tapecheck.check import check
from tapecheck.record import RunRequest, RunResult, judge, run
from tapecheck.record.device import mean_time
from tapecheck.record.evidence import lines_of
from tapecheck.record.probe.device import DeviceTimes
from tapecheck.source import read_source
from tapecheck.tape import End, Measure, Site
from tests.record.harness import PYTHON, QUIET, Write


class Device:
    """Stands for `torch.cuda`: work is queued on streams and done when the device gets to it, at `now`."""

    def __init__(self) -> None:
        self.initialized, self.capturing = True, False
        self.stream = SimpleNamespace(device_index=0, cuda_stream=7)
        self.queued: dict[tuple[int, int], float] = {}
        self.now = 0.0
        self.made: list[Any] = []
        device = self

        class Event:
            def __init__(self, enable_timing: bool = False) -> None:
                assert enable_timing and device.initialized
                self.on: int | None = None
                self.at = 0.0
                device.made.append(self)

            def record(self, stream: Any) -> None:
                assert not device.capturing, "a capture would have this event in its graph"
                assert self.on in (None, stream.device_index), "an event belongs to the device it was first recorded on"
                self.on = stream.device_index
                self.at = device.queued.get((stream.device_index, stream.cuda_stream), 0.0)

            def query(self) -> bool:
                assert not device.capturing, "a question ends a capture"
                return self.at <= device.now

            def elapsed_time(self, end: Any) -> float:
                assert self.query() and end.query(), "not done: torch raises"
                return float(end.at - self.at)

            def synchronize(self) -> None:
                raise AssertionError("nobody waits")

        self.Event = Event

    def is_initialized(self) -> bool:
        return self.initialized

    def is_current_stream_capturing(self) -> bool:
        return self.capturing

    def current_stream(self) -> Any:
        return self.stream

    def synchronize(self) -> None:
        raise AssertionError("nobody waits")

    def work(self, milliseconds: float) -> None:
        key = (self.stream.device_index, self.stream.cuda_stream)
        self.queued[key] = self.queued.get(key, 0.0) + milliseconds


LOOP = SimpleNamespace(text="loop", id=1)


def iterate(device: Device, times: DeviceTimes, work: list[float], behind: float = 0.0) -> list[tuple[Any, float]]:
    """Iterations of so many milliseconds on a device that is so far behind; what was read, in order."""
    found: list[tuple[Any, float]] = []
    for index, milliseconds in enumerate(work, 1):
        times.begins(LOOP)
        device.work(milliseconds)
        times.ends(LOOP, index)
        device.now = max(device.queued.values(), default=0.0) - behind
        found += times.done()
    return found


@pytest.mark.parametrize("behind", [0.0, 2.5])
def test_an_iteration_takes_what_its_work_takes(behind: float) -> None:
    device = Device()
    times = DeviceTimes(device)
    found = iterate(device, times, [1.0, 2.0, 3.0, 4.0], behind)
    device.now += behind
    found += times.done()
    assert found == [(1, 1.0), (2, 2.0), (3, 3.0), (4, 4.0)]
    assert (times.count, times.total) == (4, 10.0)


def test_a_device_that_falls_behind_is_not_waited_for() -> None:
    device = Device()
    times = DeviceTimes(device)
    assert iterate(device, times, [1.0] * 5000, behind=1e9) == []
    assert len(device.made) <= 200
    device.now = 1e9
    assert list(times.done())
    # It has caught up: what was measured is measured on, with the events that there are.
    made = len(device.made)
    device.now = 0.0
    found = iterate(device, times, [1.5] * 100)
    assert len(device.made) == made and found[-1] == (100, 1.5)


def test_a_device_that_nobody_uses_is_left_alone() -> None:
    device = Device()
    device.initialized = False
    times = DeviceTimes(device)
    assert iterate(device, times, [1.0] * 3) == [] and not device.made
    device.initialized = True
    assert len(iterate(device, times, [1.0] * 3)) == 3


def test_nothing_is_asked_of_the_device_while_a_graph_is_captured() -> None:
    device = Device()
    times = DeviceTimes(device)
    times.begins(LOOP)
    device.work(1.0)
    times.ends(LOOP, 1)
    times.begins(LOOP)
    device.capturing = True
    times.ends(LOOP, 2)
    assert list(times.done()) == []
    times.begins(LOOP)
    device.capturing = False
    times.ends(LOOP, 3)
    device.now = 1.0
    assert list(times.done()) == [(1, 1.0)]


def test_there_is_no_time_between_streams_or_devices() -> None:
    device = Device()
    times = DeviceTimes(device)
    for stream in ((0, 8), (1, 7), (1, 7)):
        times.begins(LOOP)
        device.stream = SimpleNamespace(device_index=stream[0], cuda_stream=stream[1])
        device.work(1.0)
        times.ends(LOOP, stream)
    device.now = 10.0
    assert list(times.done()) == [((1, 7), 1.0)]
    assert len(iterate(device, times, [2.0] * 3)) == 3


def test_the_next_run_of_a_loop_does_not_begin_with_the_last_mark() -> None:
    device = Device()
    times = DeviceTimes(device)
    times.begins(LOOP)
    device.work(5.0)
    times.ends(SimpleNamespace(text="loop", id=2), 1)
    device.now = 10.0
    assert list(times.done()) == []


def test_an_error_of_the_device_is_left_to_the_program() -> None:
    device = Device()
    times = DeviceTimes(device)

    def fails(*_: Any) -> Any:
        raise RuntimeError("CUDA error: device-side assert triggered")

    times.begins(LOOP)
    times.ends(LOOP, 1)
    device.Event.query = fails  # type: ignore[method-assign]
    assert list(times.done()) == []
    device.Event.record = fails  # type: ignore[method-assign]
    assert iterate(device, times, [1.0] * 3) == [] and times.count == 0


PROGRAM = """
    import time, types
    import torch

    class Event:
        def __init__(self, enable_timing):
            self.at = None

        def record(self, stream):
            self.at = time.monotonic()

        def query(self):
            return time.monotonic() - self.at > 0.002

        def elapsed_time(self, end):
            return 1000 * (end.at - self.at)

    stream = types.SimpleNamespace(device_index=0, cuda_stream=0)
    if {used}:
        torch.cuda.is_initialized = lambda: True
        torch.cuda.is_current_stream_capturing = lambda: False
        torch.cuda.current_stream = lambda: stream
        torch.cuda.Event = Event
        torch.cuda.memory_allocated = torch.cuda.max_memory_allocated = lambda: 1

    w = torch.ones(3, requires_grad=True)
    for epoch in range(2):
        for step in range(6):
            (w * w).sum().backward()
            time.sleep(0.01)
"""


def test_the_tape_has_the_time_of_iterations(record: Callable[..., RunResult]) -> None:
    result = record(PROGRAM.format(used=True))
    assert result.how_ended == "finished", result.stderr
    end = result.tape.events[-1]
    assert isinstance(end, End) and not end.detail
    measures = {
        event.at.iteration[-1]: event.value
        for event in result.tape.events
        if isinstance(event, Measure) and event.name == "device-time"
    }
    assert len(measures) >= 6 and all(5 < value < 2000 for value in measures.values()), measures
    assert " ms of device time an iteration" in mean_time(result.tape)
    count = [event.value for event in result.tape.events if getattr(event, "name", "") == "device-time-iterations"]
    assert count and len(measures) <= count[0] <= 12


def test_without_a_device_nothing_is_said_of_it(record: Callable[..., RunResult]) -> None:
    result = record(PROGRAM.format(used=False))
    assert mean_time(result.tape) == ""
    assert not any(isinstance(event, Measure) and event.name.startswith("device-") for event in result.tape.events)


KEPT = """\
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = torch.compile(nn.Linear(4, 4).to(device), backend="cudagraphs")
kept = []
with torch.no_grad():
    for step in range(4):
        kept.append(model(torch.randn(3, 4, device=device)))
print(torch.cat(kept).sum())
"""


def test_a_run_without_a_device_says_nothing_of_cuda_graphs(write: Write, tmp_path: Path) -> None:
    name = write(KEPT)
    (finding,) = check(read_source(name)).findings
    assert finding.code == "TAPE610"
    tape = run(RunRequest(name, (), PYTHON, str(tmp_path), QUIET, watch=lines_of([finding]))).tape
    (judged,) = judge([finding], tape)
    assert judged.evidence is None and "no CUDA device" in judged.notes[-1]
    # The same with a device, on which nothing was raised.
    *events, end = tape.events
    used = Measure(Site(finding.span, "<module>"), "cuda-peak-memory", 512, "bytes")
    (judged,) = judge([finding], dataclasses.replace(tape, events=[*events, used, end]))
    assert judged.evidence is not None and judged.evidence.verdict == "refuted"
