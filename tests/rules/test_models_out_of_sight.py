"""Models whose class is not in sight: what is said of their gradients is possible, and PyTorch agrees with a model."""

from __future__ import annotations

import itertools
import textwrap
from typing import Any

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

_HIDDEN = {
    "imported": "from nets import Net\n",
    "factory": "import nets\n\nNet = nets.factory('small')\n",
    "below": "import zoo.nets as nets\n\nNet = nets.Net\n",
}
_VISIBLE = """
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 6), nn.Tanh())
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        return self.head(self.body(x))

"""
_MADE = {
    "plain": "net = Net()",
    "moved": "net = Net()\nnet = net.to('cpu')",
    "chained": "net = Net().train()",
}
_OPTIMIZED = {
    "plain": "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)",
    "listed": "optimizer = torch.optim.Adam(list(net.parameters()), lr=0.1)",
    "kept": "parameters = net.parameters()\noptimizer = torch.optim.SGD(parameters, lr=0.1)",
}
_LOOPS = {
    "TAPE403": "loss = net(x).pow(2).mean()\nloss.backward()\noptimizer.step()",
    "TAPE404": "loss = net(x).pow(2).mean()\nloss.backward()\noptimizer.zero_grad()\noptimizer.step()",
    "TAPE407": (
        "out = net(x)\npenalty = torch.tensor(out.abs().mean().item())\nloss = out.pow(2).mean() + penalty\n"
        "optimizer.zero_grad()\nloss.backward()\noptimizer.step()"
    ),
    "": "loss = net(x).pow(2).mean()\noptimizer.zero_grad()\nloss.backward()\noptimizer.step()",
    "squeezed": "loss = net(x).squeeze().pow(2).mean()\nloss.backward()\noptimizer.step()\nnet.zero_grad()",
    "cleared by hand": "loss = net(x).pow(2).mean()\nloss.backward()\noptimizer.step()\n"
    "for p in net.parameters():\n    p.grad = None",
    "cleared elsewhere": "loss = net(x).pow(2).mean()\nloss.backward()\noptimizer.step()\nnet.finish()",
    "handed on": "loss = net(x).pow(2).mean()\nloss.backward()\noptimizer.step()\nclear(net)",
}
_RIGHT = ("", "squeezed", "cleared by hand", "cleared elsewhere", "handed on")


def _program(above: str, made: str, optimized: str, loop: str) -> str:
    head = "import torch\n" + above + "\n"
    if loop == "handed on":
        head = "from tools import clear\n" + head
    body = f"for step in range(4):\n    x = torch.randn(5, 4)\n{textwrap.indent(_LOOPS[loop], '    ')}\n"
    return f"{head}torch.manual_seed(0)\n{_MADE[made]}\n{_OPTIMIZED[optimized]}\n{body}"


def _found(text: str) -> set[tuple[str, bool]]:
    report = check(from_text(text, "train.py"))
    return {(one.code, one.certain) for one in report.findings if one.code in ("TAPE403", "TAPE404", "TAPE407")}


@pytest.mark.parametrize(
    ("hidden", "made", "optimized", "loop"), [*itertools.product(_HIDDEN, _MADE, _OPTIMIZED, _LOOPS)]
)
def test_what_is_said_of_a_model_out_of_sight_is_possible(hidden: str, made: str, optimized: str, loop: str) -> None:
    found = _found(_program(_HIDDEN[hidden], made, optimized, loop))
    assert found == (set() if loop in _RIGHT else {(loop, False)})


@pytest.mark.parametrize(
    ("made", "optimized", "loop"), [*itertools.product(_MADE, _OPTIMIZED, ("TAPE403", "TAPE404", "TAPE407", ""))]
)
def test_pytorch_says_the_same_of_a_model_in_sight(made: str, optimized: str, loop: str) -> None:
    torch = pytest.importorskip("torch")
    text = _program(_VISIBLE, made, optimized, loop)
    assert _found(text) == ({(loop, True)} if loop else set())
    names: dict[str, Any] = {}
    exec(text, names)
    ends = [one.detach() for one in names["net"].parameters()]
    mended = {
        "TAPE403": text.replace("loss.backward()", "optimizer.zero_grad()\n    loss.backward()"),
        "TAPE404": text.replace("    loss.backward()\n", ""),
        "TAPE407": text.replace(" + penalty", ""),
        "": text,
    }[loop]
    exec(mended, names)
    same = all(torch.equal(one, other) for one, other in zip(ends, names["net"].parameters()))
    assert same is (loop != "TAPE403")


_HANDED_IN = """
import torch


class Trainer:
    def __init__(self, net):
        self.net = net

    def fit(self, xs, net):
        model = {model}
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        {before}
        for x in xs:
            {first}
            loss = model(x).pow(2).mean()
            loss.backward()
            optimizer.step()
            {last}
"""
_OWN = ("model.finish()", "model.body.finish()", "model.finish(x)", "model.train()", "model.body.eval()", "pass")


@pytest.mark.parametrize(
    ("model", "place", "own"), [*itertools.product(("net", "self.net"), ("before", "first", "last"), _OWN)]
)
def test_a_method_of_its_own_may_clear_what_a_model_that_is_handed_in_has(model: str, place: str, own: str) -> None:
    places = {"before": "x = 1", "first": "pass", "last": "pass", place: own if place != "before" else f"x = 1; {own}"}
    found = _found(_HANDED_IN.format(model=model, **places))
    assert found == ({("TAPE403", True)} if place == "before" or "finish" not in own else set())
