"""Lists of numbers of unknown length that hidden code is handed while a model evaluates with recording on.

Each kind of elements goes into a list in each way, and the list is handed over. Torch runs the program with hidden code
that walks each graph it can come to: where it finds one, the graphs of the loop are not needless.
"""

from __future__ import annotations

import types

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

torch = pytest.importorskip("torch")

TRAINING = """\
import torch
import hidden
model = torch.nn.Linear(3, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    model(torch.randn(4, 3)).pow(2).mean().backward()
    optimizer.step()
"""
LOOP = "for x, ys in hidden.loader:\n    out = model(x)\n    found = []\n"
NUMBERS = {
    "tolist": "out.argmax(1).tolist()",
    "tolist of labels": "ys.tolist()",
    "items": "[y.item() for y in ys]",
    "whole": "[int(y) for y in ys]",
    "text": "[str(y.item()) for y in ys]",
    "format": "[f'{y.item()}' for y in ys]",
    "shape": "out.shape",
    "sizes": "list(out.size()[1:])",
    "mapped": "list(map(int, ys))",
    "generator": "(y.item() for y in ys)",
    "pairs": "zip(ys.tolist(), out.argmax(1).tolist())",
}
GRAPHS = {
    "rows": "list(out)",
    "views": "[o.sum() for o in out]",
    "tensors": "out",
    "chosen": "[o if hidden.flag(o) else 0 for o in out]",
    "of an index": "[(0, 1, out[0], out[1])[i] for i, y in enumerate(ys)]",
    "after some": "[0 if i < 2 else out[i] for i, y in enumerate(ys)]",
    "by a function": "list(map(lambda y: out[0], ys))",
    "of the program": "[rows(i) for i, y in enumerate(ys)]",
    "rows and numbers": "zip(ys.tolist(), out)",
    "generated": "(o.mean() for o in out)",
    "in a list": "[0, 1, *out]",
}
WAYS = {
    "extend": "found.extend({})",
    "plus": "found += {}",
    "sum": "found = found + list({})",
    "list": "found = list({})",
    "comprehension": "found = [one for one in {}]",
    "star": "found = [*{}]",
    "twice": "found.extend(ys.tolist())\n    found.extend({})",
    "insert": "found.extend(ys.tolist())\n    for one in {}:\n        found.insert(0, one)",
    "one by one": "for one in {}:\n        found.append(one)",
    "item": "found.extend(ys.tolist())\n    for one in {}:\n        found[-1] = one",
    "unknown item": "found.extend(ys.tolist())\n    for one in {}:\n        found[hidden.place] = one",
    "slice": "found.extend(ys.tolist())\n    found[1:] = {}",
    "before": "found.extend({})\n    found.extend(ys.tolist())",
    "taken from": "found.extend({})\n    found.extend(ys.tolist())\n    found.pop()\n    found.pop()",
    "cut": "found.extend({})\n    found.extend(ys.tolist())\n    found = found[:-1]",
}
CHANGED = {
    "held": "held = ys.tolist()\n    held[0] = list({})[-1]\n    found.extend(held)",
    "appended": "held = ys.tolist()\n    held.append(list({})[-1])\n    found.extend(held)",
    "extended": "held = ys.tolist()\n    held += list({})\n    found.extend(held)",
}
"""Ways by a list of numbers that is changed."""
HANDED = {
    "list": "hidden.use(found)",
    "keyword": "hidden.use(predictions=found)",
    "in a list": "hidden.use([found, 'text'])",
    "in a dict": "hidden.use({'found': found})",
}
DEFINED = "def rows(i):\n    return (0, 1, out[0], out[1])[i]\n"


def _graphs(value: object) -> list[object]:
    """Return the tensors with a graph in a value."""
    if isinstance(value, torch.Tensor):
        return [value] if value.requires_grad else []
    if isinstance(value, dict):
        value = list(value.values())
    return [one for part in value for one in _graphs(part)] if isinstance(value, (list, tuple)) else []


def needs(program: str) -> bool:
    """Whether hidden code that is present finds a graph in what it is handed."""
    found: list[object] = []
    hidden = types.ModuleType("hidden")
    data = [(torch.randn(4, 3), torch.tensor([1, 2, 0, 3])) for _ in range(2)]
    hidden.__dict__.update(
        loader=data, place=1, flag=lambda value: True, use=lambda *a, **k: found.extend(_graphs([*a, *k.values()]))
    )
    exec(compile(program.replace("import hidden\n", ""), "program.py", "exec"), {"hidden": hidden})
    return bool(found)


def told(program: str) -> bool:
    return any(one.code == "TAPE302" for one in check(from_text(program, "program.py")).findings)


def of(made: str, way: str, handed: str) -> str:
    return f"{TRAINING}{DEFINED}{LOOP}    {(WAYS | CHANGED)[way].format(made)}\n    {HANDED[handed]}\n"


@pytest.mark.parametrize("way", WAYS | CHANGED)
def test_a_list_that_has_a_graph_is_needed(way: str) -> None:
    wrong = {}
    for number, (kind, made) in enumerate(GRAPHS.items()):
        program = of(made, way, list(HANDED)[number % len(HANDED)])
        if needs(program) and told(program):
            wrong[kind] = program
    assert not wrong


@pytest.mark.parametrize("kind", NUMBERS)
def test_a_list_of_numbers_hides_no_needless_graph(kind: str) -> None:
    programs = [of(NUMBERS[kind], way, list(HANDED)[number % len(HANDED)]) for number, way in enumerate(WAYS)]
    assert not any(map(needs, programs))
    assert sum(map(told, programs)) >= 0.75 * len(programs)


METER = """\
class Meter:
    def __init__(self):
        self.total = 0.0
    def update(self, v, n=1):
        self.total += v * n
def train(model, criterion, data, optimizer, meter):
    model.train()
    criterion.train()
    meter = Meter()
    for x, y in data:
        losses = criterion(model(x), y)
        weights = criterion.weights
        loss = sum(losses[k] * weights[k] for k in losses.keys() if k in weights)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        v = losses['error']
        {asked}
        meter.update(v)
"""


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("pass", True),
        ("assert isinstance(v, torch.Tensor)", True),
        ("assert isinstance(v, (float, int))", False),
        ("assert isinstance(v, float)", False),
        ("v = v.item() if isinstance(v, torch.Tensor) else v; assert isinstance(v, (int, float))", False),
        ("if not isinstance(v, (int, float)): continue", False),
        ("if isinstance(v, (list, tuple, torch.Tensor)): v = sum(v)", True),
    ],
)
def test_what_is_found_to_be_a_number_has_no_graph(asked: str, *, told: bool) -> None:
    found = check(from_text("import torch\n" + METER.format(asked=asked), "train.py")).findings
    assert [one.code for one in found if one.code == "TAPE201"] == ["TAPE201"] * told


LOADED = """\
import torch
from torch import nn
from hidden import make
def load_into(model, state, missing):
    def load(module, prefix=""):
        {called}
        for name, child in module._modules.items():
            if child is not None:
                load(child, prefix + name + ".")
    load(model)
model = make()
load_into(model, torch.load("weights.pt"), [])
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for x, y in torch.load("data.pt"):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    "called",
    [
        "module._load_from_state_dict(state, prefix, {}, True, missing, missing, missing)",
        "module._save_to_state_dict(state, prefix, True)",
        "module.register_forward_hook(lambda *given: missing.append(len(given)))",
        "missing.append(module.extra_repr())",
    ],
)
def test_what_every_module_does_without_running_builds_no_graph(called: str) -> None:
    assert not check(from_text(LOADED.format(called=called), "load.py")).findings
