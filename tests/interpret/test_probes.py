"""Conditions that are too many to be tried one by one: together they show what each would show."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Set
from typing import Any, cast

import pytest

from tapecheck.check import Report, check
from tapecheck.interpret import limits
from tapecheck.interpret.explore.probes import Probes
from tapecheck.interpret.explore.ways import Way
from tapecheck.interpret.state import Place, Policy
from tapecheck.source import from_text
from tapecheck.source.project import Setup
from tapecheck.tape import Decision, End, Site, Span, Tape

HEAD = """\
import sys
import torch
from torch import nn

net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
kept = []
{options}
for x in [torch.ones(2, 4)] * 6:
    x = x + 0
{body}"""
PLAIN = """\
    if a{0}:
        x = torch.tanh(x + {0})
    else:
        x = torch.sigmoid(x - {0})
"""
STEP = """\
    loss = net(x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
MISTAKES = {
    "TAPE101": STEP + "    if a{0}:\n        loss.backward()\n",
    "TAPE201": STEP + "    if a{0}:\n        kept.append(net(x).mean())\n",
    "TAPE403": STEP.replace("    opt.zero_grad()\n", "    if a{0}:\n        opt.zero_grad()\n"),
    "TAPE401": STEP.replace("loss.backward()", "(loss.detach() if a{0} else loss).backward()"),
}
MANY = 24


def _program(mistake: str, place: int, answers: str) -> str:
    """Return a program of many conditions that a run of it decides, of which one is about a mistake."""
    options = "".join(f"a{number} = len(sys.argv) > {number + 1}\n" for number in range(MANY))
    body = "".join(PLAIN.format(number) for number in range(MANY) if number != place) + mistake.format(place)
    if answers == "no":
        body = body.replace(f"if a{place}", f"if not a{place}")
    return HEAD.format(options=options, body=body)


def _codes(report: Report) -> set[str]:
    return {one.code for one in report.findings}


def _scarce(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FURTHER_WORK", 0)
    monkeypatch.setattr(limits, "FURTHER_TIMES", 1)


def _programs() -> Iterator[tuple[str, str, int, str]]:
    drawn = random.Random(3)
    for (code, mistake), answers in itertools.product(MISTAKES.items(), ("yes", "no")):
        yield code, mistake, drawn.randrange(MANY), answers


@pytest.mark.parametrize("code, mistake, place, answers", list(_programs()))
def test_what_one_of_many_conditions_does_is_found_without_trying_each(
    code: str, mistake: str, place: int, answers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = from_text(_program(mistake, place, answers), "program.py")
    thorough = check(source, project=Setup(effort=40).project_of(source.path))
    _scarce(monkeypatch)
    scarce = check(source)
    assert scarce.interpretation.runs <= 12 < MANY
    assert [(one.key, one.certain) for one in scarce.findings] == [(one.key, one.certain) for one in thorough.findings]
    assert [one.kind for one in scarce.interpretation.cut_short if one.kind == "paths"] == []


def test_what_only_three_answers_at_once_would_do_is_not_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """No run may have such a combination: a probe is no way of its own."""
    options = "".join(f"a{number} = len(sys.argv) == {number + 2}\n" for number in range(MANY))
    body = "".join(PLAIN.format(number) for number in range(MANY)) + STEP
    body += "    if a1:\n        pass\n    elif a3:\n        pass\n    elif a5:\n        loss.backward()\n"
    body = body.replace("if a1:\n        pass", "if not a1 or not a3:\n        pass")
    _scarce(monkeypatch)
    report = check(from_text(HEAD.format(options=options, body=body), "program.py"))
    assert _codes(report) == set()


def test_what_a_larger_group_disproves_is_not_said_where_the_work_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many conditions one clears the gradients: which one is not found, that one of them may is."""
    mistake = STEP.replace("    opt.zero_grad()\n", "    if not a{0}:\n        opt.zero_grad()\n")
    text = _program(mistake, 7, "yes")
    _scarce(monkeypatch)
    monkeypatch.setattr(limits, "MOST_PROBES", 1)
    report = check(from_text(text, "program.py"))
    assert _codes(report) == set()


class _Program:
    """A program of conditions, of which some answers are refused: it raises where it comes to one of these."""

    def __init__(self, refused: set[int], late: bool) -> None:
        self.refused = refused
        self.late = late
        """Whether it asks two more conditions before it raises."""
        self.probes = 0
        self.alone: list[Place] = []

    has_work = True

    def probe(self, way: Way) -> tuple[Tape, Set[Place]]:
        self.probes += 1
        places = [_place(number) for number in range(MANY)]
        bad = [place for place in places if place in way.policy.patterns and place[1] in self.refused]
        if bad:
            places = places[: bad[0][1] + (3 if self.late else 1)]
        tape = Tape("a test")
        for file, line, column in places:
            tape.events.append(Decision(Site(Span(file, line, column, line, column + 1)), "a", True))
        tape.events.append(End("raised" if bad else "finished", str(bad[:1])))
        return tape, set(places)

    def try_way(self, way: Way) -> None:
        assert way.turned is not None
        self.alone.append(way.turned)


class _Unchanged:
    def changed_by(self, tapes: list[Tape], tape: Tape) -> bool:
        return False


def _place(number: int) -> Place:
    return "program.py", number, 0


@pytest.mark.parametrize(
    "refused, late",
    [({0}, False), ({23}, False), ({0, 9, 17}, False), ({3, 4, 5, 20}, False), ({0}, True), ({11}, True)],
)
def test_answers_that_a_program_refuses_are_taken_out_of_a_group(refused: set[int], late: bool) -> None:
    program = _Program(refused, late)
    probes = Probes(program, cast("Any", _Unchanged()), [], by_default=False)
    probes.try_all([Way(Policy({_place(number): (True,)}), _place(number)) for number in range(MANY)])
    assert {place[1] for place in program.alone} >= refused
    assert {place[1] for place in probes.done} == set(range(MANY)) - {place[1] for place in program.alone}
    if not late:
        assert program.probes == len(refused) + 1
        assert {place[1] for place in program.alone} == refused


def test_a_group_that_makes_a_program_long_is_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """One answer that leads to much more work leaves enough for the others."""
    long = "        for _ in range(40):\n            x = torch.tanh(torch.sigmoid(x) + 1) * 2 - 1\n" * 12
    text = _program(MISTAKES["TAPE101"], 11, "yes").replace("    if a5:\n", "    if a5:\n" + long)
    source = from_text(text, "program.py")
    _scarce(monkeypatch)
    assert "TAPE101" in _codes(check(source))
