"""TAPE203 on tapes written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tapecheck.check import check
from tapecheck.source import from_text
from tapecheck.tape import Leaf, LeafEscape

CODE = "TAPE203"


def fresh_input(build: Any, *, clear: bool = False, count: int = 3, call: str = "backward") -> Any:
    """A new input in each iteration, whose gradient is differentiable."""
    w = build.leaf(1, "w")
    with build.loop(2) as begin:
        for _ in range(count):
            begin()
            x = build.leaf(3, "x", parameter=False)
            loss = build.node(4, x, w, saves=[x, w], name="loss")
            build.cleared(5, w)
            if call == "backward":
                build.backward(6, loss, create="yes", retain=None)
            else:
                build.grad(6, loss, x, create="yes")
            if clear:
                build.cleared(7, x)
    return build


def test_a_new_input_keeps_its_gradient(build: Any, found: Any) -> None:
    (finding,) = found(fresh_input(build))
    assert (finding.code, finding.severity, finding.span.line, finding.certain) == (CODE, "warning", 6, True)
    assert finding.message == "`backward(create_graph=True)` leaks a reference cycle"
    assert finding.notes[0] == "`x`, made anew in each iteration, keeps a `.grad` that is never set to None"
    assert [label.span.line for label in finding.labels if label.role == "path"] == [2]
    assert "`x.grad = None`" in finding.help
    assert [label.span.line for label in finding.labels if label.role == "kept"] == [3]
    assert finding.facts.fresh is True


def test_a_cleared_input_is_fine(build: Any, found: Any) -> None:
    assert found(fresh_input(build, clear=True)) == []


def test_autograd_grad_leaves_no_gradient(build: Any, found: Any) -> None:
    assert found(fresh_input(build, call="grad")) == []


def test_once_is_no_leak(build: Any, found: Any) -> None:
    assert found(fresh_input(build, count=1)) == []


def test_outside_a_loop_it_is_no_leak(build: Any, found: Any) -> None:
    x = build.leaf(1, "x", parameter=False)
    build.backward(3, build.node(2, x, saves=[x]), create="yes")
    assert found(build) == []


def persistent(build: Any, clear: str | None, *, known: bool = True, detached: str = "no") -> Any:
    """One model for the whole loop; `clear` is how its gradient is cleared at the top of each iteration."""
    w = build.leaf(1, "w")
    if known:
        build.optimizer(1, w)
    with build.loop(2) as begin:
        for _ in range(3):
            begin()
            if clear is not None:
                build.cleared(3, w, clear, detached)
            build.backward(5, build.node(4, w, saves=[w], name="loss"), create="yes")
    return build


def test_a_model_whose_gradients_are_set_to_none(build: Any, found: Any) -> None:
    assert found(persistent(build, "yes")) == []


def test_a_model_whose_gradients_are_detached_and_zeroed(build: Any, found: Any) -> None:
    assert found(persistent(build, "no", detached="yes")) == []


def test_gradients_zeroed_in_place_keep_their_graph(build: Any, found: Any) -> None:
    (finding,) = found(persistent(build, "no"))
    assert finding.span.line == 5
    assert "is not set to None between iterations" in finding.notes[0]
    assert any("zeroed in place" in label.message and label.span.line == 3 for label in finding.labels)


def test_gradients_never_cleared(build: Any, found: Any) -> None:
    assert [finding.code for finding in found(persistent(build, None))] == [CODE]


def test_parameters_that_something_unseen_may_clear(build: Any, found: Any) -> None:
    persistent(build, None, known=False)
    weight = next(event.id for event in build.tape.events if isinstance(event, Leaf))
    build.tape.events.insert(1, LeafEscape(build.site(1), (weight,), "Trainer"))
    assert found(build) == []


def test_parameters_that_no_optimizer_has(build: Any, found: Any) -> None:
    assert [finding.code for finding in found(persistent(build, None, known=False))] == [CODE]


def test_a_gradient_that_does_not_lead_back(build: Any, found: Any) -> None:
    with build.loop(2) as begin:
        for _ in range(3):
            begin()
            x = build.leaf(3, "x", parameter=False)
            build.backward(5, build.node(4, x, saves=[0]), create="yes")
    assert found(build) == []


@pytest.mark.parametrize(
    ("activation", "leads_back"), [("Tanh()", True), ("ReLU()", True), ("Softmax(0)", True), ("Identity()", False)]
)
def test_a_result_that_was_saved_leads_back_as_an_operand_does(activation: str, leads_back: bool) -> None:
    text = f"""\
import torch
from torch import nn
w = torch.randn(8, 3)
for step in range(9):
    z = torch.randn(3).requires_grad_(True)
    nn.{activation}(w @ z).sum().backward(create_graph=True)
"""
    found = [(one.code, one.span.line) for one in check(from_text(text, "program.py")).findings]
    assert found == ([(CODE, 6)] if leads_back else [])
