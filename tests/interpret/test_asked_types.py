"""What a test for a type says of a value that hidden code gave: an array or a number has no graph to keep."""

from __future__ import annotations

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

PROGRAM = """
import numpy as np
import torch
from hidden import loss_function


def plain(x):
    if {test}:
        return {then}
    return {other}


net = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
history = []
for _ in range(10):
    optimizer.zero_grad()
    loss = loss_function(net(torch.ones(2, 3)))
    loss.backward()
    optimizer.step()
    history.append(plain(loss))
"""
ARRAYS = ("isinstance(x, np.ndarray)", "type(x) == np.ndarray", "type(x) is np.ndarray", "np.ndarray == type(x)")
NUMBERS = ("isinstance(x, float)", "type(x) == float", "type(x) is float", "isinstance(x, (int, float))")
TENSORS = ("not isinstance(x, torch.Tensor)", "type(x) != float and not isinstance(x, torch.Tensor)")


def codes(test: str, then: str, other: str) -> list[str]:
    text = PROGRAM.format(test=test, then=then, other=other)
    return [one.code for one in check(from_text(text, "program.py")).findings]


@pytest.mark.parametrize("test", [*ARRAYS, *NUMBERS, *TENSORS])
def test_what_is_found_to_have_no_graph_keeps_none(test: str) -> None:
    assert codes(test, "x", "x.data.numpy()") == []


@pytest.mark.parametrize("test", [*ARRAYS, *NUMBERS])
def test_what_is_found_to_be_something_else_keeps_its_graph(test: str) -> None:
    assert codes(test, "x", "x * 1") == ["TAPE201"]


@pytest.mark.parametrize("test", ["type(x) != np.ndarray", "type(x) is not float"])
def test_the_opposite_is_asked_as_well(test: str) -> None:
    assert codes(test, "x.data.numpy()", "x") == []
    assert codes(test, "x * 1", "x") == ["TAPE201"]
