"""Lists that are made of others which a loop that was cut short has filled: as long as Python has them."""

from __future__ import annotations

import random

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

PROGRAM = """\
import torch
from torch import nn
net = nn.Linear(3, 2)
xs, zs = [], []
for step in range({rounds}):
    xs.append(net(torch.randn(3)).sum())
    zs.append(step)
{made}
loss = sum(xs)
loss.backward()
{asked}
"""
PARTS = (
    "{} + [0]", "[0] + {}", "[*{}, 0]", "[0, *{}]", "{}[1:]", "{}[:-1]", "{}[:]", "{}.copy()", "list({})", "{} + zs",
    "zs + {}", "{}[2:6]", "{}[-3:]", "{}[:3]", "{}[1:-1]", "[*{}, *zs]",
)  # fmt: skip


def made(chance: random.Random) -> str:
    text = "xs"
    for _ in range(chance.randint(1, 3)):
        text = f"({chance.choice(PARTS).format(text)})"
    return text


def statements(chance: random.Random) -> str:
    """A list that is made of others at once, or filled with them."""
    if chance.random() < 0.7:
        return f"ys = {made(chance)}"
    first, second = made(chance), made(chance)
    return f"ys = [0]\nys.extend({first})\nys += {second}"


def length(text: str, rounds: int) -> int:
    names: dict[str, list[int]] = {"xs": [1] * rounds, "zs": [1] * rounds}
    exec(text, {}, names)
    return len(names["ys"])


def told(rounds: int, text: str, asked: str) -> list[tuple[str, bool]]:
    program = PROGRAM.format(rounds=rounds, made=text, asked=asked)
    return [(one.code, one.certain) for one in check(from_text(program, "train.py")).findings]


@pytest.mark.parametrize("seed", range(60))
def test_a_list_has_as_many_elements_as_python_gives_it(seed: int) -> None:
    chance = random.Random(seed)
    rounds = chance.choice((5, 8, 30))
    text = statements(chance)
    real = length(text, rounds)
    again = [("TAPE101", True)]
    assert told(rounds, text, f"if len(ys) == {real}:\n    loss.backward()") == again, text
    for other in {real - 1, real + 1, real - rounds, 3, 4} - {real}:
        assert told(rounds, text, f"if len(ys) == {other}:\n    loss.backward()") == [], (text, other)
    looked_up = "try:\n    ys[{}]\nexcept IndexError:\n    pass\n{}:\n    loss.backward()"
    assert told(rounds, text, looked_up.format(real, "else")) == [], text
    if real:
        assert told(rounds, text, looked_up.format(real - 1, "else")) == again, text
