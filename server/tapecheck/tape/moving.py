"""Tapes of a text whose lines have moved: the same events in their new places, made once somebody looks at them."""

from __future__ import annotations

import dataclasses
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from operator import attrgetter
from typing import Any

from tapecheck.tape.events import Decision, Event, Site, Span
from tapecheck.tape.tape import Tape

Rows = tuple[int, tuple[int, ...]]
"""The first line of a piece of a file, and those of its lines that hold code, counted from there."""
Where = tuple[tuple[str, tuple[Rows, ...]], ...]
"""Where pieces of files stand: for each file its pieces in their order."""


class Moves:
    """Where lines stand that stood elsewhere: pieces of files before and after, the same ones in the same order.

    A line that is in none of the pieces goes with the one above it. Several pairs of states are those of results that
    are moved together: `torn` says that they move some line to two places.
    """

    def __init__(self, states: Sequence[tuple[Where, Where]]) -> None:
        self.states = states
        self._lines: dict[str, dict[int, int]] | None = None
        self._sorted: dict[str, list[int]] = {}
        self._torn = False
        self._spans: dict[int, tuple[Span, Span]] = {}
        self._sites: dict[int, tuple[Site, Site]] = {}

    @property
    def torn(self) -> bool:
        self._by_file()
        return self._torn

    def _by_file(self) -> dict[str, dict[int, int]]:
        found = self._lines
        if found is None:
            found = {}
            for before, after in self.states:
                for (file, old), (_, new) in zip(before, after):
                    lines = found.setdefault(file, {})
                    for (first, rows), (now, rows_now) in zip(old, new):
                        for row, row_now in zip(rows, rows_now):
                            if lines.setdefault(first + row, now + row_now) != now + row_now:
                                self._torn = True
            self._lines = found
        return found

    def line(self, file: str, line: int) -> int:
        """Return the number that a line of a file has now."""
        lines = self._by_file().get(file)
        if not lines:
            return line
        found = lines.get(line)
        if found is not None:
            return found
        known = self._sorted.get(file)
        if known is None:
            known = self._sorted[file] = sorted(lines)
        above = bisect_right(known, line)
        return line + lines[known[above - 1]] - known[above - 1] if above else line

    def span(self, span: Span) -> Span:
        """Return a span where it stands now, the same one where it has not moved."""
        known = self._spans.get(id(span))
        if known is None:
            # The old one is kept, so that its id stays its own.
            known = self._spans[id(span)] = (span, self._moved(span))
        return known[1]

    def _moved(self, span: Span) -> Span:
        # What has no place in its file is said to stand at the beginning.
        if (span.line, span.column, span.end_line, span.end_column) == (1, 1, 1, 2):
            return span
        line, end = self.line(span.file, span.line), self.line(span.file, span.end_line)
        if line == span.line and end == span.end_line:
            return span
        return Span(span.file, line, span.column, end, span.end_column)

    def site(self, site: Site) -> Site:
        """Return a site where it stands now, the same one where it has not moved."""
        known = self._sites.get(id(site))
        if known is None:
            span, stack = self.span(site.span), self.spans(site.stack)
            same = span is site.span and stack is site.stack
            known = self._sites[id(site)] = (site, site if same else Site(span, site.function, stack, site.iteration))
        return known[1]

    def spans(self, spans: tuple[Span, ...]) -> tuple[Span, ...]:
        """Return spans where they stand now."""
        moved = tuple(map(self.span, spans))
        return spans if all(now is before for now, before in zip(moved, spans)) else moved

    def events(self, events: Iterable[Event]) -> list[Event]:
        """Return events in their new places, those that have not moved as they are."""
        moving: dict[str, Callable[[Any], Any]] = {
            "Site": self.site,
            "Span | None": lambda span: span and self.span(span),
            "tuple[Span, ...]": self.spans,
        }
        plans: dict[type, tuple[Callable[[Any], Any], list[tuple[int, Callable[[Any], Any]]]]] = {}
        found: list[Event] = []
        for event in events:
            kind: type = type(event)
            plan = plans.get(kind)
            if plan is None:
                values_of, placed = _placed(kind)
                plan = plans[kind] = (values_of, [(index, moving[named]) for index, named in placed])
            values_of, moves = plan
            if not moves:
                found.append(event)
                continue
            values = list(values_of(event))
            same = True
            for index, move in moves:
                value = values[index]
                moved = values[index] = move(value)
                same = same and moved is value
            if kind is Decision and values[_END]:
                end = values[_END]
                values[_END] = self.line(event.at.file, end)  # type: ignore[union-attr]
                same = same and values[_END] == end
            found.append(event if same else kind(*values))
        return found

    def conditions(self, places: Iterable[tuple[str, int, int]]) -> frozenset[tuple[str, int, int]]:
        """Return places, of file, line and column, where they stand now."""
        return frozenset((file, self.line(file, line), column) for file, line, column in places)


_END = [field.name for field in dataclasses.fields(Decision)].index("end_line")


@cache
def _placed(kind: type) -> tuple[Callable[[object], object], list[tuple[int, str]]]:
    """Return what reads the fields of events of a kind, and which of them hold places, with the form of these."""
    fields = dataclasses.fields(kind)
    forms = ("Site", "Span | None", "tuple[Span, ...]")
    placed = [(index, str(field.type)) for index, field in enumerate(fields) if field.type in forms]
    if len(fields) == 1:
        only = attrgetter(fields[0].name)
        return lambda event: (only(event),), placed
    return attrgetter(*(field.name for field in fields)), placed


_MOVED = frozenset(("events", "beyond", "untried", "keeping", "leaving", "uncovered"))
"""What of a tape says where something stands."""

_OWN = frozenset(("ledger", "identity"))
"""What of a tape is of that tape alone."""

_SHARED = tuple(field.name for field in dataclasses.fields(Tape) if field.name not in _MOVED | _OWN)
"""What of a tape is the same wherever its program stands."""


class MovedTape(Tape):
    """A tape as it would be had its program been run where its lines stand now.

    `origin` tells the tape that it was made of from others, `move` says where the pieces of the program stood then
    and where they stand now.
    """

    __slots__ = ("_unmoved", "move", "origin")

    def __init__(self, tape: Tape, moves: Moves) -> None:
        for name in _SHARED:
            setattr(self, name, getattr(tape, name))
        self.ledger = None
        self.identity = object()
        self.origin = tape.identity
        self.move = moves.states[0]
        self._unmoved: tuple[Tape, Moves] | None = (tape, moves)

    def __getattr__(self, name: str) -> object:
        # Called for what is not filled in yet.
        unmoved = self._unmoved if name in _MOVED else None
        if unmoved is not None:
            tape, moves = unmoved
            for conditions in ("untried", "keeping", "leaving", "uncovered"):
                setattr(self, conditions, moves.conditions(getattr(tape, conditions)))
            self.beyond = [MovedTape(way, moves) for way in tape.beyond]
            self.events = moves.events(tape.events)
            # In another thread the same may have been done: either will do.
            self._unmoved = None
        return object.__getattribute__(self, name)

    @property
    def unmoved(self) -> Tape | None:
        """The tape that it is to be made of, None once it is made."""
        return self._unmoved[0] if self._unmoved is not None else None


def moved(tapes: Iterable[Tape], before: Where, after: Where) -> list[Tape]:
    """Return the tapes of a program whose pieces stand elsewhere now."""
    found: list[Tape] = []
    ways: dict[int, Moves] = {}
    for tape in tapes:
        # What nobody has looked at is moved in one step from where it was written.
        origin, start = tape, before
        if isinstance(tape, MovedTape) and tape.unmoved is not None:
            origin, start = tape.unmoved, tape.move[0]
        if start == after:
            found.append(origin)
            continue
        moves = ways.get(id(start))
        if moves is None:
            moves = ways[id(start)] = Moves([(start, after)])
        found.append(MovedTape(origin, moves))
    return found
