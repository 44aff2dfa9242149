"""A conversion returns the tensor itself where it has that type already, else a copy: a change of one is no other's.

Programs that make a tensor, convert it and change one of the two; torch says which of them raise, and where.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.source import from_text
from tests.cases import under_torch

MADE = {
    "parameter of another type": "w = nn.Parameter(torch.ones(3, dtype=torch.bfloat16))",
    "detached from a converted layer": "w = nn.Linear(3, 3).bfloat16().weight.detach().requires_grad_()",
    "layer of another type": "w = nn.Linear(3, 3, dtype=torch.float64).weight",
    "type set by default": "torch.set_default_dtype(torch.float64)\nw = torch.ones(3, requires_grad=True)",
    "converted layer": "w = nn.Linear(3, 3).to(torch.float16).weight",
    "plain": "w = torch.ones(3, requires_grad=True)",
    "written": "w = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)",
    "like another one": "w = torch.zeros_like(torch.ones(3, dtype=torch.float64)).requires_grad_()",
    "computed data": "w = (torch.ones(3, dtype=torch.float64) * 2).requires_grad_()",
    "an array": "import numpy\nw = torch.tensor(numpy.ones(3), requires_grad=True)",
    "memory of an array": "import numpy\nw = torch.from_numpy(numpy.ones(3)).requires_grad_()",
    "computed": "w = torch.ones(3, dtype=torch.float64, requires_grad=True) * 2",
    "weights put in the place of others": """\
net = nn.Linear(3, 3)
net.load_state_dict({key: value.double() for key, value in net.state_dict().items()}, assign=True)
w = net.weight""",
    "a type that nobody knows": """\
import json
w = nn.Linear(3, 3).to(getattr(torch, json.loads('"float64"'))).weight""",
    "under autocast": """\
with torch.autocast("cpu", dtype=torch.bfloat16):
    w = nn.Linear(3, 3)(torch.ones(2, 3))""",
}
CONVERTED = (
    "w.float()", "w.double()", "w.to(torch.float32)", "w.to(dtype=torch.float64)", "w.to(torch.float32, copy=True)",
    "w.to(torch.ones(1))", "w.type_as(torch.ones(1, dtype=torch.float64))", 'w.type("torch.DoubleTensor")',
    "w.type(torch.float64)", "w.detach().float()", "w.data.float()", "w.view_as(w).float()", "w.contiguous().float()",
    "torch.as_tensor(w, dtype=torch.float32)", "w.to(w.dtype)",
)  # fmt: skip
CHANGED = {
    "the converted one": "loss = (w * w).sum()\nwith torch.no_grad():\n    c.add_(1)\nloss.backward()",
    "the one converted": "loss = (c * c).sum()\nwith torch.no_grad():\n    w.mul_(2)\nloss.backward()",
    "where gradients are recorded": "c.add_(1)\nc.sum().backward()",
    "frozen": "c.requires_grad_(False)\n(w * w).sum().backward()",
}


def _program(made: str, converted: str, changed: str) -> str:
    return f"import torch\nfrom torch import nn\n\n{MADE[made]}\nc = {converted}\n{CHANGED[changed]}\n"


@pytest.mark.skipif(not under_torch.has_torch(), reason="needs torch")
@pytest.mark.parametrize("made", MADE)
def test_nothing_certain_is_said_of_what_torch_runs(made: str, tmp_path: Path) -> None:
    texts = [_program(made, *rest) for rest in itertools.product(CONVERTED, CHANGED)]
    paths = [tmp_path / f"{number}.py" for number in range(len(texts))]
    for path, text in zip(paths, texts):
        path.write_text(text)
    wrong = []
    for path, text, ran in zip(paths, texts, under_torch.run_all([{"path": path, "seconds": 20} for path in paths])):
        raised = None if ran["exception"] is None else ran["line"]
        sure = [one for one in check(from_text(text, str(path))).findings if one.certain and one.severity == "error"]
        wrong += [(text, one.code, raised) for one in sure if one.span.line != raised]
    assert wrong == []


@pytest.mark.parametrize("made", ["plain", "written"])
@pytest.mark.parametrize("converted", ["w.float()", "w.to(torch.float32)", "w.detach().float()", "w.type_as(w)"])
def test_the_same_type_gives_the_same_memory(made: str, converted: str) -> None:
    found = check(from_text(_program(made, converted, "the converted one"), "program.py")).findings
    assert [(one.code, one.certain) for one in found] == [("TAPE102", True)]


@pytest.mark.parametrize("converted", ["w.double()", "w.to(torch.float32, copy=True)", "w.to(torch.float16)"])
def test_another_type_gives_a_copy(converted: str) -> None:
    assert check(from_text(_program("plain", converted, "the converted one"), "program.py")).findings == []


RELOADED = """\
import json
import torch
from torch import nn

net = nn.Linear(2, 2)
state = {{key: value.clone() for key, value in net.state_dict().items()}}
loss = net(net(torch.rand(3, 2))).sum()
net.load_state_dict(state{assign})
loss.backward()
"""


@pytest.mark.parametrize(
    ("assign", "said"),
    [
        ("", [True]),
        (", assign=False", [True]),
        (", assign=True", []),
        (", True, True", []),
        (', assign=json.load(open("options.json"))["assign"]', [False]),
    ],
)
def test_weights_put_in_the_place_of_others_change_no_saved_one(assign: str, said: list[bool]) -> None:
    found = check(from_text(RELOADED.format(assign=assign), "program.py")).findings
    assert [one.certain for one in found if one.code == "TAPE102"] == said
