"""Functions that nobody calls, which go through data with a model: what some caller can differentiate is never told.

Each makes a number or an array of what the model computes, and does something else with it besides. Torch runs it and
shows what a caller comes to have: where that has a graph, or the function fails unless recording is off, it is no
evaluation that builds its graphs for nothing.
"""

from __future__ import annotations

from typing import Any

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

torch = pytest.importorskip("torch")

NUMBERS = {
    "item": "total += out.mean().item()",
    "float": "total += float(out.mean())",
    "argmax": "total += (out.argmax(1) == 0).sum().item()",
    "max": "total += out.max(1)[1].sum().item()",
    "detach": "total += out.detach().cpu().numpy().sum()",
    "data": "total += out.data.numpy().sum()",
    "tolist": "total += sum(out[0].tolist())",
}
USES = {
    "nothing": "pass",
    "array": "rows.append(out.numpy())",
    "converted": "rows.append(np.asarray(out.cpu()))",
    "kept": "rows.append(out)",
    "kept in a table": "rows.append({'out': out})",
    "kept detached": "rows.append(out.detach())",
    "last": "last = out.mean()",
    "summed": "last = last + out.mean()",
    "attribute": "KEPT.out = out",
    "global": "KEPT.rows.append(out)",
    "handed on": "use(out)",
    "handed on as a number": "use(out.mean().item())",
    "given back": "if total > 1e9:\n            return out",
    "raised": "if total > 1e9:\n            raise ValueError(out)",
    "differentiated": "grads = torch.autograd.grad(out.sum(), model.parameters())",
    "asked": "rows.append(out.requires_grad)",
    "checked": "assert out.grad_fn is not None",
}
RETURNS = {"number": "total", "rows": "rows", "last": "last", "both": "(total, rows)", "none": "None"}


def program(number: str, use: str, returned: str) -> str:
    return f"""\
import numpy as np
import torch
from types import SimpleNamespace

KEPT = SimpleNamespace(rows=[], out=None)


def score(model, data, use):
    model.eval()
    total, rows, last = 0.0, [], 0.0
    for x in data:
        out = model(x)
        {NUMBERS[number]}
        {USES[use]}
    return {RETURNS[returned]}
"""


def graphs_in(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return bool(value.requires_grad)
    if isinstance(value, dict):
        return any(map(graphs_in, value.values()))
    return isinstance(value, (list, tuple)) and any(map(graphs_in, value))


def in_vain(text: str) -> bool:
    """Return whether torch runs a function to its end, and nothing that anybody comes to have then has a graph."""
    space: dict[str, Any] = {}
    exec(text, space)
    used: list[Any] = []
    try:
        result = space["score"](torch.nn.Linear(3, 2), [torch.randn(4, 3) for _ in range(3)], used.append)
    except (RuntimeError, AssertionError):
        return False
    kept = space["KEPT"]
    return not graphs_in([result, used, kept.rows, kept.out])


@pytest.mark.parametrize("use", USES)
def test_what_a_caller_can_differentiate_is_not_told(use: str) -> None:
    ways = {("item", returned) for returned in RETURNS} | {(number, "both") for number in NUMBERS}
    for number, returned in sorted(ways):
        text = program(number, use, returned)
        told = [one for one in check(from_text(text, "score.py")).findings if one.code == "TAPE302"]
        assert not told or in_vain(text), text
        assert not any(one.certain for one in told)


def test_an_evaluation_is_told() -> None:
    for number in NUMBERS:
        findings = check(from_text(program(number, "nothing", "number"), "score.py")).findings
        assert [one.code for one in findings] == ["TAPE302"], number
