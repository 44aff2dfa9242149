"""What was once judged wrongly in public code: the findings of minimal programs, and torch's verdict on them."""

from __future__ import annotations

import re

import pytest

from tapecheck.check import check
from tapecheck.source import from_text
from tests.ecosystem import (
    differentiated,
    followers,
    handed_in,
    initialized,
    keys,
    layers,
    left_out,
    named,
    now_and_then,
    objects,
    programs,
    reach,
    renamed,
    suspended,
    unseen,
    unsure,
)
from tests.interpret.truth import PRELUDE, torch_raises_at

PROGRAMS = {
    **programs.PROGRAMS, **handed_in.UNKNOWN_GRAPHS, **handed_in.UNKNOWN_CODE, **objects.GROWN, **objects.COUNTED,
    **objects.GLOBALS, **keys.KEYS, **reach.REACH, **followers.FOLLOWERS, **suspended.SUSPENDED, **unseen.UNSEEN,
    **layers.GROWN, **layers.KEYS, **left_out.CORES, **left_out.LOST,
    **named.NAMED, **named.POSSIBLE, **now_and_then.WINDOWS, **now_and_then.GUARDED, **initialized.INITIALIZED,
    **differentiated.DIFFERENTIATED, **renamed.RENAMED,
    **unsure.CALLS, **unsure.INPUTS, **unsure.LOSSES, **unsure.PER_NODE, **unsure.WRITTEN,
}  # fmt: skip
STAND_INS = """\
import sys, types
writers = sys.modules["writers"] = types.ModuleType("writers")
writers.Writer = type("Writer", (), {"__init__": lambda self, name: None, "add_scalar": lambda self, *a, **k: None})
curves = sys.modules["tensorboardX"] = types.ModuleType("tensorboardX")
curves.SummaryWriter = writers.Writer
helpers = sys.modules["helpers"] = types.ModuleType("helpers")
helpers.apply_gradients = lambda loss, optimizer: loss.backward()
helpers.integrate = lambda field, states, times: tuple(torch.stack([s, s + field(states[0]).mean()]) for s in states)

class Rounds:
    def __init__(self, holder, every):
        self.holder, self.every, self.count = holder, every, 0

    def advance(self):
        self.count += 1
        if self.count % self.every == 0 or self.count == 10:
            self.holder.zero_grad()

class Env:
    def __init__(self, name):
        self.steps = 0

    def reset(self):
        return torch.zeros(4), {}

    def step(self, action):
        self.steps += 1
        return torch.zeros(4), 1.0, self.steps % 5 == 0, False

gym = sys.modules["gym"] = types.ModuleType("gym")
gym.make = Env

class Bar(list):
    def set_postfix(self, **shown):
        pass

bars = sys.modules["tqdm"] = types.ModuleType("tqdm")
bars.tqdm = Bar

class BaseModule(nn.Module):
    def __setattr__(self, name, value):
        super().__setattr__(name, nn.ModuleList(value) if isinstance(value, list) else value)

helpers.BaseModule = BaseModule
helpers.accumulate_scheduler = helpers.count_rounds = Rounds
"""


def marked(text: str, mark: str) -> list[tuple[str, int]]:
    """The lines whose last comment says so, with the mark found."""
    lines = enumerate(text.splitlines(), 1)
    return [(found, number) for number, line in lines for found in re.findall(rf"(?<=[# ]){mark}\b", line)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_findings(name: str) -> None:
    text = PRELUDE + PROGRAMS[name].text
    findings = check(from_text(text, "program.py")).findings
    assert [(one.code, one.span.line) for one in findings] == marked(text, r"TAPE\d+"), [f.message for f in findings]


@pytest.mark.parametrize("name", named.POSSIBLE)
def test_no_certainty(name: str) -> None:
    findings = check(from_text(PRELUDE + PROGRAMS[name].text, "program.py")).findings
    assert findings and not any(one.certain for one in findings)


@pytest.mark.parametrize("name", now_and_then.LEVELS)
def test_levels(name: str) -> None:
    level, text = now_and_then.LEVELS[name]
    findings = check(from_text(PRELUDE + text, "program.py")).findings
    said = [(one.severity, one.code, one.span.line) for one in findings if one.code == "TAPE201"]
    assert said == [(level, *found) for found in marked(PRELUDE + text, r"TAPE\d+")], [one.message for one in findings]


@pytest.fixture(scope="module")
def truth() -> dict[str, tuple[int | None, str]]:
    pytest.importorskip("torch")
    programs = {name: PRELUDE + STAND_INS + program.text + program.run for name, program in PROGRAMS.items()}
    return torch_raises_at(programs)


@pytest.mark.parametrize("name", PROGRAMS)
def test_torch_raises_where_the_program_says(name: str, truth: dict[str, tuple[int | None, str]]) -> None:
    program = PROGRAMS[name]
    wanted = [number for _, number in marked(PRELUDE + STAND_INS + program.text + program.run, "raises")]
    line, message = truth[name]
    assert line == next(iter(wanted), None), message


WORDS = {
    "an assignment to a part is said in words": (
        "TAPE102",
        """\
w = torch.randn(3, requires_grad=True)
e = (w * 2).exp()
e[0] = 1.0
e.sum().backward()
""",
        "by an assignment to a part of it",
    ),
    "clearing now and then is not counted in the first iterations": (
        "TAPE404",
        """\
model = nn.Sequential(nn.Linear(7, 14), nn.GELU(), nn.Linear(14, 1))
opt = torch.optim.AdamW(model.parameters())
for step in range(40):
    opt.zero_grad()
    loss = model(torch.randn(8, 7)).square().mean() / 4
    loss.backward()
    if (step + 1) % 4 == 0:
        opt.step()
""",
        "clears them more often than a step uses them",
    ),
    "all parameters that a draw cuts off are told": (
        "TAPE402",
        """\
mu, sd, dec = nn.Linear(4, 3), nn.Linear(4, 3), nn.Linear(3, 4)
opt = torch.optim.Adam([*mu.parameters(), *sd.parameters(), *dec.parameters()])
for step in range(3):
    z = torch.distributions.Normal(mu(torch.randn(5, 4)), sd(torch.randn(5, 4)).exp()).sample()
    opt.zero_grad()
    dec(z).pow(2).mean().backward()
    opt.step()
""",
        "without a gradient: `mu.weight`, `mu.bias`, `sd.weight` and `sd.bias`",
    ),
}


@pytest.mark.parametrize("name", WORDS)
def test_words(name: str) -> None:
    code, text, words = WORDS[name]
    (finding,) = check(from_text(PRELUDE + text, "program.py")).findings
    said = [*finding.notes, *(label.message for label in finding.labels)]
    assert finding.code == code and any(words in one for one in said), said
