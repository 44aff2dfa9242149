"""Puts what is observed onto the tape: the one place where tracing, graphs and hooks meet."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from .alive import Alive
from .children import note_forked, seconds_elsewhere
from .device import DeviceTimes
from .discarded import Discarded
from .effort import cpu_seconds
from .gradients import UsedGradients
from .graph import (
    NewLeaf,
    NewNode,
    Passed,
    PutOff,
    Reader,
    TensorRef,
    raise_stack_limit,
)
from .hidden import HiddenLoops
from .holds import SAMPLED, HoldFinder, next_sample
from .hooks import install, nodes_of, roots_of
from .inplace import Changes
from .lines import Context, Listener, Place, RunningLoop, ThreadLines, iterations
from .memory import MemoryReport, ran_out
from .names import describe, leaf_names, resolve
from .parallel import ParallelReport, not_reduced
from .passing import WRITTEN_FIRST, Passing
from .rest import Rests
from .retained import Retained
from .scaling import Scaling
from .sources import CallText, Extent, Sources, call_end
from .tracing import Tracer
from .unused import Unused
from .values import Values, version_of
from .writer import Writer, span

OLDEST_TORCH = (2, 2)
_DEPTH_AS_IT_IS = 15_000
_NEVER = 1 << 62
# So many iterations may end before the clock is looked at, where as many took less than these seconds.
_UNTIMED, _SHORT = 16, 0.1
_MAX_CHANGED = 256
_SECOND_TIME = "backward through the graph a second time"
_INPLACE = "modified by an inplace operation"
_OF_INTEREST = (
    _SECOND_TIME, _INPLACE, "does not require grad", "a leaf Variable that requires grad",
    "leaf Variable that requires grad is being used in an in-place operation",
    "appears to not have been used in the graph", "a leaf variable has been moved into the graph interior",
)  # fmt: skip


class Limits(NamedTuple):
    """When to end the run: iterations of one training loop, backward calls, seconds, bytes of tape; 0 is no limit."""

    iterations: int = 0
    backwards: int = 0
    seconds: float = 0.0
    tape_bytes: int = 0


class Recorder(Listener):
    """Records one process. Whatever fails in here is noted on the tape and never reaches the user's program."""

    def __init__(self, sources: Sources, writer: Writer, limits: Limits, watch: Dict[Tuple[str, int], int]) -> None:
        self.sources = sources
        self.writer = writer
        self.limits = limits
        # Whether iterations need no more than to be counted.
        self.plain_run = not limits.iterations
        # Whether every backward may be the last.
        self.limited = bool(limits.backwards or limits.seconds)
        self.tracer = Tracer(sources, self)
        self.tracer.watched = dict(watch)
        self.tracer.failed = self.failed
        self.torch: Any = None
        self.reader: Any = None
        self.holds: Any = None
        self.device: Any = None
        # What is alive in between, where the run is to tell it.
        self.alive: Optional[Alive] = None
        self.command = ""
        # Where spawned processes leave their tapes; which process started this one, where that is recorded, too.
        self.children = ""
        self.above = 0
        # Whether the program uses CUDA, as far as iterations told.
        self.on_device = False
        self.began = self.checked = time.monotonic()
        self.failures = 0
        self.first_failure = ""
        self.backwards = 0
        self.training_iterations: Dict[Any, List[int]] = {}
        self.training_loops: Set[Any] = set()
        self.had_gradient: Set[int] = set()
        self.changes = Changes(self)
        self.gradients = UsedGradients(self)
        self.discarded = Discarded(self)
        self.passing = Passing(self)
        self.retained = Retained(self)
        self.hidden = HiddenLoops(self)
        self.unused = Unused(self)
        self.scaling = Scaling(self)
        self.rests = self.tracer.rests = Rests(self.tracer, self)
        self.last_backward = threading.local()
        self.first_sequence = -1
        # Whether a backward left saved tensors behind: it retained, failed or took a part of its graph only.
        self.keeping = self.created = False
        self.told: Any = None
        self.told_within: Tuple[int, Any] = (0, None)
        self.hits: Dict[Tuple[str, int], int] = {}
        self.hits_at: Dict[Tuple[str, int], int] = {}
        self.names: Dict[int, str] = {}
        self.memory = MemoryReport()
        self.parallel = ParallelReport()
        self.lock = threading.RLock()
        self.ended = False
        self.disabled = False
        self.refused = ""
        self.seed: Optional[int] = None
        self.detach: Callable[[], None] = lambda: None
        self.ended_at: Dict[Any, Tuple[int, float, float]] = {}
        self.pid = os.getpid()

    # Life

    def attach(self, torch: Any, deeper: bool = True) -> None:
        """Begin to watch torch; `deeper` where this process's stack may be made larger for deep graphs."""
        if not hasattr(torch._C._autograd, "_get_sequence_nr"):
            # Nothing of it is watched: half of what happens would be told as all of it.
            self.refused = "torch %s is too old: recording needs %d.%d or later" % (torch.__version__, *OLDEST_TORCH)
            return
        self.torch = torch
        self.reader = Reader(torch, raise_stack_limit() if deeper else _DEPTH_AS_IT_IS)
        self.holds = HoldFinder(torch, self.reader, self.sources)
        self.device = DeviceTimes(torch.cuda)
        woken = self.rests.attach(torch)
        self.tracer.sequence = torch._C._autograd._get_sequence_nr
        for lines in self.tracer.threads.values():
            lines.seen = self.tracer.sequence()
        self.first_sequence = self.tracer.sequence()
        unhook = install(torch, self)

        def detach() -> None:
            woken()
            unhook()

        self.detach = detach
        versions = "Python %d.%d.%d, torch %s" % (*sys.version_info[:3], torch.__version__)
        self.writer.event("Started", command=self.command, versions=versions, time=time.time())
        if self.seed is not None:
            seed_everything(torch, self.seed)

    def forked(self) -> None:
        """Stop watching and writing in a forked child (a data-loader worker)."""
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
            at = " on line %d of %s" % (place.line, os.path.basename(place.filename))
        self.finish("stopped", "the recording ended%s, the program ran on" % at)

    def _stop(self) -> None:
        self.disabled = True
        self.tracer.stop()

    @contextmanager
    def group(self) -> Iterator[Any]:
        """Write one group of events: serialised, without torch functions of subclasses, flushed at its end."""
        with self.lock:
            # Walking a graph allocates much and leaves nothing: a collection in the midst of it would be wasted.
            collecting = gc.isenabled()
            gc.disable()
            try:
                if self.torch is not None:
                    with self.torch._C.DisableTorchFunction():
                        yield self.tracer.lines()
                else:
                    yield self.tracer.lines()
                self.writer.flush()
            finally:
                if collecting:
                    gc.enable()
        if self.limits.tape_bytes and self.writer.bytes > self.limits.tape_bytes and not self.ended:
            self.finish(
                "stopped", "the tape reached its limit of %d bytes, the program ran on" % self.limits.tape_bytes
            )
            self.disabled = True
            self.tracer.stop()

    def finish(self, how: str, detail: str = "") -> None:
        """Write what is only known at the end, and the end."""
        if self.ended or self.disabled or os.getpid() != self.pid:
            return
        self.ended = True
        try:
            with self.lock:
                self.flush_raised(caught=True)
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
        self.writer.event("End", how=how, detail=detail)
        self.writer.flush()

    def stop_program(self, why: str) -> None:
        """End the process at once: no handler, no `finally` and no atexit of a half-trained program runs."""
        self.finish("stopped", why)
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                pass
        if self.above and self.above == os.getppid():
            # The program ends with this process: what waits for it would go on with half of its work.
            os.kill(self.above, signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)
        os._exit(0)

    def check_limits(self) -> None:
        limits = self.limits
        self.checked = time.monotonic()
        if limits.backwards and self.backwards >= limits.backwards:
            self.stop_program("after %d backward calls" % self.backwards)
        if limits.seconds and self.checked - self.began > limits.seconds:
            self.stop_program("after %g seconds" % limits.seconds)

    # Sites

    def site(
        self, place: Optional[Place], iteration: Tuple[Tuple[int, int], ...], extent: Optional[Extent] = None
    ) -> int:
        """Return the number of the site for a place; a place that is unknown is the script's first line."""
        key = (place, iteration, extent)

        def make() -> Tuple[Any, str, Any, Any]:
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
            step: Any = loop.place
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

    # Living nodes

    def all_met(self, lines: ThreadLines) -> bool:
        """Return whether every node built so far was walked by a backward that kept nothing, so that those that live
        can be
        counted and have no saved tensors.
        """
        return (
            not self.keeping
            and lines.seen - self.first_sequence == self.reader.met
            and not (self.created and self.torch.cuda.is_initialized())
        )

    def living(self) -> int:
        """Return how many of the nodes met so far are alive."""
        return self.reader.living(getattr(self.last_backward, "mark", None))  # type: ignore[no-any-return]

    # Graph onto tape

    def describe_graph(self, roots: List[Any], frame: Optional[FrameType], retain: bool = False) -> None:
        """Write every node and leaf reachable from `roots` that the tape does not have yet.

        `retain` where this is for a backward that keeps what it walks.
        """
        reader = self.reader
        nodes, leaves = reader.walk(roots, retain)
        if leaves:
            self.write_leaves(leaves, frame)
        self.changes.write()
        nodes.sort(key=lambda node: node.id)
        self._write_nodes(nodes)
        if reader.passed:
            passed, reader.passed = reader.passed, {}
            calls: Dict[int, Tuple[Passed, List[int]]] = {}
            for mark, numbers in passed.items():
                calls.setdefault(mark.number, (mark, []))[1].extend(numbers)
            for number in sorted(calls):
                self.passing.write_passed(*calls[number])
        reader.forget_dead_leaves()

    def write_leaves(self, leaves: List[NewLeaf], frame: Optional[FrameType]) -> None:
        names = leaf_names(self.torch, [leaf.tensor for leaf in leaves], frame, self.sources)
        lines = self.tracer.lines()
        made = {
            id(p): born
            for reference, born in list(self.changes.optimizer_places.values())
            for optimizer in (reference(),)
            if optimizer is not None
            for group in optimizer.param_groups
            for p in group["params"]
        }
        for leaf in leaves:
            name, function = names.get(id(leaf.tensor), ("", ""))
            self.names[leaf.id] = name
            place, iteration = made.get(id(leaf.tensor)) or self._born(name, function, leaf.parameter, lines)
            self.writer.event(
                "Leaf",
                id=leaf.id,
                name=name,
                at=self.site(place, iteration),
                storage=leaf.storage,
                parameter=leaf.parameter,
            )

    def _born(self, name: str, function: str, parameter: bool, lines: ThreadLines) -> Tuple[Any, Any]:
        """Return where a leaf was made, as far as the line that stored its variable tells, and in which iterations."""
        root = name.replace("[", ".").split(".")[0]
        stores = self.tracer.stores(root, function) if root else []
        if not stores:
            # A statement that makes it and was never seen to run had run before the recording began.
            earlier = any(
                store.function == function and not store.attribute
                for text in self.sources.texts()
                for store in text.stores.get(root, ())
            )
            return lines.place, () if parameter or earlier else lines.iteration()
        place = max(stores, key=lambda item: item.hits)
        iteration: List[Tuple[int, int]] = []
        for call in lines.stack:
            mine = call.context.function is place.context.function
            iteration += [
                (loop.id, loop.index) for loop in call.loops if loop.index and (not mine or loop.text in place.loops)
            ]
            if mine:
                return place, tuple(iteration)
        return place, () if parameter else lines.iteration()

    def _site_of_last(self) -> int:
        """Return the site of this thread's last backward."""
        kept = self.last_backward
        mark = getattr(kept, "mark", None)
        if type(mark) is tuple:
            mark = PutOff(*mark).passed()
        if mark is not None:
            return self.site(mark.place, mark.iteration)
        return self.site(getattr(kept, "place", None), getattr(kept, "iteration", ()))

    def _write_nodes(self, nodes: List[NewNode]) -> None:
        reader, changes, sites = self.reader, self.changes, self.tracer.sites
        low, high, at = 0, -1, 0
        for node in nodes:
            sequence = node.sequence
            if node.foreign:
                at = self._site_of_last()
                high = -1
            elif not low <= sequence < high:
                # Neighbours mostly come from the same line of the same iteration.
                place, iteration, low, high = sites(sequence)
                at = self.site(place, iteration)
            saved = [
                (
                    item.storage,
                    changes.version_then(item.storage, sequence)
                    if item.storage in changes.histories or item.storage in reader.leaf_of_storage else 0,
                    item.name,
                    reader.leaf_of_storage.get(item.storage),
                )
                for item in node.saved
            ]  # fmt: skip
            self.writer.node(node.id, node.op, at, node.inputs, saved, "yes" if node.keeps else "no")

    # Listener

    def line_runs(self, lines: ThreadLines, place: Place, frame: FrameType) -> Any:
        if place.watched:
            lines.stirs += 1
            self._count(lines, place)
            if self.torch is not None and not self.disabled:
                self.scaling.line_runs(lines, place)
                if place.header is not None or place.in_line:
                    self.unused.header_runs(lines, place)
        if not place.written or self.torch is None or self.disabled:
            return None
        found = []
        with self.torch._C.DisableTorchFunction():
            for path in place.written:
                for name, tensor in resolve(path, frame, self.torch):
                    found.append((TensorRef(tensor), version_of(tensor), name))
        return (place, found) if found else None

    def line_ran(self, lines: ThreadLines, watch: Any, frame: Optional[FrameType]) -> None:
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

    def changed_since(self, lines: ThreadLines, moves: int) -> List[Any]:
        found = []
        for (place, _), (reference, name, last) in reversed(lines.changed.items()):
            if last <= moves:
                break
            tensor = reference()
            if tensor is not None:
                found.append((place, reference, version_of(tensor), name))
        return found

    def changed_meanwhile(self, lines: ThreadLines, changed: List[Any]) -> None:
        with self.lock, self.torch._C.DisableTorchFunction():
            for place, reference, version, name in changed:
                tensor = reference()
                moved = version_of(tensor) - version if tensor is not None else 0
                if moved:
                    how = "in-place statement"
                    self.changes.change(tensor, place, lines.iteration(), how, name, moved, lines.seen)

    def _count(self, lines: ThreadLines, place: Place) -> None:
        key = (place.filename, place.line)
        count = self.hits[key] = self.hits.get(key, 0) + 1
        if count & (count - 1) == 0:
            # Powers of two reach the tape at once: a run that is killed still tells reached from not reached.
            with self.group():
                self.hits_at[key] = self.site(place, lines.iteration())
                self._write_hits(key, count)

    def _write_hits(self, key: Tuple[str, int], count: int) -> None:
        self.writer.event("Measure", at=self.hits_at[key], name="line-hits", value=count, unit="times")

    def iteration_ends(self, lines: ThreadLines, loop: RunningLoop, frame: FrameType) -> None:
        if self.torch is None or self.disabled or self.ended:
            return
        index, counted = loop.index, loop.count
        if counted is not None and self.on_device:
            self._device_times(lines, loop)
        elif counted is not None and index < loop.sample and self.told is None and self.plain_run:
            loop.look = self._next_look(index, loop.sample)
            return
        looked_at = loop.entry <= WRITTEN_FIRST or loop.entry in SAMPLED
        built = lines.seen != loop.began
        if self.told is not None or (built and looked_at and (index <= WRITTEN_FIRST or index in SAMPLED)):
            with self.group():
                self.flush_raised(caught=True)
                for running in lines.running():
                    self.declare(lines, running)
                if built:
                    self.holds.iteration_ended(self, lines, loop, frame)
        if index == 1 and loop.count is None and loop.text in self.training_loops:
            self.count_iterations(loop)
        counted = loop.count
        loop.sample = next_sample(index)
        if counted is not None:
            self.passing.settle(loop, index)
            if self.seed is not None:
                self.plain_run = False
                now = time.monotonic()
                self.ended_at[loop.text] = (counted[0], self.ended_at.get(loop.text, (0, now, 0.0))[1], now)
            if self.limits.iterations and counted[0] >= self.limits.iterations:
                self.stop_program("after %d iterations of the loop on line %d" % (counted[0], loop.text.first))
            self.on_device = self.on_device or self.torch.cuda.is_initialized()
            if self.on_device and len(self.tracer.threads) == 1:
                # Begun after all of the above: the device would wait for it.
                self.device.begins(loop)
            elif self.plain_run and self.told is None:
                loop.look = self._next_look(index, loop.sample)
        elif self.told is None:
            loop.look = self._next_look(index, loop.sample if looked_at else _NEVER)
        if self.limits.seconds:
            self.check_limits()

    def _next_look(self, index: int, sample: int) -> int:
        """Return the iteration after which to look next: `sample`, or an earlier one where the run may end by the
        clock.
        """
        if not self.limits.seconds:
            return sample
        before = self.checked
        self.check_limits()
        return min(sample, index + (_UNTIMED if self.checked - before < _SHORT else 1))

    def count_iterations(self, loop: RunningLoop) -> None:
        """Count the iterations of a training loop from the one that runs on."""
        loop.count = self.training_iterations.setdefault(loop.text, [0])
        loop.look, loop.settled = 0, loop.index - 1
        loop.declared = int(loop.written_index == loop.index)

    def found_loop(self, lines: ThreadLines, loop: RunningLoop) -> None:
        """Note a loop that no line event shows, found in its second iteration: it is the one that trains."""
        for outer in lines.running():
            if outer is not loop and outer.text in self.training_loops:
                # Nothing was walked in it but by this one.
                self.training_loops.discard(outer.text)
                self.training_iterations.pop(outer.text, None)
                outer.count = None
        self.training_loops.add(loop.text)
        self.count_iterations(loop)
        loop.settled = loop.declared = 0
        with self.group():
            self.declare_loops(lines)

    def _device_times(self, lines: ThreadLines, loop: RunningLoop) -> None:
        """Mark the end of an iteration on the device, and write how long those took that the device is done with."""
        device: DeviceTimes = self.device
        device.ends(loop, (loop.place, lines.iteration(), loop.text.extent))
        for (place, iteration, extent), milliseconds in device.done():
            if iteration[-1][1] in SAMPLED:
                with self.group():
                    at = self.site(place, iteration, extent)
                    self.writer.event("Measure", at=at, name="device-time", value=milliseconds, unit="ms")

    def loop_ends(self, lines: ThreadLines, loop: RunningLoop) -> None:
        if self.torch is None or self.disabled or self.ended:
            return
        if loop.hidden and loop.index > 1 and (lines.seen == loop.began or self.backwards == loop.walked):
            # The last end of an iteration was the loop's own.
            loop.index -= 1
            loop.waiting = True
        self.passing.settle(loop, loop.index if loop.waiting else loop.index - 1)
        if (lines.seen != loop.began and not loop.waiting) or loop.written:
            with self.group():
                for running in lines.running():
                    self.declare(lines, running)
                if self.alive is not None:
                    self.alive.after_loop(lines, loop)
                self.writer.event("LoopEnd", loop=loop.id, iterations=loop.index, more="no")
        else:
            # It may have been broken off, before anything was built in its last iteration.
            self.passing.settle(loop, loop.index)

    def raised(self, lines: ThreadLines, error: BaseException, traceback: Any) -> None:
        """Note an exception that passes a user frame; only autograd's own are kept, each once, where it left torch."""
        if self.torch is None or self.disabled or self.ended or not isinstance(error, RuntimeError):
            return
        text = str(error)
        if ran_out(error) and len(self.tracer.threads) == 1:
            self.memory.write(self, lines, error, traceback)
            return
        if not_reduced(error):
            self.parallel.write(self, lines, error, traceback)
            return
        if not any(part in text for part in _OF_INTEREST):
            return
        step, own = traceback, getattr(self.last_backward, "code", None)
        # A custom Function's own backward may raise it, further in: where it asks for what it saved.
        asked = _SECOND_TIME in text or _INPLACE in text
        while step is not None and step.tb_next is not None and not (asked and step.tb_frame.f_code is own):
            step = step.tb_next
        engine = None
        if step is not None and step.tb_frame.f_code is own:
            self.keeping = True
            engine = self.last_backward.id
            if self.last_backward.mark is not None:
                self.passing.write_failed(self.last_backward.mark, step.tb_frame, traceback)
        elif asked and own is not None and _called_by(traceback.tb_frame, own):
            return
        lines.stirs += 1
        # The same exception passes every frame up to its handler.
        identity = (id(error), text, engine)
        if self.told is not None and self.told[0] == identity:
            return
        with self.group():
            self.flush_raised(caught=True)
            node = None
            if engine is not None and _INPLACE in text:
                node = self._explain_stale(step.tb_frame)
            self.declare_loops(lines)
            at = self.here(lines)
            if engine is not None:
                at = self.last_backward.site
            # Kept until it is known whether somebody catches it: the id alone, never the exception.
            self.told = (identity, at, type(error).__name__, text.split("\n")[0], engine, node)
            own = (call for call in lines.stack if not self.sources.is_library(call.code.co_filename))
            self.told_within = (threading.get_ident(), next(own, None))
        self.tracer.wait()

    def _explain_stale(self, frame: FrameType) -> Optional[int]:
        newest: Optional[Tuple[int, Any, str]] = None
        for node in self.reader.walk_all(nodes_of(roots_of(frame)), 50_000):
            known = self.reader.known(node)
            if known is None or (newest is not None and known.id <= newest[0]):
                continue
            stale = self.reader.stale(node)
            if stale is not None:
                newest = (known.id, node, stale[0])
        return newest[0] if newest is not None else None

    def line_after_raise(self) -> None:
        if self.told is not None and len(self.told) == 6:
            with self.group():
                self.flush_raised(caught=True)

    def flush_raised(self, caught: bool) -> None:
        """Write the exception that waits to be seen caught or not."""
        if self.told is None or len(self.told) < 6:
            return
        identity, at, kind, message, backward, node = self.told
        self.told = (identity, at)
        fields: Dict[str, Any] = {"at": at, "exception": kind, "message": message, "caught": caught}
        if backward is not None:
            fields["backward"] = backward
        if node is not None:
            fields["node"] = node
        thread, outermost = self.told_within
        if caught and outermost is not None and thread == threading.get_ident():
            if all(call is not outermost for call in self.tracer.lines().stack):
                # It left all of the user's code: who runs that, a test runner, has caught it.
                fields["left"] = True
        self.writer.event("Raised", **fields)

    def uncaught(self, error: BaseException) -> None:
        """Note the exception that ends the program."""
        if self.disabled or self.ended:
            return
        with self.group() as lines:
            text = str(error)
            backward = None
            if self.told is not None and self.told[0][:2] == (id(error), text):
                if len(self.told) == 6:
                    self.flush_raised(caught=False)
                    return
                # A `finally` ran in between: the exception went onto the tape as caught.
                backward, at = self.told[0][2], self.told[1]
            else:
                self.flush_raised(caught=True)
                at = self.site(self._place_of(error), lines.iteration())
            fields: Dict[str, Any] = {
                "exception": type(error).__name__,
                "message": text.split("\n")[0],
                "caught": False,
            }
            if backward is not None:
                fields["backward"] = backward
            self.writer.event("Raised", at=at, **fields)

    def _place_of(self, error: BaseException) -> Optional[Place]:
        """Return where in user code an exception was raised, with the calls that led there."""
        place: Optional[Place] = None
        step = error.__traceback__
        while step is not None:
            function = self.tracer.function(step.tb_frame.f_code)
            if function is not None:
                place = Place(Context(function, place), step.tb_lineno)
            step = step.tb_next
        return place

    # Backward

    def backward(self, frame: FrameType, roots: List[Any], inputs: Optional[List[Any]], retain: bool, create: bool,
                 accumulates: bool) -> None:  # fmt: skip
        """Note a backward that is about to run; `frame` is torch's frame that calls the engine."""
        if self.disabled or self.ended:
            if self.children and os.getpid() != self.pid:
                note_forked(self.children)
                self.children = ""
            return
        if self.limited:
            self.check_limits()
        if self.unused.alive:
            self.unused.walks(nodes_of(roots))
        if inputs is None and not retain and not create and self.passing.passes_unseen(frame, roots, accumulates):
            return
        user = self._user_frame(frame)
        if user is None:
            return
        self.backwards += 1
        if create and accumulates:
            self.holds.gradients_have_graphs = True
        self.keeping = self.keeping or retain or inputs is not None
        self.created = self.created or create
        if self.passing.passes(frame, roots, inputs, user, retain, create, accumulates):
            return
        with self.group() as lines:
            self.flush_raised(caught=True)
            self.tracer.catch_up(lines)
            self.declare_loops(lines)
            running = lines.running()
            if running:
                text = running[-1].text
                self.training_loops.add(text)
                if running[-1].count is None:
                    self.count_iterations(running[-1])
                running[-1].look = 0
            self._note_cleared(lines)
            if accumulates:
                self.gradients.before_backward((lines.place, lines.iteration()))
                self.discarded.before_backward((lines.place, lines.iteration()))
                lines.before_clearing = self.discarded.before_clearing
                lines.after_backward = self.discarded.after_backward
            call = (user.f_code, user.f_lineno, user.f_lasti)
            mark = Passed(self.backwards, lines.place, lines.iteration(), call, retain, create, accumulates)
            began, met = cpu_seconds(), self.reader.met
            built = lines.seen - max(self.passing.stamp, self.first_sequence)
            self.write_backward(mark, roots, inputs, user)
            if self.alive is not None:
                self.alive.at_backward(self.last_backward.site, nodes_of(roots))
            self.retained.write()
            if retain and not create:
                self.retained.watch(mark.number, self.last_backward.site, nodes_of(roots))
            calls = self.passing.calls.get(lines.place) if lines.place is not None else None
            if calls is not None:
                calls.nodes = max(built, self.reader.met - met)
            self.passing.stamp = lines.seen
            self.passing.written(self.reader.met - met, began)
            kept = self.last_backward
            kept.id, kept.code, kept.place, kept.iteration = mark.number, frame.f_code, lines.place, mark.iteration
            kept.mark = None
            thread = threading.get_ident()
            # Reading `.grad` makes a Python object that lives as long as the gradient, which shows in `gc.get_objects`:
            # only where the program reads it, or module and optimizer do.
            named = any(text.names_gradients for text in self.sources.texts())
            for key, (reference, _, owner) in list(self.reader.leaves.items()):
                # Another thread may just be letting go of its own.
                tensor = reference() if owner == thread else None
                if (
                    tensor is not None
                    and (named or isinstance(tensor, self.torch.nn.Parameter))
                    and tensor.grad is not None
                ):
                    self.had_gradient.add(key)
            if self.passing.count != self.passing.told:
                self.passing.write_passes(lines)
        if accumulates and not self.changes.optimizers and not self.hidden.by_backward:
            self.hidden.walked()

    def retaining(self, mark: Passed, call: Optional[CallText]) -> Dict[str, Any]:
        """Return what a Backward event holds about `retain_graph` and `create_graph`."""
        fields: Dict[str, Any] = {"retain": "yes" if mark.retain else "no", "create": "yes" if mark.create else "no"}
        if call is not None and call.retains:
            fields["retain_argument"] = fields["retain"]
            if call.retain is not None and mark.place is not None:
                fields["retain_span"] = span(self.sources.name(mark.place.filename), call.retain)
        return fields

    def write_backward(
        self, mark: Passed, roots: List[Any], inputs: Optional[List[Any]], user: Optional[FrameType]
    ) -> None:
        """Write a backward that is about to run, and what of its graph the tape does not have yet."""
        nodes = nodes_of(roots)
        targets = [target.node if hasattr(target, "node") else target for target in inputs or ()]
        self.describe_graph(nodes + [t.grad_fn if hasattr(t, "grad_fn") else t for t in targets], user, mark.retain)
        found: List[NewLeaf] = []
        call, extent = self.call(mark.call)
        written: List[Dict[str, Any]] = []
        for index, root in enumerate(roots):
            node = nodes[index]
            if node is not None:
                reached: Optional[int] = self.reader.number(node)
            elif getattr(root, "requires_grad", False):
                reached = self.reader.leaf(root, found)
            else:
                reached = None
            graph = "yes" if node is not None or reached is not None else "no"
            name = describe(call, index, len(roots), root, user) if user is not None else ""
            written.append({"node": reached, "graph": graph, "name": name, "cuts": [], "constant_terms": []})
        wanted: Optional[List[int]] = None
        if inputs is not None:
            wanted = []
            for target in targets:
                if hasattr(target, "grad_fn"):
                    node = target.grad_fn
                    number_of = (
                        self.reader.number(node)
                        if node is not None
                        else (self.reader.leaf(target, found) if target.requires_grad else None)
                    )
                else:
                    number_of = self.reader.number(target)
                if number_of is not None:
                    wanted.append(number_of)
        if found:
            self.write_leaves(found, user)
        at = self.site(mark.place, mark.iteration, extent)
        fields: Dict[str, Any] = {
            "id": mark.number, "at": at, "call": "backward" if mark.accumulates else "grad", "roots": written,
            "accumulates": mark.accumulates, **self.retaining(mark, call),
        }  # fmt: skip
        if wanted is not None:
            fields["inputs"] = wanted
        if threading.current_thread() is not threading.main_thread():
            fields["thread"] = threading.current_thread().name
        self.writer.event("Backward", **fields)
        self.last_backward.site = at

    def may_read(self, leaf: Any) -> bool:
        """Return whether no other thread may be writing the gradient of a leaf.

        torch writes `.grad` without Python's lock: to read it in another thread than the one that runs the backward can
        end the process. A leaf belongs to the thread whose backward came to it last.
        """
        if len(self.tracer.threads) == 1:
            return True
        entry = self.reader.leaves.get(id(leaf))
        return entry is not None and entry[2] == threading.get_ident() and entry[0]() is leaf

    def _note_cleared(self, lines: ThreadLines) -> None:
        """Write the leaves whose `.grad` was dropped since the last backward."""
        self.changes.count_gradients()
        gone = []
        for key in self.had_gradient:
            entry = self.reader.leaves.get(key)
            if entry is not None and entry[2] != threading.get_ident():
                continue
            tensor = entry[0]() if entry is not None else None
            if entry is None or tensor is None:
                gone.append((key, None))
            elif tensor.grad is None:
                gone.append((key, entry[1]))
        for key, number in gone:
            self.had_gradient.discard(key)
            if number is not None:
                place, iteration = lines.place, lines.iteration()
                if lines.cleared is not None:
                    place, iteration = lines.cleared[0], iterations(lines.cleared[1], lines.cleared[2])
                self.writer.event("GradientCleared", at=self.site(place, iteration), leaf=number, to_none="yes")

    def _user_frame(self, frame: FrameType) -> Optional[FrameType]:
        """Return the innermost user frame, None where torch runs this backward for itself within another one."""
        first = frame.f_code
        step = frame.f_back
        while step is not None:
            if step.f_code is first:
                return None
            if self.tracer.function(step.f_code) is not None:
                return step
            step = step.f_back
        return None

    def call(self, where: Tuple[Any, int, int]) -> Tuple[Optional[CallText], Optional[Extent]]:
        """Return the call at a code object's line and instruction."""
        code, line, instruction = where
        text = self.sources.text(code.co_filename)
        call = text.call_at(line, call_end(code, instruction, text))
        return call, call.extent if call is not None else None

    # The end

    def _learned(self) -> List[Any]:
        """Return the parameters that optimizers stepped, else the leaves that a backward reached, in the order of
        making.
        """
        if self.changes.learning:
            return list(self.changes.learning.values())
        leaves = sorted(self.reader.leaves.values(), key=lambda entry: entry[1])
        return [tensor for reference, _, _ in leaves for tensor in (reference(),) if tensor is not None]

    def _summary(self) -> None:
        lines = self.tracer.lines()
        self.passing.settle_all()
        if self.passing.count or self.passing.iterations:
            self.passing.write_passes(lines)
        elsewhere = seconds_elsewhere() if not self.backwards else None
        if elsewhere is not None:
            self.writer.event("Measure", at=self.here(lines), name="other-processes", value=elsewhere, unit="seconds")
        self.retained.write()
        self.unused.write()
        self.scaling.write()
        for key in self.tracer.watched:
            count = self.hits.get(key, 0)
            if count & (count - 1):
                self._write_hits(key, count)
        for leaf, (steps, with_gradient) in self.changes.gradients.items():
            if steps and not with_gradient:
                name = "never-a-gradient:%d" % leaf
                self.writer.event("Measure", at=self.here(lines), name=name, value=steps, unit="steps")
        self.gradients.write(lines)
        self.discarded.write()
        if self.seed is not None and self.torch is not None:
            at = self.here(lines)
            params = self._learned()
            digest = digest_of(self.reader.values, params)
            count = len(params) if digest else 0
            self.writer.event("Measure", at=at, name="learned:" + digest, value=count, unit="parameters")
            ends = max(self.ended_at.values(), key=lambda entry: entry[0], default=(0, 0.0, 0.0))
            if ends[0] >= 3:
                # The first iteration sets things up: torch loads a part of itself at the first step.
                seconds = (ends[2] - ends[1]) / (ends[0] - 1)
                self.writer.event("Measure", at=at, name="iteration-seconds", value=seconds, unit="seconds")
            if peak_memory():
                self.writer.event("Measure", at=at, name="peak-memory", value=peak_memory(), unit="bytes")
        if self.torch is not None and self.torch.cuda.is_initialized():
            at = self.here(lines)
            peak = self.torch.cuda.max_memory_allocated()
            self.writer.event("Measure", at=at, name="cuda-peak-memory", value=peak, unit="bytes")
            for _ in self.device.done():
                pass
            if self.device.count:
                mean = self.device.total / self.device.count
                self.writer.event("Measure", at=at, name="device-time-mean", value=mean, unit="ms")
                count = self.device.count
                self.writer.event("Measure", at=at, name="device-time-iterations", value=count, unit="iterations")
        if self.reader is not None and self.reader.skipped:
            self.writer.event(
                "Measure", at=self.here(lines), name="graphs-too-deep", value=self.reader.skipped, unit="graphs"
            )


def _called_by(frame: Optional[FrameType], code: CodeType) -> bool:
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame is not None


def seed_everything(torch: Any, seed: int) -> None:
    """Seed Python's, torch's and, where it is loaded, NumPy's generator; the program's own seeds come later."""
    import random

    random.seed(seed)
    torch.manual_seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % (1 << 32))


def digest_of(values: Values, tensors: List[Any]) -> str:
    """Return a digest of the values of tensors, bit for bit; "" where some of them cannot be read."""
    import hashlib

    digest = hashlib.sha256()
    values.allow(_NEVER)
    for tensor in tensors:
        held = values.local(tensor)
        found = values.digest(held) if held.numel() else 0
        if found is None:
            return ""
        digest.update(repr((tuple(held.shape), str(held.dtype), found)).encode())
    return digest.hexdigest()[:16]


def peak_memory() -> int:
    """Return the most memory this process ever had, in bytes; 0 where that is not known."""
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
