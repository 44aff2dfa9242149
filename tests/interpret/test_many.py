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
