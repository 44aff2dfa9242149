"""Loops that evaluate and call methods of the name of one that trains: what is called goes by what it is called on."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.source import read_source

torch = pytest.importorskip("torch")

AGENT = """\
class Agent:
    def __init__(self):
        self.policy = nn.Linear(4, 2)
        self.optim = torch.optim.SGD(self.policy.parameters(), lr=0.1)

    def act(self, state):
        return self.policy(state).argmax().item()

    def step(self, state):
        loss = self.policy(state).pow(2).mean()
        self.optim.zero_grad()
        loss.backward()
        self.optim.step()


class Actor(Agent):
    def act(self, state):
        return self.policy(state).argmax().item() + 1
"""
MADE = {
    "library": 'gym.make("CartPole-v1")',
    "own": "Agent()",
    "derived": "Actor()",
    "hidden": "hidden.make()",
    "loaded": 'torch.load("env.pt")',
}
BODIES = {
    "direct": "other.step(state)",
    "alias": "one = other\n        one.step(state)",
    "of a list": "for one in [other]:\n            one.step(state)",
    "method": "run = other.step\n        run(state)",
    "handed on": "call(other, state)",
    "only for some": "if action > 5:\n            other.step(state)",
}


def program(made: str, body: str) -> str:
    return f"""\
def call(one, state):
    one.step(state)


def evaluate(agent, other):
    for _ in range(4):
        state = torch.ones(4)
        action = agent.act(state)
        {BODIES[body]}


agent, other = Agent(), {MADE[made]}
evaluate(agent, other)
"""


def findings(folder: Path, made: str, body: str, *, apart: bool) -> list[str]:
    head = "import gymnasium as gym\nimport hidden\nimport torch\nfrom torch import nn\n\n\n"
    (folder / "pyproject.toml").write_text("")
    if apart:
        (folder / "agents.py").write_text(f"import torch\nfrom torch import nn\n\n\n{AGENT}")
        text = f"from agents import Actor, Agent\n{head}{program(made, body)}"
    else:
        text = f"{head}{AGENT}\n\n{program(made, body)}"
    (folder / "run.py").write_text(text)
    return [one.code for one in check(read_source(str(folder / "run.py"))).findings if one.code == "TAPE302"]


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("made, body", [*itertools.product(MADE, BODIES)])
def test_a_loop_that_may_train_is_not_told(made: str, body: str, apart: bool, tmp_path: Path) -> None:
    told = findings(tmp_path, made, body, apart=apart)
    # Code that is not visible, and what is made anew, has nothing of the agent.
    assert not told or made in ("library", "hidden", "loaded")


@pytest.mark.parametrize("apart", [False, True])
def test_an_environment_does_not_train(apart: bool, tmp_path: Path) -> None:
    assert findings(tmp_path, "library", "direct", apart=apart) == ["TAPE302"]
