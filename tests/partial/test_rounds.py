"""A condition that is asked in each round of a loop may be answered otherwise in the next one.

Programs that ask one, run under torch with each sequence of answers: nothing is certain of a line that some of them
come to without an error.
"""

from __future__ import annotations

import itertools
import sys
import types
from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.source import from_text
from tests.cases import under_torch

HEAD = """\
import json
import random
import torch
from torch import nn

{answers}
w = torch.ones(3, requires_grad=True)
net = nn.Linear(3, 1)
x = torch.ones(2, 3)
"""
VISIBLE = 'answers = json.load(open("settings.json"))["answers"]'
ASKED = {
    "an entry": ("for step in range(3):", "answers[step]"),
    "an entry by its name": ("for name in ('0', '1', '2'):", "answers[int(name)] == True"),
    "the element": ("for answer in answers:", "answer"),
    "an element beside others": ("for part, answer in zip(range(3), answers):", "answer"),
    "what comes next": ("for step in range(3):", "answers.pop(0)"),
    "a number": ("for step in range(3):", "float(answers[step]) > 0.5"),
    "one of several": ("for step in range(3):", "step in [n for n, one in enumerate(answers) if one]"),
}
STEPS = {
    "either of two": """\
a, b = (w * w).sum(), (w * w).sum()
{loop}
    if {test}:
        a.backward()  # here
        a = (w * w).sum()
    else:
        b.backward()  # here
""",
    "one before the loop": """\
loss = (w * w).sum()
{loop}
    if {test}:
        loss.backward()  # here
""",
    "kept, then walked": """\
loss = None
{loop}
    if {test}:
        loss = net(x).tanh().sum()
    elif loss is not None:
        loss.backward()  # here
""",
    "walked, then built": """\
loss = net(x).tanh().sum()
{loop}
    if {test}:
        loss.backward()  # here
    else:
        loss = net(x).tanh().sum()
""",
    "retained or not": """\
loss = (w * w).sum()
{loop}
    loss.backward(retain_graph={test})  # here
""",
    "skipped": """\
loss = (w * w).sum()
{loop}
    if not {test}:
        continue
    loss.backward()  # here
""",
    "left": """\
loss = (w * w).sum()
{loop}
    loss.backward()  # here
    if {test}:
        break
""",
    "one that has no graph": """\
parts = [w.detach(), w * 2, w * 3]
done = 0
{loop}
    done += 1
    if {test}:
        parts[done - 1].sum().backward()  # here
""",
    "changed in place": """\
h = w * 2
loss = h.exp().sum() + (h * h).sum()
{loop}
    if {test}:
        loss.backward()  # here
        loss = (w * 2).sum()
    else:
        h.add_(1)
""",
    "cut now and then": """\
h = w * 2
{loop}
    h.sum().backward(retain_graph=True)  # here
    h = h.detach() if {test} else h * 2
""",
}


def _program(asked: str, step: str, answers: str = VISIBLE) -> str:
    loop, test = ASKED[asked]
    return HEAD.format(answers=answers) + STEPS[step].format(loop=loop, test=test)


def _sure_lines(text: str) -> set[int]:
    """Return the lines of which an error is said for certain."""
    found = check(from_text(text, "program.py")).findings
    return {one.span.line for one in found if one.certain and one.severity == "error"}


@pytest.mark.skipif(not under_torch.has_torch(), reason="needs torch")
@pytest.mark.parametrize("step", STEPS)
def test_nothing_is_certain_that_some_answers_pass(step: str, tmp_path: Path) -> None:
    sequences = [*itertools.product((True, False), repeat=3)]
    programs = [(asked, answers) for asked in ASKED for answers in sequences]
    requests = []
    for number, (asked, answers) in enumerate(programs):
        lines = _program(asked, step, f"answers = {[*answers]}").splitlines()
        told = [line.replace("  # here", f"; print({at})") for at, line in enumerate(lines, 1)]
        path = tmp_path / f"{number}.py"
        path.write_text("\n".join(told) + "\n")
        requests.append({"path": path, "seconds": 20})
    passed: dict[str, set[int]] = {}
    for (asked, _), ran in zip(programs, under_torch.run_all(requests), strict=True):
        if ran["exception"] is None:
            passed.setdefault(asked, set()).update(map(int, ran["output"].split()))
    assert passed, "each sequence of answers raises"
    wrong = {asked: _sure_lines(_program(asked, step)) & lines for asked, lines in passed.items()}
    assert {asked: lines for asked, lines in wrong.items() if lines} == {}


@pytest.mark.parametrize("asked", ASKED)
def test_what_each_round_does_is_certain(asked: str) -> None:
    text = _program(asked, "one before the loop").replace("if " + ASKED[asked][1], "if len(answers) >= 0")
    assert _sure_lines(text) == {len(text.splitlines())}


WHILES = {
    "a call": ("", "hidden.more()", ""),
    "what a call gave": ("more = hidden.more()\n", "more", "    more = hidden.more()\n"),
    "no call": ("", "not hidden.done()", ""),
    "a flag": ("done = False\n", "not done", "    done = hidden.done()\n"),
    "a part of what a call gives": ("done = False\n", "not done", "    _, done = hidden.step()\n"),
    "an attribute": ("state = hidden.State()\n", "not state.done", "    state.step()\n"),
    "both": ("", "hidden.more() and hidden.more()", ""),
    "not both": ("", "not (hidden.done() and hidden.done())", ""),
    "either": ("", "hidden.more() or hidden.more()", ""),
    "beside a count": ("n = 0\n", "n < 9 and hidden.more()", "    n += 1\n"),
    "a number": ("", "hidden.left() > 0", ""),
    "a length": ("rows = hidden.rows()\n", "len(rows)", "    rows.pop()\n"),
    "a queue": ("rows = hidden.rows()\n", "rows", "    rows.pop()\n"),
    "none": ("", "hidden.item() is not None", ""),
    "assigned": ("", "(item := hidden.item()) is not None", ""),
    "left by a break": ("", "True", "    if hidden.done():\n        break\n"),
    "left by a return": ("", "True", "    if not hidden.more():\n        raise SystemExit\n"),
}
PLAIN = {
    "counted": ("n = 0\n", "n < hidden.many", "    n += 1\n"),
    "counted to a number": ("n = 0\n", "n < 3", "    n += 1\n"),
    "endless": ("", "True", ""),
}
ROUNDS = {
    "one graph": "loss = (w * w).sum()\n{before}while {test}:\n    loss.backward()\n{after}",
    "a chain": "h = w * 2\n{before}while {test}:\n    h = h * w\n    h.sum().backward()\n{after}",
    "a function": (
        "loss = (w * w).sum()\n\n\ndef train():\n    loss.backward()\n\n\n{before}while {test}:\n    train()\n{after}"
    ),
    "a change": (
        "h = w * 2\nloss = (h * h).sum()\n{before}while {test}:\n    loss.backward(retain_graph=True)\n"
        "    h.data_ptr()\n    h.mul_(2)\n{after}"
    ),
}


def _hidden() -> types.ModuleType:
    """Return a module whose answers lead through a loop once."""
    module = types.ModuleType("hidden")
    answers = iter([True])
    module.more = lambda: next(answers, False)  # type: ignore[attr-defined]
    module.done = lambda: True  # type: ignore[attr-defined]
    module.step = lambda: (0, True)  # type: ignore[attr-defined]
    module.left = lambda: int(next(answers, False))  # type: ignore[attr-defined]
    module.rows = lambda: [1]  # type: ignore[attr-defined]
    module.item = lambda: next(answers, None)  # type: ignore[attr-defined]
    module.many = 3  # type: ignore[attr-defined]
    module.State = type("State", (), {"done": False, "step": lambda self: setattr(self, "done", True)})  # type: ignore[attr-defined]
    return module


@pytest.mark.parametrize("rounds", ROUNDS)
def test_a_loop_that_code_not_visible_ends_may_go_round_once(rounds: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    told = []
    for before, test, after in (*WHILES.values(), *PLAIN.values()):
        body = ROUNDS[rounds].format(before=before, test=test, after=after)
        text = f"import hidden\nimport torch\n\nw = torch.ones(3, requires_grad=True)\n{body}"
        sure = _sure_lines(text)
        monkeypatch.setitem(sys.modules, "hidden", _hidden())
        try:
            exec(compile(text, "program.py", "exec"), {})
        except RuntimeError:
            told.append(bool(sure))
        except SystemExit:
            assert not sure, text
        else:
            assert not sure, text
    assert told.count(True) >= len(PLAIN)
