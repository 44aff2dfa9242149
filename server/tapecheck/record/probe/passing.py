"""Lets most backward calls of a long run pass without a word on the tape: those that tell nothing new."""

from __future__ import annotations

import gc
import threading
from types import CodeType, FrameType, TracebackType
from typing import TYPE_CHECKING, Dict, List, Optional, Set, Tuple

from .effort import WRITTEN_CALL, WRITTEN_NODE, Effort, seconds
from .graph import LEAF_SEQUENCE, Known
from .holds import SAMPLED, next_sample
from .hooks import nodes_of, roots_of
from .lines import Place, RunningLoop, ThreadLines
from .passed import MAX_PUT_OFF, CallAt, Calls, Kind, Passed, Shape
from .recording import PassedCalls, Recording
from .sources import LoopText

if TYPE_CHECKING:
    from torch.autograd.graph import Node

    from .graph import Root

WRITTEN_FIRST = 8
_ALWAYS_WRITTEN = 5
_MANY, _WRITTEN_OF_MANY = 1000, 2
_MOST_AWAITED = 256
"""So many calls of a run are written only because the step after them is the second one of its optimizer."""
_WRITING = 100_000
_QUIET = 3
_MOST_PUT_OFF = 32
_MAX_SHAPE = 1 << 20
_MAX_MEETINGS = 10_000
# What is retained is there to be walked again: that is seen sooner than what else a call may meet.
_MET_RETAINED = 2


class Passing(PassedCalls):
    """Which backward calls of one recorded run were let pass: `count` calls, in `iterations` not on the tape either.

    `stamp` is the sequence number at the last call, `effort` the work that those on the tape took, `kept` says
    that something was found to keep graphs over iterations. `regular` are the places whose calls may pass by
    `passes_regular`. `awaited` are the optimizers, by number, whose gradients of the first step are to be compared
    with those of the second: what comes in between is written.
    """

    def __init__(self, recorder: Recording) -> None:
        self.recorder = recorder
        self.calls: Dict[Optional[Place], Calls] = {}
        self.regular: Dict[Optional[Place], Calls] = {}
        self.kept = False
        self.meetings: Dict[object, int] = {}
        self.count = self.told = 0
        self.by_loop: Dict[LoopText, int] = {}
        self.told_at = 0.0
        self.effort = Effort(_WRITING)
        # Whether it is on the tape that the clock has ended it.
        self.noted = False
        self.stamp = -1
        self.awaited: Set[int] = set()
        self._awaited_left = _MOST_AWAITED

    def passes_regular(self, calls: Calls, lines: ThreadLines, frame: FrameType) -> bool:
        """Let a call of a place in `regular` pass without a look even at its root, which costs more than all of this.

        False, and nothing is changed, where any more has to be known.
        """
        recorder, kind, own = self.recorder, calls.kind, frame.f_code
        if (
            kind is None or calls.wait <= 0 or self.awaited or calls.count + 1 >= calls.look
            or recorder.raises.told is not None or recorder.disabled or recorder.ended
            or lines.thread != threading.get_ident() or not lines.stack
        ):  # fmt: skip
            return False
        user: Optional[FrameType] = frame
        for _ in range(kind.depth):
            user = user.f_back if user is not None else None
        reader = recorder.reader
        if (
            user is None or user.f_code is not lines.stack[-1].code or user.f_lasti != kind.call[2]
            or reader.retaining or reader.retained_before
        ):  # fmt: skip
            return False
        if recorder.bounds.any:
            recorder.bounds.check()
        stamp = recorder.tracer.sequence()
        if self.kept and stamp - self.stamp != kind.shape.window:
            return False
        if stamp != lines.seen:
            lines.advance(stamp)
        self._put_off(calls, kind, lines, own, stamp, stamp - 1)
        return True

    def _put_off(self, calls: Calls, kind: Kind, lines: ThreadLines, own: CodeType, stamp: int, root: int) -> object:
        """Remember a call that passes without a look at its graph."""
        recorder = self.recorder
        reader, kept = recorder.reader, recorder.walks.last
        calls.count += 1
        calls.wait -= 1
        recorder.walks.count += 1
        mark = (
            recorder.walks.count, kind, lines.loop_states[-1], lines.loop_indexes[-1], stamp, root, stamp - self.stamp,
        )  # fmt: skip
        reader.put_off += mark
        reader.put_off_until = self.stamp = stamp
        if len(reader.put_off) > MAX_PUT_OFF:
            reader.forget_put_off()
        kept.id, kept.code, kept.mark = recorder.walks.count, own, mark
        self.count += 1
        if not self.count & 15 and seconds() - self.told_at > 1.0:
            self._tell()
        return mark

    def passes_unseen(self, frame: FrameType, roots: List[Root], accumulates: bool) -> bool:
        """Let a backward pass without a look at its graph, where those before it from the same line were all alike.

        False, and nothing is changed, where any more than that has to be known. All in one piece: most backward calls
        of a long run do no more than this, and up to Python 3.11 tracing makes every call dear.
        """
        recorder = self.recorder
        tracer = recorder.tracer
        lines = tracer.threads.get(threading.get_ident())
        if lines is None or not lines.stack or recorder.raises.told is not None or not tracer.alone or lines.engine:
            return False
        # The innermost user frame, unless torch runs this backward for itself within another one.
        code, own, user = lines.stack[-1].code, frame.f_code, frame.f_back
        while user is not None and user.f_code is not code:
            if user.f_code is own:
                return False
            user = user.f_back
        reader, stamp = recorder.reader, tracer.sequence()
        if user is None or len(roots) != 1 or reader.retaining or reader.retained_before:
            return False
        if stamp != lines.seen:
            lines.advance(stamp)
        calls = self.calls.get(lines.place)
        if calls is None or calls.wait <= 0 or self.awaited or calls.count + 1 >= calls.look:
            return False
        kind, root = calls.kind, roots[0]
        if kind is None or kind.call[2] != user.f_lasti or kind.accumulates != accumulates or isinstance(root, tuple):
            return False
        node = root.grad_fn
        if node is None:
            return False
        number = node._sequence_nr()
        if number == LEAF_SEQUENCE:
            return False
        if number == stamp - 1 and stamp - self.stamp == kind.shape.window:
            # The numbers of its nodes show that it walked them. Even asking for `metadata` allocates a block that lives
            # as long as the node: where graphs are kept, such blocks lie between the program's tensors.
            self._put_off(calls, kind, lines, own, stamp, number)
            return True
        stored, key = node.metadata, reader.key
        if key in stored:
            return False
        stored[key] = self._put_off(calls, kind, lines, own, stamp, number)
        return True

    def passes(
        self, frame: FrameType, roots: List[Root], inputs: Optional[List[Root]], user: FrameType, retain: bool,
        create: bool, accumulates: bool,
    ) -> bool:  # fmt: skip
        """Let a backward pass that is like those before it from the same line, without a word on the tape.

        So long as it walks new nodes only, or meets those of lines that it was seen to meet before. A few of all calls
        are always written: the first ones, and ever fewer later. So is one with `inputs` that frees what it walks: that
        is only the way to them.
        """
        if inputs is not None and not retain:
            return False
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
        calls.look = next_sample(count)
        if recorder.raises.told is not None or count <= (_ALWAYS_WRITTEN if calls.nodes <= _MANY else _WRITTEN_OF_MANY):
            return False
        if count <= WRITTEN_FIRST or count in SAMPLED or (self.awaited and self._awaits()):
            calls.wait = 0
            if self.effort.left(lines.seen - recorder.first_sequence, 1.0 if calls.nodes <= _MANY else 0.0):
                return False
            if self.effort.stopped and not self.noted:
                # Counted work never says so: it is the same on every machine.
                self.noted = True
                with recorder.group():
                    at, value = recorder.site(place, lines.iteration()), self.effort.seconds
                    recorder.writer.event("Measure", at=at, name="writing-stopped", value=value, unit="seconds")
        nodes = nodes_of(roots)
        if any(node is None or node._sequence_nr() == LEAF_SEQUENCE for node in nodes):
            return False
        call = (user.f_code, user.f_lineno, user.f_lasti)
        kept, reader = recorder.walks.last, recorder.reader
        mark = Passed(recorder.walks.count, place, lines.iteration(), call, retain, create, accumulates)
        if inputs is not None:
            wanted = reader.wanted(inputs)
            if wanted is None:
                return False
            mark.inputs, mark.ends = wanted
        stamp, window = lines.seen, lines.seen - self.stamp
        # A retained graph that lives might be walked again: until it is gone, no call passes without a look.
        reader.retains(getattr(kept, "mark", None))
        if not self._walks(calls, nodes, mark, stamp, window):
            return False
        if calls.kind is not None and calls.kind.call is call:
            if calls.bare is None or calls.bare[0] != call:
                calls.bare = (call, self._depth(frame, user, call))
            calls.kind.depth = calls.bare[1]
            self.regular[place] = calls
        self.stamp = stamp
        kept.id, kept.code, kept.mark = mark.number, frame.f_code, mark
        self.count += 1
        if seconds() - self.told_at > 1.0:
            self._tell()
        return True

    def _awaits(self) -> bool:
        """Count a call that is written for the sake of a second step, as long as such calls are left."""
        self._awaited_left -= 1
        if self._awaited_left <= 0:
            self.awaited.clear()
        return bool(self.awaited)

    def _depth(self, frame: FrameType, user: FrameType, call: CallAt) -> int:
        """Return how many frames lie between the engine and a plain `loss.backward()` of the user's, 0 for any other
        call.
        """
        text, _ = self.recorder.walks.call(call)
        if text is None or not text.bare or text.function != "backward":
            return 0
        depth, step = 0, frame
        while step is not user and step.f_back is not None:
            depth, step = depth + 1, step.f_back
            if step is not user and step.f_code.co_filename not in self.recorder.tracer.foreign:
                return 0
        # Tensor.backward, torch.autograd.backward and what calls the engine: a library in between may give it more.
        return depth if depth <= 3 else 0

    def _tell(self) -> None:
        self.told_at = seconds()
        with self.recorder.group() as lines:
            self.write_passes(lines)

    def _walks(self, calls: Calls, nodes: List[Node], mark: Passed, stamp: int, window: int) -> bool:
        """Mark the graph of a call that may pass; whether it is as regular as is needed for that."""
        with self.recorder.lock:
            settled = calls.quiet >= _QUIET and 0 <= window <= _MAX_SHAPE
            offsets = bytearray(window) if settled else None
            collecting = gc.isenabled()
            self.recorder.process.resting = self.recorder.process.resting or collecting
            gc.disable()
            try:
                walked, ends = self.recorder.reader.skim(nodes, mark, offsets, stamp)
            finally:
                if collecting:
                    self.recorder.process.resting = False
                    gc.enable()
            again = list(self.recorder.reader.marked_again.values())
            self.recorder.reader.marked_again.clear()
            if walked < 0 or not self._met_before(calls.place, ends):
                for made in (mark, *again):
                    made.void = True
                calls.quiet = calls.wait = 0
                return False
            if ends and mark.retain:
                self.recorder.reader.retained_before = True
            if ends or mark.retain:
                calls.quiet = calls.wait = 0
            else:
                calls.quiet += 1
                if offsets is not None:
                    calls.kind = Kind(calls.place, mark.call, mark.accumulates, Shape(window, offsets))
                    calls.wait = min(1 << 2 * (calls.quiet - _QUIET), _MOST_PUT_OFF)
        return True

    def _met_before(self, place: Place, ends: List[Passed | Known]) -> bool:
        """Return whether calls at this place were often seen to come to an end at such nodes of earlier ones."""
        often = True
        for key in {(end.place if isinstance(end, Passed) else end.id, getattr(end, "retain", False)) for end in ends}:
            seen = self.meetings.get((place, key), 0)
            if seen < (_MET_RETAINED if key[1] else WRITTEN_FIRST):
                if len(self.meetings) > _MAX_MEETINGS:
                    self.meetings.clear()
                self.meetings[place, key] = seen + 1
                often = False
        return often

    def settle(self, loop: RunningLoop, ended: int) -> None:
        """Count those of a training loop's iterations, up to the one that `ended` last, that are not on the tape."""
        if loop.count is not None and ended > loop.settled:
            runs = int(loop.written_index > ended)
            loop.count[0] += ended - loop.settled
            more = ended - loop.settled - (loop.declared - runs)
            self.by_loop[loop.text] = self.by_loop.get(loop.text, 0) + more
            loop.settled, loop.declared = ended, runs
            # One that was counted is not written any more.
            loop.written_index = max(loop.written_index, ended)

    @property
    def iterations(self) -> int:
        """How many iterations are not on the tape: of the loops that call backward; where none does, autograd.grad."""
        counted = self.recorder.loops.accumulating or self.by_loop
        return sum(count for text, count in self.by_loop.items() if text in counted)

    def settle_all(self) -> None:
        """Count those of all loops that run."""
        for lines in list(self.recorder.tracer.threads.values()):
            for loop in lines.running():
                self.settle(loop, loop.index if loop.waiting else loop.index - 1)

    def write_passes(self, lines: ThreadLines) -> None:
        """Say how many calls and iterations were let pass so far."""
        self.settle_all()
        self.told = self.count
        at, event = self.recorder.here(lines), self.recorder.writer.event
        event("Measure", at=at, name="passed-calls", value=self.count, unit="calls")
        event("Measure", at=at, name="passed-iterations", value=self.iterations, unit="iterations")

    def written(self, nodes: int, since: float) -> None:
        """Count the work of a call that was written with so many nodes, begun at a CPU time."""
        self.effort.took(WRITTEN_CALL + WRITTEN_NODE * nodes, since)

    def write_failed(
        self, mark: Passed | Tuple[object, ...], frame: FrameType, traceback: Optional[TracebackType]
    ) -> None:
        """Write a backward after all that was let pass and failed, with what it came upon."""
        recorder = self.recorder
        # It is counted as one that was written.
        self.count -= 1
        if not isinstance(mark, Passed):
            mark = recorder.reader.take_back(mark, nodes_of(roots_of(frame))[0])
        kept = recorder.walks.last
        kept.place, kept.iteration, kept.mark = mark.place, mark.iteration, None
        mark.void = True
        user = None
        step = traceback
        while step is not None:
            if recorder.tracer.function(step.tb_frame.f_code) is not None:
                user = step.tb_frame
            step = step.tb_next
        with recorder.group() as lines:
            recorder.declare_loops(lines)
            recorder.walks.write_backward(mark, roots_of(frame), None, user)

    def write_passed(self, mark: Passed, nodes: List[int]) -> None:
        """Write a backward that was let pass and turns out to matter, for those of its nodes that do."""
        recorder = self.recorder
        call, extent = recorder.walks.call(mark.call)
        fields = recorder.walks.retaining(mark, call)
        if mark.inputs is not None:
            # The graph of what is written here may not lead to all of them.
            fields.update(inputs=recorder.reader.on_tape(mark.inputs), allow_unused=True)
        recorder.writer.event(
            "Backward", id=mark.number, at=recorder.site(mark.place, mark.iteration, extent),
            call="backward" if mark.accumulates else "grad",
            roots=[{"node": node, "graph": "yes", "name": "", "cuts": [], "constant_terms": []} for node in nodes],
            accumulates=mark.accumulates, succeeded=True, **fields,
        )  # fmt: skip
