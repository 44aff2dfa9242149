"""Elements of a list whose length nobody knows are told apart, however it is copied and parted."""

from __future__ import annotations

from itertools import product

import pytest

from tapecheck.check import check
from tapecheck.source import from_text
from tests.interpret.truth import full, torch_raises_at

MADE = {
    "in a comprehension": "parts = [Part(n) for n in sizes]",
    "in a loop": "parts = []\n    for n in sizes:\n        parts.append(Part(n))",
    "in a dict": "parts = list({i: Part(n) for i, n in enumerate(sizes)}.values())",
}
PARTS = {
    "that hold a layer": "self.layer = nn.Linear(n, 2)\n        self.out = None",
    "that hold nothing yet": "self.layer = shared\n        self.out = None",
}
TAKEN = {
    "themselves": "parts",
    "in a copy": "[part for part in parts]",
    "in a copy of a copy": "[part for part in [part for part in parts]]",
    "as a list": "list(parts)",
    "as a slice": "parts[:]",
    "by number": "[part for i, part in enumerate(parts)]",
    "in pairs": "[part for part, n in zip(parts, sizes)]",
    "in a dict": "{i: part for i, part in enumerate(parts)}.values()",
    "through a function": "[part for part in map(lambda part: part, parts)]",
}
WALKED = {
    "all": "for part in parts:\n        part.out.pow(2).sum().backward()",
    "by place": "for i, size in enumerate(sizes):\n        parts[i].out.pow(2).sum().backward()",
    "the first, then the others": (
        "parts[0].out.pow(2).sum().backward()\n    for part in parts[1:]:\n        part.out.pow(2).sum().backward()"
    ),
    "all but the last, then the last": (
        "for part in parts[:-1]:\n        part.out.pow(2).sum().backward()\n    parts[-1].out.pow(2).sum().backward()"
    ),
    "the one half, then the other": (
        "half = len(parts) // 2\n    for part in parts[:half]:\n        part.out.pow(2).sum().backward()\n"
        "    for part in parts[half:]:\n        part.out.pow(2).sum().backward()"
    ),
    "with a step each": (
        "optimizers = [torch.optim.SGD(part.layer.parameters(), lr=0.1) for part in parts]\n"
        "    for optimizer, part in zip(optimizers, parts):\n        optimizer.zero_grad()\n"
        "        part.out.pow(2).sum().backward()\n        optimizer.step()"
    ),
}


def _program(made: str, parts: str, taken: str, walked: str) -> str:
    return (
        f"shared = nn.Linear(3, 2)\nclass Part:\n    def __init__(self, n):\n        {PARTS[parts]}\n"
        f"def train(sizes, x):\n    {MADE[made]}\n    for part in {TAKEN[taken]}:\n        part.out = part.layer(x)\n"
        f"    {WALKED[walked]}\n"
    )


# Where all share a layer, the step of one changes what the others saved.
CASES = [
    case for case in product(MADE, PARTS, TAKEN, WALKED) if case[1] == "that hold a layer" or "step" not in case[3]
]


@pytest.mark.parametrize("made", MADE)
def test_no_element_is_taken_for_another(made: str) -> None:
    programs = [_program(*case) for case in CASES if case[0] == made]
    called = {program: full(program + "train([3, 3, 3, 3, 3], torch.ones(3))\n") for program in programs}
    assert {line for line, _ in torch_raises_at(called).values()} == {None}
    told = {
        program: [(finding.code, finding.span.line) for finding in found]
        for program in programs
        if (found := check(from_text(full(program), "program.py")).findings)
    }
    assert not told, (len(told), next(iter(told.items())))


def test_an_element_that_comes_twice_is_told() -> None:
    once = _program("in a comprehension", "that hold a layer", "in a copy", "all")
    twice = once + "    parts[0].out.sum().backward()\n"
    line, _ = torch_raises_at({"": full(twice + "train([3, 3, 3, 3, 3], torch.ones(3))\n")})[""]
    (finding,) = check(from_text(full(twice), "program.py")).findings
    assert (finding.code, finding.span.line) == ("TAPE101", line)


FROZEN = """\
import torch


class Owner:
    def __init__(self, state):
        self.state = state


params = [torch.rand(3) for _ in range(COUNT)]
named = {str(i): p for i, p in enumerate(params)}
owners = [Owner(p) for p in params]
for _ in range(3):
    for p in params:
        p.requires_grad = True
    loss = sum((p * p).sum() for p in params)
    grads = torch.autograd.grad(loss, params)
    LOOP
        FREEZE
    CHANGE
"""
OVER = {
    "the list": "for p in params:",
    "pairs": "for p, g in zip(params, grads):",
    "numbered": "for i, p in enumerate(params):",
    "by index": "for p in (params[i] for i in range(len(params))):",
    "a dict": "for name, p in named.items():",
    "backwards": "for p in reversed(params):",
    "what holds them": "for p in (one.state for one in owners):",
}
CHANGED = ["for p in params: p.clamp_(min=0.0)", "params[-1].clamp_(min=0.0)", "params[len(params) // 2].mul_(2.0)"]


@pytest.mark.parametrize("count", [2, 5, 40])
@pytest.mark.parametrize("loop", OVER.values(), ids=OVER)
def test_what_a_loop_takes_the_graph_from_it_takes_it_from_all_of(loop: str, count: int) -> None:
    """An iteration that repeats the one before says nothing of elements that it has not come to."""
    for freeze, change in product(("p.requires_grad = False", "p.requires_grad_(False)"), CHANGED):
        text = FROZEN.replace("COUNT", str(count)).replace("LOOP", loop)
        text = text.replace("FREEZE", freeze).replace("CHANGE", change)
        exec(compile(text, "frozen.py", "exec"), {})
        assert not check(from_text(text, "frozen.py")).findings, text
