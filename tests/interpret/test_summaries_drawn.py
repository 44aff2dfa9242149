"""Drawn programs that call modules several times: tapes with summaries are those without."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tapecheck.check import check
from tapecheck.interpret.python import summaries
from tapecheck.source import from_text
from tapecheck.tape import Event

HEAD = """\
import numpy
import torch
from torch import nn

class Leaky(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, slope):
        ctx.save_for_backward(x)
        ctx.slope, ctx.rows = slope, x.size(0)
        {keeps}
        return x * slope

    @staticmethod
    def backward(ctx, grad):
        x, = ctx.saved_tensors
        {acts}
        return grad * ctx.slope, None

def first(value):
    return value[0] if isinstance(value, tuple) else value

seen = []
WIDTH = {width}
"""
CLASS = """
class {name}(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.width, self.n, self.names = nn.Linear(4, 4), WIDTH, 4, {{"a", "b"}}
        self.part = {part}

    def forward(self, x, y=None):
        y = x if y is None else y
        {rows}
{body}
"""
ROWS = (
    "rows = x.size(0)", "rows, width = x.shape", "rows = len(x)", "rows = y.shape[0]", "rows = (x * 2).size(0)",
    "rows, _ = (x + y).size()", "shape = x.shape; rows = shape[0]", "rows = x.size()[0] * 1", "rows = self.width",
)  # fmt: skip
OPERATIONS = (
    "self.inner({0})", "{0}.relu()", "{0} * 2", "{0} + {1}", "torch.cat(({0}, {1}), 1)", "{0}.view({0}.size(0), -1)",
    "{0}.view(len({1}), -1)", "{0}.reshape({1}.shape[0], 4)", "{0}.view(rows, 4)", "{0}.reshape(rows // 2, -1, 4)",
    "{0}[:rows]", "{0}[: len({1}) - 1]", "torch.stack([{0}, {1}])", "{0}.split(rows)[0]", "{0}.chunk(2)[0]",
    "torch.zeros(rows, 4) + {0}", "torch.zeros({0}.shape) + {1}", "{0}.view(self.width, -1)", "{0}.view(*{1}.shape)",
    "{0}.view(*{1}.shape[:1], -1)", "Leaky.apply({0}, 0.1)", "self.part({0})", "{0}.detach() + {1}",
    "{0}.view(-1, self.n)", "{0}.unsqueeze(0)", "{0}.new_zeros({1}.size()) + {0}",
    "{0}.view({1}.shape[0], {0}.shape[1])", "torch.ones({1}.size(0), 4) * {0}",
)  # fmt: skip
BETWEEN = (
    "if rows > 4:\n            {0} = {0} * 2", "assert rows < 64", "if {0}.size(0) == rows:\n            {0} = {0} + 1",
    "for i in range(rows):\n            {0} = {0} + i", "for row in {0}:\n            self.inner(row)",
    "if self.training:\n            {0} = {0}.tanh()", 'if "a" in self.names:\n            {0} = {0} - 1',
)  # fmt: skip
RETURNS = ("{0}", "{0}.view(rows, -1)", "{0}, {1}", "({0}.reshape(len(x), -1), rows)", "{0}, ({1}, {0})")
BATCHES = (
    'def batch():\n    return torch.from_numpy(numpy.load("a.npy"))',
    "def batch():\n    return torch.randn(6, 4)",
    "from data import batch",
)
CALLS = (
    "net(x)", "net(x, y)", "other(x)", "net(y)", "net(first(net(x)))", "net(x, first(other(y)))", "net(x.detach())",
)  # fmt: skip
LATER = (
    "",
    "",
    'net.names.add("c")',
    "net.eval()",
    "print(x.shape[0], len(y))",
    "if x.size(0) > 3:\n        x = x * 2",
)
USES = (
    "for row in a:\n        (row.sum() + b.sum()).backward(retain_graph=True)",
    "for row, one in zip(a, b):\n        (row.sum() + one.sum()).backward()",
    "if len(a) == len(b):\n        b = b * 2\n    b.sum().backward()",
    "for i in range(a.size(0)):\n        (a[i].sum() + b[i].sum()).backward()",
    "if a.shape[0] == x.shape[0]:\n        a = a.detach()\n    a.sum().backward()",
    "for part in a.split(2):\n        part.sum().backward()",
    "with torch.no_grad():\n        net(x)\n    b.mean().backward()",
    "while len(seen) < a.size(0):\n        seen.append(b)\n    sum(one.sum() for one in seen).backward()",
)


def _class(draw: random.Random, name: str, part: str) -> str:
    body, names = [], ["x", "y", "x", "y"]
    for number in range(draw.randint(1, 5)):
        operation = draw.choice([one for one in OPERATIONS if part != "None" or "self.part" not in one])
        body.append(f"h{number} = {operation.format(*draw.choices(names[-3:], k=2))}")
        names.append(f"h{number}")
        if draw.random() < 0.25:
            body.append(draw.choice(BETWEEN).format(names[-1]))
    returned = draw.choice(RETURNS if part != "None" else RETURNS[:2])
    body.append("return " + returned.format(names[-1], draw.choice(names[-3:])))
    indented = "\n".join(f"        {line}" for line in body)
    return CLASS.format(name=name, part=part, rows=draw.choice(ROWS), body=indented)


def _program(draw: random.Random) -> str:
    """Return a program that calls two modules, some of their results deciding how it goes on."""
    keeps = draw.choice(["pass", "pass", "seen.append(ctx)"])
    acts = draw.choice(["pass", "pass", "seen.append(1)", "x.add_(1)"])
    lines = [HEAD.format(keeps=keeps, acts=acts, width=draw.choice(["4", "int(input())"]))]
    lines += [_class(draw, "Part", "None"), _class(draw, "Net", draw.choice(["Part()", "None"]))]
    lines += [
        "net, other = Net(), Net()",
        "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)",
        draw.choice(BATCHES),
    ]
    lines += [f"for step in range({draw.choice(['3', 'int(input())'])}):", "    x, y = batch(), batch()"]
    for name in draw.choice(["ab", "acb", "abcd"]):
        lines += [f"    {name} = first({draw.choice(CALLS)})", f"    {draw.choice(LATER)}"]
    return "\n".join([*lines, "    optimizer.zero_grad()", f"    {draw.choice(USES)}", "    optimizer.step()", ""])


def _events(program: str) -> list[list[Event]]:
    return [tape.events for tape in check(from_text(program, "program.py")).interpretation.tapes]


def _drawn() -> Iterator[str]:
    return (_program(random.Random(seed)) for seed in range(90))


def test_drawn_programs_are_the_same_with_and_without_summaries(monkeypatch: pytest.MonkeyPatch) -> None:
    programs = [*_drawn()]
    written = 0
    write = summaries._Again.write

    def counted(again: summaries._Again, function: summaries.Function) -> summaries.Value:
        nonlocal written
        written += 1
        return write(again, function)

    monkeypatch.setattr(summaries._Again, "write", counted)
    found = [_events(program) for program in programs]
    monkeypatch.setattr(summaries, "forward", lambda machine, function, args, kwargs, node, run: run())
    for program, events in zip(programs, found):
        assert events == _events(program), program
    assert written > len(programs)
