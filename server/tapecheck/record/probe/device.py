"""How long the device works at an iteration, by events of its stream that are never waited for."""

from __future__ import annotations

from collections import deque
from types import ModuleType
from typing import TYPE_CHECKING, Deque, Dict, Iterator, List, NamedTuple, Optional, Tuple

from .lines import Iterations, Place, RunningLoop
from .sources import Extent

if TYPE_CHECKING:
    from torch.cuda import Event, Stream

_MAX_WAITING = 64
_MAX_LOOPS = 256


# The place of a loop, the iterations that ran and the loop's extent.
At = Tuple[Place, Iterations, Extent]


class Interval(NamedTuple):
    """An iteration between two events on one stream of a device; `at` is what the recorder calls its place."""

    at: At
    device: int
    start: Event
    end: Event


class DeviceTimes:
    """Marks the current stream where iterations begin and end, and reads the marks once the device has passed them.

    `cuda` is `torch.cuda`. It is never initialised from here, no event is recorded or asked for while a graph is
    captured, and none is waited for: an interval is read at a later iteration, when its events say that they are done.
    What is measured is the time between the two marks on the stream, its idle time included.
    """

    def __init__(self, cuda: ModuleType) -> None:
        self.cuda = cuda
        self.count = 0
        self.total = 0.0
        self._free: Dict[int, List[Event]] = {}
        self._begun: Dict[object, Tuple[int, Tuple[int, int], Optional[Event]]] = {}
        self._waiting: Deque[Interval] = deque()
        self._broken = False

    def begins(self, loop: RunningLoop) -> None:
        """Mark the beginning of an iteration of a loop."""
        if not self._usable():
            return
        try:
            if len(self._begun) >= _MAX_LOOPS:
                self._begun.clear()
            stream = self.cuda.current_stream()
            self._begun[loop.text] = (loop.id, _place(stream), self._mark(stream))
        except Exception:
            self._broken = True

    def ends(self, loop: RunningLoop, at: At) -> None:
        """Mark the end of an iteration of a loop: its work is on the stream, done or not."""
        if not self._begun:
            return
        number, place, start = self._begun.pop(loop.text, (-1, (0, 0), None))
        if number != loop.id or not self._usable():
            return
        try:
            stream = self.cuda.current_stream()
            # Between streams or devices there is no time to be had.
            if _place(stream) == place:
                self._waiting.append(Interval(at, place[0], start, self._mark(stream)))
        except Exception:
            self._broken = True

    def done(self) -> Iterator[Tuple[At, float]]:
        """Yield the iterations whose intervals the device has passed by now: their places, and milliseconds."""
        try:
            while self._waiting and self._quiet() and self._waiting[0].end.query():
                at, device, start, end = self._waiting.popleft()
                milliseconds = float(start.elapsed_time(end))
                self._free.setdefault(device, []).extend((start, end))
                self.count += 1
                self.total += milliseconds
                yield at, milliseconds
        except Exception:
            # An error of the program's own kernels comes up here, too: the program will see it.
            self._broken = True

    def _usable(self) -> bool:
        return bool(self._quiet() and len(self._waiting) < _MAX_WAITING)

    def _quiet(self) -> bool:
        # While a graph is captured even a question to an event would end the capture.
        cuda = self.cuda
        return bool(not self._broken and cuda.is_initialized() and not cuda.is_current_stream_capturing())

    def _mark(self, stream: Stream) -> Event:
        free = self._free.get(stream.device_index)
        event = free.pop() if free else self.cuda.Event(enable_timing=True)
        event.record(stream)
        return event


def _place(stream: Stream) -> Tuple[int, int]:
    return stream.device_index, stream.cuda_stream
