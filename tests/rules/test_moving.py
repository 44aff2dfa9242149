"""Findings move with their lines, in all that names a place; one that says a line in words is left to its rule."""

from __future__ import annotations

import dataclasses

from tapecheck.rules import Finding, Label
from tapecheck.rules.facts import Lacking
from tapecheck.rules.moving import moved
from tapecheck.rules.untrained_parameter.facts import UntrainedParameterFacts
from tapecheck.tape import Moves, Span

MOVES = Moves([((("a.py", ((2, (0, 1)),)),), (("a.py", ((5, (0, 2)),)),))])


def at(line: int, file: str = "a.py") -> Span:
    return Span(file, line, 1, line, 4)


FINDING = Finding(
    "TAPE101",
    "backward-twice",
    "error",
    at(3),
    "the headline",
    "call it once",
    (Label(at(2), "built here", "built"), Label(at(2, "b.py"), "called from here", "called")),
    facts=UntrainedParameterFacts(
        stored=at(2),
        parameters=("x",),
        lacking=Lacking(kind="loose", optimizer=at(2), made=(at(3), at(3, "b.py"))),
    ),
    notes=("see `x[line 3]`, `a:1` and what follows",),
)


def test_every_place_moves() -> None:
    found = moved([FINDING], MOVES)
    assert found is not None
    assert found[0] == dataclasses.replace(
        FINDING,
        span=at(7),
        labels=(Label(at(5), "built here", "built"), FINDING.labels[1]),
        facts=UntrainedParameterFacts(
            stored=at(5),
            parameters=("x",),
            lacking=Lacking(kind="loose", optimizer=at(5), made=(at(7), at(3, "b.py"))),
        ),
    )
    assert FINDING.span == at(3) and FINDING.facts.stored == at(2)


def test_what_says_a_line_in_words_is_left_to_its_rule() -> None:
    for words in ("the backward on line 3", "the one in models.py:16", "`x` is on line 12, too"):
        assert moved([dataclasses.replace(FINDING, help=words)], MOVES) is None
        assert moved([dataclasses.replace(FINDING, notes=("", words))], MOVES) is None
        label = Label(at(2), words, "path")
        assert moved([FINDING, dataclasses.replace(FINDING, labels=(label,))], MOVES) is None
    assert moved([], MOVES) == []
