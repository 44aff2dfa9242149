"""What code that is not visible can come to by what it is given: only that may be what a finding lacks.

Each program trains with a mistake about gradients, and hands something to hidden code in its loop. Torch runs it twice:
with code that does nothing, and with code that does the most that it can to whatever it reaches. Where it reaches no
model, parameter or optimizer, the mistake stays and is told; where it does, it can mend it, and nothing is told.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

torch = pytest.importorskip("torch")

HEAD = """\
import hidden
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
meter = hidden.Meter()
box, kept = {{}}, []
for step in range(4):
    x, y = torch.randn(8, 4), torch.randn(8, 2)
    {before}
    out = {out}
    loss = ((out - y) ** 2).mean()
    loss.backward()
    {after}
    {use}
"""
CLEAR, STEP = "optimizer.zero_grad()", "optimizer.step()"
MISTAKES = {
    "TAPE403": {"before": "pass", "out": "model(x)", "after": STEP},
    "TAPE404": {"before": "pass", "out": "model(x)", "after": f"{CLEAR}\n    {STEP}"},
    "TAPE402": {"before": CLEAR, "out": "model[2](model[1](model[0](x)).detach())", "after": STEP},
}
RIGHT = {"before": CLEAR, "out": "model(x)", "after": STEP}
APART = {
    "a number": "loss.item()",
    "text": "f'{step}: {loss.item()}'",
    "a dict of numbers": "{'loss': loss.item(), 'step': step}",
    "a dict with a name": "box",
    "numbers that pile up": "kept",
    "a dict of lists": "{'losses': kept, 'names': ['a', 'b']}",
    "a checkpoint": "{'step': step, 'model': model.state_dict()}",
    "a whole checkpoint": "{'model': model.state_dict(), 'optimizer': optimizer.state_dict(), 'loss': loss.item()}",
    "weights": "model.state_dict()",
    "a batch": "x",
    "data": "out.detach()",
    "data in a tuple": "(out.data, y)",
}
"""What leads to no graph and to no gradient."""
GRAPHS = {
    "an output": "out",
    "a loss": "loss",
    "a loss in a dict": "{'loss': loss}",
    "an output in a list": "[out, y]",
    "losses that pile up": "kept",
}
"""What leads to a graph: whoever has it can add to gradients."""
OWNERS = {
    "the model": "model",
    "the optimizer": "optimizer",
    "a dict with the model": "{'step': step, 'model': model}",
    "a layer in a list": "[model[0], model[2]]",
    "parameters": "list(model.parameters())",
    "a function": "lambda: model",
    "a method": "model.forward",
    "a part of the optimizer": "optimizer.param_groups",
}
WAYS = {
    "for its effect": "hidden.log(GIVEN)",
    "to an object": "meter.update(GIVEN)",
    "among others": "hidden.log(step, GIVEN)",
    "by a keyword": "hidden.log(what=GIVEN)",
    "for what it returns": "score = hidden.log(GIVEN)\n    print(score)",
    "and read": "hidden.log(GIVEN)\n    print(box, kept)",
}


def program(mistake: dict[str, str], given: str, way: str, piled: str = "loss.item()") -> str:
    stored = f"box['loss'] = loss.item()\n    kept.append({piled})\n    "
    return HEAD.format(**mistake, use=stored + WAYS[way].replace("GIVEN", given))


def told(text: str) -> dict[str, bool]:
    """Return the codes of the warnings about gradients, each with whether it is certain."""
    found = check(from_text(text, "program.py")).findings
    return {one.code: one.certain for one in found if one.code in MISTAKES}


def reach(value: Any, seen: set[int]) -> None:
    """Do the most that can be done to what a value leads to, for the gradients of a program."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, torch.Tensor):
        value.grad = None
        with suppress(RuntimeError):
            value.sum().backward(retain_graph=True)
        if not value.requires_grad:
            value.mul_(1.0)
    elif isinstance(value, (torch.nn.Module, torch.optim.Optimizer)):
        value.zero_grad()
        for part in value.parameters() if isinstance(value, torch.nn.Module) else ():
            part.requires_grad_()
            part.grad = torch.ones_like(part)
            value.zero_grad()
    elif isinstance(value, dict):
        for part in value.values():
            reach(part, seen)
        if all(isinstance(part, (float, str)) for part in value.values()):
            value |= dict.fromkeys(value, torch.ones((), requires_grad=True) * 1)
    elif isinstance(value, (list, tuple)):
        for part in value:
            reach(part, seen)
        if isinstance(value, list) and all(isinstance(part, (float, str)) for part in value):
            value[:] = [torch.ones((), requires_grad=True) * 1]
    elif callable(value):
        reach(getattr(value, "__self__", None), seen)
        with suppress(TypeError):
            reach(value(), seen)


@contextmanager
def watched(faults: set[str]) -> Iterator[None]:
    """Note what is wrong with the gradients that the steps of optimizers use."""
    starved: list[bool] = []
    marked = 1e6

    def before(optimizer: Any, *_: Any) -> None:
        gradients = [part.grad for group in optimizer.param_groups for part in group["params"]]
        if any(one is not None and bool((one > marked / 2).any()) for one in gradients):
            faults.add("TAPE403")
        if all(one is None or not one.any() for one in gradients):
            faults.add("TAPE404")
        starved.append(any(one is None for one in gradients) and any(one is not None for one in gradients))

    def after(optimizer: Any, *_: Any) -> None:
        for group in optimizer.param_groups:
            for part in group["params"]:
                if part.grad is not None:
                    part.grad.add_(marked)

    hooks = import_module("torch.optim.optimizer")
    handles = [hooks.register_optimizer_step_pre_hook(before), hooks.register_optimizer_step_post_hook(after)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
    if starved and all(starved):
        faults.add("TAPE402")


def wrong(text: str, act: Callable[[Any], None]) -> set[str]:
    """Return the mistakes that a run shows where hidden code does `act` to each thing that it is given."""

    def log(*given: Any, what: Any = None) -> float:
        for one in (*given, what):
            act(one)
        return 0.0

    hidden = SimpleNamespace(log=log, Meter=lambda: SimpleNamespace(update=log))
    faults: set[str] = set()
    torch.manual_seed(0)
    with watched(faults):
        code = text.replace("import hidden\n", "")
        exec(compile(code, "program", "exec"), {"hidden": hidden, "print": lambda *_: None})
    return faults


def looks(_: Any) -> None:
    """Do nothing."""


def acts(given: Any) -> None:
    """Do the most that can be done."""
    reach(given, set())


@pytest.mark.parametrize("code", MISTAKES)
@pytest.mark.parametrize("name", APART)
def test_what_leads_to_no_gradient_hides_no_mistake(name: str, code: str) -> None:
    for way in WAYS:
        text = program(MISTAKES[code], APART[name], way)
        assert code in wrong(text, looks) & wrong(text, acts), text
        assert list(told(text)) == [code], text


@pytest.mark.parametrize("code", MISTAKES)
@pytest.mark.parametrize("name", GRAPHS)
def test_who_has_a_graph_only_adds_to_gradients(name: str, code: str) -> None:
    for way in WAYS:
        text = program(MISTAKES[code], GRAPHS[name], way, "loss" if GRAPHS[name] == "kept" else "loss.item()")
        assert code in wrong(text, looks), text
        found = told(text)
        # A leaf is reached from a graph, only by what nobody writes.
        assert found == {code: False}, text


BETWEEN = {
    "before the clearing": f"USE\n    {CLEAR}\n    {STEP}",
    "before the step": f"{CLEAR}\n    USE\n    {STEP}",
    "behind the step": f"{CLEAR}\n    {STEP}\n    USE",
    "and clipped in vain": f"{STEP}\n    USE\n    nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
}
"""Where something is handed over in a loop whose gradients are lost."""


@pytest.mark.parametrize("place", BETWEEN)
@pytest.mark.parametrize("name", (*GRAPHS, "a number", "the model"))
def test_gradients_are_lost_wherever_a_graph_is_handed_over(name: str, place: str) -> None:
    given, clipped = (APART | GRAPHS | OWNERS)[name], "clip" in place
    for way in WAYS.values():
        use = "kept.append(loss)\n    " + way.replace("GIVEN", given)
        after = BETWEEN[place].replace("USE", use)
        text = HEAD.format(before=CLEAR if clipped else "pass", out="model(x)", after=after, use="pass")
        assert clipped or "TAPE404" in wrong(text, looks), text
        if name in GRAPHS and place != "before the step":
            # What is added is cleared with the rest.
            assert clipped or "TAPE404" in wrong(text, acts), text
        found = told(text)
        assert found == ({} if name in OWNERS else {"TAPE404": False}), text


@pytest.mark.parametrize("code", MISTAKES)
@pytest.mark.parametrize("name", OWNERS)
def test_who_has_what_owns_the_gradients_may_mend_them(name: str, code: str) -> None:
    for way in WAYS:
        text = program(MISTAKES[code], OWNERS[name], way)
        assert code in wrong(text, looks), text
        assert code not in told(text), text


def test_code_that_has_the_owners_does_mend_some() -> None:
    mended = [
        (name, way)
        for name, way in itertools.product(OWNERS, WAYS)
        if "TAPE403" not in wrong(program(MISTAKES["TAPE403"], OWNERS[name], way), acts)
    ]
    assert {name for name, _ in mended} >= {"the model", "the optimizer", "parameters", "a function", "a method"}


@pytest.mark.parametrize("name", (*APART, *GRAPHS, *OWNERS))
def test_nothing_is_told_of_programs_without_a_mistake(name: str) -> None:
    for way in WAYS:
        text = program(RIGHT, (APART | GRAPHS | OWNERS)[name], way)
        assert not wrong(text, looks), text
        assert not told(text), text
