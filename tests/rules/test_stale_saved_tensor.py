"""TAPE102 on tapes written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

CODE = "TAPE102"


def stepped_between(build: Any, saves_weight: bool = True, bumps: str = "yes") -> Any:
    w = build.leaf(1, "net.weight")
    optimizer = build.optimizer(2, w, name="Adam")
    output = build.node(3, w, saves=[0, w] if saves_weight else [0], name="output")
    first = build.node(4, output, op="MeanBackward0", name="first")
    second = build.node(5, output, op="SumBackward0", name="second")
    build.backward(6, first, retain="yes")
    build.step(7, optimizer)
    build.change(7, w, "step", optimizer=optimizer, bumps=bumps, name="net.weight")
    build.backward(8, second)
    return build


def test_a_step_between_two_backwards(build: Any, found: Any, remarks: Any) -> None:
    (finding,) = found(stepped_between(build))
    assert (finding.code, finding.severity, finding.span.line, finding.certain) == (CODE, "error", 8, True)
    assert finding.message == "`net.weight` was modified in place before `second.backward()`"
    assert remarks(finding, "changed") == {7: "modified in place here by `Adam.step()`"}
    assert "keeps the graph but not the values" in finding.help
    roles = {label.role: label.span.line for label in finding.labels}
    assert roles["built"] == 3
    assert roles["changed"] == 7
    assert finding.facts.optimizer == "Adam"


def test_a_weight_that_was_not_saved_may_change(build: Any, found: Any) -> None:
    assert found(stepped_between(build, saves_weight=False), code=CODE) == []


def test_changes_past_the_version_counter_raise_nothing(build: Any, found: Any) -> None:
    assert found(stepped_between(build, bumps="no"), code=CODE) == []


def test_a_change_that_is_not_certain_is_not_reported(build: Any, found: Any) -> None:
    assert found(stepped_between(build, bumps="may"), code=CODE) == []


def test_an_activation_changed_in_place(build: Any, found: Any, remarks: Any) -> None:
    w = build.leaf(1)
    hidden = build.node(2, w, saves=[0], name="hidden")
    out = build.node(3, hidden, saves=[hidden], name="out")
    build.change(4, hidden, "add_")
    build.backward(5, out)
    (finding,) = found(build)
    assert finding.message == "`hidden` was modified in place before `out.backward()`"
    assert remarks(finding, "changed") == {4: "modified in place here by `add_`"}
    assert "instead of changing `hidden` in place" in finding.help


def test_a_retained_state_goes_stale_in_the_next_iteration(build: Any, found: Any, remarks: Any) -> None:
    w = build.leaf(1, "cell.weight")
    optimizer = build.optimizer(1, w, name="Adam")
    state = w
    with build.loop(2) as begin:
        for _ in range(2):
            begin()
            state = build.node(3, w, state, saves=[0, w], name="h")
            build.backward(5, build.node(4, state, saves=[state], name="loss"), retain="yes")
            build.step(6, optimizer, w)
    (finding,) = found(build)
    assert (finding.code, finding.span.line) == (CODE, 5)
    assert "`h` still refers to the graph of iteration 1" in remarks(finding, "carried").values()
    assert remarks(finding, "changed")[6].endswith(" on the previous iteration")
    assert "`h = h.detach()`" in finding.help
    assert "remove it then" in finding.help
    assert finding.facts.kind == "carried"


OPERANDS = (
    "h", "h.detach()", "h.data", "h.view(3, 3)", "h.t()", "h.detach().clone()", "h * 1", "h[0:3]", "h.clone()[0]",
    "h.sum()", "x", "x.detach()", "h.detach() + 1", "h.squeeze()", "h.unbind()[0].clone()",
)  # fmt: skip
IN_PLACE = (
    "h.mul_({})", "h *= {}", "h.div_({})", "h.add_({})", "h.sub_({})", "h.addcmul_(x, {})", "h.copy_({})", "h.pow_({})",
    "h.lerp_({}, 0.5)", "h.data.mul_({})", "torch.mul(h, {}, out=x)", "h.atan2_({})",
    "h[0] *= ({})[1]", "h[:, 1] *= {}", "h[0].mul_(({})[0])",
)  # fmt: skip


CHANGED = """\
import torch
w = torch.rand(3, 3, requires_grad=True)
x = torch.rand(3, 3)
h = w.clone()
CHANGE
h.sum().backward()
"""


@pytest.mark.parametrize("change", IN_PLACE)
def test_what_is_changed_by_its_own_memory_has_been_saved_before(change: str) -> None:
    torch = pytest.importorskip("torch")
    for operand in OPERANDS:
        text = CHANGED.replace("CHANGE", change.replace("{}", operand))
        try:
            exec(text, {"torch": torch})
            raises = False
        except (RuntimeError, IndexError) as error:
            if "modified by an inplace operation" not in str(error):
                # Sizes, or memory that one op may not read and write.
                continue
            raises = True
        told = [one.certain for one in check(from_text(text, "train.py")).findings if one.code == "TAPE102"]
        assert told == [True] * raises, text
