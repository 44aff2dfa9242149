"""Losses that are kept in a place for each batch, and stored over in the next epoch: one epoch's graphs are all kept.

Torch counts the graphs that are kept at the end: where these are more than a window has, or more after more epochs,
that is told. Where the program does not say how many batches there are, it is possible.
"""

from __future__ import annotations

from typing import Any

import pytest

from tapecheck.check import check
from tapecheck.rules.graph_kept.rule import LARGE_BOUND
from tapecheck.source import from_text

torch = pytest.importorskip("torch")

PROGRAM = """\
import torch
from collections import defaultdict
from hidden import loaded
class Log:
    pass
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
batches = {batches}
{made}
for epoch in range({epochs}):
    {loop}
        loss = model(b).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {stored}
"""
MADE = {
    "numbers": ("kept = [0] * len(batches)", "kept[i] = loss"),
    "nothing": ("kept = [None for _ in batches]", "kept[i] = loss"),
    "tensors": ("kept = [torch.zeros(()) for _ in range(len(batches))]", "kept[i] = loss"),
    "filled dict": ("kept = {k: None for k in range(len(batches))}", "kept[i] = loss"),
    "empty dict": ("kept = {}", "kept[i] = loss"),
    "defaultdict": ("kept = defaultdict(float)", "kept[i] = loss"),
    "named": ("kept = {}", "kept[f'batch {i}'] = loss"),
    "pairs": ("kept = {}", "kept[i, 'loss'] = loss"),
    "attribute": ("log = Log()\nlog.kept = [None] * len(batches)\nkept = log.kept", "log.kept[i] = loss"),
    "rows": ("kept = [[None] for _ in range(len(batches))]", "kept[i][0] = loss"),
    "records": ("kept = [{} for _ in range(len(batches))]", "kept[i]['loss'] = loss"),
    "new rows": ("kept = [[] for _ in range(len(batches))]", "kept[i] = [loss, i]"),
    "weighed": ("kept = [0] * len(batches)", "kept[i] = loss * 0.5"),
}
NO_GRAPH = {
    "numbers": ("kept = [0] * len(batches)", "kept[i] = loss.item()"),
    "detached": ("kept = {}", "kept[i] = loss.detach()"),
}
GROWING = {
    "list": ("kept = []", "kept.append(loss)"),
    "other keys": ("kept = {}", "kept[epoch, i] = loss"),
    "filled rows": ("kept = [[] for _ in range(len(batches))]", "kept[i].append(loss)"),
    "chain": ("kept = [torch.zeros(()) for _ in range(len(batches))]", "kept[i] = kept[i] + loss"),
}
LOOPS = {
    "enumerate": "for i, b in enumerate(batches):",
    "range": "for i in range(len(batches)):\n        b = batches[i]",
    "zip": "for i, b in zip(range(len(batches)), batches):",
}
BATCHES = {"few": "[torch.ones(4, 2) for _ in range(5)]", "many": "[torch.ones(4, 2)] * 100"}
HIDDEN = "loaded()"


def kept(value: object) -> set[object]:
    """Return the graphs that a value leads to."""
    if isinstance(value, torch.Tensor):
        return {value.grad_fn} - {None}
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return set().union(*map(kept, parts)) if parts else set()


def nodes(graphs: set[Any]) -> int:
    stack, found = list(graphs), set(graphs)
    while stack:
        for other, _ in stack.pop().next_functions:
            if other is not None and other not in found:
                found.add(other)
                stack.append(other)
    return len(found)


def leaks(made: tuple[str, str], loop: str, batches: str) -> bool:
    """Whether a run keeps more graphs than a window, or more in each epoch."""
    ran = []
    for epochs in (2, 4):
        text = PROGRAM.format(made=made[0], stored=made[1], loop=loop, batches=batches, epochs=epochs)
        names: dict[str, Any] = {}
        exec(compile(text.replace("from hidden import loaded\n", ""), "t.py", "exec"), names)
        ran.append(kept(names["kept"]))
    return len(ran[1]) > LARGE_BOUND or nodes(ran[1]) > nodes(ran[0])


def told(made: tuple[str, str], loop: str, batches: str) -> list[bool]:
    text = PROGRAM.format(made=made[0], stored=made[1], loop=loop, batches=batches, epochs=50)
    found = [one for one in check(from_text(text, "t.py")).findings if one.code == "TAPE201"]
    assert all(text.splitlines()[one.span.line - 1].strip() == made[1] for one in found)
    return [one.certain for one in found]


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize(("kind", "made"), [*MADE.items(), *NO_GRAPH.items(), *GROWING.items()])
def test_places_for_each_batch(kind: str, made: tuple[str, str], loop: str) -> None:
    measured = {size: leaks(made, LOOPS[loop], batches) for size, batches in BATCHES.items()}
    assert {size: told(made, LOOPS[loop], batches) for size, batches in BATCHES.items()} == {
        size: [True] * leaking for size, leaking in measured.items()
    }
    found = told(made, LOOPS[loop], HIDDEN)
    assert bool(found) == any(measured.values())
    assert not any(found) or all(measured.values())
