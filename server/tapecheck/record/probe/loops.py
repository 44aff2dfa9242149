"""The loops that train: their iterations are counted, sampled, and timed on the device."""

from __future__ import annotations

from types import FrameType, ModuleType
from typing import Dict, List, Set

from .device import DeviceTimes
from .holds import SAMPLED, SOON, begins_late, next_sample
from .lines import RunningLoop, ThreadLines
from .passing import WRITTEN_FIRST
from .recording import Loops, Recording
from .sources import LoopText

_NEVER = 1 << 62
# So many iterations may end before the clock is looked at, where as many took less than these seconds.
_UNTIMED, _SHORT = 16, 0.1


def _is_sample(number: int) -> bool:
    """Return whether an entry of a loop, or an iteration, is one that is looked at."""
    return number <= WRITTEN_FIRST or number in SAMPLED


class TrainingLoops(Loops):
    """The loops of one recorded run in which something is walked, `accumulating` those of them that give gradients to
    leaves; `device` is there once torch is attached.
    """

    device: DeviceTimes

    def __init__(self, recorder: Recording) -> None:
        self.recorder = recorder
        # Whether the program uses CUDA, as far as iterations told.
        self.on_device = False
        # Whether iterations need no more than to be counted.
        self.plain_run = not recorder.bounds.limits.iterations
        self.counts: Dict[LoopText, List[int]] = {}
        self.training: Set[LoopText] = set()
        self.accumulating: Set[LoopText] = set()

    def attach(self, torch: ModuleType) -> None:
        self.device = DeviceTimes(torch.cuda)

    def iteration_ends(self, lines: ThreadLines, loop: RunningLoop, frame: FrameType) -> None:
        recorder = self.recorder
        if not recorder.attached or recorder.disabled or recorder.ended:
            return
        index, counted = loop.index, loop.count
        if counted is not None and self.on_device:
            self._device_times(lines, loop)
        elif counted is not None and index < loop.sample and recorder.raises.told is None and self.plain_run:
            loop.look = self._next_look(index, loop.sample)
            return
        looked_at = _is_sample(loop.entry)
        built = lines.seen != loop.began
        if recorder.raises.told is not None or (built and looked_at and (_is_sample(index) or begins_late(loop))):
            with recorder.group():
                recorder.raises.flush(caught=True)
                for running in lines.running():
                    recorder.declare(lines, running)
                if built:
                    recorder.holds.iteration_ended(recorder, lines, loop, frame)
        if index == 1 and loop.count is None and loop.text in self.training:
            self.count_iterations(loop)
        loop.sample = next_sample(index) if not begins_late(loop) else index + 1
        if loop.count is not None:
            self._counted(loop, loop.count)
        elif recorder.raises.told is None:
            loop.look = self._next_look(index, loop.sample if looked_at else _NEVER)
        if recorder.bounds.limits.seconds:
            recorder.bounds.check()

    def _counted(self, loop: RunningLoop, counted: List[int]) -> None:
        """Look at what comes after an iteration of a loop that trains."""
        recorder = self.recorder
        recorder.passing.settle(loop, loop.index)
        if recorder.seeded.seed is not None:
            self.plain_run = False
            recorder.seeded.iteration_ended(loop, counted[0])
        recorder.bounds.iterated(loop, counted[0])
        self.on_device = self.on_device or recorder.torch.cuda.is_initialized()
        if self.on_device and recorder.tracer.alone:
            # Begun after all of the above: the device would wait for it.
            self.device.begins(loop)
        elif self.plain_run and recorder.raises.told is None:
            loop.look = self._next_look(loop.index, loop.sample)

    def _next_look(self, index: int, sample: int) -> int:
        """Return the iteration after which to look next: `sample`, or an earlier one where the run may end by the
        clock.
        """
        recorder = self.recorder
        if not recorder.bounds.limits.seconds:
            return sample
        before = recorder.bounds.checked
        recorder.bounds.check()
        return min(sample, index + (_UNTIMED if recorder.bounds.checked - before < _SHORT else 1))

    def walked(self, lines: ThreadLines, accumulates: bool) -> None:
        """Note that the innermost loop trains: something is walked in it."""
        running = lines.running()
        if running:
            self.training.add(running[-1].text)
            if accumulates:
                self.accumulating.add(running[-1].text)
            if running[-1].count is None:
                self.count_iterations(running[-1])
            running[-1].look = 0

    def count_iterations(self, loop: RunningLoop) -> None:
        """Count the iterations of a training loop from the one that runs on."""
        loop.count = self.counts.setdefault(loop.text, [0])
        loop.late = loop.index if loop.index > SOON and not loop.hidden else 0
        loop.look, loop.settled = 0, loop.index - 1
        loop.declared = int(loop.written_index == loop.index)

    def found_loop(self, lines: ThreadLines, loop: RunningLoop) -> None:
        """Note a loop that no line event shows, found in its second iteration: it is the one that trains."""
        recorder = self.recorder
        for outer in lines.running():
            if outer is not loop and outer.text in self.training:
                # Nothing was walked in it but by this one.
                self.training.discard(outer.text)
                self.counts.pop(outer.text, None)
                if outer.text in self.accumulating:
                    self.accumulating.discard(outer.text)
                    self.accumulating.add(loop.text)
                outer.count = None
        self.training.add(loop.text)
        self.count_iterations(loop)
        loop.settled = loop.declared = 0
        with recorder.group():
            recorder.declare_loops(lines)

    def _device_times(self, lines: ThreadLines, loop: RunningLoop) -> None:
        """Mark the end of an iteration on the device, and write how long those took that the device is done with."""
        recorder = self.recorder
        device = self.device
        device.ends(loop, (loop.place, lines.iteration(), loop.text.extent))
        for (place, iteration, extent), milliseconds in device.done():
            if iteration[-1][1] in SAMPLED:
                with recorder.group():
                    at = recorder.site(place, iteration, extent)
                    recorder.writer.event("Measure", at=at, name="device-time", value=milliseconds, unit="ms")

    def loop_ends(self, lines: ThreadLines, loop: RunningLoop) -> None:
        recorder = self.recorder
        if not recorder.attached or recorder.disabled or recorder.ended:
            return
        if loop.hidden and loop.index > 1 and (lines.seen == loop.began or recorder.walks.count == loop.walked):
            # The last end of an iteration was the loop's own.
            loop.index -= 1
            loop.waiting = True
        recorder.passing.settle(loop, loop.index if loop.waiting else loop.index - 1)
        if (lines.seen != loop.began and not loop.waiting) or loop.written:
            with recorder.group():
                for running in lines.running():
                    recorder.declare(lines, running)
                if recorder.alive is not None:
                    recorder.alive.after_loop(lines, loop)
                ran = loop.index
                recorder.writer.event("LoopEnd", loop=loop.id, iterations=ran, more="no", every=False, length=ran)
        else:
            # It may have been broken off, before anything was built in its last iteration.
            recorder.passing.settle(loop, loop.index)

    def write_times(self, lines: ThreadLines) -> None:
        """Write the memory and the time that the program took on the device, where it used one."""
        torch = self.recorder.torch
        if not torch.cuda.is_initialized():
            return
        event, at = self.recorder.writer.event, self.recorder.here(lines)
        event("Measure", at=at, name="cuda-peak-memory", value=torch.cuda.max_memory_allocated(), unit="bytes")
        device = self.device
        for _ in device.done():
            pass
        if device.count:
            event("Measure", at=at, name="device-time-mean", value=device.total / device.count, unit="ms")
            event("Measure", at=at, name="device-time-iterations", value=device.count, unit="iterations")
