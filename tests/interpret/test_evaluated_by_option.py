"""Evaluations that an option switches on within the training loop: told where the option has not got its default."""

from __future__ import annotations

import itertools

import pytest

from tapecheck.check import check
from tapecheck.source import from_text
from tests.interpret.truth import nodes_counted

READ = {
    "a flag": ("parser.add_argument('--evaluates', action='store_true')", "args.evaluates", "['--evaluates']"),
    "a mode": ("parser.add_argument('--mode', default='train')", "args.mode == 'both'", "['--mode', 'both']"),
    "a number": ("parser.add_argument('--every', type=int, default=0)", "args.every > 0", "['--every', '1']"),
    "a default": ("parser.add_argument('--test', type=bool, default=False)", "args.test", "['--test', 'yes']"),
    "the environment": ("import os", "os.environ.get('EVALUATES_IN_A_TEST', '{}') == '1'", "1"),
}
LOOPS = {
    "a function": "def evaluate(net):\n    net.eval()\n    total = 0\n    for x in xs:\n        out = net(x)\n"
    "        pass  # count\n        total += (out.argmax(1) == 1).sum().item()\n    return total\n",
    "a function that calls another": "def count(net, x):\n    return (net(x).argmax(1) == 1).sum().item()\n\n"
    "def evaluate(net):\n    net.eval()\n    total = 0\n    for x in xs:\n        out = net(x)\n        pass  # count\n"
    "        total += out.max().item() + count(net, x)\n    return total\n",
    "without recording": "def evaluate(net):\n    net.eval()\n    total = 0\n    with torch.no_grad():\n"
    "        for x in xs:\n            out = net(x)\n            pass  # count\n"
    "            total += out.sum().item()\n    return total\n",
    "decorated": "@torch.inference_mode()\ndef evaluate(net):\n    net.eval()\n    total = 0\n    for x in xs:\n"
    "        out = net(x)\n        pass  # count\n        total += out.sum().item()\n    return total\n",
}
PROGRAM = """\
import argparse
import torch
from torch import nn

parser = argparse.ArgumentParser()
{read}
args = parser.parse_args({given})
xs = [torch.randn(4, 3)] * 4
{loop}
net = nn.Linear(3, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(5):
    net.train()
    for x in xs:
        optimizer.zero_grad()
        net(x).pow(2).mean().backward()
        optimizer.step()
    if {test}:
        {evaluation}
"""
PLACES = {
    "a call": "print(evaluate(net))",
    "a best value": "best = max(globals().get('best', 0), evaluate(net))",
    "further in": "if epoch > 0:\n            print(evaluate(net))",
}


def written(read: str, loop: str, place: str, *, given: bool = False) -> str:
    options, test, value = READ[read]
    of_options = value.startswith("[")
    return PROGRAM.format(
        read=options, test=test.format("1" if given else ""), given="" if not given else value if of_options else "[]",
        loop=LOOPS[loop], evaluation=PLACES[place],
    )  # fmt: skip


def found(text: str) -> list[tuple[str, int]]:
    return [(one.code, one.span.line) for one in check(from_text(text, "train.py")).findings]


@pytest.mark.parametrize(("read", "loop", "place"), [*itertools.product(READ, LOOPS, PLACES)])
def test_what_an_option_evaluates_is_told(read: str, loop: str, place: str) -> None:
    text = written(read, loop, place)
    line = next(number for number, one in enumerate(text.splitlines(), 1) if one.strip() == "for x in xs:")
    assert found(text) == ([] if loop in ("without recording", "decorated") else [("TAPE302", line)])


def test_torch_builds_graphs_where_they_are_told() -> None:
    programs = {}
    for read, loop in itertools.product(READ, LOOPS):
        text = written(read, loop, "a call", given=True)
        programs[read, loop] = text.replace("range(5)", "range(1)").replace(
            "[torch.randn(4, 3)] * 4", "[torch.ones(2, 3)]"
        )
    counted = nodes_counted({str(key): text for key, text in programs.items()})
    for read, loop in programs:
        (nodes,) = counted[str((read, loop))]
        assert (nodes > 0) == (loop not in ("without recording", "decorated")), (read, loop)
