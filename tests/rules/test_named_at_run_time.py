"""Evaluations of models that hidden code makes, by a name that only the run knows: their graphs are perhaps in vain."""

from __future__ import annotations

import itertools
import sys
import types
from typing import Any

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

MADE = {
    "by a factory": "import zoo\nmodel = zoo.build(name)\n",
    "by an attribute of a module": "import zoo\nmodel = getattr(zoo, name)(3)\n",
    "out of a table": "from zoo import MODELS\nmodel = MODELS[name](3)\n",
    "by a registry": "from zoo import MODELS\nmodel = MODELS.get(name)(features=3)\n",
    "by a text": "from zoo import *\nmodel = eval(name)(3)\n",
    "by a module that is imported by name": "import importlib\nzoo = importlib.import_module('zoo')\n"
    "model = getattr(zoo, name)(3)\n",
    "by a configuration": "from zoo import config\nmodel = config.model.made()\n",
}
TOLD = {
    "by itself": "model.eval()\n",
    "where it is moved": "model = model.to('cpu')\nmodel.eval()\n",
    "in a chain": "model = model.to('cpu').eval()\n",
}
LOOPS = {
    "a count": "total = 0\nfor x in xs:\n    out = model(x)\n    total += (out.argmax(1) == 1).sum().item()\n",
    "a loss": "total = 0.0\nfor x in xs:\n    total += torch.nn.functional.mse_loss(model(x), x).item()\n",
    "predictions": "kept = []\nfor x in xs:\n    kept.append(model(x).detach())\n",
    "in a function": "def evaluate(net, batches):\n    total = 0.0\n    for x in batches:\n"
    "        total += net(x).mean().item()\n    return total\nprint(evaluate(model, xs))\n",
    "without recording": "total = 0\nwith torch.no_grad():\n    for x in xs:\n"
    "        total += (model(x).argmax(1) == 1).sum().item()\n",
    "without recording inside": "total = 0\nfor x in xs:\n    with torch.inference_mode():\n"
    "        total += model(x).mean().item()\n",
    "without recording from here on": "torch.set_grad_enabled(False)\ntotal = 0\nfor x in xs:\n"
    "    total += model(x).mean().item()\n",
    "where it learns": "for x in xs:\n    loss = model(x).mean()\n    loss.backward()\n    print(loss.item())\n",
    "of what a backward walks behind": "total = 0.0\nfor x in xs:\n    total = total + model(x).mean()\n"
    "total.backward()\n",
}
HEAD = "import os\nimport torch\nname = os.environ.get('NAME_OF_A_TEST', 'Net')\nxs = [torch.ones(2, 3)] * 3\n"


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Stand in for the hidden code; count the graphs that its model has made, and those that a backward has walked."""
    torch = pytest.importorskip("torch")
    counted = {"made": 0, "walked": 0}

    def walked(_: Any) -> None:
        counted["walked"] += 1

    class Net(torch.nn.Linear):  # type: ignore[misc, name-defined]
        def __init__(self, features: int = 3) -> None:
            super().__init__(features, features)

        def forward(self, x: Any) -> Any:
            out = super().forward(x)
            if out.requires_grad:
                counted["made"] += 1
                out.register_hook(walked)
            return out

    zoo = types.ModuleType("zoo")
    config = types.SimpleNamespace(model=types.SimpleNamespace(made=Net))
    vars(zoo).update(Net=Net, MODELS={"Net": Net}, build=lambda name: Net(), config=config)
    monkeypatch.setitem(sys.modules, "zoo", zoo)
    return counted


@pytest.mark.parametrize(("made", "told", "loop"), [*itertools.product(MADE, TOLD, LOOPS)])
def test_graphs_in_vain_are_told_as_possible(made: str, told: str, loop: str, graphs: dict[str, int]) -> None:
    torch = pytest.importorskip("torch")
    text = HEAD + MADE[made] + TOLD[told] + LOOPS[loop]
    try:
        exec(compile(text, "evaluate.py", "exec"), {})
    finally:
        torch.set_grad_enabled(True)
    found = [(one.code, one.certain) for one in check(from_text(text, "evaluate.py")).findings]
    assert found == ([("TAPE302", False)] if graphs["made"] and not graphs["walked"] else [])


OTHERS = {
    "what is not told to evaluate": "for x in xs:\n    print(model(x).sum().item())\n",
    "what is told to train": "model.train()\nfor x in xs:\n    print(model(x).sum().item())\n",
    "what is given an expression": "model.eval('a + b')\nfor x in xs:\n    print(model(x).sum().item())\n",
    "what is given no tensor": "model.eval()\nfor number in range(3):\n    print(model(number))\n",
    "what is not called": "model.eval()\nfor x in xs:\n    print(model.score(x).item())\n",
}


@pytest.mark.parametrize(("made", "other"), [*itertools.product(MADE, OTHERS)])
def test_what_need_be_no_model_is_none(made: str, other: str) -> None:
    text = HEAD + MADE[made] + OTHERS[other]
    assert check(from_text(text, "evaluate.py")).findings == []
