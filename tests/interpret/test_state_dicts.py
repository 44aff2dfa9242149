"""What `state_dict()` of a model gives: values without a graph, of a library's model as of the program's own."""

from __future__ import annotations

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

MODELS = {
    "torchvision": "from torchvision import models\nmake = lambda: models.resnet18()",
    "torchvision, chosen": "import sys\nfrom torchvision import models\n"
    "make = lambda: models.vgg16() if len(sys.argv) > 1 else models.alexnet()",
    "transformers": "from transformers import AutoModel\nmake = lambda: AutoModel.from_pretrained('bert')",
    "timm": "import timm\nmake = lambda: timm.create_model('resnet18')",
    "its own": "from torch import nn\nmake = lambda: nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))",
}
GONE_OVER = {
    "items": "for k, v in model.state_dict().items():\n    {}",
    "values": "for v in model.state_dict().values():\n    {}",
    "names": "state = model.state_dict()\nfor k in state:\n    v = state[k]\n    {}",
    "names of a list": "for k in list(model.state_dict()):\n    v = model.state_dict()[k]\n    {}",
}
DONE = (
    "v.add_(v + 1)",
    "other.state_dict().get(k, v).copy_(v.clone())",
    "v.copy_(0.9 * v + 0.1 * other.state_dict()['w'])",
    "print(v.mean().item(), (v - v.mean()).pow(2).sum())",
    "total[k] = torch.zeros_like(v).add_(v)",
    "v.mul_(0.5).add_(torch.randn_like(v), alpha=0.1)",
)


def _codes(text: str) -> list[str]:
    return [finding.code for finding in check(from_text(text, "program.py")).findings]


@pytest.mark.parametrize("done", DONE)
@pytest.mark.parametrize("over", GONE_OVER)
@pytest.mark.parametrize("made", MODELS)
def test_what_is_computed_of_the_values_has_no_graph(made: str, over: str, done: str) -> None:
    head = f"import torch\n{MODELS[made]}\nmodel, other, total, k = make(), make(), {{}}, 'w'\n"
    assert _codes(f"{head}for epoch in range(10):\n" + _indented(GONE_OVER[over].format(done))) == []


@pytest.mark.parametrize("made", MODELS)
def test_a_model_that_is_run_beside_them_has_one(made: str) -> None:
    loop = "for x in torch.randn(9, 2, 3):\n    for v in model.state_dict().values():\n        v.mul_(0.9)\n"
    text = f"import torch\n{MODELS[made]}\nmodel = make()\n{loop}    out = model(x)\n    print(out.argmax())\n"
    assert _codes(text) == ["TAPE302"]


def test_torch_gives_values_without_a_graph_unless_it_keeps_variables() -> None:
    torch = pytest.importorskip("torch")
    net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
    assert not any(value.requires_grad for value in net.state_dict().values())
    assert any(value.requires_grad for value in net.state_dict(keep_vars=True).values())


@pytest.mark.parametrize("keeps", ["keep_vars=True", "keep_vars=flag"])
def test_variables_that_are_kept_may_have_one(keeps: str) -> None:
    head = "import torch\nfrom hidden import flag\nfrom torchvision import models\nmodel = models.resnet18()\n"
    text = f"{head}loss = sum(v.pow(2).sum() for v in model.state_dict({keeps}).values())\nloss.backward()\n"
    assert _codes(text) == []


def _indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())
