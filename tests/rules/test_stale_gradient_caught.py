"""A condition whose other answer raises: what catches that may clear the gradients, and then TAPE403 is not certain.

Programs are put together out of what is raised, where, what catches it and what is done then. torch runs each with the
exception and without: where the two end with other weights, whoever catches it clears.
"""

from __future__ import annotations

import itertools
import random

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

torch = pytest.importorskip("torch")

PROGRAM = """\
import random
import torch

net = torch.nn.Linear(1, 1, bias=False)
opt = torch.optim.SGD(net.parameters(), lr=1.0)
seen = []

class Bad(ValueError):
    pass

def wipe():
    for p in net.parameters():
        p.grad = None

def look(value):
    if random.random() > 0.5:
        raise {raised}

def fall(value):
    look(value)
    return value

class Watch:
    def step(self, value):
        if random.random() < 0.5:
            return value
        else:
            raise {raised}

watch = Watch()
torch.nn.init.ones_(net.weight)
for x in [torch.ones(1)] * 3:
    loss = net(x).sum()
    loss.backward()
    opt.step()
    try:
{place}
    except {caught}:
        {handler}
"""
RAISED = ["ValueError('bad')", "Bad", "Bad('bad')", "KeyError(1)", "FloatingPointError"]
CAUGHT = ["ValueError", "Exception", "Bad", "(KeyError, Bad)", "ArithmeticError as error", "LookupError"]
PLACES = [
    "if random.random() > 0.5:\n    raise {raised}",
    "look(loss)",
    "fall(loss)",
    "watch.step(loss)",
    "with torch.no_grad():\n    look(loss)",
    "try:\n    look(loss)\nfinally:\n    seen.append(1)",
]
HANDLERS = ["opt.zero_grad()", "wipe()", "net.zero_grad(); print(1)", "print(1)", "seen.append(2)", "pass"]
EVERY = [*itertools.product(RAISED, CAUGHT, PLACES, HANDLERS)]


def program(raised: str, caught: str, place: str, handler: str) -> str:
    indented = "\n".join(f"        {row}" for row in place.format(raised=raised).splitlines())
    return PROGRAM.format(raised=raised, caught=caught, handler=handler, place=indented)


def weight(text: str, number: float, monkeypatch: pytest.MonkeyPatch) -> float | None:
    """Return the weight that a program ends with where each number by chance is this one, None where it raises."""
    names: dict[str, object] = {}
    monkeypatch.setattr(random, "random", lambda: number)
    try:
        exec(text, names)
    except (ValueError, KeyError, ArithmeticError):
        return None
    finally:
        monkeypatch.undo()
    network = names["net"]
    assert isinstance(network, torch.nn.Linear)
    return float(network.weight)


@pytest.mark.parametrize("seed", range(40))
def test_what_a_handler_clears_is_not_certain(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    case = random.Random(f"caught {seed}").choice(EVERY)
    text = program(*case)
    plain, other = weight(text, 0.0, monkeypatch), weight(text, 1.0, monkeypatch)
    assert plain is not None
    certain = [one.code for one in check(from_text(text, "train.py")).findings if one.certain]
    clears = other is not None and other != plain
    assert certain == ([] if clears else ["TAPE403"]), text


LATER = """\
import contextlib
import random
import torch

net = torch.nn.Linear(1, 1, bias=False)
opt = torch.optim.SGD(net.parameters(), lr=1.0)

class Guard:
    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind is not None:
            {inside}
        return {given}

def look(value):
    if random.random() > 0.5:
        raise {raised}

torch.nn.init.ones_(net.weight)
for x in [torch.ones(1)] * 3:
    loss = net(x).sum()
    loss.backward()
    opt.step()
    failed = True
{form}
    if failed:
        {after}
"""
FORMS = [
    "try:\n    look(loss)\n    failed = False\nexcept {caught}:\n    pass",
    "failed = False\ntry:\n    look(loss)\nexcept {caught}:\n    failed = True",
    "with contextlib.suppress({caught}):\n    look(loss)\n    failed = False",
    "with contextlib.suppress({caught}):\n    if random.random() > 0.5:\n        raise {raised}\n    failed = False",
    "with Guard():\n    look(loss)\n    failed = False",
    "failed = False\nwith torch.no_grad(), Guard():\n    if random.random() > 0.5:\n        raise {raised}",
]
LATE = [
    *itertools.product(
        ["ValueError('bad')", "KeyError(1)"], ["ValueError", "LookupError", "Exception"], FORMS,
        ["opt.zero_grad()", "print(1)"], ["True", "False", "None", "kind is ValueError"],
        ["net.zero_grad()", "print(1)"],
    )
]  # fmt: skip


@pytest.mark.parametrize("seed", range(60))
def test_what_is_cleared_behind_an_exception_is_not_certain(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    raised, caught, form, inside, given, after = random.Random(f"late {seed}").choice(LATE)
    block = "\n".join(f"    {row}" for row in form.format(raised=raised, caught=caught).splitlines())
    text = LATER.format(raised=raised, inside=inside, given=given, form=block, after=after)
    plain, other = weight(text, 0.0, monkeypatch), weight(text, 1.0, monkeypatch)
    assert plain is not None
    certain = [one.code for one in check(from_text(text, "train.py")).findings if one.certain]
    if other is not None and other != plain:
        assert certain == [], text
    elif inside == after == "print(1)":
        assert certain == ["TAPE403"], text
