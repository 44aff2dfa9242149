"""Test cases of unittest: what is set up before each test is there in it, as torch and unittest have it."""

from __future__ import annotations

import io
import unittest
from typing import Any

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

pytest.importorskip("torch")

HEAD = """\
import unittest
import torch
from torch import nn

"""
MAKE = "self.net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))"
OPTIMIZER = "self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)"
SET_UP = {
    "setUp": f"class Test(unittest.TestCase):\n    def setUp(self):\n        {MAKE}\n        {OPTIMIZER}\n",
    "setUpClass": "class Test(unittest.TestCase):\n    @classmethod\n    def setUpClass(cls):\n"
    + f"        {MAKE}\n        {OPTIMIZER}\n".replace("self", "cls"),
    "both": "class Test(unittest.TestCase):\n    @classmethod\n    def setUpClass(cls):\n"
    + f"        {MAKE}\n".replace("self", "cls")
    + f"    def setUp(self):\n        {OPTIMIZER}\n",
    "a base": f"class Base(unittest.TestCase):\n    def setUp(self):\n        {MAKE}\n        {OPTIMIZER}\n\n"
    "class Test(Base):\n    pass\n",
    "a base and more": f"class Base(unittest.TestCase):\n    def setUp(self):\n        {MAKE}\n\n"
    f"class Test(Base):\n    def setUp(self):\n        super().setUp()\n        {OPTIMIZER}\n",
    "by another method": f"class Test(unittest.TestCase):\n    def setUp(self):\n        self.make()\n"
    f"    def make(self):\n        {MAKE}\n        {OPTIMIZER}\n",
}
TESTS = {
    "a step between": "first = self.net(x).mean()\n        self.net(x).pow(2).mean().backward()\n"
    "        self.optimizer.step()\n        first.backward()\n",
    "a second backward": "loss = self.net(x).pow(2).mean()\n        loss.backward()\n        loss.backward()\n",
    "a step behind": "first = self.net(x).mean()\n        first.backward()\n        self.optimizer.step()\n",
    "with no_grad": "with torch.no_grad():\n            first = self.net(x).mean()\n        first.backward()\n",
}


def fails(text: str) -> bool:
    names: dict[str, Any] = {"__name__": "cases"}
    exec(compile(text, "cases.py", "exec"), names)
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(names["Test"])
    return bool(unittest.TextTestRunner(io.StringIO()).run(suite).errors)


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("set_up", SET_UP)
def test_what_is_set_up_is_known_in_each_test(set_up: str, test: str) -> None:
    text = f"{HEAD}{SET_UP[set_up]}\n    def test_it(self):\n        x = torch.randn(4, 3)\n        {TESTS[test]}"
    found = [one for one in check(from_text(text, "cases.py")).findings if one.severity == "error"]
    assert bool(found) == fails(text), text
    assert all(one.certain for one in found)
