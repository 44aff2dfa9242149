"""Loops that may not go round are passed by only where something hangs on what they do: nothing else is found so."""

from __future__ import annotations

import itertools
import random

import pytest

from tapecheck.check import check
from tapecheck.interpret.explore.watch import Watcher
from tapecheck.source import from_text
from tests.interpret.truth import needs_its_graph

_PROGRAM = """\
import sys
import torch
from torch import nn

net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
rows, table, found, total, name, held = [], {}, False, 0, "", None


class Meter:
    def __init__(self):
        self.sum = 0
        self.again = False

    def add(self, value):
        self.sum += value
        self.again = True


meter = Meter()


def keep(value):
    global found
    found = bool(value)


def count(source):
    lines = 0
    for line in source:
        lines += 1
    return lines


def fill(into, source):
    for line in source:
        into.append(line)


def around(source):
    lines = 0

    def inner():
        nonlocal lines
        for line in source:
            lines += 1

    inner()
    return lines


add = rows.append
READ
BODY
"""
_BODIES = {
    "retained": "loss = net[0](torch.ones(3, 2)).pow(2).sum()\nloss.backward(retain_graph=True)\noptimizer.step()\nUSE",
    "stale": (
        "for _ in range(4):\n    loss = net(torch.ones(3, 2)).pow(2).sum()\n    if not CHANGED:\n"
        "        optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()"
    ),
    "discarded": (
        "for _ in range(4):\n    net(torch.ones(3, 2)).pow(2).sum().backward()\n    if not CHANGED:\n"
        "        optimizer.step()\n    optimizer.zero_grad()"
    ),
    "cut": (
        "for _ in range(4):\n    hidden = net[0](torch.ones(3, 2))\n"
        "    hidden = hidden.detach() if CHANGED else hidden\n"
        "    optimizer.zero_grad()\n    net[1](hidden).pow(2).sum().backward()\n    optimizer.step()"
    ),
}
_READS = {
    "a list": "for line in sys.stdin:\n    rows.append(float(line))",
    "a dict": "for line in sys.stdin:\n    table[line] = float(line)",
    "a flag": "for line in sys.stdin:\n    found = True",
    "a sum": "for line in sys.stdin:\n    total += float(line)",
    "a count": "while sys.stdin.readline():\n    total += 1",
    "a text": "for name in sys.stdin:\n    print(name)",
    "an attribute": "for line in sys.stdin:\n    meter.sum += 1",
    "a method": "for line in sys.stdin:\n    meter.add(1)",
    "a global": "for line in sys.stdin:\n    keep(line)",
    "nothing": "for line in sys.stdin:\n    print(float(line))",
    "a cut": "for line in sys.stdin:\n    loss = loss.detach().requires_grad_()",
    "what is held": "for line in sys.stdin:\n    held = loss",
    "an exit": "for line in sys.stdin:\n    if line == 'stop':\n        sys.exit()",
    "all but the last": "for line in sys.stdin:\n    last = line\n    rows.append(last)\nelse:\n    found = not rows",
    "a list in a dict": "for line in sys.stdin:\n    table.setdefault(line[0], []).append(line)",
    "a number of a function": "total = count(sys.stdin)",
    "what it is given": "fill(rows, sys.stdin)",
    "a number of the function around": "total = around(sys.stdin)",
    "through a method": "for line in sys.stdin:\n    add(line)",
    "a comprehension in it": "for line in sys.stdin:\n    rows.append([float(cell) for cell in line.split(',')])",
    "a comprehension": "rows = [float(line) for line in sys.stdin]",
    "a comprehension of comprehensions": "rows = [[float(cell) for cell in line.split()] for line in sys.stdin]",
    "a comprehension in a name of its own": "columns = [len(line) for line in sys.stdin]",
    "a dict comprehension": "table = {line: float(line) for line in sys.stdin}",
    "a list that is made": "rows = list(map(float, sys.stdin))",
    "what a list takes in": "rows += sys.stdin",
    "what a list is extended by": "rows.extend(float(line) for line in sys.stdin)",
    "a display": "rows = [*sys.stdin]",
    "a comprehension that calls": "[meter.add(1) for line in sys.stdin]",
    "a comprehension that cuts": "losses = [loss.detach() for line in sys.stdin]",
    "a comprehension that builds": "losses = [net(torch.ones(2)) for line in sys.stdin]",
    "what others sort": "rows = sorted(line for line in open(name) if line)",
    "its own": "for line in sys.stdin:\n    words = line.split()\n    if len(words) > 1:\n        print(words)",
}
_USES = {
    "the list": "if rows:\n    net.zero_grad()\nelse:\n    loss.backward()",
    "no list": "if not rows:\n    loss.backward()",
    "its length": "if len(rows) < 2:\n    loss.backward()",
    "its end": "for row in rows:\n    loss = net(torch.ones(2)).sum()\nif loss.dim() > 0:\n    loss.backward()",
    "the dict": "if not table:\n    loss.backward()",
    "the flag": "if not found:\n    loss.backward()",
    "the sum": "if total == 0:\n    loss.backward()",
    "the count": "for _ in range(2 - int(total)):\n    loss.backward()",
    "the text": "if name == '':\n    loss.backward()",
    "the attribute": "if meter.sum == 0:\n    loss.backward()",
    "the other attribute": "if not meter.again:\n    loss.backward()",
    "what is held": "if held is None:\n    loss.backward()",
    "what another asks": "def asks(what):\n    return loss.backward() if not what else None\n\n\nasks(rows)",
    "an element": "try:\n    rows[0]\nexcept IndexError:\n    loss.backward()",
    "an assertion": "try:\n    assert rows\nexcept AssertionError:\n    loss.backward()",
    "a table": "{True: print, False: loss.backward}[bool(rows)]()",
    "a choice": "(print, loss.backward)[len(rows) == 0]()",
    "a job": "job = loss.backward\nif rows:\n    job = print\njob()",
    "a name": "if 'line' not in globals():\n    loss.backward()",
    "data": "inputs = torch.tensor(rows)\nprint(inputs)",
    "nothing": "print(rows, table, found, total, name)",
}
_CHANGED = ("rows", "found", "total", "table", "len(rows)", "bool(rows)", "meter.sum", "name")
_PROGRAMS = [
    *(_PROGRAM.replace("BODY", _BODIES["retained"]).replace("READ", read).replace("USE", use)
      for read, use in itertools.product(_READS.values(), _USES.values())),
    *(_PROGRAM.replace("BODY", body).replace("READ", read).replace("CHANGED", changed)
      for (kind, body), read, changed in itertools.product(_BODIES.items(), _READS.values(), _CHANGED)
      if kind != "retained"),
]  # fmt: skip


@pytest.mark.parametrize("part", range(16))
def test_what_is_found_where_loops_are_left_out(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where each of them is passed by."""
    for program in random.Random(part).sample(_PROGRAMS, 12):
        told = _told(program)
        with monkeypatch.context() as patched:
            patched.setattr(Watcher, "matters", lambda watcher, loop: True)
            assert told == _told(program), program


_ROWS = {
    "loop": "rows = []\nfor line in sys.stdin:\n    rows.append(line)",
    "list comprehension": "rows = [line for line in sys.stdin]",
    "set comprehension": "rows = {line for line in sys.stdin}",
    "dict comprehension": "rows = {line: 1 for line in sys.stdin}",
    "two loops": "rows = [cell for line in sys.stdin for cell in line]",
    "later loop": "rows = [cell for cell in 'ab' for line in sys.stdin]",
    "picked": "rows = [line for line in sys.stdin if line.strip()]",
    "within": "rows = max(([line for line in sys.stdin] for cell in 'ab'), key=len)",
    "list": "rows = list(sys.stdin)",
    "set": "rows = set(sys.stdin)",
    "tuple": "rows = tuple(sys.stdin)",
    "sorted": "rows = sorted(sys.stdin)",
    "map": "rows = list(map(str.strip, sys.stdin))",
    "zip": "rows = list(zip(sys.stdin, range(3)))",
    "enumerate": "rows = dict(enumerate(sys.stdin))",
    "keys": "rows = dict.fromkeys(sys.stdin)",
    "reversed": "rows = list(reversed(list(sys.stdin)))",
    "generator": "rows = list(line for line in sys.stdin)",
    "generator function": "def lines():\n    for line in sys.stdin:\n        yield line\n\n\nrows = list(lines())",
    "from": "def lines():\n    yield from sys.stdin\n\n\nrows = list(lines())",
    "display": "rows = [*sys.stdin]",
    "tuple display": "rows = (*sys.stdin,)",
    "set display": "rows = {*sys.stdin}",
    "added": "rows = []\nrows += sys.stdin",
    "added comprehension": "rows = []\nrows += [line for line in sys.stdin]",
    "extended": "rows = []\nrows.extend(sys.stdin)",
    "extended by a generator": "rows = []\nrows.extend(line for line in sys.stdin)",
    "updated": "rows = set()\nrows.update(sys.stdin)",
    "sliced": "rows = [0]\nrows[:] = [line for line in sys.stdin]",
    "part": "rows = [line for line in sys.stdin][:2]",
    "copied": "rows = [line for line in sys.stdin].copy()",
    "returned": "def read(source):\n    return [line for line in source]\n\n\nrows = read(sys.stdin)",
    "lines": "rows = sys.stdin.readlines()",
    "read": "rows = sys.stdin.read()",
    "counted": "rows = sum(1 for line in sys.stdin) * [0]",
    "joined": "rows = ''.join(sys.stdin)",
    "attribute": "class Data:\n    rows = [line for line in sys.stdin]\n\n\nrows = Data().rows",
    "counter": "import collections\nrows = collections.Counter(sys.stdin)",
    "deque": "import collections\nrows = collections.deque(sys.stdin)",
    "chain": "import itertools\nrows = list(itertools.chain(sys.stdin, []))",
    "nested": "rows = [[line for line in sys.stdin]][0]",
    "some": "import itertools\nrows = list(itertools.islice(sys.stdin, 3))",
    "some of a loop": "import itertools\nrows = []\nfor line in itertools.islice(sys.stdin, 3):\n    rows.append(line)",
    "reduced": "import functools\nrows = functools.reduce(lambda before, line: [*before, line], sys.stdin, [])",
    "passed": "def take(*lines):\n    return list(lines)\n\n\nrows = take(*sys.stdin)",
    "passed behind": "def take(*lines):\n    return lines[1:]\n\n\nrows = take(0, *sys.stdin)",
    "in place of all": "rows = [0]\nrows[:] = sys.stdin",
    "in place of one": "rows = [0]\nrows[0:1] = sys.stdin",
    "first": "rows = sys.stdin.readlines()[:1]",
    "extended by a map": "rows = []\nrows.extend(map(str.strip, sys.stdin))",
    "extended by pairs": "rows = []\nrows.extend(zip(sys.stdin, range(4)))",
    "repeated": "rows = [0] * len(list(sys.stdin))",
    "numbered": "rows = list(range(len(list(sys.stdin))))",
}
_INPUTS = ("", "1", "1\n2\n3\n4\n")
_ASKS = {
    "not": "if not rows:\n    loss.backward()",
    "bool": "if bool(rows) is False:\n    loss.backward()",
    "length": "if len(rows) == 0:\n    loss.backward()",
    "length of a list": "if len(list(rows)) < 1:\n    loss.backward()",
    "next": "if next(iter(rows), None) is None:\n    loss.backward()",
    "else": "for row in rows:\n    break\nelse:\n    loss.backward()",
    "or": "(rows and print or loss.backward)()",
    "while": "while not rows:\n    loss.backward()\n    break",
    "any": "if not any(True for row in rows):\n    loss.backward()",
    "sum": "if sum(1 for row in rows) < 1:\n    loss.backward()",
    "max": "if max((1 for row in rows), default=0) == 0:\n    loss.backward()",
    "list": "if list(rows) == []:\n    loss.backward()",
    "try": "try:\n    list(rows)[0]\nexcept IndexError:\n    loss.backward()",
    "last": "last = None\nfor row in rows:\n    last = row\nif last is None:\n    loss.backward()",
}
_ASKED = """\
import sys
import torch

w = torch.ones(2, requires_grad=True)
loss = (w * w).sum()
READ
loss.backward(retain_graph=True)
ASK
"""


@pytest.mark.parametrize("read", _ROWS)
def test_whether_there_is_any_data_at_all(read: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read may be nothing: a graph that is needed again then is retained for good."""
    pytest.importorskip("torch")
    for ask in _ASKS.values():
        program = _ASKED.replace("READ", _ROWS[read]).replace("ASK", ask)
        sure = [one.code for one in check(from_text(program, "read.py")).findings if one.certain]
        assert not sure or not needs_its_graph(program, _INPUTS, monkeypatch), program
    # It is still said of a graph that nothing needs again.
    report = check(from_text(_ASKED.replace("READ", _ROWS[read]).replace("ASK", "print(rows)"), "read.py"))
    assert [(one.code, one.certain) for one in report.findings] == [("TAPE301", True)]


def _told(program: str) -> list[tuple[str, int, bool]]:
    return [(one.code, one.span.line, one.certain) for one in check(from_text(program, "read.py")).findings]


def test_loops_that_read_data_are_not_passed_by() -> None:
    """Thirty functions that read files, and a training loop: one path tells whether its graphs are needed again."""
    reader = """
def load_NUMBER(path):
    rows = []
    with open(path) as file:
        for line in file:
            rows.append([float(cell) for cell in line.split(",")])
    return torch.tensor(rows)
"""
    readers = "".join(reader.replace("NUMBER", str(number)) for number in range(30))
    calls = "".join(f"load_{number}('rows.csv')\n" for number in range(30))
    training = _PROGRAM.replace("BODY", _BODIES["retained"]).replace("USE", "")
    without, report = (
        check(from_text(training.replace("READ", between), "read.py")) for between in ("", readers + calls)
    )
    assert [(one.code, one.certain) for one in report.findings] == [("TAPE301", True)]
    assert report.interpretation.runs == without.interpretation.runs
