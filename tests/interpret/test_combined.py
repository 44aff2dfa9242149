"""What only three or more answers of hidden code together lead to, through tests that values decide."""

from __future__ import annotations

import random

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

VALUES = (
    "v{n} = [{n}] if ask{n}() else []\n",
    "v{n} = [z for z in load{n}()]\n",
    "v{n} = []\nfor z in load{n}():\n    v{n}.append(z)\n",
    "v{n} = []\nif ask{n}():\n    v{n} = [1]\n",
    "v{n} = False\nif ask{n}():\n    v{n} = True\n",
    "if ask{n}():\n    v{n} = 1\nelse:\n    v{n} = 0\n",
    "def make{n}():\n    if ask{n}():\n        return [1]\n    return []\n\n\nv{n} = make{n}()\n",
    "v{n} = 0\nfor z in load{n}():\n    v{n} += 1\n",
    "v{n} = list(load{n}())\n",
)
"""What has something in it, or nothing, as hidden code says."""
FAULTS = {
    "TAPE301": ("loss = (w * w).sum()\nloss.backward(retain_graph=True)\n", "loss.backward()", ""),
    "TAPE103": ("total = torch.ones(2).sum()\n", "total = (w * w).sum()", "total.backward()\n"),
    "TAPE404": (
        "net = torch.nn.Linear(2, 1)\nopt = torch.optim.SGD(net.parameters())\nnet(torch.ones(2)).sum().backward()\n",
        "opt.step()",
        "opt.zero_grad()\n",
    ),
}
"""What is said never to come, what brings it, and what stands behind."""


def _nested(parts: list[str], does: str) -> str:
    return (
        "".join(f"{' ' * 4 * depth}if {part}:\n" for depth, part in enumerate(parts)) + f"{' ' * 4 * len(parts)}{does}"
    )


def _halved(parts: list[str], does: str) -> str:
    half = len(parts) // 2
    return f"if {' and '.join(parts[:half])}:\n    if {' and '.join(parts[half:])}:\n        {does}"


def _returning(parts: list[str], does: str) -> str:
    passing = "".join(f"    if not ({part}):\n        return\n" for part in parts)
    return f"def go():\n    global total\n{passing}    {does}\n\n\ngo()"


TESTS = {
    "and": lambda parts, does: f"if {' and '.join(parts)}:\n    {does}",
    "or": lambda parts, does: f"if not ({' or '.join(f'not ({part})' for part in parts)}):\n    {does}",
    "nested": _nested,
    "halved": _halved,
    "returning": _returning,
    "flag": lambda parts, does: f"flag = {' and '.join(parts)}\nif flag:\n    {does}",
    "function": lambda parts, does: f"def ok():\n    return {' and '.join(parts)}\n\n\nif ok():\n    {does}",
    "elif": lambda parts, does: f"if not ({parts[0]}):\n    pass\nelif {' and '.join(parts[1:])}:\n    {does}",
    "while": lambda parts, does: f"while {' and '.join(parts)}:\n    {does}\n    break",
    "argument": lambda parts, does: (
        f"def go(x):\n    global total\n    if x and {' and '.join(parts[1:])}:\n        {does}\n\n\ngo({parts[0]})"
    ),
}


def _program(draw: random.Random, form: str, fault: str, *, opposite: bool, most: int) -> str:
    count = draw.randint(3, most)
    head, does, tail = FAULTS[fault]
    parts = [draw.choice(("", "not ")) + f"v{number}" for number in range(count)]
    draw.shuffle(parts)
    if opposite:
        last = parts[0]
        parts.append(last[4:] if last.startswith("not ") else f"not {last}")
    names = ", ".join(f"ask{number}, load{number}" for number in range(count))
    made = "".join(draw.choice(VALUES).format(n=number) for number in range(count))
    before = made + head if draw.random() < 0.5 else head + made
    return (
        f"import torch\nfrom hidden import {names}\n\nw = torch.ones(2, requires_grad=True)\n{before}"
        f"{TESTS[form](parts, does)}\n{tail}"
    )


def _is_certain(program: str, fault: str) -> bool:
    return any(one.code == fault and one.certain for one in check(from_text(program, "train.py")).findings)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("form", TESTS)
def test_answers_that_lead_there_together(form: str, fault: str) -> None:
    """Each of these programs comes there for one combination of what hidden code answers."""
    draw = random.Random(f"{form} {fault}")
    for _ in range(8):
        program = _program(draw, form, fault, opposite=False, most=7)
        assert not _is_certain(program, fault), program


@pytest.mark.parametrize("form", ["and", "nested", "flag", "function", "elif"])
def test_what_no_answers_lead_to_is_certain(form: str) -> None:
    """What asks for a value and its opposite never comes, whatever hidden code answers."""
    draw = random.Random(form)
    programs = [_program(draw, form, "TAPE301", opposite=True, most=3) for _ in range(6)]
    assert any(_is_certain(program, "TAPE301") for program in programs)
