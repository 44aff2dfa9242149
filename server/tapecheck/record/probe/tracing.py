"""Turns events of the user's lines into places, loops and ranges of autograd sequence numbers.

Line events of user files are all that is observed: `monitoring` from Python 3.12, `settrace` before.
At each the autograd sequence counter is peeked: the numbers handed out since the last event belong to the
line that just ran. No op is wrapped.
"""

from __future__ import annotations

import bisect
import os
import sys
import threading
from types import CodeType, FrameType, TracebackType
from typing import TYPE_CHECKING, Callable, Dict, FrozenSet, List, Optional, Set, Tuple

from .lines import (
    MAX_RANGES,
    MAX_STACK,
    NONE_PLAIN,
    Activation,
    Context,
    Function,
    Listener,
    Place,
    Resting,
    RunningLoop,
    ThreadLines,
    frames_from,
)
from .parts import Parts
from .sources import LoopText, Sources, SourceText

if TYPE_CHECKING:
    from _typeshed import TraceFunction

# Python's own: while lines are followed by `sys.settrace`, the program is shown another.
tracing_function: Callable[[], Optional[TraceFunction]] = getattr(sys.gettrace, "__wrapped__", sys.gettrace)
GENERATOR_FLAGS = 0x20 | 0x80 | 0x200
# So many calls in a row of a function that built nothing are followed by calls that are not looked at.
CALM_CALLS, NOISY = 3, -(1 << 60)


def _of_python(thread: int) -> bool:
    """Whether Python started a thread; `threading.current_thread` would make a record of any that asks."""
    return thread in getattr(threading, "_active", ())


class Tracer:
    """Turns the interpreter's events into places, loops and sequence ranges, per thread."""

    def __init__(self, sources: Sources, listener: Listener) -> None:
        self.sources = sources
        self.listener = listener
        self.sequence: Callable[[], int] = lambda: 0
        self.functions: Dict[int, Function] = {}
        self.foreign: Set[str] = set()
        self.begun: Set[str] = set()
        self.roots: Dict[Function, Context] = {}
        self.threads: Dict[int, ThreadLines] = {}
        self.places_at: Dict[Tuple[str, int], List[Place]] = {}
        self.watched: Dict[Tuple[str, int], int] = {}
        self.parts = Parts(listener.part_ran)
        # Of those the ones where module calls are looked at.
        self.passes: FrozenSet[Tuple[str, int]] = frozenset()
        self.entries: Dict[LoopText, int] = {}
        self.waiting = False
        self.failed: Callable[[], None] = lambda: None
        # The function given to `sys.settrace`, and the record of the thread that goes without it for a while.
        self.trace: Optional[TraceFunction] = None
        self.paused: Optional[ThreadLines] = None
        # The record of the only thread, None where there are several.
        self.only: Optional[ThreadLines] = None
        # Whether no two threads run beside each other, and whether autograd's own threads ran user code.
        self.alone, self.engine = True, False
        self.within_backward: Callable[[], bool] = lambda: False
        # What has threads go without events while they build nothing.
        self.rests: Optional[Resting] = None
        self._next_loop = 1
        self.follow: Callable[[Activation, FrameType], None] = lambda activation, frame: None
        # Have a function run without any event, and end that for all of them: only code that is asked for it has some.
        self.hush: Callable[[CodeType], None] = lambda code: None
        self.unhush: Callable[[], None] = lambda: None
        self.unobserve: Callable[[], None] = lambda: None
        # Whether a thread was found to go without events that nobody had paused.
        self.without_events = False
        # Whether another trace function had a thread where torch was called.
        self.taken = False

    # Threads and functions

    def lines(self) -> ThreadLines:
        """Return this thread's record."""
        thread = threading.get_ident()
        lines = self.threads.get(thread)
        if lines is None:
            engine = self.within_backward() and not _of_python(thread)
            lines = self.threads[thread] = ThreadLines(self.sequence(), thread, engine)
            self.only = lines if len(self.threads) == 1 else None
            self.engine = self.engine or engine
            self.alone = sum(not known.engine for known in list(self.threads.values())) == 1
        return lines

    def function(self, code: CodeType) -> Optional[Function]:
        """Return what is known of a code object, None for library code."""
        name = code.co_filename
        if name in self.foreign:
            return None
        # By identity: to hash a code object is to hash all there is in it. A function keeps its code alive.
        function = self.functions.get(id(code))
        if function is None:
            relative = not os.path.isabs(name) and not name.startswith("<")
            if relative and code.co_name == "<module>":
                self.sources.look_again(name)
            if not self.sources.is_user(name):
                if not relative:
                    self.foreign.add(name)
                return None
            function = self._known(code, self.sources.text(name), inner=relative)
            if function.text.filename not in self.begun:
                self.begun.add(function.text.filename)
                self.listener.file_begins(function.text.filename)
        return function

    def _known(self, code: CodeType, text: SourceText, inner: bool) -> Function:
        """Note which file a code object is from; with `inner` those within it, too: another file may get that name."""
        entries = self.parts.entries(code, text, self.watched) if self.watched else None
        function = self.functions[id(code)] = Function(code, text, entries)
        for constant in code.co_consts if inner else ():
            if isinstance(constant, CodeType):
                self._known(constant, text, inner)
        return function

    def where(self, number: int) -> Tuple[Optional[Place], Tuple[Tuple[int, int], ...]]:
        """Return the place and the iterations a sequence number belongs to, this thread's own record first."""
        mine = self.lines()
        self.catch_up(mine)
        place = mine.where(number)
        if place is not None or len(self.threads) == 1:
            return place, mine.loops_when(number)
        for other in list(self.threads.values()):
            if other is not mine:
                place = other.where(number)
                if place is not None:
                    return place, other.loops_when(number)
        return None, ()

    def sites(self, number: int) -> Tuple[Optional[Place], Tuple[Tuple[int, int], ...], int, int]:
        """Return what `where` does, with the first number that belongs there and the first after it that does not."""
        mine = self.lines()
        self.catch_up(mine)
        if len(self.threads) > 1 or number >= mine.seen:
            return (*self.where(number), number, number + 1)
        low, high = 0, mine.seen
        for starts in (mine.starts, mine.loop_starts):
            index = bisect.bisect_right(starts, number)
            if index:
                low = max(low, starts[index - 1])
            if index < len(starts):
                high = min(high, starts[index])
        return (*self.where(number), low, high)

    def catch_up(self, lines: ThreadLines) -> None:
        now = self.sequence()
        if now != lines.seen:
            lines.advance(now)

    def stores(self, name: str, function: str) -> List[Place]:
        """Return the places that ran and store into a variable of a function."""
        found = []
        for text in self.sources.texts():
            for store in text.stores.get(name, ()):
                if not store.attribute and store.function == function and store.how == "assign":
                    for line in range(store.first, store.last + 1):
                        found += [place for place in self.places_at.get((text.filename, line), ()) if place.hits]
        return found

    # Events, common to both ways of observing

    def enter(self, function: Function, frame: FrameType) -> Activation:
        lines = self.lines()
        now = self.sequence()
        if now != lines.seen:
            lines.advance(now)
        return self._entered(lines, function, frame)

    def _entered(self, lines: ThreadLines, function: Function, frame: FrameType) -> Activation:
        key = id(frame)
        if function.code.co_flags & GENERATOR_FLAGS:
            resumed = lines.suspended.pop(key, None)
            if resumed is not None and resumed.context.function is function:
                if self.waiting:
                    resumed.plain, resumed.turning = NONE_PLAIN, None
                lines.stack.append(resumed)
                if resumed.loops:
                    lines.mark_loops()
                return resumed
        caller = lines.place if lines.stack else None
        context = self._context(function, caller)
        activation = Activation(context, key, lines.seen, lines.stirs + lines.moves)
        if self.waiting:
            activation.plain = NONE_PLAIN
        lines.stack.append(activation)
        return activation

    def wait(self) -> None:
        """Have the listener told when the next line runs, and of the end of every iteration that runs."""
        self.waiting = True
        for lines in list(self.threads.values()):
            for activation in lines.stack:
                activation.plain, activation.turning = NONE_PLAIN, None
                for loop in activation.loops:
                    loop.look = 0

    def _context(self, function: Function, caller: Optional[Place]) -> Context:
        if caller is None or caller.context.depth >= MAX_STACK:
            context = self.roots.get(function)
            if context is None:
                context = self.roots[function] = Context(function, None)
            return context
        key = (caller.line, function)
        known = caller.context.callees.get(key)
        if known is None:
            known = caller.context.callees[key] = Context(function, caller)
        return known

    def new_place(self, context: Context, number: int) -> Place:
        place = context.places[number] = Place(context, number)
        if (place.filename, number) in self.watched:
            place.watch((place.filename, number) in self.passes)
        self.places_at.setdefault((place.filename, number), []).append(place)
        return place

    def turn(self, lines: ThreadLines, activation: Activation, place: Place, frame: FrameType) -> None:
        """Note a line that ends something or begins something: an iteration, a loop, a change in place."""
        activation.turning = None
        if activation.watch is not None:
            self._line_ran(lines, activation, frame)
        if self.waiting:
            self.waiting = False
            self.listener.line_after_raise()
        running = activation.loops
        if not running and not place.special and not place.loops:
            activation.settled = place.loops
        elif not self._next(lines, running, activation, place, frame):
            self._loops(lines, activation, place, frame)
        elif not place.observed:
            if place.clears:
                lines.clears(place)
            return
        if place.clears:
            lines.clears(place)
        if place.observed:
            activation.watch = self.listener.line_runs(lines, place, frame)
        activation.sort_out(place)

    def _next(
        self, lines: ThreadLines, running: List[RunningLoop], activation: Activation, place: Place, frame: FrameType
    ) -> bool:
        """Return the end of an iteration of the innermost loop or the beginning of its next one, which is most that
        loops do.

        False where something else happens. All in one piece: it is what a loop costs.
        """
        if not running:
            return False
        loop = running[-1]
        if place.header is not None:
            if place.header is not loop.text or loop.waiting or len(place.loops) != len(running) - 1:
                return False
            if loop.index >= loop.look:
                self.listener.iteration_ends(lines, loop, frame)
            loop.waiting = True
            loop.header = place
            activation.settled = None
            activation.plain = NONE_PLAIN
            if not place.observed and not any(other.waiting for other in running[:-1]):
                activation.turning = loop
            return True
        around = place.loops
        if not loop.waiting or len(around) != len(running) or around[-1] is not loop.text:
            return False
        if len(running) > 1 and any(other.waiting for other in running[:-1]):
            return False
        seen = lines.seen
        loop.waiting = False
        loop.index += 1
        loop.began = seen
        activation.settled = around
        state = lines.loop_states[-1]
        if state[1] != loop.id or lines.loop_starts[-1] == seen:
            lines.mark_loops()
        else:
            # Nothing moved but the index of the innermost loop.
            lines.loop_indexes.append(loop.index)
            lines.loop_states.append(state)
            lines.loop_starts.append(seen)
            if len(lines.loop_states) > MAX_RANGES:
                lines.forget_loops()
        plain = activation.context.plain.get(around)
        if plain is None:
            plain = activation.context.plain[around] = {}
        if not place.special:
            plain[place.line] = place
        activation.plain = loop.plain = plain
        if not place.observed and not loop.header.observed:
            activation.turning = loop
        return True

    def turned(self, lines: ThreadLines, activation: Activation, loop: RunningLoop, number: int) -> bool:
        """Return what `_next` does, where a line of a loop that is `turning` does nothing but that; else False."""
        if loop.waiting:
            place = loop.plain.get(number)
            seen = lines.seen
            if place is None or lines.loop_states[-1][1] != loop.id or lines.loop_starts[-1] == seen:
                return False
            loop.waiting = False
            loop.index = index = loop.index + 1
            loop.began = seen
            lines.loop_indexes.append(index)
            states = lines.loop_states
            states.append(states[-1])
            lines.loop_starts.append(seen)
            if len(states) > MAX_RANGES:
                lines.forget_loops()
            activation.settled = place.loops
            activation.plain = loop.plain
        else:
            place = loop.header
            if place.line != number or loop.index >= loop.look:
                return False
            loop.waiting = True
            activation.settled = None
            activation.plain = NONE_PLAIN
        lines.place = place
        place.hits += 1
        if place.clears:
            lines.clears(place)
        return True

    def _line_ran(self, lines: ThreadLines, activation: Activation, frame: Optional[FrameType]) -> None:
        watch, activation.watch = activation.watch, None
        if watch is not None:
            self.listener.line_ran(lines, watch, frame)

    def _loops(self, lines: ThreadLines, activation: Activation, place: Place, frame: FrameType) -> None:
        running = activation.loops
        around = place.loops
        header = place.header
        # Loops that hold neither this line nor its header have been left.
        while running and running[-1].text not in around and running[-1].text is not header:
            self._leave(lines, activation)
        changed = False
        for text in around:
            loop = next((item for item in running if item.text is text), None)
            if loop is None:
                # Entered without its header being seen (a debugger's jump, a tracer installed late).
                loop = self._start(lines, activation, text, place)
            if loop.waiting:
                loop.waiting = False
                loop.index += 1
                loop.began = lines.seen
                changed = True
        if header is not None:
            loop = next((item for item in running if item.text is header), None)
            if loop is None:
                self._start(lines, activation, header, place)
            elif not loop.waiting:
                # Inner loops were left above; what runs now is the end of this loop's iteration.
                if loop.index >= loop.look:
                    self.listener.iteration_ends(lines, loop, frame)
                loop.waiting = True
        activation.settled = around if header is None else None
        if changed:
            lines.mark_loops()

    def _start(self, lines: ThreadLines, activation: Activation, text: LoopText, place: Place) -> RunningLoop:
        entry = self.entries[text] = self.entries.get(text, 0) + 1
        loop = RunningLoop(self._next_loop, text, place, lines.seen, entry)
        self._next_loop += 1
        activation.loops.append(loop)
        return loop

    def _leave(self, lines: ThreadLines, activation: Activation) -> None:
        loop = activation.loops[-1]
        try:
            self.listener.loop_ends(lines, loop)
        finally:
            activation.loops.pop()
            lines.mark_loops()

    def leave(self, lines: ThreadLines, activation: Activation, frame: Optional[FrameType], suspended: bool) -> None:
        """Note a call that returned, raised or yielded."""
        if lines.after_backward is not None:
            # From Python 3.12 on, the caller's line has no event of its own where it goes on.
            lines.look_back()
        now = self.sequence()
        if now != lines.seen:
            lines.advance(now)
        try:
            if activation.watch is not None:
                self._line_ran(lines, activation, frame)
            if suspended:
                lines.suspended[activation.key] = activation
            else:
                function = activation.context.function
                if activation.seen == lines.seen and activation.stirs == lines.stirs + lines.moves:
                    function.calm += 1
                else:
                    function.calm = NOISY
                while activation.loops:
                    self._leave(lines, activation)
        finally:
            stack = lines.stack
            while stack:
                if stack.pop() is activation:
                    break
            lines.place = activation.context.caller if not stack else self._resumed(stack[-1])
            if activation.loops:
                lines.mark_loops()

    def _resumed(self, activation: Activation) -> Optional[Place]:
        # The caller goes on in the line it was in: the place whose call led to the one that returned.
        frame: Optional[FrameType] = sys._getframe(1)
        code = activation.context.function.code
        while frame is not None and not (frame.f_code is code and id(frame) == activation.key):
            frame = frame.f_back
        if frame is None:
            return None
        number = frame.f_lineno
        return activation.context.places.get(number) or self.new_place(activation.context, number)

    # Observing

    def pause(self) -> bool:
        """Have this thread go on without events: under `sys.settrace` every instruction and every call is dear.

        Only for code that is known not to be the user's; the caller ends the pause by `go_on`. Return False where
        nothing was paused.
        """
        trace = self.trace
        if trace is None:
            return False
        current = tracing_function()
        if current is None and self.paused is None:
            # Python itself ends the tracing of a thread whose recursion goes too deep for the trace function.
            lines = self.threads.get(threading.get_ident())
            if lines is not None and lines.stack:
                self.paused, self.without_events = lines, True
                self.overslept()
                current = trace
        if current is not trace:
            self._taken_over()
            return False
        sys.settrace(None)
        return True

    def _taken_over(self) -> None:
        """Note where this thread is, which another trace function has: what it did meanwhile is unknown."""
        lines = self.threads.get(threading.get_ident())
        if lines is None:
            return
        self.taken, lines.place = True, None
        self.catch_up(lines)
        running: List[Tuple[Function, int]] = []
        frame: Optional[FrameType] = sys._getframe(2)
        while frame is not None:
            function = self.function(frame.f_code)
            if function is not None:
                running.append((function, frame.f_lineno))
            frame = frame.f_back
        place: Optional[Place] = None
        for function, number in reversed(running):
            context = self._context(function, place)
            place = context.places.get(number) or self.new_place(context, number)
        lines.place = place

    def go_on(self) -> None:
        """End a pause."""
        if self.trace is not None and tracing_function() is None:
            sys.settrace(self.trace)

    def overslept(self) -> None:
        """End a pause whose end was missed, since an exception took another way: what ran is unknown."""
        lines = self.paused
        if lines is None or lines is not self.lines():
            return
        place, self.paused, lines.place = lines.place, None, None
        self.catch_up(lines)
        alive = frames_from(sys._getframe(1))
        for activation in reversed(lines.stack[:]):
            frame = alive.get(activation.key)
            if frame is None or frame.f_code is not activation.code:
                while activation.loops:
                    self._leave(lines, activation)
                lines.stack.remove(activation)
            elif place is not None:
                self._woken(lines, activation, place.line, frame.f_lineno)
            place = None if place is None else place.context.caller
        frame = None
        alive.clear()
        lines.mark_loops()
        for activation in lines.stack:
            activation.plain, activation.turning = NONE_PLAIN, None
        self.go_on()

    def _woken(self, lines: ThreadLines, activation: Activation, slept: int, now: int) -> None:
        """Note a call that went on unseen from line `slept` to line `now`: further up is the next iteration."""
        while activation.loops and not activation.loops[-1].text.body <= now <= activation.loops[-1].text.last:
            self._leave(lines, activation)
        for loop in activation.loops[-1:]:
            if now <= slept and not loop.waiting:
                loop.index += 1
                loop.began = lines.seen

    def passed_on(self, traceback: Optional[TracebackType]) -> bool:
        """Return whether an exception came to the frame of a traceback from a user's frame that it called."""
        inner = traceback.tb_next if traceback is not None else None
        while inner is not None:
            if self.function(inner.tb_frame.f_code) is not None:
                return True
            inner = inner.tb_next
        return False

    # Rests

    def counts(self, code: CodeType, first: int, last: int) -> bool:
        """Return whether some of these lines are to be counted: none of them may run without events."""
        own = self.sources.file(code.co_filename)
        return any(name == own and first <= line <= last for name, line in self.watched)

    def found_running(self, lines: ThreadLines, function: Function, frame: FrameType) -> None:
        """Note a call that began without events, called from `lines.place`; the last of them builds a node now."""
        activation = self._entered(lines, function, frame)
        function.calm = NOISY
        self.follow(activation, frame)
        self.found_at(lines, activation, frame)

    def found_at(self, lines: ThreadLines, activation: Activation, frame: FrameType) -> None:
        """Note the line that a call came to without events, and the loops around it."""
        number = frame.f_lineno
        place = activation.context.places.get(number) or self.new_place(activation.context, number)
        place.hits += 1
        lines.place = place
        activation.turning = None
        self._loops(lines, activation, place, frame)
        activation.sort_out(place)

    def lost(self, lines: ThreadLines, frame: FrameType) -> None:
        """Note which calls no longer run: they ended or yielded without events."""
        alive = frames_from(frame)
        for activation in reversed(lines.stack[:]):
            running = alive.get(activation.key)
            if running is None or running.f_code is not activation.code:
                if activation.code.co_flags & GENERATOR_FLAGS:
                    lines.suspended[activation.key] = activation
                else:
                    while activation.loops:
                        self._leave(lines, activation)
                lines.stack.remove(activation)
        alive.clear()
        lines.place = self._resumed(lines.stack[-1]) if lines.stack else None

    # Loops that no line event shows

    def hide_loop(self, owner: Activation, line: int) -> Tuple[LoopText, bool]:
        """Take the statement at a line of a running call for a loop, and say whether it runs as one already."""
        function = owner.context.function
        first, last = function.text.statement_at(line)
        text = next((loop for loop in function.loops if loop[:3] == (first, first, last)), None)
        if text is not None and any(loop.text is text for loop in owner.loops):
            return text, True
        if text is None:
            text = LoopText(first, first, last, function.text.line_extent(first), hidden=True)
            function.add_loop(text)
        for number in range(first, last + 1):
            for place in list(self.places_at.get((function.text.filename, number), ())):
                if place.context.function is function:
                    place.loops, place.header = function.loops_at(number)
                    for plain in list(place.context.plain.values()):
                        plain.pop(number, None)
        for lines in list(self.threads.values()):
            for call in lines.stack:
                if call.context.function is function:
                    call.settled, call.turning, call.plain = None, None, NONE_PLAIN
        return text, False

    def begin_hidden(self, lines: ThreadLines, owner: Activation, text: LoopText, line: int, began: int) -> RunningLoop:
        """Have a loop run that was seen to be one at the end of its second iteration, which began at `began`."""
        place = owner.context.places.get(line) or self.new_place(owner.context, line)
        loop = self._start(lines, owner, text, place)
        loop.waiting = False
        loop.index, loop.began = 2, began
        lines.mark_loops()
        return loop

    def ran(self, lines: ThreadLines, activation: Activation, number: int, frame: FrameType) -> None:
        """Note that a line runs of which more has to be known than that."""
        rests, loop = self.rests, activation.turning
        if loop is not None and self.turned(lines, activation, loop, number):
            if loop.waiting and rests is not None:
                rests.round(lines, activation, loop, frame)
            return
        place = activation.context.places.get(number)
        if place is None:
            place = self.new_place(activation.context, number)
        lines.place = place
        place.hits += 1
        self.turn(lines, activation, place, frame)
        if rests is not None and activation.loops:
            loop = activation.loops[-1]
            if loop.waiting:
                rests.round(lines, activation, loop, frame)
            elif loop.index == 1 and number == loop.text.body:
                rests.again(lines, activation, loop, frame)

    @property
    def replaced(self) -> bool:
        """Whether another trace function has taken the place of this one, or Python has ended it: lines ran unseen."""
        return self.without_events or (self.trace is not None and tracing_function() is not self.trace)

    def stop(self) -> None:
        stop, self.unobserve = self.unobserve, lambda: None
        stop()
        if self.rests is not None:
            self.rests.end()
