"""A recorded tape with the indexes that verdicts need."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from functools import cached_property

from tapecheck.record.course import OF_PARTS, Course
from tapecheck.record.files import Files
from tapecheck.record.gradients import Gradients
from tapecheck.record.held import (
    CONSECUTIVE,
    CONSECUTIVE_OF_HIDDEN,
    CONSECUTIVE_OF_LATE,
    NAMED,
    OF_HOLDS,
    Holdings,
    Series,
)
from tapecheck.record.parallel import Wrapped
from tapecheck.record.raised import codes_of
from tapecheck.rules import Finding, Reading
from tapecheck.rules.reading import Run
from tapecheck.tape import Backward, Bind, End, Event, Hold, Loop, Measure, Node, Raised, Site, Span, Step, Tape

BLIND = ("the tape ", "the recording ended")
"""How the end of a tape begins that came before the program's."""
MIN_RUNS = 3
"""So often a line must have run for what did not happen to be told."""


def _came_through(events: list[Event]) -> list[Event]:
    """Return the events with each backward call marked that the program went on after: none of its nodes failed,
    whatever the versions of saved tensors seem to be.
    """
    failed: set[int | None] = set()
    last, latest = 0, None
    for index, event in enumerate(events):
        if isinstance(event, (Backward, Step)):
            last, latest = index, event.id if isinstance(event, Backward) else latest
        elif isinstance(event, Raised):
            failed |= {event.backward, latest}
        elif isinstance(event, End) and event.how == "finished":
            last = index
    return [
        dataclasses.replace(event, succeeded=True)
        if isinstance(event, Backward) and index < last and event.id not in failed
        else event
        for index, event in enumerate(events)
    ]


def _begun_late(events: Iterable[Event]) -> dict[int, int]:
    """Return the iterations in which loops first train, of those that kept nothing until then."""
    begun: dict[int, int] = {}
    early: set[int] = set()
    for event in events:
        if isinstance(event, Backward) and event.at.iteration:
            begun.setdefault(*event.at.iteration[-1])
        elif isinstance(event, Hold) and event.index <= begun.get(event.loop, event.index):
            early.add(event.loop)
    return {loop: index for loop, index in begun.items() if loop not in early}


class Story:
    """A recorded tape with the indexes that verdicts need."""

    def __init__(self, tape: Tape, directory: str | None) -> None:
        self.tape = tape
        self.files = Files(directory)
        events = _told_once(tape.events)
        self._hidden = {event.id for event in events if isinstance(event, Loop) and event.hidden}
        self._late = _begun_late(events)
        self.view = Tape(tape.producer, _came_through([event for event in events if not self._sparse(event)]))
        self.reading = Reading(self.view)
        # Nothing comes after the view's last event: the rules need not replay it once more.
        self.view.ledger = self.reading.ledger
        self.raised = [event for event in events if isinstance(event, Raised)]
        # A name is bound by a few statements, again and again: one event of each will do.
        self.binds = list({(b.name, b.at.span): b for b in tape.events if isinstance(b, Bind)}.values())
        self.holdings = Holdings(self.files)
        self.gradients = Gradients()
        self.course = Course(self.files)
        self.wrapped = Wrapped()
        self._look_through(tape.events)
        last = tape.events[-1] if tape.events else None
        self.end = last if isinstance(last, End) else End("stopped")
        self.by_file: dict[str, list[Run]] = {}
        for item in self.reading.runs:
            self.by_file.setdefault(self.file(item.at.file), []).append(item)

    def _look_through(self, events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event, Hold):
                self.holdings.hold(event)
            elif isinstance(event, Measure):
                self._measure(event)

    def _measure(self, event: Measure) -> None:
        name, _, about = event.name.partition(":")
        value = int(event.value)
        if name in OF_HOLDS:
            self.holdings.measure(name, about, value)
        elif name in ("live-nodes", "live-saved-bytes"):
            if event.at.iteration:
                self.holdings.measure_alive(name, event.at, value)
        elif about.isdigit() and name in ("retained-bytes", "retained-until"):
            self.holdings.measure_kept(name, int(about), event.at, event.value)
        elif about.isdigit():
            self.gradients.measure_of(name, int(about), event.at, event.value)
        elif name in OF_PARTS:
            self.course.measure_part(name, event.at, value)
        elif about == "loop":
            self.holdings.watched.setdefault(event.at, {})[name] = value
        else:
            self.course.measure(name, event.at, event.value)
            self.gradients.measure(name, event.at, value)
            self.wrapped.measure(name, event.at, value)

    def _sparse(self, event: object) -> bool:
        if not isinstance(event, Hold) or event.index - self._late.get(event.loop, event.index + 1) in range(
            CONSECUTIVE_OF_LATE
        ):
            return False
        return event.index > (CONSECUTIVE_OF_HIDDEN if event.loop in self._hidden else CONSECUTIVE)

    # Places

    def file(self, name: str) -> str:
        return self.files.real(name)

    def at(self, span: Span, site: Span) -> bool:
        """Return whether something happened in the rows of a span."""
        return (
            self.file(span.file) == self.file(site.file)
            and span.line <= site.end_line
            and site.line <= max(span.end_line, span.line)
        )

    def runs_at(self, span: Span) -> list[Run]:
        return [item for item in self.by_file.get(self.file(span.file), ()) if self.at(span, item.at.span)]

    def count(self, span: Span) -> int:
        """Return how often the code of a span ran."""
        part = self.course.part_of(span)
        if part is not None and not part.unsure:
            return part.hits
        return self.count_lines(span)

    def unsure(self, span: Span) -> bool:
        """Return whether the lines of a span ran, and it is not known of the part of them that it is."""
        part = self.course.part_of(span)
        return part is not None and part.unsure and not part.hits

    def count_lines(self, span: Span) -> int:
        """Return how often the lines of a span ran, whatever parts of them did."""
        file = self.file(span.file)
        rows = range(span.line, max(span.end_line, span.line) + 1)
        # A call over several rows comes back to its first one: the row that ran least tells how often.
        counted = min((hits for row in rows if (hits := self.course.hits.get((file, row), 0))), default=0)
        return max(counted, len(self.runs_at(span)))

    def calls_nothing(self, span: Span) -> bool:
        """Return whether the rows of a span ran, and no function of the program's own was ever called from them."""
        file = self.file(span.file)
        called = [self.course.called.get((file, row)) for row in range(span.line, max(span.end_line, span.line) + 1)]
        return any(count is not None for count in called) and not any(called)

    def loops_of(self, span: Span) -> set[int]:
        """Return the runs of loops within which the code of a span ran, as far as that was seen."""
        file = self.file(span.file)
        return {loop for row in range(span.line, span.end_line + 1) for loop in self.course.loops.get((file, row), ())}

    def is_loop(self, loop: int, span: Span) -> bool:
        """Return whether a run of a loop is one of the loop that begins at a span."""
        known = self.reading.loops.get(loop)
        at = known.event.at.span if known is not None else None
        return at is not None and at.line == span.line and self.file(at.file) == self.file(span.file)

    def place_of_loop(self, loop: int) -> tuple[str, int]:
        """Return file and line at which a run of a loop begins."""
        known = self.reading.loops.get(loop)
        return (self.file(known.event.at.file), known.event.at.line) if known is not None else ("", loop)

    def was_emptied(self, series: Series) -> bool:
        """Return whether a holder of several graphs let go of all of them, and held others by a later look: a window
        that is emptied now and then has more at one look than at another by chance.
        """
        pairs = zip(series.samples, series.samples[1:], strict=False)
        return any(
            len(before.held) > 1
            and len(after.held) < NAMED
            and not set(before.held) & set(after.held)
            and not set(before.held) & self.reading.ledger.ancestry(after.held).keys()
            for before, after in pairs
        )

    def runs_of_loop(self, span: Span) -> list[Loop]:
        """Return the runs of the loop that begins at a span, as far as they are on the tape."""
        return [known.event for number, known in self.reading.loops.items() if self.is_loop(number, span)]

    def bound(self, series: Series) -> list[Span]:
        """Return the statements that bound the name of a holder in the function that stores it."""
        return [
            bind.at.span
            for bind in self.binds
            if bind.name == series.holder
            and bind.at.function == series.at.function
            and self.file(bind.at.file) == self.file(series.at.file)
        ]

    def ran(self, span: Span) -> bool:
        """Return whether any row of a span is known to have run: it was counted, or something happened there."""
        if self.count(span):
            return True
        if self.course.part_of(span) is not None and not self.unsure(span):
            return False
        rows = self._rows.get(self.file(span.file), set())
        return any(row in rows for row in range(span.line, max(span.end_line, span.line) + 1))

    @cached_property
    def _rows(self) -> dict[str, set[int]]:
        """The rows, by file, at which something is on the tape, and those of the calls that led there."""
        rows: dict[str, set[int]] = {}
        places: set[Span] = set()
        for event in self.tape.events:
            at = getattr(event, "at", None)
            if isinstance(at, Site) and at.function != "<unknown>":
                places.update((at.span, *at.stack))
        for span in places:
            rows.setdefault(self.file(span.file), set()).update((span.line, span.end_line))
        return rows

    def unrecorded(self, file: str) -> bool:
        """Return whether nothing of a file was recorded: whether its lines ran is not known."""
        real = self.file(file)
        return (
            real not in self.course.recorded
            and real not in self._rows
            and not any(name == real for name, _ in self.course.hits)
        )

    def problem_of(self, raised: Raised) -> Run | None:
        return self.reading.run_of.get(raised.backward) if raised.backward is not None else None

    @property
    def whole(self) -> bool:
        """Return whether the program ran to its own end, by itself or by an exception of its own."""
        return self.end.how == "finished"

    @property
    def blind(self) -> str:
        """Return why the program ran on unseen, empty where it did not."""
        return self.end.detail if self.end.how == "stopped" and self.end.detail.startswith(BLIND) else ""

    def is_about(self, raised: Raised, finding: Finding) -> bool:
        """Return whether a finding speaks of an exception."""
        return self.at(finding.span, raised.at.span) and finding.code in codes_of(raised)

    def leaf_text(self, number: int) -> str:
        """Return what a leaf is called: one that no variable led to by its place in its optimizer."""
        known = self.reading.ledger.leaves.get(number)
        if known is not None and known.name:
            return known.name
        for optimizer in self.reading.optimizers.values():
            if number in optimizer.params:
                place = optimizer.params.index(number)
                return f"{optimizer.name} parameter {optimizer.places[place] if optimizer.places else place}"
        return f"parameter {number}"

    @cached_property
    def _training(self) -> set[tuple[str, int]]:
        """Where the loops begin of which the innermost iteration ran a backward."""
        return {self.place_of_loop(item.at.iteration[-1][0]) for item in self.reading.runs if item.at.iteration}

    def loop_of(self, raised: Raised) -> int | None:
        """Return the innermost loop that trains around an exception, else the innermost one."""
        loops = [loop for loop, _ in reversed(raised.at.iteration)]
        trains = (loop for loop in loops if self.place_of_loop(loop) in self._training)
        return next(trains, loops[0] if loops else None)

    def trains_innermost(self, raised: Raised) -> bool:
        """Return whether the innermost loop around an exception is the only one or trains: it needs no name."""
        loops = raised.at.iteration
        return len(loops) < 2 or self.place_of_loop(loops[-1][0]) in self._training

    def failing_node(self, raised: Raised, failed: Run | None) -> Node | None:
        """Return the node at which a backward failed, where that is known."""
        if raised.node is not None:
            return self.reading.ledger.nodes.get(raised.node)
        problem = failed.problem if failed is not None else None
        return problem.node if problem is not None else None


def _told_once(events: list[Event]) -> list[Event]:
    """Return the events with each exception once: one that seemed caught, by a `with` or a `finally`, may end the
    program.
    """
    raised = [event for event in events if isinstance(event, Raised) and event.backward is not None]
    again: set[int] = set()
    settled: dict[int, Event] = {}
    for last in raised:
        for event in raised if not last.caught else ():
            if event.caught and (event.backward, event.message) == (last.backward, last.message):
                settled[id(event)] = dataclasses.replace(event, caught=False, left=False)
                again.add(id(last))
    return [settled.get(id(event), event) for event in events if id(event) not in again]


def iteration(site: Site) -> int | None:
    return site.iteration[-1][1] if site.iteration else None


def loop_line(story: Story, loop: int) -> str:
    run_of_loop = story.reading.loops.get(loop)
    event: Loop | None = run_of_loop.event if run_of_loop is not None else None
    return str(event.at.line) if event is not None else "?"
