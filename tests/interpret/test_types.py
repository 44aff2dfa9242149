"""What type a tensor has, in the many ways that programs ask for it: torch says of each what the answer is.

A second backward stands behind each question. It is certain only where the answer is yes, and is lost nowhere.
"""

from __future__ import annotations

import pytest

from tests.interpret.truth import misjudged

torch = pytest.importorskip("torch")

HEAD = """\
import copy
import torch
from torch import nn
from torch.nn.utils import parametrize, prune, weight_norm

w = torch.ones(3, requires_grad=True)
layer = nn.Linear(2, 2)


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("held", torch.ones(2))
        self.buffer = nn.Buffer(torch.ones(2))
        self.scale = nn.Parameter(torch.ones(2))
        self.scales = nn.ParameterList([nn.Parameter(torch.ones(2))])


class Symmetric(nn.Module):
    def forward(self, x):
        return x + x.T


"""
TENSORS = [
    "x = torch.ones(2)", "x = w * 2", "x = nn.Parameter(torch.ones(2))", "x = layer.weight", "x = layer.weight.data",
    "x = layer.weight.detach()", "x = layer.weight.clone()", "x = layer.weight.view(4)", "x = layer.weight.cpu()",
    "x = layer.weight.to(torch.float64)", "x = layer.weight.requires_grad_(False)", "x = copy.deepcopy(layer).weight",
    "x = copy.deepcopy(layer.weight)", "x = layer.state_dict()['weight']", "x = nn.BatchNorm1d(2).running_mean",
    "x = nn.BatchNorm1d(2).weight", "x = nn.LSTM(2, 2).weight_ih_l0", "x = torch.FloatTensor([1.0])",
    "x = torch.autograd.Variable(torch.ones(2))", "x = torch.autograd.Variable(layer.weight)", "x = Own().held",
    "x = Own().buffer", "x = nn.Buffer(w)", "x = nn.Buffer(layer.weight)", "x = nn.Buffer(w * 2)",
    "x = Own().scale", "x = Own().scales[0]", "x = nn.LazyLinear(2).weight",
    "lazy = nn.LazyLinear(2)\nlazy(torch.ones(1, 2))\nx = lazy.weight", "x = nn.LazyConv2d(2, 1).weight",
    "prune.l1_unstructured(layer, 'weight', 0.5)\nx = layer.weight",
    "prune.l1_unstructured(layer, 'weight', 0.5)\nx = layer.weight_orig",
    "prune.identity(layer, name='weight')\nprune.remove(layer, 'weight')\nx = layer.weight",
    "prune.global_unstructured([(layer, 'weight')], prune.L1Unstructured, amount=1)\nx = layer.weight",
    "x = weight_norm(layer).weight", "x = nn.utils.parametrizations.spectral_norm(layer).weight",
    "parametrize.register_parametrization(layer, 'weight', Symmetric())\nx = layer.weight",
    "layer.weight = nn.Parameter(torch.ones(2, 2))\nx = layer.weight", "layer.weight.data = w\nx = layer.weight",
    "del layer.weight\nlayer.weight = w * 2\nx = layer.weight", "x = torch.stack([layer.weight, layer.weight])",
]  # fmt: skip
QUESTIONS = [
    "type(x) is torch.Tensor", "type(x) is nn.Parameter", "type(x) == nn.parameter.Parameter",
    "isinstance(x, nn.Parameter)", "isinstance(x, torch.Tensor)", "type(x) in (torch.Tensor, nn.Parameter)",
    "issubclass(type(x), torch.Tensor)", "issubclass(type(x), nn.Parameter)", "x.__class__ is torch.Tensor",
    "x.__class__ is nn.Parameter", "type(x).__name__ == 'Parameter'", "'Parameter' in str(type(x))",
    "isinstance(x, nn.Buffer)", "type(x) is nn.Buffer", "type(x) is nn.UninitializedParameter",
    "isinstance(x, nn.parameter.UninitializedParameter)", "type(x) is torch.FloatTensor",
    "isinstance(x, torch.FloatTensor)", "isinstance(x, torch.autograd.Variable)", "type(x) is torch.autograd.Variable",
    "type(x) is type(w)", "type(x) is nn.modules.linear.Linear", "isinstance(x, nn.Module)", "type(x) is float",
    "x.requires_grad", "x.is_leaf", "isinstance(x, tuple)", "x is None", "hasattr(x, 'data')",
]  # fmt: skip


@pytest.mark.parametrize("made", TENSORS)
def test_what_is_certain_of_a_type_is_so_in_torch(made: str) -> None:
    assert not misjudged(f"{HEAD}{made}", QUESTIONS)
