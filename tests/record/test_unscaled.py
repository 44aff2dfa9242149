"""Gradients that are clipped or stepped with while they are scaled (TAPE501), found by the run alone."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from tests.cases.recorded import record_all

_PROGRAM = """
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))
other = nn.Linear(4, 2)
optimizer = torch.optim.{kind}(net.parameters(), lr=0.1)
second = torch.optim.SGD(other.parameters(), lr=0.1)
{name} = torch.amp.GradScaler("cpu", init_scale=SCALE{enabled})


def clipped(parameters, limit=0.01):
    nn.utils.clip_grad_norm_(parameters, limit)


for step in range(7):
    x = torch.randn(5 + step, 4)
    optimizer.zero_grad()
    loss = net(x).pow(2).mean()
    {name}.scale(loss).backward()
    {rest}
learned = torch.cat([p.detach().flatten() for p in (*net.parameters(), *other.parameters())])
"""
_UPDATE = "{name}.step(optimizer)\n    {name}.update()"
_RESTS = (
    _UPDATE,
    "{name}.unscale_(optimizer)\n    clipped(net.parameters())\n    " + _UPDATE,
    "clipped(net.parameters())\n    " + _UPDATE,
    "clipped(net.parameters())\n    {name}.unscale_(optimizer)\n    " + _UPDATE,
    "nn.utils.clip_grad_value_(net.parameters(), 0.001)\n    " + _UPDATE,
    "nn.utils.clip_grad_norm_(net.parameters(), 0.01)\n\n    {name}.unscale_(optimizer)\n    " + _UPDATE,
    "nn.utils.clip_grad_norm_(net.parameters(), 0.001 * {name}.get_scale())\n    " + _UPDATE,
    "limit = 0.001 * {name}.state_dict().get('scale', 1)\n    clipped(net.parameters(), limit)\n    " + _UPDATE,
    "for p in net.parameters():\n        p.grad.div_(4)\n    " + _UPDATE,
    "for p in net.parameters():\n        p.grad.div_(len(x))\n    {name}.unscale_(optimizer)\n    " + _UPDATE,
    "for p in net.parameters():\n        p.grad /= {name}.get_scale()\n    optimizer.step()",
    "optimizer.step()",
    "optimizer.step()\n    second.zero_grad()\n    other(x).pow(2).mean().backward()\n    second.step()",
    _UPDATE + "\n    second.zero_grad()\n    other(x).pow(2).mean().backward()\n    clipped(other.parameters())\n"
    "    second.step()",
)  # fmt: skip


def _matters(text: str) -> bool:
    """Return whether torch learns something else with another scale."""
    learned = []
    for scale in ("1.0", "512.0"):
        names: dict[str, Any] = {}
        exec(text.replace("SCALE", scale), names)
        learned.append(names["learned"])
    return not learned[0].allclose(learned[1], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("kind", ["SGD", "AdamW"])
def test_a_scale_that_matters_is_found(tmp_path: Path, kind: str) -> None:
    truth: dict[Path, tuple[bool, str]] = {}
    ways = (("scaler", ""), ("amp", ""), ("scaler", ", enabled=False"))
    for number, (rest, (name, enabled)) in enumerate(itertools.product(_RESTS, ways)):
        text = _PROGRAM.format(kind=kind, name=name, enabled=enabled, rest=rest.format(name=name))
        path = tmp_path / f"{number}.py"
        path.write_text(text.replace("SCALE", "512.0"))
        # A scale is all the same to an optimizer that divides by the size of gradients: the step is wrong all the same.
        truth[path] = _matters(text.replace("AdamW", "SGD")), rest
    for recorded in record_all([*truth], alone=True):
        found = [one for one in recorded.findings if one.code == "TAPE501"]
        wrong, rest = truth[recorded.program]
        mixed = "second" in rest and "optimizer.step()\n    second" in rest
        assert bool(found) == wrong or (mixed and not found), (rest, found)
    assert {wrong for wrong, _ in truth.values()} == {True, False}
