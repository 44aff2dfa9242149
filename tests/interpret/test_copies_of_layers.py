"""Modules that torch makes of copies of a layer have as many parameters as they were built with layers."""

from __future__ import annotations

import pytest

from tapecheck.interpret import interpret
from tapecheck.source import from_text
from tapecheck.tape import Leaf
from tests.cases import under_torch

BUILT = {
    "encoder": "nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), {0})",
    "encoder by name": "nn.TransformerEncoder(encoder_layer=nn.TransformerEncoderLayer(8, 2, 16), num_layers={0})",
    "decoder": "nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16), {0})",
}


@pytest.mark.skipif(not under_torch.has_torch(), reason="needs torch")
@pytest.mark.parametrize("built", BUILT)
@pytest.mark.parametrize("number", [1, 2, 3, 5])
def test_each_copy_has_parameters_of_its_own(built: str, number: int) -> None:
    from torch import nn

    text = BUILT[built].format(number)
    module = eval(text, {"nn": nn})
    tape = interpret(from_text(f"from torch import nn\n\nnet = {text}\n", "program.py")).tapes[0]
    leaves = {event.name.partition(".")[2] for event in tape.events if isinstance(event, Leaf)}
    assert {name for name, _ in module.named_parameters()} <= leaves
    kind = type(module).__name__
    made = [event.name for event in tape.events if isinstance(event, Leaf) and event.name.startswith(f"{kind}.")]
    assert len(made) == len(list(module.parameters()))


@pytest.mark.skipif(not under_torch.has_torch(), reason="needs torch")
@pytest.mark.parametrize("number", [1, 2, 3, 5])
def test_each_copy_is_trained(number: int) -> None:
    text = f"""\
import torch
from torch import nn

net = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), {number})
opt = torch.optim.SGD(net.parameters(), lr=0.1)
loss = net(torch.randn(3, 2, 8)).sum()
loss.backward()
opt.step()
"""
    interpretation = interpret(from_text(text, "program.py"))
    tape = interpretation.tapes[0]
    leaves = {event.id: event.name for event in tape.events if isinstance(event, Leaf)}
    trained = {name for number, name in leaves.items() if name.startswith("TransformerEncoder.")}
    reached = {leaves[one] for walk in tape.ledger.traversals.values() for one in walk.executed if one in leaves}
    assert trained <= reached
