"""Takes the tracing off code that builds no nodes, and puts it back when that code ends or begins to build some.

Up to Python 3.11 `sys.settrace` makes every instruction of a thread dear, a library's too: it has to be off altogether.
From Python 3.12 on an event costs only the code that it is asked of: calls and loops rest by asking for no lines of
theirs, and what they call over and over has no events at all until they end.
What ends a rest comes about by itself, so that nothing has to run in between:

- a call of a function that built nothing so far ends when its frame lets go of what stands there for its trace
  function;
- a `for` loop whose last iterations built nothing goes on over its iterator and a counter (`itertools.compress`),
  which says how many iterations ran and is let go of with the loop, whichever way it ends;
- what a `for` loop waits for, the next batch of a loader, ends when its iterator has given it: the counter moves on;
- the first node that is built meanwhile: with anomaly mode on, torch asks Python for the stack of every new node. It is
  on only while the tracing is off, and the program does not see it.
"""

from __future__ import annotations

import ctypes
import dis
import importlib
import itertools
import opcode
import os
import platform
import sys
import threading
import weakref
from types import CodeType, FrameType, GeneratorType, ModuleType
from typing import TYPE_CHECKING, Callable, Iterable, Iterator, List, Optional, Sequence, Tuple, Union

from .effort import seconds
from .lines import Activation, Function, Rest, Resting, RunningLoop, ThreadLines
from .lookups import ids_of
from .recording import Recording
from .tracing import NOISY, Tracer, tracing_function

if TYPE_CHECKING:
    from _typeshed import TraceFunction

# So many iterations in a row that built nothing are followed by ones that are not looked at.
_CALM_ITERATIONS = 2
# Where an event costs only the lines that are asked for it, shorter loops are not worth a rest.
_LONG_ITERATIONS = 8
# What takes a loop's iterator longer than this is worth a rest.
_SLOW_SECONDS = 5e-5
_ITERATED: Tuple[Iterable[object], ...] = (range(0), range(1 << 70), [], (), {}, {}.values(), {}.items(), set())
_AT_ONCE = ids_of(*(type(iter(each)) for each in _ITERATED))
"""Iterators that run no code to give the next value: the first one may come late for other reasons."""


class _Call:
    """Stands for the trace function of a frame that runs without events, and goes with it."""

    __slots__ = ("rest", "rests")

    def __init__(self, rests: Rests, rest: Rest) -> None:
        self.rests = rests
        self.rest = rest

    def __call__(self, frame: FrameType, event: str, arg: object) -> None:
        return None

    def __del__(self) -> None:
        if self.rests.rest is self.rest:
            self.rests.over(self.rest)


class _Counter(itertools.count):  # type: ignore[type-arg]
    """Counts the iterations of a loop that runs without events, and goes with the loop's iterator."""

    __slots__ = ("__weakref__", "rest", "rests")
    rests: Rests
    rest: Rest

    def count(self) -> int:
        # Its state as text: `__reduce__` warns from Python 3.12 on, which a program may have made an error.
        return int(repr(self).partition("(")[2][:-1])

    def __del__(self) -> None:
        rests, rest = self.rests, self.rest
        if rests.rest is rest and rest.loop is not None:
            rest.loop.index = self.count()
            rests.over(rest)


class _Fetches:
    """Ends the rest of a loop that waits for its next value: once that is there, `itertools.compress` asks for this."""

    __slots__ = ("__weakref__", "rest", "rests")

    def __init__(self, rests: Rests) -> None:
        self.rests = rests
        self.rest: Optional[Rest] = None

    def __iter__(self) -> _Fetches:
        return self

    def __next__(self) -> bool:
        self.over()
        return True

    def __del__(self) -> None:
        self.over()

    def over(self) -> None:
        rests, rest, self.rest = self.rests, self.rest, None
        if rest is not None and rests.rest is rest:
            rests.over(rest)


class Rests(Resting):
    """When the tracing of one process is off. At most one thread rests, and only one that is the only one."""

    def __init__(self, tracer: Tracer, recorder: Recording) -> None:
        self.tracer = tracer
        self.recorder = recorder
        self.rest: Optional[Rest] = None
        # Whether calls and loops may rest.
        self.calls = self.loops = False
        self._set: Callable[..., None] = lambda *arguments: None
        self._mode = (False, True)
        self._stack: Optional[_ValueStack] = None

    # Beginning

    def attach(self, torch: ModuleType) -> Callable[[], None]:
        """Begin to have calls and loops rest where this torch tells of new nodes; what is returned undoes it."""
        try:
            stacks = importlib.import_module("torch.fx.traceback")
            asked, _ = stacks.format_stack, stacks.should_preserve_node_meta  # torch 2.1 and later
            enabled = torch.is_anomaly_enabled
            change, check_nan = torch.set_anomaly_enabled, torch.is_anomaly_check_nan_enabled
        except (ImportError, AttributeError):
            return lambda: None
        told: List[int] = []

        def format_stack() -> object:
            told.append(1)
            del told[1:]
            rest = self.rest
            if rest is not None and rest.lines.thread == threading.get_ident():
                self.wake(sys._getframe(1))
            if not enabled():
                return ()
            kept = asked()
            return kept if stacks.should_preserve_node_meta else _of_program(kept[:-1])

        def is_anomaly_enabled() -> bool:
            return bool(self._mode[0] if self.rest is not None else enabled())

        def set_anomaly_enabled(*arguments: object, **words: object) -> None:
            if self.rest is not None:
                self.wake(sys._getframe(1))
            change(*arguments, **words)

        read: Callable[[], Tuple[bool, bool]] = lambda: (enabled(), check_nan())  # noqa: E731
        self._read = read
        self._set = change
        vars(stacks)["format_stack"] = format_stack
        mode = read()
        try:
            change(True, mode[1])
            with torch._C.DisableTorchFunction(), torch.enable_grad():
                torch.empty(0, device="cpu", requires_grad=True).view(0)
        finally:
            change(*mode)
        if not told:
            vars(stacks)["format_stack"] = asked
            return lambda: None
        vars(torch).update(is_anomaly_enabled=is_anomaly_enabled, set_anomaly_enabled=set_anomaly_enabled)
        self.calls = True
        self._stack = _value_stack()
        # A limit of seconds is looked at when iterations end.
        self.loops = self._stack is not None and not self.recorder.bounds.limits.seconds

        def undo() -> None:
            self.calls = self.loops = False
            self.end()
            vars(stacks)["format_stack"] = asked
            vars(torch).update(is_anomaly_enabled=enabled, set_anomaly_enabled=change)

        return undo

    def _begin(self, rest: Rest) -> None:
        self._mode = self._read()
        if not self._mode[0]:
            self._set(True, self._mode[1])
        self.rest = rest
        if self.tracer.trace is not None:
            sys.settrace(None)
        elif rest.loop is not None:
            self.tracer.hush(rest.anchor.code)

    def call(self, frame: FrameType, function: Function) -> Union[_Call, Rest, None]:
        """Have a call that begins run without events; return what its frame is to hold, None where it may not."""
        tracer = self.tracer
        lines = tracer.only
        if (
            not self.calls or lines is None or not lines.stack or tracer.waiting or tracer.paused is not None
            or self.rest is not None or lines.thread != threading.get_ident() or tracing_function() is not tracer.trace
        ):  # fmt: skip
            return None
        if tracer.watched and tracer.counts(function.code, function.code.co_firstlineno, last_line(function.code)):
            return None
        anchor, place = lines.stack[-1], lines.place
        if place is not None and place.watched and (place.line, function) not in place.context.callees:
            # Whether a line that a finding is on calls it is told.
            return None
        step = frame.f_back
        while step is not None and id(step) != anchor.key:
            step = step.f_back
        if step is None or step.f_code is not anchor.code or (step.f_trace is None and tracer.trace is not None):
            return None
        tracer.catch_up(lines)
        rest = Rest(lines, anchor, step.f_trace)
        rest.function, rest.frame = function, id(frame)
        self._begin(rest)
        return _Call(self, rest) if tracer.trace is not None else rest

    def round(self, lines: ThreadLines, activation: Activation, loop: RunningLoop, frame: FrameType) -> None:
        """Note a line of a loop's header; after some iterations that built nothing the loop goes on without events."""
        if loop.seen == lines.seen and loop.stirs == lines.stirs:
            loop.calm += 1
            if loop.calm >= (_LONG_ITERATIONS if self.tracer.trace is None else _CALM_ITERATIONS):
                loop.calm = 0
                self._loop(lines, activation, loop, frame, 0)
        else:
            loop.calm = 0
        loop.seen, loop.stirs, loop.moves = lines.seen, lines.stirs, lines.moves
        if self.rest is None and loop.fetch is not None:
            if not loop.index:
                loop.fetch = seconds()
            elif loop.fetch is True and not self._fetches(loop, frame):
                loop.fetch = None
            elif isinstance(loop.fetch, weakref.ref):
                self._fetch(lines, activation, loop, frame)
            else:
                loop.fetch = None

    def again(self, lines: ThreadLines, activation: Activation, loop: RunningLoop, frame: FrameType) -> None:
        """Note the first line of the first iteration of a loop, which may have rested before."""
        still = loop.seen == lines.seen and loop.stirs == lines.stirs and loop.moves == lines.moves
        slow = type(loop.fetch) is float and seconds() - loop.fetch > _SLOW_SECONDS
        loop.fetch = True if still and slow else None
        depth = activation.context.function.calm_loops.get(loop.text)
        if depth:
            self._loop(lines, activation, loop, frame, depth)

    def _loop(
        self, lines: ThreadLines, activation: Activation, loop: RunningLoop, frame: FrameType, depth: int
    ) -> None:
        tracer, stack, function = self.tracer, self._stack, activation.context.function
        if (
            stack is None or not self.loops or loop.count is not None or loop.text.hidden or loop.text.yields
            or tracer.only is not lines or tracer.waiting or tracer.paused is not None
            or self.rest is not None or activation.watch is not None or lines.thread != threading.get_ident()
            or not loop.index or (frame.f_trace is None and tracer.trace is not None)
            or function.calm_loops.get(loop.text) == 0
            or tracing_function() is not tracer.trace or tracer.counts(activation.code, loop.text.first, loop.text.last)
        ):  # fmt: skip
            return
        top = stack.top(frame, depth)
        if top is None:
            return
        tracer.catch_up(lines)
        if lines.seen != loop.seen and not depth:
            return
        rest = Rest(lines, activation, frame.f_trace)
        rest.loop = loop
        counter = _Counter(loop.index)
        counter.rests, counter.rest = self, rest
        rest.changed = self.tracer.listener.changed_since(lines, loop.moves)
        rest.counter = weakref.ref(counter)
        function.calm_loops[loop.text] = stack.put(frame, counter)
        self._begin(rest)

    def _fetches(self, loop: RunningLoop, frame: FrameType) -> bool:
        """Have a loop say when its iterator has given the next value."""
        stack, tracer = self._stack, self.tracer
        loop.fetch = None
        if stack is None or not self.loops or loop.text.hidden or tracer.watched:
            return False
        iterator = stack.top(frame, 0)
        if iterator is None or type(iterator) is itertools.compress or id(type(iterator)) in _AT_ONCE:
            return False
        if type(iterator) is GeneratorType and tracer.function(iterator.gi_code) is not None:
            return False
        fetches = _Fetches(self)
        # The loop's iterator alone keeps it: it goes with that.
        loop.fetch = weakref.ref(fetches)
        stack.put(frame, fetches)
        return True

    def _fetch(self, lines: ThreadLines, activation: Activation, loop: RunningLoop, frame: FrameType) -> None:
        tracer, fetches = self.tracer, loop.fetch() if isinstance(loop.fetch, weakref.ref) else None
        if (
            not isinstance(fetches, _Fetches) or self.rest is not None or tracer.only is not lines or tracer.waiting
            or tracer.paused is not None or activation.watch is not None or lines.thread != threading.get_ident()
            or (frame.f_trace is None and tracer.trace is not None) or tracing_function() is not tracer.trace
        ):  # fmt: skip
            return
        rest = Rest(lines, activation, frame.f_trace)
        rest.waits = loop
        fetches.rest = rest
        self._begin(rest)

    # Ending

    def _resume(self, rest: Rest) -> None:
        self.rest = None
        if not self._mode[0]:
            self._set(*self._mode)
        self.tracer.unhush()
        if self.tracer.trace is not None and tracing_function() is None:
            sys.settrace(self.tracer.trace)

    def over(self, rest: Rest) -> None:
        """End a rest with its call or loop; where the thread stands cannot be asked for here: a frame may be going."""
        if rest.lines.thread != threading.get_ident() or sys.is_finalizing():
            return
        try:
            loop, call = rest.loop, rest.anchor
            if loop is not None:
                loop.waiting = True
                if self.tracer.trace is None and loop.index < 2 * _LONG_ITERATIONS:
                    call.context.function.calm_loops.pop(loop.text, None)
                call.settled, call.turning, call.plain = None, None, {}
                loop.seen, loop.stirs = -1, rest.lines.stirs
                rest.lines.place = loop.header
                self.tracer.listener.changed_meanwhile(rest.lines, rest.changed)
        except Exception:
            self.tracer.failed()
        finally:
            self._resume(rest)

    def end(self) -> None:
        """End a rest whose thread is no longer to be followed."""
        rest, self.rest = self.rest, None
        if rest is not None:
            self.tracer.unhush()
            if not self._mode[0]:
                self._set(*self._mode)

    def wake(self, frame: FrameType) -> None:
        """End a rest in the midst of it; `frame` is where the thread is."""
        rest = self.rest
        if rest is None or rest.lines.thread != threading.get_ident():
            return
        try:
            self._find(rest, frame)
        except Exception:
            self.tracer.failed()
        finally:
            self._resume(rest)

    def _find(self, rest: Rest, frame: FrameType) -> None:
        """Work out which of the user's calls and loops run, as if their lines had been seen."""
        tracer, lines, anchor = self.tracer, rest.lines, rest.anchor
        between: List[FrameType] = []
        step: Optional[FrameType] = frame
        while step is not None and not (id(step) == anchor.key and step.f_trace is rest.trace):
            if tracer.function(step.f_code) is not None:
                between.append(step)
            step = step.f_back
        counter = rest.counter() if rest.loop is not None and rest.counter is not None else None
        if rest.loop is not None and counter is not None:
            rest.loop.index = counter.count()
        if step is None:
            # A generator that yielded meanwhile, or a call that has ended while something keeps its frame.
            tracer.lost(lines, frame)
            alive = {call.key: call for call in lines.stack}
            between = [one for one in between if one.f_code is not getattr(alive.get(id(one)), "code", None)]
        elif rest.loop is not None:
            self._in_loop(rest, rest.loop, step)
        elif rest.waits is not None:
            rest.waits.fetch = None
        elif rest.function is not None:
            rest.function.calm = NOISY
        self.tracer.listener.changed_meanwhile(lines, rest.changed)
        for one in reversed(between):
            function = tracer.function(one.f_code)
            if function is not None:
                tracer.found_running(lines, function, one)
        lines.mark_loops()
        if lines.stack and (between or rest.loop is not None):
            innermost = between[0] if between else step
            if innermost is not None and lines.place is not None and lines.place.observed:
                # A change in place is about to happen: its node is built before it.
                lines.stack[-1].watch = self.tracer.listener.line_runs(lines, lines.place, innermost)
                lines.stack[-1].sort_out()

    def _in_loop(self, rest: Rest, loop: RunningLoop, frame: FrameType) -> None:
        """Put the loop that rested, and those within it that were not seen to begin, where they are."""
        tracer, lines, call = self.tracer, rest.lines, rest.anchor
        call.context.function.calm_loops[loop.text] = 0
        loop.waiting = True
        if loop.text.body <= frame.f_lineno <= loop.text.last:
            # Its iteration is begun as any other is.
            loop.index -= 1
        tracer.found_at(lines, call, frame)


class _ValueStack:
    """The values that a frame of CPython 3.11 to 3.13 holds while an event is handled; the topmost may be a loop's
    iterator.
    """

    # In bytes: where a frame object has its frame, and a frame its object, its depth, its values.
    _FRAME, _OBJECT, _DEPTH, _VALUES = 24, 48 if sys.version_info >= (3, 12) else 40, 64, 72
    # And its code, in 3.11 and since.
    _CODE = 0 if sys.version_info >= (3, 12) else 32

    def __init__(self) -> None:
        self._for_iter = opcode.opmap["FOR_ITER"]
        self._extended = opcode.opmap["EXTENDED_ARG"]

    def _frame(self, frame: FrameType) -> Tuple[int, int]:
        """Return the address of a frame's data and its depth, 0 where this is not the layout that is known."""
        word = ctypes.c_ssize_t.from_address
        data = word(id(frame) + self._FRAME).value
        if not data or word(data + self._CODE).value != id(frame.f_code):
            return data, 0
        if word(data + self._OBJECT).value != id(frame):
            return data, 0
        return data, ctypes.c_int.from_address(data + self._DEPTH).value

    def top(self, frame: FrameType, depth: int) -> Optional[Iterator[object]]:
        """Return the iterator of the loop whose line is about to run.

        That of its header, where Python goes on to the next iteration, or with `depth` the first line of its body.
        """
        _, now = self._frame(frame)
        if now <= 0 or (depth and now != depth):
            return None
        if not depth:
            code, at = frame.f_code.co_code, frame.f_lasti
            while code[at] == self._extended:
                at += 2
            if code[at] != self._for_iter:
                return None
        return self.value(frame)

    def value(self, frame: FrameType) -> Iterator[object]:
        data, depth = self._frame(frame)
        found: Iterator[object] = ctypes.cast(
            ctypes.c_ssize_t.from_address(data + self._VALUES + 8 * (depth - 1)).value, ctypes.py_object
        ).value
        return found

    def put(self, frame: FrameType, counter: Iterable[object]) -> int:
        """Have the loop go on over its iterator and a counter; return its depth."""
        data, depth = self._frame(frame)
        slot = ctypes.c_ssize_t.from_address(data + self._VALUES + 8 * (depth - 1))
        iterator = self.value(frame)
        both = itertools.compress(iterator, counter)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(both))
        slot.value = id(both)
        # The frame's own reference; that of this function goes with it.
        ctypes.pythonapi.Py_DecRef(ctypes.py_object(iterator))
        return depth


def last_line(code: CodeType) -> int:
    """Return the last line of a function."""
    return max((line for _, line in dis.findlinestarts(code) if line), default=code.co_firstlineno)


def _value_stack() -> Optional[_ValueStack]:
    """Return the way to the iterators of running loops, tried on a loop; None where this Python is another one."""
    if (
        platform.python_implementation() != "CPython" or not (3, 11) <= sys.version_info[:2] <= (3, 13)
        or hasattr(sys, "gettotalrefcount") or ctypes.sizeof(ctypes.c_void_p) != 8
        or "t" in getattr(sys, "abiflags", "")
    ):  # fmt: skip
        return None
    stack, items, met = _ValueStack(), iter((1, 2, 3)), []

    def tried() -> None:
        for _ in items:
            pass

    def look(frame: FrameType) -> None:
        met.append(stack.top(frame, 0) is items)

    try:
        _line_by_line(tried, look)
    except Exception:
        return None
    return stack if any(met) else None


def _of_program(stack: Sequence[str]) -> List[str]:
    """Return the entries of a formatted stack that the program has without the recorder."""
    own = '  File "' + os.path.join(os.path.dirname(os.path.abspath(__file__)), "")
    # What starts the program lies below its first frame, after Python's own `runpy`.
    below = max((at for at, entry in enumerate(stack) if entry.startswith(own + "command.py")), default=-1)
    return [entry for entry in stack[below + 1 :] if not entry.startswith(own)]


def _line_by_line(tried: Callable[[], None], look: Callable[[FrameType], None]) -> None:
    """Call a function, and `look` at its frame before each of its lines."""
    monitoring: Optional[ModuleType] = getattr(sys, "monitoring", None)
    if monitoring is None:

        def trace(frame: FrameType, event: str, arg: object) -> TraceFunction:
            if event == "line" and frame.f_code is tried.__code__:
                look(frame)
            return trace

        before = tracing_function()
        sys.settrace(trace)
        try:
            tried()
        finally:
            sys.settrace(before)
        return
    tool = next(number for number in range(6) if monitoring.get_tool(number) is None)
    monitoring.use_tool_id(tool, "tapecheck")
    try:
        monitoring.register_callback(tool, monitoring.events.LINE, lambda code, line: look(sys._getframe(1)))
        monitoring.set_local_events(tool, tried.__code__, monitoring.events.LINE)
        tried()
        monitoring.set_local_events(tool, tried.__code__, 0)
        monitoring.register_callback(tool, monitoring.events.LINE, None)
    finally:
        monitoring.free_tool_id(tool)
