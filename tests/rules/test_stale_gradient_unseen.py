"""What clears gradients where no text says so: behind an exception that nobody has seen raised, or by a stored call.

Programs are put together out of what may raise, or chooses, and of what is done then. torch runs each with every number
by chance 0 and 1: where the two end with other weights, gradients are cleared in one, and TAPE403 is not certain.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import random
import sys
import textwrap
import types

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

torch = pytest.importorskip("torch")

HEAD = """\
import asyncio
import contextlib
import functools
import random
import sys
import torch

net = torch.nn.Linear(1, 1, bias=False)
opt = torch.optim.SGD(net.parameters(), lr=1.0)
torch.nn.init.ones_(net.weight)
actions = {"clear": opt.zero_grad, "keep": print}
wipe = opt.zero_grad

def fail(kind=ValueError):
    raise kind("bad")

def check():
    assert random.random() < 0.5, "bad"

def steps():
    yield 1
    if random.random() > 0.5:
        fail()

class Thing:
    @property
    def bad(self):
        return random.random() > 0.5

    @property
    def part(self):
        return fail() if self.bad else 1

    def __getitem__(self, key):
        if self.bad:
            raise KeyError(key)
        return key

    def __bool__(self):
        return self.bad

    def clear(self):
        opt.zero_grad()

    def keep(self):
        print(1)

thing = Thing()

class Guard:
    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind is not None:
            opt.zero_grad()
        return True

class Other(Guard):
    def __exit__(self, kind, value, trace):
        if kind is not None:
            raise RuntimeError("other")

class Later(Guard):
    async def __aenter__(self):
        return self

    async def __aexit__(self, kind, value, trace):
        return self.__exit__(kind, value, trace)

@contextlib.contextmanager
def guard():
    try:
        yield
    except BaseException:
        actions["clear"]()

def left(kind, value, trace):
    if kind is not None:
        opt.zero_grad()
    return True

def guarded(function):
    def inner():
        try:
            function()
        except BaseException:
            wipe()
    return inner

"""
LOOP = """\
for x in [torch.ones(1)] * 3:
    loss = net(x).sum()
    loss.backward()
    opt.step()
"""
RAISES = [
    "if random.random() > 0.5:\n    raise ValueError",
    "assert random.random() < 0.5",
    "check()",
    "if random.random() > 0.5:\n    sys.exit(1)",
    "if random.random() > 0.5:\n    fail(SystemExit)",
    "fail() if random.random() > 0.5 else 1",
    "random.random() > 0.5 and fail(KeyError)",
    "int('1' if random.random() < 0.5 else 'x')",
    "{0: 1}[round(random.random())]",
    "[1][round(random.random())]",
    "1 / (1 - round(random.random()))",
    "getattr(opt, 'step' if random.random() < 0.5 else 'nothing')",
    "hidden_part.risky(1)",
    "thing.part",
    "thing['x']",
    "list(steps())",
    "while random.random() > 0.5:\n    fail()",
    "match random.random() > 0.5:\n    case True:\n        fail()",
]
BLOCKS = """\
try:
    {raises}
except BaseException:
    opt.zero_grad()

try:
    {raises}
except BaseException:
    actions['clear']()

try:
    {raises}
except BaseException:
    for act in [wipe]:
        act()

try:
    {raises}
except BaseException:
    getattr(opt, 'zero_' + 'grad')()

try:
    {raises}
except BaseException:
    functools.partial(wipe, set_to_none=True)()

try:
    {raises}
except OSError:
    pass
except BaseException as error:
    thing.clear()

try:
    try:
        {raises}
    except BaseException as e:
        raise RuntimeError('x') from e
except RuntimeError:
    opt.zero_grad()

try:
    try:
        {raises}
    except BaseException as e:
        sys.exit(2)
except SystemExit:
    opt.zero_grad()

bad = True
for _ in range(1):
    try:
        {raises}
        bad = False
    finally:
        break
if bad:
    opt.zero_grad()

bad = True
try:
    {raises}
except BaseException:
    pass
else:
    bad = False
if bad:
    opt.zero_grad()

seen = []
try:
    {raises}
except BaseException as e:
    seen.append(1)
if seen:
    opt.zero_grad()

with Guard():
    {raises}

try:
    with Other():
        {raises}
except RuntimeError:
    opt.zero_grad()

with guard():
    {raises}

async def go():
    async with Later():
        {raises}
asyncio.run(go())

with contextlib.ExitStack() as stack:
    stack.push(left)
    {raises}

with contextlib.ExitStack() as stack:
    stack.enter_context(Guard())
    {raises}

@guarded
def work():
    {raises}
work()
"""
CATCHES = BLOCKS.split("\n\n")
CHOOSES = [
    "if random.random() > 0.5:\n    {acts}()",
    "random.random() > 0.5 and {acts}()",
    "({acts} if random.random() > 0.5 else print)()",
    "(print, {acts})[random.random() > 0.5]()",
    "[print, {acts}][round(random.random())]()",
    "{{True: {acts}, False: print}}[random.random() > 0.5]()",
    "(thing.keep, thing.clear)[thing.bad]()",
    "getattr(thing, 'clear' if thing else 'keep')()",
    "for act in [{acts}][:int(thing.bad)]:\n    act()",
    "for act in filter(lambda one: thing.bad, [{acts}]):\n    act()",
    "todo = []\nif thing:\n    todo.append({acts})\nwhile todo:\n    todo.pop()()",
    "match thing.bad:\n    case True:\n        {acts}()",
    "n = 0\nwhile not (n or not thing):\n    {acts}()\n    n = 1",
    "(lambda bad: {acts}() if bad else 0)(thing.bad)",
    "functools.reduce(lambda one, act: act() if thing else one, [{acts}], 0)",
    "actions['clear' if thing.bad else 'keep']()",
]
ACTS = ["opt.zero_grad", "actions['clear']", "wipe", "getattr(opt, 'zero_' + 'grad')", "thing.clear"]
CAUGHT = [*itertools.product(CATCHES, RAISES)]
CHOSEN = [*itertools.product(CHOOSES, ACTS)]


def caught(form: str, raises: str) -> str:
    """Return a program with what may raise in the place of its name, as far indented as that."""
    (row,) = [row for row in form.splitlines() if "{raises}" in row]
    indented = textwrap.indent(raises, row[: -len("{raises}")])
    return program(form.replace(row, indented))


def program(block: str) -> str:
    return f"import hidden_part\n{HEAD}{LOOP}{textwrap.indent(block, '    ')}\n"


def weight(text: str, number: float, monkeypatch: pytest.MonkeyPatch) -> float:
    """Return the weight that a program ends with where each number by chance is this one."""
    hidden = types.ModuleType("hidden_part")
    exec("import random\ndef risky(value):\n    if random.random() > 0.5:\n        raise ValueError", hidden.__dict__)
    names: dict[str, object] = {}
    monkeypatch.setitem(sys.modules, "hidden_part", hidden)
    monkeypatch.setattr(random, "random", lambda: number)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(text, names)
    finally:
        monkeypatch.undo()
    network = names["net"]
    assert isinstance(network, torch.nn.Linear)
    return float(network.weight.detach())


def judged(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert weight(text, 0.0, monkeypatch) == -5 and weight(text, 1.0, monkeypatch) == -2, text
    report = check(from_text(text, "train.py"))
    assert not report.interpretation.faults
    assert not [one for one in report.findings if one.certain], text


def harmless(text: str) -> None:
    """A program that clears nothing has the mistake whatever happens."""
    text = text.replace("zero_' + 'grad", "state_' + 'dict").replace("opt.zero_grad", "opt.state_dict")
    text = text.replace("set_to_none=True", "")
    assert [one.code for one in check(from_text(text, "train.py")).findings if one.certain] == ["TAPE403"], text


@pytest.mark.parametrize("seed", range(60))
def test_what_may_be_cleared_behind_an_exception_is_not_certain(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = caught(*random.Random(f"unseen {seed}").choice(CAUGHT))
    judged(text, monkeypatch)
    harmless(text)


@pytest.mark.parametrize("seed", range(40))
def test_what_a_stored_call_may_clear_is_not_certain(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    form, acts = random.Random(f"chosen {seed}").choice(CHOSEN)
    text = program(form.format(acts=acts))
    judged(text, monkeypatch)
    harmless(text)
