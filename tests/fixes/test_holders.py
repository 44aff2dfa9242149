"""What else holds a tensor that is changed in place: a safe fix leaves what the others read as it was, by torch."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests.cases import under_torch
from tests.fixes.support import run_texts, safe_fixes

PROGRAM = """\
import functools
import torch
import torch.nn.functional as F
w = torch.full((3,), 0.5, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
class Holder:
    def put(self, tensor):
        self.tensor = tensor
    def __lshift__(self, tensor):
        self.tensor = tensor
        return self
    def __rmatmul__(self, tensor):
        self.tensor = tensor
        return self
    def __getitem__(self, tensor):
        self.tensor = tensor
        return self
    def __contains__(self, tensor):
        self.tensor = tensor
        return True
    def same(self, tensor):
        return tensor
    def loss(self, tensor):
        return (w * tensor).exp().sum()
holder = Holder()
def doubled(tensor):
    return tensor * 2
for _ in range(2):
    h = {made}
    {held}
    loss = {loss}
    print(float(loss))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

CHANGES = ("h += 1", "h.add_(1)", "y = h.relu_()", "h = h.mul_(3)", "F.relu(h, inplace=True)")
MADE = ("torch.full((3,), -1.0)", "w.exp() - 2")
# How something else comes by the tensor, and what is read of it after the change; the first two: nothing does.
HELD = {
    "alone": ("", "h.sum()"),
    "computed with": ("n = h.sum() + doubled(h).sum() + len(h)", "(w * n).sum() + h.sum()"),
    "a list": ("kept = []; kept.append(h)", "sum((w * one).sum() for one in kept)"),
    "another name": ("d = h", "(w + d).exp().sum()"),
    "a view": ("d = h[0:2]", "(w[0:2] + d).exp().sum()"),
    "a method's view": ("d = h.view(3, 1)", "(w + d).exp().sum()"),
    "a detached one": ("d = h.detach()", "(w + d).exp().sum()"),
    "an array": ("d = h.detach().numpy()", "(w * float(d.sum())).sum()"),
    "an object": ("holder.put(h)", "holder.loss(holder.tensor)"),
    "what is returned": ("d = holder.same(h)", "(w + d).exp().sum()"),
    "a tuple": ("pair = (h, 1)", "(w + pair[0]).exp().sum()"),
    "a closure": ("late = lambda: h.sum()", "(w * late()).sum()"),
    "itself with a sign": ("d = +h", "(w + d).exp().sum()"),
    "itself in its own type": ("d = h.float()", "(w + d).exp().sum()"),
    "a walrus": ("print((d := h).shape)", "(w + d).exp().sum()"),
    "an operator": ("holder << h", "holder.loss(holder.tensor)"),
    "an operator from the right": ("holder.__dict__.clear(); h @ holder", "holder.loss(holder.tensor)"),
    "an item": ("holder[h]", "holder.loss(holder.tensor)"),
    "a membership": ("h in holder", "holder.loss(holder.tensor)"),
    "a key": ("d = {}; d[h] = 1", "(w + next(iter(d))).exp().sum()"),
    "rows": ("rows = []; rows += h", "(w[0] + rows[0].data).exp().sum()"),
    "rows behind others": ("rows = [w] * 2; rows += h", "(w[0] + rows[2].data).exp().sum()"),
    "a view by a function of its own": (
        "turned = functools.partial(torch.transpose, dim0=0, dim1=0); d = turned(h)",
        "(w + d).exp().sum()",
    ),
    "all names": ("d = dict(locals())", "(w + d['h']).exp().sum()"),
    "a conditional": ("d = h if float(h.sum()) < 9 else w", "(w + d).exp().sum()"),
}


@pytest.mark.skipif(not under_torch.has_torch(), reason="torch is not installed")
@pytest.mark.parametrize("held", HELD)
def test_a_safe_fix_computes_what_the_program_computes_until_it_raises(held: str, tmp_path: Path) -> None:
    store, read = HELD[held]
    pairs: list[tuple[str, str, str]] = []
    for change, made in product(CHANGES, MADE):
        before = f"{store}\n    first = (w * h).sum()\n    {change}"
        text = PROGRAM.format(made=made, held=before, loss=f"first + {read}")
        pairs += [(title, text, after) for title, after in safe_fixes(text, "TAPE102")]
    outcomes = run_texts([text for _, *texts in pairs for text in texts], tmp_path)
    for (title, text, after), was, now in zip(pairs, outcomes[::2], outcomes[1::2], strict=True):
        assert was["exception"] == "RuntimeError", text
        assert now["exception"] is None, f"{title}\n{after}\n{now['message']}"
        assert now["output"].split()[0] == was["output"].split()[0], f"{title}\n{after}"
    alone = [title for title, _, _ in pairs if "copy" not in title]
    assert bool(alone) == (held in ("alone", "computed with")), alone


MODES = """\
import torch
from torch import nn
torch.manual_seed(0)
linear, layer = nn.Linear(3, 3), {layer}
def step(x):
    y = linear(x).exp()
    z = layer(y)
    {change}
    return (y ** 2).sum() + z.sum(), z
layer.eval()
with torch.no_grad():
    loss, z = step(torch.ones(2, 3))
print(round(z.sum().item(), 3), round(loss.item(), 3), flush=True)
layer.train()
step(torch.randn(2, 3))[0].backward()
"""
LAYERS = {
    "new": "nn.BatchNorm1d(3)",
    "given back": "nn.Dropout(0.5)",
    "given back by a part": "nn.Sequential(nn.Dropout(0.5), nn.Identity())",
    "a view": "nn.Sequential(nn.Flatten(), nn.Flatten())",
}


@pytest.mark.skipif(not under_torch.has_torch(), reason="torch is not installed")
def test_a_layer_that_gives_back_what_it_is_given_in_one_mode(tmp_path: Path) -> None:
    pairs: list[tuple[str, str, str]] = []
    for layer, change in product(LAYERS.values(), ("y += 1", "y.mul_(3)")):
        text = MODES.format(layer=layer, change=change)
        pairs += [(title, text, after) for title, after in safe_fixes(text, "TAPE102")]
    outcomes = run_texts([text for _, *texts in pairs for text in texts], tmp_path)
    for (title, text, after), was, now in zip(pairs, outcomes[::2], outcomes[1::2], strict=True):
        assert was["exception"] == "RuntimeError", text
        assert now["exception"] is None, f"{title}\n{after}\n{now['message']}"
        assert now["output"] == was["output"], f"{title}\n{after}"
    assert any("BatchNorm" in text and "out of place" in title for title, text, _ in pairs)


ITSELF = """\
import torch
w = torch.full((3,), 0.5, requires_grad=True)
def curve(x):
    {op}
    return x
h = w * 2
{call}
h.add_(torch.ones(3))
loss = h.sum()
print(round(float(loss), 3), flush=True)
loss.backward()
"""


@pytest.mark.skipif(not under_torch.has_torch(), reason="torch is not installed")
def test_an_op_that_changes_what_it_saves_works_on_no_copy(tmp_path: Path) -> None:
    calls = [("pass", f"h.{op}_()") for op in ("sigmoid", "exp", "tanh", "sqrt")]
    calls += [("x.sigmoid_()", "curve(h)"), ("pass", "torch.sigmoid_(h)"), ("pass", "torch.exp(h, out=h.detach())")]
    pairs: list[tuple[str, str, str]] = []
    for op, call in calls:
        text = ITSELF.format(op=op, call=call)
        pairs += [(title, text, after) for title, after in safe_fixes(text, "TAPE102")]
    outcomes = run_texts([text for _, *texts in pairs for text in texts], tmp_path)
    for (title, _, after), was, now in zip(pairs, outcomes[::2], outcomes[1::2], strict=True):
        assert now["exception"] is None, f"{title}\n{after}\n{now['message']}"
        assert now["output"] == was["output"], f"{title}\n{after}"


TYPES = """\
import numpy as np
import torch
from torch import nn
torch.manual_seed(0)
linear = nn.Linear(3, 3)
other = {other}
h = torch.exp(linear(torch.ones(2, 3)))
s = (h ** 2).sum()
{change}
print(str(h.dtype), round(float(h.sum()), 3), flush=True)
(s + linear(h).sum()).backward()
"""
OTHERS = (
    "2", "0.5", "torch.ones(2, 3).double()", "torch.from_numpy(np.ones((2, 3)))", "torch.ones(3, dtype=torch.float64)",
    "torch.tensor([2.0, 1.0, 3.0], dtype=float)", "torch.as_tensor(np.ones(3))", "torch.ones(3).half()",
)  # fmt: skip
WITHOUT_ARRAYS = "torch.ones(2, 3) * 2"


@pytest.mark.skipif(not under_torch.has_torch(), reason="torch is not installed")
def test_a_new_tensor_has_the_type_that_the_changed_one_keeps(tmp_path: Path) -> None:
    pairs: list[tuple[str, str, str]] = []
    texts = [TYPES.format(other=other, change=change) for other in OTHERS for change in ("h += other", "h.mul_(other)")]
    texts.append(TYPES.format(other=WITHOUT_ARRAYS, change="h += other").replace("import numpy as np\n", ""))
    for text in texts:
        pairs += [(title, text, after) for title, after in safe_fixes(text, "TAPE102")]
    outcomes = run_texts([text for _, *both in pairs for text in both], tmp_path)
    for (title, _, after), was, now in zip(pairs, outcomes[::2], outcomes[1::2], strict=True):
        assert now["exception"] is None, f"{title}\n{after}\n{now['message']}"
        assert now["output"] == was["output"], f"{title}\n{after}"
    safe = {text for title, text, _ in pairs if "out of place" in title}
    assert {texts[0], texts[3], texts[-1]} <= safe
