"""Puts what is observed onto the tape: the one place where tracing, graphs and hooks meet."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from contextlib import contextmanager
from types import FrameType, ModuleType, TracebackType
from typing import Callable, Dict, Iterator, List, Optional, Tuple

from .alive import Alive
from .bounds import Bounds, Limits
from .children import Process, seconds_elsewhere
from .described import Described
from .discarded import Discarded
from .gradients import UsedGradients
from .graph import Numbering, Reader, raise_stack_limit
from .hidden import HiddenLoops
from .holds import HoldFinder
from .hooks import install
from .inplace import Changes
from .lines import Changed, Iterations, Listener, Place, RunningLoop, ThreadLines, WatchedLine
from .loops import TrainingLoops
from .names import resolve
from .parts import Part
from .passing import Passing
from .raises import Raises
from .reached import Reached
from .recording import Recording
from .rest import Rests
from .retained import Retained
from .scaling import Scaling
from .seeded import Seeded
from .sources import Extent, Sources
from .tracing import Tracer
from .unscaled import Unscaled
from .unused import Unused
from .values import TensorRef, version_of
from .walks import Walks
from .writer import Site, Writer, span

OLDEST_TORCH = (2, 2)
_DEPTH_AS_IT_IS = 15_000
_MAX_CHANGED = 256


class Recorder(Recording, Listener):
    """Records one process. Whatever fails in here is noted on the tape and never reaches the user's program."""

    def __init__(self, sources: Sources, writer: Writer, limits: Limits, watch: Dict[Tuple[str, int], int]) -> None:
        self.sources = sources
        self.writer = writer
        self.bounds = Bounds(limits, self.stop_program, lambda: self.walks.count)
        self.process = Process()
        self.tracer = Tracer(sources, self)
        self.tracer.watched = dict(watch)
        self.tracer.failed = self.failed
        self.attached = False
        # What is alive in between, where the run is to tell it.
        self.alive: Optional[Alive] = None
        self.levels = True
        self.failures = 0
        self.first_failure = ""
        self.ended = False
        self.disabled = False
        self.refused = ""
        self.detach: Callable[[], None] = lambda: None
        self.first_sequence = -1
        self.lock = threading.RLock()
        self.seeded = Seeded(self)
        self.reached = Reached(self)
        self.loops = TrainingLoops(self)
        self.described = Described(self)
        self.walks = Walks(self)
        self.raises = Raises(self)
        self.changes = Changes(self)
        self.gradients = UsedGradients(self)
        self.discarded = Discarded(self)
        self.passing = Passing(self)
        self.retained = Retained(self)
        self.hidden = HiddenLoops(self)
        self.unused = Unused(self)
        self.scaling = Scaling(self)
        self.unscaled = Unscaled(self)
        self.rests = self.tracer.rests = Rests(self.tracer, self)

    # Life

    def attach(self, torch: ModuleType, deeper: bool = True) -> None:
        """Begin to watch torch; `deeper` where this process's stack may be made larger for deep graphs."""
        if not hasattr(torch._C._autograd, "_get_sequence_nr"):
            # Nothing of it is watched: half of what happens would be told as all of it.
            self.refused = "torch %s is too old: recording needs %d.%d or later" % (torch.__version__, *OLDEST_TORCH)
            return
        self.torch = torch
        self.reader = Reader(torch, raise_stack_limit() if deeper else _DEPTH_AS_IT_IS, self._numbering)
        self.holds = HoldFinder(torch, self.reader, self.sources)
        self.attached = True
        self.loops.attach(torch)
        woken = self.rests.attach(torch)
        self.tracer.sequence = torch._C._autograd._get_sequence_nr
        task = getattr(torch._C, "_current_graph_task_id", lambda: -1)
        self.tracer.within_backward = lambda: task() != -1
        for lines in list(self.tracer.threads.values()):
            lines.seen = self.tracer.sequence()
        self.first_sequence = self.tracer.sequence()
        unhook = install(torch, self)

        def detach() -> None:
            woken()
            unhook()

        self.detach = detach
        versions = "Python %d.%d.%d, torch %s" % (*sys.version_info[:3], torch.__version__)
        self.writer.event("Started", command=self.process.command, versions=versions, time=time.time())
        self.seeded.begin(torch)

    def _numbering(self) -> Optional[Numbering]:
        """Return which sequence numbers this thread hands out, None where threads run beside each other."""
        tracer = self.tracer
        if not tracer.alone:
            return None
        lines = tracer.threads.get(threading.get_ident())
        others = tracer.engine or self.torch.cuda.is_initialized()
        return Numbering(tracer.sequence(), self.passing.stamp, others, lines is not None and lines.engine)

    def forked(self) -> None:
        """Stop watching and writing in a forked child (a data-loader worker)."""
        # The thread that held it in the parent, and let the collector rest, is not here to end that.
        self.lock = threading.RLock()
        if self.process.resting:
            gc.enable()
        self.disabled = True
        self.writer.forget()
        self.tracer.stop()

    def failed(self) -> None:
        """End the recording at a failure of the recorder itself, never the program; called while handling the
        exception.
        """
        error = sys.exc_info()[1]
        if isinstance(error, RecursionError):
            # The program's own recursion left no room; to say more would need some.
            return
        self.failures += 1
        if self.failures > 1:
            return
        try:
            where = ""
            step = error.__traceback__ if error is not None else None
            while step is not None:
                where = "%s:%d" % (os.path.basename(step.tb_frame.f_code.co_filename), step.tb_lineno)
                step = step.tb_next
            self.first_failure = "%s: %s (%s)" % (type(error).__name__, error, where)
        except Exception:
            self.first_failure = type(error).__name__
        for end in (self._end_here, self._stop):
            try:
                end()
            except Exception:
                # What is broken cannot even be ended.
                pass

    def _end_here(self) -> None:
        """Write what is known, and that the recording ends here."""
        place = None
        try:
            place = self.tracer.lines().place
        except Exception:
            pass
        at = ""
        if place is not None:
            at = " on line %d of %s" % (place.line, os.path.basename(self.sources.name(place.filename)))
        self.finish("stopped", "the recording ended%s, the program ran on" % at)

    def _stop(self) -> None:
        self.disabled = True
        self.tracer.stop()

    @contextmanager
    def group(self) -> Iterator[ThreadLines]:
        """Write one group of events: serialised, without torch functions of subclasses, flushed at its end."""
        with self.lock:
            # Walking a graph allocates much and leaves nothing: a collection in the midst of it would be wasted.
            collecting = gc.isenabled()
            self.process.resting = self.process.resting or collecting
            gc.disable()
            try:
                if self.attached:
                    with self.torch._C.DisableTorchFunction():
                        yield self.tracer.lines()
                else:
                    yield self.tracer.lines()
                self.writer.flush()
            finally:
                if collecting:
                    self.process.resting = False
                    gc.enable()
        most = self.bounds.limits.tape_bytes
        if most and self.writer.bytes > most and not self.ended:
            self.finish("stopped", "the tape reached its limit of %d bytes, the program ran on" % most)
            self._stop()

    def finish(self, how: str, detail: str = "") -> None:
        """Write what is only known at the end, and the end."""
        if self.ended or self.disabled or self.process.is_forked():
            return
        self.ended = True
        # Other threads may still run: what they write beside this would be mixed with the end, or follow it.
        with self.lock:
            try:
                self.raises.flush(caught=True)
                self._summary()
            except Exception:
                self.failed()
            if self.refused:
                detail += "%snot recorded: %s" % ("; " if detail else "", self.refused)
            elif self.failures:
                if how == "finished":
                    how, detail = "stopped", "the recording ended before its summary"
                detail += "%sthe recorder failed %d times, first with %s" % (
                    "; " if detail else "", self.failures, self.first_failure,
                )  # fmt: skip
            self.writer.end(how, detail)

    def stop_program(self, why: str) -> None:
        """End the process at once: no handler, no `finally` and no atexit of a half-trained program runs."""
        self.finish("stopped", why)
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                pass
        self.process.end_above()
        os._exit(0)

    # Sites

    def site(self, place: Optional[Place], iteration: Iterations, extent: Optional[Extent] = None) -> int:
        """Return the number of the site for a place; a place that is unknown is the script's first line."""
        key = (place, iteration, extent)

        def make() -> Site:
            if place is None:
                return span(self.sources.shown, (1, 1, 1, 1)), "<unknown>", [], iteration
            text = place.context.function.text
            where = span(self.sources.name(place.filename), extent or text.line_extent(place.line))
            stack = [
                span(self.sources.name(caller.filename), caller.context.function.text.line_extent(caller.line))
                for caller in place.stack()
            ]
            return where, place.context.function.code.co_name, stack, iteration

        return self.writer.site(key, make)

    def here(self, lines: ThreadLines) -> int:
        return self.site(lines.place, lines.iteration())

    def declare_loops(self, lines: ThreadLines) -> None:
        """Write the loops and iterations that run now, as far as they are not on the tape yet."""
        for call in lines.stack:
            for loop in call.loops:
                self.declare(lines, loop)

    def declare(self, lines: ThreadLines, loop: RunningLoop) -> None:
        if not loop.written:
            loop.written = True
            around = []
            for other in lines.running():
                if other is loop:
                    break
                if other.index:
                    around.append((other.id, other.index))
            place: Optional[Place] = loop.place
            inside = False
            step: Optional[Place] = loop.place
            while step is not None:
                inside = inside or step.context.function.code.co_name == "forward"
                step = step.context.caller
            at = self.site(place, tuple(around), loop.text.extent)
            hidden = {"hidden": True} if loop.hidden else {}
            self.writer.event("Loop", id=loop.id, at=at, inside_forward=inside, **hidden)
        if loop.index and loop.written_index != loop.index:
            loop.written_index = loop.index
            loop.declared += 1
            self.writer.event("Iteration", loop=loop.id, index=loop.index)

    # Listener

    def file_begins(self, file: str) -> None:
        if self.ended:
            return
        with self.group():
            at = self.writer.site((file,), lambda: (span(self.sources.name(file), (1, 1, 1, 1)), "<unknown>", [], ()))
            self.writer.event("Measure", at=at, name="recorded-file", value=1, unit="files")

    def line_runs(self, lines: ThreadLines, place: Place, frame: FrameType) -> Optional[WatchedLine]:
        if place.watched:
            lines.stirs += 1
            with self.lock:
                self.reached.count(lines, place)
                if self.attached and not self.disabled:
                    self.scaling.line_runs(lines, place)
                    self.discarded.line_runs(lines, place)
                    if place.header is not None or place.in_line or place.passes:
                        self.unused.header_runs(lines, place)
        if not place.written or not self.attached or self.disabled:
            return None
        found = []
        with self.torch._C.DisableTorchFunction():
            for path in place.written:
                for name, tensor in resolve(path, frame, self.torch):
                    found.append((TensorRef(tensor), version_of(tensor), name))
        return (place, found) if found else None

    def line_ran(self, lines: ThreadLines, watch: WatchedLine, frame: Optional[FrameType]) -> None:
        place, found = watch
        with self.lock, self.torch._C.DisableTorchFunction():
            for reference, version, name in found:
                tensor = reference()
                moved = version_of(tensor) - version if tensor is not None else 0
                if moved:
                    self.changes.change(tensor, place, lines.iteration(), "in-place statement", name, moved)
                    lines.moves += 1
                    before = lines.changed.pop((place, id(tensor)), None)
                    if before is None or before[0]() is not tensor:
                        lines.stirs += 1
                    if len(lines.changed) >= _MAX_CHANGED:
                        lines.changed.clear()
                    lines.changed[place, id(tensor)] = (reference, name, lines.moves)

    def changed_since(self, lines: ThreadLines, moves: int) -> List[Changed]:
        found = []
        for (place, _), (reference, name, last) in reversed(lines.changed.items()):
            if last <= moves:
                break
            tensor = reference()
            if tensor is not None:
                found.append((place, reference, version_of(tensor), name))
        return found

    def changed_meanwhile(self, lines: ThreadLines, changed: List[Changed]) -> None:
        with self.lock, self.torch._C.DisableTorchFunction():
            for place, reference, version, name in changed:
                tensor = reference()
                moved = version_of(tensor) - version if tensor is not None else 0
                if moved:
                    how = "in-place statement"
                    self.changes.change(tensor, place, lines.iteration(), how, name, moved, lines.seen)

    def part_ran(self, part: Part) -> None:
        self.reached.part_ran(part)

    def iteration_ends(self, lines: ThreadLines, loop: RunningLoop, frame: FrameType) -> None:
        self.loops.iteration_ends(lines, loop, frame)

    def loop_ends(self, lines: ThreadLines, loop: RunningLoop) -> None:
        self.loops.loop_ends(lines, loop)

    def raised(self, lines: ThreadLines, error: BaseException, traceback: Optional[TracebackType]) -> None:
        self.raises.raised(lines, error, traceback)

    def line_after_raise(self) -> None:
        self.raises.line_after_raise()

    # The end

    def _summary(self) -> None:
        lines = self.tracer.lines()
        self.passing.settle_all()
        if self.passing.count or self.passing.iterations:
            self.passing.write_passes(lines)
        elsewhere = seconds_elsewhere() if not self.walks.count else None
        if elsewhere is not None:
            self.writer.event("Measure", at=self.here(lines), name="other-processes", value=elsewhere, unit="seconds")
        # A fault may come in the midst of a pause, and all behind it is unseen anyway.
        if self.tracer.replaced and not self.failures:
            self.writer.event("Measure", at=self.here(lines), name="lines-unseen", value=1, unit="threads")
        self.retained.write()
        self.unused.write()
        self.scaling.write()
        self.unscaled.write()
        self.reached.write()
        for leaf, (steps, with_gradient) in self.changes.gradients.items():
            if steps and not with_gradient:
                name = "never-a-gradient:%d" % leaf
                self.writer.event("Measure", at=self.here(lines), name=name, value=steps, unit="steps")
        self.gradients.write(lines)
        self.discarded.write()
        if self.attached:
            self.seeded.write(lines)
            self.loops.write_times(lines)
        if self.attached and self.reader.skipped:
            self.writer.event(
                "Measure", at=self.here(lines), name="graphs-too-deep", value=self.reader.skipped, unit="graphs"
            )


__all__ = ["Limits", "Recorder"]
