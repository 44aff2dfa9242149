"""Line events up to Python 3.11, by `sys.settrace`."""

from __future__ import annotations

import functools
import sys
import threading
from types import FrameType
from typing import Callable, Optional, Sequence, Tuple

from .importing import quietly
from .lines import Activation, FrameTrace, Rest, ThreadLines
from .parts import Entries
from .signals import due, trip
from .tracing import CALM_CALLS, GENERATOR_FLAGS, Tracer, tracing_function


def observe(tracer: Tracer, frames: Sequence[FrameType]) -> Callable[[], None]:
    """Begin to observe; what is returned ends that."""
    yields = _yield_opcodes()
    foreign = tracer.foreign

    def entered(frame: FrameType, event: str, arg: object) -> Optional[FrameTrace]:
        # Called for every function there is: what is a library's must be told as fast as can be.
        if frame.f_code.co_filename in foreign:
            return None
        try:
            function = tracer.function(frame.f_code)
            if function is None:
                return None
            if function.calm >= CALM_CALLS and tracer.rests is not None:
                rest = tracer.rests.call(frame, function)
                if rest is not None and not isinstance(rest, Rest):
                    return rest
            activation = tracer.enter(function, frame)
            return follow(tracer.lines(), activation)
        except RecursionError:
            return None
        except Exception:
            tracer.failed()
            return None
        finally:
            if due:
                trip[due.popitem()[0]]

    def follow(lines: ThreadLines, activation: Activation) -> FrameTrace:
        """Return what a frame is traced by."""
        generator = bool(activation.code.co_flags & GENERATOR_FLAGS)
        raising = False

        entries = activation.context.function.entries

        # Answering None leaves this function in place; answering itself would make a reference cycle of every call.
        def local(frame: FrameType, event: str, arg: object) -> None:
            nonlocal raising
            try:
                if event == "line":
                    raising = False
                    number = frame.f_lineno
                    place = activation.plain.get(number)
                    now = tracer.sequence()
                    if now != lines.seen:
                        lines.advance(now)
                    if lines.after_backward is not None:
                        lines.look_back()
                    if place is not None:
                        lines.place = place
                        place.hits += 1
                        if place.clears:
                            lines.clears(place)
                        return
                    tracer.ran(lines, activation, number, frame)
                elif event == "return":
                    suspended = generator and not raising and frame.f_code.co_code[frame.f_lasti] in yields
                    tracer.leave(lines, activation, frame, suspended)
                elif event == "exception" and isinstance(arg, tuple):
                    raising = True
                    tracer.listener.raised(lines, arg[1], arg[2])
            except Exception:
                tracer.failed()
            finally:
                if due:
                    trip[due.popitem()[0]]

        return local if entries is None or not entries.rows else in_parts(local, entries)

    def in_parts(local: FrameTrace, entries: Entries) -> FrameTrace:
        """Return what traces a frame by instructions, too, on lines of which parts are watched."""

        def traced(frame: FrameType, event: str, arg: object) -> None:
            try:
                if event == "opcode":
                    entries.stepped(frame.f_lasti)
                    return
                if event == "line":
                    frame.f_trace_opcodes = frame.f_lineno in entries.rows
            except Exception:
                tracer.failed()
            local(frame, event, arg)

        return traced

    if tracing_function() is not None:
        raise RuntimeError("a debugger or a coverage tool already traces this process")
    running = list(frames)
    for frame in running:
        frame.f_trace = entered(frame, "call", None)

    def follow_again(activation: Activation, frame: FrameType) -> None:
        frame.f_trace = follow(tracer.lines(), activation)

    tracer.trace, tracer.follow = entered, follow_again
    shown, heard = _hide(entered), quietly(tracer)
    sys.settrace(entered)
    threading.settrace(entered)

    def stop() -> None:
        tracer.trace = None
        if tracing_function() is entered:
            sys.settrace(None)
        threading.settrace(None)
        shown()
        heard()
        for frame in running:
            frame.f_trace = None
        running.clear()

    return stop


def _hide(own: object) -> Callable[[], None]:
    """Have Python name any trace function but this one; what is returned ends that.

    Programs take a trace function for a debugger: they start no workers then, or compile nothing.
    """
    before = [(module, module.gettrace) for module in (sys, threading) if hasattr(module, "gettrace")]

    def hiding(asked: Callable[[], object]) -> Callable[[], object]:
        @functools.wraps(asked)
        def gettrace() -> object:
            found = asked()
            return None if found is own else found

        return gettrace

    after = [(module, hiding(asked)) for module, asked in before]
    for module, replacement in after:
        module.gettrace = replacement  # type: ignore[attr-defined]

    def show() -> None:
        for (module, asked), (_, replacement) in zip(before, after):
            if getattr(module, "gettrace", None) is replacement:
                module.gettrace = asked  # type: ignore[attr-defined]

    return show


def _yield_opcodes() -> Tuple[int, ...]:
    import opcode

    names = ("YIELD_VALUE", "YIELD_FROM", "SEND")
    return tuple(opcode.opmap[name] for name in names if name in opcode.opmap)
