"""TAPE103 on tapes written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tapecheck.check import check
from tapecheck.source import from_text
from tapecheck.tape import Backward, Root

CODE = "TAPE103"


def test_a_detached_loss(build: Any, found: Any) -> None:
    w = build.leaf(1)
    output = build.node(2, w, saves=[0], name="output")
    cut = build.cut(3, "detach", output, name="output")
    build.backward(4, Root(None, "no", "loss", (cut,)))
    (finding,) = found(build)
    assert (finding.code, finding.severity, finding.span.line, finding.certain) == (CODE, "error", 4, True)
    assert finding.message == "`loss` has no graph: nothing to differentiate"
    assert finding.notes == ()
    assert [(label.role, label.span.line) for label in finding.labels] == [("cut", 3)]
    assert "`.detach()`" in finding.help
    assert finding.facts.cuts[0] == "detach"


def test_the_first_of_several_cuts_is_the_place_of_the_story(build: Any, found: Any) -> None:
    w = build.leaf(1)
    first = build.cut(2, "item", build.node(2, w, saves=[0]))
    second = build.cut(3, "copy", sources=[first])
    build.backward(4, Root(None, "no", "total", (second,)))
    (finding,) = found(build)
    assert finding.message == "`total` has no graph: nothing to differentiate"
    assert [label.span.line for label in finding.labels if label.role == "cut"] == [2, 3]


def test_nothing_requires_grad(build: Any, found: Any) -> None:
    build.backward(4, Root(None, "no", "loss"))
    (finding,) = found(build)
    assert finding.notes == ("no recorded operation computed `loss` from a tensor that requires grad",)
    assert "requires_grad=True" in finding.help


def test_a_root_that_may_have_a_graph_is_not_reported(build: Any, found: Any) -> None:
    build.backward(4, Root(None, "may", "loss"))
    assert found(build) == []


def test_a_gradient_without_graph_is_the_other_rule(build: Any, found: Any) -> None:
    x = build.leaf(1, "x")
    y = build.node(2, x, saves=[x])
    build.grad(3, y, x)
    cut = build.cut(3, "grad", y)
    build.grad(4, Root(None, "no", "first", (cut,)), x)
    (finding,) = found(build)
    assert (finding.code, finding.severity, finding.span.line) == ("TAPE401", "error", 4)


def test_a_way_on_which_there_is_a_graph_makes_it_may(build: Any, another: Any, found: Any) -> None:
    build.decide(2, "self.training", False)
    build.backward(4, Root(None, "no", "loss", (build.cut(2, "frozen", leaves=[build.leaf(1)]),)))
    other = another()
    other.decide(2, "self.training", True)
    other.backward(4, other.node(3, other.leaf(1), saves=[0]))
    (finding,) = found(build, other)
    assert finding.certain is False
    assert finding.message == "possible missing graph of `loss`: nothing to differentiate"
    assert any("`self.training` is false" in label.message for label in finding.labels)


def test_a_loss_that_lacks_its_terms_on_one_way_is_not_reported(build: Any, another: Any, found: Any) -> None:
    build.decide(2, "mask.any()", False)
    build.backward(4, Root(None, "no", "loss"))
    other = another()
    other.decide(2, "mask.any()", True)
    other.backward(4, other.node(3, other.leaf(1), saves=[0]))
    assert found(build, other) == []


def test_a_condition_that_was_only_tried_one_way_may_give_it_a_graph(build: Any, found: Any) -> None:
    build.decide(2, "kind == 'yolo'", False)
    build.backward(4, Root(None, "no", "loss"))
    assert len(found(build)) == 1
    span = build.site(2).span
    build.tape.untried = frozenset([(span.file, span.line, span.column)])
    assert found(build) == []


@pytest.mark.parametrize("made", ["-given(w)", "+given(w)", "given(w) * 2", "given(w)[0]", "given(w).mean()"])
def test_what_nobody_knows_is_called_as_the_program_calls_it(made: str) -> None:
    text = f"""\
import torch
from hidden import given

w = torch.ones(2, requires_grad=True)
with torch.no_grad():
    loss = {made}
loss.backward()
loss.backward()
"""
    tapes = check(from_text(text, "train.py")).interpretation.tapes
    calls = [event for tape in tapes for event in tape.events if isinstance(event, Backward)]
    assert {root.name for call in calls for root in call.roots} == {"loss"}
