"""TAPE601 where gradients are added up under `no_sync`: whether the last micro-batch of a step is averaged."""

from __future__ import annotations

import itertools
from importlib.util import find_spec

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

PROGRAM = """\
import contextlib
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
{imports}
dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    batches = {batches}
    {opened}
    for {head}:
        last = {last}
        {body}
    optimizer.step()
"""
LOSS = "model(batch).pow(2).mean().backward()"
ENTER = "stack.enter_context(model.no_sync())"
OPEN = f"stack = contextlib.ExitStack(); {ENTER}"

# What stands before the loop over micro-batches, and in it.
HELD = {
    "with or without": ("", f"if last:\n            {LOSS}\n        else:\n            with model.no_sync(): {LOSS}"),
    "nullcontext": ("", f"with contextlib.nullcontext() if last else model.no_sync():\n            {LOSS}"),
    "stack entered": (
        "",
        f"with contextlib.ExitStack() as stack:\n            if not last: {ENTER}\n            {LOSS}",
    ),
    "stack closed": (OPEN, f"if last:\n            stack.close()\n        {LOSS}"),
    "stack left": (OPEN, f"if last:\n            stack.__exit__(None, None, None)\n        {LOSS}"),
    "stack emptied": (OPEN, f"if last:\n            stack.pop_all().close()\n        {LOSS}"),
    "context left": (
        "context = model.no_sync(); context.__enter__()",
        f"if last:\n            context.__exit__(None, None, None)\n        {LOSS}",
    ),
    "attribute": ("", f"model.require_backward_grad_sync = last\n        {LOSS}"),
}
# What the micro-batches are, and the number of the last one.
BATCHES = {
    "a list": ("[torch.randn(6, 4) for _ in range(3)]", "index, batch in enumerate(batches)", "len(batches) - 1"),
    "a long list": ("[torch.randn(6, 4) for _ in range(9)]", "index, batch in enumerate(batches)", "len(batches) - 1"),
    "rows": ("list(torch.randn(5, 6, 4))", "index, batch in enumerate(batches)", "len(batches) - 1"),
    "what nobody sees": ("load()", "index, batch in enumerate(batches)", "len(batches) - 1"),
    "all that nobody sees": ("list(load())", "index, batch in enumerate(batches)", "len(batches) - 1"),
    "a chunked tensor": ("torch.randn(6, 4).chunk(3)", "index, batch in enumerate(batches, 1)", "len(batches)"),
}
LAST = {
    "the last": "index == {end}",
    "none": "index > {end}",
    "the first": "index == {end} * 0",
    "all but": "index < 9",
}


def program(held: str, batches: str, last: str) -> str:
    opened, body = HELD[held]
    made, head, end = BATCHES[batches]
    imports = "from data import load" if "load" in made else ""
    return PROGRAM.format(
        imports=imports, batches=made, opened=opened, head=head, body=body, last=LAST[last].format(end=end)
    )


def is_averaged(text: str) -> bool:
    """Run a program and return whether the last forward before each step prepared for gradients to be averaged."""
    torch = pytest.importorskip("torch")
    dist = pytest.importorskip("torch.distributed")
    prepared: list[bool] = []
    steps: list[bool] = []

    def watch(model, optimizer):  # type: ignore[no-untyped-def]
        model.register_forward_pre_hook(lambda *given: prepared.append(model.require_backward_grad_sync))
        optimizer.register_step_post_hook(lambda *given: steps.append(prepared[-1]))

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        text = text.replace('dist.init_process_group("gloo")', "").replace("from data import load", "")
        text = text.replace("for step", "watch(model, optimizer)\nfor step")
        exec(text, {"watch": watch, "load": lambda: [torch.randn(6, 4) for _ in range(4)]})
    finally:
        dist.destroy_process_group()
    return all(steps)


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.parametrize(("batches", "last"), list(itertools.product(BATCHES, LAST)))
def test_what_is_not_averaged_before_a_step_is_reported(batches: str, last: str) -> None:
    for held in HELD:
        text = program(held, batches, last)
        found = {(one.code, one.certain) for one in check(from_text(text, "train.py")).findings}
        if last == "all but" and batches not in ("a list", "a long list", "a chunked tensor"):
            # How many there are is not visible, and decides.
            found.discard(("TAPE601", False))
        assert found == (set() if is_averaged(text) else {("TAPE601", True)}), text
