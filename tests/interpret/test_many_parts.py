"""Models of hundreds of parameters that the program freezes one by one: each of them is frozen, or nobody is sure.

Each way of going over them is run by torch, which shows that none requires grad any more. The dry run may not be sure
that graphs are built then.
"""

from __future__ import annotations

import pytest

from tapecheck.check import check
from tapecheck.rules import Reading
from tapecheck.source import from_text

torch = pytest.importorskip("torch")

MODEL = """\
import torch
from torch import nn
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (nn.Sequential(*[nn.Linear(2, 2) for _ in range(6)]) for _ in range(3))
    def forward(self, x):
        return self.c(self.b(self.a(x))) + x
"""
OF_PARTS = MODEL + "model = nn.Sequential(*[Block() for _ in range({blocks})])\n"
MODEL += "model = nn.Sequential(*[Block() for _ in range(23)])\nmodel.eval()\n"
EVALUATION = """
for _ in range(5):
    out = model(torch.ones(1, 2))
    print(out.argmax())
"""
WORK = ", ".join(["p.mean(), p.std(), p.min(), p.max()"] * 3)
FREEZES = {
    "parameters": "for p in model.parameters():\n    p.requires_grad = False",
    "list": "for p in list(model.parameters()):\n    p.requires_grad_(False)",
    "enumerate": "for i, p in enumerate(model.parameters()):\n    p.requires_grad = False",
    "zip": "for (n, p), k in zip(model.named_parameters(), range(10000)):\n    p.requires_grad = False",
    "comprehension": "[p.requires_grad_(False) for p in model.parameters()]",
    "generator": "all(p.requires_grad_(False) is p for p in model.parameters())",
    "map": "list(map(lambda p: p.requires_grad_(False), model.parameters()))",
    "kept names": "for n, p in model.state_dict(keep_vars=True).items():\n    p.requires_grad_(False)",
    "dict": "params = dict(model.named_parameters())\nfor n in params:\n    params[n].requires_grad = False",
    "numbers": "params = list(model.parameters())\nfor i in range(len(params)):\n    params[i].requires_grad = False",
    "index of a model": "for i in range(len(model)):\n    for p in model[i].parameters():\n"
    "        p.requires_grad = False",
    "index of parts": "parts = list(model.modules())\nfor i in range(len(parts)):\n    parts[i].requires_grad_(False)",
    "counted": "params = list(model.parameters())\ni = 0\nwhile i < len(params):\n    params[i].requires_grad = False\n"
    "    i += 1",
    "counted to the end": "params = list(model.parameters())\ni = 0\nwhile True:\n    params[i].requires_grad = False\n"
    "    i += 1\n    if i == len(params):\n        break",
    "next": "given = iter(model.parameters())\nwhile True:\n    try:\n        p = next(given)\n"
    "    except StopIteration:\n        break\n    p.requires_grad = False",
    "next or None": "given = iter(model.parameters())\nwhile (p := next(given, None)) is not None:\n"
    "    p.requires_grad = False",
    "below a number": "for i, p in enumerate(model.parameters()):\n    if i < 5000:\n        p.requires_grad = False",
    "names": "names = [n for n, _ in model.named_parameters()]\nfor n in names:\n"
    "    model.get_parameter(n).requires_grad = False",
    "modules by names": "names = [n for n, _ in model.named_modules()]\nfor n in names:\n"
    "    model.get_submodule(n).requires_grad_(False)",
    "attributes by names": "for n, _ in list(model.named_parameters()):\n    owner = model\n"
    "    *path, last = n.split('.')\n    for part in path:\n        owner = getattr(owner, part)\n"
    "    getattr(owner, last).requires_grad = False",
    "reversed": "for p in reversed(list(model.parameters())):\n    p.requires_grad = False",
    "in pairs": "params = list(model.parameters())\nfor a, b in zip(params[::2], params[1::2]):\n"
    "    a.requires_grad = b.requires_grad = False",
    "popped": "params = list(model.parameters())\nwhile params:\n    params.pop().requires_grad = False",
    "modules": "for m in model.modules():\n    for p in m.parameters(recurse=False):\n        p.requires_grad = False",
    "layers": "for m in model.modules():\n    if isinstance(m, nn.Linear):\n        m.requires_grad_(False)",
    "children": "for m in model.children():\n    for p in m.parameters():\n        p.requires_grad = False",
    "apply": "model.apply(lambda m: [p.requires_grad_(False) for p in m.parameters(recurse=False)])",
    "much work": "for p in model.parameters():\n    print(p.mean(), p.std(), p.min(), p.max(), p.shape, p.numel(),"
    " [p.size(k) for k in range(p.dim())])\n    p.requires_grad = False",
    "much work in a comprehension": f"[({WORK}, p.requires_grad_(False)) for p in model.parameters()]",
    "much work in a map": f"list(map(lambda p: ({WORK}, p.requires_grad_(False)), model.parameters()))",
}


@pytest.mark.parametrize("way", FREEZES)
def test_all_parts_are_frozen_or_nobody_is_sure(way: str) -> None:
    names: dict[str, object] = {}
    exec(MODEL + FREEZES[way], names)
    model = names["model"]
    assert isinstance(model, torch.nn.Module)
    assert len(list(model.parameters())) > 400 and not any(p.requires_grad for p in model.parameters())
    assert not [one for one in check(from_text(MODEL + FREEZES[way] + EVALUATION, "eval.py")).findings if one.certain]


@pytest.mark.parametrize("way", ["parameters", "comprehension", "layers"])
def test_what_leaves_them_alone_is_told(way: str) -> None:
    (found,) = check(from_text(MODEL + FREEZES[way].replace("False", "True") + EVALUATION, "eval.py")).findings
    assert (found.code, found.certain) == ("TAPE302", True)


LOSS = "loss = model(torch.ones(1, 2)).sum()\nparams = list(model.parameters())\n"
GRADIENTS = {
    "comprehension": "g = [torch.autograd.grad(loss, p, retain_graph=True) for p in model.parameters()]",
    "generator": "print(sum(torch.autograd.grad(loss, p, retain_graph=True)[0].sum().item() for p in params))",
    "map": "g = list(map(lambda p: torch.autograd.grad(loss, p, retain_graph=True), params))",
    "loop": "for p in params:\n    g = torch.autograd.grad(loss, p, retain_graph=True)[0]\n    p.data -= 0.1 * g",
    "branch": "for p in model.parameters():\n    g = torch.autograd.grad(loss, p, retain_graph=True)[0]\n"
    "    if g.norm() > 1:\n        p.data -= g\n    else:\n        p.data -= 0.1 * g",
    "backward": "for p in model.parameters():\n    loss.backward(inputs=[p], retain_graph=True)",
    "second order": "grads = torch.autograd.grad(loss, params, create_graph=True)\n"
    "dot = sum((g * torch.ones_like(g)).sum() for g in grads)\n"
    "h = [torch.autograd.grad(dot, p, retain_graph=True, allow_unused=True) for p in params]",
    "product": "grads = torch.autograd.grad(loss, params, create_graph=True)\nfor p, g in zip(params, grads):\n"
    "    h = torch.autograd.grad((g * g.detach()).sum(), params, retain_graph=True, allow_unused=True)",
}


@pytest.mark.parametrize("way", GRADIENTS)
def test_what_is_walked_does_not_grow_with_the_square_of_the_parameters(way: str) -> None:
    walked = []
    for blocks in (7, 28):
        report = check(from_text(OF_PARTS.format(blocks=blocks) + LOSS + GRADIENTS[way], "many.py"))
        assert not report.interpretation.exhausted
        tape = max(report.interpretation.tapes, key=lambda one: len(one.events))
        walked.append(sum(len(run.executed) for run in Reading(tape).runs))
    # Four times the parameters are sixteen times the nodes, if each walks all the others.
    assert walked[1] < 6 * walked[0], walked


OF_THE_ITERATION = {
    "an input": "probe = torch.ones(1, 2, requires_grad=True)\n    probe.requires_grad_(False)",
    "a copy": "frozen = copy.deepcopy(model)\n    frozen.requires_grad_(False)",
    "a new module": "head = nn.Linear(2, 2)\n    for p in head.parameters():\n        p.requires_grad = False",
}


@pytest.mark.parametrize("makes", OF_THE_ITERATION)
def test_what_an_iteration_makes_for_itself_says_nothing_of_other_parts(makes: str) -> None:
    program = f"""\
import copy
import torch
from torch import nn
model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))
for step in range(100):
    {OF_THE_ITERATION[makes]}
    out = model(torch.ones(1, 2))
    print(out.argmax())
"""
    (found,) = check(from_text(program, "eval.py")).findings
    assert (found.code, found.certain) == ("TAPE302", True)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("get_parameter", "0.a.0"), ("get_parameter", "0.a.0.weight"), ("get_parameter", "0"),
        ("get_buffer", "0.a.0.weight"),
        ("get_submodule", "0.a.0.weight"), ("get_submodule", "0.a"), ("get_submodule", ""),
        ("get_parameter", "0.a.99.weight"),
    ],
)  # fmt: skip
def test_parts_by_name_are_there_where_torch_finds_them(method: str, path: str) -> None:
    text = (
        MODEL
        + f"""
w = torch.ones(2, requires_grad=True)
loss = w.pow(2).sum()
loss.backward()
try:
    model.{method}({path!r})
except (AttributeError, IndexError):
    found = False
else:
    found = True
if found:
    loss.backward()
"""
    )
    names: dict[str, object] = {}
    exec(text.partition("if found")[0], names)
    found = [one.certain for one in check(from_text(text, "train.py")).findings]
    assert (found != []) if names["found"] else (True not in found)
