"""What a model that was handed in gives: which of its parts have a graph, and whether its parameters are trained.

Each function is checked with nothing of the model known but that it is one, and run under torch with models that give
the same form: one that is trained, one that is frozen, some that give numbers beside the loss. What is certain of it
holds for all of them, and a safe fix leaves each of them running.
"""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest

from tapecheck.check import check
from tapecheck.fixes import fixes_for
from tapecheck.fixes.edit import apply, changes_of
from tapecheck.source import from_text
from tests.cases import under_torch

SHOWN = {
    "nothing": "pass",
    "parameters": "device = next(model.parameters()).device",
    "evaluates": "model.eval()",
    "trains": "model.train()",
    "cleared": "model.zero_grad()",
    "optimized": "opt = torch.optim.SGD(model.parameters(), lr=0.1)",
}
FORMS = {
    "whole": "out = model(x)\n        loss, other = out.mean(), out",
    "pair": "loss, other = model(x)",
    "items": "out = model(x)\n        loss, other = out[0], out[1]",
    "dict": "out = model(x)\n        loss, other = out['loss'], out['other']",
    "get": "out = model(x)\n        loss, other = out.get('loss'), out.get('other')",
    "object": "out = model(x)\n        loss, other = out.loss, out.other",
    "method": "out = model.score(x)\n        loss, other = out[0], out[1]",
    "gone over": "loss, other = [one for one in model(x)]",
    "values": "loss, other = model(x).values()",
    "helper": "loss, other = computed(model, x)",
}
LEARNED = {"no": "pass", "backward": "loss.backward()", "through both": "(loss + other).backward()"}
KEPT = {
    "other": "kept.append(other)",
    "loss": "kept.append(loss)",
    "in a dict": "kept.append({'n': 1, 'other': other})",
    "both": "kept.append((loss, other))",
    "doubled": "kept.append(other * 2)",
    "number beside it": "kept.append((loss.item(), other))",
}
PROGRAM = """\
import torch


def computed(model, x):
    out = model(x)
    return out[0], out[1]


def run(model, data):
    kept = []
    {shown}
    for x in data:
        {form}
        {learned}
        {kept}
    {given_back}
"""


def program(shown: str, form: str, learned: str, kept: str, given_back: str = "return len(kept)") -> str:
    return PROGRAM.format(
        shown=SHOWN[shown], form=FORMS[form], learned=LEARNED[learned], kept=KEPT[kept], given_back=given_back
    )


def models(form: str) -> list[Any]:
    """Return models that are called as a function of this form calls its own."""
    from torch import nn

    class Model(nn.Module):
        def __init__(self, other: Any, frozen: bool = False) -> None:
            super().__init__()
            self.body = nn.Linear(3, 1)
            self.head = nn.Linear(3, 1)
            self.other = other
            self.requires_grad_(not frozen)

        def forward(self, x: Any) -> Any:
            loss, other = self.body(x).pow(2).mean(), self.other(self, x)
            if form in ("dict", "get", "values"):
                return {"loss": loss, "other": other}
            return {"object": SimpleNamespace(loss=loss, other=other), "whole": other}.get(form, (loss, other))

        score = forward

    def computed(model: Any, x: Any) -> Any:
        return model.head(x).mean()

    found = [Model(computed), Model(computed, frozen=True)]
    if form == "whole":
        return found
    return [*found, Model(lambda model, x: model.head(x).mean().detach()), Model(lambda model, x: float(x.sum()))]


def graphs_in(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(graphs_in, value))
    return graphs_in(list(value.values())) if isinstance(value, dict) else bool(getattr(value, "requires_grad", False))


def run_with(model: Any, text: str) -> Any:
    """Return what a function keeps of the calls of a model; None where it raises."""
    import torch

    space: dict[str, Any] = {}
    exec(text, space)
    try:
        return space["run"](model, [torch.rand(4, 3) for _ in range(3)])
    except (RuntimeError, AttributeError):
        return None


@pytest.mark.skipif(not under_torch.has_torch(), reason="needs torch")
@pytest.mark.parametrize("form", FORMS)
def test_what_is_certain_holds_for_every_model(form: str) -> None:
    ways = {(shown, "other") for shown in SHOWN} | set(itertools.product(("parameters", "evaluates"), KEPT))
    for (shown, kept), learned in itertools.product(sorted(ways), LEARNED):
        told = check(from_text(program(shown, form, learned, kept), "run.py"))
        text = program(shown, form, learned, kept, "return kept")
        ran = [(model, found) for model in models(form) if (found := run_with(model, text)) is not None]
        for one in told.findings:
            assert one.code in ("TAPE201", "TAPE302"), text
            if one.code == "TAPE201" and one.certain:
                assert all(graphs_in(found) for _, found in ran), text
            for fix in fixes_for(told, one):
                if fix.applicability == "safe":
                    mended = apply(told.source.text, changes_of(told.source.text, fix.edits))
                    assert all(run_with(model, mended) is not None for model, _ in ran), mended


@pytest.mark.parametrize("form", [form for form in FORMS if form != "get"])
def test_a_loss_that_a_backward_came_through_is_certainly_kept(form: str) -> None:
    for shown in SHOWN:
        findings = check(from_text(program(shown, form, "backward", "loss"), "run.py")).findings
        assert [(one.code, one.certain) for one in findings] == [("TAPE201", True)], shown
