"""What `copy.copy` makes has the very tensors of what it copies; `copy.deepcopy` has copies of them.

Each program is run under torch, which says whether it ends.
"""

from __future__ import annotations

import itertools

import pytest

from tapecheck.check import check
from tapecheck.rules import Finding
from tapecheck.source import from_text

pytest.importorskip("torch")

HOLDERS = {
    "list": ("[w]", "{}[0]"), "tuple": ("(w,)", "{}[0]"), "dict": ("{'w': w}", "{}['w']"), "object": ("Box(w)", "{}.w"),
    "record": ("Pair(w, 1)", "{}.w"), "data class": ("Data(w)", "{}.w"), "module": ("Layer(w)", "{}.w"),
    "nested": ("[[w]]", "{}[0][0]"), "own list": ("Own([w])", "{}[0]"), "layers": ("nn.ParameterList([w])", "{}[0]"),
}  # fmt: skip
KINDS = """\
import collections
import copy
import dataclasses
import torch
from torch import nn


class Box:
    def __init__(self, w):
        self.w = w


class Layer(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.w = w


@dataclasses.dataclass
class Data:
    w: torch.Tensor


class Own(list):
    pass


Pair = collections.namedtuple("Pair", "w n")
w = nn.Parameter(torch.ones(3))
"""


def _found(text: str) -> list[Finding]:
    return check(from_text(text, "program.py")).findings


def _gradient(text: str) -> object:
    names: dict[str, object] = {}
    exec(compile(text, "program.py", "exec"), names)
    return names["w"].grad  # type: ignore[attr-defined]


@pytest.mark.parametrize(("holder", "copier"), [*itertools.product(HOLDERS, ("copy", "deepcopy"))])
def test_what_a_copy_trains(holder: str, copier: str) -> None:
    made, taken = HOLDERS[holder]
    text = (
        f"{KINDS}first = {made}\nsecond = copy.{copier}(first)\n"
        f"optimizer = torch.optim.SGD([{taken.format('second')}], lr=0.1)\n"
        f"for _ in range(2):\n    loss = ({taken.format('first')} * 2).sum()\n    optimizer.zero_grad()\n"
        f"    loss.backward()\n    optimizer.step()\nprint(w.grad)\n"
    )
    assert (_gradient(text).sum() == 6) == (copier == "copy")  # type: ignore[attr-defined]
    assert ("TAPE402" in {one.code for one in _found(text)}) == (copier == "deepcopy")


@pytest.mark.parametrize("holder", sorted({*HOLDERS} - {"module", "layers"}))
def test_a_graph_in_a_copy_is_the_same(holder: str) -> None:
    made, taken = HOLDERS[holder]
    text = (
        f"{KINDS}w = (w * 2).sum()\nfirst = {made}\nsecond = copy.copy(first)\n"
        f"{taken.format('second')}.backward()\n{taken.format('first')}.backward()\n"
    )
    with pytest.raises(RuntimeError, match="second time"):
        _gradient(text)
    assert [(one.code, one.certain) for one in _found(text) if one.severity == "error"] == [("TAPE101", True)]
