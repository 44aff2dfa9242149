"""Code behind the exception, which only the repaired program comes to, may need the graph that a fix cuts.

Each program raises in its second iteration. With the detach that is offered, the hidden code that comes after the loop
is given the value without its graph and raises: such a fix is not safe. Where it is given something else, it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.fixes import fixes_for
from tapecheck.source import from_text
from tests.cases import under_torch
from tests.partial.judge import _edited

HIDDEN = """\
import torch


def learn(given):
    for one in given.values() if isinstance(given, dict) else vars(given).values() if hasattr(given, "h") else (given,):
        one.sum().backward()


class Learner:
    def __init__(self, given):
        learn(given)
"""

PROGRAM = """\
import torch
from torch import nn
import hid

class State:
    pass

net = nn.RNNCell(3, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
{before}
for _ in range(3):
    {h} = net(torch.randn(2, 3), {h})
    loss = {h}.pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
{after}
print("finished")
"""

_ZEROS = "torch.zeros(2, 4)"
_OBJECT = f"state = State()\nstate.h = {_ZEROS}"
NEEDING = {
    "a value": (f"h = {_ZEROS}", "h", "hid.learn(h)"),
    "what is computed of it": (f"h = {_ZEROS}", "h", "hid.learn(h * 2 + 1)"),
    "another name of it": (f"h = {_ZEROS}", "h", "last = h\nhid.learn(last)"),
    "an object": (_OBJECT, "state.h", "hid.learn(state)"),
    "a dict of it": (f"h = {_ZEROS}", "h", "hid.learn({'h': h})"),
    "a dict": (f"state = {{'h': {_ZEROS}}}", "state['h']", "hid.learn(state)"),
    "a constructor": (f"h = {_ZEROS}", "h", "hid.Learner(h)"),
    "a visible function on the way": (f"h = {_ZEROS}", "h", "def end(x):\n    hid.learn(x)\nend(h)"),
}
OTHERS = {
    "nothing": (f"h = {_ZEROS}", "h", ""),
    "the printer": (f"h = {_ZEROS}", "h", "print(h)"),
    "hidden code with a number": (f"h = {_ZEROS}", "h", "hid.learn({})"),
    "hidden code with a new graph": (f"h = {_ZEROS}", "h", "hid.learn(net(torch.randn(2, 3)))"),
}

RETURNING = """\
import torch
from torch import nn

net = nn.RNNCell(3, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


def train(batches):
    h = torch.zeros(2, 4)
    for x in batches:
        h = net(x, h)
        loss = h.pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    {end}
"""
"""A function that nobody is seen to call."""


@pytest.mark.parametrize(
    ("end", "sure"),
    [
        ("return h", "unsafe"),
        ("return {'h': h}", "unsafe"),
        ("return h.mean()", "unsafe"),
        ("return h.shape", "safe"),
        ("return h.mean().item()", "safe"),
        ("return net(torch.zeros(2, 3), h)", "safe"),
        ("return None", "safe"),
    ],
)
def test_whoever_calls_a_function_may_need_what_it_returns(end: str, sure: str) -> None:
    report = check(from_text(RETURNING.format(end=end), "program.py"))
    (finding,) = (one for one in report.findings if one.code == "TAPE101")
    assert fixes_for(report, finding)[0].applicability == sure


def _fixes(parts: tuple[str, str, str]) -> list[tuple[str, str]]:
    """Return how sure each fix of the only exception is, and the text that it makes."""
    before, h, after = parts
    text = PROGRAM.format(before=before, h=h, after=after)
    report = check(from_text(text, "program.py"))
    (finding,) = (one for one in report.findings if one.code == "TAPE101")
    assert finding.certain
    return [(fix.applicability, _edited(text, fix.edits)) for fix in fixes_for(report, finding)]


def _ends(folder: Path, texts: Iterable[str]) -> list[str | None]:
    """Run programs beside the hidden module; return the exception that each ends with."""
    (folder / "hid.py").write_text(HIDDEN)
    requests = []
    for number, text in enumerate(texts):
        (folder / f"program{number}.py").write_text(text)
        requests.append({"path": folder / f"program{number}.py", "folders": [str(folder)], "seconds": 60})
    return [outcome["exception"] for outcome in under_torch.run_all(requests)]


def test_what_hidden_code_may_need_is_not_safely_detached(tmp_path: Path) -> None:
    found = {name: _fixes(parts) for name, parts in NEEDING.items()}

    assert all(found.values())
    assert [name for name, fixes in found.items() if any(sure == "safe" for sure, _ in fixes)] == []
    assert set(_ends(tmp_path, (fixes[0][1] for fixes in found.values()))) == {"RuntimeError"}


def test_what_it_is_not_given_is_detached_safely(tmp_path: Path) -> None:
    found = {name: [text for sure, text in _fixes(parts) if sure == "safe"] for name, parts in OTHERS.items()}

    assert [name for name, texts in found.items() if not texts] == []
    assert set(_ends(tmp_path, (texts[0] for texts in found.values()))) == {None}
