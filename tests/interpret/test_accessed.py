"""Attributes by the methods that read and set them: what a program says as `self.x` it may say as a call, too."""

from __future__ import annotations

import itertools

import pytest

from tapecheck.check import check
from tapecheck.source import from_text
from tests.interpret.truth import torch_raises_at

SET = (
    "self.{name} = {value}", "setattr(self, '{name}', {value})", "self.__setattr__('{name}', {value})",
    "super().__setattr__('{name}', {value})", "nn.Module.__setattr__(self, '{name}', {value})",
    "self.add_module('{name}', {value})",
)  # fmt: skip
READ = (
    "self.{name}", "getattr(self, '{name}')", "self.__getattr__('{name}')", "super().__getattr__('{name}')",
    "nn.Module.__getattr__(self, '{name}')", "self.get_submodule('{name}')",
)  # fmt: skip
PROGRAM = """
import sys
import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.depth = depth
        {first}
        for number in range(depth):
            {block}

    def forward(self, x):
        x = {read_first}(x)
        for number in range(self.depth):
            x = {read_block}(x)
        return x


net = Net({depth})
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in torch.randn(4, 2, 3):
    loss = net(x).pow(2).mean()
    loss.backward()
    optimizer.step()
{last}
"""
RAISING = "loss.backward()"


def written(stored: str, read: str, *, depth: str, last: str = "") -> str:
    numbered = {"name": "block{number}", "value": "nn.Linear(3, 3)"}
    block = (SET[1] if stored == SET[0] else stored).format(**numbered).replace("'block", "f'block")
    reading = (READ[1] if read == READ[0] else read).format(**numbered).replace("'block", "f'block")
    return PROGRAM.format(
        first=stored.format(name="first", value="nn.Linear(3, 3)"), block=block, depth=depth, last=last,
        read_first=read.format(name="first"), read_block=reading,
    )  # fmt: skip


def told(text: str) -> list[tuple[str, int, bool]]:
    findings = check(from_text(text, "program.py")).findings
    return [(finding.code, finding.span.line, finding.certain) for finding in findings]


PAIRS = list(itertools.product(SET, READ))


@pytest.mark.parametrize(("stored", "read"), PAIRS)
@pytest.mark.parametrize("depth", ["2", "int(sys.argv[1])"])
def test_each_way_to_write_it_is_told_the_same(stored: str, read: str, depth: str) -> None:
    plain = written(SET[0], READ[0], depth=depth, last=RAISING)
    wanted = told(plain)
    assert [code for code, *_ in wanted] == ["TAPE403", "TAPE101"]
    assert told(written(stored, read, depth=depth, last=RAISING)) == wanted


def test_torch_raises_the_same_for_each_way() -> None:
    texts = {f"{stored} {read}": written(stored, read, depth="2", last=RAISING) for stored, read in PAIRS}
    lines = {text.rstrip().count("\n") + 1 for text in texts.values()}
    assert {line for line, _ in torch_raises_at(texts).values()} == lines


WRAPPER = """
import torch
from torch import nn


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.weight_of_it = 2.0

    def score(self, x):
        return self.fc(x).pow(2).mean() * self.weight_of_it


class Wrapper(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def __getattr__(self, name):
{body}


net = Wrapper(Inner())
loss = net.score(torch.randn(2, 3))
{last}
"""
BODIES = {
    "try": """
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.inner, name)
""",
    "try, by the class": """
        try:
            return nn.Module.__getattr__(self, name)
        except AttributeError:
            inner = super().__getattr__("inner")
            return getattr(inner, name)
""",
    "asked by the name": """
        if name == "inner":
            return super().__getattr__("inner")
        return getattr(self.inner, name)
""",
    "asked of the parts": """
        if name in self._modules:
            return self._modules[name]
        return getattr(super().__getattr__("inner"), name)
""",
}
MISTAKES = {
    "loss.backward()\nloss.backward()": "TAPE101",
    "net.fc.weight.mul_(2)": "TAPE104",
    "loss.backward()\nnet.inner.fc.weight.mul_(2)": "TAPE104",
}


@pytest.mark.parametrize("last", MISTAKES)
@pytest.mark.parametrize("body", BODIES)
def test_what_a_wrapper_hands_on_is_that_of_what_it_wraps(body: str, last: str) -> None:
    text = WRAPPER.format(body=BODIES[body].strip("\n"), last=last)
    assert [code for code, *_ in told(text)] == [MISTAKES[last]]


def test_torch_raises_in_each_wrapper() -> None:
    texts = {f"{body} {last}": WRAPPER.format(body=BODIES[body].strip("\n"), last=last)
             for body in BODIES for last in MISTAKES}  # fmt: skip
    assert all(line == texts[name].rstrip().count("\n") + 1 for name, (line, _) in torch_raises_at(texts).items())


def test_what_no_module_has_is_no_reason_to_say_anything() -> None:
    text = WRAPPER.format(body=BODIES["try"].strip("\n"), last="print(hasattr(net, 'nothing'))\nloss.backward()")
    assert told(text) == []
