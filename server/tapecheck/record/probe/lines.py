"""What is known of the user's lines: places, running loops and calls, and each thread's sequence numbers."""

from __future__ import annotations

import bisect
import weakref
from array import array
from types import CodeType, FrameType, TracebackType
from typing import TYPE_CHECKING, Callable, Dict, List, Optional, Protocol, Tuple, Union

from .parts import Entries, Part
from .sources import LoopText, SourceText
from .values import TensorRef

if TYPE_CHECKING:
    from _typeshed import TraceFunction

MAX_STACK = 16
MAX_RANGES = 1 << 18


class Place:
    """A line of user code, reached through one chain of calls."""

    __slots__ = (
        "clears", "context", "header", "hits", "in_line", "line", "loops", "observed", "passes", "special", "watched",
        "written",
    )  # fmt: skip

    def __init__(self, context: Context, line: int) -> None:
        self.context = context
        self.line = line
        self.hits = 0
        self.loops, self.header = context.function.loops_at(line)
        self.written: Tuple[Tuple[str, ...], ...] = context.function.text.inplace.get(line, ())
        self.watched = False
        # Whether the module calls of this line are looked at by themselves: no loop is, but a forward pass.
        self.passes = False
        self.clears = line in context.function.text.clears
        self.in_line = line in context.function.text.in_line
        self.observed = bool(self.written)
        self.special = self.observed or self.header is not None

    def watch(self, passes: bool) -> None:
        self.watched = self.observed = self.special = True
        self.passes = passes

    @property
    def filename(self) -> str:
        return self.context.function.text.filename

    def stack(self) -> List[Place]:
        """Return the places of the calls that led here, innermost first."""
        found: List[Place] = []
        caller = self.context.caller
        while caller is not None and len(found) < MAX_STACK:
            found.append(caller)
            caller = caller.context.caller
        return found


class Function:
    """What is known of one code object."""

    __slots__ = ("_around", "_at", "calm", "calm_loops", "code", "entries", "loops", "text")

    def __init__(self, code: CodeType, text: SourceText, entries: Optional[Entries] = None) -> None:
        self.code = code
        self.text = text
        # Where parts of its watched lines begin.
        self.entries = entries
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


NONE_PLAIN: Dict[int, Place] = {}

# A tensor that a line is about to change: its version and its name; the line with all of those.
BeforeLine = Tuple[TensorRef, int, str]
WatchedLine = Tuple[Place, List[BeforeLine]]
# A tensor that a line has changed in place, its version since and its name.
Changed = Tuple[Place, TensorRef, int, str]

# The running loops but for the innermost one, each with its iteration; the number of the innermost, 0 for none.
State = Tuple[Tuple[Tuple[int, int], ...], int]
# The iterations that run: a loop's number and its iteration, the outermost first.
Iterations = Tuple[Tuple[int, int], ...]
Where = Tuple[Optional[Place], Iterations]


def frames_from(frame: Optional[FrameType]) -> Dict[int, FrameType]:
    """Return a frame and those that called it, by their id; whoever has them keeps them alive."""
    found: Dict[int, FrameType] = {}
    while frame is not None:
        found[id(frame)] = frame
        frame = frame.f_back
    return found


def iterations(state: State, index: int) -> Iterations:
    """Return the iterations that run, outermost first; `index` is the innermost loop's."""
    around, inner = state
    return (*around, (inner, index)) if inner else around


class RunningLoop:
    """A loop that is running: `index` is the iteration that runs, 0 before the first.

    The listener is called at the end of iteration `look` and of all later ones, and sets it anew; `sample` is the
    listener's own. `declared` of the iterations since `settled` are on the tape. `header` is the line that ended the
    last iteration, `plain` are the lines that may begin the next one where that is all they do. `calm` iterations in a
    row built nothing and did nothing new since `seen`, `stirs` and `moves`. Before the iteration of a hidden loop
    `walked` backward calls ran. Of one that first trains in a later iteration `late` is that one.
    """

    __slots__ = (
        "began", "calm", "count", "declared", "entered", "entry", "fetch", "header", "hidden", "id", "index", "late",
        "look", "moves", "place", "plain", "sample", "seen", "settled", "stirs", "text", "waiting", "walked", "written",
        "written_index",
    )  # fmt: skip

    def __init__(self, number: int, text: LoopText, place: Place, began: int, entry: int) -> None:
        self.id = number
        self.text = text
        self.place = place
        self.index = self.look = self.sample = self.settled = self.declared = self.late = 0
        self.waiting = True
        # Whether no line event tells of its iterations.
        self.hidden = text.hidden
        self.header = place
        self.plain = NONE_PLAIN
        self.began = began
        self.entered = began
        self.written = False
        self.written_index = 0
        self.entry = entry
        self.calm = self.moves = 0
        self.seen = self.stirs = self.walked = -1
        # When its iterator was first asked for a value; then what tells that it has given one, None where nothing does.
        self.fetch: object = 0.0
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
        self.watch: Optional[WatchedLine] = None
        self.key = key
        # What had been built and done when it began.
        self.seen = seen
        self.stirs = stirs

    def sort_out(self, place: Optional[Place] = None) -> None:
        """Say anew which lines are plain; `place` is one that just ran."""
        settled = self.settled
        if settled is None or self.watch is not None:
            self.plain = NONE_PLAIN
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
        "after_backward", "before_clearing", "changed", "cleared", "engine", "loop_indexes", "loop_starts",
        "loop_states", "moves", "place", "places", "seen", "stack", "starts", "stirs", "suspended", "thread",
    )  # fmt: skip

    def __init__(self, seen: int, thread: int, engine: bool = False) -> None:
        self.seen = seen
        self.thread = thread
        # Whether the thread is autograd's own: it runs parts of a backward while the thread that called that waits.
        self.engine = engine
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
        self.changed: Dict[Tuple[Place, int], Tuple[TensorRef, str, int]] = {}

    def advance(self, now: int) -> None:
        """Give the numbers handed out since the last event to the current place."""
        places = self.places
        if not places or places[-1] is not self.place or self.starts[-1] > self.seen:
            # Other threads look for a number among the starts, and then here.
            places.append(self.place)
            self.starts.append(self.seen)
            if len(places) > MAX_RANGES:
                del self.starts[: MAX_RANGES // 2]
                del places[: MAX_RANGES // 2]
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
            self.loop_indexes.append(index)
            self.loop_states.append(shared)
            self.loop_starts.append(self.seen)
            if len(self.loop_states) > MAX_RANGES:
                self.forget_loops()

    def forget_loops(self) -> None:
        """Forget the older half of the iterations."""
        del self.loop_starts[: MAX_RANGES // 2]
        del self.loop_indexes[: MAX_RANGES // 2]
        del self.loop_states[: MAX_RANGES // 2]

    def running(self) -> List[RunningLoop]:
        return [loop for call in self.stack for loop in call.loops]

    def iteration(self) -> Iterations:
        """Return the iterations that run, outermost first."""
        return iterations(self.loop_states[-1], self.loop_indexes[-1])

    def where(self, number: int) -> Optional[Place]:
        """Return the place that was running when a sequence number was handed out."""
        index = bisect.bisect_right(self.starts, number) - 1
        if index < 0:
            return None
        return self.places[index] if number < self.seen else None

    def loops_when(self, number: int) -> Iterations:
        index = bisect.bisect_right(self.loop_starts, number) - 1
        if index < 0:
            return ()
        return iterations(self.loop_states[index], self.loop_indexes[index])


# What a frame that is followed is traced by.
FrameTrace = Callable[[FrameType, str, object], None]


class Counter(Protocol):
    """What counts the iterations of a loop that runs without events."""

    def count(self) -> int: ...


class Rest:
    """One stretch without events: of a loop, or of a call (`loop` is None).

    `anchor` is the running call that it began in, `trace` the trace function of that call's frame, by which the
    frame is known again. `frame` is the frame of the call that rests.
    """

    __slots__ = ("anchor", "calls", "changed", "counter", "frame", "function", "lines", "loop", "trace", "waits")

    def __init__(self, lines: ThreadLines, anchor: Activation, trace: Optional[TraceFunction]) -> None:
        self.lines = lines
        self.anchor = anchor
        self.trace = trace
        self.loop: Optional[RunningLoop] = None
        # The loop that waits for its next value.
        self.waits: Optional[RunningLoop] = None
        self.function: Optional[Function] = None
        # By its identity: it must not be kept.
        self.frame = 0
        self.counter: Optional[weakref.ref[Counter]] = None
        self.changed: List[Changed] = []
        # How often functions were called that go on having events, by their code's identity.
        self.calls: Dict[int, int] = {}


class Resting(Protocol):
    """What has threads go without events while they build nothing; `rest` is the one that does, if any."""

    rest: Optional[Rest]

    def call(self, frame: FrameType, function: Function) -> Union[FrameTrace, Rest, None]: ...

    def round(self, lines: ThreadLines, activation: Activation, loop: RunningLoop, frame: FrameType) -> None: ...

    def again(self, lines: ThreadLines, activation: Activation, loop: RunningLoop, frame: FrameType) -> None: ...

    def over(self, rest: Rest) -> None: ...

    def end(self) -> None: ...


class Listener:
    """What the tracer reports; the recorder implements it. `frame` is the user's frame, never kept."""

    def iteration_ends(self, lines: ThreadLines, loop: RunningLoop, frame: FrameType) -> None: ...

    def loop_ends(self, lines: ThreadLines, loop: RunningLoop) -> None: ...

    def line_runs(self, lines: ThreadLines, place: Place, frame: FrameType) -> Optional[WatchedLine]: ...

    def line_ran(self, lines: ThreadLines, watch: WatchedLine, frame: Optional[FrameType]) -> None: ...

    def raised(self, lines: ThreadLines, error: BaseException, traceback: Optional[TracebackType]) -> None: ...

    def line_after_raise(self) -> None: ...

    def changed_since(self, lines: ThreadLines, moves: int) -> List[Changed]:
        """Return the tensors that were changed in place since then, for `changed_meanwhile`."""
        return []

    def changed_meanwhile(self, lines: ThreadLines, changed: List[Changed]) -> None: ...

    def part_ran(self, part: Part) -> None: ...

    def file_begins(self, file: str) -> None:
        """Note that code of a user's file runs for the first time."""
