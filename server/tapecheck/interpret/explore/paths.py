"""Exploring a program: one run for each way through it that is worth seeing.

A run answers every condition it cannot decide by a policy. The first run takes the likelier answers; further runs
turn one undecided condition round at a time, until nothing new comes up or the budget is spent. Functions and
methods that no run has called are then started with unknown arguments.
"""

from __future__ import annotations

import ast
import gc
import re
import sys
import threading
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, Literal

from tapecheck.interpret import limits
from tapecheck.interpret.explore import entries
from tapecheck.interpret.explore.effects import Effect, index_of, speaks_of_autograd
from tapecheck.interpret.explore.memory import Group, Reach, Starts, kept
from tapecheck.interpret.explore.watch import Stake, Watched, Watcher, imports_of_project
from tapecheck.interpret.library import lightning
from tapecheck.interpret.machine import Machine
from tapecheck.interpret.python.imports import LIBRARIES, Imports
from tapecheck.interpret.values import Class, Env, Function, Instance, Module, Signal, Unknown, Value, Wrapped
from tapecheck.interpret.values.vocabulary import LOGGING_CALLS, TOUCHES
from tapecheck.interpret.world import Exhausted, Place, Policy, World
from tapecheck.source import Source
from tapecheck.source.modules import SOURCES, Project, Question
from tapecheck.source.nodes import walk
from tapecheck.source.notes import Notes
from tapecheck.source.search import Found
from tapecheck.tape import (
    LEFT_OVER,
    Backward,
    Bind,
    Cut,
    Decision,
    Hold,
    InPlace,
    Moves,
    Node,
    Raised,
    Span,
    Step,
    Tape,
    Where,
    moved,
)

_JUDGED = (Backward, Hold, InPlace, Raised, Step)
# Plain numbers: an operation on flags takes ten times as long.
_START, _REQUIRE, _CHANGE = int(Effect.START), int(Effect.REQUIRE), int(Effect.CHANGE)
_COLLECT, _STEP = int(Effect.COLLECT), int(Effect.STEP)
_SCRIPT = "__main__"
_WORD = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True, slots=True)
class CutShort:
    """Where the work limit ended an analysis before everything was looked at.

    `kind` is "way" where the program itself was not followed to its end (`line` is the last line that was), "paths"
    where conditions were not tried both ways, "start" where a function was not started, "calls" where calls lie too
    deep in other calls. `name` is the function that was started, empty for the module. `count` says how many
    conditions, or calls of the text, were left.
    """

    kind: Literal["way", "paths", "start", "calls"]
    name: str = ""
    file: str = ""
    line: int = 0
    count: int = 0


@dataclass(slots=True)
class Interpretation:
    """What the dry run found: one tape for each way through the program, and how the exploration ended.

    `imported` are the paths of the modules that were read, those that modules import themselves included.
    """

    tapes: list[Tape] = field(default_factory=list)
    runs: int = 0
    exhausted: bool = False
    entries: list[str] = field(default_factory=list)
    imported: frozenset[str] = frozenset()
    mistakes: set[tuple[str, Span]] = field(default_factory=set)
    """Exceptions of Python's own that some way went on past, and where."""
    gaps: set[tuple[str, Span]] = field(default_factory=set)
    """Those among them that no guess of an undecided condition explains."""
    cut_short: list[CutShort] = field(default_factory=list)
    """What the work limit left out."""
    imports: dict[Question, Found | None] = field(default_factory=dict)
    """The modules that were asked for, with what was found."""
    read: dict[str, str | None] = field(default_factory=dict)
    """The texts of the files that imports led to, None for one that could not be read."""
    groups: list[Group] = field(default_factory=list)
    """The tapes by the start that they belong to."""

    def add(self, part: Part) -> None:
        """Take over what another start showed."""
        other = part.found
        self.tapes += other.tapes
        self.runs += other.runs
        self.exhausted = self.exhausted or other.exhausted
        self.mistakes |= other.mistakes
        self.gaps |= other.gaps
        self.cut_short += other.cut_short
        self.groups.append(part.group)

    def moved(self, tapes: list[Tape], moves: Moves) -> Interpretation:
        """Return what a start showed as it would be where its lines stand now, with its tapes as they are there."""
        return Interpretation(
            tapes,
            self.runs,
            self.exhausted,
            mistakes={(kind, moves.span(span)) for kind, span in self.mistakes},
            gaps={(kind, moves.span(span)) for kind, span in self.gaps},
            cut_short=[replace(one, line=moves.line(one.file, one.line)) for one in self.cut_short],
        )


Lines = set[tuple[str, int]]
"""Lines of files, by path and number."""
Ask = Callable[[Sequence[Tape]], Lines]


@dataclass(slots=True)
class _Budget:
    """The work that is left for a start, in units."""

    left: int


@dataclass(frozen=True, slots=True)
class Condition:
    """An undecided condition that a way came to: its text, what hangs on the other answer, whether that is tried."""

    place: Place
    text: str
    answer: bool
    stake: Stake
    tried: bool


@dataclass(frozen=True, slots=True)
class Explored:
    """One way through the program, for whoever asks why something is or is not reported.

    `start` is the function that was begun, empty for the module; `turned` are the places of the conditions that this
    way answers otherwise. `tape` is what it wrote, `kept` whether the rules read it: not where an earlier way wrote
    the same. `beyond` says that the way passes over backward calls that fail.
    """

    start: str
    turned: tuple[Place, ...]
    conditions: tuple[Condition, ...]
    tape: Tape
    kept: bool
    work: int
    beyond: bool


@dataclass(slots=True)
class _Wanted:
    """What the whole exploration is for: asked of the tapes so far, and what the answer came to."""

    ask: Ask | None
    log: list[Explored] | None = None
    _tapes: Sequence[Tape] = ()
    _lines: Lines | None = field(default_factory=set)

    def look(self, tapes: Sequence[Tape]) -> None:
        """Ask about the tapes so far, once it matters: a finding that one has disproved wants no further way."""
        self._tapes, self._lines = tapes, None

    @property
    def lines(self) -> Lines:
        if self._lines is None:
            self._lines = self.ask(self._tapes) if self.ask is not None else set()
        return self._lines

    def turns(self, watched: Watched | None) -> bool:
        """Whether the other answer to a condition is to be tried."""
        if watched is None or watched.stake >= Stake.ONCE:
            return True
        if watched.stake is Stake.NOTHING:
            return False
        return self.ask is None or any(
            line in self.lines or (line[1] < 0 and any(file == line[0] for file, _ in self.lines))
            for line in watched.lines
        )


class _Room:
    """What the interpreter sets for the whole process while it works, in whichever threads.

    The first to enter sets it, the last to leave puts it back as it was.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._limit = 0
        self._thresholds = (0, 0, 0)

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._limit = sys.getrecursionlimit()
                self._thresholds = gc.get_threshold()
                sys.setrecursionlimit(max(self._limit, limits.PYTHON_DEPTH))
                gc.set_threshold(max(self._thresholds[0], limits.OBJECTS_BETWEEN_COLLECTIONS), *self._thresholds[1:])

    def __exit__(self, *raised: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                sys.setrecursionlimit(self._limit)
                gc.set_threshold(*self._thresholds)


ROOM = _Room()
"""For who works on after `interpret`, with its tapes."""


def interpret(
    source: Source,
    *,
    cancelled: Callable[[], bool] | None = None,
    open_files: Mapping[str, Source] | None = None,
    ask: Ask | None = None,
    asked: Hashable = None,
    memory: Starts[Part] | None = None,
    log: list[Explored] | None = None,
) -> Interpretation:
    """Dry-run a file.

    Args:
        source: the parsed file; its parts that did not parse are left out.
        cancelled: asked now and then; True stops the work.
        open_files: sources by absolute path that stand for the files of that path when they are imported: what an
            editor shows and has not saved.
        ask: the lines (file and number) that verdicts over some tapes rest on. Conditions that can only change how
            certain a verdict is are explored where one rests on them; without `ask`, wherever one could.
        asked: what `ask` goes by, such as the rules it asks; results are remembered by it.
        log: takes an entry for each way that is run.
        memory: what earlier analyses found; starts that can reach nothing that has changed are taken from it.

    Returns:
        The tapes, in the order in which they were made; none for a file that cannot touch autograd.

    Raises:
        Cancelled: `cancelled` answered True.
    """
    result = Interpretation()
    files = Project(source.path, SOURCES, open_files=open_files or {})
    if not _leads_to_autograd(source, files):
        _note_files(result, files)
        return result
    with ROOM:
        left = limits.TOTAL_BUDGET
        collecting = limits.COLLECTING_BUDGET
        called: set[str] = set()
        project = Imports(files)
        reach = Reach(source, index_of(source)) if memory is not None else None
        for entry in (None, *_entries(source)):
            if entry is not None:
                if entry.name in called:
                    continue
                if left <= 0 or (entry.collects and collecting <= 0):
                    result.exhausted = True
                    result.cut_short.append(CutShort("start", entry.name, source.path, entry.node.lineno))
                    continue
                result.entries.append(entry.name)
            key: Hashable = None
            where: Where = ()
            part: Part | None = None
            name = entry.name if entry is not None else None
            if memory is not None and reach is not None:
                key, where = reach.key(None if entry is None else entry.owner or entry.node.name)
                part = memory.find(source.path, name, asked, key, where, project.project)
            most = min(left, collecting) if entry is not None and entry.collects else left
            if part is not None and part.work > most:
                # Without a memory the other starts would have left too little for it.
                part = None
            if part is None:
                part = _part(source, project, entry, most, cancelled, _Wanted(ask, log))
                before = memory.last(source.path, name, asked) if memory is not None else None
                if before is not None:
                    # What was made of a tape stays right for its like: of two the older is kept.
                    part.found.tapes = _as_before(part.found.tapes, before.found.tapes)
                part.group = Group(part.found.tapes, where)
                # What the work limit has cut short hangs on what other starts had left.
                whole = not part.found.exhausted and all(one.kind == "calls" for one in part.found.cut_short)
                if memory is not None and whole:
                    events = sum(len(way.events) for tape in part.found.tapes for way in (tape, *tape.beyond))
                    memory.keep(source.path, name, asked, kept(key, where, part, events, source, project.project))
            left -= part.work
            if entry is not None and entry.collects:
                collecting -= part.work
            called |= part.called
            result.add(part)
        result.imported = project.imported
        _note_files(result, files)
    return result


def _note_files(result: Interpretation, project: Project) -> None:
    """Note what a result hangs on besides its own file."""
    result.imports = dict(project.basis.asked)
    result.read = {path: one.text if one is not None else None for path, one in project.read.items()}


def _as_before(tapes: list[Tape], before: list[Tape]) -> list[Tape]:
    """Return tapes with those of an earlier exploration in the place of the ones that say the same."""
    known = [*before]
    found = []
    for tape in tapes:
        same = next((number for number, old in enumerate(known) if _alike(tape, old)), None)
        found.append(tape if same is None else known.pop(same))
    return found


def _alike(one: Tape, other: Tape) -> bool:
    return (
        len(one.events) == len(other.events)
        and (one.started, one.untried) == (other.started, other.untried)
        and one.events == other.events
        and len(one.beyond) == len(other.beyond)
        and all(map(_alike, one.beyond, other.beyond))
    )


@dataclass(slots=True)
class Part:
    """What exploring from one start came to: its tapes, the functions it called, the work it took."""

    found: Interpretation
    called: frozenset[str]
    work: int
    group: Group = field(default_factory=Group)

    def moved(self, before: Where, after: Where) -> Part:
        """Return what it would have come to where its lines stand now."""
        tapes = moved(self.found.tapes, before, after)
        found = self.found.moved(tapes, Moves([(before, after)]))
        return Part(found, self.called, self.work, self.group.moved(tapes, after))


def _part(
    source: Source,
    project: Imports,
    entry: _Entry | None,
    left: int,
    cancelled: Callable[[], bool] | None,
    wanted: _Wanted,
) -> Part:
    """Explore from one start with the work that is left for the file, and where a failing backward cuts a way off that
    retained a graph, explore what lies beyond.
    """
    budget = _Budget(left)
    ways = _Exploration(source, project, entry, budget, cancelled, wanted)
    ways.explore()
    cut_off = [tape for tape in ways.found.tapes if _cut_off(tape)]
    if cut_off and budget.left > 0:
        beyond = _Exploration(source, project, entry, budget, cancelled, wanted, passes_failures=True)
        beyond.explore()
        for tape in cut_off:
            tape.beyond = beyond.found.tapes
    # What is called beyond alone still wants a start of its own.
    names = frozenset(body.name for body in index_of(source).bodies if id(body.node) in ways.called)
    return Part(ways.found, names, left - budget.left)


@dataclass(frozen=True, slots=True)
class _Entry:
    """A function or method to start with unknown arguments.

    `backward` says that it can begin one, `collects` that it only collects, `idle` that it does nothing either that
    evaluation loops do.
    """

    name: str
    node: ast.FunctionDef | ast.AsyncFunctionDef
    owner: str | None
    collects: bool = False
    idle: bool = False
    backward: bool = True


def _entries(source: Source) -> list[_Entry]:
    """Functions and methods that could be called from outside: those that reach a backward first, callers first."""
    index = index_of(source)
    relevant = []
    for body in index.bodies:
        owner = body.owner.name if body.owner is not None else None
        node = body.node
        if owner is not None and node.name == "__init__":
            continue
        if node.name == "training_step":
            relevant.append(_Entry(body.name, node, owner))
            continue
        effects = index.closed_effects(body)
        # Where no backward begins, what requires grad only goes wrong by being changed in place.
        if effects & _START or (effects & _REQUIRE and effects & _CHANGE):
            relevant.append(_Entry(body.name, node, owner, backward=bool(effects & _START)))
            continue
        own = int(body.facts.effects)
        # The loops of a forward pass are somebody else's iterations.
        if own & _COLLECT and (owner is None or own & _STEP or not index.is_module(owner)):
            relevant.append(_Entry(body.name, node, owner, collects=True, idle=not own & _STEP, backward=False))
    order = {"fit": 0, "train": 0, "main": -1, "run": 0}
    relevant.sort(key=lambda entry: (entry.collects, entry.idle, order.get(entry.node.name.split("_")[0], 1)))
    return relevant


def _cut_off(tape: Tape) -> bool:
    """Whether a way ends in a backward that finds its graph freed or changed, and retained a graph before."""
    last = next((event for event in reversed(tape.events) if isinstance(event, Raised)), None)
    if last is None or last.backward is None or last.caught or tape.ledger is None:
        return False
    problem = tape.ledger.traversals[last.backward].problem
    if problem is None or problem.kind not in ("freed", "stale"):
        return False
    calls = [event for event in tape.events if isinstance(event, Backward)]
    return any(call.retain_argument in ("yes", "may") and call.create == "no" for call in calls)


@dataclass(frozen=True, slots=True)
class _Run:
    """A way that was run: where it left the interpreter, and the work it took.

    `before` are the conditions that were asked before the entry was called.
    """

    way: _Way
    machine: Machine
    world: World
    watcher: Watcher
    before: frozenset[Place]
    work: int

    @property
    def cut_short(self) -> bool:
        """Whether the work limit ended it."""
        return self.world.work < 0


@dataclass(slots=True)
class _Exploration:
    """The ways from one start: those still to be tried, and what those that were run have shown.

    `passes_failures` says that its ways pass over backward calls that fail.
    """

    source: Source
    project: Imports
    entry: _Entry | None
    budget: _Budget
    cancelled: Callable[[], bool] | None
    wanted: _Wanted
    passes_failures: bool = False

    found: Interpretation = field(default_factory=Interpretation)
    called: set[int] = field(default_factory=set)
    """The functions that some way called, by the `id` of their definition."""
    further: int = 0
    """Work that is left for ways that answer a condition otherwise."""

    queue: deque[_Way] = field(default_factory=deque)
    tried: set[Hashable] = field(default_factory=set)
    """The policies of ways that were run or are in the queue."""
    resting: dict[Hashable, Watched] = field(default_factory=dict)
    """Of ways in the queue, by policy: why one is run that can only change how certain a finding is."""
    deferred: list[tuple[_Way, Watched]] = field(default_factory=list)
    """Ways that no verdict hangs on so far, each with what one could hang on."""

    first: Tape | None = None
    """The tape of the first way, until another is to be told from it."""
    signatures: set[tuple[int, ...]] = field(default_factory=set)
    """What the rules can see of the tapes so far."""
    shapes: set[tuple[int, ...]] = field(default_factory=set)
    """The graphs of the tapes so far."""
    met: set[Place] = field(default_factory=set)
    """The conditions that some way came to."""
    dull: set[Place] = field(default_factory=set)
    """Those whose other answer made no other graph."""
    done: set[Place] = field(default_factory=set)
    """Those that a way answered otherwise and came to its end."""
    begun: set[Place] = field(default_factory=set)
    """Those that a way answered otherwise which the work limit ended: before what the answer leads to, maybe."""

    @property
    def name(self) -> str:
        return self.entry.name if self.entry is not None else ""

    def explore(self) -> None:
        """Run the likelier way, then those that answer otherwise, until nothing new comes up or the work is spent."""
        self.further = limits.FURTHER_WORK if self.entry is None or self.entry.backward else 0
        self._queue(_Way(Policy()))
        while self._goes_on():
            way = self.queue.popleft()
            if not self._shows_nothing(way):
                self._try(way)
                # What turns one condition comes first, and of that what turns it for good.
                self.queue = deque(sorted(self.queue, key=attrgetter("rank")))
        self._note_untried()

    def _goes_on(self) -> bool:
        """Whether there is a way to try, and work left for it."""
        if not self.queue and self.found.runs:
            self._take_up_deferred()
        return bool(self.queue) and self.budget.left > 0 and (self.further > 0 or self.queue[0].turned is None)

    def _shows_nothing(self, way: _Way) -> bool:
        """Whether a way has nothing to show since others were run; what may have something again is put off."""
        if way.turned in self.dull and len(way.policy.patterns) > 1:
            return True
        why = self.resting.pop(way.policy.key(), None)
        if why is None or self.wanted.turns(why):
            return False
        # What it was to tell is known by now: another way does not show the finding.
        self.tried.discard(way.policy.key())
        self.deferred.append((way, why))
        return True

    def _try(self, way: _Way) -> None:
        """Run a way, keep its tape where that says something new, and queue the ways that follow from it."""
        run = self._run_way(way)
        world, watcher = run.world, run.watcher
        self._note(run)
        watcher.settle(world)
        names = _names_that_matter(run.machine) if world.asked else set()
        following = _following(way, world, watcher, self.dull, names)
        fresh, other_graph = self._says_new(way, world.tape)
        kept = fresh and self._keep(world)
        for one in self._worth_trying(following, run, other_graph):
            self._queue_or_defer(one, run)
        if self.wanted.log is not None:
            self.wanted.log.append(self._explored(run, kept))

    def _run_way(self, way: _Way) -> _Run:
        """Run one way with the work that it may take, and charge it."""
        first = way.turned is None
        most = limits.RUN_BUDGET if first else min(limits.RUN_BUDGET, max(self.further, limits.TURNED_BUDGET))
        world = World(way.policy, min(most, self.budget.left), self.cancelled)
        world.tape.started = self.name
        world.passes_failures = self.passes_failures
        watcher = world.watcher = Watcher(self.project.project)
        started = world.work
        # What others have left of the budget may be too little for a way, which then shows no more than one not begun.
        short = "" if started == most else LEFT_OVER
        machine, before = _run(self.source, self.project, self.entry, world, short)
        work = started - world.work + limits.RUN_WORK
        self.budget.left -= work
        if first:
            self.further = max(self.further, limits.FURTHER_TIMES * work)
        else:
            self.further -= work
        return _Run(way, machine, world, watcher, before, work)

    def _note(self, run: _Run) -> None:
        """Note what a run called, met and could not do, whatever its tape says."""
        found, world = self.found, run.world
        found.runs += 1
        found.mistakes |= world.mistakes
        found.gaps |= world.gaps
        found.exhausted = found.exhausted or run.cut_short
        self.called |= run.machine.called
        if run.way.turned is not None:
            (self.begun if run.cut_short else self.done).add(run.way.turned)
        elif not self.passes_failures:
            if run.cut_short:
                found.cut_short.append(CutShort("way", self.name, *_last_place(world.tape)))
            if world.not_followed:
                deep = next(iter(world.not_followed))
                found.cut_short.append(CutShort("calls", self.name, deep.file, deep.line, len(world.not_followed)))

    def _says_new(self, way: _Way, tape: Tape) -> tuple[bool, bool]:
        """Return whether the rules can tell a tape from those before, and whether its graphs are others."""
        if way.turned is None:
            # Most first ways have no other to be told from.
            self.first = tape
            return True, True
        if self.first is not None:
            signature, shape = _signatures(self.first)
            self.signatures.add(signature)
            self.shapes.add(shape)
            self.first = None
        signature, shape = _signatures(tape)
        fresh, other_graph = signature not in self.signatures, shape not in self.shapes
        self.signatures.add(signature)
        self.shapes.add(shape)
        return fresh, other_graph

    def _keep(self, world: World) -> bool:
        """Keep a tape that says something new; return whether the rules read it."""
        tape = world.tape
        if self.entry is not None and not any(isinstance(event, (Backward, Hold, InPlace)) for event in tape.events):
            return False
        tape.ledger = world.ledger
        self.found.tapes.append(tape)
        self.wanted.look(self.found.tapes)
        return True

    def _take_up_deferred(self) -> None:
        """Queue what was put off and may matter now."""
        ready = [(one, why) for one, why in self.deferred if self.wanted.turns(why)]
        self.deferred = [(one, why) for one, why in self.deferred if not self.wanted.turns(why)]
        for one, why in ready:
            if self._queue(one):
                self.resting[one.policy.key()] = why

    def _worth_trying(self, following: list[_Way], run: _Run, other_graph: bool) -> list[_Way]:
        """Return those of the ways after a run that may show something."""
        way, world = run.way, run.world
        if not world.tape_has_nodes and not any(isinstance(event, _JUDGED) for event in world.tape.events):
            # No graph and nothing that a rule reads: another way must do what makes one.
            following = [one for one in following if run.watcher.does(one.turned, Effect.BEGIN)]
        fresh = world.asked.keys() - self.met
        self.met |= fresh
        # The module has a start of its own, which tries what its conditions lead to.
        following = [one for one in following if one.turned not in run.before]
        if not other_graph and way.turned is not None and len(way.policy.patterns) == 1:
            self.dull.add(way.turned)
        if not other_graph or way.once:
            # No graph hangs on the condition that was turned round: go no further from here, except for what only
            # this way comes to (the second half of an `or`, an `elif`).
            following = [one for one in following if one.turned in fresh]
        return following

    def _queue_or_defer(self, one: _Way, run: _Run) -> None:
        """Queue a way after a run, or put it off where no verdict hangs on it so far."""
        assert one.turned is not None
        watched = run.watcher.watched.get(one.turned)
        only_certainty = watched is not None and watched.stake is Stake.CERTAINTY
        if one.turned in run.way.policy.patterns or self.wanted.turns(watched):
            if self._queue(one) and watched is not None and only_certainty:
                self.resting[one.policy.key()] = watched
        elif watched is not None and only_certainty:
            self.deferred.append((one, watched))

    def _queue(self, way: _Way) -> bool:
        """Queue a way; return whether it is one that has not been tried."""
        key = way.policy.key()
        if key in self.tried:
            return False
        self.tried.add(key)
        self.queue.append(way)
        return True

    def _explored(self, run: _Run, kept: bool) -> Explored:
        """Return what the log says of a run."""
        turns = {one.turned for one in self.queue} | self.done | self.begun
        conditions = tuple(_conditions(run.world, run.watcher, turns))
        turned = tuple(run.way.policy.patterns)
        return Explored(self.name, turned, conditions, run.world.tape, kept, run.work, self.passes_failures)

    def _note_untried(self) -> None:
        """Note the conditions whose other answer no way came to the end of."""
        queued = {way.turned for way in self.queue if way.turned is not None and way.turned not in self.dull}
        left = (self.begun | queued) - self.done
        put_off = {way.turned for way, _ in self.deferred if way.turned is not None}
        untried = frozenset(left | put_off - self.done)
        if untried:
            for tape in self.found.tapes:
                tape.untried = untried
        if left and not self.passes_failures:
            line = min(line for _, line, _ in left)
            self.found.cut_short.append(CutShort("paths", self.name, self.source.path, line, len(left)))


def _conditions(world: World, watcher: Watcher, tried: Collection[Place | None]) -> Iterator[Condition]:
    """Yield the undecided conditions that a way came to, each with its first answer, in order."""
    seen: set[Place] = set()
    for event in world.tape.events:
        if isinstance(event, Decision):
            span = event.at.span
            place = (span.file, span.line, span.column)
            if place not in seen:
                seen.add(place)
                watched = watcher.watched.get(place)
                stake = watched.stake if watched is not None else Stake.VERDICT
                yield Condition(place, event.text, event.taken, stake, place in tried)


def _last_place(tape: Tape) -> tuple[str, int]:
    """Return the file and line of the last event that has a place."""
    for event in reversed(tape.events):
        at = getattr(event, "at", None)
        if at is not None:
            return at.span.file, at.span.line
    return "", 0


@dataclass(frozen=True, slots=True)
class _Way:
    """A way to try. `turned` is the condition that it answers otherwise than the way it came from.

    `default` is the likelier answer to that condition, `repeated` says whether it is asked more than once, `once`
    whether nothing hangs on how it is answered together with others.
    """

    policy: Policy
    turned: Place | None = None
    default: bool = True
    repeated: bool = False
    once: bool = False

    @property
    def rank(self) -> tuple[int, int]:
        return len(self.policy.patterns), max(map(len, self.policy.patterns.values()), default=0)


def _following(way: _Way, world: World, watcher: Watcher, dull: set[Place], names: set[str]) -> list[_Way]:
    """Return the ways to try after one that showed something new."""
    patterns = way.policy.patterns
    found: list[_Way] = []
    if way.turned is not None and way.repeated and not way.once and len(patterns[way.turned]) == 1:
        for pattern in ((way.default, not way.default), (not way.default, way.default)):
            found.append(_Way(Policy({**patterns, way.turned: pattern}), way.turned, way.default))
    heads = _heads(world)
    turned = {heads.get(place, place) for place in patterns}
    if len(turned) <= limits.MAX_TURNED:
        for place, asked in world.asked.items():
            if place in patterns or place in dull or not _relevant(asked.statement, names, watcher.notes_of(place[0])):
                continue
            chosen = heads.get(place, place) in turned
            if len(turned) == limits.MAX_TURNED and not chosen:
                continue
            once = watcher.stake(place) in (Stake.ONCE, Stake.CERTAINTY)
            if patterns and once and not chosen:
                continue
            policy = Policy({**patterns, place: (not asked.default,)})
            found.append(_Way(policy, place, asked.default, asked.times > 1, once))
    return found


def _leads_to_autograd(source: Source, project: Project) -> bool:
    """Return whether a file, or what a script imports of its project, has any of the names that lead to graphs."""
    if speaks_of_autograd(source):
        return True
    if _SCRIPT not in source.text:
        return False
    for statement in source.tree.body:
        names: list[tuple[str, int]] = []
        if isinstance(statement, ast.ImportFrom):
            names = [(statement.module or "", statement.level)]
        elif isinstance(statement, ast.Import):
            names = [(alias.name, 0) for alias in statement.names]
        for name, level in names:
            path = None if not level and name.partition(".")[0] in LIBRARIES else project.find(name, level, source.path)
            imported = project.source(path) if path is not None else None
            if imported is not None and speaks_of_autograd(imported):
                return True
    return False


def _heads(world: World) -> dict[Place, Place]:
    """Return, for conditions of which one at most can hold, the first of them: those of an `if` and its `elif`s, and
    those that compare the same expression with one constant each.
    """
    places = {id(asked.statement): place for place, asked in world.asked.items() if isinstance(asked.statement, ast.If)}
    heads: dict[Place, Place] = {}
    compared: dict[tuple[str, str], Place] = {}
    for place, asked in world.asked.items():
        statement = asked.statement
        if not isinstance(statement, ast.If):
            continue
        test = statement.test
        if (
            isinstance(test, ast.Compare)
            and isinstance(test.ops[0], ast.Eq)
            and isinstance(test.left, (ast.Attribute, ast.Name))
        ):
            if len(test.comparators) == 1 and isinstance(test.comparators[0], ast.Constant):
                first = compared.setdefault((place[0], ast.dump(test.left)), heads.get(place, place))
                heads.setdefault(place, first)
        while len(statement.orelse) == 1 and isinstance(statement.orelse[0], ast.If):
            statement = statement.orelse[0]
            if id(statement) in places:
                heads.setdefault(places[id(statement)], heads.get(place, place))
    return heads


def _names_that_matter(machine: Machine) -> set[str]:
    """Names of tensors, of what holds them as an attribute or element, of functions that were run, and of the user's
    that other answers may run.
    """
    bound = {event.name for event in machine.world.tape.events if isinstance(event, Bind)}
    names = {part for name in bound for part in _WORD.findall(name)} - {"self"}
    for module in machine.modules.values():
        if module.source is not None:
            names |= index_of(module.source).callables()
    return names | machine.called_names | TOUCHES


def _relevant(statement: ast.AST | None, names: set[str], notes: Notes) -> bool:
    """Whether a graph can hang on what a condition decides about."""
    if not isinstance(statement, ast.If):
        return True
    used, leaves = notes.of(statement, _used)
    return leaves or bool(used & names)


def _used(statement: ast.If) -> tuple[set[str], bool]:
    """Return the names and attributes that a condition decides about, and whether it leaves a loop or function."""
    used: set[str] = set()
    leaves = False
    for part in (*statement.body, *statement.orelse):
        if isinstance(part, ast.Raise):
            # An exception can carry a tensor to whoever catches it.
            given = part.exc.args if isinstance(part.exc, ast.Call) else ()
            used.update(arg.id for arg in given if isinstance(arg, ast.Name))
            continue
        if isinstance(part, ast.Expr) and _only_says(part.value):
            # What it says may be worked out by a function of the user's.
            used.update(_called_in(part.value))
            continue
        # What another file of the project has is not known before it is imported.
        leaves = leaves or any(imports_of_project(part))
        for child in walk(part):
            if isinstance(child, (ast.Return, ast.Break, ast.Continue)):
                leaves = True
            elif isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
                used.add(child.id)
            elif isinstance(child, ast.Attribute):
                used.add(child.attr)
            elif isinstance(child, ast.Call) and isinstance(child.func, ast.Name):
                used.add(child.func.id)
    return used, leaves


def _called_in(node: ast.expr) -> Iterator[str]:
    """Give the names of the functions that are called for the arguments of a call."""
    for child in walk(node):
        if isinstance(child, ast.Call) and child is not node:
            if isinstance(child.func, ast.Name):
                yield child.func.id
            elif isinstance(child.func, ast.Attribute):
                yield child.func.attr


def _only_says(node: ast.expr) -> bool:
    """Whether an expression statement only prints or logs."""
    if not isinstance(node, ast.Call):
        return True
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return name in LOGGING_CALLS


_TOLD_BY: dict[type, Callable[[Any], Any]] = {
    Bind: attrgetter("name", "node", "cuts", "item"),
    Cut: attrgetter("id", "how", "nodes", "leaves", "name", "sources", "off_at", "within"),
    InPlace: attrgetter("storage", "how", "name", "leaf", "grad_mode", "bumps", "optimizer", "on_view", "lost"),
    Hold: attrgetter("loop", "index", "holder", "nodes", "bound", "inside"),
}
"""What tells events of the commonest kinds apart besides their place."""


def _signatures(tape: Tape) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return what of a tape the rules can see, and what of it other conditions can matter to.

    The first is everything but the decisions, the second the graphs without the values taken out of them.
    """
    signature: list[int] = []
    shape: list[int] = []
    sites: dict[int, int] = {}
    for event in tape.events:
        kind = type(event)
        if isinstance(event, Node):
            # By far the most events; those of one line in one iteration share their place.
            at = sites.get(id(event.at))
            if at is None:
                at = sites[id(event.at)] = hash(event.at)
            own = event.id, event.op, at, event.inputs, event.saved, event.keeps, event.linked, event.cuts
            signature.append(hash(own))
            shape.append(signature[-1])
        elif kind is not Decision:
            if not isinstance(event, (Bind, Cut, Hold, InPlace)):
                signature.append(hash(event))
            else:
                at = sites.get(id(event.at))
                if at is None:
                    at = sites[id(event.at)] = hash(event.at)
                signature.append(hash((kind, at, _TOLD_BY[kind](event))))
            if kind is not Cut and kind is not Bind:
                shape.append(signature[-1])
    return tuple(signature), tuple(shape)


def _run(
    source: Source, project: Imports, entry: _Entry | None, world: World, short: str
) -> tuple[Machine, frozenset[Place]]:
    """Run one way; returns with the machine the conditions that were asked before the entry was called."""
    before: frozenset[Place] = frozenset()
    machine = Machine(world, project)
    if isinstance(world.watcher, Watcher):
        world.watcher.modules = machine.modules
    module = project.settled_module(source.path) if entry is not None else None
    try:
        if module is None:
            module = Module("__main__", source.path, Env(None, None), source)
            machine.modules[source.path] = module
            machine.run_module(module, source.tree, "__main__" if entry is None else "module")
            if entry is not None and not world.tape.events:
                project.settle(module)
        machine.modules[source.path] = module
        if entry is not None:
            before = frozenset(world.asked)
            _start(machine, module, entry)
        world.end("finished")
    except Signal as signal:
        world.end("raised", signal.kind)
    except Exhausted:
        world.end("budget", short)
    except RecursionError:
        world.end("budget", "recursion")
    return machine, before


def _start(machine: Machine, module: Module, entry: _Entry) -> None:
    """Call an entry with unknown arguments."""
    env = module.env
    function: Value
    owner: Value = None
    args: list[Value] = []
    node = entry.node
    from tapecheck.interpret.world import Frame

    machine.envs.append(env)
    machine.world.push(Frame("<module>", module))
    before = entries.lived_globals(env.vars, module.source) if module.source is not None else {}
    try:
        if entry.owner is None:
            function = env.vars.get(node.name)
        else:
            cls = env.vars.get(entry.owner)
            if not isinstance(cls, Class):
                return
            function = cls.namespace.get(node.name)
            if not (isinstance(function, Wrapped) and function.kind == "staticmethod"):
                try:
                    owner = machine.call(cls, [], {"**": Unknown("**")}, node)
                except Signal:
                    # With other arguments its constructor gives it what it refused to give it with these.
                    owner = Instance(cls)
                    owner.open = True
                args.append(owner)
                if isinstance(owner, Instance) and node.name != "training_step":
                    entries.lived(owner, module.source)
                if node.name == "training_step" and isinstance(owner, Instance) and owner.cls is not None:
                    if any(base.endswith("LightningModule") for base in owner.cls.library_bases()):
                        lightning.fit(machine.torch.nn, owner)
                        return
                if isinstance(owner, Instance) and owner.module and not _trains(node):
                    # Its loops are parts of the forward pass that somebody else calls for.
                    machine.world.frames[-1].forward = True
        started = function
        while isinstance(function, Wrapped):
            function = function.function
        if not isinstance(function, Function):
            return
        hints = _called_models(entry.node)
        arguments = function.node.args
        names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
        for name in names[len(args) :]:
            value = Unknown.named(name)
            if name in hints:
                machine.torch.opaque_parameters(value, node)
            args.append(value)
        if isinstance(args[0] if args else None, Instance):
            for attribute in hints:
                if attribute.startswith("self."):
                    held = args[0].attrs.get(attribute[5:])
                    if isinstance(held, Unknown):
                        machine.torch.opaque_parameters(held, node)
        result = machine.call(_in_its_mode(started, function), args, {"**": Unknown("**")}, node)
        # The caller gets the result and still has what it passed in.
        passed = tuple(value for value in args if isinstance(value, Unknown))
        machine.escape((result, *passed), node, "the caller")
        if isinstance(owner, Instance):
            machine.escape(tuple(entries.outlives(owner, machine.called, node)), node, "the next call")
    finally:
        env.vars.update(before)
        machine.world.pop()
        machine.envs.pop()


def _in_its_mode(started: Value, function: Function) -> Value:
    """Return a function within the grad modes that its decorators set; other wrappers want arguments of their own."""
    modes = []
    while isinstance(started, Wrapped):
        if started.kind in ("no_grad", "enable_grad", "inference_mode"):
            modes.append(started.kind)
        started = started.function
    wrapped: Value = function
    for mode in reversed(modes):
        wrapped = Wrapped(mode, wrapped)
    return wrapped


def _trains(node: ast.AST) -> bool:
    """Whether a method runs training or evaluation itself: it goes backward, steps or takes numbers out."""
    return any(
        isinstance(child, ast.Attribute) and child.attr in ("backward", "step", "zero_grad", "eval", "item", "detach")
        for child in walk(node)
    )


def _called_models(node: ast.AST) -> set[str]:
    """Names that a function treats as models: it asks them for parameters, trains or evaluates them."""
    found: set[str] = set()
    for child in walk(node):
        if isinstance(child, ast.Call) and isinstance(child.func, ast.Attribute):
            if child.func.attr in ("parameters", "named_parameters", "train", "eval", "zero_grad", "state_dict"):
                found.add(ast.unparse(child.func.value))
    return found
