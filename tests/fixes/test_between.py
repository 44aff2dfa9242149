"""What stands between two backwards, where a safe fix makes one of them: it prints and learns the same, by torch.

What a program that raises would have done is what it does where every backward keeps its graph.
"""

from __future__ import annotations

import math
import re
from itertools import product
from pathlib import Path

import pytest

from tests.cases import under_torch
from tests.fixes.support import run_texts, safe_fixes

HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn
torch.manual_seed(0)
w = torch.full((3,), 0.5, requires_grad=True)
v = torch.full((3,), 0.25, requires_grad=True)
optimizer = torch.optim.SGD([w, v], lr=0.1)
heads = nn.ModuleList(nn.Linear(3, 1) for _ in range(2))
class Box: pass
box = Box()
{setup}
(w.sum() + v.sum()).backward()
"""
TWO = """\
for step in range(2):
    optimizer.zero_grad(set_to_none=False)
    h = (w * 2).exp()
    {pre}
    a = (h * v).sum()
    b = (h + v).pow(2).sum()
    {first}
    {between}
    {second}
    print(round(float(w.grad.sum()), 3), round(float(v.grad.sum()), 3))
    optimizer.step()
"""
# What stands between; the first three: nothing that reads or changes gradients.
BETWEEN = {
    "nothing": "pass",
    "print": "print(float(a))",
    "a forward": "c = heads[0](h); print(float(c))",
    "read": "print(float(w.grad.sum()))",
    "read elsewhere": "note()",
    "read by name": "print(float(getattr(w, 'grad').sum()))",
    "scaled elsewhere": "scale()",
    "clipped": "nn.utils.clip_grad_norm_([w, v], 0.1)",
    "copied": "box.g = w.grad.clone(); print(float(box.g.sum()))",
    "an early end": "if step == 0: print('next'); continue",
    "the loss changed": "a.mul_(2)",
    "the values changed": "h.data.mul_(2)",
}
SETUP = """\
def note(): print(float(w.grad.sum()))
def scale(): w.grad.mul_(0.5)
def tell(h): print('tell'); return h.sum()
def squared_backward(x): (x * x).backward()
def renew(): box.a = torch.zeros(())
"""
# The first backward, what stands between, and the second one.
FORMS = {
    "drawn": ("F.dropout(h).sum().backward()", "n = torch.rand(3)", "(h * n).sum().backward()"),
    "told": ("tell(h).backward()", "print('between')", "(h * h).sum().backward()"),
    "their own": ("squared_backward(a)", "pass", "squared_backward(b)"),
    "an attribute": ("box.a.backward()", "renew()", "b.backward()"),
    "of a gradient": ("a.backward()", "pass", "(b + w.grad.sum() * h.sum()).backward()"),
}
HOOKS = {
    "a leaf": "w.register_hook(lambda g: g.clamp(-1, 1))",
    "a print": "w.register_hook(lambda g: print('hook'))",
}
LOOPS = {
    "of losses": "losses = [(h * v).sum(), h.pow(2).sum()]\n    for loss in losses:\n        loss.backward()",
    "of losses by and by": "losses = ((print(w.grad), (h * k).sum())[1] for k in (1, 2))\n"
    "    for loss in losses:\n        loss.backward()",
    "and the last one": "losses = [(h * v).sum(), h.sum()]\n"
    "    for loss in losses:\n        loss.backward()\n    del loss",
    "of heads": "for head in heads:\n        head(h).mean().backward()",
    "that reads": "for head in heads:\n        head(h).mean().backward()\n        note()",
    "that scales": "for head in heads:\n        head(h).mean().backward()\n        scale()",
    "that clips": "for head in heads:\n        head(h).mean().backward()\n        nn.utils.clip_grad_norm_([w], 0.1)",
    "that changes": "for head in heads:\n        (h * v).sum().backward()\n        v.data.add_(1)",
}
# How long a loop is where the program comes to it again; the first ones: as long as before.
LENGTHS = {
    "a display": "losses = [(h * v).sum(), h.sum()]",
    "as many as a range": "losses = [(h * k).sum() for k in range(1, 3)]",
    "a split": "losses = [k.sum() for k in h.chunk(2)]",
    "as many as rounds": "losses = [(h * k).sum() for k in range(2 - step)]",
    "as many as asked": "losses = [(h * k).sum() for k in range(counts[step])]",
    "emptied": "losses = [(h * v).sum(), h.sum()]\n    if step: losses.clear()",
}
ADDED = {
    "a loop": "for loss in losses:\n        loss.backward()",
    "a loop with more": "for loss in losses:\n        print(float(loss))\n        loss.backward()",
}
# Lists of a loop that the program comes to once; what chooses their losses chooses none of them here.
CHOSEN = {
    "a list with a condition": "losses = [h.sum() * k for k in range(3) if random.random() > 2]",
    "a list of what has one": "some = [k for k in range(3) if random.random() > 2]\nlosses = [h.sum() for _ in some]",
    "a filter": "losses = [h.sum() * k for k in filter(lambda _: random.random() > 2, range(3))]",
    "a filled list": "losses = []\nfor k in range(3):\n    if random.random() > 2: losses.append(h.sum() * k)",
    "a list that is extended": "losses = []\nif random.random() > 2: losses.extend([h.sum(), h.prod()])",
    "a list behind a condition": "losses = []\nif random.random() > 2: losses = [h.sum() * k for k in range(3)]",
    "a list added to": "losses = []\nfor k in range(3):\n    if random.random() > 2: losses += [h.sum() * k]",
    "rounds left out": "losses = []\nfor k in range(3):\n    if random.random() < 2: continue\n    losses.append(h)",
    "of chosen ones": "some = []\nfor k in range(3):\n    if random.random() > 2: some.append(k)\n"
    "losses = []\nfor k in some: losses.append(h.sum() * k)",
    "filled on both sides": "losses = []\nfor k in range(3):\n"
    "    if random.random() > 2: losses.append(h.sum())\n    else: losses.append(h.prod())",
    "a full list": "losses = [h.sum() * k for k in range(3)]",
    "a list filled at any rate": "losses = []\nfor k in range(3): losses.append(h.sum() * k)",
}
ONCE = """\
import random
h = (w * 2).exp()
{chosen}
for loss in losses:
    loss.backward()
print(w.grad)
"""
HOOKS_ELSEWHERE = {
    "a hook by another name": "from torch.autograd.graph import register_multi_grad_hook as told\n"
    "told((w,), lambda gs: print('hook'))",
    "a hook of a module": "heads[0].register_full_backward_hook(lambda m, i, o: print('hook'))",
    "what is saved": "torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: print('hook') or t).__enter__()",
    "a step hook": "optimizer.register_step_post_hook(lambda *a: print('hook'))",
}
CHECKPOINTS = {
    "as a function": ("from torch.utils.checkpoint import checkpoint", "checkpoint"),
    "as a module": ("import torch.utils.checkpoint as cp", "cp.checkpoint"),
    "over lines": ("from torch.utils import (\n    checkpoint,\n)", "checkpoint.checkpoint"),
    "of a package": ("import torch.utils.checkpoint\nfrom torch import utils", "utils.checkpoint.checkpoint"),
}
KEEPING = """\
import torch as _torch
_backward = _torch.Tensor.backward
def _keeping(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
    return _backward(self, gradient, True, create_graph, inputs)
_torch.Tensor.backward = _keeping
"""


def _programs() -> dict[str, str]:
    texts = {
        name: TWO.format(pre="pass", first="a.backward()", between=between, second="b.backward()")
        for name, between in BETWEEN.items()
    }
    for name, (first, between, second) in FORMS.items():
        texts[name] = TWO.format(pre="box.a = (h * v).sum()", first=first, between=between, second=second)
    for name, loop in LOOPS.items():
        texts[f"a loop {name}"] = TWO.format(pre="pass", first=loop, between="pass", second="pass")
    texts = {name: HEAD.format(setup=SETUP) + text for name, text in texts.items()}
    for name, hook in HOOKS.items():
        text = TWO.format(pre="pass", first="a.backward()", between="pass", second="b.backward()")
        texts[f"a hook on {name}"] = HEAD.format(setup=f"{SETUP}{hook}") + text
    for name, hook in HOOKS_ELSEWHERE.items():
        text = TWO.format(pre="pass", first="a.backward()", between="pass", second="heads[0](h).sum().backward()")
        texts[f"a hook on {name}"] = HEAD.format(setup=f"{SETUP}{hook}") + text
    for name, (imported, called) in CHECKPOINTS.items():
        pre = f"h = {called}(tell, (w * 2).exp(), use_reentrant=False) * w"
        text = TWO.format(pre=pre, first="a.backward()", between="pass", second="b.backward()")
        texts[f"a checkpoint {name}"] = HEAD.format(setup=f"{SETUP}{imported}\n") + text
    for (length, losses), (name, loop) in product(LENGTHS.items(), ADDED.items()):
        text = TWO.format(pre=losses, first=loop, between="pass", second="pass")
        texts[f"{name} over {length}"] = HEAD.format(setup=f"{SETUP}counts = [2, 0]\n") + text
    for name, chosen in CHOSEN.items():
        texts[name] = HEAD.format(setup=SETUP) + ONCE.format(chosen=chosen)
    return texts


@pytest.mark.skipif(not under_torch.has_torch(), reason="torch is not installed")
def test_one_backward_for_several_computes_what_several_would(tmp_path: Path) -> None:
    titles: dict[str, list[str]] = {}
    tried: list[tuple[str, str, str]] = []
    for name, text in _programs().items():
        found = [(title, after) for title, after in safe_fixes(text) if "one backward" in title]
        titles[name] = [title for title, _ in found]
        tried += [(title, text, after) for title, after in found]
    programs = [program for _, text, after in tried for program in (KEEPING + text, after)]
    outcomes = run_texts(programs, tmp_path)
    for (title, _, after), meant, now in zip(tried, outcomes[::2], outcomes[1::2], strict=True):
        assert meant["exception"] is None, f"{after}\n{meant['message']}"
        assert now["exception"] is None, f"{title}\n{after}\n{now['message']}"
        assert _is_same(meant["output"], now["output"]), f"{title}\n{after}\n{meant['output']}\n{now['output']}"
    assert titles["a full list"] and titles["a list filled at any rate"] and titles["filled on both sides"]
    long = ("a display", "as many as a range", "a split")
    for name in ("nothing", "print", "a loop of losses", "a loop of heads", *(f"a loop over {one}" for one in long)):
        assert titles[name], name


_NUMBER = re.compile(r"-?\d+\.\d+")


def _is_same(meant: str, now: str) -> bool:
    """Whether two outputs differ in the rounding of their numbers at most."""
    if _NUMBER.sub("", meant) != _NUMBER.sub("", now):
        return False
    pairs = zip(_NUMBER.findall(meant), _NUMBER.findall(now), strict=True)
    return all(math.isclose(float(one), float(other), rel_tol=1e-3, abs_tol=2e-3) for one, other in pairs)
