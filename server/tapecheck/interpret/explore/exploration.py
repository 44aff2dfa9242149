"""The ways from one start: which are run, in which order, with how much work.

A way answers every condition that it cannot decide by a policy. The first takes the likelier answers; further ways
turn one undecided condition round at a time, until nothing new comes up or the budget is spent.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from tapecheck.interpret import limits
from tapecheck.interpret.explore import faults
from tapecheck.interpret.explore.alike import Seen
from tapecheck.interpret.explore.clearing import Clearing
from tapecheck.interpret.explore.combined import Combined, Patterns, Untaken
from tapecheck.interpret.explore.covered import Answers
from tapecheck.interpret.explore.effects import Effect
from tapecheck.interpret.explore.entries import Entry, begin
from tapecheck.interpret.explore.index import Told, index_of
from tapecheck.interpret.explore.losses import mistakes_of
from tapecheck.interpret.explore.probes import Probes
from tapecheck.interpret.explore.queue import Queue
from tapecheck.interpret.explore.results import Condition, CutShort, Explored, Interpretation, Outcome
from tapecheck.interpret.explore.stakes import Stake, Watched
from tapecheck.interpret.explore.wanted import Wanted
from tapecheck.interpret.explore.watch import Watcher
from tapecheck.interpret.explore.ways import (
    Way,
    failing_ways,
    names_that_matter,
    passing_ways,
    quiet_ways,
    single_ways,
    ways_after,
)
from tapecheck.interpret.machine import Machine
from tapecheck.interpret.python.imports import Imports
from tapecheck.interpret.state import Cancelled, Exhausted, Modes, Place, Policy, World
from tapecheck.interpret.values import Env, Module, Signal, Value, is_number, known_int, only
from tapecheck.source import Source
from tapecheck.tape import (
    LEFT_OVER,
    Assumed,
    Backward,
    Called,
    Cut,
    Decision,
    Hold,
    InPlace,
    Iteration,
    Loop,
    Overwritten,
    Raised,
    ShardUse,
    Span,
    StaleShards,
    Step,
    Tape,
)

_WITHOUT_BACKWARD = (Hold, InPlace, Overwritten, ShardUse, StaleShards)
"""What rules judge of a function that runs no backward."""
_OF_EVALUATIONS = (Backward, *_WITHOUT_BACKWARD, Cut)
"""What they judge of one that nobody calls: what it reads as data is all that it builds a graph for."""
_LOOPING = Effect.START | Effect.KEEP | Effect.COLLECT | Effect.STEP | Effect.EVALUATE
"""What functions do that train, evaluate or sample."""
_JUDGED = (Backward, *_WITHOUT_BACKWARD, Raised, Step)


@dataclass(slots=True)
class Budget:
    """The work that is left for a start, in units; `effort` multiplies the limits of single paths."""

    left: int
    effort: int = 1


@dataclass(frozen=True, slots=True)
class Run:
    """A way that was run: where it left the interpreter, and the work it took.

    `before` are the conditions that were asked before the entry was called.
    """

    way: Way
    machine: Machine
    world: World
    watcher: Watcher
    before: frozenset[Place]
    work: int
    error: Exception | None = None
    """The internal error that ended it."""

    @property
    def cut_short(self) -> bool:
        """Whether the work limit ended it."""
        return self.world.budget.work < 0


def _is_run(tape: Tape) -> bool:
    """Return whether a tape is that of a program that comes to its end, or fails in autograd."""
    ended = next((one for one in reversed(tape.events) if isinstance(one, Raised) and not one.caught), None)
    return tape.complete or (ended is not None and ended.exception == "RuntimeError")


@dataclass(frozen=True, slots=True)
class Measured:
    """The length that a path has settled on, and by how much what it compared was `apart`, by the id of the node."""

    length: int
    apart: dict[int, float | None]


@dataclass(slots=True)
class Turns:
    """The conditions of a start by what became of their other answers."""

    met: set[Place] = field(default_factory=set)
    """Those that some way came to."""
    dull: set[Place] = field(default_factory=set)
    """Those whose other answer made no other graph."""
    done: set[Place] = field(default_factory=set)
    """Those that a way answered otherwise and came to its end."""
    begun: set[Place] = field(default_factory=set)
    """Those that a way answered otherwise which the work limit ended: before what the answer leads to, maybe."""
    uncombined: set[Place] = field(default_factory=set)
    """The tests that further answers together could still bring to come out otherwise."""
    uncovered: set[Place] = field(default_factory=set)
    """Those that choose what a statement acts upon of which not all answers were tried together."""
    watched: dict[Place, Watched] = field(default_factory=dict)
    """What can depend on those that a path is to answer otherwise, as the last path showed it."""

    def meet(self, asked: Collection[Place]) -> set[Place]:
        """Note the conditions that a way came to; return those that none had come to before."""
        fresh = set(asked) - self.met
        self.met |= fresh
        return fresh

    def could_report(self, place: Place) -> bool:
        """Return whether the other answer to a condition could add a finding, not only make one less certain."""
        watched = self.watched.get(place)
        return watched is None or watched.stake > Stake.CERTAINTY

    def effects_of(self, places: Iterable[Place]) -> int:
        """Return what the other answers to some conditions may do."""
        effects = 0
        for place in places:
            effects |= self.watched[place].effects if place in self.watched else 0
        return effects


@dataclass(slots=True)
class Exploration:
    """The ways from one start: those still to be tried, and what those that were run have shown.

    `passes_failures` says that its ways pass over backward calls that fail.
    """

    source: Source
    project: Imports
    entry: Entry | None
    budget: Budget
    cancelled: Callable[[], bool] | None
    wanted: Wanted
    passes_failures: bool = False
    by_default: bool = False
    """Whether options that loops count by keep their defaults in its ways."""
    beside: Sequence[Tape] | None = None
    """What the ways have shown in which these have other values, where it looks at the defaults besides."""

    found: Interpretation = field(default_factory=Interpretation)
    called: set[int] = field(default_factory=set)
    """The functions that some way called, by the `id` of their definition."""
    _modules: Mapping[str, Module] = field(default_factory=dict)
    """The files that the last way has run."""
    further: int = 0
    """Work that is left for ways that answer a condition otherwise."""
    _first_work: int = 0
    """Work that the first way took."""
    _granted: bool = False
    """Whether the work for trying conditions together was given."""
    counts_by_options: bool = False
    """Whether some way came to a condition that comes round as often as an option says."""

    queue: Queue = field(init=False)
    told: Told = field(init=False)
    """What its ways asked about the numbers of the file."""
    seen: Seen = field(default_factory=Seen)
    """What the tapes so far have shown."""
    turns: Turns = field(default_factory=Turns)
    combined: Combined = field(default_factory=Combined)
    """What its ways have shown of the tests that they decide."""
    longer: int = 0
    """The least number of elements for what nobody knows the length of; 0 where the usual number will do."""
    measured: list[tuple[Way, Tape, Measured]] = field(default_factory=list)
    """The ways that have reckoned with a length that nobody knows, with their tapes and what these compared."""
    passed_raises: set[Place] = field(default_factory=set)
    """The `raise` statements that the likelier way has gone on past."""

    def __post_init__(self) -> None:
        self.queue = Queue(self.wanted, self.by_default)
        self.told = Told(index_of(self.source).numbers)

    @property
    def name(self) -> str:
        return self.entry.name if self.entry is not None else ""

    def explore(self) -> None:
        """Run the likelier way, then those that answer otherwise, until nothing new comes up or the work is spent."""
        trains = self.entry is None or self.entry.backward
        self.further = limits.FURTHER_WORK * self.budget.effort if trains else 0
        self.queue.add(Way(Policy(by_default=self.by_default)))
        while self._goes_on() or self._tries_quiet():
            if (left := self._too_many()) and self._probe(left):
                continue
            way = self.queue.take(self.turns.dull)
            if way is not None:
                self.try_way(way)
                if self._stays_as_beside():
                    break
                if len(self.queue) > 1:
                    self.queue.sort(self._untold)
        self._combine()
        self._cover()
        self._note_untried()
        if not self.passes_failures:
            self._measure()

    def _measure(self) -> None:
        """Run ways that show something certain again, where they have reckoned with a length that nobody knows: it may
        be another one.
        """
        sure = self.wanted.sure_of(self.found.tapes) if self.measured else frozenset()
        # What another way has made less certain by now hangs on more than a length.
        measured = [
            (way, usual, _rounds(tape))
            for way, tape, usual in self.measured
            if sure and not sure.isdisjoint(self.wanted.sure_of([tape]))
        ]
        for way, usual, rounds in measured[: limits.MOST_MEASURED]:
            worlds = [self._run_as_long(way, other, rounds) for other in limits.OTHER_LENGTHS]
            others = {one for world in worlds if world is not None for one in _equal_at(usual, _measured(world))}
            for other in sorted(others)[: limits.MOST_HELD_AGAINST]:
                self._run_as_long(way, other, rounds)

    def _run_as_long(self, way: Way, length: int, rounds: dict[Span, int]) -> World | None:
        """Run a way with another length; None where no work is left for it. `rounds` are those of its loops before."""
        if self.budget.left <= 0:
            return None
        world = self._run_way(replace(way, policy=replace(way.policy, length=length))).world
        self.found.runs += 1
        tape = world.writer.tape
        # A program that fails there is one in which nothing is so long, nor is one whose loops go round too seldom: but
        # not where there are many, and a loop goes round seldom all the same.
        if tape.complete and (length == max(limits.OTHER_LENGTHS) or _goes_as_far(rounds, _rounds(tape))):
            tape.ledger, tape.refutes_only = world.writer.ledger, True
            self.found.tapes.append(tape)
        world.writer.part()
        return world

    @property
    def _untold(self) -> set[str]:
        """The names of the functions that no way has called, and that do what is reported of loops."""
        return {
            body.node.name
            for module in self._modules.values()
            if module.source is not None
            for body in index_of(module.source).defined.bodies
            if id(body.node) not in self.called and body.facts.effects & _LOOPING
        }

    def _too_many(self) -> list[Way]:
        """Return the ways that are left where they are more than the work suffices for one by one."""
        if not self.wanted.compares or not self.found.runs:
            return []
        if self.queue.most * self._first_work <= self.further:
            # The rules need not be asked which of them are wanted.
            return []
        left = self.queue.left(self.turns.dull | self.turns.done | self.turns.begun)
        return left if len(left) > 1 and len(left) * self._first_work > self.further else []

    def _probe(self, left: list[Way]) -> bool:
        """Try ways together that are too many to be tried one by one; return whether that has settled any."""
        self._grant()
        probes = Probes(self, self.wanted, self.found.tapes, self.by_default)
        probes.try_all(sorted(left, key=lambda way: way.rank(self._untold)))
        self.turns.done |= probes.done
        self.queue.leave_out(probes.done, probes.tried)
        return bool(probes.done or probes.tried)

    def _tries_quiet(self) -> bool:
        """Try together, once nothing else is left, the conditions of which no code says that anything hangs on them:
        what a finding says never comes may come by a value that they choose. Return whether that leads to more ways.
        """
        ways = self.queue.take_quiet(self.turns.done)
        if not ways or self.queue or not self.has_work or not (self.wanted.compares and self.wanted.claiming):
            return False
        Probes(self, self.wanted, self.found.tapes, self.by_default).try_all(ways)
        return self._goes_on()

    def _combine(self) -> None:
        """Try further answers together where a test asks for what they choose: see `combined`."""
        choosing = self.queue.choosing
        if len(choosing) < limits.FEWEST_COMBINED or not self.wanted.compares or not self.wanted.certain:
            return
        for number in range(limits.MOST_MORE_COMBINED + 1):
            untaken = self.combined.untaken(self._modules, choosing)
            patterns = self.combined.next(untaken, self.queue.answers)
            if patterns is None:
                return
            if number == limits.MOST_MORE_COMBINED or not self.has_work:
                self.turns.uncombined = {one.at for one in untaken}
                return
            if self._settles(patterns):
                return

    def _cover(self) -> None:
        """Try all answers together that choose what may bring what a finding says never comes, see `covered`: where
        these are too many, it may come by those that are left.
        """
        known: set[object] = set()
        choosing: Mapping[Place, ast.AST | None] = {}
        while len(self.queue.choosing) > len(choosing) and self._hangs_together():
            # The answers that are tried lead to further conditions, by which more may come.
            choosing = self.queue.choosing
            statements = self.combined.acting(self._modules, self.called, choosing)
            for acting in statements:
                if acting.key not in known and self._covers(acting):
                    return
            known.update(one.key for one in statements)

    def _hangs_together(self) -> bool:
        """Return whether conditions may do together what disproves anything certain: of two of them alone, where a way
        has not tried that. The rules are asked last.
        """
        places = self.queue.choosing
        few = len(places) < limits.FEWEST_COMBINED
        if few and (not self.queue.answers or self.combined.covered.missing(places, (), {}) is None):
            return False
        return self.wanted.compares and self.wanted.certain

    def _covers(self, acting: Untaken) -> bool:
        """Try all answers to what chooses what some code acts upon; return whether that leaves nothing certain."""
        for patterns in self._combinations(acting):
            if patterns is None:
                self.turns.uncovered.update(acting.chosen_by, acting.growing)
            elif self._settles(patterns):
                return True
        return False

    def _combinations(self, acting: Untaken) -> Iterator[Patterns | None]:
        """Yield answers that choose what some code acts upon and that were not given together, None where it ends
        before all of them are.
        """
        usual = {place: self.queue.answers.get(place, True) for place in (*acting.chosen_by, *acting.growing)}
        covered, vain = self.combined.covered, list[Answers]()
        many = len(acting.chosen_by) > limits.MOST_CHOOSING
        for fixed in _extremes(acting.growing):
            while (answers := covered.missing(acting.chosen_by, vain, fixed)) is not None:
                if many or len(vain) == limits.MOST_COVERED or not self.has_work:
                    yield None
                    return
                vain.append({**usual, **answers})
                yield {place: (answer,) for place, answer in answers.items() if answer != usual[place]}
        if acting.growing and any(map(covered.fails_with, _extremes(acting.growing))):
            # What is added may end the program before it shows what else is added.
            yield from self._combinations(Untaken(acting.at, (*acting.chosen_by, *acting.growing)))

    def _settles(self, patterns: Patterns) -> bool:
        """Try some answers together; return whether nothing is certain since then that others may disprove."""
        run = self._run_way(Way(Policy(dict(patterns), self.by_default), together=True))
        self._note_answers(run)
        self.queue.note((), (), (), (), run.world.choices.asked)
        tape = self._probed(run)
        tape.refutes_only = tape.together = True
        if not (tape.complete and self.wanted.spoilt_by(self.found.tapes, tape)):
            return False
        self.found.tapes.append(tape)
        self.wanted.look(self.found.tapes)
        return not self.wanted.certain

    def _note_answers(self, run: Run) -> None:
        """Note the answers of a way that speaks for itself: of those that are only probed others are run."""
        choices, patterns = run.world.choices, run.way.policy.patterns
        self.combined.note(patterns, choices.came_out, choices.passed)
        complete = run.world.writer.tape.complete
        self.combined.covered.note(patterns, choices.asked, choices.entered, complete=complete)

    def _grant(self) -> None:
        """Give the work, once, that trying conditions together may take."""
        if not self._granted and self.wanted.compares:
            self._granted = True
            self.further = max(0, self.further) + limits.PROBE_TIMES * self._first_work * self.budget.effort

    @property
    def has_work(self) -> bool:
        """Whether work is left for a way that answers a condition otherwise."""
        return self.budget.left > 0 and self.further > 0

    def probe(self, way: Way) -> tuple[Tape, Set[Place]]:
        """Run a way that answers many conditions otherwise: the rules do not read its tape as that of a run.

        Returns the tape, and the conditions that it came to.
        """
        run = self._run_way(way)
        return self._probed(run), run.world.choices.asked.keys()

    def _probed(self, run: Run) -> Tape:
        """Note a run whose tape the rules do not read, and return that."""
        self.found.runs += 1
        self.found.exhausted = self.found.exhausted or run.cut_short
        self._note_calls(run)
        writer = run.world.writer
        tape = writer.tape
        tape.ledger = writer.ledger
        writer.part()
        return tape

    def _goes_on(self) -> bool:
        """Whether there is a way to try, and work left for it."""
        if not self.queue and self.found.runs:
            self.queue.take_up_deferred()
        if not self.queue or self.budget.left <= 0:
            return False
        if self.further <= 0 and self.queue.next.turned is not None:
            self._grant()
        return self.further > 0 or self.queue.next.turned is None

    def _stays_as_beside(self) -> bool:
        """Whether what is found stays as it is where options keep their defaults, as the first such way says."""
        if self.beside is None or self.found.runs > 1 or not self.wanted.compares:
            return False
        tapes = [tape for tape in self.found.tapes if _keeps_defaults(tape)]
        return not any(self.wanted.changed_by(self.beside, tape) for tape in tapes)

    def try_way(self, way: Way) -> None:
        """Run a way, keep its tape where that says something new, and queue the ways that follow from it."""
        run = self._run_way(way)
        if way.finishing and not run.world.writer.tape.complete:
            self._probed(run)
            return
        if way.turned is None:
            run = self._long_enough(run)
        world, watcher = run.world, run.watcher
        fails = not world.omissions.mistakes <= self.found.mistakes
        self._note(run)
        watcher.settle(world)
        names = names_that_matter(run.machine) if world.choices.asked else set()
        following = ways_after(way, world, watcher, self.turns.dull, names)
        single, quiet = single_ways(way, world, watcher, following), quiet_ways(way, world, watcher, following)
        passing, failing = passing_ways(way, world, watcher), failing_ways(way, world)
        self.queue.note(single, quiet, passing, failing, world.choices.asked)
        fresh = other_graph = True
        if way.turned is None:
            self.seen.first(world.writer.tape)
        else:
            fresh, other_graph = self.seen.says_new(world.writer.tape)
        kept = fresh and self._keep(world, fails)
        if kept and world.choices.reckons:
            self.measured.append((way, world.writer.tape, _measured(world)))
        for one in self._worth_trying(following, run, other_graph):
            assert one.turned is not None
            watched = watcher.watched.get(one.turned)
            if watched is not None:
                self.turns.watched[one.turned] = watched
            self.queue.add_or_defer(one, watched, at_once=one.turned in way.policy.patterns)
        if self.wanted.log is not None:
            self.wanted.log.append(self._explored(run, kept))
        world.writer.part()

    def _long_enough(self, run: Run) -> Run:
        """Return the first way, run again with longer lengths where ranges or parts of lists were too short and
        these lengthen one; as it was where they do not.
        """
        starved = run.world.choices.starved
        if not starved or run.work * limits.LONGER_SHARE > self.budget.left:
            return run
        self.longer = limits.LONGER_LENGTH
        other = self._run_way(run.way)
        self.found.runs += 1
        if other.work > max(limits.LONGER_WORK * run.work, limits.LONGER_FREE):
            # What goes round once is seen all the same; what does not go round at all is worth any work.
            starved = {place: enough for place, enough in starved.items() if enough == 1}
        if not other.cut_short and other.world.choices.feeds(starved) and _is_run(other.world.writer.tape):
            run, other = other, run
        else:
            self.longer = 0
        other.world.writer.part()
        return run

    def _run_way(self, way: Way) -> Run:
        """Run one way with the work that it may take, and charge it."""
        first = not way.policy.patterns
        most = limits.RUN_BUDGET * self.budget.effort
        if not first:
            most = min(most, max(self.further, limits.TURNED_BUDGET * self.budget.effort))
        if way.together and self.found.tapes and self.found.tapes[0].complete:
            # Answers that make a program longer are tried in smaller groups.
            most = min(most, max(limits.LONGER_TIMES * self._first_work, limits.FURTHER_WORK))
        world = World(way.policy, min(most, self.budget.left), self.cancelled)
        world.writer.tape.started, world.writer.tape.by_default = self.name, self.by_default
        world.writer.tape.uncalled = self.entry is not None and self.entry.uncalled
        world.choices.passes_failures = self.passes_failures
        world.choices.longer = self.longer
        world.choices.passed_raises = self.passed_raises
        watcher = world.watcher = Watcher(self.project.project, self.told)
        started = world.budget.work
        # What others have left of the budget may be too little for a way, which then shows no more than one not begun.
        short = "" if started == most else LEFT_OVER
        machine, before, error = _run(self.source, self.project, self.entry, world, short)
        work = started - world.budget.work + limits.RUN_WORK
        self.budget.left -= work
        if first:
            self._first_work = work
            self.further = max(self.further, limits.FURTHER_TIMES * work * self.budget.effort)
        else:
            self.further -= work
        return Run(way, machine, world, watcher, before, work, error)

    def _note(self, run: Run) -> None:
        """Note what a run called, met and could not do, whatever its tape says."""
        found, world = self.found, run.world
        found.runs += 1
        found.mistakes |= world.omissions.mistakes
        found.gaps |= world.omissions.gaps
        found.supposed |= world.omissions.supposed
        found.handed |= world.omissions.handed
        self._note_calls(run)
        self._note_answers(run)
        found.exhausted = found.exhausted or run.cut_short
        if run.error is not None:
            self.fail(run.error, world.writer.tape)
        self.counts_by_options = self.counts_by_options or world.choices.counts_by_options
        if run.way.turned is not None:
            if not run.cut_short:
                self.turns.done.add(run.way.turned)
            elif not run.way.together:
                self.turns.begun.add(run.way.turned)
        elif not self.passes_failures and not self.by_default:
            if run.cut_short:
                found.cut_short.append(CutShort("way", self.name, *_last_place(world.writer.tape)))
            if world.omissions.not_followed:
                deep = next(iter(world.omissions.not_followed))
                found.cut_short.append(
                    CutShort("calls", self.name, deep.file, deep.line, len(world.omissions.not_followed))
                )

    def _note_calls(self, run: Run) -> None:
        start = self.entry.span(self.source.path) if self.entry is not None else None
        whole = not run.cut_short
        self.found.calls |= {Called(function, on, start, at, whole) for function, on, at in run.world.calls.recorded}
        self.called |= run.world.calls.called
        self._modules = run.machine.modules

    def fail(self, error: Exception, tape: Tape | None = None) -> None:
        """Note an internal error: what was found before it stands, and nothing is said of what lies behind it."""
        file, line = _last_place(tape) if tape is not None else ("", 0)
        node = self.entry.node if self.entry is not None else None
        if file != self.source.path or (node and not node.lineno <= line <= (node.end_lineno or line)):
            file, line = self.source.path, node.lineno if node is not None else 1
        fault = faults.note(error, self.name, file, line)
        if fault not in self.found.faults:
            self.found.faults.append(fault)

    def _keep(self, world: World, fails: bool) -> bool:
        """Keep a tape that says something new; return whether the rules read it. `fails` says that it went on past an
        exception that no earlier way had.
        """
        tape = world.writer.tape
        refutes_only = world.choices.passed_by or world.choices.failed
        if refutes_only and (fails or not tape.complete):
            # A program that fails where a loop is passed by is one whose loop goes round.
            return False
        judged = _OF_EVALUATIONS if tape.uncalled else (Backward, *_WITHOUT_BACKWARD)
        if self.entry is not None and not any(isinstance(event, judged) for event in tape.events):
            return False
        tape.ledger, tape.refutes_only = world.writer.ledger, refutes_only
        self.found.tapes.append(tape)
        self.wanted.look(self.found.tapes)
        return True

    def _worth_trying(self, ways: list[Way], run: Run, other_graph: bool) -> list[Way]:
        """Return those of the ways after a run that may show something."""
        way, world = run.way, run.world
        if not _judged(world):
            # No graph and nothing that a rule reads: another path must make one, or be a mode of a script that does.
            wanted = Effect.BEGIN if self.entry is not None else Effect.BEGIN | Effect.COLLECT
            ways = [one for one in ways if run.watcher.does(one.turned, wanted) or self._is_mode(one, run)]
        fresh = self.turns.meet(world.choices.asked)
        # The module has a start of its own, which tries what its conditions lead to.
        ways = [one for one in ways if one.turned not in run.before]
        if not other_graph and way.turned is not None and len(way.policy.patterns) == 1:
            self.turns.dull.add(way.turned)
        if not other_graph or way.once:
            # No graph hangs on the condition that was turned round: go no further from here, except for what only
            # this way comes to (the second half of an `or`, an `elif`).
            ways = [one for one in ways if one.turned in fresh]
        return ways

    def _is_mode(self, way: Way, run: Run) -> bool:
        """Whether a way answers otherwise what a script does, which builds graphs there for nothing, perhaps."""
        return self.entry is None and way.turned is not None and run.watcher.stake(way.turned) is Stake.ONCE

    def goes_on_in(self, further: Exploration) -> None:
        """Explore what another exploration of the start looks at besides; its internal errors are this one's, too."""
        _explore(further)
        self.found.faults += [one for one in further.found.faults if one not in self.found.faults]

    def _explored(self, run: Run, kept: bool) -> Explored:
        """Return what the log says of a run."""
        turns = self.queue.waiting | self.turns.done | self.turns.begun
        conditions = tuple(_conditions(run.world, run.watcher, turns))
        turned = tuple(run.way.policy.patterns)
        return Explored(self.name, turned, conditions, run.world.writer.tape, kept, run.work, self.passes_failures)

    def _note_untried(self) -> None:
        """Note the conditions whose other answer no way came to the end of."""
        turns = self.turns
        left = (turns.begun | (self.queue.waiting - turns.dull)) - turns.done
        for tape in self.found.tapes if turns.uncovered else ():
            tape.uncovered = frozenset(turns.uncovered)
        untried = frozenset(left | self.queue.missed - turns.done | self.queue.unpassed | turns.uncombined)
        if untried:
            clearing = Clearing(self._modules)
            keeping = frozenset(
                one for one in untried & turns.watched.keys() if not clearing.may_follow(turns.watched[one])
            )
            leaving = frozenset(one for one in keeping if turns.watched[one].leaves)
            for tape in self.found.tapes:
                tape.untried, tape.keeping, tape.leaving = untried, keeping, leaving
        lost = set(filter(turns.could_report, left))
        aside = self.passes_failures or self.by_default or (self.entry is not None and self.entry.only_uncalled)
        if lost and not aside:
            own = self.source.path
            file, line, _ = min(lost, key=lambda place: (place[0] != own, place))
            hides = mistakes_of(turns.effects_of(lost))
            self.found.cut_short.append(CutShort("paths", self.name, file, line, len(lost), hides))


def explore_start(
    source: Source,
    project: Imports,
    entry: Entry | None,
    budget: Budget,
    cancelled: Callable[[], bool] | None,
    wanted: Wanted,
) -> Outcome:
    """Explore from one start with the work that is left for the file, and where a failing backward cuts a way off that
    retained a graph, explore what lies beyond.
    """
    left = budget.left
    exploration = Exploration(source, project, entry, budget, cancelled, wanted)
    _explore(exploration)
    told = exploration.told.answers
    cut_off = [tape for tape in exploration.found.tapes if _cut_off(tape)]
    if cut_off and budget.left > 0:
        beyond = Exploration(source, project, entry, budget, cancelled, wanted, passes_failures=True)
        exploration.goes_on_in(beyond)
        told |= beyond.told.answers
        for tape in cut_off:
            tape.beyond = beyond.found.tapes
    if exploration.counts_by_options and budget.left > 0:
        beside = exploration.found.tapes
        by_default = Exploration(source, project, entry, budget, cancelled, wanted, by_default=True, beside=beside)
        exploration.goes_on_in(by_default)
        exploration.found.tapes += [tape for tape in by_default.found.tapes if _keeps_defaults(tape)]
    # What is called beyond alone still wants a start of its own.
    names = frozenset(body.name for body in index_of(source).defined.bodies if id(body.node) in exploration.called)
    return Outcome(exploration.found, names, left - budget.left, told)


def _explore(exploration: Exploration) -> None:
    """Explore a start; an internal error ends this start alone."""
    try:
        exploration.explore()
    except (Cancelled, MemoryError):
        raise
    except Exception as error:
        exploration.fail(error)


def _extremes(growing: Answers) -> list[Answers]:
    """Return the answers with which nothing is added, and those with which all is: between them lies what a backward
    walks with any others.
    """
    ends = (False, True) if growing else (True,)
    return [{place: more == answer for place, answer in growing.items()} for more in ends]


def _judged(world: World) -> bool:
    """Whether a way has built a graph, or written anything that a rule reads."""
    return world.writer.has_nodes or any(isinstance(event, _JUDGED) for event in world.writer.tape.events)


def _keeps_defaults(tape: Tape) -> bool:
    """Whether an option kept its default in a way: else it shows nothing that the others do not."""
    return any(event.kind == "default" for event in only(tape.events, Assumed))


def _rounds(tape: Tape) -> dict[Span, int]:
    """Return how often each loop of a path goes round at most."""
    places = {event.id: event.at.span for event in only(tape.events, Loop)}
    rounds: dict[Span, int] = {}
    for event in only(tape.events, Iteration):
        at = places[event.loop]
        rounds[at] = max(rounds.get(at, 0), event.index)
    return rounds


def _goes_as_far(usual: dict[Span, int], rounds: dict[Span, int]) -> bool:
    """Whether the loops of one path go round in another as often as is taken for granted of any loop."""
    return all(rounds.get(at, 0) >= min(count, limits.SURE_ITERATIONS) for at, count in usual.items())


def _measured(world: World) -> Measured:
    """Return what a path has settled on first for a length that nobody knows, and what it has compared."""
    first = next((known for one in world.choices.lengths if (known := known_int(one.number())) is not None), 0)
    return Measured(first, {node: _apart(*pair) for node, pair in world.comparisons.operands.items()})


def _apart(left: Value, right: Value) -> float | None:
    """Return by how much two values differ; None where they are no numbers that a float tells apart."""
    if not (is_number(left) and is_number(right)) or not max(abs(left), abs(right)) < limits.EXACT:
        return None
    return left - right


def _equal_at(usual: Measured, other: Measured) -> set[int]:
    """Return the lengths for which values are equal that a path has compared, as two of them say: it may be as long."""
    found: set[int] = set()
    for node, apart in usual.apart.items():
        there = other.apart.get(node)
        if apart is None or there is None or apart == there:
            continue
        at = usual.length - apart * (other.length - usual.length) / (there - apart)
        if limits.SURE_ITERATIONS < at < limits.FARTHEST:
            found |= {math.floor(at), math.ceil(at)}
    return found - {usual.length, other.length}


def _cut_off(tape: Tape) -> bool:
    """Whether a way ends in a backward that finds its graph freed or changed, and retained a graph before."""
    raised = only(tape.events, Raised)
    last = raised[-1] if raised else None
    if last is None or last.backward is None or last.caught or tape.ledger is None:
        return False
    problem = tape.ledger.traversals[last.backward].problem
    if problem is None or problem.kind not in ("freed", "region", "stale"):
        return False
    calls = only(tape.events, Backward)
    return any(call.retain_argument in ("yes", "may") and call.create == "no" for call in calls)


def _run(
    source: Source, project: Imports, entry: Entry | None, world: World, short: str
) -> tuple[Machine, frozenset[Place], Exception | None]:
    """Run one way.

    Returns the machine, the conditions that were asked before the entry was called, and the internal error that ended
    the way.
    """
    before: frozenset[Place] = frozenset()
    failed: Exception | None = None
    machine = Machine(world, project)
    if isinstance(world.watcher, Watcher):
        world.watcher.modules = machine.modules
    module = project.settled_module(source.path) if entry is not None else None
    try:
        if module is None:
            module = Module("__main__", source.path, Env(None, None), source)
            machine.modules[source.path] = module
            machine.run_module(module, source.tree, "__main__" if entry is None else "module")
            quiet = not world.writer.tape.events and not world.choices.entered
            if entry is not None and quiet and world.modes.in_force == Modes().in_force:
                project.settle(module)
        machine.modules[source.path] = module
        if entry is not None:
            before = frozenset(world.choices.asked)
            begin(machine, module, entry)
        machine.run_exits(module)
        world.end("finished")
    except Signal as signal:
        world.end("raised", signal.kind)
    except Exhausted:
        world.end("budget", short)
    except RecursionError:
        world.end("budget", "recursion")
    except (Cancelled, MemoryError):
        raise
    except Exception as error:
        # As where the budget is spent: no rule says "never" of what lies behind it.
        failed = error
        world.end("budget", "internal error")
    return machine, before, failed


def _conditions(world: World, watcher: Watcher, tried: Collection[Place]) -> Iterator[Condition]:
    """Yield the undecided conditions that a way came to, each with its first answer, in order."""
    seen: set[Place] = set()
    for event in world.writer.tape.events:
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
