"""What a class holds and is not visible has the objects that read and set it: what it does to them nobody knows."""

from __future__ import annotations

import contextlib
import io
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

torch = pytest.importorskip("torch")

HELD = ("part = hidden.Lazy()", "part = hidden.lazy", "@hidden.Lazy\n    def part(self):\n        return 1.0")
ASKED = ("print(has.part)", "has.part = 2", "getattr(has, 'part')", "total = total + has.part")
CODE = """import torch, hidden

class Has{base}:
    {held}

    def __init__(self, net):
        super().__init__()
        self.net, self.rate = net, 1.0

net, total = torch.nn.Linear(2, 1), 0.0
opt = torch.optim.SGD(net.parameters(), lr=0.1)
has = Has(net)
for _ in range(3):
    net(torch.ones(2)).sum().backward()
    opt.step()
    {asked}
"""


def _held(clears: bool) -> type:
    class Lazy:
        def __init__(self, *given: Any) -> None:
            pass

        def __get__(self, owner: Any, of: type) -> float:
            if clears:
                owner.net.zero_grad()
            return 1.0

        def __set__(self, owner: Any, value: float) -> None:
            self.__get__(owner, type(owner))

    return Lazy


def _added(program: str, made: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> bool:
    """Return whether gradients are added up, as a program says that has this hidden part."""
    module = types.ModuleType("hidden")
    vars(module).update(Lazy=made, lazy=made())
    monkeypatch.setitem(sys.modules, "hidden", module)
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(program, names)
    return names["net"].bias.grad is not None and float(names["net"].bias.grad) > 1.0


@pytest.mark.parametrize("base", ["", "(torch.nn.Module)"])
@pytest.mark.parametrize("held", HELD)
@pytest.mark.parametrize("asked", ASKED)
def test_a_hidden_descriptor_may_clear_what_its_object_leads_to(
    base: str, held: str, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = CODE.format(base=base, held=held, asked=asked)
    assert _added(program, _held(clears=False), monkeypatch)
    assert not _added(program, _held(clears=True), monkeypatch)
    assert not [one for one in check(from_text(program, "train.py")).findings if one.certain]


def test_what_no_hidden_descriptor_is_asked_for_stays_certain() -> None:
    program = CODE.format(base="", held=HELD[0], asked="print(has.rate)")
    assert [(one.code, one.certain) for one in check(from_text(program, "train.py")).findings] == [("TAPE403", True)]


def test_a_method_that_is_called_is_read_as_it_is() -> None:
    program = CODE.format(base="", held=HELD[2], asked="print(has.part())")
    assert [one.code for one in check(from_text(program, "train.py")).findings] == ["TAPE403"]
