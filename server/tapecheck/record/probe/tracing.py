"""Follows the user's lines: which line built which node, which loops run, how often a line ran.

Line events of user files are all that is observed (`sys.monitoring` from Python 3.12, `sys.settrace` before).
At each the autograd sequence counter is peeked: the numbers handed out since the last event belong to the
line that just ran. No op is wrapped.
"""

from __future__ import annotations

import bisect
import sys
import threading
from array import array
from types import CodeType, FrameType
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

from .sources import LoopText, Sources, SourceText

_MAX_STACK = 16
_MAX_RANGES = 1 << 18
_GENERATOR_FLAGS = 0x20 | 0x80 | 0x200
# So many calls in a row of a function that built nothing are followed by calls that are not looked at.
_CALM_CALLS, NOISY = 3, -(1 << 60)
# So many calls of a function within one rest, and it has no events for what is left of it (`sys.monitoring`).
_HUSHED_CALLS = 32


class Place:
    """A line of user code, reached through one chain of calls."""

    __slots__ = (
        "clears", "context", "header", "hits", "in_line", "line", "loops", "observed", "special", "watched", "written",
    )  # fmt: skip

    def __init__(self, context: Context, line: int) -> None:
        self.context = context
        self.line = line
        self.hits = 0
        self.loops, self.header = context.function.loops_at(line)
        self.written: Tuple[Tuple[str, ...], ...] = context.function.text.inplace.get(line, ())
        self.watched = False
        self.clears = line in context.function.text.clears
        self.in_line = line in context.function.text.in_line
        self.observed = bool(self.written)
        self.special = self.observed or self.header is not None

    def watch(self) -> None:
        self.watched = self.observed = self.special = True

    @property
    def filename(self) -> str:
        return self.context.function.code.co_filename

    def stack(self) -> List[Place]:
        """Return the places of the calls that led here, innermost first."""
        found: List[Place] = []
        caller = self.context.caller
        while caller is not None and len(found) < _MAX_STACK:
            found.append(caller)
            caller = caller.context.caller
        return found


class Function:
    """What is known of one code object."""

    __slots__ = ("_around", "_at", "calm", "calm_loops", "code", "loops", "text")

    def __init__(self, code: CodeType, text: SourceText) -> None:
        self.code = code
        self.text = text
        # How many calls in a row built nothing; the depth of the value stack in loops that did, 0 where that was wrong.
        self.calm = 0
        self.calm_loops: Dict[LoopText, int] = {}
        first = 0 if code.co_name == "<module>" else code.co_firstlineno
        self.loops: List[LoopText] = text.loops.get((code.co_name, first), [])
        self._at: Dict[int, Tuple[Tuple[LoopText, ...], Optional[LoopText]]] = {}
        self._around: Dict[Tuple[LoopText, ...], Tuple[LoopText, ...]] = {}

    def loops_at(self, line: int) -> Tuple[Tuple[LoopText, ...], Optional[LoopText]]:
        """Return the loops of this function whose bodies hold a line, outermost first, and the loop whose header it is.

        Lines within the same loops are given the same tuple.
        """
        known = self._at.get(line)
        if known is None:
            around = [loop for loop in self.loops if loop.body <= line <= loop.last]
            around.sort(key=lambda loop: (loop.first, -loop.last))
            header = next((loop for loop in self.loops if loop.first <= line < loop.body), None)
            loops = tuple(around)
            known = self._at[line] = (self._around.setdefault(loops, loops), header)
        return known

    def add_loop(self, text: LoopText) -> None:
        """Add a loop that the text does not show to be one."""
        self.loops = [*self.loops, text]
        self._at.clear()


class Context:
    """A function reached through one chain of calls; its places are created once and kept."""

    __slots__ = ("callees", "caller", "depth", "function", "places", "plain")

    def __init__(self, function: Function, caller: Optional[Place]) -> None:
        self.function = function
        self.caller = caller
        self.depth: int = 0 if caller is None else caller.context.depth + 1
        self.places: Dict[int, Place] = {}
        self.callees: Dict[Tuple[int, Function], Context] = {}
        # The places within the same loops that nothing begins or ends at.
        self.plain: Dict[Tuple[LoopText, ...], Dict[int, Place]] = {(): {}}


_NONE_PLAIN: Dict[int, Place] = {}

# The running loops but for the innermost one, each with its iteration; the number of the innermost, 0 for none.
State = Tuple[Tuple[Tuple[int, int], ...], int]


def iterations(state: State, index: int) -> Tuple[Tuple[int, int], ...]:
    """Return the iterations that run, outermost first; `index` is the innermost loop's."""
    around, inner = state
    return (*around, (inner, index)) if inner else around


class RunningLoop:
    """A loop that is running: `index` is the iteration that runs, 0 before the first.

    The listener is called at the end of iteration `look` and of all later ones, and sets it anew; `sample` is the
    listener's own. `declared` of the iterations since `settled` are on the tape. `header` is the line that ended the
    last iteration, `plain` are the lines that may begin the next one where that is all they do. `calm` iterations in a
    row built nothing and did nothing new since `seen`, `stirs` and `moves`. Before the iteration of a hidden loop
    `walked` backward calls ran.
    """

    __slots__ = (
        "began", "calm", "count", "declared", "entered", "entry", "fetch", "header", "hidden", "id", "index", "look",
        "moves", "place", "plain", "sample", "seen", "settled", "stirs", "text", "waiting", "walked", "written",
        "written_index",
    )  # fmt: skip

    def __init__(self, number: int, text: LoopText, place: Place, began: int, entry: int) -> None:
        self.id = number
        self.text = text
        self.place = place
        self.index = self.look = self.sample = self.settled = self.declared = 0
        self.waiting = True
        # Whether no line event tells of its iterations.
        self.hidden = text.hidden
        self.header = place
        self.plain = _NONE_PLAIN
        self.began = began
        self.entered = began
        self.written = False
        self.written_index = 0
        self.entry = entry
        self.calm = self.moves = 0
        self.seen = self.stirs = self.walked = -1
        # When its iterator was first asked for a value; then what tells that it has given one, None where nothing does.
        self.fetch: Any = 0.0
        self.count: Optional[List[int]] = None


class Activation:
    """A running call of a user function.

    `settled` are the loops around the line that ran last, None while one of them waits for its next iteration: a
    line within the same loops says nothing new about them. `plain` are the lines of which, as things stand, nothing
    needs to be known but that they run, `turning` is the innermost loop where its iterations end and begin with nothing
    else to be done.
    """

    __slots__ = ("code", "context", "key", "loops", "plain", "seen", "settled", "stirs", "turning", "watch")

    def __init__(self, context: Context, key: int, seen: int, stirs: int) -> None:
        self.context = context
        self.code = context.function.code
        self.loops: List[RunningLoop] = []
        self.settled: Optional[Tuple[LoopText, ...]] = ()
        self.turning: Optional[RunningLoop] = None
        self.plain: Dict[int, Place] = context.plain[()]
        self.watch: Any = None
        self.key = key
        # What had been built and done when it began.
        self.seen = seen
        self.stirs = stirs

    def sort_out(self, place: Optional[Place] = None) -> None:
        """Say anew which lines are plain; `place` is one that just ran."""
        settled = self.settled
        if settled is None or self.watch is not None:
            self.plain = _NONE_PLAIN
            return
        plain = self.context.plain.get(settled)
        if plain is None:
            plain = self.context.plain[settled] = {}
        self.plain = plain
        if place is not None and not place.special and place.loops is settled:
            plain[place.line] = place


class ThreadLines:
    """Sequence numbers and running calls of one thread."""

    __slots__ = (
        "after_backward", "before_clearing", "changed", "cleared", "loop_indexes", "loop_starts", "loop_states",
        "moves", "place", "places", "seen", "stack", "starts", "stirs", "suspended", "thread",
    )  # fmt: skip

    def __init__(self, seen: int, thread: int) -> None:
        self.seen = seen
        self.thread = thread
        self.place: Optional[Place] = None
        # The line that ran last of those that clear gradients, with the iterations that ran.
        self.cleared: Optional[Tuple[Place, State, int]] = None
        self.before_clearing: Optional[Callable[[], None]] = None
        # What looks at the gradients before the first line that runs after a backward.
        self.after_backward: Optional[Callable[[], None]] = None
        self.stack: List[Activation] = []
        self.starts = array("Q")
        self.places: List[Optional[Place]] = []
        self.loop_starts = array("Q", [seen])
        self.loop_indexes = array("Q", [0])
        # The running loops but for the index of the innermost one, which every iteration of it shares.
        self.loop_states: List[State] = [((), 0)]
        self.suspended: Dict[int, Activation] = {}
        # What ran that matters although it builds no node; changes in place, and those of the same tensors by a line.
        self.stirs = self.moves = 0
        self.changed: Dict[Tuple[Place, int], Tuple[Any, str, int]] = {}

    def advance(self, now: int) -> None:
        """Give the numbers handed out since the last event to the current place."""
        places = self.places
        if not places or places[-1] is not self.place or self.starts[-1] > self.seen:
            self.starts.append(self.seen)
            places.append(self.place)
            if len(places) > _MAX_RANGES:
                del self.starts[: _MAX_RANGES // 2]
                del places[: _MAX_RANGES // 2]
        self.seen = now

    def look_back(self) -> None:
        """Look at what the last backward has left before any other line can change it."""
        look, self.after_backward = self.after_backward, None
        if look is not None:
            look()

    def clears(self, place: Place) -> None:
        """Note a line that clears gradients."""
        self.stirs += 1
        self.cleared = (place, self.loop_states[-1], self.loop_indexes[-1])
        if self.before_clearing is not None:
            look, self.before_clearing = self.before_clearing, None
            look()

    def mark_loops(self) -> None:
        """Remember which iterations run from the current sequence number on."""
        state = tuple([(loop.id, loop.index) for call in self.stack for loop in call.loops if loop.index])
        inner, index = state[-1] if state else (0, 0)
        around, known = self.loop_states[-1]
        if inner != known or around != state[:-1]:
            shared = (state[:-1], inner)
        else:
            shared = self.loop_states[-1]
        if self.loop_starts[-1] == self.seen:
            self.loop_states[-1] = shared
            self.loop_indexes[-1] = index
        else:
            self.loop_starts.append(self.seen)
            self.loop_indexes.append(index)
            self.loop_states.append(shared)
            if len(self.loop_states) > _MAX_RANGES:
                self.forget_loops()

    def forget_loops(self) -> None:
        """Forget the older half of the iterations."""
        del self.loop_starts[: _MAX_RANGES // 2]
        del self.loop_indexes[: _MAX_RANGES // 2]
        del self.loop_states[: _MAX_RANGES // 2]

    def running(self) -> List[RunningLoop]:
        return [loop for call in self.stack for loop in call.loops]

    def iteration(self) -> Tuple[Tuple[int, int], ...]:
        """Return the iterations that run, outermost first."""
        return iterations(self.loop_states[-1], self.loop_indexes[-1])

    def where(self, number: int) -> Optional[Place]:
        """Return the place that was running when a sequence number was handed out."""
        index = bisect.bisect_right(self.starts, number) - 1
        if index < 0:
            return None
        return self.places[index] if number < self.seen else None

    def loops_when(self, number: int) -> Tuple[Tuple[int, int], ...]:
        index = bisect.bisect_right(self.loop_starts, number) - 1
        if index < 0:
            return ()
        return iterations(self.loop_states[index], self.loop_indexes[index])


class Listener:
    """What the tracer reports; the recorder implements it. `frame` is the user's frame, never kept."""

    def iteration_ends(self, lines: ThreadLines, loop: RunningLoop, frame: FrameType) -> None: ...

    def loop_ends(self, lines: ThreadLines, loop: RunningLoop) -> None: ...

    def line_runs(self, lines: ThreadLines, place: Place, frame: FrameType) -> Any: ...

    def line_ran(self, lines: ThreadLines, watch: Any, frame: Optional[FrameType]) -> None: ...

    def raised(self, lines: ThreadLines, error: BaseException, traceback: Any) -> None: ...

    def line_after_raise(self) -> None: ...

    def changed_since(self, lines: ThreadLines, moves: int) -> List[Any]:
        """Return the tensors that were changed in place since then, for `changed_meanwhile`."""
        return []

    def changed_meanwhile(self, lines: ThreadLines, changed: List[Any]) -> None: ...


class Tracer:
    """Turns the interpreter's events into places, loops and sequence ranges, per thread."""

    def __init__(self, sources: Sources, listener: Listener) -> None:
        self.sources = sources
        self.listener = listener
        self.sequence: Callable[[], int] = lambda: 0
        self.functions: Dict[int, Function] = {}
        self.foreign: Set[str] = set()
        self.roots: Dict[Function, Context] = {}
        self.threads: Dict[int, ThreadLines] = {}
        self.places_at: Dict[Tuple[str, int], List[Place]] = {}
        self.watched: Dict[Tuple[str, int], Any] = {}
        self.entries: Dict[LoopText, int] = {}
        self.waiting = False
        self.failed: Callable[[], None] = lambda: None
        # The function given to `sys.settrace`, and the record of the thread that goes without it for a while.
        self.trace: Optional[Callable[[FrameType, str, Any], Any]] = None
        self.paused: Optional[ThreadLines] = None
        # The record of the only thread, None where there are several.
        self.only: Optional[ThreadLines] = None
        # What has threads go without events while they build nothing.
        self.rests: Any = None
        self._next_loop = 1
        self.follow: Callable[[Activation, FrameType], None] = lambda activation, frame: None
        # Have a function run without any event, and end that for all of them: only code that is asked for it has some.
        self.hush: Callable[[CodeType], None] = lambda code: None
        self.unhush: Callable[[], None] = lambda: None
        self._stop: Callable[[], None] = lambda: None

    # Threads and functions

    def lines(self) -> ThreadLines:
        """Return this thread's record."""
        thread = threading.get_ident()
        lines = self.threads.get(thread)
        if lines is None:
            lines = self.threads[thread] = ThreadLines(self.sequence(), thread)
            self.only = lines if len(self.threads) == 1 else None
        return lines

    def function(self, code: CodeType) -> Optional[Function]:
        """Return what is known of a code object, None for library code."""
        name = code.co_filename
        if name in self.foreign:
            return None
        # By identity: to hash a code object is to hash all there is in it. A function keeps its code alive.
        function = self.functions.get(id(code))
        if function is None:
            if not self.sources.is_user(name):
                self.foreign.add(name)
                return None
            function = self.functions[id(code)] = Function(code, self.sources.text(name))
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
        if function.code.co_flags & _GENERATOR_FLAGS:
            resumed = lines.suspended.pop(key, None)
            if resumed is not None and resumed.context.function is function:
                if self.waiting:
                    resumed.plain, resumed.turning = _NONE_PLAIN, None
                lines.stack.append(resumed)
                if resumed.loops:
                    lines.mark_loops()
                return resumed
        caller = lines.place if lines.stack else None
        context = self._context(function, caller)
        activation = Activation(context, key, lines.seen, lines.stirs + lines.moves)
        if self.waiting:
            activation.plain = _NONE_PLAIN
        lines.stack.append(activation)
        return activation

    def wait(self) -> None:
        """Have the listener told when the next line runs, and of the end of every iteration that runs."""
        self.waiting = True
        for lines in list(self.threads.values()):
            for activation in lines.stack:
                activation.plain, activation.turning = _NONE_PLAIN, None
                for loop in activation.loops:
                    loop.look = 0

    def _context(self, function: Function, caller: Optional[Place]) -> Context:
        if caller is None or caller.context.depth >= _MAX_STACK:
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
            place.watch()
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
            activation.plain = _NONE_PLAIN
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
            lines.loop_starts.append(seen)
            lines.loop_indexes.append(loop.index)
            lines.loop_states.append(state)
            if len(lines.loop_states) > _MAX_RANGES:
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
            lines.loop_starts.append(seen)
            lines.loop_indexes.append(index)
            states = lines.loop_states
            states.append(states[-1])
            if len(states) > _MAX_RANGES:
                lines.forget_loops()
            activation.settled = place.loops
            activation.plain = loop.plain
        else:
            place = loop.header
            if place.line != number or loop.index >= loop.look:
                return False
            loop.waiting = True
            activation.settled = None
            activation.plain = _NONE_PLAIN
        lines.place = place
        place.hits += 1
        if place.clears:
            lines.clears(place)
        return True

    def _line_ran(self, lines: ThreadLines, activation: Activation, frame: Optional[FrameType]) -> None:
        watch, activation.watch = activation.watch, None
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
        current = sys.gettrace()
        if current is None and self.paused is None:
            # Python itself ends the tracing of a thread whose recursion goes too deep for the trace function.
            lines = self.threads.get(threading.get_ident())
            if lines is not None and lines.stack:
                self.paused = lines
                self.overslept()
                current = trace
        if current is not trace:
            return False
        sys.settrace(None)
        return True

    def go_on(self) -> None:
        """End a pause."""
        if self.trace is not None and sys.gettrace() is None:
            sys.settrace(self.trace)

    def overslept(self) -> None:
        """End a pause whose end was missed, since an exception took another way: what ran is unknown."""
        lines = self.paused
        if lines is None or lines is not self.lines():
            return
        place, self.paused, lines.place = lines.place, None, None
        self.catch_up(lines)
        alive: Dict[int, FrameType] = {}
        frame: Optional[FrameType] = sys._getframe(1)
        while frame is not None:
            alive[id(frame)] = frame
            frame = frame.f_back
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
            activation.plain, activation.turning = _NONE_PLAIN, None
        self.go_on()

    def _woken(self, lines: ThreadLines, activation: Activation, slept: int, now: int) -> None:
        """Note a call that went on unseen from line `slept` to line `now`: further up is the next iteration."""
        while activation.loops and not activation.loops[-1].text.body <= now <= activation.loops[-1].text.last:
            self._leave(lines, activation)
        for loop in activation.loops[-1:]:
            if now <= slept and not loop.waiting:
                loop.index += 1
                loop.began = lines.seen

    # Rests

    def counts(self, code: CodeType, first: int, last: int) -> bool:
        """Return whether some of these lines are to be counted: none of them may run without events."""
        return any(name == code.co_filename and first <= line <= last for name, line in self.watched)

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
        alive: Dict[int, FrameType] = {}
        step: Optional[FrameType] = frame
        while step is not None:
            alive[id(step)] = step
            step = step.f_back
        for activation in reversed(lines.stack[:]):
            running = alive.get(activation.key)
            if running is None or running.f_code is not activation.code:
                if activation.code.co_flags & _GENERATOR_FLAGS:
                    lines.suspended[activation.key] = activation
                else:
                    while activation.loops:
                        self._leave(lines, activation)
                lines.stack.remove(activation)
        alive.clear()
        step = None
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
            for place in self.places_at.get((function.code.co_filename, number), ()):
                if place.context.function is function:
                    place.loops, place.header = function.loops_at(number)
                    for plain in place.context.plain.values():
                        plain.pop(number, None)
        for lines in list(self.threads.values()):
            for call in lines.stack:
                if call.context.function is function:
                    call.settled, call.turning, call.plain = None, None, _NONE_PLAIN
        return text, False

    def begin_hidden(self, lines: ThreadLines, owner: Activation, text: LoopText, line: int, began: int) -> RunningLoop:
        """Have a loop run that was seen to be one at the end of its second iteration, which began at `began`."""
        place = owner.context.places.get(line) or self.new_place(owner.context, line)
        loop = self._start(lines, owner, text, place)
        loop.waiting = False
        loop.index, loop.began = 2, began
        lines.mark_loops()
        return loop

    def start(self, frames: Sequence[FrameType] = ()) -> None:
        """Begin to observe; `frames` are user frames that run already, outermost first."""
        if hasattr(sys, "monitoring"):
            self._stop = _monitor(self, frames)
        else:
            self._stop = _settrace(self, frames)

    def stop(self) -> None:
        stop, self._stop = self._stop, lambda: None
        stop()
        if self.rests is not None:
            self.rests.end()


def _settrace(tracer: Tracer, frames: Sequence[FrameType]) -> Callable[[], None]:
    yields = _yield_opcodes()
    foreign = tracer.foreign

    def entered(frame: FrameType, event: str, arg: Any) -> Any:
        # Called for every function there is: what is a library's must be told as fast as can be.
        if frame.f_code.co_filename in foreign:
            return None
        try:
            function = tracer.function(frame.f_code)
            if function is None:
                return None
            if function.calm >= _CALM_CALLS and tracer.rests is not None:
                rest = tracer.rests.call(frame, function)
                if rest is not None:
                    return rest
            activation = tracer.enter(function, frame)
            return follow(tracer.lines(), activation)
        except RecursionError:
            return None
        except Exception:
            tracer.failed()
            return None

    def follow(lines: ThreadLines, activation: Activation) -> Any:
        """Return what a frame is traced by."""
        context, rests = activation.context, tracer.rests
        generator = bool(activation.code.co_flags & _GENERATOR_FLAGS)
        places = context.places
        raising = False

        # Answering None leaves this function in place; answering itself would make a reference cycle of every call.
        def local(frame: FrameType, event: str, arg: Any) -> None:
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
                    loop = activation.turning
                    if loop is not None and tracer.turned(lines, activation, loop, number):
                        if loop.waiting and rests is not None:
                            rests.round(lines, activation, loop, frame)
                        return
                    place = places.get(number)
                    if place is None:
                        place = tracer.new_place(context, number)
                    lines.place = place
                    place.hits += 1
                    tracer.turn(lines, activation, place, frame)
                    if rests is not None and activation.loops:
                        loop = activation.loops[-1]
                        if loop.waiting:
                            rests.round(lines, activation, loop, frame)
                        elif loop.index == 1 and number == loop.text.body:
                            rests.again(lines, activation, loop, frame)
                elif event == "return":
                    suspended = generator and not raising and frame.f_code.co_code[frame.f_lasti] in yields
                    tracer.leave(lines, activation, frame, suspended)
                elif event == "exception":
                    raising = True
                    tracer.listener.raised(lines, arg[1], arg[2])
            except Exception:
                tracer.failed()

        return local

    if sys.gettrace() is not None:
        raise RuntimeError("a debugger or a coverage tool already traces this process")
    running = list(frames)
    for frame in running:
        frame.f_trace = entered(frame, "call", None)

    def follow_again(activation: Activation, frame: FrameType) -> None:
        frame.f_trace = follow(tracer.lines(), activation)

    tracer.trace, tracer.follow = entered, follow_again
    sys.settrace(entered)
    threading.settrace(entered)

    def stop() -> None:
        tracer.trace = None
        if sys.gettrace() is entered:
            sys.settrace(None)
        threading.settrace(None)
        for frame in running:
            frame.f_trace = None
        running.clear()

    return stop


def _yield_opcodes() -> Tuple[int, ...]:
    import opcode

    names = ("YIELD_VALUE", "YIELD_FROM", "SEND")
    return tuple(opcode.opmap[name] for name in names if name in opcode.opmap)


def _monitor(tracer: Tracer, frames: Sequence[FrameType]) -> Callable[[], None]:
    monitoring: Any = vars(sys)["monitoring"]
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

    def current(code: CodeType, depth: int) -> Tuple[Optional[ThreadLines], Any, Any]:
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

    def found(code: CodeType, offset: int) -> Any:
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
                rests is not None and rest is None and function.calm >= _CALM_CALLS
                and not code.co_flags & _GENERATOR_FLAGS and rests.call(frame, function) is not None
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
                loop = activation.turning
                if loop is not None and tracer.turned(lines, activation, loop, number):  # type: ignore[arg-type]
                    if loop.waiting and rests is not None:
                        rests.round(lines, activation, loop, frame_at(1))
                    return
            frame = frame_at(1)
            if activation is None or activation.code is not code or activation.key != id(frame):
                lines, activation, frame = current(code, 2)
                if activation is None:
                    return
            now = tracer.sequence()
            if now != lines.seen:  # type: ignore[union-attr]
                lines.advance(now)  # type: ignore[union-attr]
            place = activation.context.places.get(number)
            if place is None:
                place = tracer.new_place(activation.context, number)
            lines.place = place  # type: ignore[union-attr]
            place.hits += 1
            tracer.turn(lines, activation, place, frame)  # type: ignore[arg-type]
            if rests is not None and activation.loops:
                loop = activation.loops[-1]
                if loop.waiting:
                    rests.round(lines, activation, loop, frame)
                elif loop.index == 1 and number == loop.text.body:
                    rests.again(lines, activation, loop, frame)
        except Exception:
            tracer.failed()

    def returned(suspended: bool) -> Callable[[CodeType, int, Any], Any]:
        def callback(code: CodeType, offset: int, value: Any) -> Any:
            try:
                if id(code) not in observed:
                    return None
                rest = tracer.rests.rest if tracer.rests is not None else None
                if rest is not None and rest.lines.thread == this_thread():
                    if rest.frame == id(frame_at(1)):
                        tracer.rests.over(rest)
                    return None
                lines, activation, frame = current(code, 2)
                if activation is not None and lines is not None:
                    tracer.leave(lines, activation, frame, suspended)
            except Exception:
                tracer.failed()
            return None

        return callback

    def raised(code: CodeType, offset: int, error: BaseException) -> Any:
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
        return None

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
