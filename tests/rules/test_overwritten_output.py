"""TAPE610 against the rules by which CUDA graphs take memory again (`tools/torchlab/replayed.py`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

ROOT = Path(__file__).parents[2]
HEAD = """\
import torch
from torch import nn
device = "cuda" if torch.cuda.is_available() else "cpu"
mark = torch.compiler.cudagraph_mark_step_begin
model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)).to(device)
model = torch.compile(model, mode="reduce-overhead")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
kept = []
def batch():
    return torch.randn(3, 4, device=device)
"""
STEP = "    optimizer.zero_grad()\n    out = model(batch())\n    out.mean().backward()\n    optimizer.step()\n"
LOOP = "for step in range(4):\n"
PARTS = "for step in range(2):\n    for part in range(3):\n"
END = "    optimizer.step()\n    optimizer.zero_grad()\n"
RIGHT = {
    "a step after each call": LOOP + STEP,
    "a loss that was computed outside": LOOP + STEP.replace("out.mean()", "(loss := out.mean())")
    + "    kept.append(loss.detach())\ntorch.stack(kept).sum()\n",
    "a copy": LOOP + "    with torch.no_grad():\n        kept.append(model(batch()).clone())\ntorch.cat(kept).sum()\n",
    "a copy on the host": LOOP + "    with torch.no_grad():\n        kept.append(model(batch()).sum().cpu())\n"
    "torch.stack(kept).sum()\n",
    "numbers": LOOP + STEP + "    kept.append(out.sum().item())\nprint(sum(kept))\n",
    "two calls, one backward": LOOP + "    (model(batch()) + model(batch())).sum().backward()\n    optimizer.step()\n"
    "    optimizer.zero_grad()\n",
    "two calls that are marked as one step": "with torch.no_grad():\n    mark()\n    a = model(batch())\n"
    "    b = model(batch())\n    print((a + b).sum())\n",
    "one mark for all parts": PARTS.replace("    for", "    mark()\n    for")
    + "        model(batch()).sum().backward()\n" + END,
    "gradients of the program's own": "for p in model.parameters():\n    p.grad = torch.zeros_like(p)\n" + PARTS
    + "        model(batch()).sum().backward()\n    optimizer.step()\n    optimizer.zero_grad(set_to_none=False)\n",
    "gradients of two calls, added up outside": LOOP + "    (model(batch()) + model(batch())).sum().backward()\n",
    "gradients of a penalty beside the call": LOOP
    + "    (model(batch()).sum() + sum(p.pow(2).sum() for p in model.parameters())).backward()\n",
    "a state that is handed on as a copy": "state = batch()\nwith torch.no_grad():\n    for step in range(4):\n"
    "        state = model(state).clone()\nprint(state.sum())\n",
    "a state that is handed on while a forward waits": LOOP + "    model(model(batch())).sum().backward()\n"
    "    optimizer.step()\n    optimizer.zero_grad()\n",
    "a number before the next call": LOOP + "    with torch.no_grad():\n        a = model(batch())\n"
    "        print(a, float(a[0, 0]))\n",
    "views and shapes": "with torch.no_grad():\n    a = model(batch())\n    b = model(batch())\n"
    "    print(a.view(-1).shape)\n",
}  # fmt: skip
WRONG = {
    "kept under no_grad": LOOP + "    with torch.no_grad():\n        kept.append(model(batch()))\n"
    "torch.cat(kept).sum()\n",
    "kept and detached": LOOP + STEP + "    kept.append(out.detach())\ntorch.cat(kept).sum()\n",
    "kept after marks": LOOP + "    mark()\n    with torch.no_grad():\n        kept.append(model(batch()))\n"
    "torch.cat(kept).sum()\n",
    "a view that is kept": LOOP + STEP + "    kept.append(out.detach()[0])\ntorch.stack(kept).sum()\n",
    "a number taken late": "with torch.no_grad():\n    a = model(batch())\n    b = model(batch())\n    a.sum()\n",
    "a number by float": "with torch.no_grad():\n    a = model(batch())\n    b = model(batch())\n"
    "    print(float(a[0, 0]))\n",
    "changed in place": "with torch.no_grad():\n    a = model(batch())\n    b = model(batch())\n    a.add_(1)\n",
    "a state that is handed on": "state = batch()\nwith torch.no_grad():\n    for step in range(4):\n"
    "        state = model(state)\nprint(state.sum())\n",
    "in a function": "def predict(batches):\n    with torch.no_grad():\n        for each in batches:\n"
    "            kept.append(model(each))\n    return torch.cat(kept).sum()\n\n\n"
    "predict([batch(), batch()])\n",
    "accumulated": PARTS + "        model(batch()).sum().backward()\n" + END,
    "accumulated and clipped": PARTS + "        model(batch()).sum().backward()\n"
    "        nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n" + END,
    "accumulated, a mark for each part": PARTS + "        mark()\n        model(batch()).sum().backward()\n" + END,
    "cleared to zeros": LOOP + STEP.replace("zero_grad()", "zero_grad(set_to_none=False)"),
    "a compiled module, in place": "own = nn.Linear(4, 2).to(device)\n\n\nclass Net(nn.Module):\n"
    "    def __init__(self):\n        super().__init__()\n        self.own = own\n\n    def forward(self, x):\n"
    "        return self.own(x).exp()\n\n\nnet = torch.compile(Net(), mode=\"max-autotune\")\n"
    + LOOP + "    with torch.no_grad():\n        kept.append(net(batch()))\nsum(kept).sum()\n",
}  # fmt: skip


def found(text: str) -> list[tuple[str, bool]]:
    return [(each.code, each.certain) for each in check(from_text(text, "train.py")).findings]


@cache
def outcomes() -> dict[str, str]:
    programs = [HEAD + text for text in (RIGHT | WRONG).values()]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tools.torchlab.wrappers", "--judge"], input=json.dumps(programs),
        capture_output=True, text=True, check=True, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    return {title: what for title, (what, _) in zip(RIGHT | WRONG, json.loads(done.stdout), strict=True)}


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_torch_takes_the_memory_of_these_programs() -> None:
    assert {title for title in RIGHT if outcomes()[title] != "right"} == set()
    assert {title for title in WRONG if "CUDAGraphs that has been overwritten" not in outcomes()[title]} == set()


@pytest.mark.parametrize("title", WRONG)
def test_what_a_later_call_has_overwritten_is_possibly_read(title: str) -> None:
    assert found(HEAD + WRONG[title]) == [("TAPE610", False)]


@pytest.mark.parametrize("title", RIGHT)
def test_what_lies_elsewhere_is_not_reported(title: str) -> None:
    assert found(HEAD + RIGHT[title]) == []


@pytest.mark.parametrize("title", WRONG)
def test_calls_without_cuda_graphs_overwrite_nothing(title: str) -> None:
    text = (HEAD + WRONG[title]).replace('"reduce-overhead"', '"default"')
    assert found(text.replace('"max-autotune"', '"max-autotune-no-cudagraphs"')) == []


@pytest.mark.parametrize("title", WRONG)
def test_tensors_on_the_host_have_no_cuda_graphs(title: str) -> None:
    assert found((HEAD + WRONG[title]).replace("3, 4, device=device", "3, 4")) == []


def test_a_call_that_may_be_split_says_nothing_of_others() -> None:
    text = HEAD.replace("nn.Tanh()", "Told()").replace(
        "mark =",
        "class Told(nn.Module):\n    def forward(self, x):\n        print(x.shape)\n        return x\n\n\nmark =",
    )
    assert found(text + WRONG["accumulated"]) == []


def test_options_and_backends_that_ask_for_cuda_graphs() -> None:
    for asked in ('options={"triton.cudagraphs": True}', 'backend="cudagraphs"'):
        text = HEAD.replace('mode="reduce-overhead"', asked) + WRONG["kept under no_grad"]
        assert found(text) == [("TAPE610", False)]


def test_what_is_printed_is_read() -> None:
    # As torch's documentation of CUDA graph trees has it: what a mode refuses of an operation is not seen of a print.
    text = "with torch.no_grad():\n    a = model(batch())\n    b = model(batch())\n    print({})\n"
    assert found(HEAD + text.format("a")) == [("TAPE610", False)]
    assert found(HEAD + text.format("b")) == []


def test_a_function_that_only_predicts_is_looked_at() -> None:
    called = "\n\npredict([batch(), batch()])\n"
    assert called in WRONG["in a function"]
    assert found((HEAD + WRONG["in a function"]).replace(called, "")) == [("TAPE610", False)]
