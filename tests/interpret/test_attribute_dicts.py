"""A dict whose entries are its attributes as well, as programs write one for settings and batches.

Programs are put together out of how the class is written, how an entry is stored and read, and what is done with a
graph that goes through it. torch says which of them raise and what `retain_graph` is needed for.
"""

from __future__ import annotations

import itertools
import random

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

torch = pytest.importorskip("torch")

CLASSES = {
    "or getattribute": """\
class Kept(dict):
    def __getattr__(self, key):
        return self[key] if key in self else self.__getattribute__(key)
    __setattr__ = dict.__setitem__
""",
    "item": """\
class Kept(dict):
    def __getattr__(self, key):
        return self[key]
    def __setattr__(self, key, value):
        self[key] = value
""",
    "methods of dict": """\
class Kept(dict):
    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__
    __delattr__ = dict.__delitem__
""",
    "get": """\
class Kept(dict):
    __getattr__, __setattr__ = dict.get, dict.__setitem__
""",
    "own dict": """\
class Kept(dict):
    def __init__(self, *given, **named):
        super().__init__(*given, **named)
        self.__dict__ = self
""",
    "key error": """\
class Kept(dict):
    def __getattr__(self, key):
        try:
            return self[key]
        except KeyError as error:
            raise AttributeError(key) from error
    def __setattr__(self, key, value):
        self[key] = value
""",
    "super": """\
class Kept(dict):
    def __getattr__(self, key):
        return super().__getitem__(key)
    def __setattr__(self, key, value):
        super().__setitem__(key, value)
""",
    "ordered": """\
class Kept(OrderedDict):
    def __getattr__(self, key):
        return self[key]
    def __setattr__(self, key, value):
        self[key] = value
""",
}
STORES = [
    "d = Kept(); d.y = made",
    "d = Kept(); d['y'] = made",
    "d = Kept(y=made)",
    "d = Kept({'y': made, 'z': 1})",
    "d = Kept(z=1); d.update(y=made)",
    "d = Kept(Kept(y=made))",
    "d = Kept({k: v for k, v in Kept(y=made).items()})",
    "d = Kept(); setattr(d, 'y', made)",
]
READS = ["d.y", "d['y']", "getattr(d, 'y')", "d.get('y')", "dict(d)['y']", "(lambda **k: k['y'])(**d)"]
USES = {
    "second": "read.sum().backward()\nmade.sum().backward()",
    "needed": "read.sum().backward(retain_graph=True)\nmade.sum().backward()",
    "once": "read.sum().backward()",
    "both": "(read.sum() + made.sum()).backward()",
    "copied": "e = Kept(d); e.x = e.y * 2\ne.x.sum().backward()\nmade.sum().backward()",
    "copied and needed": "e = Kept(d); e.x = e.y * 2\ne['x'].sum().backward(retain_graph=True)\nmade.sum().backward()",
}
HEAD = """\
from collections import OrderedDict
import torch
{}
net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Tanh())
"""
EVERY = [*itertools.product(CLASSES, STORES, READS, USES)]


def program(name: str, store: str, read: str, use: str) -> str:
    return HEAD.format(CLASSES[name]) + f"made = net(torch.ones(3, 2)) * 2\n{store}\nread = {read}\n{USES[use]}\n"


def raises(text: str) -> bool:
    try:
        exec(text, {})
    except RuntimeError as error:
        assert "second time" in str(error)
        return True
    return False


@pytest.mark.parametrize("seed", range(120))
def test_an_attribute_is_an_entry(seed: int) -> None:
    case = random.Random(f"attribute {seed}").choice(EVERY)
    text = program(*case)
    findings = [(one.code, one.certain) for one in check(from_text(text, "train.py")).findings]
    assert findings == ([("TAPE101", True)] if raises(text) else []), text
