"""Tapes survive the way to a file and back, and a writer that died."""

from __future__ import annotations

import dataclasses
import io
import typing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapecheck.tape import Backward, End, Event, Node, Root, Saved, Site, Span, Tape, TapeError, read_tape, write_tape

_spans = st.builds(Span, st.just("train.py"), *[st.integers(1, 99)] * 4)
_sites = st.builds(
    Site, _spans, st.text(max_size=5), st.tuples(_spans), st.tuples(st.tuples(st.integers(1, 9), st.integers(1, 9)))
)


def _strategy(kind: type) -> st.SearchStrategy[Event]:
    hints = typing.get_type_hints(kind)
    fields = {field.name: _value(hints[field.name]) for field in dataclasses.fields(kind)}
    return st.builds(kind, **fields)


def _value(hint: object) -> st.SearchStrategy[object]:
    if hint is Site:
        return _sites
    if hint is Span:
        return _spans
    if dataclasses.is_dataclass(hint):
        return _strategy(hint)  # type: ignore[arg-type]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        return st.lists(_value(arguments[0]), max_size=2).map(tuple)
    if arguments and origin is not typing.Literal:
        return st.one_of([_value(argument) for argument in arguments])
    return st.none() if hint is type(None) else st.from_type(hint)  # type: ignore[arg-type]


_events = st.one_of([_strategy(kind) for kind in typing.get_args(Event)])


@settings(max_examples=150, deadline=None)
@given(st.lists(_events, max_size=6))
def test_a_tape_comes_back_as_it_was_written(events: list[Event]) -> None:
    file = io.StringIO()
    write_tape(Tape("test", events), file)
    back = read_tape(file.getvalue().splitlines())
    # NaN is no equal of itself; the text of both is.
    assert repr(back.events) == repr(events)


AT = Site(Span("train.py", 3, 5, 3, 9), "step", (Span("train.py", 9, 1, 9, 7),), ((1, 2),))


def _lines() -> list[str]:
    file = io.StringIO()
    node = Node(2, "exp", AT, (1,), (Saved(1, 0, "result", 2),), "yes")
    write_tape(Tape("record", [node, Backward(1, AT, "backward", (Root(2),)), End("finished")]), file)
    return file.getvalue().splitlines()


def test_a_torn_last_line_is_dropped() -> None:
    lines = _lines()
    tape = read_tape([*lines[:-1], lines[-1][:5]])
    assert len(tape.events) == 2 and not tape.complete


def test_a_broken_line_in_the_middle_is_an_error() -> None:
    lines = _lines()
    with pytest.raises(TapeError, match="line 3"):
        read_tape([*lines[:2], "{", *lines[3:]])


@pytest.mark.parametrize("text", ["", "hello", "[]", '{"tape": 99, "producer": "x"}'])
def test_what_is_no_tape_is_refused(text: str) -> None:
    with pytest.raises(TapeError):
        read_tape([text])
