"""States that are kept in a place for each part of a batch, and stored over with the next batch, are no leak.

Torch says of each program how many nodes its states lead to after three batches, and after six: where these are more,
the graphs of every iteration are kept, which is told; where they are as many, nobody says so.
"""

from __future__ import annotations

from typing import Any

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

torch = pytest.importorskip("torch")

PROGRAM = """\
import torch
from collections import defaultdict
cell = torch.nn.GRUCell(2, 2)
optimizer = torch.optim.SGD(cell.parameters(), 0.1)
{made}
{batches}
    optimizer.zero_grad()
    {parts}
        {stored}
        loss.backward()
    optimizer.step()
"""
MADE = {
    "list": "kept = [torch.zeros(1, 2) for _ in range(4)]",
    "dict": "kept = {k: torch.zeros(1, 2) for k in range(4)}",
    "defaultdict": "kept = defaultdict(lambda: torch.zeros(1, 2))",
    "empty dict": "kept = {}",
}
BATCHES = {"for": "for i in range(batches):", "while": "i = -1\nwhile i + 1 < batches:\n    i += 1"}
PARTS = {
    "for": "for k in range(4):",
    "names": "for k in ('a', 'b', 'c', 'd'):",
    "while": "k = -1\n    while k < 3:\n        k += 1",
}
STORED = {
    "stored over": "kept[k] = cell(torch.ones(1, 2), kept[k].detach()); loss = kept[k].sum()",
    "stored in place": "kept[k] = kept[k].detach(); kept[k] = cell(torch.ones(1, 2), kept[k]); loss = kept[k].sum()",
    "of one number": "loss = cell(torch.ones(1, 2)).sum(); kept[k] = loss",
    "under pairs": "loss = cell(torch.ones(1, 2)).sum(); kept['state', k] = loss",
    "in rows": "loss = cell(torch.ones(1, 2)).sum(); kept[k] = [loss, k]",
    "made longer": "loss = cell(torch.ones(1, 2)).sum(); kept[k] = kept[k] + loss",
}
GROWING = {
    "appended": "loss = cell(torch.ones(1, 2)).sum(); kept.append(loss)",
    "under new keys": "loss = cell(torch.ones(1, 2)).sum(); kept[i, k] = loss",
}
FILLED = ("of one number", "under pairs", "in rows")
"""What asks for no state that was stored before."""
WAYS = [
    *((made, one) for made in MADE for one in STORED if made != "empty dict" or one in FILLED),
    ("list", "appended"),
    ("empty dict", "under new keys"),
    ("dict", "under new keys"),
]
CASES = [
    (made, stored, parts) for made, stored in WAYS for parts in PARTS
    if (made, stored) != ("list", "under pairs") and (parts != "names" or made not in ("list", "dict"))
]  # fmt: skip


def nodes_kept(text: str, batches: int) -> int:
    names: dict[str, Any] = {"batches": batches}
    exec(text, names)
    kept = names["kept"]
    values = kept.values() if isinstance(kept, dict) else kept
    stack = [(value[0] if isinstance(value, list) else value).grad_fn for value in values]
    found = set()
    while stack:
        node = stack.pop()
        if node is not None and node not in found:
            found.add(node)
            stack += [other for other, _ in node.next_functions]
    return len(found)


@pytest.mark.parametrize("batches", BATCHES)
@pytest.mark.parametrize(("made", "stored", "parts"), CASES)
def test_a_place_that_is_stored_over_keeps_one_graph(made: str, stored: str, batches: str, parts: str) -> None:
    text = PROGRAM.format(
        made=MADE[made], batches=BATCHES[batches], parts=PARTS[parts], stored={**STORED, **GROWING}[stored]
    )
    found = [
        one.code
        for one in check(from_text(text.replace("batches)", "20)").replace("< batches", "< 20"), "t.py")).findings
    ]
    grows = nodes_kept(text, 6) > nodes_kept(text, 3)
    assert found == ["TAPE201"] * grows, grows
