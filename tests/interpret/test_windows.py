"""Containers that keep so many elements and no more: in loops of any length, known or not, none of them is a leak."""

from __future__ import annotations

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

PROGRAM = """
import argparse
import itertools
import os
import sys
from collections import deque

import torch

net = torch.nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
{made}
{loop}
    loss = net(torch.randn(8, 3)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    {store}
"""

METER = """
class Meter:
    def __init__(self, size):
        self.size, self.last = size, {}
    def add(self, value):
        self.last.append(value)
"""

POPPING = """
        if len(self.last) > self.size:
            self.last.pop(0)
"""

WINDOWS = {
    "maxlen": ("kept = deque(maxlen=BOUND)", "kept.append(loss)"),
    "deque of a length": ("kept = deque([], BOUND)", "kept.append(loss)"),
    "slice": ("kept = []", "kept = (kept + [loss])[-BOUND:]"),
    "append and slice": ("kept = []", "kept.append(loss)\n    kept = kept[-BOUND:]"),
    "object": (
        f"{METER.format('deque(maxlen=size)')}\nmeter = Meter(BOUND)",
        "meter.add(loss)",
    ),
}
"""What is made before the loop, and how it is stored into."""

CUT_BACK = {
    "pop": ("kept = []", "kept.append(loss)\n    if len(kept) > BOUND:\n        kept.pop(0)"),
    "named bound": ("kept = []\nsize = BOUND", "kept.append(loss)\n    if len(kept) > size:\n        kept.pop(0)"),
    "del": ("kept = []", "kept.append(loss)\n    if len(kept) > BOUND:\n        del kept[0]"),
    "while": ("kept = deque()", "kept.append(loss)\n    while len(kept) > BOUND:\n        kept.popleft()"),
    "slice now and then": ("kept = []", "kept.append(loss)\n    if len(kept) > BOUND:\n        kept = kept[1:]"),
    "clear": ("kept = []", "kept.append(loss)\n    if len(kept) >= BOUND:\n        kept.clear()"),
    "new one": ("kept = []", "kept.append(loss)\n    if len(kept) == BOUND:\n        kept = []"),
    "first ones": ("kept = []", "if len(kept) < BOUND:\n        kept.append(loss)"),
    "ring": ("kept = [None] * BOUND", "kept[i % BOUND] = loss"),
    "ring of keys": ("kept = {}", "kept[i % BOUND] = loss"),
    "method": (
        f"{METER.format('[]')}{POPPING}\nmeter = Meter(BOUND)",
        "meter.add(loss)",
    ),
}
"""The same for containers that only the program cuts back: a loop has to come to where it does."""

LEAKS = {
    "list": ("kept = []", "kept.append(loss)"),
    "deque": ("kept = deque()", "kept.append(loss)"),
    "total": ("kept = 0", "kept = kept + loss"),
    "length that is only shown": (
        "kept = []",
        "kept.append(loss)\n    if len(kept) > BOUND:\n        print(len(kept))",
    ),
}

OPTION = (
    "parser = argparse.ArgumentParser()\nparser.add_argument('--n', type=int, default={})\nn = parser.parse_args().n\n"
)
COUNT = "n = int(sys.argv[1])\n"
LOADER = COUNT + "loader = torch.utils.data.DataLoader(range(n), batch_size=2)\n"

LOOPS = {
    "known": "for i in range(1000):",
    "option": OPTION.format(50) + "for i in range(n):",
    "short option": OPTION.format(2) + "for i in range(n):",
    "argument": COUNT + "for i in range(n):",
    "worked out": COUNT + "for i in range(1, n + 1):",
    "environment": "n = int(os.environ.get('N', 100))\nfor i in range(n):",
    "tested": COUNT + "assert n > 2\nfor i in range(n):",
    "length": "lines = sys.stdin.readlines()\nfor i in range(len(lines)):",
    "numbered": COUNT + "for i, _ in enumerate(range(n)):",
    "side by side": COUNT + "for i, _ in zip(range(n), itertools.count()):",
    "backwards": COUNT + "for i in reversed(range(n)):",
    "once more": COUNT + "for j in range(n):\n    print(j)\nfor i in range(n):",
    "shown": COUNT + "for i in range(n):\n    print(f'{i}/{n}')",
    "last one": COUNT + "for i in range(n):\n    if i == n - 1:\n        print('last')",
    "loader": LOADER + "for i, batch in enumerate(loader):",
    "length of a loader": LOADER + "for i in range(len(loader)):",
    "while": COUNT + "i = 0\nwhile i < n:\n    i += 1",
}

NOT_TAKEN_ON = frozenset(("side by side", "backwards", "once more", "last one", "length of a loader"))
"""Loops whose settled length may be reckoned with: they end there."""

BOUNDS = (2, 3, 4, 5, 10, 30)


def reported(stored: tuple[str, str], loop: str, bound: int) -> list[tuple[str, bool]]:
    made, store = (part.replace("BOUND", str(bound)) for part in stored)
    text = PROGRAM.format(made=made, store=store, loop=loop)
    return [(finding.code, finding.certain) for finding in check(from_text(text, "window.py")).findings]


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("window", WINDOWS)
def test_a_window_is_no_leak_however_long_the_loop(window: str, loop: str) -> None:
    assert [bound for bound in BOUNDS if reported(WINDOWS[window], LOOPS[loop], bound)] == []


@pytest.mark.parametrize("loop", sorted(LOOPS.keys() - NOT_TAKEN_ON))
@pytest.mark.parametrize("window", CUT_BACK)
def test_what_is_cut_back_is_no_leak_however_long_the_loop(window: str, loop: str) -> None:
    assert [bound for bound in BOUNDS if reported(CUT_BACK[window], LOOPS[loop], bound)] == []


@pytest.mark.parametrize("loop", sorted(NOT_TAKEN_ON))
@pytest.mark.parametrize("window", CUT_BACK)
def test_what_is_cut_back_behind_the_end_of_a_loop_is_no_certain_leak(window: str, loop: str) -> None:
    assert not any(certain for bound in BOUNDS for _, certain in reported(CUT_BACK[window], LOOPS[loop], bound))


@pytest.mark.parametrize("loop", LOOPS)
def test_what_grows_by_keys_is_told(loop: str) -> None:
    assert [code for code, _ in reported(("kept = {}", "kept[i] = loss"), LOOPS[loop], 5)] == ["TAPE201"]


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("leak", LEAKS)
def test_what_grows_in_such_a_loop_is_told(leak: str, loop: str) -> None:
    assert reported(LEAKS[leak], LOOPS[loop], 5) == [("TAPE201", True)]


@pytest.mark.parametrize("window", WINDOWS)
def test_a_window_that_a_known_loop_never_fills_keeps_all(window: str) -> None:
    assert reported(WINDOWS[window], "for i in range(4):", 30) == [("TAPE201", True)]
