"""What a `while` goes on by, asked within it: the loop goes round further, and is seen to end."""

from __future__ import annotations

import itertools

import pytest

from tapecheck.check import check
from tapecheck.source import from_text
from tests.interpret.truth import nodes_counted, torch_raises_at

LOOPS = {"done": "not done", "done, or stopped": "not (done or stopped)", "is False": "done is False", "on": "on"}
ASKS = {
    "nothing": "pass",
    "a message": "if {flag}:\n            print('over')",
    "a message while it goes on": "if not {flag}:\n            print('on')",
    "a mask": "mask = 0.0 if {flag} else 1.0",
    "a value of an or": "reward = {flag} or reward > 3",
    "a value of an and": "reward = {flag} and reward > 3",
    "a reward": "if {flag} or reward > 90:\n            reward = -10",
    "a way out": "if {flag}:\n            break",
}
LEARNS = {
    "in each step": ("learn(net(state).pow(2).mean())", "pass"),
    "at the end of an episode": (
        "losses.append(net(state).pow(2).mean())",
        "if {flag}:\n            learn(sum(losses))",
    ),
    "behind the loop": ("losses.append(net(state).pow(2).mean())", ""),
}
PROGRAM = """\
import torch
from torch import nn
import gym

world = gym.make("world")
net = nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


def learn(loss):
    {clear}
    loss.backward()
    optimizer.step()


def evaluate():
    state, done = world.reset(), False
    stopped, on = False, True
    while {loop}:  # evaluated
        out = net(state)
        pass  # count
        action = out.argmax().item()
        state, reward, done, on = world.step(action)
        {asks}


for episode in range(3):
    losses = []
    state, done = world.reset(), False
    stopped, on = False, True
    while {loop}:
        {step}
        state, reward, done, on = world.step(net(state).argmax().item())
        {asks}
        {last}
    {behind}
    evaluate()
"""
WORLD = """\
import sys, types

class World:
    def reset(self):
        self.steps = 0
        return torch.ones(4)
    def step(self, action):
        self.steps += 1
        return torch.ones(4), 1.0, self.steps > 2, self.steps <= 2

import torch
sys.modules["gym"] = types.SimpleNamespace(make=lambda name: World())
"""


def program(loop: str, asks: str, learns: str, *, clear: str = "optimizer.zero_grad()") -> str:
    flag = "(not on)" if loop == "on" else "done"
    step, last = LEARNS[learns]
    text = PROGRAM.format(
        loop=LOOPS[loop], asks=ASKS[asks].format(flag=flag), step=step, last=last.format(flag=flag) or "pass",
        behind="" if last else "learn(sum(losses))", clear=clear,
    )  # fmt: skip
    return text.replace("(not on):", "not on:").replace("not (not on)", "on")


def found(text: str, code: str) -> list[int]:
    return [one.span.line for one in check(from_text(text, "train.py")).findings if one.code == code]


def line_of(text: str, part: str) -> int:
    return next(number for number, one in enumerate(text.splitlines(), 1) if part in one)


MANY = [
    (loop, asks, learns)
    for loop, asks, learns in itertools.product(LOOPS, ASKS, LEARNS)
    # Where the loop is left before, nothing is learned at all.
    if (asks, learns) != ("a way out", "at the end of an episode")
]


@pytest.mark.parametrize(("loop", "asks", "learns"), MANY[::2])
def test_an_evaluation_is_told_whatever_asks_for_the_end(loop: str, asks: str, learns: str) -> None:
    text = program(loop, asks, learns)
    assert found(text, "TAPE302") == [line_of(text, "# evaluated")]
    assert found(text, "TAPE403") == found(text, "TAPE101") == found(text, "TAPE201") == []


@pytest.mark.parametrize(("loop", "asks", "learns"), MANY[1::4])
def test_gradients_that_nobody_clears_are_told(loop: str, asks: str, learns: str) -> None:
    text = program(loop, asks, learns, clear="pass")
    assert found(text, "TAPE403") == [line_of(text, "loss.backward()")]


def test_torch_records_what_is_told_and_raises_nowhere() -> None:
    programs = {str(key): WORLD + program(*key) for key in MANY[::5]}
    counted = nodes_counted(programs)
    assert all(all(counts) and counts for counts in counted.values())
    assert {line for line, _ in torch_raises_at(programs).values()} == {None}


BEGUN = """\
import gym
import torch

world, w = gym.make("world"), torch.ones(2, requires_grad=True)
loss = (w * w).sum()
done = world.step(0)
while not done:
    {asked}
        loss.backward()
    loss = (w * w).sum()
    {more}
loss.backward()
"""


@pytest.mark.parametrize("more", ["done = world.step(0)", "done = world.step(0)\n    if done:\n        print(1)"])
@pytest.mark.parametrize("asked", ["if done:", "if done or done:", "if not (not done):"])
def test_a_flag_has_not_ended_the_loop_as_an_iteration_begins(asked: str, more: str) -> None:
    text = BEGUN.format(asked=asked, more=more).replace(
        "        loss.backward()", "        loss.backward()\n        loss.backward()"
    )
    report = check(from_text(text, "train.py"))
    assert [one for one in report.findings if one.certain] == []
