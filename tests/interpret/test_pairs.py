"""Conditions that show nothing one by one, and loops that may not go round: what they do together, or one in turns, is
looked for before anything is said never to come.
"""

from __future__ import annotations

import itertools
import random

import pytest

from tapecheck.check import check
from tapecheck.interpret import limits
from tapecheck.source import from_text

_PROGRAM = """\
import random
import torch
from torch import nn

net = nn.Linear(2, 1)
held, again, both = None, [], {"loss": None}
for x in torch.ones(6, 1, 2):
    loss = net(x).pow(2).sum()
    FIRST
    loss.backward(retain_graph=True)
    SECOND
    THIRD
"""
_KEEPS = {
    "or its value": "held = loss.detach() if COIN else loss",
    "or nothing": "held = loss\nif COIN:\n    held = None",
    "in a list": "again = []\nif COIN:\n    again.append(loss)",
    "in a dict": 'both["loss"] = None if COIN else loss',
    "in turns": "if held is not None and COIN:\n    again.append(held)\nheld = loss",
    "in its place": "if COIN:\n    loss = net(x).sum()\nheld = loss",
}
_LETS_GO = {
    "never": "pass",
    "the tensor": "if COIN:\n    held = None",
    "the list": "if COIN:\n    again.clear()",
    "both": "if COIN:\n    held, again = None, []",
    "the entry": 'if COIN:\n    both["loss"] = None',
    "while it lasts": "while COIN:\n    held, again = None, []",
    "so many times": 'for one in range(int(2 * random.random())):\n    held, again, both["loss"] = None, [], None',
    "by three": "other = loss if COIN else None\nif COIN:\n    other = None\nif other is None:\n    held = None",
}
_WALKS = {
    "the tensor": "if held is not None and held.requires_grad:\n    held.backward(); held = None",
    "the list": "for one in again:\n    one.backward()\nagain = []",
    "on a condition": "if COIN:\n    if held is not None and held.requires_grad:\n        held.backward(); held = None",
    "the entry": 'if both["loss"] is not None:\n    both["loss"].backward()',
}


def _indented(lines: str) -> str:
    return lines.replace("\n", "\n    ")


def _written() -> dict[str, str]:
    return {
        ", ".join(names): _PROGRAM.replace("FIRST", _indented(_KEEPS[names[0]]))
        .replace("SECOND", _indented(_LETS_GO[names[1]]))
        .replace("THIRD", _indented(_WALKS[names[2]]))
        for names in itertools.product(_KEEPS, _LETS_GO, _WALKS)
    }


def _raises(program: str) -> bool:
    """Whether torch needs the argument for some answers to the conditions."""
    program = program.replace("import random\n", "").replace("retain_graph=True", "")
    code = compile(program.replace("COIN", "coins.random() < 0.5"), "program", "exec")
    for seed in range(24):
        try:
            coins = random.Random(seed)
            exec(code, {"coins": coins, "random": coins})
        except RuntimeError as error:
            assert "second time" in str(error)
            return True
    return False


def test_an_argument_that_some_answers_need_is_not_safely_dropped() -> None:
    pytest.importorskip("torch")
    programs = _written()
    needed = {name for name, program in programs.items() if _raises(program)}
    told = set()
    for name, program in programs.items():
        report = check(from_text(program.replace("COIN", "random.random() < 0.5"), "program.py"))
        if any(one.code == "TAPE301" and one.certain for one in report.findings):
            told.add(name)
    assert 20 < len(needed) < len(programs) - 20
    assert sorted(told & needed) == []
    assert len(told) > 0.9 * (len(programs) - len(needed))


_MANY = """\
import random
import torch
from torch import nn

net = nn.Linear(2, 1)
a = b = c = d = None
for x in torch.ones(6, 1, 2):
    loss = net(x).pow(2).sum()
    loss.backward(retain_graph=True)
    if random.random() < 0.5:
        a = loss
    if random.random() < 0.5:
        b = loss
    if random.random() < 0.5:
        c = loss
    if random.random() < 0.5:
        d = loss
"""


@pytest.mark.parametrize("times", range(3, 12))
def test_pairs_that_no_work_is_left_for_make_nothing_less_certain(times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FURTHER_WORK", 0)
    monkeypatch.setattr(limits, "FURTHER_TIMES", times)
    found = check(from_text(_MANY, "program.py")).findings
    assert [one.certain for one in found if one.code == "TAPE301"] == [True]
