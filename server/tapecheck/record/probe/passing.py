"""Lets most backward calls of a long run pass without a word on the tape: those that tell nothing new."""

from __future__ import annotations

import gc
import time
from types import FrameType
from typing import Any, Dict, List, Optional

from .graph import LEAF_SEQUENCE, Passed, Shape
from .holds import SAMPLED
from .hooks import nodes_of, roots_of
from .tracing import Place, ThreadLines

WRITTEN_FIRST = 8
_ALWAYS_WRITTEN = 5
_MANY, _WRITTEN_OF_MANY = 1000, 3
_ALLOWANCE_SECONDS, _SHARE = 0.25, 0.01
_QUIET = 4
_MOST_PUT_OFF = 32
_MAX_SHAPE = 1 << 20
_MAX_MEETINGS = 10_000


class Calls:
    """The backward calls of one place: how many, how many in a row told nothing new, how many more need no look."""

    __slots__ = ("count", "nodes", "place", "quiet", "shape", "wait")

    def __init__(self, place: Place) -> None:
        self.place = place
        self.count = self.nodes = self.quiet = self.wait = 0
        self.shape: Optional[Shape] = None


class Passing:
    """Which backward calls of one recorded run were let pass: `count` calls, in `iterations` not on the tape either.

    `stamp` is the sequence number at the last call, `spent` the CPU seconds that those on the tape took.
    """

    def __init__(self, recorder: Any) -> None:
        self.recorder = recorder
        self.calls: Dict[Place, Calls] = {}
        self.meetings: Dict[Any, int] = {}
        self.count = self.iterations = self.told = 0
        self.told_at = self.spent = 0.0
        self.stamp = -1

    def passes(
        self, frame: FrameType, roots: List[Any], user: FrameType, retain: bool, create: bool, accumulates: bool
    ) -> bool:
        """Let a backward pass that is like those before it from the same line, without a word on the tape.

        So long as it walks new nodes only, or meets those of lines that it was seen to meet before. A few of all calls
        are always written: the first ones, and ever fewer later.
        """
        recorder = self.recorder
        lines = recorder.tracer.lines()
        recorder.tracer.catch_up(lines)
        place = lines.place
        if place is None:
            return False
        calls = self.calls.get(place)
        if calls is None:
            calls = self.calls[place] = Calls(place)
        count = calls.count = calls.count + 1
        if recorder.told is not None or count <= (_ALWAYS_WRITTEN if calls.nodes <= _MANY else _WRITTEN_OF_MANY):
            return False
        if count <= WRITTEN_FIRST or count in SAMPLED:
            calls.wait = 0
            if self.spent < _ALLOWANCE_SECONDS + _SHARE * time.process_time():
                return False
        nodes = nodes_of(roots)
        if any(node is None or node._sequence_nr() == LEAF_SEQUENCE for node in nodes):
            return False
        call = (user.f_code, user.f_lineno, user.f_lasti)
        kept, reader = recorder.last_backward, recorder.reader
        mark = Passed(recorder.backwards, place, lines.now, call, retain, create, accumulates)
        stamp, window = lines.seen, lines.seen - self.stamp
        if calls.wait > 0 and not retain and calls.shape is not None and self._may_put_off():
            calls.wait -= 1
            passed = reader.pass_unseen(nodes, mark, stamp, window, calls.shape)
        else:
            passed = False
        if not passed and not self._walks(calls, nodes, mark, stamp, window):
            return False
        self.stamp = stamp
        kept.id, kept.code, kept.place, kept.iteration, kept.mark = (
            mark.number, frame.f_code, place, mark.iteration, mark,
        )  # fmt: skip
        self.count += 1
        now = time.monotonic()
        if now - self.told_at > 1.0:
            self.told_at = now
            with recorder.group() as lines:
                self.write_passes(lines)
        return True

    def _may_put_off(self) -> bool:
        """Whether a call may pass without a look: not while a retained graph lives, which it might walk again."""
        recorder = self.recorder
        last = getattr(recorder.last_backward, "mark", None)
        return len(recorder.tracer.threads) == 1 and not recorder.reader.retains(last)

    def _walks(self, calls: Calls, nodes: List[Any], mark: Passed, stamp: int, window: int) -> bool:
        """Mark the graph of a call that may pass; whether it is as regular as is needed for that."""
        with self.recorder.lock:
            settled = calls.quiet >= _QUIET and 0 <= window <= _MAX_SHAPE
            offsets = bytearray(window) if settled else None
            collecting = gc.isenabled()
            gc.disable()
            try:
                walked, ends = self.recorder.reader.skim(nodes, mark, offsets, stamp)
            finally:
                if collecting:
                    gc.enable()
            if walked < 0 or not self._met_before(calls.place, ends):
                mark.void = True
                calls.quiet = calls.wait = 0
                return False
            if ends and mark.retain:
                self.recorder.reader.retained_before = True
            if ends or mark.retain:
                calls.quiet = calls.wait = 0
            else:
                calls.quiet += 1
                if offsets is not None:
                    calls.shape = Shape(window, offsets)
                    calls.wait = min(1 << (calls.quiet - _QUIET), _MOST_PUT_OFF)
        return True

    def _met_before(self, place: Place, ends: List[Any]) -> bool:
        """Whether calls at this place were often seen to come to an end at such nodes of earlier ones."""
        for end in ends:
            key = (end.place if type(end) is Passed else end.id, place, getattr(end, "retain", False))
            seen = self.meetings.get(key, 0)
            if seen < WRITTEN_FIRST:
                if len(self.meetings) > _MAX_MEETINGS:
                    self.meetings.clear()
                self.meetings[key] = seen + 1
                return False
        return True

    def write_passes(self, lines: ThreadLines) -> None:
        """Say how many calls and iterations were let pass so far."""
        self.told = self.count
        at, event = self.recorder.here(lines), self.recorder.writer.event
        event("Measure", at=at, name="passed-calls", value=self.count, unit="calls")
        event("Measure", at=at, name="passed-iterations", value=self.iterations, unit="iterations")

    def write_failed(self, mark: Passed, frame: FrameType, traceback: Any) -> None:
        """A backward that was let pass failed: write it after all, with what it came upon."""
        recorder = self.recorder
        recorder.last_backward.mark = None
        mark.void = True
        user = None
        step = traceback
        while step is not None:
            if recorder.tracer.function(step.tb_frame.f_code) is not None:
                user = step.tb_frame
            step = step.tb_next
        with recorder.group() as lines:
            recorder.declare_loops(lines)
            recorder.write_backward(mark, roots_of(frame), None, user)

    def write_passed(self, mark: Passed, nodes: List[int]) -> None:
        """Write a backward that was let pass and turns out to matter, for those of its nodes that do."""
        recorder = self.recorder
        call, extent = recorder.call(mark.call)
        recorder.writer.event(
            "Backward", id=mark.number, at=recorder.site(mark.place, mark.iteration, extent),
            call="backward" if mark.accumulates else "grad",
            roots=[{"node": node, "graph": "yes", "name": "", "cuts": [], "constant_terms": []} for node in nodes],
            accumulates=mark.accumulates, succeeded=True, **recorder.retaining(mark, call),
        )  # fmt: skip
        mark.void = True
