"""Pruned parameters: what torch.nn.utils.prune makes of a module, and when it computes the weight.

Torch says of each question what the answer is, and of each program whether it raises.
"""

from __future__ import annotations

import warnings

import pytest

from tapecheck.check import check
from tapecheck.source import from_text
from tests.interpret.truth import misjudged

torch = pytest.importorskip("torch")

HEAD = """\
import torch
from torch import nn
from torch.nn.utils import prune

w = torch.ones(3, requires_grad=True)
layer, net = nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))
x = torch.ones(4, 2)
"""
PRUNES = [
    "prune.l1_unstructured(layer, 'weight', amount=0.5)", "prune.identity(layer, name='weight')",
    "prune.global_unstructured([(layer, 'weight')], pruning_method=prune.L1Unstructured, amount=1)",
    "prune.random_structured(layer, 'weight', amount=1, dim=0)\nprune.l1_unstructured(layer, 'weight', amount=1)",
]  # fmt: skip
QUESTIONS = [
    "layer.weight is layer.weight", "list(layer.children())", "len(list(layer.modules())) == 1",
    "'weight' in dict(layer.named_parameters())", "'weight_orig' in dict(layer.named_parameters())",
    "'weight_mask' in dict(layer.named_buffers())", "layer.weight.is_leaf", "layer.weight.requires_grad",
    "layer.weight_orig.is_leaf", "isinstance(layer.weight_orig, nn.Parameter)", "len(list(layer.parameters())) == 2",
]  # fmt: skip


@pytest.mark.parametrize("prunes", PRUNES)
def test_what_a_pruned_module_has_is_what_torch_gives_it(prunes: str) -> None:
    assert not misjudged(f"{HEAD}{prunes}", QUESTIONS)


PROGRAMS = {
    "a penalty twice, the weight computed once": "layer.weight.pow(2).sum().backward()\n" * 2,
    "a forward between": "layer.weight.pow(2).sum().backward()\nlayer(x)\nlayer.weight.pow(2).sum().backward()",
    "pruned between": "layer.weight.pow(2).sum().backward()\n"
    "prune.l1_unstructured(layer, 'weight', amount=1)\nlayer.weight.pow(2).sum().backward()",
    "forwards alone": "layer(x).sum().backward()\nlayer(x).sum().backward()",
    "changed in place": "loss = layer(x).pow(2).sum()\nwith torch.no_grad():\n    layer.weight.mul_(2)\n"
    "loss.backward()",
    "the parameter is changed": "loss = layer(x).pow(2).sum()\nwith torch.no_grad():\n    layer.bias.mul_(2)\n"
    "loss.backward()",
    "removed": "prune.remove(layer, 'weight')\n" + "layer.weight.pow(2).sum().backward()\n" * 2,
    "frozen by names": "for n, p in layer.named_parameters():\n    if n in ('weight_orig', 'bias'):\n"
    "        p.requires_grad_(False)\nlayer(x).sum().backward()",
}  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("prunes", PRUNES)
def test_errors_of_pruned_weights_are_those_of_torch(prunes: str, program: str) -> None:
    text = f"{HEAD}{prunes}\n{PROGRAMS[program]}\n"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(text, {})
        except RuntimeError:
            raises = True
        else:
            raises = False
    assert [one.certain for one in check(from_text(text, "train.py")).findings if one.severity == "error"] == [
        True
    ] * raises


def test_pruning_is_no_waste_and_a_frozen_network_records_nothing() -> None:
    program = """\
net.eval()
for part in net:
    if isinstance(part, nn.Linear):
        prune.l1_unstructured(part, "weight", amount=0.5)
for part in net.modules():
    if not list(part.children()):
        part.requires_grad_(False)
for _ in range(5):
    print(net(x).argmax())
"""
    assert not check(from_text(HEAD + program, "eval.py")).findings
