"""Values of hidden code that the program asks for their kind and keeps: a question takes a graph on one way alone.

Torch runs each program with hidden code that gives a tensor with a graph, a number, None or a text. Where one of them
has the program keep the graphs of all iterations, that is a possible finding; where none does, nothing is said. What
raises is no completion of the program.
"""

from __future__ import annotations

import itertools
import types
from collections.abc import Iterator
from typing import Any

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

torch = pytest.importorskip("torch")

PROGRAM = """\
import torch
import mylib
class Meter:
    def __init__(self):
        self.total = 0.0
    def update(self, v, n=1):
        self.total += v * n
def train(model, criterion, data, optimizer):
    model.train()
    criterion.train()
    meter = Meter()
    kept = []
    for x, y in data:
        losses = criterion(model(x), y)
        weights = criterion.weights
        loss = sum(losses[k] * weights[k] for k in losses.keys() if k in weights)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        v = losses['error']
        {body}
    print(len(kept), meter)
"""
WALKED = """\
import torch
import mylib
from hidden import loss_of
model = torch.nn.Linear(3, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
kept = []
for x, y in torch.load("data.pt"):
    v = loss_of(model(x), y)
    optimizer.zero_grad()
    v.backward()
    optimizer.step()
    {body}
print(len(kept))
"""
QUESTIONS = (
    "isinstance(v, (int, float))",
    "isinstance(v, float)",
    "isinstance(v, str)",
    "isinstance(v, mylib.float)",
    "v is None",
)
STORES = {"list": "kept.append(v)", "chain": "meter.update(v)", "weighed": "kept.append(v * 2)"}
WAYS = {
    "asked before": "if {asked}:\n            print(v)\n        {stored}",
    "asked after": "{stored}\n        if {asked}:\n            print(v)",
    "asked and left": "if {asked}:\n            continue\n        {stored}",
    "left unless": "if not {asked}:\n            continue\n        {stored}",
    "raised": "if {asked}:\n            raise TypeError\n        {stored}",
    "raised unless": "if not {asked}:\n            raise TypeError\n        {stored}",
    "asserted": "assert {asked}\n        {stored}",
    "asserted not": "assert not {asked}\n        {stored}",
    "on yes": "if {asked}:\n            {stored}",
    "on no": "if {asked}:\n            pass\n        else:\n            {stored}",
    "on not": "if not {asked}:\n            {stored}",
    "number on no": "if not {asked}:\n            v = v.item()\n        {stored}",
    "told": "print('plain' if {asked} else 'other')\n        {stored}",
    "told of all": "print([k for k in losses if {asked}])\n        {stored}",
    "and": "if {asked} and len(losses) > 1:\n            print(v)\n        {stored}",
    "or": "if len(losses) > 5 or {asked}:\n            print(v)\n        {stored}",
    "function": "log = lambda v: print(v) if {asked} else None\n        log(v)\n        {stored}",
    "number taken": "shown = v if {asked} else v.item()\n        print(shown)\n        {stored}",
}
# What is asserted to be None no program keeps.
PAIRS = [(way, asked) for way in WAYS for asked in QUESTIONS if (way, asked) != ("asserted", "v is None")]
GIVEN = {
    "tensor": lambda out: out.pow(2).mean(),
    "float": lambda out: 0.5,
    "none": lambda out: None,
    "text": lambda out: "0.5",
}
"""What the hidden code may give under `error`."""
NUMBERS = {"number": float, "tensor": torch.Tensor}
"""What `mylib.float` may be."""


def kept_nodes(value: object) -> int:
    """Return how many nodes of graphs a value leads to."""
    found: set[object] = set()
    stack = [value]
    while stack:
        one = stack.pop()
        if isinstance(one, (list, tuple)):
            stack += one
        elif isinstance(one, torch.Tensor):
            stack.append(one.grad_fn)
        elif one is not None and one not in found and hasattr(one, "next_functions"):
            found.add(one)
            stack += [other for other, _ in one.next_functions]
    return len(found)


def grows(program: str, given: str, number: type) -> bool:
    """Whether torch keeps more graphs after six batches than after three, with hidden code that is put in place."""
    source = program.replace("import mylib\n", "").replace("print(len(kept), meter)", "return kept, meter.total")
    names: dict[str, Any] = {"mylib": types.SimpleNamespace(float=number)}
    exec(compile(source, "program.py", "exec"), names)
    model = torch.nn.Linear(3, 4)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    criterion = torch.nn.Module()
    criterion.weights = {"loss": 1.0}
    criterion.forward = lambda out, y: {"loss": out.mean(), "error": GIVEN[given](out)}
    short, long = ([(torch.randn(2, 3), None)] * batches for batches in (3, 6))
    before = kept_nodes(names["train"](model, criterion, short, optimizer))
    return kept_nodes(names["train"](model, criterion, long, optimizer)) > before


def completions(program: str) -> Iterator[bool]:
    """Yield for each completion of a program under which it does not raise whether it keeps all graphs."""
    for given, number in itertools.product(GIVEN, NUMBERS if "mylib.float" in program else ("number",)):
        try:
            yield grows(program, given, NUMBERS[number])
        except (AssertionError, AttributeError, TypeError, ValueError):
            continue


def told(program: str) -> bool:
    found = [one for one in check(from_text(program, "train.py")).findings if one.code == "TAPE201"]
    assert not any(one.certain for one in found)
    return bool(found)


@pytest.mark.parametrize(("way", "asked"), PAIRS)
def test_what_a_question_leaves_a_graph_is_told_of(way: str, asked: str) -> None:
    wrong = {}
    for name, stored in STORES.items():
        program = PROGRAM.format(body=WAYS[way].format(asked=asked, stored=stored))
        expected = any(completions(program))
        if told(program) != expected:
            wrong[name] = expected
    assert not wrong


@pytest.mark.parametrize("asked", QUESTIONS)
def test_a_backward_shows_that_it_is_no_number(asked: str) -> None:
    ways = ("asked before", "asked after", "asked and left", "on no", "number taken")
    bodies = [WAYS[way].format(asked=asked, stored=STORES["list"]).replace("\n    ", "\n") for way in ways]
    assert [told(WALKED.format(body=body)) for body in bodies] == [True] * len(ways)
