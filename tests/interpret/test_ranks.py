"""How many dimensions the parameters of layers have: which branch of a program is theirs."""

from __future__ import annotations

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

_LAYERS = [
    "nn.Linear(3, 4)", "nn.Conv1d(3, 4, 1)", "nn.Conv2d(3, 4, 1)", "nn.BatchNorm1d(3)", "nn.Embedding(5, 3)",
    "nn.LSTM(3, 4, 2)", "nn.GRUCell(3, 4)", "nn.MultiheadAttention(4, 2)", "nn.Bilinear(3, 4, 5)",
]  # fmt: skip


@pytest.mark.parametrize("asked", ["p.dim()", "p.ndim", "len(p.shape)", "len(p.size())", "p.ndimension()"])
@pytest.mark.parametrize("layer", _LAYERS)
def test_how_many_dimensions_the_parameters_of_a_layer_have_is_known(layer: str, asked: str) -> None:
    """What is done to a parameter of another rank is not done to this one."""
    torch = pytest.importorskip("torch")
    made = eval(layer, {"nn": torch.nn})
    ranks = {parameter.dim() for parameter in made.parameters()}
    for rank in (1, 2, 3, 4):
        program = f"import torch\nfrom torch import nn\n\nlayer = {layer}\nfor p in layer.parameters():\n"
        program += f"    if {asked} == {rank}:\n        p.add_(1)\n"
        found = [one.code for one in check(from_text(program, "program.py")).findings]
        assert found == (["TAPE104"] if rank in ranks else []), (rank, ranks)


def test_a_parameter_with_other_data_has_other_dimensions() -> None:
    program = "import torch\nfrom torch import nn\n\nlayer = nn.Linear(3, 4)\nlayer.weight.data = OTHER\n"
    program += "if layer.weight.dim() == 1:\n    layer.weight.add_(1)\n"
    for other in ("layer.weight.data.view(-1)", "torch.load('weight.pt')"):
        found = check(from_text(program.replace("OTHER", other), "program.py")).findings
        assert [one.code for one in found] == ["TAPE104"]
