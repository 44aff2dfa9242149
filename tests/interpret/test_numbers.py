"""What a tensor holds that serves as a flag: layers that set something up at their first call (0 or 1, and unchanged).

Each program is run under torch, which says whether it ends.
"""

from __future__ import annotations

import itertools
import sys
import types
from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.rules import Finding
from tapecheck.source import from_text

torch = pytest.importorskip("torch")

MADE = {
    "int": "torch.tensor(0)", "bool": "torch.tensor(False)", "float": "torch.tensor(0.0)", "zeros": "torch.zeros(1)",
    "list": "torch.tensor([0])", "byte": "torch.tensor(0, dtype=torch.uint8)", "full": "torch.full((1,), 0)",
    "mask": "torch.zeros(1, dtype=torch.bool)",
}  # fmt: skip
ASKED = {
    "not": "not self.ready", "item": "not self.ready.item()", "item, compared": "self.ready.item() == 0",
    "compared": "self.ready == 0", "less": "self.ready < 1", "bool": "not bool(self.ready)",
    "any": "not self.ready.any()",
    "training": "self.training and not self.ready",
}  # fmt: skip
SET = {
    "fill_": "self.ready.fill_(1)", "data": "self.ready.data.fill_(1)", "copy_": "self.ready.copy_(torch.tensor(1))",
    "data.copy_": "self.ready.data.copy_(torch.tensor(True))", "item": "self.ready[...] = 1",
    "anew": "self.ready = torch.ones_like(self.ready)", "assigned": "self.ready = torch.tensor(1)",
}  # fmt: skip
LAYER = """\
import torch
from torch import nn


class Norm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(size))
        self.register_buffer("scale", torch.ones(size))
        self.register_buffer("ready", {made})

    def forward(self, x):
        if {asked}:
            with torch.no_grad():
                self.scale.copy_(x.std(0))
                {set}
        return x * (self.gain * self.scale)


net = Norm(4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    loss = net(torch.randn(8, 4)).sum() + net(torch.randn(8, 4)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def _layer(made: str, asked: str, setting: str) -> str:
    return LAYER.format(made=MADE[made], asked=ASKED[asked], set=SET.get(setting, setting))


def _errors(text: str) -> list[Finding]:
    return [one for one in check(from_text(text, "program.py")).findings if one.severity == "error"]


def _raises(text: str) -> bool:
    try:
        exec(compile(text, "program.py", "exec"), {})
    except RuntimeError:
        return True
    return False


WAYS = [*itertools.product(MADE, ["not", "item"], SET), *itertools.product(["int", "bool"], ASKED, SET)]


@pytest.mark.parametrize(("made", "asked", "setting"), sorted({*WAYS} - {("mask", "less", "anew")}))
def test_what_is_set_up_once_is_changed_once(made: str, asked: str, setting: str) -> None:
    text = _layer(made, asked, setting)
    assert not _raises(text)
    assert not _errors(text) or (setting == "anew" and not any(one.certain for one in _errors(text)))


@pytest.mark.parametrize("asked", ASKED)
def test_what_is_set_up_each_time_is_told(asked: str) -> None:
    for setting in ("pass", "self.ready.zero_()"):
        text = _layer("int", asked, setting)
        assert _raises(text)
        assert [one.certain for one in _errors(text)] == [True]


CHANGES = {
    "nothing": "pass", "added": "t += 1", "added to": "t.add_(1)", "data": "t.data = torch.tensor(1)",
    "of another": "torch.add(t, 1, out=t)", "an element": "t.view(1)[0] = 1", "past autograd": "t.data[...] = 1",
    "by chance": "t.random_(1, 3)", "copied": "t.copy_(torch.rand(()) + 1)", "detached": "t.detach().fill_(1)",
    "by NumPy": "t.numpy()[...] = 1", "set": "t.set_(torch.tensor(1))",
    "by setattr": "setattr(t, 'data', torch.tensor(1))", "by a function": "hidden.change(t)",
    "in a list": "hidden.change([t][0])", "zero": "t.zero_()", "clone": "t.clone().fill_(1)",
    "not": "t = torch.logical_not(t)", "alias": "a = t\na.fill_(1)", "a view": "a = t.view(1)\na.fill_(1)",
    "by an object": "class Box: pass\nbox = Box()\nbox.t = t\nhidden.change(box.t)",
    "in a loop": "for _ in range(2):\n    t.fill_(1 if _ else 0)",
    "data of another": "a = torch.tensor(0)\na.data = t\na.fill_(1)",
    "set to it": "a = torch.tensor(0)\na.set_(t)\na.fill_(1)",
    "a shallow copy": "import copy\na = copy.copy(t)\na.fill_(1)",
    "a deep copy": "import copy\na = copy.deepcopy(t)\na.fill_(1)",
    "a parameter": "p = torch.nn.Parameter(t, requires_grad=False)\np.fill_(1)",
    "two parameters": "t = torch.nn.Parameter(t, False)\np = torch.nn.Parameter(t.data, False)\np.fill_(1)",
    "a step": "t = torch.zeros(1)\np = torch.nn.Parameter(t)\n(-p).sum().backward()\n"
    "torch.optim.SGD([p], lr=1.0).step()",
    "running means": "t = torch.zeros(3)\n"
    "torch.nn.functional.batch_norm(torch.rand(4, 3) + 1, t, torch.ones(3), training=True)\nt = t.all()",
}  # fmt: skip
QUESTION = """\
import hidden
import torch
w = torch.ones(3, requires_grad=True)
t = torch.tensor(0)
{change}
loss = (w * 2).sum()
if t:
    loss.backward()
loss.backward()
"""


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_certain_of_a_flag_is_so(change: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hidden = types.ModuleType("hidden")
    hidden.change = lambda tensor: tensor.fill_(1)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "hidden", hidden)
    text = QUESTION.format(change=CHANGES[change])
    found = _errors(text)
    if _raises(text):
        assert found
    else:
        assert not any(one.certain for one in found)


@pytest.mark.parametrize("call", ["dist.broadcast(t, 0)", "dist.all_reduce(t)", "dist.recv(t)"])
def test_other_processes_change_a_flag(call: str) -> None:
    text = QUESTION.format(change=call).replace("import hidden", "import torch.distributed as dist")
    assert [one.certain for one in _errors(text)] == [False]


def test_the_same_question_has_the_same_answer_until_something_changes() -> None:
    text = (
        "import torch\nfrom hidden import flag\nw = torch.ones(3, requires_grad=True)\nt = torch.rand(1) > 0.5\n"
        "loss = (w * 2).sum()\nif t:\n    loss.backward()\n{change}if not t:\n    loss.backward()\n"
    )
    assert not _errors(text.format(change=""))
    assert [one.certain for one in _errors(text.format(change="t.logical_not_()\n"))] == [False]


SHARED = {
    "data": "t = a.data", "data of it": "t = torch.zeros(1) + a\na = t.data", "a view": "t = a.view(1, 1)",
    "a parameter": "t = torch.nn.Parameter(a, False)", "parameter of it": "t = a\na = torch.nn.Parameter(t, False)",
    "a copy": "import copy\nt = copy.copy(a)", "taken as it is": "t = torch.as_tensor(a)",
    "taken with its type": "t = torch.as_tensor(a, dtype=torch.float)", "data set": "t = torch.zeros(1)\nt.data = a",
    "an array": "a = a.numpy()\nt = torch.from_numpy(a)", "a new array": "a = numpy.zeros(1)\nt = torch.as_tensor(a)",
    "an array of it": "t = a\na = t.numpy()",
}  # fmt: skip


@pytest.mark.parametrize(("shared", "first"), [*itertools.product(SHARED, ("", "not "))])
def test_what_is_asked_again_may_have_changed_with_its_memory(shared: str, first: str) -> None:
    pytest.importorskip("numpy")
    other = "" if first else "not "
    text = (
        f"import numpy\nimport torch\nw = torch.ones(3, requires_grad=True)\na = torch.rand(1) * 0\n{SHARED[shared]}\n"
        f"loss = (w * 2).sum()\nif {first}t:\n    loss.backward()\na[...] = 1\nif {other}t:\n    loss.backward()\n"
    )
    assert _raises(text) == bool(first)
    assert _errors(text) if first else not any(one.certain for one in _errors(text))


HIDDEN = {
    "a call": "hidden.go()", "an iteration": "for _ in hidden.box:\n    pass",
    "a context": "with hidden.box:\n    pass",
    "an item": "hidden.box[0]", "an attribute": "hidden.box.size", "an operator": "hidden.box + 1",
    "a list": "list(hidden.box)", "an import": "import hidden.late", "a question": "if hidden.box:\n    pass",
    "text": "print(hidden.box)", "a loader": "for _ in torch.utils.data.DataLoader(hidden.box):\n    pass",
    "a hook": "optimizer.register_step_post_hook(hidden.go)\noptimizer.step()",
}  # fmt: skip
GIVEN = {
    "itself": "t", "a list": "[t]", "a module": "module", "a method": "module.forward", "a dict": "{'t': t}",
    "its data": "t.data",
}  # fmt: skip


@pytest.mark.parametrize(("given", "way"), [*itertools.product(GIVEN, HIDDEN)])
def test_hidden_code_that_has_a_flag_may_change_it(given: str, way: str) -> None:
    text = (
        "import hidden\nimport torch\nw = torch.ones(3, requires_grad=True)\nt = torch.tensor(0)\n"
        "optimizer = torch.optim.SGD([w], lr=0.1)\nmodule = torch.nn.Module()\nmodule.register_buffer('ready', t)\n"
        f"hidden.keep({GIVEN[given]})\nloss = (w * 2).sum()\nt.zero_()\n{HIDDEN[way]}\n"
        "if not t:\n    loss.backward()\nloss.backward()\n"
    )
    assert not any(one.certain for one in _errors(text) if one.code == "TAPE101")
