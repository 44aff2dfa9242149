"""Values that a condition chooses which nobody can decide: what they lead to is tried for what is said never to come.

A graph is retained; each program then chooses a value by its input in one way and asks it in another. Torch runs it for
some inputs without the retained graph: where one of them fails, it is not certain that the graph is not needed.
"""

from __future__ import annotations

import pytest

from tapecheck.check import check
from tapecheck.source import from_text
from tests.interpret.truth import needs_its_graph

_PROGRAM = """\
import sys
import torch

w = torch.ones(2, requires_grad=True)
loss = (w * w).sum()


class Box:
    pass


box = Box()
table = {}
loss.backward(retain_graph=True)
text = sys.stdin.read()
MAKE
ASK
"""
_MAKES = {
    "list if": "x = [1] if text else []",
    "fn if": "x = print if text else None",
    "num if": "x = 1 if text else 0",
    "str if": "x = 'a' if text else ''",
    "obj if": "x = box if text else None",
    "tuple if": "x = (1,) if text else ()",
    "dict if": "x = {1: 2} if text else {}",
    "tensor if": "x = w if text else None",
    "and": "x = text and print",
    "and list": "x = text and [1]",
    "or": "x = [] if not text else [1]",
    "stmt list": "x = []\nif text:\n    x = [1]",
    "stmt fn": "x = None\nif text:\n    x = print",
    "stmt append": "x = []\nif text:\n    x.append(1)",
    "stmt obj": "x = None\nif text:\n    x = box",
    "ret list": "def make():\n    return [1] if text else []\n\n\nx = make()",
    "ret obj": "def make():\n    if text:\n        return box\n    return None\n\n\nx = make()",
    "ret list2": "def make():\n    if text:\n        return [1]\n    return []\n\n\nx = make()",
    "attr": "box.x = [1] if text else []\nx = box.x",
    "item": "table['x'] = [1] if text else []\nx = table['x']",
    "lambda": "make = lambda: [1] if text else []\nx = make()",
    "comp": "x = [1 for _ in (range(2) if text else range(0))]",
    "nest": "x = [[1] if text else []][0]",
    "unpack": "x, y = ([1], 2) if text else ([], 3)",
    "walrus": "(x := [1] if text else [])",
    "default": "def make(v=[1] if text else []):\n    return v\n\n\nx = make()",
    "arg": "def make(v):\n    return v\n\n\nx = make([1] if text else [])",
    "or2": "x = text and print or None",
    "chain": "x = [1] if text and box else []",
    "dictget": "if text:\n    table['x'] = [1]\nx = table.get('x')",
    "set": "x = set()\nif text:\n    x.add(1)",
    "setattr": "if text:\n    setattr(box, 'x', 1)\nx = hasattr(box, 'x')",
    "try": "try:\n    text[0]\n    x = [1]\nexcept IndexError:\n    x = []",
    "flag": "x = bool(text)",
    "cmp": "x = text != ''",
    "del": "x = [1]\nif not text:\n    x.clear()",
    "slice": "x = [1][: 1 if text else 0]",
    "mul": "x = [1] * (1 if text else 0)",
    "fnp": "f = (lambda: [1]) if text else (lambda: [])\nx = f()",
    "index": "x = ([], [1])[bool(text)]",
    "method": "x = {True: [1], False: []}[bool(text)]",
    "for": "x = []\nfor _ in (range(2) if text else ()):\n    x = [1]",
    "while": "x = []\nwhile text:\n    x = [1]\n    break",
    "count": "x = len(text)",
    "list of text": "x = list(text)",
}
_INPUTS = ("", "a", "abc")
_ASKS = {
    "not": "if not x:\n    loss.backward()",
    "or": "x or loss.backward()",
    "ifexp": "loss.backward() if not x else None",
    "while": "while not x:\n    loss.backward()\n    break",
    "call": "(print if x else loss.backward)()",
    "and or": "(x and print or loss.backward)()",
    "bool": "if bool(x) is False:\n    loss.backward()",
    "arg": "def use(y):\n    if not y:\n        loss.backward()\n\n\nuse(x)",
    "flag": "empty = not x\nif empty:\n    loss.backward()",
    "sum": "n = 1 if x else 0\nfor _ in range(1 - n):\n    loss.backward()",
    "job": "job = loss.backward\nif x:\n    job = print\njob()",
    "total": "total = 0 * loss if x else loss\nif total > 0:\n    total.backward()",
    "box": "box.y = x\nif not box.y:\n    loss.backward()",
    "list": "for f in [print if x else loss.backward]:\n    f()",
    "assert": "try:\n    assert x\nexcept AssertionError:\n    loss.backward()",
    "not any": "if not any([x]):\n    loss.backward()",
}


@pytest.mark.parametrize("make", _MAKES)
def test_what_a_chosen_value_leads_to(make: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    for ask in _ASKS.values():
        program = _PROGRAM.replace("MAKE", _MAKES[make]).replace("ASK", ask)
        sure = [one for one in check(from_text(program, "chosen.py")).findings if one.certain]
        assert not sure or not needs_its_graph(program, _INPUTS, monkeypatch), program
    # It is still said of a graph that nothing needs again.
    program = _PROGRAM.replace("MAKE", _MAKES[make]).replace("ASK", "print(x)")
    found = check(from_text(program, "chosen.py")).findings
    assert [(one.code, one.certain) for one in found] == [("TAPE301", True)]
