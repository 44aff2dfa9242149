"""Layers that are made anew in each iteration, which nothing trains (TAPE405)."""

from __future__ import annotations

import pytest

from tapecheck.check import check
from tapecheck.fixes import fixes_for
from tapecheck.source import from_text
from tests.fixes.support import fixed

MODULE = """\
import copy
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self, wide=16):
        super().__init__()
        self.fc = nn.Linear(wide, 2)

    def forward(self, x):
        return self.fc(x)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 16)
        self.spare = nn.Linear(16, 2)

    def forward(self, x):
        x = self.body(x).relu()
{made}
        return out
"""
LOOP = """\
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(5):
    loss = net(torch.randn(4, 8)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
ANEW = {
    "a layer": "head = nn.Linear(16, 2)\nout = head(x)",
    "called at once": "out = nn.Linear(16, 2)(x)",
    "several": "out = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 2))(x)",
    "a module of one's own": "out = Block()(x)",
    "normalized": "out = nn.LayerNorm(16)(x)",
    "a parameter": "w = nn.Parameter(torch.randn(16, 2))\nout = x @ w",
    "initialized": "head = nn.Linear(16, 2)\nnn.init.zeros_(head.bias)\nout = head(x)",
    "in a list": "heads = [nn.Linear(16, 2) for _ in range(2)]\nout = heads[0](x) + heads[1](x)",
    "recurrent": "out, _ = nn.GRU(16, 2)(x)",
    "under a name of the object": "self.head = nn.Linear(16, 2)\nout = self.head(x)",
}
KEPT = {
    "made once": "out = self.spare(x)",
    "frozen": "head = nn.Linear(16, 2).requires_grad_(False)\nout = head(x)",
    "frozen later": "head = nn.Linear(16, 2)\nfor p in head.parameters():\n    p.requires_grad = False\nout = head(x)",
    "no parameters": "out = nn.Dropout(0.1)(nn.ReLU()(x))",
    "without affine parameters": "out = nn.LayerNorm(16, elementwise_affine=False)(x)",
    "under no_grad": "with torch.no_grad():\n    mask = nn.Linear(16, 16)(x)\nout = x * mask.sigmoid()",
    "copied": "head = copy.deepcopy(self.spare)\nout = head(x) + self.spare(x)",
    "loaded": "head = nn.Linear(16, 2)\nhead.load_state_dict(self.spare.state_dict())\nout = head(x)",
    "its gradient asked for": (
        "w = nn.Parameter(torch.zeros(16))\n"
        "(g,) = torch.autograd.grad((x * w).sum(), w, create_graph=True)\nout = x * g"
    ),
    "one of each number": (
        "if not hasattr(self, 'heads'):\n    self.heads = {}\nif step not in self.heads:\n"
        "    self.heads[step] = nn.Linear(16, 2)\nout = self.heads[step](x)"
    ),
    "made at the first call": (
        "if not hasattr(self, 'head'):\n    self.head = nn.Linear(16, 2)\n    opt.add_param_group("
        "{'params': self.head.parameters()})\nout = self.head(x)"
    ),
}


def _indented(text: str) -> str:
    return "\n".join(f"        {line}" for line in text.split("\n"))


def _found(text: str) -> list[tuple[str, bool]]:
    return [(one.code, one.certain) for one in check(from_text(text, "run.py")).findings if one.code == "TAPE405"]


@pytest.mark.parametrize("made", ANEW)
def test_what_a_forward_makes_anew_is_never_trained(made: str) -> None:
    text = MODULE.replace("{made}", _indented(ANEW[made])) + LOOP
    assert _found(text) == [("TAPE405", True)]


@pytest.mark.parametrize("made", KEPT)
def test_what_is_kept_frozen_or_filled_is_no_finding(made: str) -> None:
    assert _found(MODULE.replace("{made}", _indented(KEPT[made])) + LOOP) == []


@pytest.mark.parametrize("made", sorted({*ANEW} - {"in a list", "a parameter", "initialized"}))
def test_the_layer_is_made_once_and_trained(made: str) -> None:
    torch = pytest.importorskip("torch")
    text = MODULE.replace("{made}", _indented(ANEW[made])) + LOOP
    report = check(from_text(text, "run.py"))
    (fix,) = fixes_for(report, report.findings[0])
    mended = fixed(text, fix)
    assert (fix.applicability, _found(mended)) == ("unsafe", [])
    scope: dict[str, object] = {"__name__": "run"}
    exec(mended.replace("for step", "before = [p.clone() for p in net.parameters()]\nfor step"), scope)
    pairs = zip(scope["before"], scope["net"].parameters(), strict=True)  # type: ignore[call-overload, attr-defined]
    # `spare` alone has no part in the loss.
    assert sum(torch.equal(before, after) for before, after in pairs) <= 2


ELSEWHERE = {
    "in a loop": "for _ in range(2):\n    layer = nn.Linear(16, 16)\n    x = layer(x)\nout = self.spare(x)",
    "in a list": "heads = nn.ModuleList([nn.Linear(16, 2) for _ in range(2)])\nout = heads[0](x) + heads[1](x)",
    "on a condition": "if self.training:\n    head = nn.Linear(16, 2)\nout = head(x)",
    "initialized each time": "head = nn.Linear(16, 2)\nnn.init.xavier_uniform_(head.weight)\nout = head(x)",
    "set each time": "head = nn.Sequential(nn.Linear(16, 2))\nhead[0].weight.data.normal_()\nout = head(x)",
    "initialized by another": "head = nn.Linear(16, 2)\nhead.apply(nn.init.zeros_)\nout = head(x)",
    "let go": "head = nn.Linear(16, 2)\nout = head(x)\ndel head",
    "named as a method of modules": "half = nn.Linear(16, 2)\nout = half(x)",
    "named as what the base class has": "fc = nn.Linear(16, 2)\nout = fc(x)",
    "named as a method of its own": "forward = nn.Linear(16, 2)\nout = forward(x)",
    "made of what another name is there": "head = nn.Linear(16, wide)\nout = head(x)",
}


@pytest.mark.parametrize("made", ELSEWHERE)
def test_what_is_not_one_layer_in_each_call_is_not_made_once(made: str) -> None:
    module = MODULE.replace(
        "def __init__(self):\n        super().__init__()\n        self.body",
        ("def __init__(self, wide=7):\n        super().__init__()\n        self.body"),
    ).replace("class Block", "wide = 2\n\nclass Block")
    text = module.replace("{made}", _indented(ELSEWHERE[made])) + LOOP
    report = check(from_text(text, "run.py"))
    found = [one for one in report.findings if one.code == "TAPE405"]
    # What makes it once would change how many there are, what they are made of, or what they are at each step.
    assert not [fix for one in found for fix in fixes_for(report, one) if "once" in fix.title]
    plain = MODULE.replace("{made}", _indented("head = nn.Linear(16, 2)\nout = head(x)")) + LOOP
    (usual,) = (report := check(from_text(plain, "run.py"))).findings
    assert [fix.title for fix in fixes_for(report, usual)] == ["Make `head` once, in `__init__`"]


OUTSIDE = """\
import torch
from torch import nn
body = nn.Linear(8, 16)
opt = torch.optim.SGD(body.parameters(), lr=0.1)
for epoch in range(3):
{before}
    for step in range(3):
{within}
        loss = head(body(torch.randn(4, 8))).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
{behind}
"""


@pytest.mark.parametrize(
    ("before", "within", "behind", "found"),
    [
        ("    pass", "        head = nn.Linear(16, 2)", "", [("TAPE405", True)]),
        ("    head = nn.Linear(16, 2)\n    own = torch.optim.SGD(head.parameters(), 0.1)",
         "        own.zero_grad()", "        own.step()", []),
        ("    pass", "        head = nn.Linear(16, 2)\n        own = torch.optim.SGD(head.parameters(), 0.1)",
         "        own.step()", []),
        ("    seen = []", "        head = nn.Linear(16, 2)", "        seen.append(head.weight.grad.norm().item())", []),
        ("    pass", "        head = nn.Linear(16, 2)", "        show(head)", []),
        ("    pass", "        head = nn.Linear(16, 2)",
         "        with torch.no_grad():\n            for p in head.parameters():\n                p -= p.grad", []),
    ],
)  # fmt: skip
def test_a_layer_made_in_a_loop(before: str, within: str, behind: str, found: list[tuple[str, bool]]) -> None:
    head = "from hidden import show\n" if "show" in behind else ""
    assert _found(head + OUTSIDE.format(before=before, within=within, behind=behind)) == found
