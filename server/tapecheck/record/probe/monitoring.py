"""Line events from Python 3.12 on, by `sys.monitoring`."""

from __future__ import annotations

import sys
import threading
from types import CodeType, FrameType, ModuleType
from typing import Callable, Dict, List, Optional, Sequence, Tuple

from .lines import Activation, Rest, ThreadLines
from .signals import due, trip
from .tracing import CALM_CALLS, GENERATOR_FLAGS, Tracer

# So many calls of a function within one rest, and it has no events for what is left of it.
_HUSHED_CALLS = 32


def observe(tracer: Tracer, frames: Sequence[FrameType]) -> Callable[[], None]:
    """Begin to observe; what is returned ends that."""
    observer = _Observer(tracer)
    observer.begin(frames)
    return observer.stop


class _Observer:
    """The events that `sys.monitoring` is asked for, and what becomes of them."""

    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer
        self.monitoring: ModuleType = vars(sys)["monitoring"]
        events = self.monitoring.events
        self.tools = [number for number in (3, 4, 1, 0, 5, 2) if self.monitoring.get_tool(number) is None][:3]
        if len(self.tools) < 2:
            raise RuntimeError("the sys.monitoring tool ids of this process are taken")
        # The first is told of every function there is, once; the second of what is asked of the user's. What a tool has
        # switched off somewhere comes back only with all else that is off: events that come and go have their own tool.
        # Instructions that are of no more interest are switched off one by one: they have a tool of their own.
        self.finder, self.tool = finder, tool = self.tools[:2]
        self.stepper = self.tools[2] if len(self.tools) > 2 else None
        # Of a function that built nothing so far only its calls; its first node asks for more again.
        self.of_calm = events.PY_START | events.PY_RESUME | events.PY_RETURN | events.PY_YIELD
        self.local_events = self.of_calm | events.LINE
        self.asked: Dict[int, int] = {}
        # By identity, as `Tracer.functions`.
        self.observed: Dict[int, CodeType] = {}
        self.hushed: List[CodeType] = []
        self.stepped: List[CodeType] = []
        self.callbacks = (
            (finder, events.PY_START, self.found), (finder, events.PY_RESUME, self.found),
            (finder, events.PY_THROW, self.thrown), (finder, events.PY_UNWIND, self.returned),
            (finder, events.RAISE, self.raised),
            (tool, events.PY_START, self.start), (tool, events.PY_RESUME, self.start),
            (tool, events.LINE, self.line_callback()),
            (tool, events.PY_RETURN, self.returned), (tool, events.PY_YIELD, self.yielded),
        )  # fmt: skip

    def begin(self, frames: Sequence[FrameType]) -> None:
        tracer, monitoring, events = self.tracer, self.monitoring, self.monitoring.events
        monitoring.use_tool_id(self.finder, "tapecheck, functions")
        monitoring.use_tool_id(self.tool, "tapecheck")
        if self.stepper is not None:
            monitoring.use_tool_id(self.stepper, "tapecheck, parts")
            monitoring.register_callback(self.stepper, events.INSTRUCTION, self.instruction)
        tracer.follow, tracer.hush, tracer.unhush = self.follow, self.hush, self.unhush
        for number, event, callback in self.callbacks:
            monitoring.register_callback(number, event, callback)
        for frame in frames:
            function = tracer.function(frame.f_code)
            if function is not None:
                self.ask(frame.f_code, self.local_events)
                tracer.enter(function, frame)
        monitoring.set_events(
            self.finder, events.PY_START | events.PY_RESUME | events.PY_UNWIND | events.PY_THROW | events.RAISE
        )

    def stop(self) -> None:
        monitoring = self.monitoring
        if monitoring.get_tool(self.tool) == "tapecheck":
            monitoring.set_events(self.finder, 0)
            for code in list(self.observed.values()):
                monitoring.set_local_events(self.tool, code, 0)
            if self.stepper is not None:
                for code in self.stepped:
                    monitoring.set_local_events(self.stepper, code, 0)
                monitoring.register_callback(self.stepper, monitoring.events.INSTRUCTION, None)
            for number, event, _ in self.callbacks:
                monitoring.register_callback(number, event, None)
            for number in self.tools:
                monitoring.free_tool_id(number)

    # Which events there are

    def ask(self, code: CodeType, wanted: int) -> None:
        if self.asked.get(id(code)) != wanted:
            first = id(code) not in self.observed
            self.observed[id(code)] = code
            self.asked[id(code)] = wanted
            self.monitoring.set_local_events(self.tool, code, wanted)
            if first:
                # After the lines: asked for in front of these, instructions have no events.
                self.step(code)

    def step(self, code: CodeType) -> None:
        """Ask for the instructions of a function of which parts of lines are watched."""
        function = self.tracer.functions.get(id(code))
        entries = function.entries if function is not None else None
        if entries is None:
            return
        if self.stepper is None:
            entries.give_up()
            return
        self.stepped.append(code)
        self.monitoring.set_local_events(self.stepper, code, self.monitoring.events.INSTRUCTION)

    def follow(self, activation: Activation, frame: FrameType) -> None:
        self.ask(activation.code, self.local_events)

    def hush(self, code: CodeType) -> None:
        self.hushed.append(code)
        self.monitoring.set_local_events(self.tool, code, 0)

    def unhush(self) -> None:
        hushed, self.hushed = self.hushed, []
        for code in hushed:
            self.monitoring.set_local_events(self.tool, code, self.asked[id(code)])

    # What becomes of them

    def resting(self) -> Optional[Rest]:
        """Return the rest that this thread is in."""
        rests = self.tracer.rests
        rest = rests.rest if rests is not None else None
        return rest if rest is not None and rest.lines.thread == threading.get_ident() else None

    def current(self, code: CodeType, frame: FrameType) -> Tuple[ThreadLines, Optional[Activation]]:
        lines = self.tracer.lines()
        stack = lines.stack
        key = id(frame)
        # Calls that ended unseen (the tracer started or failed in between) are dropped here.
        while stack and not (stack[-1].key == key and stack[-1].code is code):
            if not any(call.key == key and call.code is code for call in stack):
                return lines, None
            self.tracer.leave(lines, stack[-1], None, False)
        return lines, stack[-1] if stack else None

    def found(self, code: CodeType, offset: int) -> object:
        try:
            # What is observed already tells the other tool of this call.
            if id(code) not in self.observed and self.tracer.function(code) is not None:
                self.ask(code, self.local_events)
                self.entered(code, sys._getframe(1))
        except Exception:
            self.tracer.failed()
        finally:
            if due:
                trip[due.popitem()[0]]
        return self.monitoring.DISABLE

    def start(self, code: CodeType, offset: int) -> None:
        self.entered(code, sys._getframe(1))

    def thrown(self, code: CodeType, offset: int, error: BaseException) -> None:
        if id(code) in self.observed:
            self.entered(code, sys._getframe(1))

    def entered(self, code: CodeType, frame: FrameType) -> None:
        tracer = self.tracer
        try:
            rests = tracer.rests
            rest = rests.rest if rests is not None else None
            if rest is not None:
                if rest.lines.thread == threading.get_ident():
                    # Nothing that is called within a rest is looked at, unless it builds a node.
                    count = rest.calls[id(code)] = rest.calls.get(id(code), 0) + 1
                    if count == _HUSHED_CALLS:
                        self.hush(code)
                    return
                self.unhush()
            function = tracer.function(code)
            if function is None:
                return
            if (
                rests is not None and rest is None and function.calm >= CALM_CALLS
                and not code.co_flags & GENERATOR_FLAGS and rests.call(frame, function) is not None
            ):  # fmt: skip
                self.ask(code, self.of_calm)
                return
            self.ask(code, self.local_events)
            tracer.enter(function, frame)
        except Exception:
            tracer.failed()
        finally:
            if due:
                trip[due.popitem()[0]]

    def line_callback(self) -> Callable[[CodeType, int], None]:
        """Return what is called for each line: with nothing to look up in objects, since it is called most of all."""
        tracer, current = self.tracer, self.current
        threads, this_thread, frame_at = tracer.threads, threading.get_ident, sys._getframe

        def line(code: CodeType, number: int) -> None:
            try:
                lines, rests = threads.get(this_thread()), tracer.rests
                if rests is not None and rests.rest is not None and lines is rests.rest.lines:
                    return
                activation = lines.stack[-1] if lines is not None and lines.stack else None
                if activation is not None and activation.code is code:
                    now = tracer.sequence()
                    if now != lines.seen:  # type: ignore[union-attr]
                        lines.advance(now)  # type: ignore[union-attr]
                    if lines.after_backward is not None:  # type: ignore[union-attr]
                        lines.look_back()  # type: ignore[union-attr]
                    place = activation.plain.get(number)
                    if place is not None:
                        lines.place = place  # type: ignore[union-attr]
                        place.hits += 1
                        if place.clears:
                            lines.clears(place)  # type: ignore[union-attr]
                        return
                frame = frame_at(1)
                if activation is None or activation.code is not code or activation.key != id(frame):
                    lines, activation = current(code, frame)
                    if activation is None:
                        return
                    now = tracer.sequence()
                    if now != lines.seen:
                        lines.advance(now)
                tracer.ran(lines, activation, number, frame)  # type: ignore[arg-type]
            except Exception:
                tracer.failed()
            finally:
                if due:
                    trip[due.popitem()[0]]

        return line

    def instruction(self, code: CodeType, offset: int) -> object:
        again = False
        try:
            function = self.tracer.functions.get(id(code))
            entries = function.entries if function is not None else None
            again = entries is not None and entries.ran(offset)
        except Exception:
            self.tracer.failed()
        finally:
            if due:
                trip[due.popitem()[0]]
        return None if again else self.monitoring.DISABLE

    def returned(self, code: CodeType, offset: int, value: object) -> None:
        self.left(code, sys._getframe(1), suspended=False)

    def yielded(self, code: CodeType, offset: int, value: object) -> None:
        self.left(code, sys._getframe(1), suspended=True)

    def left(self, code: CodeType, frame: FrameType, suspended: bool) -> None:
        if id(code) not in self.observed:
            return
        try:
            rest = self.resting()
            if rest is not None:
                if rest.frame == id(frame) and self.tracer.rests is not None:
                    self.tracer.rests.over(rest)
                return
            lines, activation = self.current(code, frame)
            if activation is not None:
                self.tracer.leave(lines, activation, frame, suspended)
        except Exception:
            self.tracer.failed()
        finally:
            if due:
                trip[due.popitem()[0]]

    def raised(self, code: CodeType, offset: int, error: BaseException) -> None:
        if id(code) in self.observed and self.asked.get(id(code)) != self.of_calm:
            try:
                if self.resting() is not None:
                    return
                lines, activation = self.current(code, sys._getframe(1))
                if activation is not None:
                    self.tracer.listener.raised(lines, error, error.__traceback__)
            except Exception:
                self.tracer.failed()
            finally:
                if due:
                    trip[due.popitem()[0]]
