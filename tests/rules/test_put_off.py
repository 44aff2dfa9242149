"""What a finding says never comes may come on any way: the other answers are tried before it is told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tapecheck.check import Report, check
from tapecheck.interpret import limits
from tapecheck.rules import ALL
from tapecheck.source import from_text
from tapecheck.source.project import Setup

BESIDE = (
    "{}import random as drawn, torch as t\naside = t.nn.Linear(2, 2)\nif {}:\n    seen = aside(t.ones(2))\n"
    "else:\n    seen = aside(t.zeros(2))\nseen = seen * 2\n"
)
"""What hangs on the condition is how a graph is computed that nothing else reads."""
EVALUATED = (
    "import random, torch\nfrom torch import nn\na, b = nn.Linear(2, 2), nn.Linear(2, 2)\n"
    "optimizer = torch.optim.SGD([*a.parameters(), *b.parameters()], lr=0.1)\nfor _ in range(3):\n    a.eval()\n"
    "    seen = a(torch.ones(1, 2))\n    b.train()\n    other = b(torch.ones(1, 2))\n{}"
    "    loss = used.sum()\n    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n"
)
"""A program whose loss may be computed from what a model gives that is evaluated."""
EITHER = "    if {}:\n        used = other\n    else:\n        used = seen\n"


def _programs() -> Iterator[tuple[str, str]]:
    for rule in ALL:
        if rule.unfinished:
            for number, example in enumerate(rule.page.invalid):
                yield f"{rule.code}-{number}", example.program


PROGRAMS = [pytest.param(text, id=name) for name, text in _programs()]


def _check(text: str, effort: int = 1) -> Report:
    source = from_text(text, "program.py")
    return check(source, project=Setup(effort=effort).project_of(source.path))


def _told(report: Report) -> list[tuple[str, int, bool, str]]:
    return [(one.code, one.span.line, one.certain, one.message) for one in report.findings]


def _beside(program: str, condition: str) -> str:
    first, _, rest = program.rpartition("from __future__ import annotations\n")
    return BESIDE.format(first, condition) + rest


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_condition_beside_a_finding_changes_nothing_of_it(program: str) -> None:
    assert _told(_check(_beside(program, "drawn.random() < 0.5"))) == _told(_check(_beside(program, "1 < 2")))


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_limit_is_told_where_more_effort_would_look_further(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FURTHER_WORK", 0)
    monkeypatch.setattr(limits, "FURTHER_TIMES", 0)
    monkeypatch.setattr(limits, "PROBE_TIMES", 0)
    beside = _beside(program, "drawn.random() < 0.5")
    cut = [one for one in _check(beside).findings if any(on.kind == "limit" for on in one.rests_on)]
    assert all(not one.certain and any("work limit was reached" in note for note in one.notes) for one in cut)
    monkeypatch.undo()
    assert not any(on.kind == "limit" for one in _check(beside, 4).findings for on in one.rests_on)


@pytest.mark.parametrize("condition", ["random.random() < 0.5", "not random.random() < 0.5", "torch.rand(1) < 0.5"])
def test_what_another_answer_uses_is_not_needless(condition: str) -> None:
    alone, either = EVALUATED.format("    used = other\n"), EVALUATED.format(EITHER.format(condition))
    assert [one.code for one in _check(alone).findings] == ["TAPE302"]
    assert "TAPE302" not in [one.code for one in _check(either).findings]
