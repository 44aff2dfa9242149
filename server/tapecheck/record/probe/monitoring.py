"""Line events from Python 3.12 on, by `sys.monitoring`."""

from __future__ import annotations

import sys
import threading
from types import CodeType, FrameType, ModuleType
from typing import Callable, Dict, List, Optional, Sequence, Tuple

from .lines import Activation, ThreadLines
from .tracing import CALM_CALLS, GENERATOR_FLAGS, Tracer

# So many calls of a function within one rest, and it has no events for what is left of it.
_HUSHED_CALLS = 32


def observe(tracer: Tracer, frames: Sequence[FrameType]) -> Callable[[], None]:
    """Begin to observe; what is returned ends that."""
    monitoring: ModuleType = vars(sys)["monitoring"]
    events = monitoring.events
    tools = [number for number in (3, 4, 1, 0, 5, 2) if monitoring.get_tool(number) is None][:2]
    if len(tools) < 2:
        raise RuntimeError("the sys.monitoring tool ids of this process are taken")
    # The first is told of every function there is, once; the second of what is asked of the user's. What a tool has
    # switched off somewhere comes back only with all else that is off: events that come and go have their own tool.
    finder, tool = tools
    monitoring.use_tool_id(finder, "tapecheck, functions")
    monitoring.use_tool_id(tool, "tapecheck")
    calls = events.PY_START | events.PY_RESUME
    local_events = calls | events.LINE | events.PY_RETURN | events.PY_YIELD
    # Of a function that built nothing so far only its calls; its first node asks for more again.
    of_calm = calls | events.PY_RETURN | events.PY_YIELD
    asked: Dict[int, int] = {}
    # By identity, as `Tracer.functions`.
    observed: Dict[int, CodeType] = {}
    hushed: List[CodeType] = []

    def current(code: CodeType, depth: int) -> Tuple[ThreadLines, Optional[Activation], FrameType]:
        lines = tracer.lines()
        frame = sys._getframe(depth)
        stack = lines.stack
        key = id(frame)
        # Calls that ended unseen (the tracer started or failed in between) are dropped here.
        while stack and not (stack[-1].key == key and stack[-1].code is code):
            if not any(call.key == key and call.code is code for call in stack):
                return lines, None, frame
            tracer.leave(lines, stack[-1], None, False)
        return lines, stack[-1] if stack else None, frame

    def ask(code: CodeType, wanted: int) -> None:
        if asked.get(id(code)) != wanted:
            observed[id(code)] = code
            asked[id(code)] = wanted
            monitoring.set_local_events(tool, code, wanted)

    def follow(activation: Activation, frame: FrameType) -> None:
        ask(activation.code, local_events)

    def hush(code: CodeType) -> None:
        hushed.append(code)
        monitoring.set_local_events(tool, code, 0)

    def unhush() -> None:
        while hushed:
            code = hushed.pop()
            monitoring.set_local_events(tool, code, asked[id(code)])

    tracer.follow, tracer.hush, tracer.unhush = follow, hush, unhush
    threads, this_thread, frame_at = tracer.threads, threading.get_ident, sys._getframe

    def found(code: CodeType, offset: int) -> object:
        try:
            # What is observed already tells the other tool of this call.
            if id(code) not in observed and tracer.function(code) is not None:
                ask(code, local_events)
                entered(code, frame_at(1))
        except Exception:
            tracer.failed()
        return monitoring.DISABLE

    def start(code: CodeType, offset: int) -> None:
        entered(code, frame_at(1))

    def entered(code: CodeType, frame: FrameType) -> None:
        try:
            rests = tracer.rests
            rest = rests.rest if rests is not None else None
            if rest is not None:
                if rest.lines.thread == this_thread():
                    # Nothing that is called within a rest is looked at, unless it builds a node.
                    count = rest.calls[id(code)] = rest.calls.get(id(code), 0) + 1
                    if count == _HUSHED_CALLS:
                        hush(code)
                    return
                unhush()
            function = tracer.function(code)
            if function is None:
                return
            if (
                rests is not None and rest is None and function.calm >= CALM_CALLS
                and not code.co_flags & GENERATOR_FLAGS and rests.call(frame, function) is not None
            ):  # fmt: skip
                ask(code, of_calm)
                return
            ask(code, local_events)
            tracer.enter(function, frame)
        except Exception:
            tracer.failed()

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
                lines, activation, frame = current(code, 2)
                if activation is None or lines is None:
                    return
                now = tracer.sequence()
                if now != lines.seen:
                    lines.advance(now)
            tracer.ran(lines, activation, number, frame)  # type: ignore[arg-type]
        except Exception:
            tracer.failed()

    def returned(suspended: bool) -> Callable[[CodeType, int, object], None]:
        def callback(code: CodeType, offset: int, value: object) -> None:
            try:
                if id(code) not in observed:
                    return
                rests = tracer.rests
                rest = rests.rest if rests is not None else None
                if rests is not None and rest is not None and rest.lines.thread == this_thread():
                    if rest.frame == id(frame_at(1)):
                        rests.over(rest)
                    return
                lines, activation, frame = current(code, 2)
                if activation is not None and lines is not None:
                    tracer.leave(lines, activation, frame, suspended)
            except Exception:
                tracer.failed()

        return callback

    def raised(code: CodeType, offset: int, error: BaseException) -> None:
        if id(code) in observed and asked.get(id(code)) != of_calm:
            try:
                rest = tracer.rests.rest if tracer.rests is not None else None
                if rest is not None and rest.lines.thread == this_thread():
                    return
                lines, activation, _ = current(code, 2)
                if activation is not None and lines is not None:
                    tracer.listener.raised(lines, error, error.__traceback__)
            except Exception:
                tracer.failed()

    def thrown(code: CodeType, offset: int, error: BaseException) -> None:
        if id(code) in observed:
            entered(code, frame_at(1))

    callbacks = (
        (finder, events.PY_START, found), (finder, events.PY_RESUME, found), (finder, events.PY_THROW, thrown),
        (finder, events.PY_UNWIND, returned(False)), (finder, events.RAISE, raised),
        (tool, events.PY_START, start), (tool, events.PY_RESUME, start), (tool, events.LINE, line),
        (tool, events.PY_RETURN, returned(False)), (tool, events.PY_YIELD, returned(True)),
    )  # fmt: skip
    for number, event, callback in callbacks:
        monitoring.register_callback(number, event, callback)
    for frame in frames:
        function = tracer.function(frame.f_code)
        if function is not None:
            ask(frame.f_code, local_events)
            tracer.enter(function, frame)
    monitoring.set_events(finder, calls | events.PY_UNWIND | events.PY_THROW | events.RAISE)

    def stop() -> None:
        if monitoring.get_tool(tool) == "tapecheck":
            monitoring.set_events(finder, 0)
            for code in observed.values():
                monitoring.set_local_events(tool, code, 0)
            for number, event, _ in callbacks:
                monitoring.register_callback(number, event, None)
            for number in tools:
                monitoring.free_tool_id(number)

    return stop
