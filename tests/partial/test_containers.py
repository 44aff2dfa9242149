"""Containers of numbers that code which is not visible is given: it comes to what is put into them as long as it has
them.

Each program evaluates a model in a loop, has hidden code given a container, and puts something into it. The hidden code
is one that differentiates whatever it finds in what it was given, each time that it is run: where it finds a graph of
the loop, the graphs of the loop are used.
"""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

torch = pytest.importorskip("torch")

MADE = {
    "dict": ("box = {'n': 0}", "box['n'] = VALUE"),
    "list": ("box = []", "box.append(VALUE)"),
    "nothing repeated": ("import sys\nbox = [] * len(sys.argv)", "box.append(VALUE)"),
    "set": ("box = set()", "box.add(VALUE)"),
    "lists in a dict": ("box = {'loss': []}", "box['loss'].append(VALUE)"),
    "dict in a list": ("box = [{}]", "box[0].update(loss=VALUE)"),
    "tuple in a dict": ("box = {}", "box['pair'] = (0, VALUE)"),
    "deep": ("box = {'a': {'b': {'c': []}}}", "box['a']['b']['c'].append(VALUE)"),
}
VALUES = {"number": "error.item()", "graph": "error", "detached": "error.detach()", "text": "str(error.item())"}
GIVEN = {
    "before": ("hidden.take(box)", "", ""),
    "before and run in it": ("hidden.take(box)", "", "hidden.tick()"),
    "in it": ("", "", "hidden.take(box)"),
    "in it before": ("", "hidden.take(box)", ""),
    "a part of it": (
        "for part in (box.values() if isinstance(box, dict) else box):\n    hidden.take(part)",
        "",
        "hidden.tick()",
    ),
}


def program(made: str, value: str, given: str, cleared: bool) -> str:
    begin, put = MADE[made]
    first, before, after = GIVEN[given]
    lines = [before, "error = model(torch.ones(2, 3)).pow(2).mean()", "print(error.item())"]
    lines += [put.replace("VALUE", VALUES[value]), after, "box.clear()" if cleared else ""]
    body = "".join(f"    {line}\n" for line in lines if line)
    head = "import torch\nfrom torch import nn\n\nimport hidden\n\nmodel = nn.Linear(3, 2)\n"
    return f"{head}{begin}\n{first}\nfor step in range(4):\n{body}"


class Hidden:
    """Code that keeps what it is given, and differentiates what has a graph in it whenever it is run."""

    def __init__(self) -> None:
        self.held: list[Any] = []
        self.found = False

    def take(self, given: Any) -> None:
        self.held.append(given)
        self.tick()

    def tick(self) -> None:
        waiting = [*self.held]
        while waiting:
            one = waiting.pop()
            if isinstance(one, torch.Tensor):
                self.found = self.found or one.requires_grad
            elif isinstance(one, dict):
                waiting += one.values()
            elif isinstance(one, (list, tuple, set)):
                waiting += one


def walked(text: str, capsys: pytest.CaptureFixture[str]) -> bool:
    """Return whether the hidden code comes to a graph that the loop has built."""
    hidden = Hidden()
    code = text.replace("import hidden\n", "")
    space = {"hidden": SimpleNamespace(take=hidden.take, tick=hidden.tick)}
    try:
        exec(code, space)
    except (KeyError, IndexError):
        # A program that fails is none.
        return False
    hidden.tick()
    capsys.readouterr()
    return hidden.found


@pytest.mark.parametrize("made, given", [*itertools.product(MADE, GIVEN)])
def test_what_hidden_code_comes_to_is_used(made: str, given: str, capsys: pytest.CaptureFixture[str]) -> None:
    for value, cleared in itertools.product(VALUES, (False, True)):
        text = program(made, value, given, cleared)
        told = [one for one in check(from_text(text, "scores.py")).findings if one.code == "TAPE302"]
        assert not told or not walked(text, capsys), text
        assert given == "a part of it" or not any(one.certain for one in told), text


@pytest.mark.parametrize("made", MADE)
def test_a_container_of_numbers_hides_no_evaluation(made: str) -> None:
    findings = check(from_text(program(made, "number", "in it", cleared=False), "scores.py")).findings
    assert [one.code for one in findings] == ["TAPE302"]
