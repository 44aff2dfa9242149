"""Several plain containers of one module: what one finding lacks is registered in one fix, and torch trains it."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tapecheck.fixes import fixes_for
from tests.fixes.support import fixed, report_of

torch = pytest.importorskip("torch")

PROGRAM = """\
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
{made}
        self.last = nn.Linear(3, 3)

    def forward(self, x):
        for i in range(3):
{used}
        return self.last(x)

net = {blocks}
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    loss = net(torch.ones(2, 3)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
HELD = {
    "appended": "self.{0} = []\nfor i in range(3):\n    self.{0}.append(nn.Linear(3, 3))",
    "written out": "self.{0} = [nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3)]",
    "comprehension": "self.{0} = [nn.Linear(3, 3) for _ in range(3)]",
    "list()": "self.{0} = list()\nself.{0}.append(nn.Linear(3, 3))\nself.{0} += [nn.Linear(3, 3) for _ in range(2)]",
    "parameters": "self.{0} = [nn.Parameter(torch.ones(3)) for _ in range(3)]",
}
PAIRS = [*itertools.combinations(HELD, 2), ("appended", "appended"), ("comprehension", "appended", "parameters")]


def _program(kinds: tuple[str, ...]) -> str:
    names = "abc"
    made = "\n".join(HELD[kind].format(name) for kind, name in zip(kinds, names))
    used = "\n".join(
        f"x = x * self.{name}[i]" if kind == "parameters" else f"x = torch.tanh(self.{name}[i](x))"
        for kind, name in zip(kinds, names)
    )
    return PROGRAM.format(made=_indented(made, 8), used=_indented(used, 12), blocks="Block()")


def _indented(text: str, by: int) -> str:
    return "\n".join(" " * by + line for line in text.splitlines())


def _run(text: str) -> dict[str, Any]:
    space: dict[str, Any] = {}
    exec(text, space)
    return space


def _repaired(text: str) -> tuple[str, int]:
    """Return a program with the first fix of each finding made, and how many it took."""
    for count in range(4):
        report = report_of(text)
        if not report.findings:
            return text, count
        text = fixed(text, next(fix for fix in fixes_for(report, report.findings[0]) if "Register" in fix.title))
    return text, 4


@pytest.mark.parametrize("kinds", PAIRS)
def test_what_plain_containers_hold_is_registered(kinds: tuple[str, ...]) -> None:
    text = _program(kinds)
    mended, count = _repaired(text)
    before, after = (list(_run(one)["net"].parameters()) for one in (text, mended))
    assert count <= len(kinds)
    assert len(after) == len(before) + sum(3 if kind == "parameters" else 6 for kind in kinds)
    assert all(parameter.grad is not None for parameter in after)


FILLED = {
    "beside each other": "self.a, self.b = [], []",
    "one by one": "self.a = []\nself.b = []",
    "a dict beside a list": "self.a = []\nself.b = {}",
    "three": "self.a = []\nself.b = []\nself.c = []",
}


@pytest.mark.parametrize("filled", FILLED)
@pytest.mark.parametrize("blocks", ["Block()", "nn.Sequential(Block(), Block())"])
def test_what_one_loop_fills_is_registered(filled: str, blocks: str) -> None:
    made = FILLED[filled]
    keyed = "{}" in made
    fills = [
        "self.a.append(nn.Linear(3, 3))",
        "self.b[str(i)] = nn.Linear(3, 3)" if keyed else "self.b.append(nn.Linear(3, 3))",
    ]
    uses = ["x = self.a[i](x)", "x = self.b[str(i)](x)" if keyed else "x = self.b[i](x)"]
    if "self.c" in made:
        fills.append("self.c.append(nn.BatchNorm1d(3))")
        uses.append("x = self.c[i](x)")
    made += "\nfor i in range(3):\n" + _indented("\n".join(fills), 4)
    used = _indented("\n".join(uses), 12)
    text = PROGRAM.format(made=_indented(made, 8), used=used, blocks=blocks)
    mended, count = _repaired(text)
    assert count == (1 if "," in blocks else 2 + ("self.c" in made))
    assert all(parameter.grad is not None for parameter in _run(mended)["net"].parameters())
    assert len(list(_run(mended)["net"].parameters())) == (2 + 6 * len(uses)) * (2 if "," in blocks else 1)


RETURNED = {
    "comprehension": "return [nn.Linear(3, 3) for _ in range(3)]",
    "written out": "return [nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3)]",
    "appended": "found = []\nfor _ in range(3):\n    found.append(nn.Linear(3, 3))\nreturn found",
    "blocks": "return [nn.Sequential(nn.Linear(3, 3), nn.Tanh()) for _ in range(3)]",
    "named": "return {'abc'[i]: nn.Linear(3, 3) for i in range(3)}",
    # What no container of torch takes, or takes as something else.
    "numbered": "return {i: nn.Linear(3, 3) for i in range(3)}",
    "nested": "return [[nn.Linear(3, 3)] for _ in range(3)]",
    "dotted": "return {f'{i}.x': nn.Linear(3, 3) for i in range(3)}",
    "parameters": "return [nn.Parameter(torch.ones(3)) for _ in range(3)]",
}
TAKEN = {
    "named": "self.a['abc'[i]](x)", "numbered": "self.a[i](x)", "nested": "self.a[i][0](x)",
    "dotted": "self.a[f'{i}.x'](x)", "parameters": "x * self.a[i]",
}  # fmt: skip
CALLED = ("made()", "self.made()", "Block.made()", "made_through()")


@pytest.mark.parametrize("called", CALLED)
@pytest.mark.parametrize("returned", RETURNED)
def test_what_a_helper_returns_is_registered_where_it_is_stored(returned: str, called: str) -> None:
    text = PROGRAM.format(
        made=f"        self.a = {called}",
        used=f"            x = {TAKEN.get(returned, 'self.a[i](x)')}",
        blocks="Block()",
    )
    helper = "def made():\n" + _indented(RETURNED[returned], 4) + "\n\n"
    if "." in called:
        method = "    @staticmethod\n" + _indented(helper, 4) + "\n"
        text = text.replace("    def forward", method + "    def forward")
    else:
        text = text.replace("class Block", helper + "def made_through():\n    return made()\n\nclass Block")
    report = report_of(text)
    (finding,) = report.findings
    stored = text.splitlines()[finding.span.line - 1].strip() == f"self.a = {called}"
    assert finding.code == "TAPE405" and (stored or "." in called)
    titles = [fix.title for fix in fixes_for(report, finding) if "Register" in fix.title]
    before = len(list(_run(text)["net"].parameters()))
    if returned in ("numbered", "nested", "dotted", "parameters"):
        assert not any(f"({called})" in fixed(text, fix) for fix in fixes_for(report, finding))
        return
    assert titles[0] == f"Register them: `nn.Module{'Dict' if returned == 'named' else 'List'}`"
    mended, count = _repaired(text)
    after = list(_run(mended)["net"].parameters())
    assert count == 1 and len(after) == before + 6 and all(one.grad is not None for one in after)


ASKED_OF_LISTS = {
    "a function is appended": "self.a.append(torch.tanh)",
    "a lambda is appended": "self.a.append(lambda x: x * 2)",
    "a function is inserted": "self.a.insert(0, torch.tanh)",
    "a function takes a place": "self.a[0] = torch.tanh",
    "a class is appended": "self.a.append(nn.Tanh)",
    "functions are added": "self.a += [torch.tanh]",
    "functions stand behind": "self.b = self.a + [torch.tanh]",
    "functions stand before": "self.b = [torch.tanh] + self.a",
    "modules stand before": "self.b = [nn.Tanh()] + self.a",
    "modules stand behind": "self.b = self.a + [nn.Tanh()]",
    "repeated": "self.b = self.a * 2",
    "a part takes a part's place": "self.a[1:] = [nn.Linear(3, 3), nn.Linear(3, 3)]",
    "a part is deleted": "self.a.append(nn.Tanh())\n        del self.a[3:]",
    "turned round": "self.a.reverse()",
    "sorted in place": "self.a.sort(key=id)",
    "sorted": "self.b = sorted(self.a, key=id)",
    "copied": "self.b = self.a.copy()",
    "looked for": "self.at = self.a.index(self.a[0])",
    "the last is taken": "self.a.append(self.a.pop())",
    "taken for a list": "assert isinstance(self.a, list)",
    "by another name": "b = self.a\n        b.append(torch.tanh)",
    "by getattr": "getattr(self, 'a').append(torch.tanh)",
    "nothing": "pass",
}


@pytest.mark.parametrize("returned", ["comprehension", "appended"])
@pytest.mark.parametrize("asked", ASKED_OF_LISTS.values(), ids=ASKED_OF_LISTS.keys())
def test_what_is_registered_does_what_the_list_did(asked: str, returned: str) -> None:
    """A fix that is offered leaves a program that runs: a container of torch does less than a list."""
    made = f"        self.a = made()\n        {asked}"
    text = PROGRAM.format(
        made=made, used="            x = self.a[i](x) if callable(self.a[i]) else x", blocks="Block()"
    )
    text = text.replace("self.a[i](x) if", "self.a[i](x) if not isinstance(self.a[i], type) and")
    text = text.replace("class Block", f"def made():\n{_indented(RETURNED[returned], 4)}\n\nclass Block")
    _run(text)
    report = report_of(text)
    registering = [
        fix for finding in report.findings for fix in fixes_for(report, finding) if fix.title.startswith("Register")
    ]
    for fix in registering:
        _run(fixed(text, fix))
    assert registering or asked != "pass"


@pytest.mark.parametrize("last", ["torch.tanh", "nn.Tanh", "2.0", "lambda x: x"])
def test_what_holds_other_things_than_modules_is_not_registered(last: str) -> None:
    used = "            x = self.a[i](x) if isinstance(self.a[i], nn.Linear) else x"
    for made in ("[nn.Linear(3, 3), nn.Linear(3, 3), {}]", "{{0: nn.Linear(3, 3), 1: nn.Linear(3, 3), 2: {}}}"):
        text = PROGRAM.format(made="        self.a = made()", used=used, blocks="Block()")
        text = text.replace("class Block", f"def made():\n    return {made.format(last)}\n\nclass Block")
        _run(text)
        report = report_of(text)
        for fix in (one for finding in report.findings for one in fixes_for(report, finding)):
            _run(fixed(text, fix))
