"""TAPE403 beside a `step` of hidden code, which may be an environment's or an optimizer's: what it can come to."""

from __future__ import annotations

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

HEAD = "import torch\nimport lib\nfrom lib import Env, make, world\n\n"
OWN = "net = torch.nn.Linear(4, 2)\noptimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
ENVIRONMENTS = ("env = make()", "env = Env()", "env = Env('Pong', seed=3)", "env = world", "env = lib.world.env")
LOOP = """\
for episode in range(9):
    kept = []
    for number in range(5):
        action = net(torch.randn(4)).softmax(0)
        STEP
        kept.append(action.log().max())
    loss = -torch.stack(kept).sum()
    loss.backward()
    optimizer.step()
"""
STEPS = ("env.step(action.argmax().item())", "seen, reward, over, _ = env.step(action.argmax())", "env.step()")


def told(text: str) -> list[tuple[str, bool]]:
    return [(finding.code, finding.certain) for finding in check(from_text(text, "train.py")).findings]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("env", ENVIRONMENTS)
def test_an_environment_that_was_given_nothing_clears_nothing(env: str, step: str) -> None:
    for text in (f"{env}\n{OWN}", f"{OWN}{env}\n"):
        assert [code for code, _ in told(HEAD + text + LOOP.replace("STEP", step))] == ["TAPE403"]
        cleared = LOOP.replace("    loss.backward()", "    optimizer.zero_grad()\n    loss.backward()")
        assert told(HEAD + text + cleared.replace("STEP", step)) == []


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(
    "reach",
    ["env = make(net)", "env = Env(optimizer)", "env = make()\nenv.net = net", "lib.register(net)\nenv = make()",
     "env = make(lambda: optimizer)", "env = make()\nenv.use(optimizer)"],
)  # fmt: skip
def test_what_hidden_code_was_given_it_may_clear(reach: str, step: str) -> None:
    assert told(f"{HEAD}{OWN}{reach}\n" + LOOP.replace("STEP", step)) == []


@pytest.mark.parametrize("env", ENVIRONMENTS)
@pytest.mark.parametrize("given", ["action", "net", "optimizer", "[action]"])
def test_what_leads_to_parameters_may_be_cleared_by_them(env: str, given: str) -> None:
    text = LOOP.replace("STEP", f"env.step({given})")
    assert not any(certain for _, certain in told(f"{HEAD}{env}\n{OWN}{text}"))


@pytest.mark.parametrize("env", ENVIRONMENTS)
def test_hidden_code_comes_to_models_of_its_own(env: str) -> None:
    own = "net = lib.net\noptimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
    assert told(f"{HEAD}{env}\n{own}{LOOP.replace('STEP', STEPS[0])}") == []
