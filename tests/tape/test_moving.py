"""Tapes whose lines have moved say what they said, in their new places."""

from __future__ import annotations

import dataclasses
from typing import get_args

import pytest

from tapecheck.check import check
from tapecheck.source import from_text
from tapecheck.tape import (
    Cut,
    Decision,
    End,
    Event,
    Iteration,
    Loop,
    MovedTape,
    Moves,
    Node,
    Site,
    Span,
    Tape,
    Where,
    moved,
)

BEFORE: Where = (("a.py", ((2, (0, 1, 3)), (10, (0, 1)))),)
AFTER: Where = (("a.py", ((3, (0, 2, 3)), (20, (0, 1)))),)


def at(line: int, end: int | None = None, file: str = "a.py") -> Span:
    return Span(file, line, 5, end or line, 9)


def test_lines_keep_to_their_pieces() -> None:
    moves = Moves([(BEFORE, AFTER)])
    assert [moves.line("a.py", line) for line in (2, 3, 5, 10, 11)] == [3, 5, 6, 20, 21]
    # What is in no piece goes with what stands above it.
    assert [moves.line("a.py", line) for line in (1, 4, 7, 40)] == [1, 6, 8, 50]
    assert moves.line("b.py", 10) == 10
    assert not moves.torn
    assert moves.span(at(3, 11)) == at(5, 21)
    assert moves.span(nowhere := Span("a.py", 1, 1, 1, 2)) is nowhere


def test_results_that_move_a_line_to_two_places_are_torn() -> None:
    elsewhere: Where = (("a.py", ((3, (0, 2, 3)), (30, (0, 1)))),)
    assert Moves([(BEFORE, AFTER), (BEFORE, elsewhere)]).torn
    shared: Where = (("a.py", ((10, (0, 1)), (60, (0,)))),)
    assert not Moves([(BEFORE, AFTER), (shared, (("a.py", ((20, (0, 1)), (60, (0,)))),))]).torn


@pytest.mark.parametrize("kind", get_args(Event), ids=lambda kind: kind.__name__)
def test_every_place_in_an_event_is_known(kind: type) -> None:
    for field in dataclasses.fields(kind):
        assert ("Span" in str(field.type) or "Site" in str(field.type)) == (
            field.type in ("Site", "Span | None", "tuple[Span, ...]")
        ), field


@pytest.mark.parametrize("kind", get_args(Event), ids=lambda kind: kind.__name__)
def test_an_event_of_each_kind_moves(kind: type) -> None:
    def made(line: int) -> object:
        places = {"Site": Site(at(line)), "Span | None": at(line), "tuple[Span, ...]": (at(line),)}
        return kind(*(places.get(str(field.type), 0) for field in dataclasses.fields(kind)))

    [there] = moved([Tape("dry-run", [made(10)])], BEFORE, AFTER)  # type: ignore[list-item]
    assert there.events == [made(20)]


def test_events_move_and_those_that_stay_are_shared() -> None:
    stays, goes = Site(at(3, file="b.py")), Site(at(10), "f", (at(2), at(3, file="b.py")), ((1, 2),))
    tape = Tape(
        "dry-run",
        [
            Node(1, "mul", stays),
            Node(2, "mul", goes, (1,)),
            Cut(1, "no_grad", goes, off_at=at(11), within=(at(2),)),
            Loop(1, goes),
            Iteration(1, 1),
            Decision(stays, "flag", True, 3),
            Decision(Site(at(2)), "flag", True, 5),
            End("finished"),
        ],
        untried=frozenset({("a.py", 10, 5)}),
        keeping=frozenset({("a.py", 10, 5)}),
        started="f",
    )
    tape.beyond = [Tape("dry-run", [Loop(1, goes)])]
    [there] = moved([tape], BEFORE, AFTER)
    site = Site(at(20), "f", (at(3), at(3, file="b.py")), ((1, 2),))
    assert there.events == [
        Node(1, "mul", stays),
        Node(2, "mul", site, (1,)),
        Cut(1, "no_grad", site, off_at=at(21), within=(at(3),)),
        Loop(1, site),
        Iteration(1, 1),
        Decision(stays, "flag", True, 3),
        Decision(Site(at(3)), "flag", True, 6),
        End("finished"),
    ]
    assert there.events[0] is tape.events[0] and there.events[5] is tape.events[5]
    assert there.beyond[0].events == [Loop(1, site)]
    assert (there.untried, there.started, there.complete) == ({("a.py", 20, 5)}, "f", True)
    assert (there.keeping, there.leaving) == ({("a.py", 20, 5)}, frozenset())
    assert tape.events[1].at is goes  # type: ignore[union-attr]


def test_a_condition_moves_with_the_end_of_its_statement_alone() -> None:
    longer: Where = (("a.py", ((2, (0, 2, 4)), (10, (0, 1)))),)
    [there] = moved([Tape("dry-run", [Decision(Site(at(2)), "flag", True, 5)])], BEFORE, longer)
    assert there.events == [Decision(Site(at(2)), "flag", True, 6)]


def test_all_that_a_tape_says_goes_with_it() -> None:
    # A field that is added to tapes later must not be missing in those that moved.
    tape = Tape("dry-run", [End("finished")])
    fields = [field.name for field in dataclasses.fields(Tape)]
    for name in fields:
        if type(getattr(tape, name)) is bool:
            setattr(tape, name, True)
    [there] = moved([tape], BEFORE, AFTER)
    assert {name: getattr(there, name) for name in fields if name != "identity"} == {
        name: getattr(tape, name) for name in fields if name != "identity"
    }


def test_what_nobody_looks_at_is_moved_in_one_step() -> None:
    tape = Tape("dry-run", [Loop(1, Site(at(10)))])
    [first] = moved([tape], BEFORE, AFTER)
    further: Where = (("a.py", ((4, (0, 2, 3)), (40, (0, 1)))),)
    [second] = moved([first], AFTER, further)
    assert isinstance(second, MovedTape) and second.unmoved is tape and second.origin is tape.identity
    assert moved([second], further, BEFORE) == [tape]
    assert second.events == [Loop(1, Site(at(40)))] and second.unmoved is None
    [third] = moved([second], further, AFTER)
    assert isinstance(third, MovedTape) and third.origin is second.identity
    assert third.events == first.events
    assert len({id(one.identity) for one in (tape, first, second, third)}) == 4


def test_a_tape_of_a_program_moves_to_what_it_would_be() -> None:
    text = "import torch\nw = torch.ones(2, requires_grad=True)\nfor _ in range(2):\n    (w * w).sum().backward()\n"
    before = check(from_text(text, "a.py")).interpretation.tapes
    after = check(from_text(text.replace("\n", "\n\n"), "a.py")).interpretation.tapes
    there = moved(before, (("a.py", ((1, (0, 1, 2, 3)),)),), (("a.py", ((1, (0, 2, 4, 6)),)),))
    assert [tape.events for tape in there] == [tape.events for tape in after]
