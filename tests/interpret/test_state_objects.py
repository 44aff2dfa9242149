"""A graph that an object carries, made anew in each iteration, has the name by which the program reads it."""

from __future__ import annotations

import pytest

from tapecheck.check import check
from tapecheck.source import from_text
from tests.interpret.truth import full

PROGRAM = """
import types
from dataclasses import dataclass, replace
from typing import NamedTuple


@dataclass
class State:
    h: torch.Tensor
    steps: int = 0


@dataclass(frozen=True)
class Frozen:
    h: torch.Tensor


class Named(NamedTuple):
    h: torch.Tensor
    steps: int = 0


class Plain:
    def __init__(self, h):
        self.h = h


class Holder:
    pass


cell = nn.GRUCell(3, 5)
holder = Holder()
{first}
for _ in range(3):
    {step}
    {read}.h.pow(2).mean().backward()
"""
MADE = {
    "a dataclass": ("State(torch.zeros(2, 5))", "State({new}, {st}.steps + 1)"),
    "replaced": ("State(torch.zeros(2, 5))", "replace({st}, h={new})"),
    "frozen": ("Frozen(torch.zeros(2, 5))", "Frozen({new})"),
    "a named tuple": ("Named(torch.zeros(2, 5))", "{st}._replace(h={new})"),
    "a class": ("Plain(torch.zeros(2, 5))", "Plain({new})"),
    "a namespace": ("types.SimpleNamespace(h=torch.zeros(2, 5))", "types.SimpleNamespace(h={new})"),
}


@pytest.mark.parametrize("st", ["st", "holder.st"])
@pytest.mark.parametrize(("first", "step"), MADE.values(), ids=MADE)
def test_what_an_object_carries_has_its_name(first: str, step: str, st: str) -> None:
    made = step.format(st=st, new=f"cell(torch.randn(2, 3), {st}.h)")
    program = full(PROGRAM.format(first=f"{st} = {first}", step=f"{st} = {made}", read=st))
    [finding] = check(from_text(program, "program.py")).findings
    assert (finding.code, finding.certain) == ("TAPE101", True)
    assert finding.message == f"second backward through the graph of `{st}.h`"


def test_a_graph_behind_other_attributes_has_its_name() -> None:
    program = """
import types

cell = nn.GRUCell(3, 5)
st = types.SimpleNamespace(a=1, b=2, c="c", d=None, e=[], h=torch.zeros(2, 5))
for _ in range(3):
    st = types.SimpleNamespace(a=1, b=2, c="c", d=None, e=[], h=cell(torch.randn(2, 3), st.h))
    st.h.pow(2).mean().backward()
"""
    [finding] = check(from_text(full(program), "program.py")).findings
    assert finding.message == "second backward through the graph of `st.h`"


def test_a_variable_keeps_its_name_within_an_object() -> None:
    program = """
import types

w = torch.randn(3, requires_grad=True) * 2
settings = types.SimpleNamespace(weight=w)
(w * 3).sum().backward()
print(w.grad + 1)
"""
    [finding] = check(from_text(full(program), "program.py")).findings
    assert finding.message == "`w.grad` is None: `w` is not a leaf"


@pytest.mark.parametrize("made", ["Output(net(x))", "Output(h=net(x))", "types.SimpleNamespace(h=net(x))"])
def test_an_object_that_a_loop_makes_and_drops_keeps_no_graph(made: str) -> None:
    program = f"""
import types
from dataclasses import dataclass


@dataclass
class Output:
    h: torch.Tensor


net = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3))
net.eval()
right = 0
for x in torch.randn(6, 4, 3):
    out = {made}
    right += (out.h.argmax(1) == 0).sum().item()
"""
    found = [one.code for one in check(from_text(full(program), "program.py")).findings]
    assert found == ["TAPE302"]
