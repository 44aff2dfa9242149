"""A tensor of one number has no elements to go over: what is behind a loop over it, or its unpacking, never runs.

Torch says of each expression whether it can be gone over. The mistake behind it is told only where it can.
"""

from __future__ import annotations

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

torch = pytest.importorskip("torch")

HEAD = """\
import torch
from torch import nn
from torch.autograd import Variable
from torch.nn import functional as F
w = torch.ones(3, 3, requires_grad=True)
y = torch.zeros(3, 3)
loss = (w * w).sum()
crit = nn.MSELoss()
"""
TWICE = "loss.backward()\nloss.backward()\n"
VALUES = [
    "torch.vmap(lambda a: (a * a).sum())(w)", "torch.vmap(F.mse_loss)(w, y)", "loss.mul(other=w[0])",
    "torch.add(loss, other=w[0])", "loss.clamp(min=w[0])", "torch.sum(w, **{'dim': 0})", "loss * y[0]",
    "F.mse_loss(w, y, **{'reduction': 'none'})", "w.detach().sum().resize_(2)", "loss.clone().unsqueeze_(0)",
    "torch.maximum(loss, w[0])", "loss.masked_fill(mask=y[0] > 0, value=0.0)",
    "setattr(crit, 'reduction', 'none') or crit(w, y)",
    "loss", "w.sum()", "w.mean()", "w.sum(1)", "w.sum(dim=1)", "w.mean(axis=0)", "w.sum(0, keepdim=True)",
    "torch.sum(w)", "torch.sum(w, 0)", "torch.mean(w, dim=0)", "w.max()", "w.max(1)[0]", "w.norm()", "w.norm(dim=1)",
    "w.prod()", "w.prod(1)", "w.std()", "w.std(0)", "loss * 2", "loss + w", "loss.detach()", "loss.reshape(1)",
    "loss[None]", "loss.unsqueeze(0)", "loss.view(-1)", "loss.expand(3)", "loss.repeat(2)",
    "torch.stack([loss, loss])", "torch.stack([loss, loss]).sum()", "torch.cat([loss[None], loss[None]])",
    "F.mse_loss(w, y)", "F.mse_loss(w, y, reduction='none')", "F.mse_loss(w, y, reduction='sum')",
    "F.mse_loss(w, y, reduce=False)", "F.cross_entropy(w, y.argmax(1))",
    "F.cross_entropy(w, y.argmax(1), reduction='none')",
    "F.cross_entropy(w, y.argmax(1), None, None, -100, None, 'none')",
    "nn.MSELoss(reduction='none')(w, y)", "nn.MSELoss(None, None, 'none')(w, y)",
    "nn.CrossEntropyLoss(torch.ones(3), reduction='none')(w, y.argmax(1))",
    "torch.dot(w[0], w[1])", "torch.trace(w)", "w.diagonal()", "w[0]", "w", "w.logsumexp(0)", "w @ w[0]",
    "w.sum().exp()", "w.sum().clone()",
]  # fmt: skip
GONE_OVER = {
    "loop": "for one in {value}:\n    pass\n",
    "unpacking": "first, *others = {value}\n",
    "comprehension": "sizes = [one.shape for one in {value}]\n",
    "enumerate": "for i, one in enumerate({value}):\n    pass\n",
    "list": "parts = list({value})\n",
}


@pytest.mark.parametrize("way", GONE_OVER)
@pytest.mark.parametrize("value", VALUES)
def test_what_is_behind_is_told_where_torch_comes_to_it(value: str, way: str) -> None:
    before = HEAD + GONE_OVER[way].format(value=value)
    try:
        exec(before, {})
    except TypeError:
        comes = False
    else:
        comes = True
    found = check(from_text(before + TWICE, "train.py")).findings
    if comes:
        assert [one.code for one in found] == ["TAPE101"]
    else:
        assert not [one for one in found if one.certain]


KINDS = [
    "type(y) == Variable", "type(y) == torch.Tensor", "type(y) is torch.Tensor", "type(y) != torch.Tensor",
    "type(y) == torch.FloatTensor", "type(y) in (Variable,)", "isinstance(y, Variable)", "isinstance(y, torch.Tensor)",
    "type(y) == torch.autograd.Variable", "type(y) == list", "type(y) is tuple", "type(y) is nn.Parameter",
    "type(nn.Parameter(y)) is nn.Parameter", "type(Variable(y)) == Variable", "type(Variable(y)) is torch.Tensor",
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_tensor_is_is_what_torch_says(kind: str) -> None:
    names: dict[str, object] = {}
    exec(f"{HEAD}answer = {kind}", names)
    text = f"{HEAD}loss.backward()\nif {kind}:\n    loss.backward()\n"
    found = [one for one in check(from_text(text, "train.py")).findings if one.certain]
    assert [one.code for one in found] == ["TAPE101"] * bool(names["answer"])
