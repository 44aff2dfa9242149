"""Compiled code that runs as it is written: under a stance, or with compiling switched off.

Each stance is set in each way, and a second derivative is taken through what is compiled before, within and behind it.
Torch runs the programs: where one passes, nothing is said; where compiling is as usual, all is told that raises.
"""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.source import from_text
from tests.cases import under_torch

HEAD = """\
import torch
from torch import nn


def twice(net, x):
    grads = torch.autograd.grad(net(x).tanh().sum(), [*net.parameters()], create_graph=True)
    sum((g * p).sum() for g, p in zip(grads, net.parameters())).backward()


x = torch.randn(2, 4)
net = torch.compile(nn.Linear(4, 1), backend="aot_eager")
"""
STANCES = ("default", "force_eager", "eager_on_recompile", "eager_then_compile", "aot_eager_then_compile")
WAYS = {
    "from then on": "torch.compiler.set_stance({})\ntwice(net, x)\n",
    "by keyword": "torch.compiler.set_stance(stance={})\ntwice(net, x)\n",
    "in a block": "with torch.compiler.set_stance({}):\n    twice(net, x)\n",
    "behind a block": "with torch.compiler.set_stance({}):\n    pass\ntwice(net, x)\n",
    "in a function": "@torch.compiler.set_stance({})\ndef run():\n    twice(net, x)\nrun()\n",
    "beside a function": "@torch.compiler.set_stance({})\ndef run():\n    pass\nrun()\ntwice(net, x)\n",
    "set back": "torch.compiler.set_stance({})\ntorch.compiler.set_stance('default')\ntwice(net, x)\n",
    "compiled before": "net(x).sum().backward()\nwith torch.compiler.set_stance({}):\n    twice(net, x)\n",
    "within and behind": "with torch.compiler.set_stance({}):\n    net(x)\ntwice(net, x)\n",
    "in place": "net = nn.Linear(4, 1)\nnet.compile(backend='aot_eager')\ntorch.compiler.set_stance({})\n"
    "twice(net, x)\n",
}
OFF = {
    "switched off": "import torch._dynamo\ntorch._dynamo.config.disable = True\ntwice(net, x)\n",
    "switched off in a block": "import torch._dynamo\nwith torch._dynamo.config.patch(disable=True):\n"
    "    twice(net, x)\n",
    "another backend": "torch.compiler.set_stance('default', force_backend='eager')\ntwice(net, x)\n",
    "as usual": "twice(net, x)\n",
}
USUAL = ("behind a block", "beside a function", "set back", "within and behind")


def _programs() -> dict[tuple[str, str], str]:
    made = {(way, one): HEAD + text.format(repr(one)) for (way, text), one in itertools.product(WAYS.items(), STANCES)}
    return {**made, **{(way, ""): HEAD + text for way, text in OFF.items()}}


@pytest.mark.skipif(not under_torch.has_torch(), reason="needs torch")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_what_runs_as_it_is_written_has_a_second_derivative(tmp_path: Path) -> None:
    programs = _programs()
    requests = []
    for number, text in enumerate(programs.values()):
        path = tmp_path / f"{number}.py"
        path.write_text(text)
        requests.append({"path": path, "seconds": 60})
    wrong = {}
    for (key, text), ran in zip(programs.items(), under_torch.run_all(requests), strict=True):
        told = [one.code for one in check(from_text(text, "program.py")).findings]
        raises = ran["exception"] is not None
        usual = key[1] == "default" or key[0] in USUAL or key[0] == "as usual"
        if (told and not raises) or (usual and raises and told != ["TAPE604"]):
            wrong[key] = ran["exception"], told
    assert wrong == {}
