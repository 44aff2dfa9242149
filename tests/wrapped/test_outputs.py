"""Backwards of a model with several outputs, in any order and shape: two processes tell what stays unaveraged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.source import from_text
from tests.wrapped.test_programs import MEANS

ROOT = Path(__file__).parents[2]
PROGRAM = """\
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk, self.a, self.b = nn.Linear(4, 8), nn.Linear(8, 3), nn.Linear(8, 2)

    def forward(self, x):
        h = self.trunk(x).relu()
        return {given}


model = DDP(Net(){option})
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(dist.get_rank())
out = model(torch.randn(6, 4))
{walks}
optimizer.step()
"""
GIVEN = {
    "a pair": ("self.a(h), self.b(h)", "out[0]", "out[1]"),
    "a dict": ('{"a": self.a(h), "b": self.b(h)}', 'out["a"]', 'out["b"]'),
    "with what both are made of": ("h, self.a(h), self.b(h)", "out[1]", "out[2]"),
    "two that share nothing": (
        "self.trunk(x), self.b(x.repeat(1, 2)) + self.a(x.repeat(1, 2)).mean()",
        "out[0]",
        "out[1]",
    ),
    "one tensor": ("torch.cat([self.a(h), self.b(h)], 1)", "out[:, :3]", "out[:, 3:]"),
}
FIRST, SECOND = "{a}.pow(2).mean().backward(retain_graph=True)\n", "{b}.pow(2).mean().backward(retain_graph=True)\n"
WALKS = {
    "one, then the other": FIRST + SECOND,
    "the other, then one": SECOND + FIRST,
    "one, then both": FIRST + "({a}.abs().mean() + {b}.abs().mean()).backward()\n",
    "both, then one": "({a}.abs().mean() + {b}.abs().mean()).backward(retain_graph=True)\n" + FIRST,
    "one twice": FIRST + FIRST,
    "both at once": "({a}.abs().mean() + {b}.abs().mean()).backward()\n",
    "one alone": FIRST,
    "one, cleared, then both": FIRST + "optimizer.zero_grad()\n({a}.abs().mean() + {b}.abs().mean()).backward()\n",
}
TOLD = ("TAPE601", "TAPE605")
OPTIONS = ("", ", find_unused_parameters=True")


def _programs() -> dict[tuple[str, str, str], str]:
    programs = {}
    for given, walk, option in product(GIVEN, WALKS, OPTIONS):
        if walk == "one alone" and given != "one tensor" and not option:
            # The wrapper waits for the other one: that shows at the next forward.
            continue
        made, a, b = GIVEN[given]
        walks = WALKS[walk].replace("{a}", a).replace("{b}", b).strip()
        text = PROGRAM.replace("{given}", made).replace("{walks}", walks).replace("{option}", option)
        programs[given, walk, option] = text
    return programs


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_what_no_process_averages_is_told_and_nothing_else() -> None:
    programs = _programs()
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tools.torchlab.wrappers", "--judge"],
        input=json.dumps([*programs.values()]), capture_output=True, text=True, check=True, cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    wrong = {}
    for (name, text), (what, _) in zip(programs.items(), json.loads(done.stdout), strict=True):
        found = [one.code for one in check(from_text(text, "program.py")).findings if one.code in TOLD]
        if found != [code for code in TOLD if what.startswith(MEANS[code])]:
            wrong[name] = what, found
    assert wrong == {}


APART = """\
model = DDP(Net(){option})
one, other = model(torch.randn(6, 4))
one.mean().backward(retain_graph=True)
other.mean().backward()
"""


@pytest.mark.parametrize("option", ["", ", find_unused_parameters=True", ", static_graph=True"])
def test_the_flag_is_needed_where_the_wrapper_joins_outputs(option: str) -> None:
    head = PROGRAM[: PROGRAM.index("model = DDP")].replace("{given}", GIVEN["two that share nothing"][0])
    text = head + APART.replace("{option}", option)
    found = [one.code for one in check(from_text(text, "program.py")).findings]
    assert ("TAPE301" in found) == (not option)
