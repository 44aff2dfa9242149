"""Whoever is given a way to a tensor can change it: an iterator, a weak reference, the names of a module, a live dict.

Each program is right with the code that is hidden: nothing certain may be said of it, and nothing safe may be done to
it. With code that does nothing in its place the same program is wrong, and is told so.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.fixes import fixes_for
from tapecheck.source import from_text
from tests.cases import under_torch
from tests.partial.test_keepers import _sure

HIDDEN = """\
import torch

kept = []


def cut(given):
    if isinstance(given, torch.Tensor):
        given.detach_()
    elif isinstance(given, dict):
        given.update({key: value.detach() for key, value in given.items() if isinstance(value, torch.Tensor)})
    elif hasattr(given, "h"):
        given.h = given.h.detach()
    elif callable(given):
        cut(given())
    elif hasattr(given, "__iter__"):
        for one in given:
            cut(one)


def keep(given):
    kept.append(given)


def cut_kept():
    for one in kept:
        cut(one)


class Base:
    def __setattr__(self, name, value):
        object.__setattr__(self, name, value.detach())


class Meta(type):
    def __new__(kind, name, bases, namespace):
        return super().__new__(kind, name, bases or (Base,), namespace)


class Root(metaclass=Meta):
    pass
"""
PROGRAM = """\
import collections
import itertools
import sys
import types
import weakref
import torch
from torch import nn
import hidden_given


def same(value):
    return value


class State:
    pass


{made}
net = nn.RNNCell(3, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    h = net(torch.randn(2, 3), {read})
    loss = h.pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    {write}
    {given}
"""
ZEROS = "torch.zeros(2, 4)"
LIST = (f"rows = [{ZEROS}]", "rows[0]", "rows[0] = h")
DICT = (f"rows = {{'h': {ZEROS}}}", "rows['h']", "rows['h'] = h")
OBJECT = (f"state = State()\nstate.h = {ZEROS}", "state.h", "state.h = h")
NAME = (f"state = {ZEROS}", "state", "state = h")
WAYS = {
    "iterator": (LIST, "iter(rows)"),
    "enumerated": (LIST, "(row for _, row in enumerate(rows))"),
    "numbered": (LIST, "map(lambda pair: pair[1], enumerate(rows))"),
    "zipped": (LIST, "itertools.chain(*zip(rows, rows))"),
    "mapped": (LIST, "map(same, rows)"),
    "selected": (LIST, "filter(torch.is_tensor, rows)"),
    "reversed": (LIST, "reversed(rows)"),
    "sliced": (LIST, "itertools.islice(rows, 1)"),
    "chained": (LIST, "itertools.chain(rows)"),
    "repeated": (LIST, "itertools.repeat(rows, 1)"),
    "generated": (LIST, "(row for row in rows)"),
    "values": (DICT, "rows.values()"),
    "weak reference": (OBJECT, "weakref.ref(state)"),
    "weak proxy": (OBJECT, "weakref.proxy(state)"),
    "live dict": (OBJECT, "vars(state)"),
    "dict attribute": (OBJECT, "state.__dict__"),
    "globals": (NAME, "globals()"),
    "locals": (NAME, "locals()"),
    "names": (NAME, "vars()"),
}
UNMODELLED = {
    "chain map": (DICT, "collections.ChainMap(rows).values()"),
    "proxy of a dict": (DICT, "types.MappingProxyType(rows).values()"),
}
KEPT = {"weak reference": (OBJECT, "weakref.ref(state)"), "names": (NAME, "globals()"), "dict": (OBJECT, "vars(state)")}
MADE = {
    "type": "class Keeper(metaclass=type(hidden_given.Root)):\n    pass",
    "derived": "class Kind(type(hidden_given.Root)):\n    pass\nclass Keeper(metaclass=Kind):\n    pass",
    "of a class": "class Middle(hidden_given.Root):\n    pass\nclass Keeper(metaclass=type(Middle)):\n    pass",
    "by name": "Kind = type(hidden_given.Root)\nclass Keeper(metaclass=Kind):\n    pass",
}


def _programs() -> dict[str, str]:
    found = {}
    for name, ((made, read, write), way) in {**WAYS, **UNMODELLED}.items():
        found[name] = PROGRAM.format(made=made, read=read, write=write, given=f"hidden_given.cut({way})")
    for name, ((made, read, write), way) in KEPT.items():
        made += f"\nhidden_given.keep({way})"
        found[f"kept {name}"] = PROGRAM.format(made=made, read=read, write=write, given="hidden_given.cut_kept()")
    for name, made in MADE.items():
        made += f"\nkeeper = Keeper()\nkeeper.h = {ZEROS}"
        found[f"metaclass {name}"] = PROGRAM.format(made=made, read="keeper.h", write="keeper.h = h", given="pass")
    return found


PROGRAMS = _programs()


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_hidden_code_can_come_to_need_not_stay(name: str, tmp_path: Path) -> None:
    assert _sure(check(from_text(PROGRAMS[name], str(tmp_path / "program.py")))) == []


@pytest.mark.parametrize("name", WAYS)
def test_code_that_does_nothing_with_it_leaves_it(name: str, tmp_path: Path) -> None:
    text = PROGRAMS[name].replace("import hidden_given", "").replace("hidden_given.cut(", "print(")
    assert any("TAPE101" in one for one in _sure(check(from_text(text, str(tmp_path / "program.py")))))


@pytest.mark.skipif(not under_torch.has_torch(), reason="needs torch")
def test_the_programs_are_right(tmp_path: Path) -> None:
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "hidden_given.py").write_text(HIDDEN)
    requests = []
    for number, text in enumerate(PROGRAMS.values()):
        path = tmp_path / f"{number}.py"
        path.write_text(text)
        requests.append({"path": path, "folders": [str(tmp_path / "hidden")], "seconds": 20})
    for name, ran in zip(PROGRAMS, under_torch.run_all(requests), strict=True):
        assert ran["exception"] is None, (name, ran["message"])


MOVING = {
    "data": "loss.data = torch.zeros(())",
    "set_": "loss.set_(torch.zeros(()))",
    "swapped": "torch.utils.swap_tensors(loss, torch.zeros(()))",
    "through": "def empty(value):\n        value.data = torch.zeros(())\n    empty(loss)",
}
KEEPING = """\
import torch
from torch import nn
net = nn.Linear(3, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
losses = []
for _ in range(4):
    loss = net(torch.randn(2, 3)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    losses.append(loss)
    {after}
print(torch.stack(losses))
"""


@pytest.mark.parametrize("kind", MOVING)
def test_a_detached_value_does_not_follow_to_other_memory(kind: str, tmp_path: Path) -> None:
    for after, safe in ((MOVING[kind], False), ("for p in net.parameters():\n        p.data = p.data.clone()", True)):
        report = check(from_text(KEEPING.format(after=after), str(tmp_path / "program.py")))
        kept = [one for one in report.findings if one.code == "TAPE201"]
        fixes = [fix for one in kept for fix in fixes_for(report, one)]
        assert any(fix.applicability == "safe" for fix in fixes) is safe, (after, [fix.title for fix in fixes])


@pytest.mark.parametrize("hint", ["model.train()", "model.zero_grad()", "print(list(model.parameters()))", ""])
def test_the_model_that_a_caller_passes_may_be_that_of_the_optimizer(hint: str) -> None:
    program = (
        "import torch\nfrom elsewhere import batches\nfrom torch import nn\n\n\ndef train(model):\n"
        f"    {hint or 'pass'}\n    for x, y in batches:\n        optimizer.zero_grad()\n"
        "        nn.functional.cross_entropy(model(x), y).backward()\n        optimizer.step()\n\n\n"
        "network = nn.Linear(3, 4)\noptimizer = torch.optim.Adam(network.parameters(), lr=0.001)\n"
    )
    assert check(from_text(program, "train.py")).findings == []


STORED = ("runner.it = {}", "runner.all = [{}]", "runner['it'] = {}", "setattr(runner, 'it', {})", "runner.a.b = {}")
LEARNING = """\
import torch
from hidden import Runner

net = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
runner = Runner()
{stored}
for x in torch.ones(4, 2, 3):
    loss = net(x).mean()
    {lines}
    runner.tick()
"""
LINES = {
    "gradients that it may clear": "loss.backward()\n    optimizer.step()",
    "parameters that it may train": "loss.detach().backward() if x.sum() < 0 else None",
}


@pytest.mark.parametrize("lines", LINES)
@pytest.mark.parametrize("given", ["optimizer", "net"])
@pytest.mark.parametrize("stored", STORED)
def test_what_is_stored_in_a_hidden_object_is_given_to_it(stored: str, given: str, lines: str) -> None:
    text = LEARNING.format(stored=stored.format(given), lines=LINES[lines])
    assert [one.code for one in check(from_text(text, "p.py")).findings if one.certain] == []
    plain = LEARNING.format(stored="", lines=LINES["gradients that it may clear"])
    assert [one.code for one in check(from_text(plain, "p.py")).findings if one.certain] == ["TAPE403"]
