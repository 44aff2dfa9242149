"""Python's own semantics: what a program shows is the same in the dry run, and nothing of it is left undecided."""

from __future__ import annotations

import pytest

from tapecheck.interpret import interpret
from tapecheck.source import from_text
from tapecheck.tape import Decision, End
from tests.interpret.programs import semantics

PRELUDE = """\
import torch
SEEN = []

def show(*values):
    SEEN.append(values)

def assert_shown(expected):
    if SEEN != expected:
        raise AssertionError([pair for pair in zip(SEEN, expected) if pair[0] != pair[1]])

requires_grad = "the dry run looks at files that train"
"""
PROGRAMS = semantics.PROGRAMS


@pytest.mark.parametrize("name", PROGRAMS)
def test_python_shows_what_the_program_says(name: str) -> None:
    pytest.importorskip("torch")
    code = compile(PRELUDE + PROGRAMS[name], "program.py", "exec", dont_inherit=True)
    exec(code, {"__name__": "__main__"})


@pytest.mark.parametrize("name", PROGRAMS)
def test_dry_run_shows_the_same_and_knows_it(name: str) -> None:
    tape = interpret(from_text(PRELUDE + PROGRAMS[name], "program.py")).tapes[0]
    undecided = [event.at.span.line for event in tape.events if isinstance(event, Decision)]
    end = tape.events[-1]
    assert isinstance(end, End)
    assert (end.how, end.detail, undecided) == ("finished", "", [])
