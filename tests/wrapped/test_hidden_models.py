"""Wrapped models that are made by code which is not visible: what is told of them is possible, and no more than of the
same program whose model is seen.
"""

from __future__ import annotations

import ast
from functools import cache

import pytest

from tapecheck.check import check
from tapecheck.rules import RAISING, Finding
from tapecheck.source import from_text
from tests.wrapped.test_hidden import PROGRAMS

WRAPS = ("DDP", "DistributedDataParallel")
HEADER = """\
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from models import build_model
from data import batches

dist.init_process_group("gloo")
model = DDP(build_model())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in batches():
    optimizer.zero_grad()
"""
STEPS = {
    "inside": ("torch.nn.functional.mse_loss(model.module(x), y).backward()", 12),
    "a method inside": ("model.module.loss(x, y).backward()", None),
    "again": ("out = model(x)\nout.mean().backward(retain_graph=True)\n(out - y).norm().backward()", 14),
    "computed": (
        """\
loss = model(x).mean()
grads = torch.autograd.grad(loss, model.parameters())
for p, g in zip(model.parameters(), grads):
    p.grad = g""",
        13,
    ),
    "unsynced": ("with model.no_sync():\n    model(x).mean().backward()", 13),
    # What it is told may choose other parameters.
    "wrapped, then inside": ("model(x).mean().backward()\nmodel.module(y).mean().backward()", None),
    "once": ("model(x).mean().backward()", None),
    "twice": ("model(x).mean().backward()\nmodel(y).mean().backward()", None),
    "outputs": ("a, b = model(x)\na.mean().backward(retain_graph=True)\nb.mean().backward()", None),
    "fields": ("out = model(x)\nout.a.mean().backward(retain_graph=True)\nout.b.mean().backward()", None),
    "a part": ("model(x).mean().backward()\nmodel.module.head(y).mean().backward()", None),
    "a part of the loss": ("(model(x) + model.module.head(y)).mean().backward()", None),
    "reduced": (
        "model.module(x).mean().backward()\nfor p in model.parameters():\n    dist.all_reduce(p.grad)",
        None,
    ),
    "reduced elsewhere": ("model.module(x).mean().backward()\nreduce(model)", None),
    "evaluated": ("with torch.no_grad():\n    model.module(x)\nmodel(y).mean().backward()", None),
    "accumulated": ("with model.no_sync():\n    model(x).mean().backward()\nmodel(y).mean().backward()", None),
}
"""Steps of a loop, and the line of the backward whose gradients stay local."""


def found(text: str) -> dict[tuple[str, int], Finding]:
    return {(each.code, each.span.line): each for each in check(from_text(text, "train.py")).findings}


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("given", [False, True])
def test_gradients_of_a_hidden_model_that_stay_local_are_possible(name: str, given: bool) -> None:
    step, line = STEPS[name]
    body = "\n".join(f"    {each}" for each in [*step.splitlines(), "optimizer.step()"])
    text = HEADER.replace("from data import batches", "from data import batches, reduce") + body
    if given:
        head, loop = text.split("dist.init_process_group", 1)
        inner = f"dist.init_process_group{loop}".replace("build_model()", "model").replace("batches()", "loader")
        text = f"{head}def train(model, loader):\n" + "\n".join(f"    {each}" for each in inner.splitlines())
    told = {at: each for at, each in found(text).items() if at[0].startswith("TAPE6")}
    assert set(told) == (set() if line is None else {("TAPE601", line + given)})
    assert not any(each.certain for each in told.values())


@cache
def programs() -> dict[str, str]:
    return {path.stem: path.read_text() for path in sorted(PROGRAMS.glob("*.py")) if "DDP(" in path.read_text()}


def with_hidden_models(text: str) -> str | None:
    """Return a program whose wrapped models are made by code that is not visible; None where it wraps none that it
    makes itself.
    """
    tree = ast.parse(text)
    made = {
        node.targets[0].id: node for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.Call)
    }  # fmt: skip
    hidden = ast.parse("unseen.build_model()", mode="eval").body
    changed = False
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in WRAPS and node.args:
            model = node.args[0]
            if isinstance(model, ast.Name) and model.id in made:
                made[model.id].value = hidden
                changed = True
            elif isinstance(model, ast.Call) and "DDP" not in ast.unparse(model):
                node.args[0] = hidden
                changed = True
    if not changed:
        return None
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    tree.body = [node for node in tree.body if not (isinstance(node, ast.ClassDef) and node.name not in used)]
    lines = ast.unparse(tree).splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith(("import ", "from ")))
    return "\n".join([*lines[:first], "import unseen", *lines[first:]])


@pytest.mark.parametrize("name", sorted(programs()))
def test_a_hidden_model_makes_no_finding_that_the_whole_lacks(name: str) -> None:
    hidden = with_hidden_models(programs()[name])
    if hidden is None:
        pytest.skip("wraps no model that it makes itself")
    whole = found(programs()[name])
    # Lines are others, statements are not.
    texts = programs()[name].splitlines()
    told = {(code, ast.unparse(ast.parse(texts[line - 1].strip()))) for code, line in whole if _parses(texts[line - 1])}
    raises = any(each.certain and each.code in RAISING for each in whole.values())
    for (code, line), each in found(hidden).items():
        text = hidden.splitlines()[line - 1].strip()
        assert each.rests_on or (code, text) in told, f"{code} {text}\n{hidden}"
        assert raises or (code, text) in told, f"{code} {text}\n{hidden}"


def _parses(line: str) -> bool:
    try:
        ast.parse(line.strip())
    except SyntaxError:
        return False
    return True


def test_there_are_models_to_hide() -> None:
    assert sum(1 for text in programs().values() if with_hidden_models(text) is not None) > 60
