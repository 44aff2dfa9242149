"""Updates that change nothing (TAPE408): each line is run under torch, which says what it leaves as it was."""

from __future__ import annotations

import copy
import itertools
import json
from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.fixes import fixes_for
from tapecheck.rules import Finding
from tapecheck.source import from_text, read_source
from tests.cases.score import PROGRAMS
from tests.fixes.support import fixed

torch = pytest.importorskip("torch")

CODE = "TAPE408"
TOLD = {
    "minus": "p = p - 0.1 * p.grad",
    "minus, of data": "p = p.data - 0.1 * p.grad.data",
    "a step of its own": "p = p.add(p.grad, alpha=-0.1)",
    "torch's": "p = torch.sub(p, 0.1 * p.grad)",
    "averaged": "p = 0.9 * p + 0.1 * q",
    "sub": "p.sub(0.1 * p.grad)",
    "add": "p.add(p.grad, alpha=-0.1)",
    "sub of data": "p.data.sub(0.1 * p.grad)",
    "addcdiv": "p.addcdiv(p.grad, p.grad.abs() + 1e-8, value=-0.1)",
    "clamp": "p.grad.clamp(-1e-3, 1e-3)",
    "clamp of data": "p.grad.data.clamp(-1e-3, 1e-3)",
    "mul": "p.grad.mul(0.5)",
    "clamped weights": "p.clamp(-0.01, 0.01)",
    "detached": "p.grad.detach()",
}
NOT_TOLD = {
    "minus in place": "p -= 0.1 * p.grad",
    "sub_": "p.sub_(0.1 * p.grad)",
    "of data": "p.data = p.data - 0.1 * p.grad",
    "sub_ of data": "p.data.sub_(0.1 * p.grad)",
    "clamp_": "p.grad.clamp_(-1e-3, 1e-3)",
    "clamp_ of data": "p.grad.data.clamp_(-1e-3, 1e-3)",
    "set": "p.grad = p.grad.clamp(-1e-3, 1e-3)",
    "divided": "p.grad /= 2",
    "copy_": "p.copy_(p - 0.1 * p.grad)",
    "of torch": "torch.clamp_(p.grad, -1e-3, 1e-3)",
    "out": "torch.clamp(p.grad, -1e-3, 1e-3, out=p.grad)",
    "item": "p.grad[...] = p.grad.clamp(-1e-3, 1e-3)",
    "zero_": "p.grad.zero_()",
}
READ = {
    "kept": ("{}\n        fast.append(p)", ""),
    "told": ("{}\n        print(float(p.sum()))", ""),
    "next line": ("{}\n        fast += [p * 2]", ""),
    "behind the loop": ("{}", "fast.append(p)"),
    "by a function": ("{}", "def last():\n    return p"),
    "by a comprehension": ("{}\n        fast += [p * n for n in (1, 2)]", ""),
    "by name": ("{}\n        fast.append(locals()['p'])", ""),
    "in a later round": ("for _ in range(2):\n            fast.append(p)\n            {}", ""),
    "on another way": ("{}\n        if step:\n            fast.append(p)", ""),
    "in a text": ("{}\n        fast.append(f'{{p}}')", ""),
}
PROGRAM = """\
import torch
from torch import nn

torch.manual_seed(0)
model, other = nn.Linear(4, 1), nn.Linear(4, 1)
fast = []
for step in range(2):
    model(torch.ones(8, 4)).pow(2).mean().backward()
    before = marks()
    for p, q in zip(model.parameters(), other.parameters()):
        {}
    after = marks()
    seen.append(all(map(torch.equal, before, after)))
{}
"""
MARKS = """\
def marks():
    return [t.detach().clone() for p in model.parameters() for t in (p, p.grad)]
seen = []
"""
GUARDED = "with torch.no_grad():\n            "


def told(text: str) -> list[Finding]:
    return [found for found in check(from_text(text, "program.py")).findings if found.code == CODE]


def leaves_all_as_it_was(text: str) -> bool:
    space: dict[str, object] = {}
    exec(compile(text, "program.py", "exec"), space)
    seen = space["seen"]
    assert isinstance(seen, list) and seen
    return all(seen)


def program(line: str, behind: str = "") -> str:
    return MARKS + PROGRAM.format(line, behind)


@pytest.mark.parametrize("kind", [*TOLD, *NOT_TOLD])
def test_what_is_told_changes_nothing(kind: str) -> None:
    line = TOLD.get(kind, NOT_TOLD.get(kind, ""))
    text = program(GUARDED + line)
    assert leaves_all_as_it_was(text) == (kind in TOLD)
    found = told(text)
    assert [one.certain for one in found] == [True] * (kind in TOLD)
    row = text.splitlines().index(f"            {line}") + 1
    assert all(one.span.line == row for one in found)


RENAMED = [kind for kind, line in TOLD.items() if line.startswith("p = ")]


@pytest.mark.parametrize(("kind", "reader"), list(itertools.product(RENAMED, READ)))
def test_a_new_tensor_that_something_reads_is_not_told(kind: str, reader: str) -> None:
    inside, behind = READ[reader]
    assert not told(program(inside.format(TOLD[kind]), behind))


@pytest.mark.parametrize("kind", [kind for kind in TOLD if kind != "detached"])
@pytest.mark.parametrize("guard", [GUARDED, ""], ids=["no_grad", "recorded"])
def test_fixes_make_the_change(kind: str, guard: str) -> None:
    text = program(guard + TOLD[kind])
    report = check(from_text(text, "program.py"))
    (finding,) = [one for one in report.findings if one.code == CODE]
    fixes = fixes_for(report, finding)
    assert all(fix.applicability == "unsafe" for fix in fixes)
    assert fixes
    for fix in fixes:
        mended = fixed(text, fix)
        assert not told(mended)
        assert not leaves_all_as_it_was(mended)


CHANGED_MEANWHILE = {
    "by a function": "p = change(p)", "by a function, dropped": "p.mul(change(p))", "by a method": "p = kept.change(p)",
    "in a term": "p = p - change(p)", "by an operand": "p = p.mul_(2) + 1",
    "by an operand of a call": "p.mul(p.add_(1))",
    "with an object": "p = p - kept",
    "through another name": "p = torch.add(p, change(q := p))",
}  # fmt: skip
CHANGING = """\
def change(t):
    return t.data.sub_(1).clone()
class Kept:
    def change(self, t):
        return change(t)
    def __rsub__(self, t):
        return change(t)
kept = Kept()
"""


@pytest.mark.parametrize("kind", CHANGED_MEANWHILE)
def test_what_changes_a_tensor_meanwhile_is_not_passed_over(kind: str) -> None:
    text = CHANGING + program(GUARDED + CHANGED_MEANWHILE[kind])
    assert not leaves_all_as_it_was(text)
    assert not told(text)


@pytest.mark.parametrize("line", ["model.weight.clamp(-1, 1)", "kept['w'].grad.mul(0.5)", "all_of[0].sub(model.bias)"])
def test_a_tensor_has_many_names(line: str) -> None:
    text = (
        "import torch\nfrom torch import nn\nmodel = nn.Linear(4, 1)\nkept = {'w': model.weight}\n"
        f"all_of = list(model.parameters())\nmodel(torch.ones(2, 4)).sum().backward()\n{line}\n"
    )
    assert [one.certain for one in told(text)] == [True]


TRIED = {
    "raising": "try:\n    w.sub(torch.ones(7))\nexcept RuntimeError:\n    print('sizes')\n",
    "raising, wanted": "with pytest.raises(RuntimeError):\n    w.sub(torch.ones(7))\n",
    "raising, passed over": "with contextlib.suppress(RuntimeError):\n    w.sub(torch.ones(7))\n",
    "measured": "with torch.profiler.profile():\n    w.sub(1)\n    w.exp()\n",
    "counted": "with FlopCounterMode():\n    for _ in range(3):\n        w.matmul(w)\n",
    "seen": "with Mode():\n    w.sub(1)\n",
    "in a guard": "with torch.no_grad():\n    try:\n        w.sub(1)\n    except RuntimeError:\n        pass\n",
}
TRYING = """\
import contextlib
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode
class Mode(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        print(function)
        return function(*args, **(kwargs or {}))
w = torch.ones(3, 3, requires_grad=True)
w.sum().backward()
"""


@pytest.mark.parametrize("kind", TRIED)
def test_what_is_tried_is_not_told(kind: str) -> None:
    assert not told(TRYING + TRIED[kind])


FUNCTIONS = {
    "given": ("def step(p, g):\n    p = p - 0.1 * g\n", 1),
    "given, returned": ("def step(p, g):\n    p = p - 0.1 * g\n    return p\n", 0),
    "given, in a closure": ("def step(p, g):\n    p = p - 0.1 * g\n    return lambda: p\n", 0),
    "given, read in a round": ("def step(p, g):\n    for _ in range(2):\n        p = p - 0.1 * g\n", 0),
    "global": ("def step(q, g):\n    global p\n    p = q - 0.1 * g\n", 0),
    "in place": ("def step(p, g):\n    p.data -= 0.1 * g\n", 0),
}


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_what_a_function_is_given_stays_as_it_is(kind: str) -> None:
    function, count = FUNCTIONS[kind]
    text = (
        f"import torch\nfrom torch import nn\n{function}model = nn.Linear(4, 1)\n"
        "model(torch.ones(2, 4)).sum().backward()\nfor one in model.parameters():\n    step(one, one.grad)\n"
    )
    assert len(told(text)) == count


UNCALLED = {
    "optimizer.step": 1, "loss.backward": 1, "optimizer.step()": 0, "loss.backward()": 0, "optimizer.zero_grad": 0,
    "x = optimizer.step": 0, "print(optimizer.step)": 0, "loss.shape": 0, "model.eval": 0,
}  # fmt: skip


@pytest.mark.parametrize("line", UNCALLED)
def test_steps_that_are_not_called(line: str) -> None:
    text = (
        "import torch\nfrom torch import nn\nmodel = nn.Linear(4, 1)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\nfor _ in range(3):\n"
        "    loss = model(torch.randn(8, 4)).pow(2).mean()\n    optimizer.zero_grad()\n    loss.backward()\n"
        f"    {line}\n    optimizer.step()\n"
    )
    if line == "loss.backward()":
        text = text.replace("    loss.backward()\n", "", 1)
    assert len(told(text)) == UNCALLED[line]


def test_a_parameter_is_not_frozen_by_detach() -> None:
    text = (
        "import torch\nfrom torch import nn\nbody, head = nn.Linear(4, 4), nn.Linear(4, 1)\n"
        "for p in body.parameters():\n    p.detach()\n"
        "optimizer = torch.optim.SGD(head.parameters(), lr=0.1)\n"
        "head(body(torch.randn(2, 4))).mean().backward()\noptimizer.step()\n"
    )
    (finding,) = told(text)
    (fix,) = fixes_for(check(from_text(text, "program.py")), finding)
    assert "    p.requires_grad_(False)\n" in fixed(text, fix)


def test_a_detached_state_that_is_dropped() -> None:
    text = (
        "import torch\nfrom torch import nn\ncell = nn.GRUCell(4, 4)\n"
        "optimizer = torch.optim.SGD(cell.parameters(), lr=0.1)\nh = torch.zeros(2, 4)\nfor _ in range(3):\n"
        "    h = cell(torch.randn(2, 4), h)\n    loss = h.pow(2).mean()\n    optimizer.zero_grad()\n"
        "    loss.backward()\n    optimizer.step()\n    h.detach()\n"
    )
    (finding,) = told(text)
    assert finding.span.line == 12
    (fix,) = fixes_for(check(from_text(text, "program.py")), finding)
    assert "    h = h.detach()\n" in fixed(text, fix)
    assert not check(from_text(fixed(text, fix), "program.py")).findings


@pytest.mark.parametrize("manager", ["counting()", "torch.no_grad()", "torch.enable_grad()"])
def test_who_may_look_at_each_operation_is_not_passed_over(manager: str) -> None:
    line = f"from tools import counting\nfor p in model.parameters():\n    with {manager}:\n        p.sub(p.grad)\n"
    text = (
        "import torch\nfrom torch import nn\nmodel = nn.Linear(4, 1)\nmodel(torch.ones(2, 4)).sum().backward()\n" + line
    )
    assert bool(told(text)) == (manager != "counting()")


def test_an_operation_that_is_measured_is_not_told() -> None:
    assert not told("import torch\nw = torch.randn(3, requires_grad=True)\nfor _ in range(100):\n    w.add(1)\n")


def test_what_a_cell_shows_is_used(tmp_path: Path) -> None:
    cells = ["import torch\nw = torch.ones(3, requires_grad=True)\nw.sum().backward()\n", "w.add(1)", "w.detach()", "w"]
    loop = ["for _ in range(2):\n    w.add(1)"]
    for shown, count in ((cells, 0), ([*cells, *loop], 1)):
        made = [{"cell_type": "code", "source": one, "metadata": {}, "outputs": []} for one in shown]
        path = tmp_path / "notebook.ipynb"
        path.write_text(json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
        assert len([found for found in check(read_source(str(path))).findings if found.code == CODE]) == count


@pytest.mark.parametrize("mark", ["# %%", "#%% train", "# In[3]:", "# 100%", "print('# %%')"])
def test_what_a_cell_of_a_script_shows_is_used(mark: str) -> None:
    text = (
        f"import torch\nw = torch.ones(3, requires_grad=True)\nw.sum().backward()\n{mark}\nw.add(1)\n{mark}\n"
        f"for _ in range(2):\n    w.add(1)\n"
    )
    assert len(told(text)) == (1 if mark[:4] in ("# %%", "#%% ", "# In") else 2)


def test_the_average_of_the_case_program_stays_as_it_was() -> None:
    text = (PROGRAMS / "ema_rebinds_name.py").read_text()
    made = text.replace("optimizer =", "first = copy.deepcopy(teacher)\noptimizer =", 1)
    space: dict[str, object] = {"copy": copy}
    exec(compile(made, "program.py", "exec"), space)
    first, teacher = space["first"], space["teacher"]
    assert isinstance(first, torch.nn.Module) and isinstance(teacher, torch.nn.Module)
    assert all(map(torch.equal, first.parameters(), teacher.parameters()))


TIMED = """\
import time
import timeit
from elsewhere import now
import torch
from torch import nn
model = nn.Linear(3, 3)
w = model.weight
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{before}
loss = model(torch.ones(2, 3)).sum()
loss.backward()
{behind}
optimizer.step()
"""
ALONE = "start = {clock}()\n{op}\nprint({clock}() - start)"
SEVERAL = "start = {clock}()\nfor _ in range(100):\n    {op}\nprint({clock}() - start)"
LAPS = "laps = []\nfor _ in range(5):\n    start = {clock}()\n    {op}\n    laps.append({clock}() - start)"
WARM = "for _ in range(3):\n    {op}\n"
TIMES = {
    "alone": (ALONE, "", False),
    "several": (SEVERAL, "", False),
    "laps": (LAPS, "", False),
    "warmed up": (WARM + SEVERAL, "", False),
    "behind a backward": ("", SEVERAL, False),
    "warmed up with a backward between": (WARM, SEVERAL, False),
    "before the clock": ("{op}\nstart = {clock}()\nx = w * 2\nprint({clock}() - start)", "", True),
    "behind the clock": (f"start = {{clock}}()\nprint({{clock}}() - start)\n{WARM}", "", True),
    "a clock alone": ("start = {clock}()\n{op}", "", True),
    "a backward between": ("start = {clock}()\n{op}", "print({clock}() - start)", True),
}


@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize("op", ["w.mul(2)", "w.clamp(0, 1)", "w.data.add(1)"])
def test_what_is_timed_has_an_effect(op: str, times: str) -> None:
    before, behind, told = TIMES[times]
    for clock in ("time.time", "time.perf_counter", "time.monotonic_ns", "timeit.default_timer", "now"):
        text = TIMED.format(before=before.format(op=op, clock=clock), behind=behind.format(op=op, clock=clock))
        found = [one for one in check(from_text(text, "train.py")).findings if one.code == CODE]
        # What is no clock that is known may be anything.
        assert bool(found) == (told or clock == "now"), clock
